#include "fs/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/path.h"

enum {
        RACES_MAX = 256, /* the kernel gives up on ".." while somebody renames: ask again */
        FLAGS_PATH = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, /* all that O_PATH may have */
};

struct fsroot {
        atomic_uint refs;
        int fd;             /* of dir; -1 = the whole file system */
        char *dir, *given;  /* without links, and as it was named; both are understood */
        char *home;         /* where relative paths begin; always at or below dir */
        bool walks_by_hand; /* the kernel has no openat2(), or somebody forbids it */
};

/* ---- life ---- */

static int openat2_call(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
        struct open_how how = {
                .flags = (uint64_t) (flags & O_PATH ? flags & FLAGS_PATH : flags),
                .mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode : 0,
                .resolve = resolve,
        };

        return (int) syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* What lies behind `dir` in an absolute path, without leading slashes; NULL = it is elsewhere. */
static const char *path_below(const char *dir, const char *path)
{
        size_t n = strlen(dir);

        while (n && dir[n - 1] == '/')
                n--;
        if (strncmp(dir, path, n) != 0 || (path[n] && path[n] != '/'))
                return NULL;
        return path + n + strspn(path + n, "/");
}

static int open_dir(struct fsroot *r, const char *dir, struct error *err)
{
        int probe;

        r->dir = realpath(dir, NULL);
        if (!r->dir) {
                (void) error_set(err, ERR_INVALID, errno, "use '%s' as root of files", dir);
                return -1;
        }
        r->given = xstrdup(dir[0] == '/' ? dir : r->dir);
        r->fd = open(r->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (r->fd < 0)
                return error_set(err, ERR_INVALID, errno, "use '%s' as root of files", dir);
        probe = openat2_call(r->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_BENEATH);
        r->walks_by_hand = probe < 0;
        closep(&probe);
        return 0;
}

int fsroot_open(const char *dir, const char *home, struct fsroot **ret, struct error *err)
{
        struct fsroot *r = NEW(struct fsroot);
        _cleanup_free_ char *real = home && home[0] == '/' ? realpath(home, NULL) : NULL;

        r->refs = 1;
        r->fd = -1;
        if (dir && open_dir(r, dir, err) < 0) {
                fsroot_free(r);
                return -1;
        }
        if (!dir)
                r->home = xstrdup(home && home[0] == '/' ? home : "/");
        else
                r->home = xstrdup(real && path_below(r->dir, real) ? real : r->dir);
        *ret = r;
        return 0;
}

struct fsroot *fsroot_ref(const struct fsroot *r)
{
        struct fsroot *mine = (struct fsroot *) r; /* only the count changes */

        atomic_fetch_add_explicit(&mine->refs, 1, memory_order_relaxed);
        return mine;
}

struct fsroot *fsroot_free(struct fsroot *r)
{
        if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1)
                return NULL;
        closep(&r->fd);
        free(r->dir);
        free(r->given);
        free(r->home);
        free(r);
        return NULL;
}

const char *fsroot_dir(const struct fsroot *r)
{
        return r->dir;
}

const char *fsroot_home(const struct fsroot *r)
{
        return r->home;
}

void fsroot_walk_by_hand(struct fsroot *r)
{
        r->walks_by_hand = true;
}

/* ---- text → absolute path ---- */

static int check_text(struct slice text, struct error *err)
{
        if (memchr(text.at, '\0', text.len))
                return error_set(err, ERR_INVALID, 0, "path must not contain a NUL byte");
        if (utf8_check(text.at, text.len) != text.len)
                return error_set(err, ERR_INVALID, 0, "path must be valid UTF-8");
        return 0;
}

static int check_parts(struct slice path, struct error *err)
{
        struct slice rest = path, part;

        if (path.len >= PATH_BYTES_MAX)
                return error_set(err, ERR_INVALID, 0, "path of %zu bytes, at most %d are allowed",
                                 path.len, PATH_BYTES_MAX - 1);
        while (slice_cut(&rest, '/', &part))
                if (part.len > PATH_PART_MAX)
                        return error_set(err, ERR_INVALID, 0,
                                         "path component of %zu bytes, at most %d are allowed",
                                         part.len, PATH_PART_MAX);
        return 0;
}

/* Appends a relative path, "." and doubled slashes left out. */
static int add_relative(struct buf *b, struct slice text, struct error *err)
{
        struct slice rest = text, part;

        while (slice_cut(&rest, '/', &part)) {
                if (slice_eq(part, ".."))
                        return error_set(err, ERR_INVALID, 0, "invalid relative path: %.*s",
                                         (int) MIN(text.len, 300u), text.at);
                if (!part.len || slice_eq(part, "."))
                        continue;
                if (!b->len || b->data[b->len - 1] != '/')
                        buf_putc(b, '/');
                buf_put(b, part.at, part.len);
        }
        return 0;
}

int fsroot_resolve(const struct fsroot *r, struct slice text, char **ret, struct error *err)
{
        struct buf b = { 0 };
        int n = check_text(text, err);

        if (n == 0 && text.len && text.at[0] == '/') {
                buf_put(&b, text.at, text.len);
        } else if (n == 0) {
                if (text.len && text.at[0] == '~' && (text.len == 1 || text.at[1] == '/'))
                        text = (struct slice) { text.at + 1, text.len - 1 };
                buf_puts(&b, r->home);
                n = add_relative(&b, text, err);
        }
        if (n == 0)
                n = check_parts((struct slice) { b.data, b.len }, err);
        if (n == 0)
                *ret = buf_take(&b);
        buf_done(&b);
        return n;
}

/* ---- absolute path → descriptor ---- */

/* "a/./b//../c" → "a/c" in place; false when it climbs out. Right only where no link is followed.
 */
static bool fold_dots(char *path)
{
        char *out = path, *next = path;

        while (*next) {
                char *part = next;
                size_t n = strcspn(part, "/");

                next = part + n + (part[n] == '/');
                if (n == 0 || (n == 1 && part[0] == '.'))
                        continue;
                if (n == 2 && part[0] == '.' && part[1] == '.') {
                        if (out == path)
                                return false;
                        while (out > path && *--out != '/')
                                ;
                        continue;
                }
                if (out > path)
                        *out++ = '/';
                memmove(out, part, n);
                out += n;
        }
        *out = '\0';
        return true;
}

/* One component, never through a link: ELOOP. O_PATH alone would open the link itself. */
static int step(int at, const char *part, int flags, mode_t mode)
{
        int fd = openat(at, part, flags | O_NOFOLLOW, mode), why = errno;
        struct stat st;

        if (fd < 0 && why != ENOTDIR)
                return -1;
        if (!(flags & O_NOFOLLOW) && (fd < 0 || (flags & O_PATH)) &&
            fstatat(fd < 0 ? at : fd, fd < 0 ? part : "", &st,
                    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0 &&
            S_ISLNK(st.st_mode)) {
                closep(&fd);
                fd = -1;
                why = ELOOP;
        }
        errno = why;
        return fd;
}

/* Without openat2: one component after the other, no link is followed. */
static int walk(int root, const char *below, int flags, mode_t mode)
{
        _cleanup_free_ char *path = xstrdup(below);
        _cleanup_close_ int at = -1;
        char *part = path, *slash;
        int fd;

        if (!fold_dots(path)) {
                errno = EXDEV;
                return -1;
        }
        for (; (slash = strchr(part, '/')); part = slash + 1) {
                *slash = '\0';
                fd = step(at < 0 ? root : at, part, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
                if (fd < 0)
                        return -1;
                closep(&at);
                at = fd;
        }
        return step(at < 0 ? root : at, *part ? part : ".", flags, mode);
}

/* The part of an absolute path behind the root; NULL = it is elsewhere. */
static const char *below_root(const struct fsroot *r, const char *path)
{
        const char *below = path_below(r->dir, path);

        return below ? below : path_below(r->given, path);
}

static int open_below(const struct fsroot *r, const char *path, int flags, mode_t mode)
{
        const char *below = below_root(r, path);
        int fd = -1;

        if (!below) {
                errno = EXDEV;
                return -1;
        }
        if (!*below)
                below = ".";
        if (r->walks_by_hand)
                return walk(r->fd, below, flags, mode);
        for (int i = 0; i < RACES_MAX; i++) {
                fd = openat2_call(r->fd, below, flags, mode,
                                  RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
                if (fd >= 0 || errno != EAGAIN)
                        break;
                (void) sched_yield();
        }
        return fd;
}

/* -1 with errno. ELOOP below a root is a link that is not followed there: EXDEV, like all others.
 */
static int open_path(const struct fsroot *r, const char *path, int flags, mode_t mode)
{
        int fd;

        flags |= O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
        if (!r->dir)
                return open(path, flags, mode);
        fd = open_below(r, path, flags, mode);
        if (fd < 0 && errno == ELOOP && !(flags & O_NOFOLLOW))
                errno = EXDEV;
        return fd;
}

int fsroot_openat(const struct fsroot *r, const char *path, int flags, mode_t mode,
                  struct error *err)
{
        int fd = open_path(r, path, flags, mode);

        return fd >= 0 ? fd : fs_error(err, errno, "open", path);
}

int fsroot_open_cached(const struct fsroot *r, const char *path)
{
        const char *below = r->fd < 0 ? path : below_root(r, path);

        if (!below || r->walks_by_hand)
                return -1;
        if (r->fd < 0)
                return openat2_call(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_CACHED);
        return openat2_call(r->fd, *below ? below : ".", O_PATH | O_CLOEXEC, 0,
                            RESOLVE_CACHED | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

int fsroot_stat(const struct fsroot *r, const char *path, struct stat *ret, struct error *err)
{
        _cleanup_close_ int fd = -1;

        if (r->fd < 0)
                return stat(path, ret) == 0 ? 0 : fs_error(err, errno, "look at", path);
        fd = open_path(r, path, O_PATH, 0);
        if (fd < 0 || fstat(fd, ret) < 0)
                return fs_error(err, errno, "look at", path);
        return 0;
}

/* ---- the directory of a name ---- */

/* Opens `parent`, making what is missing: each prefix is opened from the root again, so that a
 * directory which somebody swaps for a link meanwhile leads nowhere. */
static int make_dirs(const struct fsroot *r, const char *parent)
{
        _cleanup_free_ char *path = xstrdup(parent);
        _cleanup_close_ int at = r->fd < 0 ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        char *end = path;

        do {
                char *part = end + strspn(end, "/"), was;
                int fd;

                end = part + strcspn(part, "/");
                was = *end;
                *end = '\0';
                fd = open_path(r, path, O_PATH | O_DIRECTORY, 0);
                /* the way down to the root itself is not ours to look at */
                if (fd < 0 && errno == EXDEV && at < 0 && was) {
                        *end = was;
                        continue;
                }
                if (fd < 0 && errno == ENOENT && at >= 0) {
                        if (mkdirat(at, part, 0777) < 0 && errno != EEXIST)
                                return -1;
                        fd = open_path(r, path, O_PATH | O_DIRECTORY, 0);
                }
                if (fd < 0)
                        return -1;
                closep(&at);
                at = fd;
                *end = was;
        } while (*end);
        return TAKE_FD(at);
}

/* Cuts the last component off: its start, or NULL when there is none to work with. */
static char *cut_last(char *path)
{
        size_t n = strlen(path);
        char *last;

        for (;;) {
                while (n && path[n - 1] == '/')
                        n--;
                if (n < 2 || path[n - 1] != '.' || path[n - 2] != '/')
                        break;
                n--; /* "/a/." is "/a" */
        }
        path[n] = '\0';
        last = strrchr(path, '/');
        if (!last || !last[1] || strcmp(last + 1, "..") == 0)
                return NULL;
        return last + 1;
}

int fsroot_parent(const struct fsroot *r, const char *path, bool make, int *ret_fd, char **ret_name,
                  struct error *err)
{
        _cleanup_free_ char *parent = xstrdup(path), *name = NULL;
        char *last = cut_last(parent);
        const char *below = r->dir ? below_root(r, parent) : NULL;
        int fd;

        if (!last || (below && !*below))
                return error_set(err, ERR_INVALID, 0, "path has no name of its own: %s", path);
        name = xstrdup(last);
        *last = '\0';
        fd = open_path(r, parent, O_PATH | O_DIRECTORY, 0);
        if (fd < 0 && errno == ENOENT && make)
                fd = make_dirs(r, parent);
        if (fd < 0)
                return fs_error(err, errno,
                                make ? "make the directory of" : "open the directory of", path);
        *ret_fd = fd;
        *ret_name = TAKE_PTR(name);
        return 0;
}
