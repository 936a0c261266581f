/* A tree, copied: for moves to another file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"
#include "fs/file.h"
#include "fs/impl.h"
#include "fs/root.h"

enum {
        NAMES = 8 * 1024,   /* bytes of names that a level reads at a time */
        BLOCK = 128 * 1024, /* where the kernel does not copy */
        STEP = 64 << 20,    /* what it is asked for at a time */
};

/* One directory on the way down, there and here. */
struct level {
        int in, out;
        struct stat st;
        size_t at, len; /* in block */
        char *block;
};

struct copy {
        struct level *levels; /* on the heap: a thread's stack is small, trees are deep */
        size_t n, cap;
        struct stat top;  /* the first directory that we made */
        const char *path; /* for the words */
        const struct fs_stop *stop;
        struct error *err;
};

static int failed(const struct copy *c, const char *doing)
{
        int why = errno;

        if (fs_go_on(c->stop, c->path, c->err) < 0)
                return -1;
        errno = why;
        return fs_error(c->err, errno, doing, c->path);
}

/* ---- bytes ---- */

static int write_all(int to, const char *at, size_t len)
{
        while (len) {
                ssize_t n = write(to, at, len);

                if (n < 0 && errno != EINTR)
                        return -1;
                if (n > 0) {
                        at += n;
                        len -= (size_t) n;
                }
        }
        return 0;
}

static int copy_by_hand(int from, int to, off_t len, const struct fs_stop *stop)
{
        _cleanup_free_ char *block = xmalloc(BLOCK);

        while (len) {
                ssize_t n = read(from, block, (size_t) MIN(len, (off_t) BLOCK));

                if (fs_go_on(stop, "", NULL) < 0) {
                        errno = EINTR;
                        return -1;
                }
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return (int) n;
                if (write_all(to, block, (size_t) n) < 0)
                        return -1;
                len -= n;
        }
        return 0;
}

/* From where both stand, up to len bytes. The kernel does it where it can; a file of /proc only
 * claims to be empty, so its "end" is checked by reading. */
static int copy_range(int from, int to, off_t len, const struct fs_stop *stop)
{
        while (len) {
                if (fs_go_on(stop, "", NULL) < 0) {
                        errno = EINTR;
                        return -1;
                }
                ssize_t n =
                        copy_file_range(from, NULL, to, NULL, (size_t) MIN(len, (off_t) STEP), 0);

                if (n == 0 || (n < 0 && errno != EIO && errno != ENOSPC && errno != EDQUOT))
                        return copy_by_hand(from, to, len, stop);
                if (n < 0)
                        return -1;
                len -= n;
        }
        return 0;
}

int fs_copy_bytes(int from, int to)
{
        return copy_range(from, to, INT64_MAX, NULL);
}

/* Holes stay holes. */
static int copy_content(int from, int to, off_t size, const struct fs_stop *stop)
{
        off_t data = lseek(from, 0, SEEK_DATA), hole;

        if (data < 0 && errno != ENXIO)
                return lseek(from, 0, SEEK_SET) < 0 ? -1 : copy_range(from, to, INT64_MAX, stop);
        while (data >= 0 && data < size) {
                hole = lseek(from, data, SEEK_HOLE);
                if (hole < 0 || lseek(from, data, SEEK_SET) < 0 || lseek(to, data, SEEK_SET) < 0)
                        return -1;
                if (copy_range(from, to, hole - data, stop) < 0)
                        return -1;
                data = lseek(from, hole, SEEK_DATA);
        }
        return ftruncate(to, size);
}

/* ---- one entry ---- */

static void keep_meta(int fd, const struct stat *st)
{
        const struct timespec times[2] = { st->st_atim, st->st_mtim };

        (void) fs_keep_owner(fd, st); /* as far as it goes: the content is what counts */
        (void) futimens(fd, times);
}

static int copy_file(const struct copy *c, int dir, const char *name, int to, const char *to_name)
{
        _cleanup_close_ int in =
                openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        _cleanup_close_ int out = -1;
        struct stat st;

        if (in < 0 || fstat(in, &st) < 0)
                return failed(c, "read");
        out = openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (out < 0 || copy_content(in, out, st.st_size, c->stop) < 0)
                return failed(c, "copy");
        keep_meta(out, &st);
        return 0;
}

static int copy_link(const struct copy *c, int dir, const char *name, int to, const char *to_name,
                     const struct stat *st)
{
        const struct timespec times[2] = { st->st_atim, st->st_mtim };
        _cleanup_free_ char *text = xmalloc(PATH_BYTES_MAX); /* the stack is for the depth */
        ssize_t n = readlinkat(dir, name, text, PATH_BYTES_MAX - 1);

        if (n < 0)
                return failed(c, "read the link");
        text[n] = '\0';
        if (symlinkat(text, to, to_name) < 0)
                return failed(c, "copy the link");
        if (fchownat(to, to_name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
                errno = 0; /* whose link it is matters to nobody */
        (void) utimensat(to, to_name, times, AT_SYMLINK_NOFOLLOW);
        return 0;
}

/* Two mounts of one file system hide from the kernel that the copy lies in what is copied; going on
 * would copy the copy. */
static int check_top(struct copy *c, const struct level *l)
{
        if (c->n == 0)
                return fstat(l->out, &c->top) < 0 ? failed(c, "copy") : 0;
        if (l->st.st_ino != c->top.st_ino || l->st.st_dev != c->top.st_dev)
                return 0;
        return error_set(c->err, ERR_INVALID, 0, "cannot move '%s' into itself", c->path);
}

/* Begins a directory: its entries follow. */
static int push(struct copy *c, int dir, const char *name, int to, const char *to_name)
{
        struct level l = { .out = -1 };

        if (c->n >= FS_DEPTH_MAX)
                return error_set(c->err, ERR_TOO_BIG, 0, "'%s' is more than %d directories deep",
                                 c->path, FS_DEPTH_MAX);
        l.in = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (l.in < 0 || fstat(l.in, &l.st) < 0 || mkdirat(to, to_name, 0700) < 0 ||
            (l.out = openat(to, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
                (void) failed(c, "copy");
                closep(&l.in);
                return -1;
        }
        if (check_top(c, &l) < 0) {
                closep(&l.in);
                closep(&l.out);
                return -1;
        }
        if (c->n == c->cap) {
                c->cap = c->cap ? c->cap * 2 : 16;
                c->levels = xrealloc(c->levels, c->cap * sizeof(*c->levels));
        }
        l.block = xmalloc(NAMES);
        c->levels[c->n++] = l;
        return 0;
}

static void pop(struct copy *c)
{
        struct level *l = &c->levels[--c->n];

        closep(&l->in);
        closep(&l->out);
        free(l->block);
}

static int copy_any(struct copy *c, int dir, const char *name, int to, const char *to_name)
{
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return failed(c, "look at");
        switch (st.st_mode & S_IFMT) {
        case S_IFREG: return copy_file(c, dir, name, to, to_name);
        case S_IFDIR: return push(c, dir, name, to, to_name);
        case S_IFLNK: return copy_link(c, dir, name, to, to_name, &st);
        case S_IFSOCK: return 0; /* nobody listens at a copy */
        default:
                if (mknodat(to, to_name, st.st_mode, st.st_rdev) < 0)
                        return failed(c, "copy");
                return 0;
        }
}

static int step(struct copy *c)
{
        struct level *l = &c->levels[c->n - 1];
        const struct dirent64 *d;

        if (fs_go_on(c->stop, c->path, c->err) < 0)
                return -1;
        if (l->at == l->len) {
                ssize_t n = getdents64(l->in, l->block, NAMES);

                if (n < 0)
                        return failed(c, "list");
                l->at = 0;
                l->len = (size_t) n;
                if (n == 0) {
                        keep_meta(l->out, &l->st); /* last: what was put in changed its time */
                        pop(c);
                        return 0;
                }
        }
        d = (const void *) (l->block + l->at);
        l->at += d->d_reclen;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                return 0;
        return copy_any(c, l->in, d->d_name, l->out, d->d_name);
}

int fs_copy_tree(int dir, const char *name, int to, const char *to_name, const char *path,
                 const struct fs_stop *stop, struct error *err)
{
        struct copy c = { .path = path, .stop = stop, .err = err };
        int n = copy_any(&c, dir, name, to, to_name);

        while (n == 0 && c.n)
                n = step(&c);
        while (c.n)
                pop(&c);
        free(c.levels);
        return n;
}
