/* One process from one plain-data plan, at a cost that does not grow with our heap.
 *
 * The child borrows our memory until it has called exec (vfork class) and we stand still meanwhile,
 * so a step that fails in the child is reported by writing to our memory: no pipe, no guessing from
 * exit status 127. Blocking, but only as long as the child needs to reach exec. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { SPAWN_FD_MAX = 8, SPAWN_JOIN_MAX = 4 };

struct spawn_fd {
        int from, to;
};

struct spawn_plan {
        const char *const *argv;
        const char *const *env;            /* NULL = ours */
        const char *cwd;                   /* NULL = ours */
        bool has_tty;                      /* descriptor 0 becomes the controlling terminal */
        struct spawn_fd fds[SPAWN_FD_MAX]; /* all that is open in the child */
        size_t n_fds;
        int into_cgroup_fd;           /* directory of a cgroup2 to be born in, or -1 */
        int join_fds[SPAWN_JOIN_MAX]; /* cgroup.procs files to join before exec */
        size_t n_join;
        uint64_t mark; /* inherited by every descendant (scope.c says why); 0 = none */
};

/* On success the process runs the program, in a session of its own, with default signals and an
 * empty mask. ret_pidfd is close-on-exec and the caller's; the process is the caller's to reap. */
int spawn_run(const struct spawn_plan *p, pid_t *ret_pid, int *ret_pidfd, struct error *err);
/* Only the way into the cgroups: 0 if a child gets there, -1 with errno. Nothing is run. */
int spawn_probe(const struct spawn_plan *p);
