/* One binary heap of embedded timers, one loop-library timer for its top. A deadline that moves
 * later is only noted (at_us); the heap learns of it when the old time comes. Per-request deadlines
 * that are pushed back thousands of times a second therefore cost a store each. */
#include "io/timer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "io/loop_impl.h"

static void put(struct loop *l, size_t i, struct timer *t)
{
        l->heap[i] = t;
        t->heap_pos = i;
}

static void sift_up(struct loop *l, size_t i)
{
        struct timer *t = l->heap[i];

        for (; i > 1 && l->heap[i / 2]->heap_us > t->heap_us; i /= 2)
                put(l, i, l->heap[i / 2]);
        put(l, i, t);
}

static void sift_down(struct loop *l, size_t i)
{
        struct timer *t = l->heap[i];

        for (;;) {
                size_t kid = i * 2;

                if (kid > l->n_heap)
                        break;
                if (kid < l->n_heap && l->heap[kid + 1]->heap_us < l->heap[kid]->heap_us)
                        kid++;
                if (l->heap[kid]->heap_us >= t->heap_us)
                        break;
                put(l, i, l->heap[kid]);
                i = kid;
        }
        put(l, i, t);
}

static void heap_add(struct timer *t)
{
        struct loop *l = t->loop;

        if (l->n_heap + 2 > l->cap_heap) {
                l->cap_heap = l->cap_heap ? l->cap_heap * 2 : 64;
                l->heap = xrealloc(l->heap, l->cap_heap * sizeof(*l->heap));
        }
        t->heap_us = t->at_us;
        put(l, ++l->n_heap, t);
        sift_up(l, l->n_heap);
}

static void heap_del(struct timer *t)
{
        struct loop *l = t->loop;
        struct timer *last = l->heap[l->n_heap--];
        size_t i = t->heap_pos;

        t->heap_pos = 0;
        if (last == t)
                return;
        put(l, i, last);
        sift_up(l, i);
        sift_down(l, last->heap_pos);
}

void timer_init(struct timer *t, struct loop *l, void (*fn)(struct timer *))
{
        *t = (struct timer) { .loop = l, .fn = fn };
}

void timer_set_us(struct timer *t, int64_t in_us)
{
        t->at_us = clock_mono_us() + (in_us > 0 ? in_us : 0);
        if (t->heap_pos && t->at_us >= t->heap_us)
                return;
        if (t->heap_pos)
                heap_del(t);
        heap_add(t);
}

void timer_set(struct timer *t, int64_t in_ms)
{
        timer_set_us(t, in_ms * 1000);
}

void timer_stop(struct timer *t)
{
        if (t->heap_pos)
                heap_del(t);
}

static void on_tick(uv_timer_t *h)
{
        struct loop *l = h->data;

        l->tick_us = 0;
        loop_timers_run(l);
}

void loop_timers_arm(struct loop *l)
{
        int64_t left_us;

        if (!l->n_heap || (l->tick_us && l->tick_us <= l->heap[1]->heap_us))
                return;
        l->tick_us = l->heap[1]->heap_us;
        uv_update_time(&l->uv);
        left_us = l->tick_us - clock_mono_us();
        (void) uv_timer_start(&l->tick, on_tick,
                              left_us > 0 ? (uint64_t) (left_us + 999) / 1000 : 0, 0);
}

void loop_timers_run(struct loop *l)
{
        int64_t now_us = clock_mono_us();

        while (l->n_heap && l->heap[1]->heap_us <= now_us) {
                struct timer *t = l->heap[1];

                heap_del(t);
                if (t->at_us > t->heap_us)
                        heap_add(t); /* moved later: sort it in where it belongs now */
                else
                        t->fn(t);
        }
}
