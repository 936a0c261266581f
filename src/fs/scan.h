/* The lines of one file that fit. Private to fs/. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fs/search.h"

struct matcher;

/* One for all files of a search: holds the block that is read into. */
struct scan {
        struct matcher *matcher;
        int (*on_hit)(void *arg, const struct search_hit *, struct error *err); /* 1, 0 or -1 */
        bool (*is_cancelled)(void *arg);
        void *arg;
        char *block; /* SEARCH_BLOCK_BYTES, made when needed; scan_done() frees it */
        /* Of the file at hand. */
        const char *path;
        uint64_t line;   /* number of the line at the beginning of the block */
        uint64_t column; /* bytes of that line that are gone already: it is a very long one */
        bool is_told;    /* and it had its hit */
        bool was_too_hard;
};
void scan_done(struct scan *s);

enum scan_result {
        SCAN_DONE,
        SCAN_SKIPPED, /* binary, too large, unreadable, or too hard in places */
        SCAN_STOPPED, /* on_hit() returned 0 */
};
/* A regular file, opened without blocking. is_any_size: believe no size, read until the end (a file
 * of /proc). Returns a scan_result, or -1. */
int scan_fd(struct scan *s, int fd, const char *path, bool is_any_size, struct error *err);
