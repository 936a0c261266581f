#include "event/evlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "event/evlog_impl.h"

/* Callbacks */

void evlog_owe(struct evlog *log, evlog_done *fn, void *arg, const struct error *why)
{
        struct due *d = NEW(struct due);

        d->fn = fn;
        d->arg = arg;
        if (why) {
                d->why = NEW(struct error);
                *d->why = *why;
        }
        list_push(&log->due, &d->node);
        loop_defer(log->loop, &log->dispatch);
}

/* Calls the first one that is owed. `why`, if not NULL, is the reason for those without one. */
static void due_call(struct list *due, const struct error *why)
{
        struct due *d = LIST_ENTRY(due->next, struct due, node);

        list_remove(&d->node);
        d->fn(d->arg, d->why ?: why);
        free(d->why);
        free(d);
}

static void call_wakes(struct evlog *log)
{
        struct list wakes;

        list_init(&wakes);
        list_splice(&wakes, &log->wakes);
        while (!list_empty(&wakes)) {
                struct evsub *s = LIST_ENTRY(wakes.next, struct evsub, wake_node);

                list_remove(&s->wake_node);
                s->wake(s->arg);
        }
}

static void rooms_sweep(struct evlog *log)
{
        list_for_each_safe (n, tmp, &log->rooms) {
                struct room *r = LIST_ENTRY(n, struct room, node);

                if (r->fn)
                        continue;
                list_remove(n);
                free(r);
        }
}

static void call_rooms(struct evlog *log)
{
        if (!log->is_room_due)
                return;
        log->is_room_due = false;
        log->is_calling_rooms = true;
        list_for_each (n, &log->rooms) {
                const struct room *r = LIST_ENTRY(n, struct room, node);

                if (r->fn)
                        r->fn(r->arg);
        }
        log->is_calling_rooms = false;
        rooms_sweep(log);
}

/* A callback may free the log: its memory stays until the iteration ends, its lists are empty. */
static void on_dispatch(struct task *t)
{
        struct evlog *log = CONTAINER_OF(t, struct evlog, dispatch);

        while (!list_empty(&log->due))
                due_call(&log->due, NULL);
        call_wakes(log);
        call_rooms(log);
}

/* Life */

static void on_kick(struct task *t)
{
        commit_schedule(CONTAINER_OF(t, struct evlog, kick));
}

static void on_retry(struct timer *t)
{
        commit_schedule(CONTAINER_OF(t, struct evlog, retry));
}

static void on_written(void *arg)
{
        commit_finish(arg);
        commit_schedule(arg);
}

static void log_init(struct evlog *log, struct loop *l)
{
        log->loop = l;
        log->retry_ms = EVLOG_RETRY_MS;
        task_init(&log->kick, on_kick);
        task_init(&log->dispatch, on_dispatch);
        timer_init(&log->retry, l, on_retry);
        batch_init(&log->gather);
        batch_init(&log->commit);
        list_init(&log->idle);
        list_init(&log->trims);
        list_init(&log->due);
        list_init(&log->wakes);
        list_init(&log->rooms);
}

/* What the writer thread may still use when the log goes. */
struct remains {
        struct evstore *store;
        struct batch gather, commit;
        struct trim *trimming;
        struct map topics;
        int64_t deadline_us;
};

static struct remains *remains_new(const struct evlog *log)
{
        struct remains *r = NEW(struct remains);

        *r = (struct remains) {
                .store = log->store,
                .gather = log->gather,
                .commit = log->commit,
                .trimming = log->trimming,
                .topics = log->topics,
                .deadline_us = log->deadline_us,
        };
        return r;
}

/* On the writer thread when that was left behind. */
static void remains_free(void *arg)
{
        struct remains *r = arg;

        if (r->store)
                evstore_shut(r->store, r->deadline_us);
        evstore_unref(r->store);
        batch_done(&r->gather);
        batch_done(&r->commit);
        topics_done(&r->topics);
        free(r->trimming);
        free(r);
}

int evlog_new(struct loop *l, const struct store_ops *ops, const char *dsn, struct evlog **ret,
              struct error *err)
{
        struct evlog *log = NEW(struct evlog);

        log_init(log, l);
        (void) map_get(&log->topics, ""); /* draws the maps' seed before there are two threads */
        log->written = wakeup_new(l, on_written, log);
        if (evstore_new(ops, dsn, &log->store, err) < 0 ||
            writer_new(log->store, log->written, &log->writer, err) < 0) {
                wakeup_free(log->written);
                remains_free(remains_new(log));
                free(log);
                return -1;
        }
        *ret = log;
        return 0;
}

static void orphan_subs(struct evlog *log)
{
        void *value;

        for (size_t it = 0; (it = map_next(&log->topics, it, NULL, &value));) {
                struct topic *t = value;

                while (!list_empty(&t->subs))
                        evsub_orphan(LIST_ENTRY(t->subs.next, struct evsub, node));
        }
}

/* What is owed when the log goes: good news that was not told yet, then the reason for the rest. */
static void settle_debts(struct evlog *log, const struct error *why)
{
        struct list bad;

        while (!list_empty(&log->due))
                due_call(&log->due, NULL);
        list_init(&bad);
        list_splice(&bad, &log->commit.barriers);
        list_splice(&bad, &log->gather.barriers);
        while (!list_empty(&bad))
                due_call(&bad, why);
        if (log->trimming && log->trimming->fn)
                log->trimming->fn(log->trimming->arg, why);
        while (!list_empty(&log->trims)) {
                struct trim *t = LIST_ENTRY(log->trims.next, struct trim, node);

                list_remove(&t->node);
                if (t->fn)
                        t->fn(t->arg, why);
                free(t);
        }
        while (!list_empty(&log->due)) /* asked for by the callbacks above */
                due_call(&log->due, why);
}

static void rooms_free(struct evlog *log)
{
        list_for_each (n, &log->rooms)
                LIST_ENTRY(n, struct room, node)->fn = NULL;
        if (!log->is_calling_rooms)
                rooms_sweep(log);
}

struct evlog *evlog_free(struct evlog *log, int timeout_ms)
{
        struct error err = { 0 };

        if (!log)
                return NULL;
        log->is_closing = true;
        log->deadline_us = timeout_ms < 0 ? -1 : clock_mono_us() + timeout_ms * INT64_C(1000);
        settle_debts(log, commit_drain(log, &err) < 0 ? &err : NULL);
        orphan_subs(log);
        rooms_free(log);
        timer_stop(&log->retry);
        task_cancel(&log->kick);
        task_cancel(&log->dispatch);
        if (writer_is_busy(log->writer)) {
                writer_abandon(log->writer, remains_free, remains_new(log));
        } else {
                writer_free(log->writer);
                remains_free(remains_new(log));
        }
        wakeup_free(log->written);
        loop_free_later(log->loop, log);
        return NULL;
}

/* Appending */

static int refuse(struct evlog *log, struct error *err, const char *why)
{
        log->is_full = true; /* on_room tells when it is worth another try */
        return error_set(err, ERR_BUSY, 0, "the event log takes nothing now: %s", why);
}

static int check_key(const char *key, struct error *err)
{
        size_t len = strnlen(key, STORE_KEY_MAX + 1);

        if (len == 0 || len > STORE_KEY_MAX)
                return error_set(err, ERR_INVALID, 0, "store keys have 1 to %d bytes",
                                 STORE_KEY_MAX);
        return 0;
}

static int check_op(const struct store_op *op, struct error *err)
{
        size_t len = op->op == OP_EVENT ? op->ev.body->len : op->op == OP_PUT ? op->doc->len : 0;
        const char *also = op->op == OP_EVENT ? op->also : NULL;

        if (check_key(op->key, err) < 0 || (also && check_key(also, err) < 0))
                return -1;
        if (also && strcmp(also, op->key) == 0)
                return error_set(err, ERR_INVALID, 0, "topic '%s' cannot have an event twice",
                                 also);
        if (len > EVLOG_BODY_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "'%s': %zu bytes, at most %d are kept",
                                 op->key, len, EVLOG_BODY_MAX);
        return 0;
}

static int check_all(struct evlog *log, const struct store_op *ops, size_t n, struct error *err)
{
        if (log->is_closing)
                return error_set(err, ERR_BUSY, 0, "the event log is closing");
        if (log->stats.is_failing)
                return refuse(log, err, log->stats.why);
        if (log->stats.pending_bytes > EVLOG_PENDING_MAX)
                return refuse(log, err, "too much waits for the disk");
        for (size_t i = 0; i < n; i++)
                if (check_op(&ops[i], err) < 0)
                        return -1;
        return 0;
}

static struct topic *topic_get_pinned(struct evlog *log, const char *name, struct error *err)
{
        struct topic *t = topic_get(log, name, err);

        if (t)
                topic_pin(log, t);
        return t;
}

static int target_pin(struct evlog *log, const struct store_op *op, struct target *ret,
                      struct error *err)
{
        *ret = (struct target) { 0 };
        if (op->op != OP_EVENT)
                return 0;
        ret->own = topic_get_pinned(log, op->key, err);
        if (!ret->own)
                return -1;
        if (!op->also)
                return 0;
        ret->also = topic_get_pinned(log, op->also, err);
        return ret->also ? 0 : -1;
}

/* Pins the topics of each event behind what is gathered; all or none. */
static int pin_targets(struct evlog *log, const struct store_op *ops, size_t n, struct error *err)
{
        struct target *targets = log->gather.targets + log->gather.n;

        for (size_t i = 0; i < n; i++) {
                if (target_pin(log, &ops[i], &targets[i], err) == 0)
                        continue;
                for (size_t k = 0; k <= i; k++) /* the last may be half pinned */
                        target_unpin(log, &targets[k]);
                return -1;
        }
        return 0;
}

static void number_event(struct evlog *log, struct store_op *op, const struct target *to)
{
        if (!to->own)
                return;
        op->ev.seq = ++to->own->last;
        op->also_seq = to->also ? ++to->also->last : 0;
        op->ev.at_us = op->ev.at_us ?: clock_real_us();
        log->stats.appended++;
}

int evlog_commit(struct evlog *log, struct store_op *ops, size_t n, struct error *err)
{
        struct batch *b = &log->gather;
        size_t was = b->bytes;

        if (check_all(log, ops, n, err) < 0)
                return -1;
        batch_reserve(b, n);
        if (pin_targets(log, ops, n, err) < 0)
                return -1;
        for (size_t i = 0; i < n; i++) {
                number_event(log, &ops[i], &b->targets[b->n]);
                batch_add(b, &ops[i]);
        }
        log->stats.pending_bytes += b->bytes - was;
        /* Not at once: what else this iteration appends goes into the same transaction. */
        loop_defer(log->loop, &log->kick);
        if (log->stats.pending_bytes <= EVLOG_PENDING_BYTES)
                return 1;
        log->is_full = true;
        return 0;
}

int evlog_append(struct evlog *log, const char *topic, uint16_t kind, struct chunk *body,
                 uint64_t *ret_seq, struct error *err)
{
        struct store_op op = {
                .op = OP_EVENT,
                .key = topic,
                .ev = { .kind = kind, .body = body },
        };
        int r = evlog_commit(log, &op, 1, err);

        if (r >= 0 && ret_seq)
                *ret_seq = op.ev.seq;
        return r;
}

void evlog_barrier(struct evlog *log, evlog_done *fn, void *arg)
{
        struct due *d = NEW(struct due);

        d->fn = fn;
        d->arg = arg;
        if (log->gather.n > 0) {
                list_push(&log->gather.barriers, &d->node);
        } else if (log->commit.n > 0) {
                list_push(&log->commit.barriers, &d->node);
        } else {
                list_push(&log->due, &d->node);
                loop_defer(log->loop, &log->dispatch);
        }
}

void evlog_trim(struct evlog *log, const char *topic, uint64_t upto, evlog_done *fn, void *arg)
{
        struct error err = { 0 };
        struct topic *t = topic_get(log, topic, &err);
        struct trim *trim;

        if (!t) {
                if (fn)
                        evlog_owe(log, fn, arg, &err);
                return;
        }
        topic_pin(log, t);
        trim = NEW(struct trim);
        /* What is pending is not trimmed: it would come back with its commit. */
        *trim = (struct trim) { .topic = t, .upto = MIN(upto, t->visible), .fn = fn, .arg = arg };
        list_push(&log->trims, &trim->node);
        loop_defer(log->loop, &log->kick);
}

void evlog_on_room(struct evlog *log, void (*fn)(void *arg), void *arg)
{
        struct room *r = NEW(struct room);

        r->fn = fn;
        r->arg = arg;
        list_push(&log->rooms, &r->node);
}

void evlog_off_room(struct evlog *log, void (*fn)(void *arg), void *arg)
{
        list_for_each (n, &log->rooms) {
                struct room *r = LIST_ENTRY(n, struct room, node);

                if (r->fn == fn && r->arg == arg)
                        r->fn = NULL;
        }
        if (!log->is_calling_rooms)
                rooms_sweep(log);
}

/* Questions */

int evlog_range(struct evlog *log, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                struct error *err)
{
        const struct topic *t = topic_get(log, topic, err);

        if (!t)
                return -1;
        *ret_first = t->visible ? t->trimmed + 1 : 0;
        *ret_last = t->visible;
        return 0;
}

int evlog_docs(struct evlog *log, const char *prefix,
               int (*row)(void *arg, const char *key, const char *doc, size_t len), void *arg,
               struct error *err)
{
        return evstore_docs(log->store, prefix, row, arg, err);
}

void evlog_stats(const struct evlog *log, struct evlog_stats *ret)
{
        *ret = log->stats;
        ret->topics = (uint32_t) log->topics.n;
}
