/* A process without a record: its output comes back with its exit. */
#include <signal.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "core/process_impl.h"

/* The timer counts microseconds in 63 bits; nobody waits for ten years. */
#define RUN_MS_CEILING (10ULL * 365 * 24 * 3600 * 1000)

struct process_run {
        struct list node;
        struct processes *table;
        struct child *child;
        struct timer timeout;
        int64_t started_us;
        struct run_output {
                struct buf head;
                size_t max_bytes;
                bool is_truncated; /* the rest is read all the same: the process must not block */
        } outputs[2];
        bool is_late;
        void (*on_done)(void *arg, const struct run_result *);
        void *arg;
};

struct process_run *process_run_of(struct list *node)
{
        return LIST_ENTRY(node, struct process_run, node);
}

static void on_data(void *arg, const char *data, size_t len)
{
        struct run_output *o = arg;
        size_t room = o->max_bytes - o->head.len;

        if (len > room)
                o->is_truncated = true;
        if (room)
                buf_put(&o->head, data, MIN(len, room));
}

static const struct stream_sink output_sink = { .on_data = on_data };

/* Out of the table, without a word to the owner. Also inside the child's last callback. */
void process_run_discard(struct process_run *r)
{
        timer_stop(&r->timeout);
        list_remove(&r->node);
        r->table->n_runs--;
        r->child = child_free(r->child);
        for (size_t i = 0; i < ARRAY_LEN(r->outputs); i++)
                buf_done(&r->outputs[i].head);
        loop_free_later(r->table->loop, r);
}

void run_cancel(struct process_run *r)
{
        if (r->child) /* else we are inside on_done: it is discarded already */
                process_run_discard(r);
}

static struct slice slice_of(const struct buf *b)
{
        return (struct slice) { b->data ?: "", b->len };
}

static void on_exit_cb(void *arg, struct child *c, int code, int sig)
{
        struct process_run *r = arg;
        struct buf out = r->outputs[0].head, err = r->outputs[1].head;
        struct run_result res = {
                .exit_code = code,
                .is_timed_out = r->is_late && sig == SIGKILL, /* else it was just in time */
                .is_out_truncated = r->outputs[0].is_truncated,
                .is_err_truncated = r->outputs[1].is_truncated,
                .out = slice_of(&out),
                .err = slice_of(&err),
                .duration_ms = (uint64_t) (loop_now_us(r->table->loop) - r->started_us) / 1000,
        };
        void (*on_done)(void *, const struct run_result *) = r->on_done;
        void *done_arg = r->arg;

        r->outputs[0].head = r->outputs[1].head = (struct buf) {};
        process_run_discard(r); /* the slot is free before anybody hears of it */
        on_done(done_arg, &res);
        buf_done(&out);
        buf_done(&err);
}

static void on_timeout(struct timer *t)
{
        struct process_run *r = CONTAINER_OF(t, struct process_run, timeout);

        r->is_late = true;
        child_stop(r->child, 0);
}

static uint64_t timeout_of(const struct process_config *c, const struct run_spec *spec)
{
        uint64_t ms = spec->timeout_ms ?: c->default_run_ms;

        return MIN(MIN(ms, c->max_run_ms), RUN_MS_CEILING);
}

static void open_streams(struct process_run *r, const struct run_spec *spec)
{
        uint64_t max = r->table->config.max_output_bytes;

        if (spec->has_max_output)
                max = MIN(max, spec->max_output_bytes);
        for (int i = 0; i < 2; i++) {
                r->outputs[i].max_bytes = (size_t) max;
                stream_set_sink(child_stdio(r->child, i + 1), &output_sink, &r->outputs[i]);
        }
}

int process_run(struct processes *t, const struct run_spec *spec,
                void (*on_done)(void *arg, const struct run_result *), void *arg,
                struct process_run **ret, struct error *err)
{
        static const struct child_cb cb = { .on_exit = on_exit_cb };
        struct child_spec how = { .stdio = STDIO_PIPE, .no_stdin = true, .ends_with_leader = true };
        struct process_run *r;

        if (processes_admit(t, &spec->process, err) < 0)
                return -1;
        r = NEW(struct process_run);
        *r = (struct process_run) { .table = t, .on_done = on_done, .arg = arg };
        r->started_us = loop_now_us(t->loop);
        timer_init(&r->timeout, t->loop, on_timeout);
        if (process_start(t, &spec->process, how, &cb, r, &r->child, err) < 0) {
                free(r);
                return -1;
        }
        open_streams(r, spec);
        timer_set(&r->timeout, (int64_t) timeout_of(&t->config, spec));
        list_push(&t->runs, &r->node);
        t->n_runs++;
        t->n_started++;
        *ret = r;
        return 0;
}
