/* Cgroups, both versions: one directory per child below our own cgroup, which can be listed, killed
 * and removed as a whole.
 *
 * Each server makes "sandbox-agent-<pid>" in every hierarchy that it uses and holds a lock on it
 * for life; its children's directories stand inside. A directory of that name whose lock is free
 * belongs to a server that died without tidying up, whatever its process id means today: what still
 * runs in there is killed when the next server starts. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { CGROUP_SPARE_MAX = 64 };

struct cgroup {
        const char *controller; /* "" = version 2 */
        int own_fd;             /* the cgroup that we are in */
        int base_fd;            /* "sandbox-agent-<pid>" below it, locked */
        char base_name[48];
        unsigned spare[CGROUP_SPARE_MAX]; /* empty groups that can be used again */
        size_t n_spare;
};

/* Finds where we are in the hierarchy and makes our directory. Fails with ERR_UNSUPPORTED when it
 * is not mounted or not ours to write. */
int cgroup_init(struct cgroup *g, const char *controller, struct error *err);
/* Kills what dead servers left behind, waiting a moment for it to go: start-up only. */
void cgroup_sweep(const char *controller);
void cgroup_done(struct cgroup *g); /* removes our directory if it is empty; idempotent */

/* One child's group, by number. */
int cgroup_make(struct cgroup *g, unsigned id, struct error *err);
/* An empty group that was never changed is better used again than made anew: starting the first
 * process of a new one took half a millisecond, ten times as long (measured with Linux 6.18). False
 * if it cannot be kept; or if there is none. */
bool cgroup_spare(struct cgroup *g, unsigned id);
bool cgroup_take_spare(struct cgroup *g, unsigned *ret_id);
int cgroup_open(struct cgroup *g, unsigned id);       /* the directory, or -1 */
int cgroup_open_procs(struct cgroup *g, unsigned id); /* where one joins by writing "0", or -1 */
int cgroup_limit(struct cgroup *g, unsigned id, const char *file, uint64_t value,
                 struct error *err);
/* Version 2: makes a controller available to the children's groups. */
int cgroup_enable(struct cgroup *g, const char *controller, struct error *err);
/* Calls fn for each process, nested groups too, until it says false. */
void cgroup_each(struct cgroup *g, unsigned id, bool (*fn)(void *arg, pid_t pid), void *arg);
void cgroup_signal(struct cgroup *g, unsigned id, int sig); /* each process, nested groups too */
void cgroup_kill(struct cgroup *g, unsigned id);    /* all at once where the kernel can do that */
int cgroup_can_kill(struct cgroup *g, unsigned id); /* -1 if there is no working cgroup.kill */
bool cgroup_is_empty(struct cgroup *g, unsigned id);
int cgroup_remove(struct cgroup *g,
                  unsigned id); /* with nested groups; -1 while somebody is in it */
