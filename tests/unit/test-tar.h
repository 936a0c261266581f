/* What the tests of archives share: a place to unpack into, and archives made by hand. */
#pragma once
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "fs/file.h"
#include "fs/root.h"
#include "fs/tar.h"

/* A directory with "dest" to unpack into and "outside", which must never change. */
struct bed {
        char dir[64];
        char *dest, *outside;
        struct fsroot *root;
        struct error err;
        struct tar_paths paths;
        struct buf tar;
};

static inline void bed_open(struct bed *b)
{
        *b = (struct bed) { 0 };
        (void) snprintf(b->dir, sizeof(b->dir), "/tmp/sa-unit-tar-XXXXXX");
        EXPECT(mkdtemp(b->dir));
        b->dest = path_join(b->dir, "dest");
        b->outside = path_join(b->dir, "outside");
        EXPECT_INT(mkdir(b->dest, 0755), 0);
        EXPECT_INT(mkdir(b->outside, 0755), 0);
        EXPECT_OK(fsroot_open(NULL, "/", &b->root, &b->err), b->err);
}

static inline void bed_close(struct bed *b)
{
        EXPECT_INT(rmdir(b->outside), 0); /* still empty */
        EXPECT_OK(fs_remove(b->root, b->dir, true, &b->err), b->err);
        tar_paths_done(&b->paths);
        buf_done(&b->tar);
        fsroot_free(b->root);
        free(b->dest);
        free(b->outside);
}

/* ---- archives, by hand ---- */

/* The check sum of a header that was changed. */
static inline void fix_sum(char *h)
{
        unsigned sum = 0;

        memset(h + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
                sum += (unsigned char) h[i];
        (void) snprintf(h + 148, 8, "%06o", sum);
}

static inline void add_blocks(struct buf *b, const void *data, size_t len)
{
        static const char zeros[512];

        buf_put(b, data, len);
        buf_put(b, zeros, (512 - len % 512) % 512);
}

static inline void add_entry(struct buf *b, char type, const char *name, unsigned mode,
                             const char *link, const char *data, size_t len)
{
        char h[512] = { 0 };

        memcpy(h, name, MIN(strlen(name), (size_t) 100));
        (void) snprintf(h + 100, 8, "%07o", mode);
        (void) snprintf(h + 108, 8, "%07o", 0);
        (void) snprintf(h + 116, 8, "%07o", 0);
        (void) snprintf(h + 124, 12, "%011zo", len);
        (void) snprintf(h + 136, 12, "%011o", 1000000000);
        h[156] = type;
        memcpy(h + 157, link, MIN(strlen(link), (size_t) 100));
        memcpy(h + 257, "ustar\00000", 8);
        fix_sum(h);
        buf_put(b, h, sizeof(h));
        add_blocks(b, data, len);
}

static inline void add_file(struct buf *b, const char *name, const char *text)
{
        add_entry(b, '0', name, 0644, "", text, strlen(text));
}
static inline void add_dir(struct buf *b, const char *name, unsigned mode)
{
        add_entry(b, '5', name, mode, "", "", 0);
}
static inline void add_symlink(struct buf *b, const char *name, const char *to)
{
        add_entry(b, '2', name, 0777, to, "", 0);
}
static inline void add_hardlink(struct buf *b, const char *name, const char *to)
{
        add_entry(b, '1', name, 0644, to, "", 0);
}

/* A PAX record for the next entry. */
static inline void add_pax(struct buf *b, const char *key, const char *value)
{
        size_t n = strlen(key) + strlen(value) + 3;
        char *text;

        n += n + 2 > 99 ? n + 3 > 999 ? 4 : 3 : 2;
        text = xasprintf("%zu %s=%s\n", n, key, value);
        EXPECT_INT(strlen(text), n);
        add_entry(b, 'x', "PaxHeader", 0644, "", text, n);
        free(text);
}

static inline void add_end(struct buf *b)
{
        static const char zeros[1024];

        buf_put(b, zeros, sizeof(zeros));
}

/* ---- in and out ---- */

struct memory {
        struct slice rest;
        size_t step; /* bytes per read */
};

static inline int memory_read(void *arg, const char **ret, size_t *ret_len, struct error *err)
{
        struct memory *m = arg;
        size_t n = MIN(m->rest.len, m->step);

        *ret = m->rest.at;
        *ret_len = n;
        m->rest = (struct slice) { m->rest.at + n, m->rest.len - n };
        return 0;
}

static inline int buf_write(void *arg, const void *data, size_t len, struct error *err)
{
        buf_put(arg, data, len);
        return 0;
}

static inline int unpack_by(struct bed *b, size_t step)
{
        struct memory m = { { b->tar.data, b->tar.len }, step };
        const struct tar_source src = { memory_read, &m };

        tar_paths_done(&b->paths);
        return tar_unpack(b->root, b->dest, &src, &b->paths, &b->err);
}

static inline int unpack(struct bed *b)
{
        return unpack_by(b, 64 * 1024);
}

static inline int pack(struct bed *b, const char *path, enum tar_packing how)
{
        const struct tar_sink sink = { buf_write, &b->tar };

        buf_clear(&b->tar);
        return tar_pack(b->root, path, how, &sink, &b->err);
}

static inline void expect_content(const struct bed *b, const char *name, const char *want)
{
        _cleanup_free_ char *path = path_join(b->dir, name);
        _cleanup_(buf_done) struct buf text = { 0 };
        struct error err = { 0 };

        EXPECT_OK(file_read(path, &text, &err), err);
        EXPECT_STR(text.data, want);
}

static inline struct stat look(const struct bed *b, const char *name)
{
        _cleanup_free_ char *path = path_join(b->dir, name);
        struct stat st = { 0 };

        EXPECT_INT(lstat(path, &st), 0);
        return st;
}

static inline bool is_there(const struct bed *b, const char *name)
{
        _cleanup_free_ char *path = path_join(b->dir, name);
        struct stat st;

        return lstat(path, &st) == 0;
}

static inline size_t count_entries(void *arg, const char *path)
{
        struct bed *b = arg;
        size_t n = 0;
        _cleanup_(buf_done) struct buf copy = { 0 };
        const struct tar_sink sink = { buf_write, &copy };

        EXPECT_OK(tar_pack(b->root, path, TAR_PLAIN, &sink, &b->err), b->err);
        for (size_t at = 0; at + 512 <= copy.len && copy.data[at]; n++) {
                size_t size = strtoul(copy.data + at + 124, NULL, 8);

                at += 512 + (size + 511) / 512 * 512;
        }
        return n;
}
