#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "event/evlog_impl.h"

enum { TAIL_FIRST_CAP = 8 };

static void tail_drop(struct topic *t)
{
        struct event *e = &t->tail[t->head];

        t->tail_bytes -= e->body->len;
        chunk_unref(e->body);
        t->head = (t->head + 1) & (t->cap - 1);
        t->n--;
}

static void tail_clear(struct topic *t)
{
        while (t->n > 0)
                tail_drop(t);
        free(t->tail);
        t->tail = NULL;
        t->cap = t->head = 0;
}

static void tail_grow(struct topic *t)
{
        uint32_t cap = t->cap ? t->cap * 2 : TAIL_FIRST_CAP;
        struct event *tail = xcalloc(cap, sizeof(*tail));

        for (uint32_t i = 0; i < t->n; i++)
                tail[i] = t->tail[(t->head + i) & (t->cap - 1)];
        free(t->tail);
        t->tail = tail;
        t->cap = cap;
        t->head = 0;
}

/* An event larger than the whole tail is still kept until the next one comes. */
static void tail_push(struct topic *t, const struct event *e)
{
        while (t->n > 0 &&
               (t->n == EVLOG_TAIL_EVENTS || t->tail_bytes + e->body->len > EVLOG_TAIL_BYTES))
                tail_drop(t);
        if (t->n == t->cap)
                tail_grow(t);
        t->tail[(t->head + t->n) & (t->cap - 1)] = *e;
        chunk_ref(e->body);
        t->tail_bytes += e->body->len;
        t->n++;
}

const struct event *topic_tail(const struct topic *t, uint64_t seq)
{
        uint64_t first = t->visible - t->n + 1;

        if (seq < first || seq > t->visible)
                return NULL;
        return &t->tail[(t->head + (uint32_t) (seq - first)) & (t->cap - 1)];
}

void topic_publish(struct topic *t, const struct event *e)
{
        t->visible = e->seq;
        if (!list_empty(&t->subs))
                tail_push(t, e);
}

static void topic_free(struct topic *t)
{
        list_remove(&t->idle);
        list_remove(&t->stirred);
        tail_clear(t);
        free(t);
}

static struct topic *topic_new(const char *name, uint64_t first, uint64_t last)
{
        size_t len = strlen(name) + 1;
        struct topic *t = xcalloc(1, sizeof(*t) + len);

        list_init(&t->subs);
        list_init(&t->idle);
        list_init(&t->stirred);
        t->trimmed = first ? first - 1 : 0;
        t->visible = t->last = last;
        memcpy(t->name, name, len);
        return t;
}

/* Nobody listens and nothing is pending: remembered for a while, so that a topic written now and
 * then is not looked up in the store each time, and forgotten in the order it fell silent. */
static void idle_add(struct evlog *log, struct topic *t)
{
        list_push(&log->idle, &t->idle);
        if (++log->n_idle <= EVLOG_IDLE_TOPICS)
                return;
        t = LIST_ENTRY(log->idle.next, struct topic, idle);
        (void) map_del(&log->topics, t->name);
        topic_free(t);
        log->n_idle--;
}

void topic_settle(struct evlog *log, struct topic *t)
{
        bool was_idle = !list_empty(&t->idle);
        bool is_idle = t->n_pins == 0 && list_empty(&t->subs);

        if (list_empty(&t->subs))
                tail_clear(t); /* nothing is pushed from now on: a stale tail would lie */
        if (is_idle && !was_idle)
                idle_add(log, t);
        if (!is_idle && was_idle) {
                list_remove(&t->idle);
                log->n_idle--;
        }
}

struct topic *topic_get(struct evlog *log, const char *name, struct error *err)
{
        struct topic *t = map_get(&log->topics, name);
        uint64_t first, last;
        size_t len;

        if (t)
                return t;
        len = strnlen(name, STORE_KEY_MAX + 1);
        if (len == 0 || len > STORE_KEY_MAX) {
                error_set(err, ERR_INVALID, 0, "topic names have 1 to %d bytes", STORE_KEY_MAX);
                return NULL;
        }
        if (evstore_range(log->store, name, &first, &last, err) < 0) {
                error_wrap(err, "look up topic '%s'", name);
                return NULL;
        }
        t = topic_new(name, first, last);
        (void) map_set(&log->topics, name, t);
        topic_settle(log, t);
        return t;
}

void topic_pin(struct evlog *log, struct topic *t)
{
        t->n_pins++;
        topic_settle(log, t);
}

void topic_unpin(struct evlog *log, struct topic *t)
{
        t->n_pins--;
        topic_settle(log, t);
}

void topics_done(struct map *topics)
{
        void *value;

        for (size_t it = 0; (it = map_next(topics, it, NULL, &value));)
                topic_free(value);
        map_done(topics);
}
