#include "event/writer.h"

#include <signal.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "event/cond.h"
#include "event/evstore.h"
#include "io/loop.h"

enum writer_state {
        WRITER_IDLE,
        WRITER_WORKING,
        WRITER_DONE, /* a result waits to be taken */
        WRITER_ENDING,
};

struct writer {
        struct evstore *store;
        pthread_t thread;
        bool is_busy; /* the loop thread's own view */

        pthread_mutex_t mutex; /* guards what follows */
        pthread_cond_t changed;
        enum writer_state state;
        struct writer_job job;
        int result;
        struct error err;
        struct wakeup *done; /* NULL: abandoned */
        void (*cleanup)(void *arg);
        void *cleanup_arg;
};

static void destroy(struct writer *w)
{
        (void) pthread_cond_destroy(&w->changed);
        (void) pthread_mutex_destroy(&w->mutex);
        free(w);
}

static int run_job(struct writer *w, const struct writer_job *j, struct error *err)
{
        if (j->trim)
                return evstore_trim(w->store, j->trim, j->upto, err);
        return evstore_commit(w->store, j->ops, j->n, err);
}

/* With the lock: runs the job, without holding the lock meanwhile. */
static void work(struct writer *w)
{
        struct error err = { 0 };
        int r;

        (void) pthread_mutex_unlock(&w->mutex);
        r = run_job(w, &w->job, &err);
        (void) pthread_mutex_lock(&w->mutex);
        w->result = r;
        w->err = err;
        w->state = WRITER_DONE;
        (void) pthread_cond_broadcast(&w->changed);
        if (w->done) /* under the lock, or it could be freed between the question and the call */
                wakeup_fire(w->done);
}

static void *writer_main(void *arg)
{
        struct writer *w = arg;
        bool is_left;

        (void) pthread_mutex_lock(&w->mutex);
        while (w->state != WRITER_ENDING && w->done) {
                if (w->state == WRITER_WORKING)
                        work(w);
                else
                        (void) cond_wait(&w->changed, &w->mutex, -1);
        }
        is_left = !w->done;
        (void) pthread_mutex_unlock(&w->mutex);
        if (is_left) {
                w->cleanup(w->cleanup_arg);
                destroy(w);
        }
        return NULL;
}

/* Signals are the loop thread's business. */
static int start_thread(struct writer *w)
{
        sigset_t all, was;
        int r;

        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &was);
        r = pthread_create(&w->thread, NULL, writer_main, w);
        (void) pthread_sigmask(SIG_SETMASK, &was, NULL);
        return r;
}

int writer_new(struct evstore *st, struct wakeup *done, struct writer **ret, struct error *err)
{
        struct writer *w = NEW(struct writer);
        int r;

        w->store = st;
        w->done = done;
        (void) pthread_mutex_init(&w->mutex, NULL);
        cond_init(&w->changed);
        r = start_thread(w);
        if (r != 0) {
                destroy(w);
                return error_set(err, ERR_SYSTEM, r, "start the store's writer thread");
        }
        *ret = w;
        return 0;
}

bool writer_is_busy(const struct writer *w)
{
        return w->is_busy;
}

void writer_start(struct writer *w, const struct writer_job *job)
{
        (void) pthread_mutex_lock(&w->mutex);
        w->job = *job;
        w->state = WRITER_WORKING;
        (void) pthread_cond_broadcast(&w->changed);
        (void) pthread_mutex_unlock(&w->mutex);
        w->is_busy = true;
}

bool writer_take(struct writer *w, int *ret, struct error *err)
{
        bool is_done;

        (void) pthread_mutex_lock(&w->mutex);
        is_done = w->state == WRITER_DONE;
        if (is_done) {
                *ret = w->result;
                *err = w->err;
                w->state = WRITER_IDLE;
                w->is_busy = false;
        }
        (void) pthread_mutex_unlock(&w->mutex);
        return is_done;
}

bool writer_wait(struct writer *w, int64_t deadline_us)
{
        bool is_done;

        (void) pthread_mutex_lock(&w->mutex);
        while (w->state == WRITER_WORKING && cond_wait(&w->changed, &w->mutex, deadline_us))
                continue;
        is_done = w->state != WRITER_WORKING;
        (void) pthread_mutex_unlock(&w->mutex);
        return is_done;
}

struct writer *writer_free(struct writer *w)
{
        if (!w)
                return NULL;
        (void) pthread_mutex_lock(&w->mutex);
        w->state = WRITER_ENDING;
        (void) pthread_cond_broadcast(&w->changed);
        (void) pthread_mutex_unlock(&w->mutex);
        (void) pthread_join(w->thread, NULL);
        destroy(w);
        return NULL;
}

void writer_abandon(struct writer *w, void (*cleanup)(void *arg), void *arg)
{
        (void) pthread_detach(w->thread);
        (void) pthread_mutex_lock(&w->mutex);
        w->cleanup = cleanup;
        w->cleanup_arg = arg;
        w->done = NULL;
        (void) pthread_cond_broadcast(&w->changed);
        (void) pthread_mutex_unlock(&w->mutex);
}
