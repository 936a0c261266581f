/* The small pool for blocking calls. It is our own and not the loop library's, because that one
 * aborts the program when the system refuses a thread.
 *
 * Work is queued under a mutex, done by whichever thread is free, and handed back to the loop by
 * one wake-up. Threads are made when work waits and none is idle; when the first cannot be made,
 * the work is done on the loop's thread: slow, but right. */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "io/loop_impl.h"

enum { POOL_THREADS = 4, POOL_STACK_BYTES = 512 * 1024 };

struct work {
        struct list node;
        void (*run)(void *arg);
        void (*done)(void *arg);
        void *arg;
};

struct pool {
        pthread_mutex_t mutex;
        pthread_cond_t has_work;
        struct list queued, finished;
        struct wakeup *wakeup;
        pthread_t threads[POOL_THREADS];
        unsigned n_threads, n_idle, n_busy;
        bool is_ending;
};

static void run_one(struct pool *p, struct work *w)
{
        p->n_busy++;
        (void) pthread_mutex_unlock(&p->mutex);
        w->run(w->arg);
        (void) pthread_mutex_lock(&p->mutex);
        p->n_busy--;
        list_push(&p->finished, &w->node);
        wakeup_fire(p->wakeup);
}

static void *thread_main(void *arg)
{
        struct pool *p = arg;

        (void) pthread_mutex_lock(&p->mutex);
        while (!p->is_ending || !list_empty(&p->queued)) {
                struct list *n = p->queued.next;

                if (list_empty(&p->queued)) {
                        p->n_idle++;
                        (void) pthread_cond_wait(&p->has_work, &p->mutex);
                        p->n_idle--;
                        continue;
                }
                list_remove(n);
                run_one(p, LIST_ENTRY(n, struct work, node));
        }
        (void) pthread_mutex_unlock(&p->mutex);
        return NULL;
}

/* Signals are the loop's: threads are born with all of them blocked. */
static int add_thread(struct pool *p)
{
        pthread_attr_t attr;
        sigset_t all, was;
        int why;

        (void) sigfillset(&all);
        (void) pthread_attr_init(&attr);
        (void) pthread_attr_setstacksize(&attr, POOL_STACK_BYTES);
        (void) pthread_sigmask(SIG_SETMASK, &all, &was);
        why = pthread_create(&p->threads[p->n_threads], &attr, thread_main, p);
        (void) pthread_sigmask(SIG_SETMASK, &was, NULL);
        (void) pthread_attr_destroy(&attr);
        p->n_threads += why == 0;
        return why;
}

static void finish(void *arg)
{
        struct pool *p = arg;
        struct list batch;

        list_init(&batch);
        (void) pthread_mutex_lock(&p->mutex);
        list_splice(&batch, &p->finished);
        (void) pthread_mutex_unlock(&p->mutex);
        while (!list_empty(&batch)) {
                struct work *w = LIST_ENTRY(batch.next, struct work, node);

                list_remove(&w->node);
                w->done(w->arg);
                free(w);
        }
}

static struct pool *pool_of(struct loop *l)
{
        struct pool *p = l->pool;

        if (p)
                return p;
        p = l->pool = NEW(struct pool);
        (void) pthread_mutex_init(&p->mutex, NULL);
        (void) pthread_cond_init(&p->has_work, NULL);
        list_init(&p->queued);
        list_init(&p->finished);
        p->wakeup = wakeup_new(l, finish, p);
        return p;
}

int loop_start_pool(struct loop *l, struct error *err)
{
        struct pool *p = pool_of(l);
        int why = 0;

        (void) pthread_mutex_lock(&p->mutex);
        while (p->n_threads < POOL_THREADS && !why)
                why = add_thread(p);
        (void) pthread_mutex_unlock(&p->mutex);
        if (why)
                return error_set(err, ERR_SYSTEM, why, "start %d threads", POOL_THREADS);
        return 0;
}

void loop_work(struct loop *l, void (*run)(void *arg), void (*done)(void *arg), void *arg)
{
        struct pool *p = pool_of(l);
        struct work *w = NEW(struct work);

        *w = (struct work) { .run = run, .done = done, .arg = arg };
        (void) pthread_mutex_lock(&p->mutex);
        if (!p->n_idle && p->n_threads < POOL_THREADS)
                (void) add_thread(p);
        if (p->n_threads) {
                list_push(&p->queued, &w->node);
                (void) pthread_cond_signal(&p->has_work);
        } else {
                run_one(p, w);
        }
        (void) pthread_mutex_unlock(&p->mutex);
}

void loop_pool_free(struct loop *l)
{
        struct pool *p = l->pool;

        if (!p)
                return;
        (void) pthread_mutex_lock(&p->mutex);
        p->is_ending = true;
        (void) pthread_cond_broadcast(&p->has_work);
        (void) pthread_mutex_unlock(&p->mutex);
        do { /* what is done may ask for more work, and that for a thread */
                while (p->n_threads)
                        (void) pthread_join(p->threads[--p->n_threads], NULL);
                finish(p);
        } while (p->n_threads || !list_empty(&p->finished));
        wakeup_free(p->wakeup);
        (void) pthread_mutex_destroy(&p->mutex);
        (void) pthread_cond_destroy(&p->has_work);
        free(p);
        l->pool = NULL;
}
