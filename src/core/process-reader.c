/* Readers of a process's output, and the brake: while a reader that makes progress is too far
 * behind, the output is not read, the kernel's buffer fills, and the process waits. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/process_impl.h"

enum { BEHIND_MAX = 1024 * 1024, LOOKS = 5 /* at each reader, before it counts as stalled */ };

/* It outlives the record if it must (p is NULL then). `is_waiting`: it was told that there is
 * nothing, so it is owed a call. A cursor that is held is one that is waited for. */
struct process_reader {
        struct list node;
        struct process *p;
        struct loop *loop;
        struct logcursor cursor;
        struct process_reader_cb cb;
        void *arg;
        struct task ready;
        int64_t progress_us;
        uint64_t taken; /* by its client, at the last look */
        bool is_waiting;
};

/* ---- the brake ---- */

static bool is_far(const struct process *p, const struct process_reader *r)
{
        uint64_t most = MIN(p->table->config.max_log_bytes / 2, (uint64_t) BEHIND_MAX);

        /* Once it brakes, it brakes until the reader has made some way. */
        return r->cursor.is_held && logcursor_behind(&r->cursor) > (p->is_paused ? most / 2 : most);
}

static void set_pause(struct process *p, bool on)
{
        if (p->is_paused == on)
                return;
        p->is_paused = on;
        for (size_t i = 0; i < ARRAY_LEN(p->outputs); i++)
                if (p->outputs[i].stream)
                        stream_pause(p->outputs[i].stream, on);
        if (on)
                timer_set_us(&p->stall, p->table->stall_ms * INT64_C(1000) / LOOKS);
        else
                timer_stop(&p->stall);
}

static void regulate(struct process *p)
{
        bool on = false;

        list_for_each (n, &p->readers)
                on |= is_far(p, LIST_ENTRY(n, struct process_reader, node));
        set_pause(p, on);
}

/* A client that reads slowly takes bytes out of the kernel's buffer long before there is room in it
 * for the next entry. */
static void look_at_client(struct process_reader *r)
{
        uint64_t was = r->taken;

        if (!r->cb.taken)
                return;
        r->taken = r->cb.taken(r->arg);
        if (r->taken != was)
                r->progress_us = loop_now_us(r->loop);
}

void process_on_stall(struct timer *t)
{
        struct process *p = CONTAINER_OF(t, struct process, stall);
        const int64_t stall_us = p->table->stall_ms * INT64_C(1000);

        list_for_each (n, &p->readers) {
                struct process_reader *r = LIST_ENTRY(n, struct process_reader, node);

                if (!is_far(p, r))
                        continue;
                look_at_client(r);
                if (r->progress_us + stall_us <= loop_now_us(r->loop))
                        r->cursor.is_held = false;
        }
        regulate(p);
        if (p->is_paused)
                timer_set_us(t, stall_us / LOOKS);
}

/* ---- output comes ---- */

static void wake(struct process_reader *r)
{
        if (!r->is_waiting)
                return;
        r->is_waiting = false;
        r->progress_us = loop_now_us(r->loop); /* its clock starts when there is something */
        loop_defer(r->loop, &r->ready);
}

void process_took(struct process_output *o, const char *data, size_t len)
{
        struct process *p = o->p;

        logring_append(p->log, o->as, clock_real_us() / 1000, data, len);
        list_for_each (n, &p->readers) {
                struct process_reader *r = LIST_ENTRY(n, struct process_reader, node);

                if (r->cursor.streams & 1u << o->as)
                        wake(r);
                else if (r->is_waiting) /* not wanted, so it has not come behind */
                        r->cursor.seq = MAX(r->cursor.seq, logring_last(p->log));
        }
        regulate(p);
}

void process_wake_readers(struct process *p)
{
        list_for_each (n, &p->readers)
                wake(LIST_ENTRY(n, struct process_reader, node));
}

static void detach(struct process_reader *r)
{
        if (!r->p)
                return;
        list_remove(&r->node);
        logcursor_done(&r->cursor);
        r->p = NULL;
}

void process_drop_readers(struct process *p)
{
        list_for_each_safe (n, tmp, &p->readers) {
                struct process_reader *r = LIST_ENTRY(n, struct process_reader, node);

                detach(r);
                r->is_waiting = false;
                loop_defer(r->loop, &r->ready);
        }
}

/* ---- the reader ---- */

static void run_ready(struct task *t)
{
        struct process_reader *r = CONTAINER_OF(t, struct process_reader, ready);

        r->cb.on_ready(r->arg); /* may free r, whose memory stays until later */
}

struct process_reader *process_read(struct process *p, unsigned streams, uint64_t since,
                                    int64_t tail, const struct process_reader_cb *cb, void *arg)
{
        struct process_reader *r = NEW(struct process_reader);

        r->p = p;
        r->loop = p->table->loop;
        r->cb = *cb;
        r->arg = arg;
        task_init(&r->ready, run_ready);
        logcursor_init(&r->cursor, p->log, streams, since, tail);
        r->cursor.is_held = true;
        r->is_waiting = true;
        list_push(&p->readers, &r->node);
        if (!p->info.is_running || r->cursor.seq < logring_last(p->log)) /* entries, or a gap */
                wake(r);
        regulate(p);
        return r;
}

void reader_progress(struct process_reader *r)
{
        if (!r->p)
                return;
        r->progress_us = loop_now_us(r->loop);
        r->cursor.is_held = true;
        if (r->p->is_paused)
                regulate(r->p);
}

enum reader_item reader_next(struct process_reader *r, struct log_entry *ret,
                             struct log_gap *ret_gap)
{
        int got;

        if (!r->p)
                return READER_END;
        got = logcursor_next(&r->cursor, ret, ret_gap);
        reader_progress(r);
        if (got)
                return got == 1 ? READER_ENTRY : READER_GAP;
        if (!r->p->info.is_running)
                return READER_END;
        r->is_waiting = true;
        task_cancel(&r->ready);
        return READER_WAIT;
}

struct process_reader *reader_free(struct process_reader *r)
{
        struct process *p;

        if (!r)
                return NULL;
        p = r->p;
        detach(r);
        task_cancel(&r->ready);
        if (p)
                regulate(p);
        loop_free_later(r->loop, r);
        return NULL;
}
