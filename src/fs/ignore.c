/* The rules of gitignore(5), as git itself reads them. */
#include "fs/ignore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "fs/glob.h"
#include "fs/root.h"

struct rule {
        const char *text;     /* behind the literal beginning; in ignore.text */
        struct slice literal; /* what the name must begin with; all of it when text is empty */
        bool is_negated, is_dir_only, is_base; /* is_base: compared with the last component */
};

/* One level: the rules of one file, for what lies below `dir`. Levels form a tree (a directory's
 * children share it); each one has exactly one owner, who takes it off again. */
struct ignore {
        struct ignore *above;
        char *dir; /* without a slash at the end; "" for the root */
        size_t dir_len;
        char *text;
        struct rule *rules;
        size_t n;
        bool is_top; /* of a repository: rules above do not count */
};

/* Spaces at the end do not count, unless a backslash stands before them. */
static size_t line_len(const char *s, size_t len)
{
        size_t keep = 0;

        for (size_t i = 0; i < len; i++) {
                if (s[i] == '\\' && i + 1 < len)
                        keep = ++i + 1;
                else if (s[i] != ' ')
                        keep = i + 1;
        }
        return keep;
}

/* `s` is a line of the level's own text and may be written to. */
static bool rule_parse(char *s, size_t len, struct rule *ret)
{
        if (len && s[len - 1] == '\r')
                len--;
        if (!len || *s == '#')
                return false;
        len = line_len(s, len);
        *ret = (struct rule) { .is_negated = *s == '!' };
        s += ret->is_negated;
        len -= MIN(len, (size_t) ret->is_negated);
        if (len && s[len - 1] == '/') {
                ret->is_dir_only = true;
                len--;
        }
        if (!len)
                return false;
        s[len] = '\0';
        ret->is_base = !strchr(s, '/');
        if (*s == '/')
                s++;
        /* git compares the part before the first special character apart, and so a "**" right
         * behind it counts as one at the beginning. */
        ret->literal = (struct slice) { s, strcspn(s, "*?[\\") };
        ret->text = s + ret->literal.len;
        return true;
}

static void rules_done(struct ignore *i)
{
        free(i->text);
        free(i->rules);
        i->text = NULL;
        i->rules = NULL;
        i->n = 0;
}

static void rules_parse(struct ignore *i, struct slice text)
{
        static const char bom[] = "\xef\xbb\xbf";
        size_t cap = 0;
        char *line, *end;

        rules_done(i);
        if (text.len >= 3 && memcmp(text.at, bom, 3) == 0)
                text = (struct slice) { text.at + 3, text.len - 3 };
        if (!text.len)
                return;
        i->text = xmalloc(text.len + 1);
        memcpy(i->text, text.at, text.len);
        end = i->text + text.len;
        *end = '\0';
        for (line = i->text; line < end;) {
                char *nl = memchr(line, '\n', (size_t) (end - line));
                char *stop = nl ? nl : end;

                if (i->n == cap) {
                        cap = cap ? cap * 2 : 16;
                        i->rules = xrealloc(i->rules, cap * sizeof(*i->rules));
                }
                i->n += rule_parse(line, (size_t) (stop - line), &i->rules[i->n]);
                line = stop + 1;
        }
}

static void set_dir(struct ignore *i, const char *dir)
{
        size_t len = strlen(dir);

        while (len && dir[len - 1] == '/')
                len--;
        free(i->dir);
        i->dir = xstrndup(dir, len);
        i->dir_len = len;
}

struct ignore *ignore_push(struct ignore *above, const char *dir, struct slice text)
{
        struct ignore *i = NEW(struct ignore);

        i->above = above;
        set_dir(i, dir);
        rules_parse(i, text);
        return i;
}

struct ignore *ignore_pop(struct ignore *i)
{
        struct ignore *above;

        if (!i)
                return NULL;
        above = i->above;
        rules_done(i);
        free(i->dir);
        free(i);
        return above;
}

struct ignore *ignore_leave(struct ignore *i, struct ignore *above)
{
        while (i != above)
                i = ignore_pop(i);
        return i;
}

void ignore_move(struct ignore *i, const struct ignore *above, struct ignore *new_above,
                 const char *dir)
{
        while (i != above) {
                struct ignore *next = i->above;

                set_dir(i, dir);
                if (next == above)
                        i->above = new_above;
                i = next;
        }
}

/* ---- asking ---- */

/* path below the level's directory, and its last component */
static bool rule_fits(const struct rule *r, struct slice path, struct slice base, bool is_dir)
{
        struct slice name = r->is_base ? base : path;

        if (r->is_dir_only && !is_dir)
                return false;
        if (name.len < r->literal.len || memcmp(name.at, r->literal.at, r->literal.len) != 0)
                return false;
        if (!*r->text)
                return name.len == r->literal.len;
        return wild_match(r->text, name.at + r->literal.len, 0);
}

/* 1 = ignored, 0 = kept, -1 = nothing said */
static int level_says(const struct ignore *i, const char *path, size_t len, bool is_dir)
{
        const char *slash = strrchr(path, '/');
        struct slice below, base;

        if (!i->n || len <= i->dir_len + 1 || path[i->dir_len] != '/' ||
            memcmp(path, i->dir, i->dir_len) != 0)
                return -1;
        below = (struct slice) { path + i->dir_len + 1, len - i->dir_len - 1 };
        base = (struct slice) { slash + 1, len - (size_t) (slash + 1 - path) };
        for (size_t n = i->n; n-- > 0;)
                if (rule_fits(&i->rules[n], below, base, is_dir))
                        return !i->rules[n].is_negated;
        return -1;
}

bool ignore_has(const struct ignore *i, const char *path, bool is_dir)
{
        size_t len = strlen(path);

        for (; i; i = i->is_top ? NULL : i->above) {
                int says = level_says(i, path, len, is_dir);

                if (says >= 0)
                        return says;
        }
        return false;
}

/* ---- on disk ---- */

/* A file that cannot be read has no rules. Links are not followed, as git does not. */
static void read_rules(int dir_fd, const char *name, struct buf *ret)
{
        _cleanup_close_ int fd =
                openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        ssize_t n;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        while (ret->len < IGNORE_FILE_MAX && (n = read(fd, buf_room(ret, 4096), 4096)) > 0)
                buf_grew(ret, (size_t) n);
}

static struct ignore *push_file(struct ignore *above, int dir_fd, const char *path,
                                const char *name)
{
        _cleanup_(buf_done) struct buf b = { 0 };

        read_rules(dir_fd, name, &b);
        return ignore_push(above, path, (struct slice) { b.data, b.len });
}

static bool is_repository(int dir_fd)
{
        struct stat st;

        return fstatat(dir_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode));
}

struct ignore *ignore_enter(struct ignore *above, int dir_fd, const char *path)
{
        if (is_repository(dir_fd)) {
                above = push_file(above, dir_fd, path, ".git/info/exclude");
                above->is_top = true;
        }
        return push_file(above, dir_fd, path, ".gitignore");
}

void ignore_reload(struct ignore *i, int dir_fd)
{
        _cleanup_(buf_done) struct buf b = { 0 };

        read_rules(dir_fd, ".gitignore", &b);
        rules_parse(i, (struct slice) { b.data, b.len });
}

static int open_dir(const struct fsroot *r, const char *path, size_t len)
{
        _cleanup_free_ char *dir = xstrndup(path, MAX(len, (size_t) 1));

        return fsroot_openat(r, dir, O_PATH | O_DIRECTORY, 0, NULL);
}

static size_t parent_len(const char *path, size_t len)
{
        while (len && path[len - 1] != '/')
                len--;
        return len ? len - 1 : 0;
}

/* Length of the top directory of the repository above path; -1 = none. */
static ssize_t find_top(const struct fsroot *r, const char *path)
{
        for (size_t len = strlen(path); len > 0;) {
                _cleanup_close_ int fd = -1;

                len = parent_len(path, len);
                fd = open_dir(r, path, len);
                if (fd < 0)
                        return -1; /* beyond what we may see */
                if (is_repository(fd))
                        return (ssize_t) len;
        }
        return -1;
}

struct ignore *ignore_parents(const struct fsroot *r, const char *path)
{
        struct ignore *i = NULL;
        _cleanup_close_ int own = fsroot_openat(r, path, O_PATH | O_DIRECTORY, 0, NULL);
        ssize_t top = own >= 0 && is_repository(own) ? -1 : find_top(r, path);
        size_t len = strlen(path);

        if (top < 0)
                return NULL;
        for (size_t at = (size_t) top; at < len;) {
                _cleanup_close_ int fd = open_dir(r, path, at);
                _cleanup_free_ char *dir = xstrndup(path, at);

                if (fd >= 0)
                        i = ignore_enter(i, fd, dir);
                at += 1 + strcspn(path + at + 1, "/");
        }
        return i;
}
