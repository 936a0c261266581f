#include "fs/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "fs/ignore.h"

struct level {
        DIR *dir;
        size_t path_len;
        struct ignore *rules; /* on top of those of the level above */
};

struct walk {
        const struct walk_spec *spec;
        struct ignore *parents;
        struct buf path;
        size_t below; /* where the relative path begins */
        struct level levels[WALK_DEPTH_MAX];
        size_t n;
};

static void skip(struct walk *w)
{
        if (w->spec->on_skip)
                w->spec->on_skip(w->spec->arg);
}

static struct ignore *rules_above(struct walk *w)
{
        return w->n ? w->levels[w->n - 1].rules : w->parents;
}

/* Takes fd, also when it fails. */
static void level_push(struct walk *w, int fd)
{
        struct level *l = &w->levels[w->n];
        struct ignore *above = rules_above(w);

        *l = (struct level) { .dir = fdopendir(fd), .path_len = w->path.len, .rules = above };
        if (!l->dir) {
                (void) close(fd);
                skip(w);
                return;
        }
        if (!w->spec->with_ignored)
                l->rules = ignore_enter(above, fd, w->path.data);
        w->n++;
}

static void level_pop(struct walk *w)
{
        struct level *l = &w->levels[--w->n];

        (void) ignore_leave(l->rules, rules_above(w));
        (void) closedir(l->dir);
}

static void path_cut(struct walk *w, size_t len)
{
        w->path.len = len;
        w->path.data[len] = '\0';
}

static void path_add(struct walk *w, const char *name)
{
        if (!w->path.len || w->path.data[w->path.len - 1] != '/')
                buf_putc(&w->path, '/');
        buf_puts(&w->path, name);
}

/* Some file systems do not say the type with the name. */
static unsigned char type_of(int dir_fd, const struct dirent *d)
{
        struct stat st;

        if (d->d_type != DT_UNKNOWN)
                return d->d_type;
        if (fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return DT_UNKNOWN;
        return (unsigned char) IFTODT(st.st_mode);
}

static bool is_wanted(struct walk *w, const char *name, bool is_dir)
{
        const struct walk_spec *s = w->spec;

        if (name[0] == '.') {
                if (!name[1] || (name[1] == '.' && !name[2]))
                        return false;
                if (!s->with_hidden || (!s->with_ignored && strcmp(name, ".git") == 0))
                        return false;
        }
        return s->with_ignored || !ignore_has(rules_above(w), w->path.data, is_dir);
}

static void enter(struct walk *w, const struct walk_entry *e)
{
        int fd = -1;

        if (w->n < WALK_DEPTH_MAX)
                fd = openat(e->dir_fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
                level_push(w, fd);
        else
                skip(w);
}

static int take(struct walk *w, const struct dirent *d, struct error *err)
{
        int fd = dirfd(w->levels[w->n - 1].dir);
        struct walk_entry e = { .dir_fd = fd, .name = d->d_name };
        unsigned char type = type_of(fd, d);
        int r;

        path_add(w, d->d_name);
        e.path = w->path.data;
        e.below = w->path.data + w->below;
        e.is_dir = type == DT_DIR;
        e.is_file = type == DT_REG;
        if (!is_wanted(w, d->d_name, e.is_dir))
                return 0;
        r = w->spec->on_entry(w->spec->arg, &e, err);
        if (r > 0 && e.is_dir)
                enter(w, &e);
        return r;
}

static int run(struct walk *w, struct error *err)
{
        while (w->n) {
                struct level *l = &w->levels[w->n - 1];
                const struct dirent *d;

                path_cut(w, l->path_len);
                d = readdir(l->dir);
                if (!d)
                        level_pop(w);
                else if (take(w, d, err) < 0)
                        return -1;
        }
        return 0;
}

int walk_tree(const struct fsroot *r, int dir_fd, const struct walk_spec *spec, struct error *err)
{
        struct walk *w = NEW(struct walk); /* too large for a thread's stack */
        int ret;

        w->spec = spec;
        buf_puts(&w->path, spec->path);
        w->below = w->path.len + (spec->path[w->path.len - 1] != '/');
        if (!spec->with_ignored)
                w->parents = ignore_parents(r, spec->path);
        level_push(w, dir_fd);
        ret = run(w, err);
        while (w->n)
                level_pop(w);
        (void) ignore_leave(w->parents, NULL);
        buf_done(&w->path);
        free(w);
        return ret;
}
