#include "test-evlog-bed.h"

#include <errno.h>
#include <inttypes.h>

#include "base/macro.h"
#include "store/store.h"

struct gate gate;

static void gate_reset(void)
{
        gate = (struct gate) { 0 };
        (void) pthread_mutex_init(&gate.mutex, NULL);
        (void) pthread_cond_init(&gate.changed, NULL);
}

/* Stays inside as long as *held. */
static void gate_pass(const bool *held)
{
        (void) pthread_mutex_lock(&gate.mutex);
        gate.n_inside++;
        (void) pthread_cond_broadcast(&gate.changed);
        while (*held)
                (void) pthread_cond_wait(&gate.changed, &gate.mutex);
        gate.n_inside--;
        (void) pthread_mutex_unlock(&gate.mutex);
}

void gate_hold(bool *which, bool on)
{
        (void) pthread_mutex_lock(&gate.mutex);
        *which = on;
        (void) pthread_cond_broadcast(&gate.changed);
        (void) pthread_mutex_unlock(&gate.mutex);
}

void gate_await(bool (*is_so)(void))
{
        (void) pthread_mutex_lock(&gate.mutex);
        while (!is_so())
                (void) pthread_cond_wait(&gate.changed, &gate.mutex);
        (void) pthread_mutex_unlock(&gate.mutex);
}

bool gate_is_occupied(void)
{
        return gate.n_inside > 0;
}

bool gate_is_closed(void)
{
        return gate.is_closed;
}

static int gate_commit(void *h, const struct store_op *ops, size_t n, struct error *err)
{
        bool must_fail;

        gate_pass(&gate.holds_commits);
        (void) pthread_mutex_lock(&gate.mutex);
        must_fail = gate.n_failing > 0;
        gate.n_failing -= must_fail;
        if (!must_fail)
                gate.sizes[gate.n_commits++ % ARRAY_LEN(gate.sizes)] = n;
        (void) pthread_mutex_unlock(&gate.mutex);
        if (must_fail)
                return error_set(err, ERR_SYSTEM, 0, "store 'x': database or disk is full");
        return store_memory.commit(h, ops, n, err);
}

static int gate_events(void *h, const char *topic, uint64_t after, struct event *ret, size_t max,
                       struct error *err)
{
        gate_pass(&gate.holds_reads);
        (void) pthread_mutex_lock(&gate.mutex);
        gate.n_reads++;
        (void) pthread_mutex_unlock(&gate.mutex);
        return store_memory.events(h, topic, after, ret, max, err);
}

static int gate_range(void *h, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                      struct error *err)
{
        gate.n_ranges++; /* only the loop thread asks */
        if (strcmp(topic, "unreadable") == 0)
                return error_set(err, ERR_SYSTEM, EIO, "store 'x'");
        return store_memory.range(h, topic, ret_first, ret_last, err);
}

static int gate_open(const char *dsn, void **ret, struct error *err)
{
        return store_memory.open(dsn, ret, err);
}

static int gate_docs(void *h, const char *prefix,
                     int (*row)(void *arg, const char *key, const char *doc, size_t len), void *arg,
                     struct error *err)
{
        return store_memory.docs(h, prefix, row, arg, err);
}

/* Makes room: what failed for want of it fails no more. */
static int gate_trim(void *h, const char *topic, uint64_t upto, struct error *err)
{
        (void) pthread_mutex_lock(&gate.mutex);
        gate.n_failing = 0;
        (void) pthread_mutex_unlock(&gate.mutex);
        return store_memory.trim(h, topic, upto, err);
}

static void gate_close(void *h)
{
        store_memory.close(h);
        (void) pthread_mutex_lock(&gate.mutex);
        gate.is_closed = true;
        (void) pthread_cond_broadcast(&gate.changed);
        (void) pthread_mutex_unlock(&gate.mutex);
}

static const struct store_ops store_gate = {
        .name = "gate",
        .open = gate_open,
        .commit = gate_commit,
        .events = gate_events,
        .range = gate_range,
        .docs = gate_docs,
        .trim = gate_trim,
        .close = gate_close,
};

void bed_open(struct bed *b, const struct store_ops *ops, const char *dsn)
{
        struct error err = { 0 };

        b->loop = loop_new();
        EXPECT_OK(evlog_new(b->loop, ops, dsn, &b->log, &err), err);
}

void bed_close(struct bed *b)
{
        b->log = evlog_free(b->log, -1);
        b->loop = loop_free(b->loop);
}

void bed_init(struct bed *b)
{
        gate_reset();
        bed_open(b, &store_gate, "");
}

void bed_done(struct bed *b)
{
        bed_close(b);
        EXPECT(gate.is_closed);
}

void bed_turn(struct bed *b)
{
        static const bool never = false;

        for (int i = 0; i < 4; i++)
                (void) loop_run_until(b->loop, &never, 0);
}

enum { PATIENCE_MS = 10000 };

bool bed_await(struct bed *b, const bool *flag)
{
        return loop_run_until(b->loop, flag, PATIENCE_MS);
}

uint64_t append(struct bed *b, const char *topic, const char *text)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk(text);
        struct error err = { 0 };
        uint64_t seq = 0;

        EXPECT_OK(evlog_append(b->log, topic, 5, body, &seq, &err), err);
        return seq;
}

void append_numbers(struct bed *b, const char *topic, uint64_t first, uint64_t last)
{
        for (uint64_t n = first; n <= last; n++) {
                char text[24];

                (void) snprintf(text, sizeof(text), "%" PRIu64, n);
                EXPECT_INT(append(b, topic, text), n);
        }
}

void tell(void *arg, const struct error *why)
{
        struct told *t = arg;

        t->is_told = true;
        t->n++;
        t->why = why ? *why : (struct error) { 0 };
}

void await_commit(struct bed *b)
{
        struct told t = { 0 };

        evlog_barrier(b->log, tell, &t);
        EXPECT(!t.is_told);
        EXPECT(bed_await(b, &t.is_told));
        EXPECT_INT(t.why.kind, ERR_OK);
}

void reader_pull(void *arg)
{
        struct reader *r = arg;
        const struct event *e;
        char text[24];
        int k;

        r->n_wakes++;
        while ((k = evsub_next(r->sub, &e, &r->over)) > 0) {
                (void) snprintf(text, sizeof(text), "%" PRIu64, ++r->seen);
                EXPECT_INT(e->seq, r->seen);
                EXPECT_INT(e->kind, 5);
                EXPECT(e->at_us > 0);
                expect_body(e, text);
        }
        r->is_there = r->seen >= r->until || k < 0;
}

void reader_start(struct bed *b, struct reader *r, const char *topic, uint64_t after)
{
        struct error err = { 0 };

        r->seen = after;
        EXPECT_OK(evlog_subscribe(b->log, topic, after, reader_pull, r, &r->sub, &err), err);
        EXPECT_INT(r->n_wakes, 0);
}

void reader_reach(struct bed *b, struct reader *r, uint64_t until)
{
        r->until = until;
        r->is_there = r->seen >= until;
        EXPECT(bed_await(b, &r->is_there));
        EXPECT_INT(r->seen, until);
}

void count_call(void *arg)
{
        ++*(int *) arg;
}
