/* Packing. The format is written here: a library would carry names through the character set of the
 * locale, and a static program has none but ASCII. Names leave as the bytes that they are. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "fs/file.h"
#include "fs/root.h"
#include "fs/tar.h"

enum {
        BLOCK = 512,
        OUT_BYTES = 128 * 1024,
        LINKS_HELD_BYTES = 4 * 1024 * 1024, /* names of files that have several; beyond: copies */
        LINK_COST = 96,                     /* of one such name besides its bytes, about */
        ZSTD_LEVEL = 3,
        ZSTD_WINDOW = 20, /* 1 MiB: the memory of both sides */
};

struct ustar {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100],
                magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155],
                rest[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a header is one block");

struct pack {
        const struct tar_sink *sink;
        char *out; /* OUT_BYTES, gathered */
        size_t out_len;
        ZSTD_CCtx *zstd; /* or NULL */
        char *packed;    /* OUT_BYTES, what zstd makes of it */

        struct buf path; /* of the entry, from the start of the walk */
        struct map links;
        size_t links_bytes;
        dev_t dev; /* of the directory being walked */
};

static void pack_done(struct pack *p)
{
        const char *key;
        void *name;

        for (size_t it = 0; (it = map_next(&p->links, it, &key, &name));)
                free(name);
        map_done(&p->links);
        buf_done(&p->path);
        (void) ZSTD_freeCCtx(p->zstd);
        free(p->packed);
        free(p->out);
}

/* ---- bytes ---- */

static int compress_out(struct pack *p, ZSTD_EndDirective how, struct error *err)
{
        ZSTD_inBuffer in = { p->out, p->out_len, 0 };
        size_t left;

        do {
                ZSTD_outBuffer to = { p->packed, OUT_BYTES, 0 };

                left = ZSTD_compressStream2(p->zstd, &to, &in, how);
                if (ZSTD_isError(left))
                        return error_set(err, ERR_SYSTEM, 0, "compress: %s",
                                         ZSTD_getErrorName(left));
                if (to.pos && p->sink->write(p->sink->arg, p->packed, to.pos, err) < 0)
                        return -1;
        } while (how == ZSTD_e_end ? left != 0 : in.pos < in.size);
        return 0;
}

static int flush_out(struct pack *p, bool is_last, struct error *err)
{
        if (p->zstd) {
                if (compress_out(p, is_last ? ZSTD_e_end : ZSTD_e_continue, err) < 0)
                        return -1;
        } else if (p->out_len && p->sink->write(p->sink->arg, p->out, p->out_len, err) < 0) {
                return -1;
        }
        p->out_len = 0;
        return 0;
}

/* Free room in the buffer, at least one byte; then p->out_len += what was put there. */
static int room(struct pack *p, char **ret, size_t *ret_len, struct error *err)
{
        if (p->out_len == OUT_BYTES && flush_out(p, false, err) < 0)
                return -1;
        *ret = p->out + p->out_len;
        *ret_len = OUT_BYTES - p->out_len;
        return 0;
}

/* data NULL = zeros */
static int put(struct pack *p, const void *data, uint64_t len, struct error *err)
{
        const char *at = data;

        while (len) {
                char *to;
                size_t n;

                if (room(p, &to, &n, err) < 0)
                        return -1;
                n = len < n ? (size_t) len : n;
                if (at) {
                        memcpy(to, at, n);
                        at += n;
                } else {
                        memset(to, 0, n);
                }
                p->out_len += n;
                len -= n;
        }
        return 0;
}

static int put_padding(struct pack *p, uint64_t len, struct error *err)
{
        return put(p, NULL, (BLOCK - len % BLOCK) % BLOCK, err);
}

/* ---- headers ---- */

struct meta {
        const char *name, *link; /* link may be NULL */
        const struct stat *st;
        char type;
        uint64_t size;
};

static bool is_ascii(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s >= 0x80)
                        return false;
        return true;
}

static size_t digits(size_t n)
{
        size_t d = 1;

        for (; n >= 10; n /= 10)
                d++;
        return d;
}

/* "<length> <key>=<value>\n", where the length counts itself. */
static void pax_add(struct buf *b, const char *key, const char *value)
{
        size_t n = strlen(key) + strlen(value) + 3, total = n + digits(n);

        if (digits(total) != digits(n))
                total = n + digits(total);
        buf_printf(b, "%zu %s=%s\n", total, key, value);
}

static void pax_add_number(struct buf *b, const char *key, uint64_t v)
{
        char text[24];

        (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) v);
        pax_add(b, key, text);
}

static bool fits_octal(uint64_t v, size_t field)
{
        return v >> (3 * (field - 1)) == 0;
}

static bool fits_text(const char *s, size_t field)
{
        return strlen(s) <= field && is_ascii(s);
}

/* A time before 1970 has a negative second and a positive rest; PAX wants one signed number. */
static void pax_add_time(struct buf *b, struct timespec t)
{
        bool is_before = t.tv_sec < 0;
        long long sec = is_before ? -(long long) t.tv_sec : (long long) t.tv_sec;
        long nsec = t.tv_nsec;
        char text[48];

        if (is_before && nsec) {
                sec--;
                nsec = 1000000000 - nsec;
        }
        (void) snprintf(text, sizeof(text), "%s%lld.%09ld", is_before ? "-" : "", sec, nsec);
        pax_add(b, "mtime", text);
}

/* What the old header has no room for. */
static void pax_records(const struct meta *m, struct buf *b)
{
        const struct ustar *h = NULL;
        const char *link = m->link ? m->link : "";
        struct timespec t = m->st->st_mtim;

        /* The standard says UTF-8; other bytes must say so. */
        if (utf8_check(m->name, strlen(m->name)) != strlen(m->name) ||
            utf8_check(link, strlen(link)) != strlen(link))
                pax_add(b, "hdrcharset", "BINARY");
        if (!fits_text(m->name, sizeof(h->name)))
                pax_add(b, "path", m->name);
        if (!fits_text(link, sizeof(h->link)))
                pax_add(b, "linkpath", link);
        if (!fits_octal(m->size, sizeof(h->size)))
                pax_add_number(b, "size", m->size);
        if (!fits_octal(m->st->st_uid, sizeof(h->uid)))
                pax_add_number(b, "uid", m->st->st_uid);
        if (!fits_octal(m->st->st_gid, sizeof(h->gid)))
                pax_add_number(b, "gid", m->st->st_gid);
        if (t.tv_nsec || t.tv_sec < 0 || !fits_octal((uint64_t) t.tv_sec, sizeof(h->mtime)))
                pax_add_time(b, t);
}

/* What does not fit is in a PAX record, and then 0 here. */
static void octal(char *field, size_t n, uint64_t v)
{
        (void) snprintf(field, n, "%0*llo", (int) n - 1,
                        (unsigned long long) (fits_octal(v, n) ? v : 0));
}

/* A name that fills its field has no NUL behind it. */
static void text_field(char *field, size_t n, const char *s)
{
        for (size_t i = 0; i < n && s[i]; i++)
                field[i] = s[i];
}

static int put_ustar(struct pack *p, const struct meta *m, struct error *err)
{
        struct ustar h = { .type = m->type, .magic = "ustar", .version = { '0', '0' } };
        uint64_t sec = m->st->st_mtime < 0 ? 0 : (uint64_t) m->st->st_mtime;
        unsigned sum = 0;

        text_field(h.name, sizeof(h.name), m->name);
        text_field(h.link, sizeof(h.link), m->link ? m->link : "");
        octal(h.mode, sizeof(h.mode), m->st->st_mode & 07777);
        octal(h.uid, sizeof(h.uid), m->st->st_uid);
        octal(h.gid, sizeof(h.gid), m->st->st_gid);
        octal(h.size, sizeof(h.size), m->size);
        octal(h.mtime, sizeof(h.mtime), sec);
        memset(h.sum, ' ', sizeof(h.sum));
        for (size_t i = 0; i < sizeof(h); i++)
                sum += ((const unsigned char *) &h)[i];
        (void) snprintf(h.sum, sizeof(h.sum), "%06o", sum);
        return put(p, &h, sizeof(h), err);
}

static int put_header(struct pack *p, const struct meta *m, struct error *err)
{
        struct buf pax = { 0 };
        struct meta x = { .name = "PaxHeader", .st = m->st, .type = 'x' };
        int r = 0;

        pax_records(m, &pax);
        x.size = pax.len;
        if (pax.len && (put_ustar(p, &x, err) < 0 || put(p, pax.data, pax.len, err) < 0 ||
                        put_padding(p, pax.len, err) < 0))
                r = -1;
        buf_done(&pax);
        return r < 0 ? -1 : put_ustar(p, m, err);
}

/* ---- entries ---- */

/* Exactly `size` bytes, whatever has become of the file since its header was written. */
static int put_content(struct pack *p, int fd, uint64_t size, struct error *err)
{
        uint64_t left = size;

        while (left) {
                char *to;
                size_t len;
                ssize_t n;

                if (room(p, &to, &len, err) < 0)
                        return -1;
                n = read(fd, to, left < len ? (size_t) left : len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return fs_error(err, errno, "read", p->path.data);
                if (n == 0)
                        break;
                p->out_len += (size_t) n;
                left -= (uint64_t) n;
        }
        if (put(p, NULL, left, err) < 0)
                return -1;
        return put_padding(p, size, err);
}

/* The first name under which this file was packed, or NULL: then this one is remembered. */
static const char *link_target(struct pack *p, const struct stat *st)
{
        char key[48];
        const char *name;

        if (st->st_nlink < 2)
                return NULL;
        (void) snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long) st->st_dev,
                        (unsigned long long) st->st_ino);
        name = map_get(&p->links, key);
        if (name || p->links_bytes >= LINKS_HELD_BYTES)
                return name;
        (void) map_set(&p->links, key, xstrdup(p->path.data));
        p->links_bytes += p->path.len + LINK_COST;
        return NULL;
}

static int pack_open_file(struct pack *p, int fd, struct error *err)
{
        struct meta m = { .name = p->path.data, .type = '0' };
        struct stat st;

        if (fstat(fd, &st) < 0)
                return fs_error(err, errno, "look at", p->path.data);
        if (!S_ISREG(st.st_mode))
                return 0; /* became something else between the look and the opening */
        m.st = &st;
        m.link = link_target(p, &st);
        if (m.link) {
                m.type = '1';
                return put_header(p, &m, err);
        }
        m.size = (uint64_t) st.st_size;
        if (put_header(p, &m, err) < 0)
                return -1;
        return put_content(p, fd, m.size, err);
}

/* Gone, or no longer what it was a moment ago: like any file that is removed while we walk. */
static int changed_or(int sys, const char *path, struct error *err)
{
        if (sys == ENOENT || sys == ELOOP || sys == ENOTDIR || sys == ENXIO)
                return 0;
        return fs_error(err, sys, "open", path);
}

static int pack_file(struct pack *p, int dir, const char *name, struct error *err)
{
        const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
        _cleanup_close_ int fd = openat(dir, name, flags);

        return fd < 0 ? changed_or(errno, p->path.data, err) : pack_open_file(p, fd, err);
}

static int pack_symlink(struct pack *p, int dir, const char *name, const struct stat *st,
                        struct error *err)
{
        struct meta m = { .name = p->path.data, .st = st, .type = '2' };
        char target[4096 + 1];
        ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

        if (n < 0)
                return errno == EINVAL ? 0 : changed_or(errno, p->path.data, err);
        target[n] = '\0';
        m.link = target;
        return put_header(p, &m, err);
}

/* Files of the kernel have no true size and some never end: their mount points stay empty. */
static bool is_virtual(int fd)
{
        static const long kinds[] = {
                PROC_SUPER_MAGIC, SYSFS_MAGIC,      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                DEBUGFS_MAGIC,    SECURITYFS_MAGIC, TRACEFS_MAGIC,      BPF_FS_MAGIC,
        };
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (fs.f_type == kinds[i])
                        return true;
        return false;
}

static int pack_content(struct pack *p, int fd, unsigned depth, struct error *err);

static int pack_dir(struct pack *p, int dir, const char *name, unsigned depth, struct error *err)
{
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        _cleanup_close_ int fd = openat(dir, name, flags);
        struct meta m = { .type = '5' };
        struct stat st;
        dev_t above = p->dev;
        int r;

        if (fd < 0)
                return changed_or(errno, p->path.data, err);
        if (fstat(fd, &st) < 0)
                return fs_error(err, errno, "look at", p->path.data);
        buf_putc(&p->path, '/');
        m.name = p->path.data;
        m.st = &st;
        if (put_header(p, &m, err) < 0)
                return -1;
        if (st.st_dev != above && is_virtual(fd))
                return 0;
        p->dev = st.st_dev;
        r = pack_content(p, TAKE_FD(fd), depth + 1, err);
        p->dev = above;
        return r;
}

static int pack_entry(struct pack *p, int dir, const char *name, unsigned depth, struct error *err)
{
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return changed_or(errno, p->path.data, err);
        if (S_ISREG(st.st_mode))
                return pack_file(p, dir, name, err);
        if (S_ISDIR(st.st_mode))
                return pack_dir(p, dir, name, depth, err);
        if (S_ISLNK(st.st_mode))
                return pack_symlink(p, dir, name, &st, err);
        return 0; /* sockets, FIFOs and devices mean nothing elsewhere */
}

static void closedirp(DIR **d)
{
        if (*d)
                (void) closedir(*d);
}

/* Takes fd. */
static int pack_content(struct pack *p, int fd, unsigned depth, struct error *err)
{
        _cleanup_(closedirp) DIR *d = fdopendir(fd);
        size_t base = p->path.len;
        const struct dirent *e;

        if (!d) {
                (void) close(fd);
                return error_set(err, ERR_SYSTEM, errno, "list '%s'", p->path.data);
        }
        if (depth > FS_DEPTH_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "directories nested deeper than %d",
                                 FS_DEPTH_MAX);
        while ((void) (errno = 0), (e = readdir(d))) {
                int r;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                buf_puts(&p->path, e->d_name);
                r = pack_entry(p, dirfd(d), e->d_name, depth, err);
                p->path.len = base;
                p->path.data[base] = '\0';
                if (r < 0)
                        return -1;
        }
        return errno ? fs_error(err, errno, "list", p->path.data) : 0;
}

/* ---- the whole ---- */

static int pack_open_zstd(struct pack *p, struct error *err)
{
        p->zstd = ZSTD_createCCtx();
        if (!p->zstd)
                return error_set(err, ERR_SYSTEM, ENOMEM, "compress");
        (void) ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
        (void) ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_windowLog, ZSTD_WINDOW);
        (void) ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1);
        p->packed = xmalloc(OUT_BYTES);
        return 0;
}

static int pack_start(struct pack *p, const struct fsroot *r, const char *path, struct error *err)
{
        const char *slash = strrchr(path, '/');
        _cleanup_close_ int fd = -1;
        struct fs_info info;

        /* First a look without opening: devices may do something when they are opened. */
        if (fs_stat(r, path, &info, err) < 0)
                return -1;
        if (!S_ISREG(info.mode) && !S_ISDIR(info.mode))
                return error_set(err, ERR_INVALID, 0, "path is not a file or directory: %s", path);
        fd = fsroot_openat(r, path, O_RDONLY | (S_ISDIR(info.mode) ? O_DIRECTORY : 0), 0, err);
        if (fd < 0)
                return -1;
        if (is_virtual(fd)) /* sizes that are not true, and files that never end (/proc/kcore) */
                return error_set(err, ERR_INVALID, 0, "files of the kernel are not packed: %s",
                                 path);
        if (S_ISDIR(info.mode)) {
                p->dev = (dev_t) info.dev;
                buf_puts(&p->path, "");
                return pack_content(p, TAKE_FD(fd), 0, err);
        }
        buf_puts(&p->path, slash ? slash + 1 : path);
        return pack_open_file(p, fd, err);
}

int tar_pack(const struct fsroot *r, const char *path, enum tar_packing packing,
             const struct tar_sink *sink, struct error *err)
{
        _cleanup_(pack_done) struct pack p = { .sink = sink, .out = xmalloc(OUT_BYTES) };

        if (packing == TAR_ZSTD && pack_open_zstd(&p, err) < 0)
                return -1;
        if (pack_start(&p, r, path, err) < 0)
                return -1;
        if (put(&p, NULL, (uint64_t) 2 * BLOCK, err) < 0)
                return -1;
        return flush_out(&p, true, err);
}
