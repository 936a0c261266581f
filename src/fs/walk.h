/* Going through a directory tree, without following links and without what is ignored. Private to
 * fs/. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct fsroot;

enum { WALK_DEPTH_MAX = 256 }; /* one open directory per level; what lies deeper is skipped */

struct walk_entry {
        int dir_fd;
        const char *name, *path; /* absolute */
        const char *below;       /* path relative to where the walk began */
        bool is_dir, is_file;    /* neither: a link, a FIFO, a device … */
};
struct walk_spec {
        const char *path;
        bool with_ignored, with_hidden;
        /* 1 = go on, 0 = go on, but not into this directory, -1 = stop. Entries come in the order
         * of the system, a directory before what is in it. */
        int (*on_entry)(void *arg, const struct walk_entry *e, struct error *err);
        void (*on_skip)(void *arg); /* a directory that cannot be read, or lies too deep */
        void *arg;
};
/* dir_fd (opened for reading, taken) is the directory at spec->path. */
int walk_tree(const struct fsroot *r, int dir_fd, const struct walk_spec *spec, struct error *err);
