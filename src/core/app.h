/* The product without its HTTP face: loop, children, log. One per process (tests make several).
 *
 * The order of life matters: the store opens after the listeners are bound (a busy port is found
 * before anything is touched) and closes last, when no request and no child can append any more. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct evlog;
struct fsroot;
struct loop;
struct processes;
struct supervisor;

enum app_store { APP_STORE_SQLITE, APP_STORE_MEMORY }; /* a file in data_dir; or nothing is kept */

struct app_spec {
        const char *data_dir; /* created when missing */
        enum app_store store;
        bool is_full_sync;
        const char *fs_root; /* the part of the file system that clients see; NULL = all of it */
};

struct app {
        struct loop *loop;
        struct supervisor *children;
        struct processes *processes;
        struct fsroot *files;
        struct evlog *log;
        char *data_dir, *store_path;
        int64_t started_us; /* real time */
};

enum {
        APP_STORE_SLOTS = 16,      /* servers that may share a data directory */
        APP_STORE_WAIT_MS = 2000,  /* for a predecessor that is still writing its last events */
        APP_CHILD_GRACE_MS = 5000, /* from TERM to KILL */
        APP_LOG_FLUSH_MS = 5000,
};

/* The default data directory, in malloc'd memory: $XDG_DATA_HOME/sandbox-agent or
 * $HOME/.local/share/sandbox-agent. ERR_INVALID when neither variable is set. */
int app_default_data_dir(char **ret, struct error *err);

int app_open(struct loop *l, const struct app_spec *, struct app **ret, struct error *err);
/* Ends the children, then done(arg). */
void app_shutdown(struct app *a, void (*done)(void *arg), void *arg);
struct app *app_free(struct app *a); /* commits what is pending */
