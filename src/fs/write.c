/* Writing, all or nothing: see fs/file.h and docs/internals/fs.md. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/alloc.h"
#include "base/path.h"
#include "fs/file.h"
#include "fs/impl.h"
#include "fs/root.h"

enum {
        LINKS_MAX = 40,         /* as many as the kernel follows */
        HINT_MIN = 1024 * 1024, /* smaller files find out about a full disk by themselves */
        SWAP_MAX = 1024 * 1024, /* larger files are not traded, see swap_over() */
        LOCKS = 16,
};

struct fs_writer {
        struct fsroot *root;
        char *path;               /* as it was given: for the words */
        int dir;                  /* O_PATH: where the target is, links followed */
        char *name;               /* of the target in it */
        int fd;                   /* the new content */
        char temp[FS_TEMP_BYTES]; /* its name in dir; "" = it has none */
        bool is_apart;            /* it is not beside the target: dir cannot take it */
        bool is_lodging;          /* dir is the nearest one that is there; name comes at the end */
        bool exists;              /* the target did when we began; then `was` is valid */
        struct stat was;
        bool is_durable, must_be_new;
        char match[64]; /* "" = any */
};

/* The look at a target and its replacement are one step for everybody who writes through us: of two
 * writers with the same If-Match one loses. One of a few locks, by name. */
static pthread_mutex_t locks[LOCKS] = { [0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER };

static pthread_mutex_t *lock_of(const char *name)
{
        unsigned h = 5381;

        for (const char *p = name; *p; p++)
                h = h * 33 + (unsigned char) *p;
        return &locks[h % LOCKS];
}

/* ---- the target ---- */

/* "/a/b/./" → "/a/b" */
static void trim_end(char *path)
{
        size_t n = strlen(path);

        while (n > 1 && (path[n - 1] == '/' || (path[n - 1] == '.' && path[n - 2] == '/')))
                n--;
        path[n] = '\0';
}

/* What a link says, as the next path to try: relative to where the link is. Below a root an
 * absolute link leads out, as for openat2(). */
static int follow(const struct fs_writer *w, const struct fsroot *r, char **path, struct error *err)
{
        char text[PATH_BYTES_MAX], *next;
        ssize_t n = readlinkat(w->dir, w->name, text, sizeof(text) - 1);

        if (n < 0)
                return fs_error(err, errno, "read the link", w->path);
        text[n] = '\0';
        if (text[0] == '/' && fsroot_dir(r))
                return fs_error(err, EXDEV, "follow", w->path);
        next = text[0] == '/'
                       ? xstrdup(text)
                       : xasprintf("%.*s/%s", (int) (strrchr(*path, '/') - *path), *path, text);
        free(*path);
        *path = next;
        if (strlen(next) >= PATH_BYTES_MAX)
                return fs_error(err, ENAMETOOLONG, "follow", w->path);
        return 0;
}

/* The directories of the target are made at the end, so that an upload which breaks off leaves
 * nothing at all. Until then the content stays in the nearest one that is there. */
static int lodge(struct fs_writer *w, const struct fsroot *r, char *path, struct error *err)
{
        struct error why;
        struct stat st;

        for (char *slash; (slash = strrchr(path, '/')) && slash > path;) {
                *slash = '\0';
                if (fsroot_stat(r, path, &st, &why) < 0) {
                        if (why.kind == ERR_NOT_FOUND)
                                continue;
                        return error_copy(err, &why);
                }
                if (!S_ISDIR(st.st_mode))
                        return fs_error(err, ENOTDIR, "write", w->path);
                w->is_lodging = true;
                w->dir = fsroot_openat(r, path, O_PATH | O_DIRECTORY, 0, err);
                return w->dir < 0 ? -1 : 0;
        }
        return fs_error(err, ENOENT, "write", w->path);
}

enum parents { PARENTS_NEEDED, PARENTS_LATER, PARENTS_MADE };

/* Links are followed by hand, so that what is replaced at the end is the file they lead to. Each
 * round goes through the root again: a link that leads out of it ends there. */
static int find_target(struct fs_writer *w, enum parents parents, struct error *err)
{
        _cleanup_free_ char *path = xstrdup(w->path);
        const struct fsroot *r = w->root;
        struct error why;

        for (int i = 0; i <= LINKS_MAX; i++) {
                trim_end(path);
                closep(&w->dir);
                w->dir = -1;
                free(TAKE_PTR(w->name));
                if (fsroot_parent(r, path, parents == PARENTS_MADE, &w->dir, &w->name, &why) < 0) {
                        if (parents == PARENTS_LATER && why.kind == ERR_NOT_FOUND)
                                return lodge(w, r, path, err);
                        return error_copy(err, &why);
                }
                w->exists = fstatat(w->dir, w->name, &w->was, AT_SYMLINK_NOFOLLOW) == 0;
                if (!w->exists && errno != ENOENT)
                        return fs_error(err, errno, "look at", w->path);
                if (!w->exists || !S_ISLNK(w->was.st_mode))
                        return 0;
                if (follow(w, r, &path, err) < 0)
                        return -1;
        }
        return fs_error(err, ELOOP, "follow", w->path);
}

static bool is_still(const struct fs_writer *w)
{
        struct fs_info i;
        struct stat st;
        char etag[64];

        if (fstatat(w->dir, w->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return false;
        fs_info_of(&st, &i);
        fs_etag(&i, etag);
        return strcmp(etag, w->match) == 0;
}

static int check_target(const struct fs_writer *w, struct error *err)
{
        if (w->exists && !S_ISREG(w->was.st_mode))
                return error_set(err, ERR_INVALID, 0, "path is not a file: %s", w->path);
        if (w->must_be_new && w->exists)
                return error_set(err, ERR_PRECONDITION, 0, "path exists already: %s", w->path);
        if (w->match[0] && !is_still(w))
                return error_set(err, ERR_PRECONDITION, 0, "path has changed: %s", w->path);
        /* a directory that we may write to does not make its files ours; only what is clear is
         * said here (an old seccomp filter answers EPERM to the question itself) */
        if (w->exists && faccessat(w->dir, w->name, W_OK, AT_EACCESS) < 0 &&
            (errno == EACCES || errno == EROFS))
                return fs_error(err, errno, "write", w->path);
        return 0;
}

/* ---- the new content ---- */

static int open_named(struct fs_writer *w)
{
        fs_temp_name(w->temp);
        w->fd = openat(w->dir, w->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                       w->exists ? 0600 : 0666);
        if (w->fd < 0)
                w->temp[0] = '\0';
        return w->fd;
}

/* A file that we may write in a directory that we may not, or that makes no files (/proc, /sys):
 * then the content gathers elsewhere and is copied over at the end. */
static int open_apart(struct fs_writer *w)
{
        int why = errno;

        if (w->exists) {
                w->fd = open(P_tmpdir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
                w->is_apart = true;
        }
        errno = why;
        return w->fd;
}

/* Without a name a crash leaves nothing behind, however long the content takes to come. When it is
 * there already, and the file will need a hidden name anyway, it gets it now: that is two steps of
 * the journal less, and twice as fast. */
static int open_content(struct fs_writer *w, bool is_short, struct error *err)
{
        errno = EOPNOTSUPP;
        if (!is_short || !w->exists)
                w->fd = openat(w->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
        if (w->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
                (void) open_named(w);
        if (w->fd < 0 && open_apart(w) < 0)
                return fs_error(err, errno, "write", w->path);
        return 0;
}

static int check_room(const struct fs_writer *w, uint64_t size, struct error *err)
{
        struct statvfs fs;
        uint64_t room;

        if (size < HINT_MIN || fstatvfs(w->fd, &fs) < 0 || fs.f_blocks == 0)
                return 0;
        room = (uint64_t) (geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
        return size <= room ? 0 : fs_error(err, ENOSPC, "write", w->path);
}

int fs_writer_open(const struct fsroot *r, const char *path, const struct fs_write_opts *o,
                   struct fs_writer **ret, struct error *err)
{
        struct fs_writer *w = NEW(struct fs_writer);

        w->dir = w->fd = -1;
        w->root = fsroot_ref(r);
        w->path = xstrdup(path);
        w->is_durable = o->is_durable;
        w->must_be_new = o->must_be_new;
        if (o->match)
                (void) snprintf(w->match, sizeof(w->match), "%s", o->match);
        if (find_target(w, o->match ? PARENTS_NEEDED : PARENTS_LATER, err) < 0 ||
            check_target(w, err) < 0 || open_content(w, o->is_short, err) < 0 ||
            check_room(w, o->size_hint, err) < 0) {
                fs_writer_free(w);
                return -1;
        }
        *ret = w;
        return 0;
}

int fs_writer_write(struct fs_writer *w, const void *data, size_t len, struct error *err)
{
        const char *at = data;

        while (len) {
                ssize_t n = write(w->fd, at, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return fs_error(err, errno, "write", w->path);
                at += n;
                len -= (size_t) n;
        }
        return 0;
}

/* ---- the end ---- */

/* File systems of other machines say only at a close that there was no room. */
static int flush(int fd)
{
        int twin = fcntl(fd, F_DUPFD_CLOEXEC, 0);

        return twin < 0 || close(twin) < 0 ? -1 : 0;
}

/* Mode and owner of the file that is replaced. The time is set by hand, because the kernel's steps
 * are coarser than our writes are fast and an etag must never be the same twice. */
static int finish_content(struct fs_writer *w, struct error *err)
{
        struct timespec times[2];

        if (w->is_apart)
                return 0;
        if (w->exists && fs_keep_owner(w->fd, &w->was) < 0)
                return fs_error(err, errno, "set the mode of", w->path);
        (void) clock_gettime(CLOCK_REALTIME, &times[0]);
        times[1] = times[0];
        (void) futimens(w->fd, times);
        if (flush(w->fd) < 0)
                return fs_error(err, errno, "write", w->path);
        if (w->is_durable && fsync(w->fd) < 0)
                return fs_error(err, errno, "sync", w->path);
        return 0;
}

/* Gives the nameless file a name; by way of /proc for those without the capability. */
static int link_content(const struct fs_writer *w, const char *name)
{
        char self[32];

        if (linkat(w->fd, "", w->dir, name, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != ENOENT && errno != EPERM && errno != EINVAL)
                return -1;
        (void) snprintf(self, sizeof(self), "/proc/self/fd/%d", w->fd);
        return linkat(AT_FDCWD, self, w->dir, name, AT_SYMLINK_FOLLOW);
}

/* As a new name; -1 with EEXIST when somebody else has it. */
static int put_new(struct fs_writer *w)
{
        if (!w->temp[0])
                return link_content(w, w->name);
        if (renameat2(w->dir, w->temp, w->dir, w->name, RENAME_NOREPLACE) < 0) {
                if (errno != EINVAL && errno != ENOSYS)
                        return -1;
                if (linkat(w->dir, w->temp, w->dir, w->name, 0) < 0)
                        return -1;
                (void) unlinkat(w->dir, w->temp, 0);
        }
        w->temp[0] = '\0';
        return 0;
}

/* Trades places with the target, then what was the target goes. For a reader this is the same one
 * step as a rename; but a rename over a file makes ext4 send the new content to the disk at once,
 * which takes ten times as long as all the rest of a small write. Who wants it on the disk says so.
 * Large files are renamed: there it does not matter, and an overlay would copy the old one first.
 */
static int swap_over(struct fs_writer *w)
{
        struct stat st;

        if (w->was.st_size > SWAP_MAX || fstat(w->fd, &st) < 0 || st.st_size > SWAP_MAX)
                return -1;
        if (renameat2(w->dir, w->temp, w->dir, w->name, RENAME_EXCHANGE) < 0)
                return -1;
        if (unlinkat(w->dir, w->temp, 0) < 0) { /* it has become a directory: give it back */
                (void) renameat2(w->dir, w->temp, w->dir, w->name, RENAME_EXCHANGE);
                return -1;
        }
        w->temp[0] = '\0';
        return 0;
}

static int put_over(struct fs_writer *w)
{
        if (!w->temp[0]) {
                fs_temp_name(w->temp);
                if (link_content(w, w->temp) < 0) {
                        w->temp[0] = '\0';
                        return -1;
                }
        }
        if (swap_over(w) == 0)
                return 0;
        if (renameat(w->dir, w->temp, w->dir, w->name) < 0)
                return -1;
        w->temp[0] = '\0';
        return 0;
}

/* Room first: a full disk must not cost the old content. Where that cannot be asked for, we try. */
static int overwrite(int from, int to)
{
        struct stat new, old;

        if (fstat(from, &new) < 0 || fstat(to, &old) < 0 || lseek(from, 0, SEEK_SET) < 0)
                return -1;
        if (!S_ISREG(old.st_mode)) {
                errno = EINVAL;
                return -1;
        }
        if (new.st_size > old.st_size && fallocate(to, FALLOC_FL_KEEP_SIZE, 0, new.st_size) < 0 &&
            (errno == ENOSPC || errno == EDQUOT))
                return -1;
        if (fs_copy_bytes(from, to) < 0)
                return -1;
        return old.st_size > new.st_size ? ftruncate(to, new.st_size) : 0;
}

/* The last resort: a target that cannot be replaced gets the bytes. */
static int write_in_place(struct fs_writer *w, struct error *err)
{
        int fd = openat(w->dir, w->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd < 0)
                return fs_error(err, errno, "write", w->path);
        if (overwrite(w->fd, fd) < 0 || (w->is_durable && fsync(fd) < 0)) {
                (void) fs_error(err, errno, "write", w->path);
                (void) close(fd);
                return -1;
        }
        (void) close(w->fd);
        w->fd = fd;
        return 0;
}

/* A mount point, or a file of others in a sticky directory. */
static bool can_only_be_written(int why)
{
        return why == EBUSY || why == EPERM || why == EACCES;
}

static int put_in_place(struct fs_writer *w, struct error *err)
{
        if (w->match[0] && !is_still(w))
                return error_set(err, ERR_PRECONDITION, 0, "path has changed: %s", w->path);
        if (w->is_apart)
                return write_in_place(w, err);
        if (!w->exists) {
                if (put_new(w) == 0)
                        return 0;
                if (errno != EEXIST)
                        return fs_error(err, errno, "write", w->path);
                if (w->must_be_new)
                        return error_set(err, ERR_PRECONDITION, 0, "path exists already: %s",
                                         w->path);
        }
        if (put_over(w) == 0)
                return 0;
        if (errno == EISDIR)
                return error_set(err, ERR_INVALID, 0, "path is not a file: %s", w->path);
        return can_only_be_written(errno) ? write_in_place(w, err)
                                          : fs_error(err, errno, "write", w->path);
}

static int sync_dir(const struct fs_writer *w, struct error *err)
{
        _cleanup_close_ int fd = openat(w->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || fsync(fd) < 0)
                return fs_error(err, errno, "sync the directory of", w->path);
        return 0;
}

/* Makes the directories that were missing, and goes there. */
static int leave_lodging(struct fs_writer *w, struct error *err)
{
        int was = w->dir, n;

        if (!w->is_lodging)
                return 0;
        w->dir = -1;
        n = find_target(w, PARENTS_MADE, err) < 0 || check_target(w, err) < 0 ? -1 : 0;
        if (n == 0 && w->temp[0] && renameat(was, w->temp, w->dir, w->temp) < 0)
                n = fs_error(err, errno, "write", w->path);
        if (n < 0 && w->temp[0]) {
                (void) unlinkat(was, w->temp, 0);
                w->temp[0] = '\0';
        }
        (void) close(was);
        w->is_lodging = false;
        return n;
}

int fs_writer_commit(struct fs_writer *w, struct fs_info *ret, struct error *err)
{
        pthread_mutex_t *lock;
        struct stat st;
        int n;

        if (leave_lodging(w, err) < 0 || finish_content(w, err) < 0)
                return -1;
        lock = lock_of(w->name);
        (void) pthread_mutex_lock(lock);
        n = put_in_place(w, err);
        (void) pthread_mutex_unlock(lock);
        if (n < 0 || (w->is_durable && sync_dir(w, err) < 0))
                return -1;
        if (ret) {
                if (fstat(w->fd, &st) < 0)
                        return fs_error(err, errno, "look at", w->path);
                fs_info_of(&st, ret);
        }
        return 0;
}

struct fs_writer *fs_writer_free(struct fs_writer *w)
{
        if (!w)
                return NULL;
        if (w->temp[0])
                (void) unlinkat(w->dir, w->temp, 0);
        closep(&w->fd);
        closep(&w->dir);
        fsroot_free(w->root);
        free(w->name);
        free(w->path);
        free(w);
        return NULL;
}
