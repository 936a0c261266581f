/* Jobs: order, both bounds, cancelling a thread wherever it waits, and what the loop does with jobs
 * that are still there when it goes. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/job.h"
#include "io/loop.h"
#include "io/timer.h"
#include "test.h"

enum { PATIENCE_MS = 10000, BLOCK = 60 * 1000, MANY = 200 };

struct owner {
        struct loop *loop;
        struct job *job;
        struct buf got;
        unsigned datas, rooms, dones;
        bool is_done, has_data, has_room, in_call, pauses, cancels;
        struct error why;
        bool has_why;
        size_t want; /* bytes: what the thread is to do */
        _Atomic size_t emitted, taken;
        _Atomic bool is_at_it, may_leave;
};

static void on_data(void *arg, struct chunk *c)
{
        struct owner *o = arg;

        EXPECT(!o->in_call);
        EXPECT(!o->dones);
        o->datas++;
        o->has_data = true;
        buf_put(&o->got, c->data, c->len);
        if (o->pauses)
                job_pause(o->job, true);
        if (o->cancels)
                job_cancel(o->job);
}

static void on_room(void *arg)
{
        struct owner *o = arg;

        EXPECT(!o->in_call);
        o->rooms++;
        o->has_room = true;
}

static void on_done(void *arg, const struct error *why)
{
        struct owner *o = arg;

        EXPECT(!o->in_call);
        o->dones++;
        o->is_done = true;
        o->has_why = why != NULL;
        if (why)
                o->why = *why;
}

static void owner_start(struct owner *o, int (*run)(struct job *, void *, struct error *))
{
        struct job_spec spec = { run, on_data, on_room, on_done };
        struct error err = { 0 };

        o->in_call = true;
        EXPECT_OK(job_start(o->loop, &spec, o, &o->job, &err), err);
        o->in_call = false;
}

static void owner_open(struct owner *o)
{
        *o = (struct owner) { .loop = loop_new() };
}

static void owner_close(struct owner *o)
{
        o->loop = loop_free(o->loop);
        buf_done(&o->got);
}

static void wait_done(struct owner *o)
{
        EXPECT(loop_run_until(o->loop, &o->is_done, PATIENCE_MS));
        EXPECT_INT(o->dones, 1);
}

/* Busy, but with a turn for everybody: the thread is the one that moves. */
static void wait_until(struct owner *o, bool (*is)(struct owner *))
{
        static const bool never;

        for (int i = 0; i < 1000000 && !is(o); i++)
                (void) loop_run_until(o->loop, &never, 0);
        EXPECT(is(o));
}

static bool is_at_it(struct owner *o)
{
        return atomic_load(&o->is_at_it);
}

/* ---- out ---- */

static int emit_numbers(struct job *j, void *arg, struct error *err)
{
        for (int i = 0; i < MANY; i++) {
                char text[16];
                int n = snprintf(text, sizeof(text), "%d\n", i);

                if (job_emit(j, text, (size_t) n, err) < 0)
                        return -1;
        }
        return 0;
}

TEST(job_delivers_what_was_emitted_in_order_and_then_is_done)
{
        struct owner o;
        char *at;

        owner_open(&o);
        owner_start(&o, emit_numbers);
        wait_done(&o);
        EXPECT(!o.has_why);
        at = o.got.data;
        for (int i = 0; i < MANY; i++)
                EXPECT_INT(strtol(at, &at, 10), i);
        owner_close(&o);
}

static int emit_blocks(struct job *j, void *arg, struct error *err)
{
        struct owner *o = arg;
        static const char block[BLOCK];

        while (o->want == 0 || o->emitted < o->want) {
                atomic_store(&o->is_at_it, o->emitted >= JOB_CHANNEL_BYTES);
                if (job_emit(j, block, BLOCK, err) < 0)
                        return -1;
                o->emitted += BLOCK;
        }
        return 0;
}

TEST(job_thread_waits_while_the_loop_is_paused)
{
        struct owner o;

        owner_open(&o);
        o.want = (size_t) 20 * BLOCK;
        o.pauses = true;
        owner_start(&o, emit_blocks);
        EXPECT(loop_run_until(o.loop, &o.has_data, PATIENCE_MS));
        wait_until(&o, is_at_it);
        EXPECT_INT(o.datas, 1);
        EXPECT(atomic_load(&o.emitted) <= JOB_CHANNEL_BYTES + 2 * BLOCK);
        EXPECT_INT(o.dones, 0);
        o.pauses = false;
        o.in_call = true;
        job_pause(o.job, false);
        o.in_call = false;
        wait_done(&o);
        EXPECT_INT(o.got.len, o.want);
        EXPECT(!o.has_why);
        owner_close(&o);
}

static int emit_one_and_leave(struct job *j, void *arg, struct error *err)
{
        struct owner *o = arg;

        if (job_emit(j, "ab", 2, err) < 0 || job_emit(j, "cd", 2, err) < 0)
                return -1;
        atomic_store(&o->is_at_it, true);
        return 0;
}

TEST(job_that_left_is_done_only_when_everything_was_delivered)
{
        struct owner o;

        owner_open(&o);
        o.pauses = true;
        owner_start(&o, emit_one_and_leave);
        wait_until(&o, is_at_it);
        EXPECT(loop_run_until(o.loop, &o.has_data, PATIENCE_MS));
        EXPECT_INT(o.got.len, 2);
        EXPECT(!loop_run_until(o.loop, &o.is_done, 0));
        job_pause(o.job, false);
        wait_done(&o);
        EXPECT_MEM(o.got.data, "abcd", 4);
        owner_close(&o);
}

static int emit_a_chunk_over_the_bound(struct job *j, void *arg, struct error *err)
{
        _cleanup_(chunk_unrefp) struct chunk *big = chunk_new(JOB_CHANNEL_BYTES + 1);
        _cleanup_(chunk_unrefp) struct chunk *none = chunk_new(0);

        memset(chunk_bytes(big), 'x', big->len);
        if (job_emit_chunk(j, big, err) < 0 || job_emit_chunk(j, none, err) < 0)
                return -1;
        return job_emit(j, big->data, big->len, err);
}

TEST(job_takes_a_chunk_that_is_bigger_than_the_channel)
{
        struct owner o;

        owner_open(&o);
        owner_start(&o, emit_a_chunk_over_the_bound);
        wait_done(&o);
        EXPECT_INT(o.got.len, 2 * (JOB_CHANNEL_BYTES + 1));
        owner_close(&o);
}

static int fail(struct job *j, void *arg, struct error *err)
{
        return error_set(err, ERR_NOT_FOUND, 0, "no such folder");
}

TEST(job_hands_the_error_of_its_thread_over)
{
        struct owner o;

        owner_open(&o);
        owner_start(&o, fail);
        wait_done(&o);
        EXPECT(o.has_why);
        EXPECT_INT(o.why.kind, ERR_NOT_FOUND);
        EXPECT_STR(o.why.msg, "no such folder");
        owner_close(&o);
}

/* ---- in ---- */

static int echo(struct job *j, void *arg, struct error *err)
{
        struct owner *o = arg;

        for (;;) {
                _cleanup_(chunk_unrefp) struct chunk *c = NULL;

                if (job_take(j, &c, err) < 0)
                        return -1;
                if (!c)
                        return job_emit(j, ".", 1, err);
                o->taken += c->len;
                if (job_emit_chunk(j, c, err) < 0)
                        return -1;
        }
}

TEST(job_takes_what_is_fed_in_order_up_to_the_end)
{
        _cleanup_(chunk_unrefp) struct chunk *a = chunk_copy("a", 1), *b = chunk_copy("b", 1);
        struct owner o;

        owner_open(&o);
        owner_start(&o, echo);
        EXPECT_INT(job_feed(o.job, a), 1);
        EXPECT_INT(job_feed(o.job, b), 1);
        job_feed_end(o.job);
        EXPECT_INT(job_feed(o.job, b), -1); /* after the end */
        wait_done(&o);
        EXPECT_INT(o.got.len, 3);
        EXPECT_MEM(o.got.data, "ab.", 3);
        owner_close(&o);
}

/* Does not take before it may. */
static int echo_late(struct job *j, void *arg, struct error *err)
{
        struct owner *o = arg;

        while (!atomic_load(&o->may_leave))
                (void) poll(NULL, 0, 1);
        return echo(j, arg, err);
}

TEST(job_tells_the_feeder_when_it_is_full_and_when_there_is_room)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_new(BLOCK);
        struct owner o;
        size_t fed = 0;
        int room;

        owner_open(&o);
        memset(chunk_bytes(c), 'f', BLOCK);
        owner_start(&o, echo_late);
        do {
                room = job_feed(o.job, c);
                fed += BLOCK;
                EXPECT_INT(room, fed < JOB_CHANNEL_BYTES);
        } while (room == 1);
        EXPECT(!loop_run_until(o.loop, &o.has_room, 0));
        atomic_store(&o.may_leave, true);
        EXPECT(loop_run_until(o.loop, &o.has_room, PATIENCE_MS));
        EXPECT(fed - o.taken <= JOB_CHANNEL_BYTES / 2);
        EXPECT_INT(job_feed(o.job, c), 1);
        job_feed_end(o.job);
        wait_done(&o);
        EXPECT_INT(o.rooms, 1);
        EXPECT_INT(o.got.len, fed + BLOCK + 1);
        owner_close(&o);
}

TEST(job_takes_no_feed_once_its_thread_left)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy("x", 1);
        struct owner o;

        owner_open(&o);
        o.pauses = true;
        owner_start(&o, emit_one_and_leave);
        EXPECT(loop_run_until(o.loop, &o.has_data, PATIENCE_MS));
        while (job_feed(o.job, c) != -1) /* it is about to leave */
                (void) poll(NULL, 0, 0);
        EXPECT_INT(o.dones, 0);
        job_pause(o.job, false);
        wait_done(&o);
        EXPECT_INT(o.rooms, 0);
        owner_close(&o);
}

/* ---- cancel ---- */

TEST(job_cancelled_while_it_emits_is_woken_and_says_so)
{
        struct owner o;

        owner_open(&o);
        o.pauses = true;
        owner_start(&o, emit_blocks);
        EXPECT(loop_run_until(o.loop, &o.has_data, PATIENCE_MS));
        wait_until(&o, is_at_it);
        o.pauses = false;
        o.in_call = true;
        job_cancel(o.job);
        job_cancel(o.job);
        job_pause(o.job, false);
        o.in_call = false;
        wait_done(&o);
        EXPECT_INT(o.datas, 1);
        EXPECT(o.has_why);
        owner_close(&o);
}

static int take_for_ever(struct job *j, void *arg, struct error *err)
{
        struct owner *o = arg;
        struct chunk *c = NULL;

        atomic_store(&o->is_at_it, true);
        return job_take(j, &c, err);
}

TEST(job_cancelled_while_it_takes_is_woken_and_says_so)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy("x", 1);
        struct owner o;

        owner_open(&o);
        owner_start(&o, take_for_ever);
        wait_until(&o, is_at_it);
        job_cancel(o.job);
        EXPECT_INT(job_feed(o.job, c), -1);
        wait_done(&o);
        EXPECT(o.has_why);
        owner_close(&o);
}

TEST(job_cancelled_inside_on_data_delivers_no_more)
{
        struct owner o;

        owner_open(&o);
        o.cancels = true;
        owner_start(&o, emit_blocks);
        wait_done(&o);
        EXPECT_INT(o.datas, 1);
        EXPECT(o.has_why);
        owner_close(&o);
}

static int poll_for_ever(struct job *j, void *arg, struct error *err)
{
        struct pollfd p = { .fd = job_cancel_fd(j), .events = POLLIN };
        struct owner *o = arg;

        atomic_store(&o->is_at_it, true);
        EXPECT_INT(poll(&p, 1, PATIENCE_MS), 1);
        EXPECT(job_is_cancelled(j));
        return 0;
}

TEST(job_cancel_makes_its_descriptor_readable)
{
        struct owner o;

        owner_open(&o);
        owner_start(&o, poll_for_ever);
        wait_until(&o, is_at_it);
        job_cancel(o.job);
        wait_done(&o);
        EXPECT(!o.has_why); /* run() took it calmly */
        owner_close(&o);
}

TEST(job_that_left_while_paused_is_done_after_a_cancel)
{
        struct owner o;

        owner_open(&o);
        o.pauses = true;
        owner_start(&o, emit_one_and_leave);
        EXPECT(loop_run_until(o.loop, &o.has_data, PATIENCE_MS));
        job_cancel(o.job);
        wait_done(&o);
        EXPECT_INT(o.datas, 1);
        owner_close(&o);
}

/* ---- the loop ---- */

TEST(loop_runs_so_many_jobs_and_no_more)
{
        struct job_spec spec = { take_for_ever, on_data, on_room, on_done };
        struct owner *o = xcalloc(JOB_MAX, sizeof(*o));
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct job *none;

        for (int i = 0; i < JOB_MAX; i++) {
                o[i].loop = l;
                owner_start(&o[i], take_for_ever);
        }
        EXPECT_ERR(job_start(l, &spec, &o[0], &none, &err), ERR_BUSY, err);
        job_cancel(o[7].job);
        wait_done(&o[7]);
        o[7].dones = 0;
        owner_start(&o[7], take_for_ever);
        loop_free(l); /* with all of them waiting */
        for (int i = 0; i < JOB_MAX; i++)
                EXPECT_INT(o[i].dones, 1);
        free(o);
}

static void start_again(void *arg, const struct error *why)
{
        struct job_spec spec = { echo, on_data, on_room, on_done };
        struct owner *o = arg;
        struct error err = { 0 };

        o->dones++;
        EXPECT_ERR(job_start(o->loop, &spec, o, &o->job, &err), ERR_BUSY, err);
}

TEST(loop_that_goes_joins_its_jobs_and_starts_no_other)
{
        struct job_spec spec = { echo, on_data, on_room, start_again };
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy("x", 1);
        struct error err = { 0 };
        struct owner o;

        owner_open(&o);
        EXPECT_OK(job_start(o.loop, &spec, &o, &o.job, &err), err);
        EXPECT_INT(job_feed(o.job, c), 1);
        owner_close(&o);
        EXPECT_INT(o.dones, 1);
}
