/* What the files of io/ share and nobody else sees. */
#pragma once
#include <uv.h>

#include "base/list.h"
#include "io/loop.h"
#include "io/timer.h"

enum { LOOP_SIGNALS_MAX = 8 };

struct loop_signal {
        uv_signal_t uv;
        void (*fn)(void *arg, int signum);
        void *arg;
};

struct loop {
        uv_loop_t uv;
        uv_prepare_t prepare; /* before the loop sleeps */
        uv_check_t check;     /* right after it woke and dispatched */
        uv_idle_t busy;       /* active while deferred work is left: the loop must not sleep */
        uv_async_t keep;      /* keeps the loop alive without other handles */
        uv_timer_t tick;      /* one for all of ours, see timer.c */
        bool is_stopping;
        const bool *until; /* loop_run_until(): do not sleep once it is set */

        struct list deferred;
        void **graves; /* loop_free_later() */
        size_t n_graves, cap_graves;

        void (*on_idle)(void *arg);
        void *on_idle_arg;

        struct loop_signal signals[LOOP_SIGNALS_MAX];
        size_t n_signals;

        struct timer **heap; /* 1-based */
        size_t n_heap, cap_heap;
        int64_t tick_us; /* what `tick` is armed for, 0 = not */

        struct pool *pool; /* pool.c; NULL until somebody has work */

        struct list jobs; /* job.c */
        unsigned n_jobs;
        bool is_closing;

        char *read_buf; /* STREAM_READ_BYTES, shared by all streams: an idle one holds no buffer */
};

void loop_timers_arm(struct loop *l);
void loop_timers_run(struct loop *l);
void loop_pool_free(struct loop *l); /* finishes what is queued */
void loop_jobs_end(struct loop *l);  /* cancels, joins, tells the owners */
