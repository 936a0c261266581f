/* The cursor: what it pulls from, and the pages it reads when the tail no longer goes back far
 * enough. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "event/evlog_impl.h"

/* One read of the store. It belongs to its cursor, or to nobody once that is gone: the pool thread
 * cannot be called back, so the page frees itself when it is done. */
struct page {
        struct evsub *sub; /* NULL: the cursor is gone */
        struct evstore *store;
        uint64_t after;
        int n; /* events, or -1 with err */
        int at;
        struct error err;
        struct event events[EVLOG_PAGE_EVENTS];
        char topic[];
};

static struct page *page_free(struct page *p)
{
        if (!p)
                return NULL;
        for (; p->at < p->n; p->at++)
                chunk_unref(p->events[p->at].body);
        evstore_unref(p->store);
        free(p);
        return NULL;
}

static void page_run(void *arg)
{
        struct page *p = arg;

        p->n = evstore_events(p->store, p->topic, p->after, p->events, EVLOG_PAGE_EVENTS, &p->err);
}

/* The cursor asked for an event that was visible: if it is not there, it has been removed since. */
static void page_check(struct page *p)
{
        if (p->n < 0 || (p->n > 0 && p->events[0].seq == p->after + 1))
                return;
        error_set(&p->err, ERR_NOT_FOUND, 0, "event %" PRIu64 " of topic '%s' is no longer kept",
                  p->after + 1, p->topic);
}

static void page_done(void *arg)
{
        struct page *p = arg;
        struct evsub *s = p->sub;

        if (!s) {
                page_free(p);
                return;
        }
        s->reading = NULL;
        page_check(p);
        if (p->err.kind != ERR_OK) {
                s->over = NEW(struct error);
                *s->over = p->err;
                p = page_free(p);
        }
        s->page = p;
        evsub_stir(s);
}

static void page_start(struct evsub *s)
{
        size_t len = strlen(s->topic->name) + 1;
        struct page *p = xmalloc(sizeof(*p) + len);

        memset(p, 0, offsetof(struct page, events));
        p->sub = s;
        p->store = evstore_ref(s->log->store);
        p->after = s->after;
        memcpy(p->topic, s->topic->name, len);
        s->reading = p;
        loop_work(s->log->loop, page_run, page_done, p);
}

int evlog_subscribe(struct evlog *log, const char *topic, uint64_t after, void (*wake)(void *arg),
                    void *arg, struct evsub **ret, struct error *err)
{
        struct topic *t = topic_get(log, topic, err);
        struct evsub *s;

        if (!t)
                return -1;
        if (after < t->trimmed)
                return error_set(err, ERR_NOT_FOUND, 0,
                                 "event %" PRIu64 " of topic '%s' is no longer kept", after + 1,
                                 topic);
        s = NEW(struct evsub);
        s->log = log;
        s->topic = t;
        s->after = MIN(after, t->visible);
        s->wake = wake;
        s->arg = arg;
        s->is_waiting = true;
        list_init(&s->wake_node);
        list_push(&t->subs, &s->node);
        topic_settle(log, t);
        if (s->after < t->visible)
                evsub_stir(s);
        *ret = s;
        return 0;
}

void evsub_stir(struct evsub *s)
{
        if (!s->log || !s->is_waiting || !list_empty(&s->wake_node))
                return;
        s->is_waiting = false;
        list_push(&s->log->wakes, &s->wake_node);
        loop_defer(s->log->loop, &s->log->dispatch);
}

/* The next event of the page, whose reference moves to the caller. */
static bool take_from_page(struct evsub *s)
{
        struct page *p = s->page;

        if (!p)
                return false;
        s->current = p->events[p->at++];
        if (p->at == p->n)
                s->page = page_free(p);
        return true;
}

static bool take_from_tail(struct evsub *s)
{
        const struct event *e = topic_tail(s->topic, s->after + 1);

        if (!e)
                return false;
        s->current = *e;
        chunk_ref(e->body);
        return true;
}

int evsub_next(struct evsub *s, const struct event **ret, struct error *err)
{
        s->current.body = chunk_unref(s->current.body);
        if (!s->log)
                return error_set(err, ERR_BUSY, 0, "the event log is closed");
        if (s->over) {
                if (err)
                        *err = *s->over;
                return -1;
        }
        if (take_from_page(s) || take_from_tail(s)) {
                s->after = s->current.seq;
                *ret = &s->current;
                return 1;
        }
        s->is_waiting = true;
        if (s->after < s->topic->visible && !s->reading)
                page_start(s);
        return 0;
}

/* The log goes first: what is left of the cursor can only be freed. */
void evsub_orphan(struct evsub *s)
{
        list_remove(&s->node);
        list_remove(&s->wake_node);
        if (s->reading)
                s->reading->sub = NULL;
        s->reading = NULL;
        s->page = page_free(s->page);
        s->log = NULL;
        s->topic = NULL;
}

struct evsub *evsub_free(struct evsub *s)
{
        struct evlog *log;
        struct topic *t;

        if (!s)
                return NULL;
        log = s->log;
        t = s->topic;
        if (log) {
                evsub_orphan(s);
                topic_settle(log, t);
        }
        chunk_unref(s->current.body);
        free(s->over);
        free(s);
        return NULL;
}
