/* Moving names, in one step wherever the kernel can. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/file.h"
#include "fs/impl.h"
#include "fs/root.h"

struct move {
        const struct fsroot *root;
        const char *from, *to;
        int from_dir, to_dir; /* O_PATH */
        char *from_name, *to_name;
        struct stat src, dst;
        bool has_dst, is_overwrite;
        const struct fs_stop *stop;
};

static void move_done(struct move *m)
{
        closep(&m->from_dir);
        closep(&m->to_dir);
        free(m->from_name);
        free(m->to_name);
}

static int exists_already(const struct move *m, struct error *err)
{
        return error_set(err, ERR_INVALID, 0, "destination already exists: %s", m->to);
}

/* Is `path` below `dir`, by their text? */
static bool is_below(const char *dir, const char *path)
{
        size_t n = strlen(dir);

        while (n && dir[n - 1] == '/')
                n--;
        return strncmp(dir, path, n) == 0 && path[n] == '/' && path[n + strspn(path + n, "/")];
}

static bool is_same_name(const struct move *m)
{
        struct stat a, b;

        return strcmp(m->from_name, m->to_name) == 0 && fstat(m->from_dir, &a) == 0 &&
               fstat(m->to_dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* 1 = go on, 0 = nothing to do. The source is known to be there before anything is made. */
static int prepare(struct move *m, struct error *err)
{
        if (fsroot_parent(m->root, m->from, false, &m->from_dir, &m->from_name, err) < 0)
                return -1;
        if (fstatat(m->from_dir, m->from_name, &m->src, AT_SYMLINK_NOFOLLOW) < 0)
                return fs_error(err, errno, "move", m->from);
        if (is_below(m->from, m->to))
                return error_set(err, ERR_INVALID, 0, "cannot move '%s' into itself", m->from);
        if (is_below(m->to, m->from))
                return m->is_overwrite
                               ? error_set(err, ERR_INVALID, 0,
                                           "cannot replace '%s', which holds '%s'", m->to, m->from)
                               : exists_already(m, err);
        if (fsroot_parent(m->root, m->to, true, &m->to_dir, &m->to_name, err) < 0)
                return -1;
        if (is_same_name(m))
                return 0;
        m->has_dst = fstatat(m->to_dir, m->to_name, &m->dst, AT_SYMLINK_NOFOLLOW) == 0;
        if (m->has_dst && !m->is_overwrite)
                return exists_already(m, err);
        if (m->has_dst && fs_is_vital(m->root, &m->dst))
                return error_set(err, ERR_INVALID, 0,
                                 "the root, the home directory and what is above them cannot be "
                                 "replaced: %s",
                                 m->to);
        return 1;
}

/* One rename of dir/name to the target. Two names of one file count as moved already for the
 * kernel, which then leaves both. */
static int rename_to(const struct move *m, int dir, const char *name)
{
        if (m->is_overwrite) {
                if (m->has_dst && m->dst.st_ino == m->src.st_ino &&
                    m->dst.st_dev == m->src.st_dev && !S_ISDIR(m->src.st_mode))
                        return unlinkat(m->from_dir, m->from_name, 0);
                return renameat(dir, name, m->to_dir, m->to_name);
        }
        if (renameat2(dir, name, m->to_dir, m->to_name, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return -1;
        /* a file system that cannot: prepare() has looked a moment ago */
        return renameat(dir, name, m->to_dir, m->to_name);
}

/* What stands in the way of a rename can be swapped out. */
static bool wants_swap(const struct move *m, int why)
{
        return m->is_overwrite &&
               (why == ENOTEMPTY || why == EEXIST || why == EISDIR || why == ENOTDIR);
}

static int rename_failed(const struct move *m, int why, struct error *err)
{
        if (why == EEXIST)
                return exists_already(m, err);
        if (why == EINVAL)
                return error_set(err, ERR_INVALID, 0, "cannot move '%s' into itself", m->from);
        return fs_error(err, why, "move", m->from);
}

/* Takes dir/name away, which nobody wants any more. A tree steps out of its name first: were its
 * removal stopped in the middle, the rest of it would be taken for the source of the next try. */
static int discard(const struct move *m, int dir, const char *name, const char *path,
                   struct error *err)
{
        char aside[FS_TEMP_BYTES];

        if (unlinkat(dir, name, 0) == 0)
                return 0;
        if (errno != EISDIR)
                return fs_error(err, errno, "remove", path);
        fs_temp_name(aside);
        if (renameat(dir, name, dir, aside) < 0)
                return fs_error(err, errno, "remove", path);
        if (fs_remove_tree(dir, aside, path, m->stop, err) < 0)
                return error_wrap(err, "'%s' is moved, but '%s' is left over", m->from, aside);
        return 0;
}

/* Trades places with the target, then what was the target goes. Where names cannot be traded, the
 * target steps aside first and comes back if that fails. */
static int swap_to(const struct move *m, int dir, const char *name, struct error *err)
{
        char aside[FS_TEMP_BYTES];
        int why;

        if (renameat2(dir, name, m->to_dir, m->to_name, RENAME_EXCHANGE) == 0)
                return discard(m, dir, name, m->to, err);
        if (errno != EINVAL && errno != ENOSYS)
                return rename_failed(m, errno, err);
        fs_temp_name(aside);
        if (renameat(m->to_dir, m->to_name, m->to_dir, aside) < 0)
                return rename_failed(m, errno, err);
        if (renameat(dir, name, m->to_dir, m->to_name) < 0) {
                why = errno;
                (void) renameat(m->to_dir, aside, m->to_dir, m->to_name);
                return rename_failed(m, why, err);
        }
        return discard(m, m->to_dir, aside, m->to, err);
}

static int place(const struct move *m, int dir, const char *name, struct error *err)
{
        if (rename_to(m, dir, name) == 0)
                return 0;
        return wants_swap(m, errno) ? swap_to(m, dir, name, err) : rename_failed(m, errno, err);
}

/* Sooner or later the disk that loses the source knows about it: by then the other must have it. */
static int sync_target(const struct move *m, struct error *err)
{
        _cleanup_close_ int fd = openat(m->to_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0 && syncfs(fd) < 0)
                return fs_error(err, errno, "sync the copy at", m->to);
        return 0;
}

/* To another file system: whole beside the target first, then as above. Nothing is replaced by what
 * could not be taken away. */
static int copy_to(const struct move *m, struct error *err)
{
        char temp[FS_TEMP_BYTES];

        if (faccessat(m->from_dir, ".", W_OK | X_OK, AT_EACCESS) < 0 &&
            (errno == EACCES || errno == EROFS))
                return fs_error(err, errno, "move", m->from);
        if (S_ISSOCK(m->src.st_mode))
                return error_set(err, ERR_UNSUPPORTED, 0,
                                 "a socket cannot move to another file system: %s", m->from);
        fs_temp_name(temp);
        if (fs_copy_tree(m->from_dir, m->from_name, m->to_dir, temp, m->from, m->stop, err) < 0 ||
            place(m, m->to_dir, temp, err) < 0) {
                (void) fs_remove_tree(m->to_dir, temp, m->to, NULL, NULL);
                return -1;
        }
        if (sync_target(m, err) < 0)
                return -1;
        return discard(m, m->from_dir, m->from_name, m->from, err);
}

static int do_move(const struct move *m, bool *ret_is_long, struct error *err)
{
        if (rename_to(m, m->from_dir, m->from_name) == 0)
                return 0;
        if (errno != EXDEV && !wants_swap(m, errno))
                return rename_failed(m, errno, err);
        if (ret_is_long) {
                *ret_is_long = true;
                return 0;
        }
        return errno == EXDEV ? copy_to(m, err) : swap_to(m, m->from_dir, m->from_name, err);
}

static int move(struct move *m, bool *ret_is_long, struct error *err)
{
        int n;

        m->from_dir = m->to_dir = -1;
        n = prepare(m, err);
        if (n == 1)
                n = do_move(m, ret_is_long, err);
        move_done(m);
        return n;
}

int fs_move_quick(const struct fsroot *r, const char *from, const char *to, bool is_overwrite,
                  bool *ret_is_long, struct error *err)
{
        struct move m = { .root = r, .from = from, .to = to, .is_overwrite = is_overwrite };

        *ret_is_long = false;
        return move(&m, ret_is_long, err);
}

int fs_move_until(const struct fsroot *r, const char *from, const char *to, bool is_overwrite,
                  const struct fs_stop *stop, struct error *err)
{
        struct move m = {
                .root = r, .from = from, .to = to, .is_overwrite = is_overwrite, .stop = stop
        };

        return move(&m, NULL, err);
}

int fs_move(const struct fsroot *r, const char *from, const char *to, bool is_overwrite,
            struct error *err)
{
        return fs_move_until(r, from, to, is_overwrite, NULL, err);
}
