/* The SQLite store: one connection for the writer thread, and readers that are taken from a small
 * stock, so that a read waits neither for a commit nor for another read. */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/map.h"
#include "base/str.h"
#include "store/store.h"

enum {
        READERS_KEPT = 2,    /* idle ones; a third read at the same time opens and closes its own */
        PAGE_MIN = 512,      /* no database is smaller */
        TOPICS_KNOWN = 1024, /* by the writer, between commits */
};

/* A topic as it is on disk, or will be with the commit under way. */
struct topic_row {
        int64_t id;
        uint64_t trimmed, last;
};

struct sqlite_store {
        char *path;
        struct sqlite_options options;
        int lock_fd; /* PATH.lock: one process per store */
        struct sqlite_conn *writer;

        pthread_mutex_t mutex; /* guards the stock, never held during a read */
        struct list readers;
        size_t n_readers;

        /* Name → struct topic_row, of the writer: what it looked up or made. Only id and last are
         * kept up to date. Forgotten when a commit fails, and when there are too many. */
        struct map known;
};

/* Opening */

static int option_sync(struct sqlite_options *o, struct slice v)
{
        o->is_sync_full = slice_eq(v, "full");
        return o->is_sync_full || slice_eq(v, "normal") ? 0 : -1;
}

static int option_max_pages(struct sqlite_options *o, struct slice v)
{
        return str_to_u64(v.at, v.len, &o->max_pages) && o->max_pages > 0 ? 0 : -1;
}

static const struct {
        const char *name;
        int (*set)(struct sqlite_options *, struct slice value);
} option_table[] = {
        { "sync", option_sync },
        { "max_pages", option_max_pages },
};

static int option_parse(struct sqlite_options *o, struct slice item, struct error *err)
{
        struct slice name, value = item;

        (void) slice_cut(&value, '=', &name);
        for (size_t i = 0; i < ARRAY_LEN(option_table); i++) {
                if (!slice_eq(name, option_table[i].name))
                        continue;
                if (option_table[i].set(o, value) == 0)
                        return 0;
                return error_set(err, ERR_INVALID, 0, "store option '%.*s': bad value",
                                 (int) item.len, item.at);
        }
        return error_set(err, ERR_INVALID, 0, "store option '%.*s' is not known (sync, max_pages)",
                         (int) name.len, name.at);
}

/* "PATH?a=b&c=d". A '?' followed by a '/' belongs to the path. */
static int dsn_parse(struct sqlite_store *s, const char *dsn, struct error *err)
{
        const char *mark = strrchr(dsn, '?');
        struct slice rest = { 0 }, item;

        if (mark && strchr(mark, '/'))
                mark = NULL;
        s->path = mark ? xstrndup(dsn, (size_t) (mark - dsn)) : xstrdup(dsn);
        if (!*s->path)
                return error_set(err, ERR_INVALID, 0, "store '%s': the path is empty", dsn);
        if (mark)
                rest = SLICE(mark + 1);
        while (slice_cut(&rest, '&', &item))
                if (option_parse(&s->options, item, err) < 0)
                        return -1;
        return 0;
}

/* Two processes would give out the same numbers. The lock goes with its process, however it ends.
 */
static int take_lock(struct sqlite_store *s, struct error *err)
{
        _cleanup_free_ char *path = xasprintf("%s.lock", s->path);

        s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (s->lock_fd < 0)
                return error_set(err, ERR_SYSTEM, errno, "open store '%s'", s->path);
        if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        if (errno == EWOULDBLOCK)
                return error_set(err, ERR_CONFLICT, 0, "store '%s' is in use by another process",
                                 s->path);
        return error_set(err, ERR_SYSTEM, errno, "lock store '%s'", s->path);
}

/* Made here and not by SQLite, for the mode (the log beside it inherits it) and for an error that
 * names its reason. Closing the descriptor drops every lock SQLite holds on the file in this
 * process: there is none yet, our own lock has seen to that. */
static int touch_file(const struct sqlite_store *s, struct error *err)
{
        _cleanup_close_ int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, ERR_SYSTEM, errno, "open store '%s'", s->path);
        if (st.st_size > 0 && st.st_size < PAGE_MIN) /* SQLite would write over it */
                return error_set(err, ERR_INVALID, 0, "store '%s': file is not a database",
                                 s->path);
        return 0;
}

static void forget_topics(struct sqlite_store *s)
{
        void *value;

        for (size_t it = 0; (it = map_next(&s->known, it, NULL, &value));)
                free(value);
        map_done(&s->known);
}

static void sqlite_store_close(void *h)
{
        struct sqlite_store *s = h;

        if (!s)
                return;
        list_for_each_safe (n, tmp, &s->readers)
                sqlite_conn_free(LIST_ENTRY(n, struct sqlite_conn, node));
        sqlite_conn_free(s->writer); /* last: the one that may fold the log into the database */
        if (s->lock_fd >= 0)
                (void) close(s->lock_fd);
        (void) pthread_mutex_destroy(&s->mutex);
        forget_topics(s);
        free(s->path);
        free(s);
}

static void store_closep(struct sqlite_store **s)
{
        sqlite_store_close(*s);
}

static int sqlite_store_open(const char *dsn, void **ret, struct error *err)
{
        _cleanup_(store_closep) struct sqlite_store *s = NEW(struct sqlite_store);

        s->lock_fd = -1;
        list_init(&s->readers);
        (void) pthread_mutex_init(&s->mutex, NULL);
        (void) map_get(&s->known, ""); /* draws the maps' seed while there is one thread */
        if (dsn_parse(s, dsn, err) < 0 || take_lock(s, err) < 0 || touch_file(s, err) < 0)
                return -1;
        if (sqlite_conn_new(s->path, &s->options, true, &s->writer, err) < 0)
                return -1;
        if (sqlite_migrate(s->writer, sqlite_migrations, sqlite_n_migrations, err) < 0)
                return -1;
        *ret = TAKE_PTR(s);
        return 0;
}

/* Writing */

/* 1 = found, 0 = there is none. */
static int topic_find(struct sqlite_conn *c, const char *name, struct topic_row *ret,
                      struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;
        int rc;

        if (sqlite_stmt(c, SQL_TOPIC_FIND, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
        rc = sqlite_step(q);
        if (rc == SQLITE_DONE)
                return 0;
        if (rc != SQLITE_ROW)
                return sqlite_fail(c, rc, err);
        ret->id = sqlite3_column_int64(q, 0);
        ret->trimmed = (uint64_t) sqlite3_column_int64(q, 1);
        ret->last = (uint64_t) sqlite3_column_int64(q, 2);
        return 1;
}

static int topic_add(struct sqlite_conn *c, const char *name, int64_t *ret_id, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;

        if (sqlite_stmt(c, SQL_TOPIC_ADD, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
        if (sqlite_run(c, q, err) < 0)
                return -1;
        *ret_id = sqlite3_last_insert_rowid(c->db);
        return 0;
}

static int topic_use(struct sqlite_store *s, const char *name, struct topic_row **ret,
                     struct error *err)
{
        struct topic_row found = { 0 }, *t = map_get(&s->known, name);
        int r;

        if (!t) {
                r = topic_find(s->writer, name, &found, err);
                if (r < 0 || (r == 0 && topic_add(s->writer, name, &found.id, err) < 0))
                        return -1;
                t = NEW(struct topic_row);
                *t = found;
                (void) map_set(&s->known, name, t);
        }
        *ret = t;
        return 0;
}

/* Takes the number, which must be the next of its topic: the two indexes of events can each keep a
 * number from coming twice, but not both together. */
static int topic_number(struct sqlite_store *s, const char *name, uint64_t seq, int64_t *ret_id,
                        struct error *err)
{
        struct topic_row *t;

        if (topic_use(s, name, &t, err) < 0)
                return -1;
        if (seq != t->last + 1)
                return error_set(err, ERR_CONFLICT, 0,
                                 "store '%s': event %" PRIu64 " of topic '%s' where %" PRIu64
                                 " comes next",
                                 s->path, seq, name, t->last + 1);
        t->last = seq;
        *ret_id = t->id;
        return 0;
}

/* An empty body is an empty blob; SQLite takes a NULL pointer for NULL. */
static void bind_chunk(sqlite3_stmt *q, int at, const struct chunk *c)
{
        (void) sqlite3_bind_blob64(q, at, c->data ?: "", c->len, SQLITE_STATIC);
}

static int apply_event(struct sqlite_store *s, const struct store_op *op, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;
        const struct event *e = &op->ev;
        int64_t id = 0, also_id = 0;

        if (topic_number(s, op->key, e->seq, &id, err) < 0 ||
            (op->also && topic_number(s, op->also, op->also_seq, &also_id, err) < 0) ||
            sqlite_stmt(s->writer, SQL_EVENT_ADD, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_int64(q, 1, id);
        (void) sqlite3_bind_int64(q, 2, (int64_t) e->seq);
        (void) sqlite3_bind_int64(q, 3, e->at_us);
        (void) sqlite3_bind_int64(q, 4, e->kind);
        bind_chunk(q, 5, e->body);
        if (op->also) { /* else both stay NULL */
                (void) sqlite3_bind_int64(q, 6, also_id);
                (void) sqlite3_bind_int64(q, 7, (int64_t) op->also_seq);
        }
        return sqlite_run(s->writer, q, err);
}

static int apply_put(struct sqlite_store *s, const struct store_op *op, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;

        if (sqlite_stmt(s->writer, SQL_DOC_PUT, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_text(q, 1, op->key, -1, SQLITE_STATIC);
        bind_chunk(q, 2, op->doc);
        return sqlite_run(s->writer, q, err);
}

static int apply_del(struct sqlite_store *s, const struct store_op *op, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;

        if (sqlite_stmt(s->writer, SQL_DOC_DEL, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_text(q, 1, op->key, -1, SQLITE_STATIC);
        return sqlite_run(s->writer, q, err);
}

static int (*const appliers[])(struct sqlite_store *, const struct store_op *, struct error *) = {
        [OP_EVENT] = apply_event,
        [OP_PUT] = apply_put,
        [OP_DEL] = apply_del,
};

static int run_plain(struct sqlite_conn *c, enum sql_id id, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;

        return sqlite_stmt(c, id, &q, err) < 0 ? -1 : sqlite_run(c, q, err);
}

static int apply_all(struct sqlite_store *s, const struct store_op *ops, size_t n,
                     struct error *err)
{
        for (size_t i = 0; i < n; i++)
                if (appliers[ops[i].op](s, &ops[i], err) < 0)
                        return -1;
        return run_plain(s->writer, SQL_COMMIT, err);
}

static int sqlite_store_commit(void *h, const struct store_op *ops, size_t n, struct error *err)
{
        struct sqlite_store *s = h;
        int r;

        if (run_plain(s->writer, SQL_BEGIN, err) < 0)
                return -1;
        r = apply_all(s, ops, n, err);
        if (r < 0)
                sqlite_rollback(s->writer);
        if (r < 0 || s->known.n > TOPICS_KNOWN)
                forget_topics(s);
        return r;
}

/* The DELETEs and the UPDATE of one trim: all take the topic and where it begins and ends. */
static int trim_step(struct sqlite_conn *c, enum sql_id id, const struct topic_row *t,
                     uint64_t upto, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;

        if (sqlite_stmt(c, id, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_int64(q, 1, t->id);
        (void) sqlite3_bind_int64(q, 2, (int64_t) t->trimmed);
        (void) sqlite3_bind_int64(q, 3, (int64_t) upto);
        return sqlite_run(c, q, err);
}

static int trim_all(struct sqlite_conn *c, const char *topic, uint64_t upto, struct error *err)
{
        static const enum sql_id steps[] = { SQL_EVENT_TRIM, SQL_ALSO_TRIM, SQL_TOPIC_TRIM };
        struct topic_row t = { 0 };

        if (topic_find(c, topic, &t, err) < 0)
                return -1;
        upto = MIN(upto, t.last);
        for (size_t i = 0; upto > t.trimmed && i < ARRAY_LEN(steps); i++)
                if (trim_step(c, steps[i], &t, upto, err) < 0)
                        return -1;
        return run_plain(c, SQL_COMMIT, err);
}

static int sqlite_store_trim(void *h, const char *topic, uint64_t upto, struct error *err)
{
        struct sqlite_conn *c = ((struct sqlite_store *) h)->writer;

        if (run_plain(c, SQL_BEGIN, err) < 0)
                return -1;
        if (trim_all(c, topic, upto, err) == 0)
                return 0;
        sqlite_rollback(c);
        return error_wrap(err, "trim topic '%s'", topic);
}

/* Reading */

static int reader_take(struct sqlite_store *s, struct sqlite_conn **ret, struct error *err)
{
        struct sqlite_conn *c = NULL;

        (void) pthread_mutex_lock(&s->mutex);
        if (!list_empty(&s->readers)) {
                c = LIST_ENTRY(s->readers.prev, struct sqlite_conn, node);
                list_remove(&c->node);
                s->n_readers--;
        }
        (void) pthread_mutex_unlock(&s->mutex);
        if (!c)
                return sqlite_conn_new(s->path, &s->options, false, ret, err);
        *ret = c;
        return 0;
}

/* One that failed is not trusted again. */
static void reader_give(struct sqlite_store *s, struct sqlite_conn *c, bool is_good)
{
        (void) pthread_mutex_lock(&s->mutex);
        if (is_good && s->n_readers < READERS_KEPT) {
                list_push(&s->readers, &c->node);
                s->n_readers++;
                c = NULL;
        }
        (void) pthread_mutex_unlock(&s->mutex);
        sqlite_conn_free(c);
}

static struct event event_read(sqlite3_stmt *q)
{
        return (struct event) {
                .seq = (uint64_t) sqlite3_column_int64(q, 0),
                .at_us = sqlite3_column_int64(q, 1),
                .kind = (uint16_t) sqlite3_column_int64(q, 2),
                .body = chunk_copy(sqlite3_column_blob(q, 3), (size_t) sqlite3_column_bytes(q, 3)),
        };
}

static int read_events(struct sqlite_conn *c, const char *topic, uint64_t after, struct event *ret,
                       size_t max, struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;
        size_t n = 0, bytes = 0;
        int rc = SQLITE_DONE;

        if (sqlite_stmt(c, SQL_EVENT_LIST, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_text(q, 1, topic, -1, SQLITE_STATIC);
        (void) sqlite3_bind_int64(q, 2, (int64_t) MIN(after, (uint64_t) INT64_MAX));
        (void) sqlite3_bind_int64(q, 3, (int64_t) max);
        while (n < max && bytes < STORE_PAGE_BYTES && (rc = sqlite_step(q)) == SQLITE_ROW) {
                ret[n] = event_read(q);
                bytes += ret[n++].body->len;
        }
        if (rc == SQLITE_ROW || rc == SQLITE_DONE)
                return (int) n;
        while (n > 0)
                chunk_unref(ret[--n].body);
        return sqlite_fail(c, rc, err);
}

static int sqlite_store_events(void *h, const char *topic, uint64_t after, struct event *ret,
                               size_t max, struct error *err)
{
        struct sqlite_conn *c;
        int r;

        if (reader_take(h, &c, err) < 0)
                return -1;
        r = read_events(c, topic, after, ret, max, err);
        reader_give(h, c, r >= 0);
        return r;
}

static int read_range(struct sqlite_conn *c, const char *topic, uint64_t *ret_first,
                      uint64_t *ret_last, struct error *err)
{
        struct topic_row t = { 0 };

        if (topic_find(c, topic, &t, err) < 0)
                return -1;
        *ret_first = t.last ? t.trimmed + 1 : 0;
        *ret_last = t.last;
        return 0;
}

static int sqlite_store_range(void *h, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                              struct error *err)
{
        struct sqlite_conn *c;
        int r;

        if (reader_take(h, &c, err) < 0)
                return -1;
        r = read_range(c, topic, ret_first, ret_last, err);
        reader_give(h, c, r >= 0);
        return r;
}

typedef int doc_row(void *arg, const char *key, const char *doc, size_t len);

static int read_docs(struct sqlite_conn *c, const char *prefix, doc_row *row, void *arg,
                     struct error *err)
{
        _cleanup_(sqlite_resetp) sqlite3_stmt *q = NULL;
        int rc, r = 0;

        if (sqlite_stmt(c, SQL_DOC_LIST, &q, err) < 0)
                return -1;
        (void) sqlite3_bind_text(q, 1, prefix, -1, SQLITE_STATIC);
        while (r >= 0 && (rc = sqlite_step(q)) != SQLITE_DONE) {
                const char *key = (const char *) sqlite3_column_text(q, 0);

                if (rc != SQLITE_ROW)
                        return sqlite_fail(c, rc, err);
                if (!str_starts(key, prefix))
                        break;
                r = row(arg, key, sqlite3_column_blob(q, 1) ?: "",
                        (size_t) sqlite3_column_bytes(q, 1));
        }
        return MIN(r, 0);
}

static int sqlite_store_docs(void *h, const char *prefix, doc_row *row, void *arg,
                             struct error *err)
{
        struct sqlite_conn *c;
        int r;

        if (reader_take(h, &c, err) < 0)
                return -1;
        r = read_docs(c, prefix, row, arg, err);
        reader_give(h, c, r >= 0);
        return r;
}

const struct store_ops store_sqlite = {
        .name = "sqlite",
        .open = sqlite_store_open,
        .commit = sqlite_store_commit,
        .events = sqlite_store_events,
        .range = sqlite_store_range,
        .docs = sqlite_store_docs,
        .trim = sqlite_store_trim,
        .close = sqlite_store_close,
};
