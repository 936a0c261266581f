/* What the files of event/ share: the log, its topics, its cursors. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "event/evlog.h"
#include "event/evstore.h"
#include "event/writer.h"
#include "io/loop.h"
#include "io/timer.h"

/* A topic in memory. It is here while somebody listens or something is pending, and for a while
 * after that (evlog.idle). Numbers: trimmed <= visible <= last. The tail holds the newest visible
 * events, without holes, and only while there are subscribers. */
struct topic {
        struct list subs;
        struct list idle;    /* of evlog.idle */
        struct list stirred; /* has news, during a publish */
        uint64_t trimmed;    /* removed up to here */
        uint64_t visible;    /* committed up to here */
        uint64_t last;       /* given out up to here */
        size_t n_pins;       /* pending operations that point here */

        struct event *tail; /* ring of cap (a power of two) slots, the oldest at head */
        uint32_t cap, head, n;
        size_t tail_bytes;
        char name[];
};

/* Where an event goes. Both NULL for documents. */
struct target {
        struct topic *own, *also; /* pinned; also is NULL for most */
};

/* Operations on their way to one transaction, and who waits for it. */
struct batch {
        struct store_op *ops; /* keys: the topics' names, or our copy for documents */
        struct target *targets;
        size_t n, cap;
        size_t bytes, n_events;
        struct list barriers; /* struct due */
};

/* A callback that is owed. */
struct due {
        struct list node;
        evlog_done *fn;
        void *arg;
        struct error *why; /* NULL = done */
};

struct trim {
        struct list node;
        struct topic *topic; /* pinned */
        uint64_t upto;
        evlog_done *fn;
        void *arg;
};

struct room {
        struct list node;
        void (*fn)(void *arg); /* NULL: taken off while the list is walked */
        void *arg;
};

/* Two batches take turns: one gathers, the other is with the writer (or, after a failure, waits for
 * the retry timer). Callbacks are collected in due, wakes and rooms and run by the dispatch task.
 */
struct evlog {
        struct loop *loop;
        struct evstore *store;
        struct writer *writer;
        struct wakeup *written;
        struct task kick, dispatch;
        struct timer retry;
        int retry_ms;

        struct map topics;
        struct list idle; /* oldest first */
        size_t n_idle;

        struct batch gather, commit;
        struct list trims;
        struct trim *trimming; /* the one with the writer */

        struct list due, wakes, rooms;
        bool is_full; /* somebody was told to wait for room */
        bool is_room_due, is_calling_rooms;
        bool is_closing;
        int64_t deadline_us;

        struct evlog_stats stats;
};

/* A cursor. `after` is the last event handed out; what comes next is in the page, in the tail, or
 * in the store (then a page is read). */
struct evsub {
        struct evlog *log; /* NULL: the log is gone */
        struct topic *topic;
        struct list node; /* of topic.subs */
        struct list wake_node;
        void (*wake)(void *arg);
        void *arg;
        uint64_t after;
        struct event current; /* what evsub_next() lent; own reference */
        struct page *page;    /* read, not yet used up */
        struct page *reading; /* on a pool thread */
        struct error *over;   /* why there is no more */
        bool is_waiting;
};

/* batch.c */

void batch_init(struct batch *b);
void batch_done(struct batch *b); /* frees what is in it; barriers must have been moved away */
/* Room for n more; then targets[] may be filled from targets[n] on, for batch_add() to take. */
void batch_reserve(struct batch *b, size_t n);
/* Takes the next of targets[], pinned by the caller, and a reference of the body or document. */
void batch_add(struct batch *b, const struct store_op *op);
/* Empties it, unpins the topics. */
void batch_clear(struct batch *b, struct evlog *log);
void target_unpin(struct evlog *log, const struct target *to);
size_t batch_cost(const struct store_op *op); /* bytes that count as pending */

/* commit.c */

void commit_schedule(struct evlog *log); /* gives the writer its next job, if it can */
void commit_finish(struct evlog *log);   /* takes the writer's result, if there is one */
/* Ends what is pending before evlog.deadline_us; -1 with the reason when it could not. */
int commit_drain(struct evlog *log, struct error *err);

/* evlog.c */

/* fn(arg, why) at the end of the iteration; why is copied. */
void evlog_owe(struct evlog *log, evlog_done *fn, void *arg, const struct error *why);

/* topic.c */

/* From memory or, after one indexed read, from the store. Pin or subscribe before the next call. */
struct topic *topic_get(struct evlog *log, const char *name, struct error *err);
void topic_pin(struct evlog *log, struct topic *t);
void topic_unpin(struct evlog *log, struct topic *t);
/* After the last subscriber came or went: moves the topic to or from the idle ones. */
void topic_settle(struct evlog *log, struct topic *t);
void topic_publish(struct topic *t, const struct event *e);
const struct event *topic_tail(const struct topic *t, uint64_t seq); /* NULL: not in memory */
void topics_done(struct map *topics);

/* evsub.c */

void evsub_stir(struct evsub *s); /* wake() at the end of the iteration, if it waits */
void evsub_orphan(struct evsub *s);
