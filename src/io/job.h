/* A long piece of blocking work in a thread of its own, joined to the loop by two bounded channels.
 *
 * The pool (loop_work) is for calls that take microseconds; what runs as long as a client likes
 * (packing a folder, searching it, unpacking an upload) gets a job, so that it never stands in the
 * way of others. Both channels push back: the thread waits while the loop has not taken what it
 * emitted, the loop is told to stop feeding while the thread is behind. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/chunk.h"
#include "base/error.h"

struct job;
struct loop;

enum { JOB_MAX = 64, JOB_CHANNEL_BYTES = 512 * 1024 };

struct job_spec {
        /* On the job's own thread. Its result comes to on_done. */
        int (*run)(struct job *, void *arg, struct error *err);
        /* On the loop, never from inside a call that the owner makes. */
        void (*on_data)(void *arg, struct chunk *c); /* what was emitted, in order; may be NULL */
        void (*on_room)(void *arg);                  /* feed on; may be NULL */
        /* Once, last, when the thread has left `arg` and everything it emitted was delivered (or
         * the job was cancelled): why is NULL when run() returned >= 0. Also from loop_free(),
         * which cancels what still runs. The job is freed behind it. */
        void (*on_done)(void *arg, const struct error *why);
};

/* ERR_BUSY when JOB_MAX are running, or the system gives no thread. arg must live until on_done. */
int job_start(struct loop *l, const struct job_spec *, void *arg, struct job **ret,
              struct error *err);
/* ---- the owner, on the loop ---- */
/* 1 = room, 0 = taken but full (on_room follows), -1 = the thread takes no more. Keeps its own
 * reference. */
int job_feed(struct job *j, struct chunk *c);
void job_feed_end(struct job *j);
void job_pause(struct job *j, bool on); /* no on_data meanwhile */
/* Wakes the thread out of job_emit() and job_take(), which then say so; run() should return soon.
 * Neither on_data nor on_room follows. */
void job_cancel(struct job *j);

/* ---- the thread, from inside run() ---- */
int job_emit(struct job *j, const void *data, size_t len, struct error *err); /* -1 = cancelled */
int job_emit_chunk(struct job *j, struct chunk *c, struct error *err);
/* The next chunk, owned by the caller; NULL at the end of the feed. -1 = cancelled. */
int job_take(struct job *j, struct chunk **ret, struct error *err);
bool job_is_cancelled(struct job *j);
int job_cancel_fd(struct job *j); /* readable from job_cancel() on: for poll() */
