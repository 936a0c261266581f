/* Condition variables on the monotonic clock, with a deadline. Inner header of event/. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline void cond_init(pthread_cond_t *c)
{
        pthread_condattr_t a;

        (void) pthread_condattr_init(&a);
        (void) pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
        (void) pthread_cond_init(c, &a);
        (void) pthread_condattr_destroy(&a);
}

/* False when the deadline has passed; < 0 = none. */
static inline bool cond_wait(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline_us)
{
        struct timespec at = { deadline_us / 1000000, deadline_us % 1000000 * 1000 };

        if (deadline_us < 0)
                return pthread_cond_wait(c, m) == 0;
        return pthread_cond_timedwait(c, m, &at) == 0;
}
