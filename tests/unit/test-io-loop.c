/* Timers, deferred tasks, wake-ups from threads and work in the pool. */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/loop.h"
#include "io/timer.h"
#include "test.h"

enum { MANY = 10000, PATIENCE_MS = 5000 };

static const bool never;

/* Lets everything run that is due now. */
static void turn(struct loop *l)
{
        (void) loop_run_until(l, &never, 0);
}

/* ---- timers ---- */

struct note {
        struct timer timer;
        int id;
        int *seen; /* ids in the order of firing */
        size_t *n_seen;
        bool *done; /* set by the last one, or NULL */
};

static void note_fire(struct timer *t)
{
        struct note *n = CONTAINER_OF(t, struct note, timer);

        n->seen[(*n->n_seen)++] = n->id;
        if (n->done)
                *n->done = true;
}

TEST(timers_fire_in_the_order_of_their_times)
{
        static const int in_us[] = { 900, 100, 500, 300, 700 };
        struct loop *l = loop_new();
        struct note notes[5] = { 0 };
        int seen[5];
        size_t n_seen = 0;
        bool done = false;

        for (int i = 0; i < 5; i++) {
                notes[i] = (struct note) { .id = in_us[i], .seen = seen, .n_seen = &n_seen };
                timer_init(&notes[i].timer, l, note_fire);
                timer_set_us(&notes[i].timer, in_us[i]);
                EXPECT(timer_armed(&notes[i].timer));
        }
        notes[0].done = &done;
        EXPECT(loop_run_until(l, &done, PATIENCE_MS));
        EXPECT_INT(n_seen, 5);
        for (int i = 0; i < 5; i++)
                EXPECT_INT(seen[i], 100 + i * 200);
        EXPECT(!timer_armed(&notes[0].timer));
        loop_free(l);
}

TEST(timer_moved_later_fires_once_at_the_new_time)
{
        struct loop *l = loop_new();
        int seen[4];
        size_t n_seen = 0;
        bool done = false;
        struct note a = { .id = 1, .seen = seen, .n_seen = &n_seen, .done = &done };
        struct note b = { .id = 2, .seen = seen, .n_seen = &n_seen };
        int64_t start_us = clock_mono_us();

        timer_init(&a.timer, l, note_fire);
        timer_init(&b.timer, l, note_fire);
        timer_set_us(&a.timer, 200);
        timer_set_us(&b.timer, 2000);
        timer_set_us(&a.timer, 6000);
        EXPECT(loop_run_until(l, &done, PATIENCE_MS));
        EXPECT(clock_mono_us() - start_us >= 6000);
        EXPECT_INT(n_seen, 2);
        EXPECT_INT(seen[0], 2);
        EXPECT_INT(seen[1], 1);
        loop_free(l);
}

TEST(timer_moved_earlier_fires_at_the_new_time)
{
        struct loop *l = loop_new();
        int seen[4];
        size_t n_seen = 0;
        bool done = false;
        struct note a = { .id = 1, .seen = seen, .n_seen = &n_seen, .done = &done };

        timer_init(&a.timer, l, note_fire);
        timer_set(&a.timer, 3600 * 1000);
        turn(l); /* the loop has armed itself for the late time */
        timer_set(&a.timer, 1);
        EXPECT(loop_run_until(l, &done, PATIENCE_MS));
        EXPECT_INT(n_seen, 1);
        loop_free(l);
}

struct stopper {
        struct timer timer;
        struct timer *victim;
        unsigned fired;
};

static void stopper_fire(struct timer *t)
{
        struct stopper *s = CONTAINER_OF(t, struct stopper, timer);

        s->fired++;
        timer_stop(&s->timer); /* itself: nothing to do, and no harm */
        timer_stop(s->victim);
}

TEST(timer_stopped_in_a_callback_does_not_fire)
{
        struct loop *l = loop_new();
        int seen[4];
        size_t n_seen = 0;
        struct note victim = { .id = 1, .seen = seen, .n_seen = &n_seen };
        struct stopper s = { .victim = &victim.timer };

        timer_init(&victim.timer, l, note_fire);
        timer_init(&s.timer, l, stopper_fire);
        timer_set_us(&s.timer, 0);
        timer_set_us(&victim.timer, 1); /* due in the same batch */
        for (int64_t until_us = clock_mono_us() + 3000; clock_mono_us() < until_us;)
                turn(l);
        EXPECT_INT(s.fired, 1);
        EXPECT_INT(n_seen, 0);
        EXPECT(!timer_armed(&victim.timer));
        loop_free(l);
}

struct repeat {
        struct timer timer;
        unsigned left;
        bool done;
};

static void repeat_fire(struct timer *t)
{
        struct repeat *r = CONTAINER_OF(t, struct repeat, timer);

        if (--r->left)
                timer_set(t, 0);
        else
                r->done = true;
}

TEST(timer_can_be_set_again_in_its_callback)
{
        struct loop *l = loop_new();
        struct repeat r = { .left = 100 };

        timer_init(&r.timer, l, repeat_fire);
        timer_set(&r.timer, 0);
        EXPECT(loop_run_until(l, &r.done, PATIENCE_MS));
        EXPECT_INT(r.left, 0);
        loop_free(l);
}

struct crowd {
        struct timer timer;
        int64_t at_us;
        struct crowd_sum *sum;
};
struct crowd_sum {
        size_t fired, want;
        int64_t last_us;
        bool is_ordered, done;
};

static void crowd_fire(struct timer *t)
{
        struct crowd *c = CONTAINER_OF(t, struct crowd, timer);
        struct crowd_sum *s = c->sum;

        s->is_ordered = s->is_ordered && t->at_us >= s->last_us;
        s->last_us = t->at_us;
        s->done = ++s->fired == s->want;
}

TEST(ten_thousand_timers_set_moved_and_stopped_fire_in_order)
{
        struct loop *l = loop_new();
        struct crowd *all = xcalloc(MANY, sizeof(*all));
        struct crowd_sum sum = { .is_ordered = true };
        unsigned seed = 1;

        for (int i = 0; i < MANY; i++) {
                all[i].sum = &sum;
                timer_init(&all[i].timer, l, crowd_fire);
                seed = seed * 1103515245 + 12345;
                timer_set_us(&all[i].timer, 2000 + (seed >> 16) % 8000);
        }
        for (int i = 0; i < MANY; i++) {
                if (i % 3 == 0)
                        timer_stop(&all[i].timer);
                else if (i % 3 == 1) /* earlier for some, later for others */
                        timer_set_us(&all[i].timer, 1000 + (i * 7919) % 9000);
        }
        for (int i = 0; i < MANY; i++)
                sum.want += timer_armed(&all[i].timer);
        EXPECT_INT(sum.want, MANY - (MANY + 2) / 3);
        EXPECT(loop_run_until(l, &sum.done, PATIENCE_MS));
        EXPECT_INT(sum.fired, sum.want);
        EXPECT(sum.is_ordered);
        free(all);
        loop_free(l);
}

TEST(loop_run_until_gives_up_after_its_time)
{
        struct loop *l = loop_new();
        int64_t start_us = clock_mono_us();

        EXPECT(!loop_run_until(l, &never, 3));
        EXPECT(clock_mono_us() - start_us >= 3000);
        loop_free(l);
}

/* ---- tasks ---- */

struct job {
        struct task task;
        struct loop *loop;
        struct task *cancels; /* or NULL */
        unsigned runs, again;
};

static void job_run(struct task *t)
{
        struct job *j = CONTAINER_OF(t, struct job, task);

        j->runs++;
        if (j->cancels)
                task_cancel(j->cancels);
        if (j->again) {
                j->again--;
                loop_defer(j->loop, t);
        }
}

TEST(task_queued_twice_runs_once)
{
        struct loop *l = loop_new();
        struct job j = { .loop = l };

        task_init(&j.task, job_run);
        loop_defer(l, &j.task);
        loop_defer(l, &j.task);
        turn(l);
        EXPECT_INT(j.runs, 1);
        turn(l);
        EXPECT_INT(j.runs, 1);
        loop_free(l);
}

TEST(task_cancelled_by_another_of_its_batch_does_not_run)
{
        struct loop *l = loop_new();
        struct job victim = { .loop = l }, killer = { .loop = l, .cancels = &victim.task };

        task_init(&victim.task, job_run);
        task_init(&killer.task, job_run);
        loop_defer(l, &killer.task);
        loop_defer(l, &victim.task);
        turn(l);
        EXPECT_INT(killer.runs, 1);
        EXPECT_INT(victim.runs, 0);
        loop_free(l);
}

TEST(task_that_queues_itself_lets_timers_have_their_turn)
{
        struct loop *l = loop_new();
        struct job j = { .loop = l, .again = 1u << 30 };
        struct repeat r = { .left = 1 };

        task_init(&j.task, job_run);
        timer_init(&r.timer, l, repeat_fire);
        loop_defer(l, &j.task);
        timer_set(&r.timer, 1);
        EXPECT(loop_run_until(l, &r.done, PATIENCE_MS));
        EXPECT(j.runs > 1);
        task_cancel(&j.task);
        loop_free(l);
}

static void stop_loop(struct timer *t)
{
        loop_stop(t->loop);
}

TEST(loop_stop_ends_loop_run_and_what_is_deferred_still_runs)
{
        struct loop *l = loop_new();
        struct job j = { .loop = l };
        struct timer t;

        task_init(&j.task, job_run);
        timer_init(&t, l, stop_loop);
        timer_set(&t, 0);
        loop_defer(l, &j.task);
        loop_run(l);
        EXPECT_INT(j.runs, 1);
        loop_free(l);
}

/* ---- threads ---- */

struct from_thread {
        struct wakeup *wakeup;
        pthread_t loop_thread;
        unsigned calls;
        bool done, is_right_thread;
};

static void woken(void *arg)
{
        struct from_thread *f = arg;

        f->calls++;
        f->is_right_thread = pthread_equal(pthread_self(), f->loop_thread);
        f->done = true;
}

static void *fire(void *arg)
{
        for (int i = 0; i < 1000; i++)
                wakeup_fire(((struct from_thread *) arg)->wakeup);
        return NULL;
}

TEST(wakeup_from_a_thread_calls_on_the_loop_thread)
{
        struct loop *l = loop_new();
        struct from_thread f = { .loop_thread = pthread_self() };
        pthread_t other;

        f.wakeup = wakeup_new(l, woken, &f);
        EXPECT_INT(pthread_create(&other, NULL, fire, &f), 0);
        EXPECT(loop_run_until(l, &f.done, PATIENCE_MS));
        (void) pthread_join(other, NULL);
        EXPECT(f.is_right_thread);
        EXPECT(f.calls >= 1 && f.calls <= 1000);
        wakeup_free(f.wakeup);
        loop_free(l);
}

TEST(wakeup_freed_after_it_was_fired_does_not_call)
{
        struct loop *l = loop_new();
        struct from_thread f = { .loop_thread = pthread_self() };

        f.wakeup = wakeup_new(l, woken, &f);
        wakeup_fire(f.wakeup);
        wakeup_free(f.wakeup);
        turn(l);
        EXPECT_INT(f.calls, 0);
        loop_free(l);
}

struct pool_job {
        pthread_t loop_thread;
        bool ran_elsewhere, done, done_here;
};

static void pool_run(void *arg)
{
        struct pool_job *p = arg;

        p->ran_elsewhere = !pthread_equal(pthread_self(), p->loop_thread);
}

static void pool_done(void *arg)
{
        struct pool_job *p = arg;

        p->done_here = pthread_equal(pthread_self(), p->loop_thread);
        p->done = true;
}

TEST(work_runs_in_the_pool_and_reports_on_the_loop)
{
        struct loop *l = loop_new();
        struct pool_job p = { .loop_thread = pthread_self() };

        loop_work(l, pool_run, pool_done, &p);
        EXPECT(!p.done);
        EXPECT(loop_run_until(l, &p.done, PATIENCE_MS));
        EXPECT(p.ran_elsewhere);
        EXPECT(p.done_here);
        loop_free(l);
}

TEST(freeing_the_loop_waits_for_work_that_runs)
{
        struct loop *l = loop_new();
        struct pool_job p = { .loop_thread = pthread_self() };

        loop_work(l, pool_run, pool_done, &p);
        loop_free(l);
        EXPECT(p.done);
}

/* Work whose end asks for more of it, as a file that leaves slice by slice does. */
struct chain {
        struct loop *loop;
        unsigned left, runs;
};

static void chain_run(void *arg)
{
        ((struct chain *) arg)->runs++;
}

static void chain_done(void *arg)
{
        struct chain *c = arg;

        if (--c->left)
                loop_work(c->loop, chain_run, chain_done, c);
}

TEST(freeing_the_loop_finishes_work_that_asks_for_more)
{
        enum { STEPS = 20 };
        struct chain c = { .loop = loop_new(), .left = STEPS };

        loop_work(c.loop, chain_run, chain_done, &c);
        loop_free(c.loop);
        EXPECT_INT(c.runs, STEPS);
        EXPECT_INT(c.left, 0);
}
