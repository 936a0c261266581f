/* The store without a disk: same contract, same order, same refusals. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/map.h"
#include "base/str.h"
#include "store/store.h"

/* Events trimmed + 1 … trimmed + n, in an array. */
struct memory_topic {
        uint64_t trimmed;
        struct event *events;
        size_t n, cap;
};

struct memory_store {
        pthread_mutex_t mutex;
        struct map topics; /* name → struct memory_topic */
        struct map docs;   /* key → struct chunk */
};

static int memory_open(const char *dsn, void **ret, struct error *err)
{
        struct memory_store *s = NEW(struct memory_store);

        (void) pthread_mutex_init(&s->mutex, NULL);
        (void) map_get(&s->docs,
                       ""); /* the map draws its seed on first use: here, with one thread */
        *ret = s;
        return 0;
}

static void topic_free(struct memory_topic *t)
{
        for (size_t i = 0; i < t->n; i++)
                chunk_unref(t->events[i].body);
        free(t->events);
        free(t);
}

static void memory_close(void *h)
{
        struct memory_store *s = h;
        void *value;

        if (!s)
                return;
        for (size_t it = 0; (it = map_next(&s->topics, it, NULL, &value));)
                topic_free(value);
        for (size_t it = 0; (it = map_next(&s->docs, it, NULL, &value));)
                chunk_unref(value);
        map_done(&s->topics);
        map_done(&s->docs);
        (void) pthread_mutex_destroy(&s->mutex);
        free(s);
}

/* Writing */

static struct memory_topic *topic_use(struct memory_store *s, const char *name)
{
        struct memory_topic *t = map_get(&s->topics, name);

        if (!t) {
                t = NEW(struct memory_topic);
                (void) map_set(&s->topics, name, t);
        }
        return t;
}

static int topic_push(struct memory_store *s, const char *name, const struct event *e, uint64_t seq,
                      struct error *err)
{
        struct memory_topic *t = topic_use(s, name);
        uint64_t next = t->trimmed + t->n + 1;

        if (seq != next)
                return error_set(err, ERR_CONFLICT, 0,
                                 "store: event %" PRIu64 " of topic '%s' where %" PRIu64
                                 " comes next",
                                 seq, name, next);
        if (t->n == t->cap) {
                t->cap = t->cap ? t->cap * 2 : 16;
                t->events = xrealloc(t->events, t->cap * sizeof(*t->events));
        }
        t->events[t->n] = *e;
        t->events[t->n].seq = seq;
        chunk_ref(t->events[t->n++].body);
        return 0;
}

static void topic_pop(struct memory_store *s, const char *name)
{
        struct memory_topic *t = map_get(&s->topics, name);

        chunk_unref(t->events[--t->n].body);
}

static int add_event(struct memory_store *s, const struct store_op *op, struct error *err)
{
        if (topic_push(s, op->key, &op->ev, op->ev.seq, err) < 0)
                return -1;
        if (!op->also || topic_push(s, op->also, &op->ev, op->also_seq, err) == 0)
                return 0;
        topic_pop(s, op->key);
        return -1;
}

static void drop_event(struct memory_store *s, const struct store_op *op)
{
        if (op->also)
                topic_pop(s, op->also);
        topic_pop(s, op->key);
}

/* Adds the events and returns how many operations it came through; n when all fit. */
static size_t add_events(struct memory_store *s, const struct store_op *ops, size_t n,
                         struct error *err)
{
        for (size_t i = 0; i < n; i++)
                if (ops[i].op == OP_EVENT && add_event(s, &ops[i], err) < 0)
                        return i;
        return n;
}

static void apply_doc(struct memory_store *s, const struct store_op *op)
{
        if (op->op == OP_PUT)
                chunk_unref(map_set(&s->docs, op->key, chunk_ref(op->doc)));
        else if (op->op == OP_DEL)
                chunk_unref(map_del(&s->docs, op->key));
}

/* Events go first and are taken back when one does not fit: nothing else has changed by then. */
static int memory_commit(void *h, const struct store_op *ops, size_t n, struct error *err)
{
        struct memory_store *s = h;
        size_t done;

        (void) pthread_mutex_lock(&s->mutex);
        done = add_events(s, ops, n, err);
        if (done == n)
                for (size_t i = 0; i < n; i++)
                        apply_doc(s, &ops[i]);
        else
                for (size_t i = done; i-- > 0;)
                        if (ops[i].op == OP_EVENT)
                                drop_event(s, &ops[i]);
        (void) pthread_mutex_unlock(&s->mutex);
        return done == n ? 0 : -1;
}

static int memory_trim(void *h, const char *topic, uint64_t upto, struct error *err)
{
        struct memory_store *s = h;
        struct memory_topic *t;
        size_t k;

        (void) pthread_mutex_lock(&s->mutex);
        t = map_get(&s->topics, topic);
        if (t && upto > t->trimmed) {
                k = (size_t) MIN(upto - t->trimmed, t->n);
                for (size_t i = 0; i < k; i++)
                        chunk_unref(t->events[i].body);
                memmove(t->events, t->events + k, (t->n - k) * sizeof(*t->events));
                t->n -= k;
                t->trimmed += k;
        }
        (void) pthread_mutex_unlock(&s->mutex);
        return 0;
}

/* Reading */

static int memory_events(void *h, const char *topic, uint64_t after, struct event *ret, size_t max,
                         struct error *err)
{
        struct memory_store *s = h;
        const struct memory_topic *t;
        size_t n = 0, bytes = 0, i;

        (void) pthread_mutex_lock(&s->mutex);
        t = map_get(&s->topics, topic);
        i = t && after > t->trimmed ? (size_t) MIN(after - t->trimmed, t->n) : 0;
        for (; t && i < t->n && n < max && bytes < STORE_PAGE_BYTES; i++) {
                ret[n] = t->events[i];
                bytes += chunk_ref(ret[n++].body)->len;
        }
        (void) pthread_mutex_unlock(&s->mutex);
        return (int) n;
}

static int memory_range(void *h, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                        struct error *err)
{
        struct memory_store *s = h;
        const struct memory_topic *t;

        (void) pthread_mutex_lock(&s->mutex);
        t = map_get(&s->topics, topic);
        *ret_last = t ? t->trimmed + t->n : 0;
        *ret_first = *ret_last ? t->trimmed + 1 : 0;
        (void) pthread_mutex_unlock(&s->mutex);
        return 0;
}

struct doc {
        char *key;
        struct chunk *doc;
};

static int by_key(const void *a, const void *b)
{
        return strcmp(((const struct doc *) a)->key, ((const struct doc *) b)->key);
}

/* A copy of what matches, so that row() runs without the lock. */
static struct doc *collect_docs(struct memory_store *s, const char *prefix, size_t *ret_n)
{
        struct doc *docs = xcalloc(s->docs.n + 1, sizeof(*docs));
        const char *key;
        void *value;
        size_t n = 0;

        for (size_t it = 0; (it = map_next(&s->docs, it, &key, &value));)
                if (str_starts(key, prefix))
                        docs[n++] = (struct doc) { xstrdup(key), chunk_ref(value) };
        qsort(docs, n, sizeof(*docs), by_key);
        *ret_n = n;
        return docs;
}

static int memory_docs(void *h, const char *prefix,
                       int (*row)(void *arg, const char *key, const char *doc, size_t len),
                       void *arg, struct error *err)
{
        struct memory_store *s = h;
        struct doc *docs;
        size_t n;
        int r = 0;

        (void) pthread_mutex_lock(&s->mutex);
        docs = collect_docs(s, prefix, &n);
        (void) pthread_mutex_unlock(&s->mutex);
        for (size_t i = 0; i < n; i++) {
                if (r >= 0)
                        r = row(arg, docs[i].key, docs[i].doc->data, docs[i].doc->len);
                free(docs[i].key);
                chunk_unref(docs[i].doc);
        }
        free(docs);
        return MIN(r, 0);
}

const struct store_ops store_memory = {
        .name = "memory",
        .open = memory_open,
        .commit = memory_commit,
        .events = memory_events,
        .range = memory_range,
        .docs = memory_docs,
        .trim = memory_trim,
        .close = memory_close,
};
