/* Timers belong to an object and go with it: embed one, init it, stop it in the destructor.
 * A stopped timer needs no further care (no deferred close). Moving a deadline later is nearly
 * free. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct timer {
        struct loop *loop;
        void (*fn)(struct timer *);
        int64_t at_us;   /* wanted */
        int64_t heap_us; /* sorted by this; lags behind at_us when the deadline moved later */
        size_t heap_pos; /* 1-based, 0 = not armed */
};

void timer_init(struct timer *t, struct loop *l, void (*fn)(struct timer *));
void timer_set(struct timer *t, int64_t in_ms); /* arms or moves; fires once */
void timer_set_us(struct timer *t, int64_t in_us);
void timer_stop(struct timer *t); /* idempotent */
static inline bool timer_armed(const struct timer *t)
{
        return t->heap_pos != 0;
}
