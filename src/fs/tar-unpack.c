/* Unpacking. libarchive reads the format; every touch of the disk is ours, through fs/beneath.h. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/path.h"
#include "fs/beneath.h"
#include "fs/file.h"
#include "fs/impl.h"
#include "fs/root.h"
#include "fs/tar.h"

enum {
        /* Of the stream, for one entry's headers: long names, PAX records, maps of sparse files.
         * libarchive keeps them in memory, so this is the ceiling of what it holds. */
        HEADER_MAX = 2 * 1024 * 1024,
        /* Directories whose mode and time wait for their content; twice what cannot be settled yet,
         * if that is more, so that settling stays linear. */
        DIRS_HELD_BYTES = 2 * 1024 * 1024,
};

/* A directory gets its mode and time when nothing more is put into it: a mode without write
 * permission must not stop its own children, and every child changes the time. */
struct late_dir {
        char *rel;
        size_t seq;
        mode_t mode;
        bool has_time;
        struct timespec mtime;
};

struct unpack {
        const struct tar_source *src;
        const char *dest;
        int top; /* dest, open */
        struct archive *a;

        uint64_t taken_bytes, header_end; /* of the stream; header_end 0 = no ceiling now */
        bool is_ended, has_failed;        /* the source; has_failed: `why` is its reason */
        struct error why;

        char *dir_rel; /* the directory of the last entry, which the next one most likely shares */
        int dir_fd;

        struct late_dir *dirs;
        size_t n_dirs, cap_dirs, dirs_bytes, dirs_max_bytes, n_dirs_seen;

        uint64_t n_entries;
        struct tar_paths paths;
};

/* What one entry is about. */
struct place {
        struct archive_entry *e;
        const char *rel; /* clean */
        int dir;
        const char *name; /* in dir */
};

void tar_paths_done(struct tar_paths *p)
{
        for (size_t i = 0; i < p->n; i++)
                free(p->at[i]);
        free(p->at);
        *p = (struct tar_paths) { 0 };
}

static void unpack_done(struct unpack *u)
{
        if (u->a)
                (void) archive_read_free(u->a);
        if (u->top >= 0)
                (void) close(u->top);
        if (u->dir_fd >= 0)
                (void) close(u->dir_fd);
        for (size_t i = 0; i < u->n_dirs; i++)
                free(u->dirs[i].rel);
        free(u->dirs);
        free(u->dir_rel);
        tar_paths_done(&u->paths);
}

/* ---- the stream ---- */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
        struct unpack *u = arg;
        const char *data = NULL;
        size_t len = 0;

        if (u->header_end && u->taken_bytes >= u->header_end) {
                (void) error_set(&u->why, ERR_TOO_BIG, 0,
                                 "the headers of entry %llu have more than %d bytes",
                                 (unsigned long long) u->n_entries + 1, HEADER_MAX);
                u->has_failed = true;
        } else if (!u->is_ended && u->src->read(u->src->arg, &data, &len, &u->why) < 0) {
                u->has_failed = true;
        }
        if (u->has_failed) {
                archive_set_error(a, EIO, "the source failed");
                return ARCHIVE_FATAL;
        }
        u->is_ended = !len;
        u->taken_bytes += len;
        *ret = data;
        return (la_ssize_t) len;
}

/* Why libarchive will not go on: our own source, or what it read. */
static int stream_error(struct unpack *u, struct error *err)
{
        const char *text = archive_error_string(u->a);

        if (u->has_failed) {
                if (err)
                        *err = u->why;
                return -1;
        }
        return error_set(err, ERR_INVALID, 0, "not a tar archive, or damaged near byte %lld: %s",
                         (long long) archive_filter_bytes(u->a, 0), text ? text : "unknown reason");
}

/* The end of an archive may come before the end of the body: padding, or anything. A client that is
 * not heard to the end would take the answer for a broken connection. */
static int drain(struct unpack *u, struct error *err)
{
        const char *data;
        size_t len = 1;

        while (!u->is_ended && len)
                if (u->src->read(u->src->arg, &data, &len, err) < 0)
                        return -1;
        return 0;
}

/* ---- directories ---- */

static int by_depth(const void *a, const void *b)
{
        const struct late_dir *x = a, *y = b;
        int order = strcmp(y->rel, x->rel); /* a directory after all that is below it */

        return order ? order : x->seq < y->seq ? -1 : 1;
}

static void late_dir_apply(struct unpack *u, const struct late_dir *d)
{
        const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, d->mtime };
        _cleanup_close_ int path = beneath_dir(u->top, d->rel, false, NULL), fd = -1;

        if (path >= 0)
                fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return; /* somebody took it away: nothing left to set */
        if (d->has_time)
                (void) futimens(fd, times); /* best effort: the owner may be another */
        (void) fchmod(fd, d->mode);
}

static bool is_above(const char *dir, const char *rel)
{
        size_t n = strlen(dir);

        return rel && strncmp(dir, rel, n) == 0 && (rel[n] == '/' || !rel[n]);
}

/* Settles what waits, but not the directories that `rel` lies in. Of several entries for one
 * directory, which stand together now, the last one counts. */
static void late_dirs_settle(struct unpack *u, const char *rel)
{
        size_t kept = 0;

        if (u->n_dirs)
                qsort(u->dirs, u->n_dirs, sizeof(u->dirs[0]), by_depth);
        u->dirs_bytes = 0;
        for (size_t i = 0; i < u->n_dirs; i++) {
                bool is_old = i + 1 < u->n_dirs && strcmp(u->dirs[i].rel, u->dirs[i + 1].rel) == 0;

                if (!is_old && is_above(u->dirs[i].rel, rel)) {
                        u->dirs_bytes += sizeof(u->dirs[i]) + strlen(u->dirs[i].rel);
                        u->dirs[kept++] = u->dirs[i];
                        continue;
                }
                if (!is_old)
                        late_dir_apply(u, &u->dirs[i]);
                free(u->dirs[i].rel);
        }
        u->n_dirs = kept;
        u->dirs_max_bytes = MAX((size_t) DIRS_HELD_BYTES, 2 * u->dirs_bytes);
}

static void late_dir_add(struct unpack *u, const struct place *p)
{
        struct late_dir *d;

        if (u->dirs_bytes >= u->dirs_max_bytes)
                late_dirs_settle(u, p->rel);
        if (u->n_dirs == u->cap_dirs) {
                u->cap_dirs = u->cap_dirs ? u->cap_dirs * 2 : 16;
                u->dirs = xrealloc(u->dirs, u->cap_dirs * sizeof(u->dirs[0]));
        }
        d = &u->dirs[u->n_dirs++];
        *d = (struct late_dir) {
                .rel = xstrdup(p->rel),
                .seq = u->n_dirs_seen++,
                .mode = archive_entry_perm(p->e) & 01777,
                .has_time = archive_entry_mtime_is_set(p->e),
                .mtime = { archive_entry_mtime(p->e), archive_entry_mtime_nsec(p->e) },
        };
        u->dirs_bytes += sizeof(*d) + strlen(d->rel);
}

static int unpack_dir(struct unpack *u, const struct place *p, struct error *err)
{
        _cleanup_close_ int fd = -1;
        struct stat st;

        if (mkdirat(p->dir, p->name, 0700) < 0) {
                if (errno != EEXIST)
                        return fs_error(err, errno, "create directory", p->rel);
                fd = beneath_dir(p->dir, p->name, false, err);
                if (fd < 0)
                        return -1;
                /* One that was there with less: its owner may give it what its content needs. */
                if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU &&
                    fchmodat(p->dir, p->name, (st.st_mode & 07777) | S_IRWXU, AT_SYMLINK_NOFOLLOW) <
                            0 &&
                    errno != EPERM && errno != EOPNOTSUPP)
                        return fs_error(err, errno, "open up directory", p->rel);
        }
        late_dir_add(u, p);
        return 0;
}

/* ---- files and links ---- */

static int place_error(struct error *err, int sys, const char *doing, const struct place *p)
{
        if (sys == EISDIR || sys == ENOTEMPTY || sys == EEXIST)
                return error_set(err, ERR_CONFLICT, 0, "%s '%s': a directory is in its place",
                                 doing, p->rel);
        return fs_error(err, sys, doing, p->rel);
}

static int put_in_place(const struct place *p, const char *temp, struct error *err)
{
        int sys = renameat(p->dir, temp, p->dir, p->name) < 0 ? errno : 0;

        /* Two names of one file: rename does nothing then, and the first name stays. */
        (void) unlinkat(p->dir, temp, 0);
        return sys ? place_error(err, sys, "replace", p) : 0;
}

static int write_block(int fd, const char *at, size_t len, la_int64_t offset)
{
        while (len) {
                ssize_t n = pwrite(fd, at, len, offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno;
                at += n;
                len -= (size_t) n;
                offset += n;
        }
        return 0;
}

/* Holes of sparse files are left as holes. */
static int write_content(struct unpack *u, const struct place *p, int fd, struct error *err)
{
        la_int64_t size = archive_entry_size(p->e), offset = 0, end = 0;
        const void *data;
        size_t len;
        int r, sys = 0;

        while ((r = archive_read_data_block(u->a, &data, &len, &offset)) == ARCHIVE_OK && !sys) {
                sys = write_block(fd, data, len, offset);
                end = offset + (la_int64_t) len;
        }
        if (!sys && r != ARCHIVE_EOF)
                return stream_error(u, err);
        if (!sys && end < size && ftruncate(fd, size) < 0)
                sys = errno;
        if (sys == EFBIG)
                return error_set(err, ERR_TOO_BIG, 0,
                                 "'%s' has %lld bytes, more than a file can have here", p->rel,
                                 (long long) size);
        return sys ? fs_error(err, sys, "write", p->rel) : 0;
}

static int finish_file(const struct place *p, int fd, const char *temp, struct error *err)
{
        const struct timespec times[2] = {
                { .tv_nsec = UTIME_OMIT },
                { archive_entry_mtime(p->e), archive_entry_mtime_nsec(p->e) },
        };

        /* Whose file it is comes from who unpacks, so set-user-id would mean another user. */
        if (fchmod(fd, archive_entry_perm(p->e) & 0777) < 0)
                return fs_error(err, errno, "set the mode of", p->rel);
        if (archive_entry_mtime_is_set(p->e) && futimens(fd, times) < 0)
                return fs_error(err, errno, "set the time of", p->rel);
        return put_in_place(p, temp, err);
}

static int unpack_file(struct unpack *u, const struct place *p, struct error *err)
{
        _cleanup_close_ int fd = -1;
        char temp[FS_TEMP_BYTES];

        fs_temp_name(temp);
        fd = openat(p->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return fs_error(err, errno, "create", p->rel);
        if (write_content(u, p, fd, err) < 0 || finish_file(p, fd, temp, err) < 0) {
                (void) unlinkat(p->dir, temp, 0);
                return -1;
        }
        return 0;
}

static int unpack_symlink(struct unpack *u, const struct place *p, struct error *err)
{
        const struct timespec times[2] = {
                { .tv_nsec = UTIME_OMIT },
                { archive_entry_mtime(p->e), archive_entry_mtime_nsec(p->e) },
        };
        const char *target = archive_entry_symlink(p->e);
        char temp[FS_TEMP_BYTES];

        if (!target || !*target)
                return error_set(err, ERR_INVALID, 0, "symbolic link '%s' points nowhere", p->rel);
        fs_temp_name(temp);
        if (symlinkat(target, p->dir, temp) < 0)
                return fs_error(err, errno, "create symbolic link", p->rel);
        if (archive_entry_mtime_is_set(p->e)) /* not every file system keeps times of links */
                (void) utimensat(p->dir, temp, times, AT_SYMLINK_NOFOLLOW);
        return put_in_place(p, temp, err);
}

/* Names in hard links start at the destination, like those of entries, and stay below it. A link to
 * a symbolic link is one more name of the link itself. */
static int unpack_hardlink(struct unpack *u, const struct place *p, struct error *err)
{
        const char *target = archive_entry_hardlink(p->e), *name;
        _cleanup_free_ char *rel = NULL;
        _cleanup_close_ int dir = -1;
        char temp[FS_TEMP_BYTES];

        if (beneath_clean(target, strlen(target), &rel, err) < 0)
                return error_wrap(err, "hard link '%s'", p->rel);
        if (strcmp(rel, p->rel) == 0)
                return 0;
        dir = beneath_parent(u->top, rel, false, &name, err);
        if (dir < 0)
                return error_wrap(err, "hard link '%s'", p->rel);
        fs_temp_name(temp);
        if (linkat(dir, name, p->dir, temp, 0) < 0)
                return errno == ENOENT ? error_set(err, ERR_INVALID, 0,
                                                   "hard link '%s': its target '%s' is not there",
                                                   p->rel, rel)
                                       : fs_error(err, errno, "create hard link", p->rel);
        return put_in_place(p, temp, err);
}

/* ---- entries ---- */

static int unpack_any(struct unpack *u, const struct place *p, struct error *err)
{
        static const struct {
                mode_t type;
                int (*fn)(struct unpack *, const struct place *, struct error *);
        } kinds[] = {
                { AE_IFREG, unpack_file },
                { AE_IFDIR, unpack_dir },
                { AE_IFLNK, unpack_symlink },
        };

        if (archive_entry_hardlink(p->e))
                return unpack_hardlink(u, p, err);
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (kinds[i].type == archive_entry_filetype(p->e))
                        return kinds[i].fn(u, p, err);
        return error_set(err, ERR_INVALID, 0,
                         "entry '%s' is neither file, directory nor link: it is not unpacked",
                         p->rel);
}

/* p->dir and p->name from p->rel; the directory stays open for the next entry. */
static int find_place(struct unpack *u, struct place *p, struct error *err)
{
        const char *slash = strrchr(p->rel, '/');
        size_t n = slash ? (size_t) (slash - p->rel) : 0;

        if (!u->dir_rel || strlen(u->dir_rel) != n || memcmp(u->dir_rel, p->rel, n) != 0) {
                int fd = beneath_parent(u->top, p->rel, true, &p->name, err);

                if (fd < 0)
                        return -1;
                if (u->dir_fd >= 0)
                        (void) close(u->dir_fd);
                free(u->dir_rel);
                u->dir_fd = fd;
                u->dir_rel = xstrndup(p->rel, n);
        }
        p->dir = u->dir_fd;
        p->name = slash ? slash + 1 : p->rel;
        return 0;
}

static void report(struct unpack *u, const char *rel)
{
        struct tar_paths *t = &u->paths;

        if (t->n == TAR_PATHS_MAX) {
                t->is_truncated = true;
                return;
        }
        if (!t->at)
                t->at = xcalloc(TAR_PATHS_MAX, sizeof(t->at[0]));
        t->at[t->n++] = path_join(u->dest, rel);
}

static int unpack_entry(struct unpack *u, struct archive_entry *e, struct error *err)
{
        const char *name = archive_entry_pathname(e);
        _cleanup_free_ char *rel = NULL;
        struct place p = { .e = e };

        if (u->n_entries++ >= TAR_ENTRIES_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "more than %d entries", TAR_ENTRIES_MAX);
        if (!name || !*name)
                return error_set(err, ERR_INVALID, 0, "entry %llu, near byte %lld, has no name",
                                 (unsigned long long) u->n_entries,
                                 (long long) archive_filter_bytes(u->a, 0));
        if (beneath_clean(name, strlen(name), &rel, err) < 0)
                return -1;
        if (!*rel) /* "./": the destination itself stays as it is */
                return 0;
        p.rel = rel;
        if (find_place(u, &p, err) < 0 || unpack_any(u, &p, err) < 0)
                return -1;
        report(u, rel);
        return 0;
}

static int unpack_all(struct unpack *u, struct error *err)
{
        struct archive_entry *e;

        if (archive_read_open(u->a, u, NULL, on_read, NULL) != ARCHIVE_OK) {
                if (u->is_ended && !u->taken_bytes)
                        return 0; /* nothing at all is an empty archive */
                return stream_error(u, err);
        }
        for (;;) {
                int r;

                u->header_end = u->taken_bytes + HEADER_MAX;
                r = archive_read_next_header(u->a, &e);
                u->header_end = 0;
                if (r == ARCHIVE_EOF)
                        return drain(u, err);
                /* A warning is about what we do not use, or about a name that is not in the
                 * character set of the locale; it comes as it is in the archive. */
                if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
                        return stream_error(u, err);
                if (unpack_entry(u, e, err) < 0)
                        return -1;
                /* By itself, so that the ceiling above counts headers only. */
                if (archive_read_data_skip(u->a) < ARCHIVE_WARN)
                        return stream_error(u, err);
        }
}

static int unpack_open(struct unpack *u, const struct fsroot *r, struct error *err)
{
        if (fs_mkdir(r, u->dest, err) < 0)
                return -1;
        u->top = fsroot_openat(r, u->dest, O_RDONLY | O_DIRECTORY, 0, err);
        if (u->top < 0)
                return -1;
        u->a = archive_read_new();
        if (!u->a || archive_read_support_format_tar(u->a) != ARCHIVE_OK)
                return error_set(err, ERR_SYSTEM, ENOMEM, "read a tar archive");
        return 0;
}

int tar_unpack(const struct fsroot *r, const char *dest, const struct tar_source *src,
               struct tar_paths *ret, struct error *err)
{
        _cleanup_(unpack_done) struct unpack u = {
                .src = src,
                .dest = dest,
                .top = -1,
                .dir_fd = -1,
                .dirs_max_bytes = DIRS_HELD_BYTES,
        };
        int result;

        if (unpack_open(&u, r, err) < 0)
                return -1;
        result = unpack_all(&u, err);
        late_dirs_settle(&u, NULL); /* what is there stays, so it gets its modes in any case */
        if (result < 0)
                return -1;
        *ret = u.paths;
        u.paths = (struct tar_paths) { 0 };
        return 0;
}
