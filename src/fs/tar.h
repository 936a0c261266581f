/* Folders as tar archives, both ways. Blocking; the archive's bytes come and go through callbacks.
 * Only tar-unpack.c names libarchive, only tar-pack.c zstd. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct fsroot;

enum {
        TAR_ENTRIES_MAX = 1000 * 1000,
        TAR_PATHS_MAX = 1024, /* names that are reported back */
};

struct tar_source {
        /* The next bytes, good until the next call; *ret_len 0 = end. */
        int (*read)(void *arg, const char **ret, size_t *ret_len, struct error *err);
        void *arg;
};
struct tar_sink {
        int (*write)(void *arg, const void *data, size_t len, struct error *err);
        void *arg;
};
struct tar_paths {
        char **at; /* absolute, in order, the first TAR_PATHS_MAX */
        size_t n;
        bool is_truncated;
};
void tar_paths_done(struct tar_paths *p);

/* Unpacks into the directory `dest` (made when missing): ustar, GNU and PAX, uncompressed. Files,
 * directories, symbolic links and hard links (to what is below dest), with mode and time; owners
 * and set-id bits are not taken over. Nothing is ever written outside of dest: a name with ".." or
 * an absolute one is ERR_INVALID "invalid relative path: …"; a directory on the way that is a
 * symbolic link (from the archive or there before) is ERR_FORBIDDEN; a link may point anywhere but
 * is never walked through. Devices and FIFOs are ERR_INVALID. Existing files and links are replaced
 * in one step each, a directory never (ERR_CONFLICT). Garbage is ERR_INVALID with the place; a file
 * larger than the file system can have ERR_TOO_BIG. Empty input is an empty archive; the source is
 * read to its end. What was unpacked before a failure stays. */
int tar_unpack(const struct fsroot *r, const char *dest, const struct tar_source *,
               struct tar_paths *ret, struct error *err);

enum tar_packing { TAR_PLAIN, TAR_ZSTD };
/* Packs a file (under its own name) or the content of a folder (names relative to it, without
 * "./"): PAX, names as the bytes they are, times to the nanosecond, links as links, sockets, FIFOs
 * and devices left out, mounted files of the kernel (/proc, /sys) as empty directories (to ask for
 * one of those itself is ERR_INVALID). A file that shrinks meanwhile is padded, one that grows is
 * cut, so the archive stays whole. What goes away meanwhile is left out; what may not be read is an
 * error. */
int tar_pack(const struct fsroot *r, const char *path, enum tar_packing packing,
             const struct tar_sink *, struct error *err);
