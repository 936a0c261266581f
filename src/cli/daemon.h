/* The server in the background, one per address: where its files are, whether it runs, which build.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/procfs.h"

struct secret;

enum daemon_health {
        DAEMON_DOWN,   /* nobody answers */
        DAEMON_OK,     /* answers 200 */
        DAEMON_LOCKED, /* answers, but wants another token */
        DAEMON_ODD,    /* something else answers */
};

struct daemon {
        const char *host;
        uint16_t port;
        const struct secret *token; /* borrowed; or NULL */
        char *url;                  /* as people see it: http://127.0.0.1:2468 */
        char *probe_url;            /* where it can be reached from here, also for 0.0.0.0 */
        char *pid_path, *version_path, *log_path;
        char build[64]; /* of this program: "0.1.0-1234" */
};

/* Makes the directory. host is borrowed. */
int daemon_init(struct daemon *d, const char *host, uint16_t port, const struct secret *token,
                struct error *err);
void daemon_done(struct daemon *d);

enum daemon_health daemon_probe(const struct daemon *d);
/* The running process: by the pid file, else (when has_listener) by the port. False when there is
 * none that is ours; *ret_stale then tells whether a pid file names a dead or foreign process. */
bool daemon_find(const struct daemon *d, bool has_listener, struct pidref *ret, bool *ret_stale);
/* What the version file says: malloc'd; "unknown" without one. */
char *daemon_build(const struct daemon *d);
int daemon_remember(const struct daemon *d, pid_t pid, struct error *err);
void daemon_forget(const struct daemon *d); /* removes pid and version, keeps the log */
/* The last line of the log, malloc'd, "" when there is none. */
char *daemon_last_words(const struct daemon *d);
