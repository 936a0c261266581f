/* What the tests of fs/ share: a directory of their own, and looks at it that do not go through the
 * code under test. */
#pragma once
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "fs/file.h"
#include "fs/root.h"

/* dir/in is the root of `in`; `all` sees everything, with dir/in as home. */
struct bed {
        char *dir;
        struct fsroot *all, *in;
};

static inline int bed_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static inline void bed_done(struct bed *b)
{
        fsroot_free(b->all);
        fsroot_free(b->in);
        (void) nftw(b->dir, bed_unlink, 16, FTW_DEPTH | FTW_PHYS);
        free(b->dir);
}
#define _cleanup_bed_ _cleanup_(bed_done)

static inline struct bed bed_below(const char *base)
{
        struct bed b = { .dir = xasprintf("%s/sa-unit-XXXXXX", base) };
        _cleanup_free_ char *in = NULL;
        struct error err = {};

        EXPECT(mkdtemp(b.dir));
        in = xasprintf("%s/in", b.dir);
        EXPECT_INT(mkdir(in, 0755), 0);
        EXPECT_OK(fsroot_open(NULL, in, &b.all, &err), err);
        EXPECT_OK(fsroot_open(in, in, &b.in, &err), err);
        return b;
}

static inline struct bed bed_new(void)
{
        return bed_below("/tmp");
}

/* For thousands of entries: in memory, where there is such a place. */
static inline struct bed bed_fast(void)
{
        return bed_below(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

/* A path in the bed, good for the next few calls. */
static inline const char *at(const struct bed *b, const char *name)
{
        static char texts[8][4200];
        static unsigned n;
        char *text = texts[n++ % 8];

        (void) snprintf(text, sizeof(texts[0]), "%s/%s", b->dir, name);
        return text;
}

static inline void put(const struct bed *b, const char *name, const char *content)
{
        struct error err = {};

        EXPECT_OK(file_write(at(b, name), content, strlen(content), 0644, &err), err);
}

/* The content of a file, or "(none)"; good until the next call. */
static inline const char *got(const struct bed *b, const char *name)
{
        static struct buf content = { .max_bytes = 1 << 20 };
        static char *text;

        free(text);
        buf_clear(&content);
        if (file_read(at(b, name), &content, NULL) < 0)
                return (text = xstrdup("(none)"));
        return (text = xstrdup(content.len ? content.data : ""));
}

static inline bool is_there(const struct bed *b, const char *name)
{
        struct stat st;

        return lstat(at(b, name), &st) == 0;
}

static inline int n_entries(const struct bed *b, const char *name)
{
        DIR *d = opendir(at(b, name));
        int n = 0;

        if (!d)
                return -1;
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n - 2;
}

/* The whole of a write, as an upload does it. */
static inline int fs_put(const struct fsroot *r, const char *path, const char *content,
                         const struct fs_write_opts *o, struct error *err)
{
        const struct fs_write_opts none = { 0 };
        struct fs_writer *w = NULL;
        int n = fs_writer_open(r, path, o ? o : &none, &w, err);

        if (n == 0)
                n = fs_writer_write(w, content, strlen(content), err);
        if (n == 0)
                n = fs_writer_commit(w, NULL, err);
        fs_writer_free(w);
        return n;
}
