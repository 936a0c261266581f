/* Child processes: plain-data spec in, one state machine out. Only this folder forks.
 *
 * Spawning costs the same whatever the size of our heap (posix_spawn / vfork class). Every child is
 * a process group and session of its own and, where the kernel allows, sits in a cgroup; the server
 * is a subreaper. So child_stop() ends the whole tree: also what double-forked, called setsid and
 * cleared its environment.
 *
 * A child that exits by itself leaves its background processes running, unless its spec says
 * otherwise; they end with child_stop(), child_free() or the supervisor. No callback ever comes
 * from inside a call that the owner makes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct child;
struct loop;
struct stream;
struct supervisor;

enum child_state { CHILD_NEW, CHILD_RUNNING, CHILD_STOPPING, CHILD_KILLING, CHILD_EXITED };
enum child_stdio { STDIO_NULL, STDIO_PIPE, STDIO_PTY, STDIO_INHERIT };
enum { CHILD_PASS_MAX = 4, CHILD_USAGE_MAX = 1024 };

struct child_spec {
        /* argv[0] is looked up in the child's PATH unless it has a slash. */
        const char *const *argv;
        const char *const *env; /* NULL = ours */
        const char *cwd;        /* NULL = ours */
        enum child_stdio stdio;
        bool no_stdin;         /* STDIO_PIPE: 0 is /dev/null */
        bool ends_with_leader; /* who outlives the child itself is killed at once */
        uint16_t cols, rows;   /* STDIO_PTY; 0 = 80 × 24 */
        /* Both need a cgroup; 0 = no limit. What cannot be enforced is refused: ERR_UNSUPPORTED. */
        uint64_t mem_max;  /* bytes */
        uint32_t pids_max; /* processes and threads of the tree */
        struct {
                int fd, as;     /* as: 3 or more */
        } pass[CHILD_PASS_MAX]; /* everything else is closed */
        size_t n_pass;
};

struct child_cb {
        /* May be NULL. Comes at the end of the iteration; steps that follow at once become one. */
        void (*on_state)(void *arg, struct child *, enum child_state was);
        /* Once, last, after stdio has been drained: all that the child wrote has been delivered,
         * however slowly it is read, and each stream has ended. Who else holds the output open is
         * waited for a quarter of a second. code is -1 when a signal ended it; sig is then set. May
         * free the child. */
        void (*on_exit)(void *arg, struct child *, int code, int sig);
};

/* Also ends what a server before us left behind when it was killed. */
struct supervisor *supervisor_new(struct loop *l, struct error *err);
/* Where no cgroup remembers them: ends what a server that used the same directory left behind when
 * it was killed, and leaves a note there for the one after us. Blocking: start-up only. */
void supervisor_remember(struct supervisor *s, const char *dir);
/* Ends every child and descendant (TERM, then KILL after grace_ms), then done(arg), once. Nothing
 * can be spawned any more: ERR_BUSY. */
void supervisor_shutdown(struct supervisor *s, uint32_t grace_ms, void (*done)(void *arg),
                         void *arg);
/* Kills what is left, at once, and waits for it. Children that are not freed yet stay as empty
 * shells, good only for child_free(); no callback comes. */
struct supervisor *supervisor_free(struct supervisor *s);
/* "cgroup2", "cgroup1" or "subreaper" */
const char *supervisor_containment(const struct supervisor *s);
size_t supervisor_n_children(const struct supervisor *s); /* those that have not exited */

/* A failure to start (no such program, no such directory, no permission) is reported here, with
 * what was tried, not as an exit. */
int supervisor_spawn(struct supervisor *, const struct child_spec *, const struct child_cb *,
                     void *arg, struct child **ret, struct error *err);
pid_t child_pid(const struct child *c);
enum child_state child_state(const struct child *c);
/* 0 stdin, 1 stdout, 2 stderr (pipes); a pty has one stream, 0. The owner sets the sink before
 * returning to the loop; NULL when there is none. Borrowed from the child: stream_free() means that
 * the owner is no longer interested. stream_finish() on a pty types ^D, stream_close() hangs up. */
struct stream *child_stdio(struct child *c, int which);
int child_resize(struct child *c, uint16_t cols, uint16_t rows, struct error *err);
/* To the process group, while the child itself has not exited. */
int child_signal(struct child *c, int sig, struct error *err);
/* TERM (and on a pty HUP) to every process of the tree; nobody is killed and nothing changes state:
 * who ignores it runs on. */
void child_ask_to_end(struct child *c);
/* What the tree uses now, from /proc, with what its ended processes had used; after the exit what
 * the child itself and those it waited for used, and n_processes is 0. Peak is the largest resident
 * size of the tree that such a question has seen, or of one of its processes that the kernel kept.
 * A look at each process, but no more than CHILD_USAGE_MAX of them; an answer that took long to
 * find is given again for ten times as long, so that asking never takes more than a part of the
 * loop. */
struct child_usage {
        uint64_t cpu_user_us, cpu_system_us, rss_bytes, peak_rss_bytes;
        uint32_t n_processes;
};
void child_usage(struct child *c, struct child_usage *ret);
/* TERM to the tree, KILL after grace (0 = at once), reap; then on_exit, when nobody is left. Also
 * after the exit, for its background processes. A second call can only shorten the wait. */
void child_stop(struct child *c, uint32_t grace_ms);
/* Ends the tree at once if it still runs; no callback after it. */
struct child *child_free(struct child *c);
