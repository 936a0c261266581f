/* Removing names and trees, and making directories. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fs/file.h"
#include "fs/impl.h"
#include "fs/root.h"

enum {
        BLOCK = 8 * 1024,  /* of names, one per level */
        RESCANS_MAX = 100, /* of a directory that somebody else fills while we empty it */
};

int fs_go_on(const struct fs_stop *stop, const char *path, struct error *err)
{
        if (!stop || !stop->is_wanted(stop->arg))
                return 0;
        return error_set(err, ERR_BUSY, 0, "stopped in the middle of '%s'", path);
}

/* One directory on the way down. */
struct level {
        int fd;
        unsigned n_scans;
        size_t at, len; /* in block */
        char *block;
        char *name; /* in the directory above */
};

struct removal {
        struct level *levels;
        size_t n, cap;
        const char *path;
        const struct fs_stop *stop;
        struct error *err;
};

static int push(struct removal *x, int dir, const char *name)
{
        struct level *l;
        int fd;

        if (x->n >= FS_DEPTH_MAX)
                return error_set(x->err, ERR_TOO_BIG, 0, "'%s' is more than %d directories deep",
                                 x->path, FS_DEPTH_MAX);
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : fs_error(x->err, errno, "open", x->path);
        if (x->n == x->cap) {
                x->cap = x->cap ? x->cap * 2 : 16;
                x->levels = xrealloc(x->levels, x->cap * sizeof(*x->levels));
        }
        l = &x->levels[x->n++];
        *l = (struct level) { .fd = fd, .block = xmalloc(BLOCK), .name = xstrdup(name) };
        return 0;
}

static void pop(struct removal *x)
{
        struct level *l = &x->levels[--x->n];

        closep(&l->fd);
        free(l->block);
        free(l->name);
}

/* One name of the directory: gone, or the next level. */
static int remove_entry(struct removal *x, int dir, const char *name, unsigned char type)
{
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return 0;
        if (type != DT_DIR) {
                if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
                        return 0;
                if (errno != EISDIR && errno != EPERM)
                        return fs_error(x->err, errno, "remove from", x->path);
                if (type != DT_UNKNOWN && errno == EPERM)
                        return fs_error(x->err, errno, "remove from", x->path);
        }
        return push(x, dir, name);
}

/* Empty as far as one can see: the directory itself. Filled again meanwhile: once more. */
static int leave(struct removal *x, int dir)
{
        struct level *l = &x->levels[x->n - 1];

        if (x->n > 1)
                dir = x->levels[x->n - 2].fd;
        if (unlinkat(dir, l->name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
                pop(x);
                return 0;
        }
        if ((errno != ENOTEMPTY && errno != EEXIST) || ++l->n_scans > RESCANS_MAX)
                return fs_error(x->err, errno, "remove", x->path);
        return lseek(l->fd, 0, SEEK_SET) < 0 ? fs_error(x->err, errno, "list", x->path) : 0;
}

static int step(struct removal *x, int dir)
{
        struct level *l = &x->levels[x->n - 1];
        const struct dirent64 *d;

        if (fs_go_on(x->stop, x->path, x->err) < 0)
                return -1;
        if (l->at == l->len) {
                ssize_t n = getdents64(l->fd, l->block, BLOCK);

                if (n < 0)
                        return fs_error(x->err, errno, "list", x->path);
                l->at = 0;
                l->len = (size_t) n;
                if (n == 0)
                        return leave(x, dir);
        }
        d = (const void *) (l->block + l->at);
        l->at += d->d_reclen;
        return remove_entry(x, l->fd, d->d_name, d->d_type);
}

int fs_remove_tree(int dir, const char *name, const char *path, const struct fs_stop *stop,
                   struct error *err)
{
        struct removal x = { .path = path, .stop = stop, .err = err };
        struct stat st;
        int n;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fs_error(err, errno, "remove", path);
        if (!S_ISDIR(st.st_mode))
                return unlinkat(dir, name, 0) == 0 ? 0 : fs_error(err, errno, "remove", path);
        n = push(&x, dir, name);
        while (n == 0 && x.n)
                n = step(&x, dir);
        while (x.n)
                pop(&x);
        free(x.levels);
        return n;
}

/* ---- what must stay ---- */

static bool is_on_the_way(const char *path, const struct stat *st)
{
        _cleanup_free_ char *p = xstrdup(path);
        struct stat seen;

        for (char *slash = p + strlen(p); slash; slash = strrchr(p, '/')) {
                *slash = '\0';
                if (stat(*p ? p : "/", &seen) == 0 && seen.st_dev == st->st_dev &&
                    seen.st_ino == st->st_ino)
                        return true;
        }
        return false;
}

bool fs_is_vital(const struct fsroot *r, const struct stat *st)
{
        const char *dir = fsroot_dir(r);

        return S_ISDIR(st->st_mode) &&
               (is_on_the_way(fsroot_home(r), st) || (dir && is_on_the_way(dir, st)));
}

/* ---- the public ones ---- */

int fs_remove_until(const struct fsroot *r, const char *path, bool is_recursive,
                    const struct fs_stop *stop, struct error *err)
{
        _cleanup_close_ int dir = -1;
        _cleanup_free_ char *name = NULL;
        struct stat st;

        if (fsroot_parent(r, path, false, &dir, &name, err) < 0)
                return -1;
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fs_error(err, errno, "remove", path);
        if (fs_is_vital(r, &st))
                return error_set(err, ERR_INVALID, 0,
                                 "the root, the home directory and what is above them cannot be "
                                 "removed: %s",
                                 path);
        if (is_recursive)
                return fs_remove_tree(dir, name, path, stop, err);
        if (unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) == 0)
                return 0;
        if (errno == ENOTEMPTY || errno == EEXIST)
                return error_set(err, ERR_CONFLICT, 0, "directory not empty: %s", path);
        return fs_error(err, errno, "remove", path);
}

int fs_remove(const struct fsroot *r, const char *path, bool is_recursive, struct error *err)
{
        return fs_remove_until(r, path, is_recursive, NULL, err);
}

int fs_mkdir(const struct fsroot *r, const char *path, struct error *err)
{
        _cleanup_close_ int dir = -1;
        _cleanup_free_ char *name = NULL;
        struct error why = { 0 };
        struct stat st;

        /* also for what has no name of its own: "/", the root */
        if (fsroot_stat(r, path, &st, &why) == 0)
                return S_ISDIR(st.st_mode)
                               ? 0
                               : error_set(err, ERR_CONFLICT, 0,
                                           "path exists and is not a directory: %s", path);
        if (why.kind != ERR_NOT_FOUND) {
                if (err)
                        *err = why;
                return -1;
        }
        if (fsroot_parent(r, path, true, &dir, &name, err) < 0)
                return -1;
        if (mkdirat(dir, name, 0777) == 0)
                return 0;
        if (errno != EEXIST)
                return fs_error(err, errno, "make", path);
        if (fsroot_stat(r, path, &st, NULL) == 0 && S_ISDIR(st.st_mode))
                return 0; /* somebody was faster */
        return error_set(err, ERR_CONFLICT, 0, "path exists and is not a directory: %s", path);
}
