/* Cgroups, both versions: one directory per child below our own cgroup, which can be listed, killed
 * and removed as a whole.
 *
 * Each server makes "sandbox-agent-<pid>" in every hierarchy that it uses and holds a lock on it
 * for life; its children's directories stand inside. A directory of that name whose lock is free
 * belongs to a server that died without tidying up, whatever its process id means today: what still
 * runs in there is killed when the next server starts. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct cgroup {
        const char *controller; /* "" = version 2 */
        int own_fd;             /* the cgroup that we are in */
        int base_fd;            /* "sandbox-agent-<pid>" below it, locked */
        char base_name[48];
};

/* Finds where we are in the hierarchy and makes our directory. Fails with ERR_UNSUPPORTED when it
 * is not mounted or not ours to write. */
int cgroup_init(struct cgroup *g, const char *controller, struct error *err);
/* Kills what dead servers left behind, waiting a moment for it to go: start-up only. */
void cgroup_sweep(const char *controller);
void cgroup_done(struct cgroup *g); /* removes our directory if it is empty; idempotent */

/* One child's group, by number. */
int cgroup_make(struct cgroup *g, unsigned id, struct error *err);
int cgroup_open(struct cgroup *g, unsigned id);       /* the directory, or -1 */
int cgroup_open_procs(struct cgroup *g, unsigned id); /* where one joins by writing "0", or -1 */
int cgroup_limit(struct cgroup *g, unsigned id, const char *file, uint64_t value,
                 struct error *err);
/* Version 2: makes a controller available to the children's groups. */
int cgroup_enable(struct cgroup *g, const char *controller, struct error *err);
void cgroup_signal(struct cgroup *g, unsigned id, int sig); /* each process, nested groups too */
void cgroup_kill(struct cgroup *g, unsigned id);    /* all at once where the kernel can do that */
int cgroup_can_kill(struct cgroup *g, unsigned id); /* -1 if there is no working cgroup.kill */
bool cgroup_is_empty(struct cgroup *g, unsigned id);
int cgroup_remove(struct cgroup *g,
                  unsigned id); /* with nested groups; -1 while somebody is in it */
