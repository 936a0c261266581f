#include "fs/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/rand.h"
#include "fs/impl.h"
#include "fs/root.h"

enum { LIST_BLOCK = 64 * 1024, VIRTUAL_BLOCK = 64 * 1024 };

/* ---- what all share ---- */

/* Nanoseconds end in 2262; files from later are from then. */
static int64_t ns_of(int64_t sec, int64_t nsec)
{
        int64_t ns;

        if (__builtin_mul_overflow(sec, 1000000000, &ns) || __builtin_add_overflow(ns, nsec, &ns))
                return sec < 0 ? INT64_MIN : INT64_MAX;
        return ns;
}

void fs_info_of(const struct stat *st, struct fs_info *ret)
{
        *ret = (struct fs_info) {
                .mode = st->st_mode,
                .size = (uint64_t) st->st_size,
                .ino = st->st_ino,
                .dev = st->st_dev,
                .modified_ns = ns_of(st->st_mtim.tv_sec, st->st_mtim.tv_nsec),
        };
}

void fs_temp_name(char ret[static FS_TEMP_BYTES])
{
        char hex[25];

        rand_hex(hex, 24);
        (void) snprintf(ret, FS_TEMP_BYTES, ".sa-%.24s.tmp", hex);
}

int fs_reopen(int path_fd, int flags)
{
        char name[32];

        (void) snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
        return open(name, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

int fs_keep_owner(int fd, const struct stat *st)
{
        mode_t mode = st->st_mode & 07777;
        struct stat now;

        if (fstat(fd, &now) < 0)
                return -1;
        if ((now.st_uid != st->st_uid || now.st_gid != st->st_gid) &&
            fchown(fd, st->st_uid, st->st_gid) < 0) {
                mode &= 01777;
                if (now.st_gid != st->st_gid && fchown(fd, (uid_t) -1, st->st_gid) < 0)
                        mode &= ~(mode_t) S_IRWXG | (mode & S_IRWXO) << 3;
        }
        return fchmod(fd, mode);
}

void fs_etag(const struct fs_info *i, char ret[static 64])
{
        (void) snprintf(ret, 64, "\"%llx-%llx-%llx\"", (unsigned long long) i->ino,
                        (unsigned long long) i->size, (unsigned long long) i->modified_ns);
}

/* ---- look ---- */

/* Devices whose inodes, once in memory, are answered for without asking anybody. A stat from the
 * loop's thread is safe only there: FUSE and network file systems would have to wait for an answer,
 * or give an old one. Found out where waiting is allowed. */
enum { LOCAL_DEVS = 8 };
static _Atomic uint64_t local_devs[LOCAL_DEVS];

static bool is_local(uint64_t dev)
{
        for (int i = 0; i < LOCAL_DEVS; i++)
                if (atomic_load_explicit(&local_devs[i], memory_order_relaxed) == dev)
                        return dev != 0;
        return false;
}

static void learn_device(const struct fsroot *r, const char *path)
{
        static const long local_types[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                            TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC };
        static atomic_uint n;
        _cleanup_close_ int fd = fsroot_openat(r, path, O_PATH, 0, NULL);
        struct statfs fs;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || is_local(st.st_dev) || fstatfs(fd, &fs) < 0)
                return;
        for (size_t i = 0; i < ARRAY_LEN(local_types); i++)
                if ((long) fs.f_type == local_types[i])
                        atomic_store(&local_devs[atomic_fetch_add(&n, 1) % LOCAL_DEVS], st.st_dev);
}

int fs_stat(const struct fsroot *r, const char *path, struct fs_info *ret, struct error *err)
{
        struct stat st;

        if (fsroot_stat(r, path, &st, err) < 0)
                return -1;
        if (!is_local(st.st_dev))
                learn_device(r, path);
        fs_info_of(&st, ret);
        return 0;
}

/* Should the number of a device have gone to another one meanwhile: DONT_SYNC does not wait. */
int fs_stat_now(const struct fsroot *r, const char *path, struct fs_info *ret)
{
        _cleanup_close_ int fd = fsroot_open_cached(r, path);
        struct statx x;

        if (fd < 0 ||
            statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) < 0 ||
            !is_local(makedev(x.stx_dev_major, x.stx_dev_minor)))
                return 0;
        *ret = (struct fs_info) {
                .mode = x.stx_mode,
                .size = x.stx_size,
                .ino = x.stx_ino,
                .dev = makedev(x.stx_dev_major, x.stx_dev_minor),
                .modified_ns = ns_of(x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec),
        };
        return 1;
}

static bool is_dots(const char *name)
{
        return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static int list_block(int dir, const char *block, size_t len, const struct fs_list_cb *cb,
                      size_t *n_entries, struct error *err)
{
        for (size_t at = 0; at < len;) {
                const struct dirent64 *d = (const void *) (block + at);
                struct fs_info info;
                struct stat st;

                at += d->d_reclen;
                if (is_dots(d->d_name) || fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (++*n_entries > FS_LIST_MAX)
                        return error_set(err, ERR_TOO_BIG, 0, "directory has more than %d entries",
                                         FS_LIST_MAX);
                fs_info_of(&st, &info);
                if (cb->on_entry(cb->arg, d->d_name, &info, err) < 0)
                        return -1;
        }
        return 0;
}

/* ENOTDIR: the path itself, or something on its way? */
static int open_list(const struct fsroot *r, const char *path, struct error *err)
{
        struct error why = { 0 };
        struct stat st;
        int fd = fsroot_openat(r, path, O_RDONLY | O_DIRECTORY, 0, &why);

        if (fd >= 0)
                return fd;
        if (why.kind == ERR_NOT_FOUND && fsroot_stat(r, path, &st, NULL) == 0)
                return error_set(err, ERR_INVALID, 0, "path is not a directory: %s", path);
        if (err)
                *err = why;
        return -1;
}

int fs_list(const struct fsroot *r, const char *path, const struct fs_list_cb *cb,
            struct error *err)
{
        _cleanup_close_ int dir = open_list(r, path, err);
        _cleanup_free_ char *block = NULL;
        size_t n_entries = 0;
        ssize_t n;

        if (dir < 0)
                return -1;
        block = xmalloc(LIST_BLOCK);
        while ((n = getdents64(dir, block, LIST_BLOCK)) > 0)
                if (list_block(dir, block, (size_t) n, cb, &n_entries, err) < 0)
                        return -1;
        return n < 0 ? fs_error(err, errno, "list", path) : 0;
}

/* ---- read ---- */

static const long virtual_types[] = {
        PROC_SUPER_MAGIC,
        SYSFS_MAGIC,
        CGROUP_SUPER_MAGIC,
        CGROUP2_SUPER_MAGIC,
        DEBUGFS_MAGIC,
        TRACEFS_MAGIC,
        SECURITYFS_MAGIC,
        BPF_FS_MAGIC,
        EFIVARFS_MAGIC,
        PSTOREFS_MAGIC,
        SELINUX_MAGIC,
        SMACK_MAGIC,
        BINFMTFS_MAGIC,
        DEVPTS_SUPER_MAGIC,
        NSFS_MAGIC,
        0x65735543 /* fusectl */,
        0x62656570 /* configfs */,
};

/* Only file systems without a device can be made of nothing: others are spared the question. */
static bool is_virtual(int fd, const struct stat *st)
{
        struct statfs fs;

        if (major(st->st_dev) != 0 || fstatfs(fd, &fs) < 0)
                return false;
        if (fs.f_type == FUSE_SUPER_MAGIC) /* what lxcfs puts over files of /proc */
                return st->st_size == 0;
        for (size_t i = 0; i < ARRAY_LEN(virtual_types); i++)
                if ((long) fs.f_type == virtual_types[i])
                        return true;
        return false;
}

/* Without /proc: by its path, if that is still the same file. */
static int open_again(const struct fsroot *r, const char *path, int at, const struct stat *st,
                      struct error *err)
{
        int fd = fs_reopen(at, O_RDONLY);
        struct stat now;

        if (fd >= 0)
                return fd;
        if (errno != ENOENT)
                return fs_error(err, errno, "open", path);
        fd = fsroot_openat(r, path, O_RDONLY, 0, err);
        if (fd < 0 ||
            (fstat(fd, &now) == 0 && now.st_ino == st->st_ino && now.st_dev == st->st_dev))
                return fd;
        (void) close(fd);
        return fs_error(err, ENOENT, "open", path);
}

/* First a look, then open: opening alone does something to a FIFO or a device. */
int fs_reader_open(const struct fsroot *r, const char *path, struct fs_reader *ret,
                   struct error *err)
{
        _cleanup_close_ int at = fsroot_openat(r, path, O_PATH, 0, err);
        struct stat st;
        int fd;

        if (at < 0)
                return -1;
        if (fstat(at, &st) < 0)
                return fs_error(err, errno, "look at", path);
        if (!S_ISREG(st.st_mode))
                return error_set(err, ERR_INVALID, 0, "path is not a file: %s", path);
        fd = open_again(r, path, at, &st, err);
        if (fd < 0)
                return -1;
        *ret = (struct fs_reader) { .fd = fd, .is_virtual = is_virtual(fd, &st) };
        fs_info_of(&st, &ret->info);
        return 0;
}

/* The descriptor does not block: what would make us wait (a log of the kernel) ends there. */
int fs_read_virtual(int fd, const char *path, struct buf *ret, struct error *err)
{
        for (;;) {
                ssize_t n = read(fd, buf_room(ret, VIRTUAL_BLOCK), VIRTUAL_BLOCK);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        return fs_error(err, errno, "read", path);
                if (n <= 0)
                        return 0;
                if (ret->len + (size_t) n > FS_VIRTUAL_MAX)
                        return error_set(err, ERR_TOO_BIG, 0, "'%s' goes on after %d bytes", path,
                                         FS_VIRTUAL_MAX);
                buf_grew(ret, (size_t) n);
        }
}
