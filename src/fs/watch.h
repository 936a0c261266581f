/* Changes below a directory, from inotify: recursive, coalesced, honest about what it missed.
 * Blocking: runs in a job of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct fsroot;
struct job;

enum {
        WATCH_DIRS_MAX = 100 * 1000,
        WATCH_COALESCE_MS = 50,        /* changes of one path within this time become one */
        WATCH_PENDING_MAX = 10 * 1000, /* paths waiting to be told; then they are told at once */
};

enum fs_change { FS_CREATED, FS_MODIFIED, FS_DELETED, FS_MOVED, FS_OVERFLOW, FS_READY };
struct fs_event {
        enum fs_change change;
        const char *path; /* absolute; of FS_MOVED the new one */
        const char *from; /* FS_MOVED only */
        bool is_dir;
        uint64_t n_lost; /* FS_OVERFLOW: at least so many, 0 = the kernel does not say */
};
struct fs_watch_spec {
        const char *path;                /* resolved: a directory or a file */
        bool is_recursive, with_ignored; /* .git is left out unless with_ignored */
};
/* Returns when the job is cancelled (0), the path is gone (after its FS_DELETED, 0), or it cannot
 * go on: ERR_BUSY when the system has no watches left, ERR_TOO_BIG over WATCH_DIRS_MAX. FS_READY
 * comes when every directory is watched: changes from then on are told.
 *
 * FS_OVERFLOW means: look for yourself, then go on listening. It comes when the kernel's queue ran
 * over (while on_event() waited for its reader), or when directories were moved and replaced faster
 * than they could be looked at. Everything is watched again before it is told; what comes behind it
 * may be older than what you find. A path that is new and gone within WATCH_COALESCE_MS is not
 * told. */
int fs_watch(const struct fsroot *r, const struct fs_watch_spec *, struct job *j,
             int (*on_event)(void *arg, const struct fs_event *e, struct error *err), void *arg,
             struct error *err);
