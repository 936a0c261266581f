/* The event loop: one thread, owned by main (or by a test).
 *
 * This folder is the only place that names the loop library. The rules of the house:
 *  - callbacks are short and never call back into their caller; what follows is queued with
 *    loop_defer() and runs at the end of the iteration;
 *  - freeing inside a callback means "mark dead, free after dispatch": loop_free_later(). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"

struct loop;

/* Something to do at the end of this iteration. Embed it; queueing it twice runs it once. */
struct task {
        struct list node;
        void (*fn)(struct task *);
};

struct loop *loop_new(void);            /* NULL with errno: no descriptors left */
struct loop *loop_free(struct loop *l); /* runs what is deferred, closes what is left */

/* Runs until loop_stop(), or, for loop_run_until, until *done is set or the time is over (then it
 * returns false). timeout_ms < 0 = no limit. */
void loop_run(struct loop *l);
bool loop_run_until(struct loop *l, const bool *done, int64_t timeout_ms);
void loop_stop(struct loop *l);

int64_t loop_now_us(struct loop *l); /* monotonic */

void task_init(struct task *t, void (*fn)(struct task *));
void loop_defer(struct loop *l, struct task *t);
void task_cancel(struct task *t);
void loop_free_later(struct loop *l, void *p); /* free(p) after dispatch */

/* Called at the end of every iteration, before the loop sleeps (log_flush lives there). */
void loop_on_idle(struct loop *l, void (*fn)(void *arg), void *arg);

/* Signals, delivered on the loop. One handler per signal. */
int loop_on_signal(struct loop *l, int signum, void (*fn)(void *arg, int signum), void *arg,
                   struct error *err);

/* From any thread: fn(arg) soon, on the loop thread. Several calls may become one. */
struct wakeup;
struct wakeup *wakeup_new(struct loop *l, void (*fn)(void *arg), void *arg);
void wakeup_fire(struct wakeup *w); /* the only call here that other threads may make */
struct wakeup *wakeup_free(struct wakeup *w);

/* Blocking work in the small thread pool. run() is on a pool thread, done() on the loop. It cannot
 * be cancelled: an owner that goes away first must keep `arg` alive until done(). */
void loop_work(struct loop *l, void (*run)(void *arg), void (*done)(void *arg), void *arg);
/* Threads are made when work needs them. A server makes all of them at once, where a refusal of the
 * system is an ordinary failure to start. */
int loop_start_pool(struct loop *l, struct error *err);
