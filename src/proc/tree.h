/* The processes below one process, as /proc tells it. Used where no cgroup can be had, and at the
 * end of a shutdown for whoever left his cgroup. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_proc {
        pid_t pid, ppid, sid;
        uint64_t start; /* with the pid it names a process for good */
        bool is_below;  /* a descendant of the root */
};

struct tree {
        struct tree_proc *procs; /* living descendants only, by pid */
        size_t n;
        bool is_partial; /* descriptors or memory ran out: who is not here may live */
};

uint64_t tree_start(pid_t pid); /* see tree_proc.start; 0 = there is none */
uint64_t tree_namespace(void);  /* in which our process ids mean something */
/* Have we no descendant at all? Ours hang on a child of ours, because we adopt orphans; so this
 * needs no look into /proc. */
bool tree_is_empty(void);
void tree_scan(struct tree *t, pid_t root); /* 0 = everybody */
void tree_done(struct tree *t);
bool tree_is_under(const struct tree *t, pid_t pid, pid_t ancestor); /* a process is under itself */

/* Does is_child() know every process whose parent we are? Then no orphan is left here, and that at
 * a hundredth of the price of a walk. False also where the kernel does not tell. */
bool tree_has_no_orphan(bool (*is_child)(pid_t pid));

/* What processes use, added up. Of one that has gone meanwhile nothing is added. */
struct tree_usage {
        uint64_t cpu_user_us, cpu_system_us; /* with their children that were waited for */
        uint64_t rss_bytes, largest_peak_bytes;
        uint32_t n;
};
void tree_add_usage(pid_t pid, struct tree_usage *sum);

/* The mark that spawn_plan.mark set on the process or on an ancestor of it; 0 if unknown. */
uint64_t tree_mark(pid_t pid);
/* Sends only to the process that was seen, never to one that has its number now. */
void tree_signal(const struct tree_proc *p, int sig);
