/* The way of a batch: gathered, committed by the writer, published; or failed and tried again. */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "event/evlog_impl.h"

enum { DRAIN_RETRY_MS = 50 }; /* while closing nobody else needs the time */

static void start_trim(struct evlog *log)
{
        struct trim *t = LIST_ENTRY(log->trims.next, struct trim, node);

        list_remove(&t->node);
        log->trimming = t;
        writer_start(log->writer, &(struct writer_job) { .trim = t->topic->name, .upto = t->upto });
}

static void batch_swap(struct batch *a, struct batch *b)
{
        struct batch was = *a;
        struct list waiters;

        /* Heads of lists cannot be copied: what is in them points back. */
        list_init(&waiters);
        list_splice(&waiters, &a->barriers);
        *a = *b;
        list_init(&a->barriers);
        list_splice(&a->barriers, &b->barriers);
        *b = was;
        list_init(&b->barriers);
        list_splice(&b->barriers, &waiters);
}

void commit_schedule(struct evlog *log)
{
        if (writer_is_busy(log->writer))
                return;
        if (!list_empty(&log->trims)) {
                start_trim(log);
                return;
        }
        if (timer_armed(&log->retry))
                return;
        if (log->commit.n == 0)
                batch_swap(&log->commit, &log->gather);
        if (log->commit.n > 0)
                writer_start(log->writer,
                             &(struct writer_job) { .ops = log->commit.ops, .n = log->commit.n });
}

static void publish_in(struct topic *t, const struct event *e, struct list *stirred)
{
        topic_publish(t, e);
        if (list_empty(&t->stirred))
                list_push(stirred, &t->stirred);
}

static void publish_op(const struct store_op *op, const struct target *to, struct list *stirred)
{
        struct event e = op->ev;

        if (to->own)
                publish_in(to->own, &e, stirred);
        e.seq = op->also_seq;
        if (to->also)
                publish_in(to->also, &e, stirred);
}

/* Makes the events visible, topic by topic, and wakes each cursor once. */
static void publish(struct batch *b)
{
        struct list stirred;

        list_init(&stirred);
        for (size_t i = 0; i < b->n; i++)
                publish_op(&b->ops[i], &b->targets[i], &stirred);
        list_for_each_safe (n, tmp, &stirred) {
                struct topic *t = LIST_ENTRY(n, struct topic, stirred);

                list_remove(n);
                list_for_each (s, &t->subs)
                        evsub_stir(LIST_ENTRY(s, struct evsub, node));
        }
}

static void check_room(struct evlog *log)
{
        if (!log->is_full || log->stats.is_failing ||
            log->stats.pending_bytes > EVLOG_PENDING_BYTES / 2)
                return;
        log->is_full = false;
        log->is_room_due = true;
        loop_defer(log->loop, &log->dispatch);
}

static void commit_done(struct evlog *log)
{
        struct batch *b = &log->commit;

        log->stats.commits++;
        log->stats.committed += b->n_events;
        log->stats.pending_bytes -= b->bytes;
        log->stats.is_failing = false;
        log->retry_ms = EVLOG_RETRY_MS;
        publish(b);
        list_splice(&log->due, &b->barriers);
        batch_clear(b, log);
        loop_defer(log->loop, &log->dispatch);
        check_room(log);
}

static void commit_failed(struct evlog *log, const struct error *why)
{
        log->stats.failed_commits++;
        log->stats.is_failing = true;
        static_assert(sizeof(log->stats.why) == sizeof(why->msg), "a reason fits whole");
        memcpy(log->stats.why, why->msg, sizeof(why->msg));
        timer_set(&log->retry, log->retry_ms);
        log->retry_ms = MIN(log->retry_ms * 2, EVLOG_RETRY_MAX_MS);
}

static void trim_finish(struct evlog *log, struct trim *t, const struct error *why)
{
        uint64_t upto = MIN(t->upto, t->topic->visible);

        if (!why)
                t->topic->trimmed = MAX(t->topic->trimmed, upto);
        if (t->fn)
                evlog_owe(log, t->fn, t->arg, why);
        topic_unpin(log, t->topic);
        free(t);
        if (!why)
                timer_stop(&log->retry); /* it may have made the room that the commit lacked */
}

void commit_finish(struct evlog *log)
{
        struct error err;
        int r;

        if (!writer_is_busy(log->writer) || !writer_take(log->writer, &r, &err))
                return;
        if (log->trimming)
                trim_finish(log, TAKE_PTR(log->trimming), r < 0 ? &err : NULL);
        else if (r < 0)
                commit_failed(log, &err);
        else
                commit_done(log);
}

static bool has_pending(const struct evlog *log)
{
        return log->commit.n > 0 || log->gather.n > 0 || log->trimming || !list_empty(&log->trims);
}

/* Milliseconds until the deadline, at most `most`. */
static int time_left(const struct evlog *log, int most)
{
        int64_t left_us = log->deadline_us - clock_mono_us();

        if (log->deadline_us < 0 || left_us > most * INT64_C(1000))
                return most;
        return left_us > 0 ? (int) (left_us / 1000) : 0;
}

static int give_up(const struct evlog *log, struct error *err)
{
        if (log->stats.is_failing)
                return error_set(err, ERR_SYSTEM, 0, "%s", log->stats.why);
        return error_set(err, ERR_TIMEOUT, 0,
                         "the store did not answer before the event log was closed");
}

int commit_drain(struct evlog *log, struct error *err)
{
        while (has_pending(log)) {
                if (log->stats.is_failing && time_left(log, DRAIN_RETRY_MS) == 0)
                        return give_up(log, err);
                timer_stop(&log->retry);
                commit_schedule(log);
                if (!writer_wait(log->writer, log->deadline_us))
                        return give_up(log, err);
                commit_finish(log);
                if (log->stats.is_failing)
                        (void) poll(NULL, 0, time_left(log, DRAIN_RETRY_MS));
        }
        return 0;
}
