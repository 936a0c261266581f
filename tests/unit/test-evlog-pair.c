/* Events with a second topic: one body, two numbers, one moment. */
#include <inttypes.h>

#include <sqlite3.h>

#include "base/macro.h"
#include "store/store.h"
#include "test-evlog-bed.h"

static void append_pair(struct bed *b, const char *key, const char *also, struct chunk *body,
                        uint64_t *ret_seq, uint64_t *ret_also)
{
        struct store_op op = {
                .op = OP_EVENT, .key = key, .ev = { .kind = 5, .body = body }, .also = also
        };
        struct error err = { 0 };

        EXPECT_OK(evlog_commit(b->log, &op, 1, &err), err);
        *ret_seq = op.ev.seq;
        *ret_also = op.also_seq;
}

static const struct event *pull(struct evsub *s)
{
        const struct event *e = NULL;
        struct error err = { 0 };

        EXPECT_INT(evsub_next(s, &e, &err), 1);
        return e;
}

TEST(evlog_shows_a_pair_in_both_topics_with_the_same_chunk_and_two_numbers)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("x");
        struct bed b;
        struct evsub *a_sub, *b_sub;
        struct evlog_stats st;
        struct error err = { 0 };
        const struct event *e;
        uint64_t seq, also;
        int a_wakes = 0, b_wakes = 0;

        bed_init(&b);
        append_numbers(&b, "a", 1, 3);
        await_commit(&b);
        EXPECT_OK(evlog_subscribe(b.log, "a", 3, count_call, &a_wakes, &a_sub, &err), err);
        EXPECT_OK(evlog_subscribe(b.log, "b", 0, count_call, &b_wakes, &b_sub, &err), err);
        append_pair(&b, "a", "b", body, &seq, &also);
        EXPECT_INT(seq, 4);
        EXPECT_INT(also, 1);
        EXPECT_INT(evsub_next(a_sub, &e, &err), 0);
        EXPECT_INT(evsub_next(b_sub, &e, &err), 0); /* not before it is durable */
        await_commit(&b);
        bed_turn(&b);
        EXPECT_INT(a_wakes, 1);
        EXPECT_INT(b_wakes, 1);
        e = pull(a_sub);
        EXPECT_INT(e->seq, 4);
        EXPECT(e->body == body);
        EXPECT_INT(e->kind, 5);
        e = pull(b_sub);
        EXPECT_INT(e->seq, 1);
        EXPECT(e->body == body);
        EXPECT(e->at_us > 0);
        evlog_stats(b.log, &st);
        EXPECT_INT(st.appended, 4); /* one event, whatever the number of its topics */
        EXPECT_INT(st.committed, 4);
        EXPECT_INT(st.pending_bytes, 0);
        evsub_free(a_sub);
        evsub_free(b_sub);
        bed_done(&b);
}

TEST(evlog_counts_both_topics_through_one_batch_in_any_order)
{
        _cleanup_(chunk_unrefp) struct chunk *x = text_chunk("x");
        struct store_op ops[] = {
                { .op = OP_EVENT, .key = "a", .ev.body = x, .also = "b" },
                { .op = OP_EVENT, .key = "b", .ev.body = x, .also = "a" },
                { .op = OP_EVENT, .key = "b", .ev.body = x },
                { .op = OP_PUT, .key = "d", .doc = x, .also = "b" }, /* no meaning there */
                { .op = OP_EVENT, .key = "c", .ev.body = x, .also = "b" },
        };
        static const uint64_t want[][2] = { { 1, 1 }, { 2, 2 }, { 3, 0 }, { 0, 0 }, { 1, 4 } };
        struct bed b;
        struct error err = { 0 };
        uint64_t first, last;

        bed_init(&b);
        EXPECT_INT(evlog_commit(b.log, ops, ARRAY_LEN(ops), &err), 1);
        for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
                EXPECT_INT(ops[i].ev.seq, want[i][0]);
                EXPECT_INT(ops[i].also_seq, want[i][1]);
        }
        EXPECT_OK(evlog_range(b.log, "b", &first, &last, &err), err);
        EXPECT_INT(last, 0);
        await_commit(&b);
        EXPECT_OK(evlog_range(b.log, "b", &first, &last, &err), err);
        EXPECT_INT(last, 4);
        EXPECT_OK(evlog_range(b.log, "a", &first, &last, &err), err);
        EXPECT_INT(last, 2);
        bed_done(&b);
}

static void expect_also_refused(struct bed *b, const char *also, enum err_kind kind)
{
        _cleanup_(chunk_unrefp) struct chunk *x = text_chunk("x");
        struct store_op ops[] = {
                { .op = OP_EVENT, .key = "b", .ev.body = x, .also = "a" },
                { .op = OP_EVENT, .key = "a", .ev.body = x, .also = also },
        };
        struct error err = { 0 };

        EXPECT_INT(evlog_commit(b->log, ops, ARRAY_LEN(ops), &err), -1);
        EXPECT_INT(err.kind, kind);
}

TEST(evlog_refuses_a_bad_second_topic_and_uses_no_number)
{
        _cleanup_(chunk_unrefp) struct chunk *x = text_chunk("x");
        char key[STORE_KEY_MAX + 2];
        struct evlog_stats st;
        struct bed b;
        uint64_t seq, also;

        bed_init(&b);
        memset(key, 'k', sizeof(key));
        key[STORE_KEY_MAX + 1] = 0;
        expect_also_refused(&b, "a", ERR_INVALID); /* the first topic again */
        expect_also_refused(&b, "", ERR_INVALID);
        expect_also_refused(&b, key, ERR_INVALID);
        expect_also_refused(&b, "unreadable", ERR_SYSTEM);
        key[STORE_KEY_MAX] = 0;
        append_pair(&b, "a", key, x, &seq, &also);
        EXPECT_INT(seq, 1);
        EXPECT_INT(also, 1);
        append_pair(&b, "b", "a", x, &seq, &also);
        EXPECT_INT(seq, 1);
        EXPECT_INT(also, 2);
        await_commit(&b);
        evlog_stats(b.log, &st);
        EXPECT_INT(st.committed, 2);
        bed_done(&b);
}

TEST(evlog_commits_a_pair_again_after_a_failure)
{
        struct bed b;
        struct reader r = { 0 }, other = { 0 };
        struct evlog_stats st = { 0 };
        uint64_t seq, also;

        bed_init(&b);
        reader_start(&b, &r, "a", 0);
        reader_start(&b, &other, "b", 0);
        gate.n_failing = 1;
        for (uint64_t i = 1; i <= 3; i++) {
                char text[24];
                _cleanup_(chunk_unrefp) struct chunk *body = NULL;

                (void) snprintf(text, sizeof(text), "%" PRIu64, i);
                body = text_chunk(text);
                append_pair(&b, "a", "b", body, &seq, &also);
                EXPECT_INT(also, i);
        }
        while (!st.is_failing) {
                bed_turn(&b);
                evlog_stats(b.log, &st);
        }
        EXPECT_INT(r.seen + other.seen, 0);
        evlog_trim(b.log, "old", 1, NULL, NULL); /* so that the retry does not wait */
        reader_reach(&b, &r, 3);
        reader_reach(&b, &other, 3);
        evsub_free(r.sub);
        evsub_free(other.sub);
        bed_done(&b);
}

/* Against a model
 *
 * Five topics, events of one and of two topics in batches of any size, trims, waits and restarts,
 * drawn from a seed. The model is a list of bodies per topic. A cursor per topic, open from one
 * restart to the next, must see exactly the list; so must one that begins anew; and the database
 * must hold each body that somebody still has, once. */

enum { TOPICS = 5, STEPS = 600, BATCH_MAX = 6, EVENTS_MAX = STEPS * BATCH_MAX };

struct model_topic {
        char name[8];
        uint32_t bodies[EVENTS_MAX]; /* of number i + 1 */
        uint64_t last, trimmed;
        uint64_t seen; /* by the cursor */
        struct evsub *sub;
        bool is_there, is_lost;
};

struct world {
        struct bed bed;
        const struct store_ops *ops;
        const char *dsn;
        struct model_topic topics[TOPICS];
        uint32_t next_body;
        uint64_t random;
};

static uint32_t draw(struct world *w, uint32_t n)
{
        w->random ^= w->random << 13;
        w->random ^= w->random >> 7;
        w->random ^= w->random << 17;
        return (uint32_t) ((w->random >> 32) % n);
}

static void model_pull(void *arg)
{
        struct model_topic *t = arg;
        const struct event *e;
        struct error err = { 0 };
        char text[24];
        int k;

        while ((k = evsub_next(t->sub, &e, &err)) > 0) {
                EXPECT_INT(e->seq, ++t->seen);
                EXPECT(e->seq <= t->last);
                (void) snprintf(text, sizeof(text), "%" PRIu32, t->bodies[e->seq - 1]);
                expect_body(e, text);
        }
        if (k < 0) { /* only by a trim that overtook it */
                EXPECT_INT(err.kind, ERR_NOT_FOUND);
                EXPECT(t->seen < t->trimmed);
                t->is_lost = true;
        }
        t->is_there = t->is_lost || t->seen == t->last;
}

static void cursor_open(struct world *w, struct model_topic *t)
{
        struct error err = { 0 };

        t->seen = t->trimmed;
        t->is_lost = false;
        EXPECT_OK(evlog_subscribe(w->bed.log, t->name, t->seen, model_pull, t, &t->sub, &err), err);
}

static void cursors_finish(struct world *w)
{
        for (int i = 0; i < TOPICS; i++) {
                struct model_topic *t = &w->topics[i];

                t->is_there = t->is_lost || t->seen == t->last;
                EXPECT(bed_await(&w->bed, &t->is_there));
                t->sub = evsub_free(t->sub);
        }
}

static void world_append(struct world *w)
{
        struct store_op ops[BATCH_MAX] = { 0 };
        uint32_t n = 1 + draw(w, BATCH_MAX);
        struct error err = { 0 };
        struct model_topic *own[BATCH_MAX], *also[BATCH_MAX];
        char text[24];

        for (uint32_t i = 0; i < n; i++) {
                uint32_t a = draw(w, TOPICS), b = draw(w, TOPICS);

                own[i] = &w->topics[a];
                also[i] = a == b ? NULL : &w->topics[b];
                (void) snprintf(text, sizeof(text), "%" PRIu32, w->next_body + i);
                ops[i] = (struct store_op) { .op = OP_EVENT,
                                             .key = own[i]->name,
                                             .ev = { .kind = 1, .body = text_chunk(text) },
                                             .also = also[i] ? also[i]->name : NULL };
        }
        EXPECT_INT(evlog_commit(w->bed.log, ops, n, &err), 1);
        for (uint32_t i = 0; i < n; i++) {
                own[i]->bodies[own[i]->last++] = w->next_body;
                EXPECT_INT(ops[i].ev.seq, own[i]->last);
                if (also[i]) {
                        also[i]->bodies[also[i]->last++] = w->next_body;
                        EXPECT_INT(ops[i].also_seq, also[i]->last);
                }
                w->next_body++;
                chunk_unref(ops[i].ev.body);
        }
}

static void world_trim(struct world *w)
{
        struct model_topic *t = &w->topics[draw(w, TOPICS)];
        struct told told = { 0 };
        uint64_t upto;

        await_commit(&w->bed); /* only what is visible is trimmed */
        upto = t->trimmed + draw(w, (uint32_t) (t->last - t->trimmed) + 1);
        if (draw(w, 8) == 0)
                upto = t->last;
        t->trimmed = upto; /* before it is so: the cursor may learn it first */
        evlog_trim(w->bed.log, t->name, upto, tell, &told);
        EXPECT(bed_await(&w->bed, &told.is_told));
        EXPECT_INT(told.why.kind, ERR_OK);
}

static int64_t model_kept(const struct world *w)
{
        static bool is_kept[EVENTS_MAX];
        int64_t n = 0;

        memset(is_kept, 0, sizeof(is_kept));
        for (int i = 0; i < TOPICS; i++)
                for (uint64_t k = w->topics[i].trimmed; k < w->topics[i].last; k++) {
                        n += !is_kept[w->topics[i].bodies[k]];
                        is_kept[w->topics[i].bodies[k]] = true;
                }
        return n;
}

static void expect_row_per_body(const struct world *w)
{
        sqlite3_stmt *q;
        sqlite3 *db;

        EXPECT_INT(sqlite3_open(w->dsn, &db), SQLITE_OK);
        EXPECT_INT(sqlite3_prepare_v2(db, "SELECT count(*) FROM events", -1, &q, NULL), SQLITE_OK);
        EXPECT_INT(sqlite3_step(q), SQLITE_ROW);
        EXPECT_INT(sqlite3_column_int64(q, 0), model_kept(w));
        (void) sqlite3_finalize(q);
        (void) sqlite3_close(db);
}

/* Also without the end of the process: new cursors read the store from the first kept number. */
static void world_restart(struct world *w)
{
        cursors_finish(w);
        if (w->ops == &store_sqlite) {
                bed_close(&w->bed);
                expect_row_per_body(w);
                bed_open(&w->bed, w->ops, w->dsn);
        }
        for (int i = 0; i < TOPICS; i++) {
                struct error err = { 0 };
                uint64_t first, last;

                EXPECT_OK(evlog_range(w->bed.log, w->topics[i].name, &first, &last, &err), err);
                EXPECT_INT(last, w->topics[i].last);
                EXPECT_INT(first, last ? w->topics[i].trimmed + 1 : 0);
                cursor_open(w, &w->topics[i]);
        }
}

static void world_step(struct world *w)
{
        uint32_t dice = draw(w, 100);

        if (dice < 75)
                world_append(w);
        else if (dice < 85)
                bed_turn(&w->bed);
        else if (dice < 99)
                world_trim(w);
        else
                world_restart(w);
}

static void run_world(const struct store_ops *ops, uint64_t seed)
{
        static struct world w;
        struct scratch s;

        scratch_init(&s);
        w = (struct world) { .ops = ops, .dsn = s.db, .random = seed };
        bed_open(&w.bed, ops, s.db);
        for (int i = 0; i < TOPICS; i++) {
                (void) snprintf(w.topics[i].name, sizeof(w.topics[i].name), "t%d", i);
                cursor_open(&w, &w.topics[i]);
        }
        for (int i = 0; i < STEPS; i++)
                world_step(&w);
        world_restart(&w);
        cursors_finish(&w);
        bed_close(&w.bed);
        scratch_done(&s);
}

TEST(evlog_pairs_agree_with_a_model_on_disk)
{
        for (uint64_t seed = 1; seed <= 2; seed++)
                run_world(&store_sqlite, seed * 0x9e3779b97f4a7c15);
}

TEST(evlog_pairs_agree_with_a_model_in_memory)
{
        for (uint64_t seed = 1; seed <= 5; seed++)
                run_world(&store_memory, seed * 0xbf58476d1ce4e5b9);
}
