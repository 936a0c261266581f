#include "io/job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/chunkq.h"
#include "io/loop_impl.h"

enum {
        JOB_STACK_BYTES = 512 * 1024,
        JOB_PIECE_BYTES = 64 * 1024, /* job_emit() cuts longer blocks */
        JOB_CHANNEL_CHUNKS = 4096,   /* many tiny chunks cost more than their bytes */
};

/* What both threads see stands behind the mutex. The loop side is only ever entered through the
 * wake-up, so no callback comes from inside a call of the owner. The job is freed when the thread
 * has left, was joined, and the owner has been told. */
struct job {
        struct loop *loop;
        struct list node; /* loop->jobs */
        struct job_spec spec;
        void *arg;
        struct wakeup *wakeup;
        pthread_t thread;
        int cancel_fd;
        bool is_paused; /* the loop's own */

        pthread_mutex_t mutex;
        pthread_cond_t changed; /* for the thread, which waits in emit or take */
        struct chunkq in, out;
        bool is_cancelled, has_left, is_fed, wants_room;
        int result;
        struct error why;
};

static bool is_over(const struct chunkq *q)
{
        return q->bytes >= JOB_CHANNEL_BYTES || q->n >= JOB_CHANNEL_CHUNKS;
}

/* The other side is woken at half, not at every chunk. */
static bool is_low(const struct chunkq *q)
{
        return q->bytes <= JOB_CHANNEL_BYTES / 2 && q->n <= JOB_CHANNEL_CHUNKS / 2;
}

static struct chunk *shift(struct chunkq *q)
{
        struct chunk *c;

        if (!q->n)
                return NULL;
        c = chunk_ref(q->at[q->head]);
        chunkq_drop(q, c->len);
        return c;
}

/* ---- the loop's side ---- */

static struct chunk *next_out(struct job *j)
{
        struct chunk *c = NULL;

        (void) pthread_mutex_lock(&j->mutex);
        if (!j->is_cancelled && !j->is_paused)
                c = shift(&j->out);
        if (c && is_low(&j->out))
                (void) pthread_cond_signal(&j->changed);
        (void) pthread_mutex_unlock(&j->mutex);
        return c;
}

/* At most one channel full per turn: the thread may be as fast as we are. */
static void deliver(struct job *j)
{
        struct chunk *c;
        size_t bytes = 0;

        while (bytes < JOB_CHANNEL_BYTES && (c = next_out(j))) {
                bytes += c->len;
                if (j->spec.on_data)
                        j->spec.on_data(j->arg, c);
                chunk_unref(c);
        }
        if (bytes >= JOB_CHANNEL_BYTES)
                wakeup_fire(j->wakeup);
}

static void tell_room(struct job *j)
{
        bool is_due;

        (void) pthread_mutex_lock(&j->mutex);
        is_due = j->wants_room && is_low(&j->in) && !j->is_cancelled && !j->has_left;
        if (is_due)
                j->wants_room = false;
        (void) pthread_mutex_unlock(&j->mutex);
        if (is_due && j->spec.on_room)
                j->spec.on_room(j->arg);
}

static bool is_done(struct job *j)
{
        bool is;

        (void) pthread_mutex_lock(&j->mutex);
        is = j->has_left && (j->is_cancelled || !j->out.n);
        (void) pthread_mutex_unlock(&j->mutex);
        return is;
}

static void destroy(struct job *j)
{
        wakeup_free(j->wakeup);
        (void) pthread_mutex_destroy(&j->mutex);
        (void) pthread_cond_destroy(&j->changed);
        chunkq_done(&j->in);
        chunkq_done(&j->out);
        closep(&j->cancel_fd);
        loop_free_later(j->loop, j);
}

/* Waits for the thread: it has left run(), or was cancelled because the loop goes. */
static void finish(struct job *j)
{
        (void) pthread_join(j->thread, NULL);
        list_remove(&j->node);
        j->loop->n_jobs--;
        j->spec.on_done(j->arg, j->result < 0 ? &j->why : NULL);
        destroy(j);
}

static void on_wakeup(void *arg)
{
        struct job *j = arg;

        deliver(j);
        tell_room(j);
        if (is_done(j))
                finish(j);
}

void loop_jobs_end(struct loop *l)
{
        list_for_each (n, &l->jobs) {
                job_cancel(LIST_ENTRY(n, struct job, node));
        }
        while (!list_empty(&l->jobs))
                finish(LIST_ENTRY(l->jobs.next, struct job, node));
}

/* ---- life ---- */

static void *thread_main(void *arg)
{
        struct job *j = arg;
        struct error why = { 0 };
        int result = j->spec.run(j, j->arg, &why);

        (void) pthread_mutex_lock(&j->mutex);
        j->result = result;
        j->why = why;
        j->has_left = true;
        (void) pthread_mutex_unlock(&j->mutex);
        wakeup_fire(j->wakeup);
        return NULL;
}

/* Signals are the loop's: the thread is born with all of them blocked. */
static int start_thread(struct job *j)
{
        pthread_attr_t attr;
        sigset_t all, was;
        int why;

        (void) sigfillset(&all);
        (void) pthread_attr_init(&attr);
        (void) pthread_attr_setstacksize(&attr, JOB_STACK_BYTES);
        (void) pthread_sigmask(SIG_SETMASK, &all, &was);
        why = pthread_create(&j->thread, &attr, thread_main, j);
        (void) pthread_sigmask(SIG_SETMASK, &was, NULL);
        (void) pthread_attr_destroy(&attr);
        return why;
}

static struct job *job_new(struct loop *l, const struct job_spec *spec, void *arg, int cancel_fd)
{
        struct job *j = NEW(struct job);

        j->loop = l;
        j->spec = *spec;
        j->arg = arg;
        j->cancel_fd = cancel_fd;
        list_init(&j->node);
        (void) pthread_mutex_init(&j->mutex, NULL);
        (void) pthread_cond_init(&j->changed, NULL);
        j->wakeup = wakeup_new(l, on_wakeup, j);
        return j;
}

int job_start(struct loop *l, const struct job_spec *spec, void *arg, struct job **ret,
              struct error *err)
{
        struct job *j;
        int cancel_fd, why;

        if (l->n_jobs >= JOB_MAX || l->is_closing)
                return error_set(err, ERR_BUSY, 0, "%u long operations are under way already",
                                 l->n_jobs);
        cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (cancel_fd < 0)
                return error_set(err, ERR_BUSY, errno, "start a long operation");
        j = job_new(l, spec, arg, cancel_fd);
        why = start_thread(j);
        if (why) {
                destroy(j);
                return error_set(err, ERR_BUSY, why, "start a thread for a long operation");
        }
        list_push(&l->jobs, &j->node);
        l->n_jobs++;
        *ret = j;
        return 0;
}

/* ---- the owner ---- */

int job_feed(struct job *j, struct chunk *c)
{
        int room = -1;

        (void) pthread_mutex_lock(&j->mutex);
        if (!j->is_cancelled && !j->has_left && !j->is_fed) {
                if (c->len)
                        chunkq_push(&j->in, c);
                room = !is_over(&j->in);
                j->wants_room |= !room;
                (void) pthread_cond_signal(&j->changed);
        }
        (void) pthread_mutex_unlock(&j->mutex);
        return room;
}

void job_feed_end(struct job *j)
{
        (void) pthread_mutex_lock(&j->mutex);
        j->is_fed = true;
        (void) pthread_cond_signal(&j->changed);
        (void) pthread_mutex_unlock(&j->mutex);
}

void job_pause(struct job *j, bool on)
{
        j->is_paused = on;
        if (!on)
                wakeup_fire(j->wakeup);
}

void job_cancel(struct job *j)
{
        static const uint64_t one = 1;

        (void) pthread_mutex_lock(&j->mutex);
        j->is_cancelled = true;
        (void) pthread_cond_signal(&j->changed);
        (void) pthread_mutex_unlock(&j->mutex);
        (void) !write(j->cancel_fd, &one, sizeof(one)); /* once is enough, twice does no harm */
        wakeup_fire(j->wakeup); /* the thread may have left while on_data was paused */
}

/* ---- the thread ---- */

static int cancelled(struct error *err)
{
        return error_set(err, ERR_UPSTREAM, 0, "nobody waits for the result any more");
}

int job_emit_chunk(struct job *j, struct chunk *c, struct error *err)
{
        bool was_empty, is_cancelled;

        (void) pthread_mutex_lock(&j->mutex);
        while (!j->is_cancelled && is_over(&j->out))
                (void) pthread_cond_wait(&j->changed, &j->mutex);
        is_cancelled = j->is_cancelled;
        was_empty = !j->out.n;
        if (!is_cancelled && c->len)
                chunkq_push(&j->out, c);
        (void) pthread_mutex_unlock(&j->mutex);
        if (is_cancelled)
                return cancelled(err);
        if (was_empty)
                wakeup_fire(j->wakeup);
        return 0;
}

int job_emit(struct job *j, const void *data, size_t len, struct error *err)
{
        const char *at = data;

        while (len) {
                size_t n = MIN(len, (size_t) JOB_PIECE_BYTES);
                _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(at, n);

                if (job_emit_chunk(j, c, err) < 0)
                        return -1;
                at += n;
                len -= n;
        }
        return job_is_cancelled(j) ? cancelled(err) : 0;
}

int job_take(struct job *j, struct chunk **ret, struct error *err)
{
        struct chunk *c = NULL;
        bool is_cancelled, has_room;

        (void) pthread_mutex_lock(&j->mutex);
        while (!j->is_cancelled && !j->is_fed && !j->in.n)
                (void) pthread_cond_wait(&j->changed, &j->mutex);
        is_cancelled = j->is_cancelled;
        if (!is_cancelled)
                c = shift(&j->in);
        has_room = j->wants_room && is_low(&j->in);
        (void) pthread_mutex_unlock(&j->mutex);
        if (is_cancelled)
                return cancelled(err);
        if (has_room)
                wakeup_fire(j->wakeup);
        *ret = c;
        return 0;
}

bool job_is_cancelled(struct job *j)
{
        bool is;

        (void) pthread_mutex_lock(&j->mutex);
        is = j->is_cancelled;
        (void) pthread_mutex_unlock(&j->mutex);
        return is;
}

int job_cancel_fd(struct job *j)
{
        return j->cancel_fd;
}
