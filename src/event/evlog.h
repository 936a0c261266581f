/* The event log: durable, then visible.
 *
 * append gives the number on the loop thread; a writer thread commits whatever gathered while the
 * last commit ran, in one transaction; only then do subscribers see it. A subscriber is a cursor
 * into shared chunks, not a queue: it is woken, it pulls, it is as far as it is. Behind the
 * in-memory tail it reads pages from the store on a pool thread. When a commit fails the log stops
 * taking appends (ERR_BUSY, with the reason) and retries; nothing is shown that is not on disk.
 *
 * All of it belongs to the loop thread. No callback runs from inside a call, except those that
 * evlog_free() still owes. docs/internals/evlog.md tells the story. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/store.h"

struct evlog;
struct evsub;
struct loop;

enum {
        EVLOG_TAIL_EVENTS = 1024, /* per topic, kept in memory while somebody listens */
        EVLOG_TAIL_BYTES = 4 * 1024 * 1024,
        EVLOG_PENDING_BYTES = 16 * 1024 * 1024,      /* uncommitted: above it appends say "full" */
        EVLOG_PENDING_MAX = 4 * EVLOG_PENDING_BYTES, /* sources that do not pause are refused */
        EVLOG_BODY_MAX = EVLOG_PENDING_BYTES,        /* of one event or document */
        EVLOG_PAGE_EVENTS = 256,
        EVLOG_IDLE_TOPICS = 1024, /* remembered though nobody listens and nothing is pending */
        EVLOG_RETRY_MS = 250,     /* after a failed commit, doubling … */
        EVLOG_RETRY_MAX_MS = 5000,
};

typedef void evlog_done(void *arg, const struct error *why); /* NULL = it is durable */

/* Opens the store and starts the writer. */
int evlog_new(struct loop *l, const struct store_ops *, const char *dsn, struct evlog **ret,
              struct error *err);
/* Commits what is pending (bounded by timeout_ms; < 0 = no bound), runs the callbacks that are
 * still owed (with the reason where it gave up), joins the writer and closes the store. A writer
 * stuck in the operating system is left behind and cleans up when it returns. Subscribers that are
 * left are over; they are still freed by their owners. NULL is fine. */
struct evlog *evlog_free(struct evlog *log, int timeout_ms);

/* 1 = taken, 0 = taken but the queue is past its high mark: pause the source until on_room,
 * -1 = refused: ERR_BUSY while the store fails or far too much is pending, ERR_TOO_BIG, ERR_INVALID
 * (key), or the store's own error when a topic's last number cannot be read. The number is final at
 * once, visible after the commit. The log takes its own reference of body. */
int evlog_append(struct evlog *log, const char *topic, uint16_t kind, struct chunk *body,
                 uint64_t *ret_seq, struct error *err);
/* The same for several operations in one transaction. Events get seq and also_seq filled in, and
 * at_us where it is 0; nothing is taken, and no number used, when one of them is refused. An event
 * with a second topic (store_op.also; ERR_INVALID if it is the first again) becomes visible in both
 * at once, each with its own number, and counts as one event of one body. */
int evlog_commit(struct evlog *log, struct store_op *ops, size_t n, struct error *err);
/* fn(arg, NULL) once everything appended so far is durable. It waits out a failing store; only
 * evlog_free() ends it with a reason. */
void evlog_barrier(struct evlog *log, evlog_done *fn, void *arg);
/* fn(arg) whenever there is room again after an append said 0 or ERR_BUSY. Any number of listeners;
 * each stays until it is taken off. */
void evlog_on_room(struct evlog *log, void (*fn)(void *arg), void *arg);
void evlog_off_room(struct evlog *log, void (*fn)(void *arg), void *arg);
/* Removes the committed events of a topic with seq <= upto, on the writer thread, before what is
 * pending: it may be what makes room. fn may be NULL. */
void evlog_trim(struct evlog *log, const char *topic, uint64_t upto, evlog_done *fn, void *arg);

/* First kept and last visible number, see store_ops.range. One short indexed read when the topic is
 * not in memory. */
int evlog_range(struct evlog *log, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                struct error *err);
/* The committed documents, see store_ops.docs. Blocks for as long as it takes: start-up only. */
int evlog_docs(struct evlog *log, const char *prefix,
               int (*row)(void *arg, const char *key, const char *doc, size_t len), void *arg,
               struct error *err);

/* Events with seq > after; an `after` from the future means "from now on". wake comes when there is
 * something to pull: after the first subscribe, then after evsub_next() said 0. It never comes from
 * inside a call to this file, and it may do anything, evsub_free() included.
 * ERR_NOT_FOUND when `after` is behind retention. */
int evlog_subscribe(struct evlog *log, const char *topic, uint64_t after, void (*wake)(void *arg),
                    void *arg, struct evsub **ret, struct error *err);
/* 1 = an event (borrowed until the next call); 0 = nothing now, wake() follows; -1 = over
 * (ERR_NOT_FOUND: fell behind retention; ERR_BUSY: the log was freed; or the store's error). */
int evsub_next(struct evsub *s, const struct event **ret, struct error *err);
struct evsub *evsub_free(struct evsub *s); /* NULL is fine */

struct evlog_stats {
        uint64_t appended, committed; /* events */
        uint64_t commits, failed_commits, pending_bytes;
        uint32_t topics; /* in memory */
        bool is_failing;
        char why[384]; /* of the last failure */
};
void evlog_stats(const struct evlog *log, struct evlog_stats *ret);
