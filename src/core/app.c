#include "core/app.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "core/processes.h"
#include "event/evlog.h"
#include "fs/root.h"
#include "io/loop.h"
#include "proc/child.h"
#include "store/store.h"

enum { LOCK_RETRY_MS = 20 };

int app_default_data_dir(char **ret, struct error *err)
{
        const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

        if (xdg && xdg[0] == '/')
                *ret = xasprintf("%s/sandbox-agent", xdg);
        else if (home && home[0] == '/')
                *ret = xasprintf("%s/.local/share/sandbox-agent", home);
        else
                return error_set(err, ERR_INVALID, 0,
                                 "find the data directory: neither XDG_DATA_HOME nor HOME is an "
                                 "absolute path");
        return 0;
}

static int open_slot(struct app *a, unsigned slot, bool is_full_sync, struct error *err)
{
        _cleanup_free_ char *dsn = NULL;

        free(a->store_path);
        a->store_path = slot ? xasprintf("%s/store-%u.db", a->data_dir, slot + 1)
                             : xasprintf("%s/store.db", a->data_dir);
        dsn = xasprintf("%s%s", a->store_path, is_full_sync ? "?sync=full" : "?sync=normal");
        return evlog_new(a->loop, &store_sqlite, dsn, &a->log, err);
}

/* The first store is for the usual case, one server. A further one that shares the data directory
 * (the SDK starts as many as it likes) takes the next free file; but first it waits a moment,
 * because the holder may be our predecessor on its way out. */
static int open_sqlite(struct app *a, bool is_full_sync, struct error *err)
{
        struct timespec pause = { .tv_nsec = LOCK_RETRY_MS * 1000000L };

        for (int waited_ms = 0; waited_ms <= APP_STORE_WAIT_MS; waited_ms += LOCK_RETRY_MS) {
                if (open_slot(a, 0, is_full_sync, err) == 0)
                        return 0;
                if (err->kind != ERR_CONFLICT)
                        return -1;
                (void) nanosleep(&pause, NULL); /* start-up: the loop does not run yet */
        }
        for (unsigned slot = 1; slot < APP_STORE_SLOTS; slot++) {
                if (open_slot(a, slot, is_full_sync, err) == 0)
                        return 0;
                if (err->kind != ERR_CONFLICT)
                        return -1;
        }
        return -1;
}

static int open_log(struct app *a, const struct app_spec *spec, struct error *err)
{
        if (spec->store == APP_STORE_MEMORY) {
                a->store_path = xstrdup("memory");
                return evlog_new(a->loop, &store_memory, "", &a->log, err);
        }
        return open_sqlite(a, spec->is_full_sync, err);
}

int app_open(struct loop *l, const struct app_spec *spec, struct app **ret, struct error *err)
{
        struct error local = { 0 };
        struct app *a = NEW(struct app);

        a->loop = l;
        a->data_dir = xstrdup(spec->data_dir);
        a->started_us = clock_real_us();
        if (fsroot_open(spec->fs_root, getenv("HOME"), &a->files, &local) < 0 ||
            dir_make(a->data_dir, 0700, &local) < 0 || open_log(a, spec, &local) < 0) {
                app_free(a);
                *err = local;
                return -1;
        }
        a->children = supervisor_new(l, &local);
        if (!a->children) {
                app_free(a);
                *err = local;
                return error_wrap(err, "start the supervisor");
        }
        supervisor_remember(a->children, a->data_dir);
        a->processes = processes_new(l, a->children);
        *ret = a;
        return 0;
}

void app_shutdown(struct app *a, void (*done)(void *arg), void *arg)
{
        supervisor_shutdown(a->children, APP_CHILD_GRACE_MS, done, arg);
}

struct app *app_free(struct app *a)
{
        if (!a)
                return NULL;
        processes_free(a->processes);
        supervisor_free(a->children);
        evlog_free(a->log, APP_LOG_FLUSH_MS);
        fsroot_free(a->files);
        free(a->data_dir);
        free(a->store_path);
        free(a);
        return NULL;
}
