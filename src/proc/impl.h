/* What child.c and supervisor.c share and nobody else sees. */
#pragma once
#include "base/list.h"
#include "io/loop.h"
#include "io/timer.h"
#include "io/watch.h"
#include "proc/child.h"
#include "proc/lease.h"
#include "proc/scope.h"
#include "proc/tap.h"

/* How hard the tree is being ended. Only ever goes up, and goes on after the child itself has
 * exited: its background processes may outlive it. */
enum child_ending { END_NOT, END_TERM, END_KILL };

/* One child and its tree. It leaves its supervisor's list when all of this is true: the owner has
 * called child_free(), the process has been reaped, nobody is left in its scope. Everything that
 * happens (exit, end of output, time) only notes a fact and queues `settle`, the one place where
 * the facts become states and callbacks; so no callback ever comes from inside a call of the owner.
 */
struct child {
        struct list node;
        struct supervisor *sup; /* NULL once the supervisor has gone: an empty shell */
        struct child_cb cb;
        void *arg;

        enum child_state state, told; /* told: what on_state knows */
        enum child_ending ending;
        enum child_stdio stdio;
        bool ends_with_leader;
        pid_t pid;
        int pidfd;
        struct watch *watch;
        struct scope scope;
        struct tap *taps[3];
        struct task settle;
        struct timer grace; /* TERM → KILL */
        struct timer drain; /* how long output may come after the exit */
        struct timer poll;  /* is the tree empty? the kernel does not tell in all modes */
        int64_t poll_us;
        int code, sig;
        struct child_usage usage; /* the last answer; of the child itself once it is reaped */
        int64_t usage_until_us;   /* how long that answer is good */
        bool is_reaped, is_drained, is_freed;
};

struct supervisor {
        struct list node; /* of all in this process: who may reap what is a process-wide question */
        struct loop *loop;
        struct contain contain;
        struct list children;
        struct lease lease;
        struct task check;  /* of the shutdown */
        struct timer again; /* of the shutdown, for strays */
        void (*done)(void *arg);
        void *done_arg;
        bool is_shutting;
};

/* As supervisor_new(), with the way of containment given. For tests. */
struct supervisor *supervisor_new_with(struct loop *l, enum contain_mode mode, struct error *err);

struct child *child_new(struct supervisor *s, const struct child_spec *, const struct child_cb *,
                        void *arg, struct error *err);
void child_reap(struct child *c); /* takes the status if it has exited */
void child_wake(struct child *c); /* something may have changed in its tree */
void child_kill_now(struct child *c);
void child_drop(struct child *c); /* its supervisor goes: no loop work, no callbacks any more */
