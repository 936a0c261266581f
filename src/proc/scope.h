/* Containment: where a child's processes are, whatever they do.
 *
 * Three ways, best first. In a cgroup of version 2 the kernel kills a tree in one stroke. In one of
 * version 1 we list and kill until nobody is left. Without any, every process that loses its parent
 * becomes ours (subreaper), so all descendants can be found by walking; whose they are is told by
 * their ancestors, by their session, and by a mark that a process inherits and does not shed with
 * fork, setsid, exec or a clean environment: an odd value of the soft RLIMIT_RTTIME, which means
 * nothing to anybody but real-time threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "proc/cgroup.h"
#include "proc/tree.h"

struct spawn_plan;

enum contain_mode { CONTAIN_BEST, CONTAIN_CGROUP2, CONTAIN_CGROUP1, CONTAIN_SUBREAPER };
enum { LIMIT_MEM, LIMIT_PIDS, LIMIT__MAX };

/* One per supervisor. */
struct contain {
        enum contain_mode mode;           /* never CONTAIN_BEST */
        struct cgroup home;               /* holds the children's groups */
        struct cgroup limits[LIMIT__MAX]; /* version 1 groups that only limit; made when needed */
        bool is_enabled[LIMIT__MAX];      /* home hands the controller down (version 2) */
        bool (*is_child)(pid_t pid);      /* one that we started and have not reaped */
        uint32_t key;                     /* ours */
        struct tree tree;                 /* subreaper: the last walk, good for a moment */
        int64_t tree_at_us;
        uint64_t tree_serial;
};

/* Takes the best way that works here, or exactly the one that is wanted. */
int contain_init(struct contain *c, enum contain_mode want, bool (*is_child)(pid_t pid),
                 struct error *err);
void contain_done(struct contain *c);
const char *contain_name(const struct contain *c);

/* A number for one server, made of what no other has, too: process ids come again, and in another
 * pid namespace somebody else has the same. */
uint32_t scope_key(pid_t pid, uint64_t start, uint64_t pid_namespace);
/* The key of the server that gave this mark, tree_mark(); 0 = it is none of the kind. */
uint32_t scope_key_of(uint64_t mark);

/* One per child. */
struct scope {
        struct contain *in;
        unsigned id;
        pid_t leader; /* set by the owner once it runs */
        /* Its group cannot be used again: it has limits, or it was killed. Linux (6.18) takes who
         * is born into a group that was ever killed for a victim that came late. */
        bool is_spoilt;
        bool is_limited[LIMIT__MAX]; /* has a version 1 group of its own there */
        bool is_gone;                /* nobody is left and nothing needs removing */
        uint64_t empty_serial;       /* the walk that saw it empty for the first time */
};

/* Limits of 0 are none. One that cannot be enforced is refused with ERR_UNSUPPORTED. */
int scope_init(struct scope *s, struct contain *in, uint64_t mem_max, uint32_t pids_max,
               struct error *err);
void scope_abandon(struct scope *s); /* nobody ever got in */
/* Fills in how the child gets there; scope_leave_plan() closes what that opened. */
int scope_fill_plan(struct scope *s, struct spawn_plan *p, struct error *err);
void scope_leave_plan(struct spawn_plan *p);
void scope_signal(struct scope *s, int sig); /* every process of the tree */
void scope_kill(struct scope *s);
/* Adds up what the tree uses, looking at no more than `max` processes. */
void scope_usage(struct scope *s, uint32_t max, struct tree_usage *sum);
/* True when the tree is empty; then its groups are removed as well. */
bool scope_settle(struct scope *s);
