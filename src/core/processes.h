/* The processes that clients start: their records, their output, their limits.
 *
 * One table per server. A record outlives its process, until it is deleted or, as the oldest of too
 * many, evicted. `run` is a process without a record: its output comes back with its exit. Both
 * count against the limit. Nothing here knows HTTP. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/chunk.h"
#include "base/error.h"
#include "base/str.h"
#include "core/logring.h"

struct buf;
struct loop;
struct process;
struct processes;
struct supervisor;

enum {
        PROCESSES_FINISHED_MAX = 256,                /* records of processes that have ended */
        PROCESSES_FINISHED_BYTES = 64 * 1024 * 1024, /* of memory for those, about */
        PROCESS_STALL_MS = 5000, /* a reader without progress is no longer waited for */
        PROCESS_STOP_WAIT_MS = 2000,
        PROCESS_STOP_WAIT_MAX_MS = 600 * 1000,
        PROCESS_LEFTOVER_GRACE_MS = 2000, /* after a stop, for those who outlive their leader */
        PROCESS_ARGS_MAX = 4096,
        PROCESS_ENV_MAX = 4096,
        PROCESS_CONFIG_BYTES_MAX = 1 << 30, /* of each byte limit that a client may set */
};

/* ---- limits ---- */
struct process_config {
        uint64_t max_concurrent, default_run_ms, max_run_ms, max_output_bytes, max_log_bytes,
                max_input_bytes;
};
extern const struct process_config process_config_default;

struct processes *processes_new(struct loop *l, struct supervisor *s);
/* Before the supervisor. Ends everything; readers find the end, waiters and runs hear no more. */
struct processes *processes_free(struct processes *t);
const struct process_config *processes_config(const struct processes *t);
/* All or nothing; a default time-out over the maximum is lowered to it. ERR_INVALID for a zero, or
 * a byte limit over PROCESS_CONFIG_BYTES_MAX. Also for the output of the processes that are there.
 */
int processes_configure(struct processes *t, const struct process_config *c, struct error *err);

/* ---- one process ---- */
enum process_owner { OWNER_USER, OWNER_DESKTOP, OWNER_SYSTEM };

struct process_spec {
        const char *command;
        const char *const *args; /* without the command itself */
        size_t n_args;
        const char *cwd;        /* NULL = ours */
        const char *const *env; /* "KEY=value", on top of ours */
        size_t n_env;
        bool is_tty, is_interactive;
        uint16_t cols, rows; /* 0 = 80 × 24 */
        enum process_owner owner;
};
struct process_info {
        const char *id;      /* "proc_1" */
        const char *command; /* all text belongs to the record */
        const char *const *args;
        size_t n_args;
        const char *cwd; /* NULL = none was given */
        bool is_tty, is_interactive, is_running;
        enum process_owner owner;
        pid_t pid;
        int exit_code; /* -1: ended by exit_signal */
        int exit_signal;
        int64_t created_ms, exited_ms; /* real time */
        uint16_t cols, rows;
};
/* Of the whole tree; of an ended process what its leader used. */
struct process_usage {
        uint64_t cpu_user_us, cpu_system_us, rss_bytes, peak_rss_bytes, n_processes;
};

/* ERR_INVALID "command must not be empty", ERR_CONFLICT "max concurrent process limit reached
 * (64)", ERR_UPSTREAM "failed to spawn process: …". Takes a number even if spawning fails. */
int process_create(struct processes *t, const struct process_spec *, struct process **ret,
                   struct error *err);
/* ERR_NOT_FOUND "process proc_9", with details for the problem body. */
int process_find(struct processes *t, const char *id, struct process **ret, struct error *err);
/* In the order of their numbers; NULL past the end. Good until the next change of the table. */
struct process *processes_at(struct processes *t, size_t i);
void process_info(const struct process *p, struct process_info *ret);
void process_usage(const struct process *p, struct process_usage *ret);

/* TERM to the tree without escalation; who outlives the leader is killed soon after it. kill: KILL
 * to the tree. On a process that has ended: its background processes end. (One that ends without
 * being asked leaves its background processes running until the record goes.) */
void process_stop(struct process *p);
void process_kill(struct process *p);
/* ERR_CONFLICT while it runs. Ends its background processes. Readers are told the end first. */
int process_delete(struct process *p, struct error *err);
/* Takes all of the bytes or, with an error, none; 0 = taken, but it reads slowly. ERR_CONFLICT
 * "process is not running" or "process input is closed" (by us or by itself). More than
 * max_input_bytes is ERR_TOO_BIG "input payload exceeds maxInputBytesPerRequest (n)". While the
 * queue of what it has not read is over 1 MiB: ERR_BUSY. */
int process_input(struct process *p, const void *data, size_t len, struct error *err);
/* End of file. On a tty ^D, which is input like any other: ERR_BUSY as above. */
int process_close_input(struct process *p, struct error *err);
/* ERR_CONFLICT "process is not running in tty mode" / "PTY resize handle unavailable". */
int process_resize(struct process *p, uint16_t cols, uint16_t rows, struct error *err);

/* Told once when the process has ended and all its output is in the ring; at the end of the
 * iteration if it already has. Embed it. */
struct process_waiter {
        struct list node;
        void (*fn)(struct process_waiter *);
};
void process_wait(struct process *p, struct process_waiter *w);
/* The same, but told when process_input() is worth another try after ERR_BUSY: much of what waited
 * was read, or nothing will be any more. */
void process_wait_room(struct process *p, struct process_waiter *w);
void process_unwait(struct process_waiter *w); /* of either kind; idempotent */

/* ---- readers of the output: log followers and terminal viewers ----
 * A reader pulls. While one that makes progress is behind, the process is slowed down by not
 * reading its output; a reader that took nothing for PROCESS_STALL_MS is no longer waited for, and
 * finds a gap if the ring has moved on. */
struct process_reader;
struct process_reader_cb {
        /* There is something for reader_next(), or the end. Never from inside a call of the owner.
         */
        void (*on_ready)(void *arg);
        /* A number that changes while the owner's client reads, though the owner has no room for
         * the next entry yet. Asked while the process is held up; may be NULL. */
        uint64_t (*taken)(void *arg);
};
struct process_reader *process_read(struct process *p, unsigned streams, uint64_t since,
                                    int64_t tail, const struct process_reader_cb *, void *arg);
enum reader_item { READER_WAIT, READER_ENTRY, READER_GAP, READER_END };
/* Taking something is progress. READER_END: the process has ended and everything was delivered, or
 * its record was deleted. */
enum reader_item reader_next(struct process_reader *r, struct log_entry *ret,
                             struct log_gap *ret_gap);
/* The owner's client reads, though the owner has no room for the next entry yet: it is waited for,
 * or waited for again. */
void reader_progress(struct process_reader *r);
struct process_reader *reader_free(struct process_reader *r);
struct logring *process_log(struct process *p); /* for JSON pages, with a cursor on the stack */

/* ---- run: one process, its output, its end ---- */
struct run_spec {
        struct process_spec process;
        uint64_t timeout_ms;       /* 0 = default; cut at the maximum */
        uint64_t max_output_bytes; /* per stream */
        bool has_max_output;       /* else the configured one; cut at it anyway */
};
struct run_result {
        int exit_code; /* -1: a signal, or timed out */
        bool is_timed_out, is_out_truncated, is_err_truncated;
        struct slice out, err; /* raw bytes: the head of each stream */
        uint64_t duration_ms;
};
struct process_run;
/* on_done comes once, unless run_cancel() was first: with the time-out or the exit of the leader
 * the rest of the tree ends. */
int process_run(struct processes *t, const struct run_spec *,
                void (*on_done)(void *arg, const struct run_result *), void *arg,
                struct process_run **ret, struct error *err);
void run_cancel(struct process_run *r); /* ends the tree; inside on_done it does nothing */

struct processes_stats {
        uint64_t n_running, n_finished, n_runs, n_started, log_bytes;
};
void processes_stats(const struct processes *t, struct processes_stats *ret);
