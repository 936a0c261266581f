/* Files and directories: look, read, write, make, move, remove. Blocking (see root.h); every path
 * is what fsroot_resolve() gave. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct buf;
struct fsroot;

enum {
        FS_LIST_MAX = 500 * 1000,          /* entries of one listing */
        FS_VIRTUAL_MAX = 16 * 1024 * 1024, /* of a file in /proc or /sys, whose size is unknown */
        FS_DEPTH_MAX = 1024,               /* of a tree that is removed, copied or packed */
};

struct fs_info {
        mode_t mode; /* type and permissions */
        uint64_t size, ino, dev;
        int64_t modified_ns; /* since 1970 */
};
void fs_etag(const struct fs_info *i, char ret[static 64]); /* strong, with quotes */

int fs_stat(const struct fsroot *r, const char *path, struct fs_info *ret, struct error *err);

/* The same without ever waiting, for the loop's thread: 1 = here it is, 0 = ask fs_stat(). Knows
 * only what the kernel has in memory, on file systems of this machine that fs_stat() has seen
 * before. */
int fs_stat_now(const struct fsroot *r, const char *path, struct fs_info *ret);

/* Every entry but "." and "..", as the links themselves (lstat), in the order of the system. An
 * entry that goes away meanwhile is left out. ERR_INVALID "path is not a directory: …". */
struct fs_list_cb {
        int (*on_entry)(void *arg, const char *name, const struct fs_info *i, struct error *err);
        void *arg;
};
int fs_list(const struct fsroot *r, const char *path, const struct fs_list_cb *, struct error *err);

/* A regular file to read: the descriptor (blocking reads) and what it is. ERR_INVALID "path is not
 * a file: …" for anything else. is_virtual: the size means nothing (/proc, /sys): read it with
 * fs_read_virtual(), never hang on it, never believe its size. */
struct fs_reader {
        int fd;
        struct fs_info info;
        bool is_virtual;
};
int fs_reader_open(const struct fsroot *r, const char *path, struct fs_reader *ret,
                   struct error *err);
int fs_read_virtual(int fd, const char *path, struct buf *ret, struct error *err); /* ERR_TOO_BIG */

/* ---- writing: all or nothing ----
 * The new content gathers in a file without a name beside the target and takes its place in one
 * step, so a reader sees the old file or the new one, and a crash, a full disk or a client that
 * leaves changes nothing. Links are followed: their target is replaced. Mode (and owner, where
 * possible) of an existing file are kept; one that we may not write to is ERR_FORBIDDEN, although
 * it could be replaced. Parents are made at the end. Only a target that cannot be replaced (a mount
 * point, a file of others in a sticky directory) is written in place. */
struct fs_writer;
struct fs_write_opts {
        bool is_durable;   /* fsync the file and its directory before the end */
        bool must_be_new;  /* If-None-Match: * */
        const char *match; /* the target's etag must be this one; NULL = any */
        bool is_short;     /* everything is there and the commit follows at once: takes less time */
        uint64_t size_hint; /* to find out about a full disk early; 0 = unknown */
};
int fs_writer_open(const struct fsroot *r, const char *path, const struct fs_write_opts *,
                   struct fs_writer **ret, struct error *err);
int fs_writer_write(struct fs_writer *w, const void *data, size_t len, struct error *err);
/* ERR_PRECONDITION when must_be_new or match is no longer true. ret may be NULL. */
int fs_writer_commit(struct fs_writer *w, struct fs_info *ret, struct error *err);
struct fs_writer *fs_writer_free(struct fs_writer *w); /* without commit: nothing has happened */

/* What may take long asks now and then whether to give up: then it ends with ERR_BUSY. Called on
 * the thread that does the work. */
struct fs_stop {
        bool (*is_wanted)(void *arg);
        void *arg;
};

/* A link is removed itself, never its target. A directory that is not empty needs is_recursive:
 * ERR_CONFLICT. ERR_INVALID for the root, the home directory and their parents, empty or not. */
int fs_remove(const struct fsroot *r, const char *path, bool is_recursive, struct error *err);
int fs_remove_until(const struct fsroot *r, const char *path, bool is_recursive,
                    const struct fs_stop *stop, struct error *err);
int fs_mkdir(const struct fsroot *r, const char *path, struct error *err); /* with parents */
/* Onto itself: nothing happens. A target that exists: ERR_INVALID "destination already exists: …",
 * or with is_overwrite it is replaced in one step where the kernel can, and never before the source
 * is known to be there. Into a directory below itself: ERR_INVALID. To another file system: copied
 * beside the target, then renamed, then the source is removed. Wherever it ends early, the source
 * is whole at its name, or the target is and the source has no name any more. */
int fs_move(const struct fsroot *r, const char *from, const char *to, bool is_overwrite,
            struct error *err);
int fs_move_until(const struct fsroot *r, const char *from, const char *to, bool is_overwrite,
                  const struct fs_stop *stop, struct error *err);
/* The same, but only what takes one step: *ret_is_long when a copy or the removal of a tree is
 * needed; then nothing was moved yet. */
int fs_move_quick(const struct fsroot *r, const char *from, const char *to, bool is_overwrite,
                  bool *ret_is_long, struct error *err);
