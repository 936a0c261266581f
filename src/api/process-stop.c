/* Stop and kill: asked for, then waited for. And the note of an end, for those who read output. */
#include <stdio.h>
#include <stdlib.h>

#include "api/processes.h"
#include "base/alloc.h"
#include "http/req.h"
#include "io/timer.h"

const struct field process_stop_query[] = {
        { "waitMs", F_UINT, 0, offsetof(struct stop_query, wait_ms),
          .has_offset = offsetof(struct stop_query, has_wait),
          .doc = "how long to wait for its end before answering, 2000 when absent" },
        { 0 },
};

struct stop_wait {
        struct req *req;
        struct process_waiter waiter;
        struct timer timer;
};

static void stop_free(struct stop_wait *s)
{
        process_unwait(&s->waiter);
        timer_stop(&s->timer);
        req_release(s->req);
        free(s);
}

static void stop_gone(void *arg)
{
        stop_free(arg);
}

static void stop_answer(struct stop_wait *s)
{
        struct error err = { 0 };
        struct process *p;

        /* Another client may have deleted the record between its end and now. */
        if (req_process(s->req, &p, &err) < 0)
                (void) reply_error(s->req, &err);
        else
                (void) reply_process(s->req, p);
        stop_free(s);
}

static void stop_ended(struct process_waiter *w)
{
        stop_answer(CONTAINER_OF(w, struct stop_wait, waiter));
}

static void stop_late(struct timer *t)
{
        stop_answer(CONTAINER_OF(t, struct stop_wait, timer));
}

static int end_process(struct req *r, void (*end)(struct process *), struct error *err)
{
        const struct stop_query *q = req_query(r);
        uint64_t wait_ms = q->has_wait ? q->wait_ms : PROCESS_STOP_WAIT_MS;
        struct process_info i;
        struct process *p;
        struct stop_wait *s;

        if (req_process(r, &p, err) < 0)
                return -1;
        end(p);
        process_info(p, &i);
        if (!i.is_running || !wait_ms)
                return reply_process(r, p);
        s = NEW(struct stop_wait);
        *s = (struct stop_wait) { .req = r, .waiter.fn = stop_ended };
        timer_init(&s->timer, req_loop(r), stop_late);
        timer_set(&s->timer, (int64_t) MIN(wait_ms, (uint64_t) PROCESS_STOP_WAIT_MAX_MS));
        process_wait(p, &s->waiter);
        req_hold(r, stop_gone, s);
        return 0;
}

int process_stop_post(struct req *r, struct error *err)
{
        return end_process(r, process_stop, err);
}

int process_kill_post(struct req *r, struct error *err)
{
        return end_process(r, process_kill, err);
}

/* ---- the end, kept ---- */

static void end_told(struct process_waiter *w)
{
        struct process_end *e = CONTAINER_OF(w, struct process_end, waiter);
        struct process_info i;

        process_info(TAKE_PTR(e->process), &i);
        e->code = i.exit_code;
        e->signal = i.exit_signal;
        e->at_ms = i.exited_ms;
}

void process_end_watch(struct process_end *e, struct processes *t, struct process *p)
{
        struct process_info i;

        process_info(p, &i);
        *e = (struct process_end) { .table = t, .process = p, .waiter.fn = end_told, .code = -1 };
        (void) snprintf(e->id, sizeof(e->id), "%s", i.id);
        process_wait(p, &e->waiter);
}

void process_end_look(struct process_end *e)
{
        struct process *p;

        if (!e->process)
                return;
        process_unwait(&e->waiter);
        if (process_find(e->table, e->id, &p, NULL) == 0)
                end_told(&e->waiter);
        e->process = NULL;
}

void process_end_done(struct process_end *e)
{
        if (e->process)
                process_unwait(&e->waiter);
        e->process = NULL;
}
