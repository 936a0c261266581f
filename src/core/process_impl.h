/* What the files of the process table share and nobody else sees. */
#pragma once
#include "base/list.h"
#include "core/processes.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"
#include "proc/child.h"

enum { PROCESS_ID_BYTES = 32 };

/* Records in the order of their numbers, which is the order of their making, so that an id is found
 * by halving. A record that has ended stands in `finished` as well, oldest end first. */
struct processes {
        struct loop *loop;
        struct supervisor *sup;
        struct process_config config;
        struct process **at;
        size_t n, cap;
        uint32_t stall_ms; /* PROCESS_STALL_MS, except in tests */
        uint64_t last_number, n_started;
        size_t n_running, n_runs; /* together: what counts against the limit */
        struct list finished;
        size_t n_finished;
        uint64_t finished_bytes;
        struct list runs;
        struct list due;  /* waiters to be told … */
        struct task tell; /* … by this */
};

/* One record. The process runs until on_exit of its child; the child stays for its background
 * processes until the record goes. */
struct process {
        struct processes *table;
        struct list node; /* of table->finished */
        uint64_t number;
        char id[PROCESS_ID_BYTES];
        struct process_info info;
        char **texts; /* command, arguments, directory: one block, strings included */
        size_t texts_bytes;
        struct child *child;
        struct process_output {
                struct process *p;
                struct stream *stream; /* NULL = none of the kind */
                enum log_stream as;
        } outputs[2]; /* stdout and stderr; or the terminal alone */
        struct logring *log;
        uint64_t kept_bytes; /* what it counted for in finished_bytes */
        struct list readers, waiters, input_waiters;
        struct timer stall;   /* armed while paused: is a reader still worth waiting for? */
        bool is_paused;       /* a reader is too far behind: output is not read */
        bool is_input_closed; /* by us */
        bool was_asked;       /* to end: then nobody may outlive it for long */
};

/* processes.c */
int processes_admit(struct processes *t, const struct process_spec *, struct error *err);
void processes_add(struct processes *t, struct process *p);
void processes_note_exit(struct processes *t, struct process *p); /* evicts the oldest */
void processes_remove(struct processes *t, struct process *p);
void processes_tell(struct processes *t, struct list *waiters); /* takes them */

/* process.c */
void process_discard(struct process *p); /* out of the table, with child and readers */

/* process-reader.c */
void process_took(struct process_output *o, const char *data, size_t len);
void process_wake_readers(struct process *p);
void process_drop_readers(struct process *p); /* each finds the end */
void process_on_stall(struct timer *t);

/* process-start.c: the child of a spec, with its environment. `how` says the rest. */
int process_start(struct processes *t, const struct process_spec *, struct child_spec how,
                  const struct child_cb *, void *arg, struct child **ret, struct error *err);

/* run.c */
void process_run_discard(struct process_run *r);
struct process_run *process_run_of(struct list *node);
