#include "event/evstore.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "event/cond.h"

struct evstore {
        const struct store_ops *ops;
        void *h;
        atomic_uint refs;

        pthread_mutex_t mutex; /* guards what follows */
        pthread_cond_t left;   /* a reader has left */
        size_t n_reading;
        bool is_shut;   /* nobody enters any more */
        bool is_orphan; /* evstore_shut() has gone: the last reader closes */
};

int evstore_new(const struct store_ops *ops, const char *dsn, struct evstore **ret,
                struct error *err)
{
        struct evstore *st;
        void *h;

        if (ops->open(dsn, &h, err) < 0)
                return -1;
        st = NEW(struct evstore);
        st->ops = ops;
        st->h = h;
        atomic_init(&st->refs, 1);
        (void) pthread_mutex_init(&st->mutex, NULL);
        cond_init(&st->left);
        *ret = st;
        return 0;
}

struct evstore *evstore_ref(struct evstore *st)
{
        atomic_fetch_add(&st->refs, 1);
        return st;
}

struct evstore *evstore_unref(struct evstore *st)
{
        if (!st || atomic_fetch_sub(&st->refs, 1) != 1)
                return NULL;
        (void) pthread_cond_destroy(&st->left);
        (void) pthread_mutex_destroy(&st->mutex);
        free(st);
        return NULL;
}

void evstore_shut(struct evstore *st, int64_t deadline_us)
{
        bool is_empty;

        (void) pthread_mutex_lock(&st->mutex);
        st->is_shut = true;
        while (st->n_reading > 0 && cond_wait(&st->left, &st->mutex, deadline_us))
                continue;
        is_empty = st->n_reading == 0;
        st->is_orphan = !is_empty;
        (void) pthread_mutex_unlock(&st->mutex);
        if (is_empty)
                st->ops->close(st->h);
}

static bool enter(struct evstore *st)
{
        bool may_enter;

        (void) pthread_mutex_lock(&st->mutex);
        may_enter = !st->is_shut;
        st->n_reading += may_enter;
        (void) pthread_mutex_unlock(&st->mutex);
        return may_enter;
}

static void leave(struct evstore *st)
{
        bool must_close;

        (void) pthread_mutex_lock(&st->mutex);
        st->n_reading--;
        must_close = st->is_orphan && st->n_reading == 0;
        (void) pthread_cond_signal(&st->left);
        (void) pthread_mutex_unlock(&st->mutex);
        if (must_close)
                st->ops->close(st->h);
}

int evstore_events(struct evstore *st, const char *topic, uint64_t after, struct event *ret,
                   size_t max, struct error *err)
{
        int r;

        if (!enter(st))
                return error_set(err, ERR_BUSY, 0, "the event log is closed");
        r = st->ops->events(st->h, topic, after, ret, max, err);
        leave(st);
        return r;
}

int evstore_commit(struct evstore *st, const struct store_op *ops, size_t n, struct error *err)
{
        return st->ops->commit(st->h, ops, n, err);
}

int evstore_trim(struct evstore *st, const char *topic, uint64_t upto, struct error *err)
{
        return st->ops->trim(st->h, topic, upto, err);
}

int evstore_range(struct evstore *st, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                  struct error *err)
{
        return st->ops->range(st->h, topic, ret_first, ret_last, err);
}

int evstore_docs(struct evstore *st, const char *prefix,
                 int (*row)(void *arg, const char *key, const char *doc, size_t len), void *arg,
                 struct error *err)
{
        return st->ops->docs(st->h, prefix, row, arg, err);
}
