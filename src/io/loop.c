#include "io/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/loop_impl.h"
#include "io/stream.h"

enum {
        DEFER_ROUNDS = 16, /* tasks that queue tasks: after so many rounds sockets get a turn */
        CLOSE_ROUNDS = 8,
        LOOP_DESCRIPTORS = 6, /* epoll, wake-up, two pipes for signals */
};

static void run_deferred(struct loop *l)
{
        for (int round = 0; round < DEFER_ROUNDS && !list_empty(&l->deferred); round++) {
                struct list batch;

                list_init(&batch);
                list_splice(&batch, &l->deferred);
                while (!list_empty(&batch)) {
                        struct task *t = LIST_ENTRY(batch.next, struct task, node);

                        list_remove(&t->node);
                        t->fn(t);
                }
        }
        for (size_t i = 0; i < l->n_graves; i++)
                free(l->graves[i]);
        l->n_graves = 0;
}

static void on_busy(uv_idle_t *h)
{
}

static void on_prepare(uv_prepare_t *h)
{
        struct loop *l = h->data;

        run_deferred(l);
        if (l->on_idle)
                l->on_idle(l->on_idle_arg);
        if (list_empty(&l->deferred) && !(l->until && *l->until))
                (void) uv_idle_stop(&l->busy);
        else
                (void) uv_idle_start(&l->busy, on_busy);
        loop_timers_arm(l);
}

static void on_check(uv_check_t *h)
{
        run_deferred(h->data);
}

static void on_keep(uv_async_t *h)
{
}

/* The loop library aborts when its own pipe cannot be made, so what it will need is tried before.
 */
static bool has_descriptors(void)
{
        int fds[LOOP_DESCRIPTORS];
        int n = 0;

        while (n < LOOP_DESCRIPTORS && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
                n++;
        for (int i = 0; i < n; i++)
                (void) close(fds[i]);
        return n == LOOP_DESCRIPTORS;
}

static int init_handles(struct loop *l)
{
        int r = uv_async_init(&l->uv, &l->keep, on_keep);

        (void) uv_prepare_init(&l->uv, &l->prepare);
        (void) uv_check_init(&l->uv, &l->check);
        (void) uv_idle_init(&l->uv, &l->busy);
        (void) uv_timer_init(&l->uv, &l->tick);
        l->prepare.data = l->check.data = l->tick.data = l;
        return r;
}

struct loop *loop_new(void)
{
        struct loop *l;
        int r;

        if (!has_descriptors())
                return NULL;
        l = NEW(struct loop);

        /* A write to a closed pipe is an error code here, never a signal; children get the default
         * back when they are spawned. */
        (void) signal(SIGPIPE, SIG_IGN);
        list_init(&l->deferred);
        list_init(&l->jobs);
        r = uv_loop_init(&l->uv);
        if (r == 0)
                r = init_handles(l);
        if (r < 0) {
                free(l);
                errno = -r;
                return NULL;
        }
        (void) uv_prepare_start(&l->prepare, on_prepare);
        (void) uv_check_start(&l->check, on_check);
        l->read_buf = xmalloc(STREAM_READ_BYTES);
        return l;
}

static void close_handle(uv_handle_t *h, void *arg)
{
        if (!uv_is_closing(h))
                uv_close(h, NULL);
}

struct loop *loop_free(struct loop *l)
{
        int rounds = 0;

        if (!l)
                return NULL;
        l->is_closing = true;
        loop_jobs_end(l);
        loop_pool_free(l);
        run_deferred(l);
        /* What ends now (a look-up that was under way) may queue and close once more. */
        do {
                uv_walk(&l->uv, close_handle, NULL);
                (void) uv_run(&l->uv, UV_RUN_DEFAULT);
                run_deferred(l);
        } while (uv_loop_close(&l->uv) == UV_EBUSY && ++rounds < CLOSE_ROUNDS);
        free(l->heap);
        free(l->graves);
        free(l->read_buf);
        free(l);
        return NULL;
}

void loop_run(struct loop *l)
{
        l->is_stopping = false;
        while (!l->is_stopping)
                (void) uv_run(&l->uv, UV_RUN_ONCE);
        run_deferred(l);
}

struct until {
        struct timer timer;
        bool is_over;
};

static void on_until(struct timer *t)
{
        CONTAINER_OF(t, struct until, timer)->is_over = true;
}

bool loop_run_until(struct loop *l, const bool *done, int64_t timeout_ms)
{
        struct until u = { .is_over = false };

        timer_init(&u.timer, l, on_until);
        if (timeout_ms >= 0)
                timer_set(&u.timer, timeout_ms);
        l->until = done;
        while (!*done && !u.is_over)
                (void) uv_run(&l->uv, UV_RUN_ONCE);
        l->until = NULL;
        timer_stop(&u.timer);
        return *done;
}

void loop_stop(struct loop *l)
{
        l->is_stopping = true;
        uv_stop(&l->uv);
}

int64_t loop_now_us(struct loop *l)
{
        return clock_mono_us();
}

void task_init(struct task *t, void (*fn)(struct task *))
{
        list_init(&t->node);
        t->fn = fn;
}

void loop_defer(struct loop *l, struct task *t)
{
        if (list_empty(&t->node))
                list_push(&l->deferred, &t->node);
}

void task_cancel(struct task *t)
{
        list_remove(&t->node);
}

void loop_free_later(struct loop *l, void *p)
{
        if (l->n_graves == l->cap_graves) {
                l->cap_graves = l->cap_graves ? l->cap_graves * 2 : 16;
                l->graves = xrealloc(l->graves, l->cap_graves * sizeof(*l->graves));
        }
        l->graves[l->n_graves++] = p;
}

void loop_on_idle(struct loop *l, void (*fn)(void *arg), void *arg)
{
        l->on_idle = fn;
        l->on_idle_arg = arg;
}

static void on_signal(uv_signal_t *h, int signum)
{
        struct loop_signal *s = h->data;

        s->fn(s->arg, signum);
}

int loop_on_signal(struct loop *l, int signum, void (*fn)(void *arg, int signum), void *arg,
                   struct error *err)
{
        struct loop_signal *s = &l->signals[l->n_signals];
        int r;

        if (l->n_signals == LOOP_SIGNALS_MAX)
                return error_set(err, ERR_SYSTEM, 0, "watch signal %d: too many signals", signum);
        s->fn = fn;
        s->arg = arg;
        (void) uv_signal_init(&l->uv, &s->uv);
        s->uv.data = s;
        l->n_signals++;
        r = uv_signal_start(&s->uv, on_signal, signum);
        if (r < 0)
                return error_set(err, ERR_SYSTEM, -r, "watch signal %d", signum);
        uv_unref((uv_handle_t *) &s->uv);
        return 0;
}

struct wakeup {
        uv_async_t uv;
        void (*fn)(void *arg);
        void *arg;
};

static void on_wakeup(uv_async_t *h)
{
        struct wakeup *w = h->data;

        if (w->fn)
                w->fn(w->arg);
}

struct wakeup *wakeup_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
        struct wakeup *w = NEW(struct wakeup);

        if (uv_async_init(&l->uv, &w->uv, on_wakeup) < 0)
                abort();
        w->uv.data = w;
        w->fn = fn;
        w->arg = arg;
        return w;
}

void wakeup_fire(struct wakeup *w)
{
        (void) uv_async_send(&w->uv);
}

static void wakeup_closed(uv_handle_t *h)
{
        free(h->data);
}

struct wakeup *wakeup_free(struct wakeup *w)
{
        if (w) {
                w->fn = NULL;
                uv_close((uv_handle_t *) &w->uv, wakeup_closed);
        }
        return NULL;
}
