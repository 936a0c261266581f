/* The contract of event/store.h, asked of every store. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "store/store.h"
#include "test-evlog.h"

static const struct store_ops *const stores[] = { &store_sqlite, &store_memory };

static void each_store(void (*fn)(const struct store_ops *ops, void *h))
{
        for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
                struct scratch s;
                struct error err = { 0 };
                void *h;

                scratch_init(&s);
                EXPECT_OK(stores[i]->open(s.db, &h, &err), err);
                fn(stores[i], h);
                stores[i]->close(h);
                scratch_done(&s);
        }
}

static void put_events(const struct store_ops *ops, void *h, const char *topic, uint64_t first,
                       uint64_t last)
{
        struct error err = { 0 };

        for (uint64_t seq = first; seq <= last; seq++) {
                char text[32];
                struct store_op op = { .op = OP_EVENT, .key = topic };

                (void) snprintf(text, sizeof(text), "{\"n\":%" PRIu64 "}", seq);
                op.ev = (struct event) { seq, (int64_t) seq * 10, 7, text_chunk(text) };
                EXPECT_OK(ops->commit(h, &op, 1, &err), err);
                chunk_unref(op.ev.body);
        }
}

static void expect_events(const struct store_ops *ops, void *h, const char *topic, uint64_t after,
                          uint64_t last)
{
        struct event got[64];
        struct error err = { 0 };
        int n = ops->events(h, topic, after, got, ARRAY_LEN(got), &err);

        EXPECT_OK(n, err);
        EXPECT_INT(n, last - after);
        for (int i = 0; i < n; i++) {
                char text[32];
                uint64_t seq = after + 1 + (uint64_t) i;

                (void) snprintf(text, sizeof(text), "{\"n\":%" PRIu64 "}", seq);
                EXPECT_INT(got[i].seq, seq);
                EXPECT_INT(got[i].at_us, seq * 10);
                EXPECT_INT(got[i].kind, 7);
                expect_body(&got[i], text);
                chunk_unref(got[i].body);
        }
}

static void expect_range(const struct store_ops *ops, void *h, const char *topic, uint64_t first,
                         uint64_t last)
{
        struct error err = { 0 };
        uint64_t f = 99, l = 99;

        EXPECT_OK(ops->range(h, topic, &f, &l, &err), err);
        EXPECT_INT(f, first);
        EXPECT_INT(l, last);
}

static void check_reads(const struct store_ops *ops, void *h)
{
        put_events(ops, h, "a", 1, 20);
        put_events(ops, h, "b", 1, 3);
        expect_events(ops, h, "a", 0, 20);
        expect_events(ops, h, "a", 19, 20);
        expect_events(ops, h, "a", 20, 20);
        expect_events(ops, h, "b", 1, 3);
        expect_events(ops, h, "nobody", 0, 0);
        expect_range(ops, h, "a", 1, 20);
        expect_range(ops, h, "nobody", 0, 0);
}

TEST(store_reads_back_what_was_committed)
{
        each_store(check_reads);
}

static void check_limits(const struct store_ops *ops, void *h)
{
        struct error err = { 0 };
        struct event got[8];
        struct store_op op = { .op = OP_EVENT, .key = "big" };

        put_events(ops, h, "a", 1, 5);
        EXPECT_INT(ops->events(h, "a", 0, got, 4, &err), 4);
        for (int i = 0; i < 4; i++)
                chunk_unref(got[i].body);

        /* Each is as large as a page: one comes, however many were asked for. */
        for (uint64_t seq = 1; seq <= 3; seq++) {
                op.ev = (struct event) { seq, 1, 0, chunk_new(STORE_PAGE_BYTES) };
                memset(chunk_bytes(op.ev.body), 'x', STORE_PAGE_BYTES);
                EXPECT_OK(ops->commit(h, &op, 1, &err), err);
                chunk_unref(op.ev.body);
        }
        EXPECT_INT(ops->events(h, "big", 0, got, 8, &err), 1);
        EXPECT_INT(got[0].body->len, STORE_PAGE_BYTES);
        chunk_unref(got[0].body);
        EXPECT_INT(ops->events(h, "big", 2, got, 8, &err), 1);
        EXPECT_INT(got[0].seq, 3);
        chunk_unref(got[0].body);
}

TEST(store_page_ends_at_its_limits)
{
        each_store(check_limits);
}

struct docs_seen {
        char text[256];
        int stop_after;
};

static int see_doc(void *arg, const char *key, const char *doc, size_t len)
{
        struct docs_seen *seen = arg;
        size_t at = strlen(seen->text);

        (void) snprintf(seen->text + at, sizeof(seen->text) - at, "%s=%.*s;", key, (int) len, doc);
        return --seen->stop_after == 0 ? -1 : 0;
}

static void expect_docs(const struct store_ops *ops, void *h, const char *prefix, const char *want)
{
        struct docs_seen seen = { 0 };
        struct error err = { 0 };

        EXPECT_OK(ops->docs(h, prefix, see_doc, &seen, &err), err);
        EXPECT_STR(seen.text, want);
}

static void check_docs(const struct store_ops *ops, void *h)
{
        _cleanup_(chunk_unrefp) struct chunk *one = text_chunk("1"), *two = text_chunk("2"),
                                             *none = text_chunk("");
        struct docs_seen seen = { .stop_after = 1 };
        struct error err = { 0 };
        struct store_op ops1[] = {
                { .op = OP_PUT, .key = "s/b", .doc = one },
                { .op = OP_PUT, .key = "s/a", .doc = two },
                { .op = OP_PUT, .key = "t/a", .doc = one },
                { .op = OP_PUT, .key = "s0", .doc = one },
                { .op = OP_PUT, .key = "e", .doc = none },
        };
        struct store_op ops2[] = {
                { .op = OP_PUT, .key = "s/b", .doc = two },
                { .op = OP_DEL, .key = "s/a" },
                { .op = OP_DEL, .key = "never there" },
        };

        EXPECT_OK(ops->commit(h, ops1, ARRAY_LEN(ops1), &err), err);
        expect_docs(ops, h, "s/", "s/a=2;s/b=1;");
        expect_docs(ops, h, "", "e=;s/a=2;s/b=1;s0=1;t/a=1;");
        expect_docs(ops, h, "zz", "");
        EXPECT_INT(ops->docs(h, "s/", see_doc, &seen, &err), -1);
        EXPECT_STR(seen.text, "s/a=2;");
        EXPECT_OK(ops->commit(h, ops2, ARRAY_LEN(ops2), &err), err);
        expect_docs(ops, h, "s/", "s/b=2;");
}

TEST(store_keeps_documents_by_key)
{
        each_store(check_docs);
}

static void check_atomic(const struct store_ops *ops, void *h)
{
        _cleanup_(chunk_unrefp) struct chunk *x = text_chunk("x");
        struct error err = { 0 };
        struct store_op all[] = {
                { .op = OP_PUT, .key = "doc", .doc = x },
                { .op = OP_EVENT, .key = "new", .ev = { 1, 1, 0, x } },
                { .op = OP_EVENT, .key = "a", .ev = { 3, 1, 0, x } }, /* is there already */
        };

        put_events(ops, h, "a", 1, 3);
        EXPECT_ERR(ops->commit(h, all, ARRAY_LEN(all), &err), ERR_CONFLICT, err);
        expect_docs(ops, h, "", "");
        expect_range(ops, h, "new", 0, 0);
        expect_range(ops, h, "a", 1, 3);
        all[2].ev.seq = 4;
        EXPECT_OK(ops->commit(h, all, ARRAY_LEN(all), &err), err);
        expect_docs(ops, h, "", "doc=x;");
        expect_range(ops, h, "new", 1, 1);
        expect_range(ops, h, "a", 1, 4);
}

TEST(store_commits_documents_and_events_together_or_not_at_all)
{
        each_store(check_atomic);
}

static void check_trim(const struct store_ops *ops, void *h)
{
        struct error err = { 0 };

        put_events(ops, h, "a", 1, 10);
        put_events(ops, h, "b", 1, 2);
        EXPECT_OK(ops->trim(h, "a", 4, &err), err);
        EXPECT_OK(ops->trim(h, "a", 2, &err), err); /* less than before: nothing comes back */
        EXPECT_OK(ops->trim(h, "nobody", 2, &err), err);
        expect_range(ops, h, "a", 5, 10);
        expect_events(ops, h, "a", 4, 10);
        expect_range(ops, h, "b", 1, 2);

        EXPECT_OK(ops->trim(h, "a", UINT64_MAX, &err), err);
        expect_range(ops, h, "a", 11, 10);
        put_events(ops, h, "a", 11, 11);
        expect_range(ops, h, "a", 11, 11);
}

TEST(store_trim_keeps_the_numbers_going)
{
        each_store(check_trim);
}

/* Two topics, one event */

static struct store_op pair(const char *key, uint64_t seq, const char *also, uint64_t also_seq,
                            struct chunk *body)
{
        return (struct store_op) { .op = OP_EVENT,
                                   .key = key,
                                   .ev = { seq, 30, 7, body },
                                   .also = also,
                                   .also_seq = also_seq };
}

/* What a topic has after a number, as "1=x;2=y;". */
static void expect_list(const struct store_ops *ops, void *h, const char *topic, uint64_t after,
                        const char *want)
{
        struct event got[16];
        struct error err = { 0 };
        char text[256] = "";
        int n = ops->events(h, topic, after, got, ARRAY_LEN(got), &err);

        EXPECT_OK(n, err);
        for (int i = 0; i < n; i++) {
                size_t at = strlen(text);

                (void) snprintf(text + at, sizeof(text) - at, "%" PRIu64 "=%.*s;", got[i].seq,
                                (int) got[i].body->len, (const char *) got[i].body->data);
                EXPECT_INT(got[i].at_us, 30);
                EXPECT_INT(got[i].kind, 7);
                chunk_unref(got[i].body);
        }
        EXPECT_STR(text, want);
}

/* One commit; each topic is first here and second there. */
static void put_pairs(const struct store_ops *ops, void *h)
{
        _cleanup_(chunk_unrefp) struct chunk *p = text_chunk("p"), *q = text_chunk("q"),
                                             *r = text_chunk("r"), *x = text_chunk("x");
        struct error err = { 0 };
        const struct store_op all[] = {
                pair("a", 1, "b", 1, p), pair("a", 2, NULL, 0, q), pair("b", 2, NULL, 0, x),
                pair("b", 3, "a", 3, r), pair("a", 4, "c", 1, x),  pair("a", 5, "b", 4, q),
        };

        EXPECT_OK(ops->commit(h, all, ARRAY_LEN(all), &err), err);
}

static void check_pair(const struct store_ops *ops, void *h)
{
        put_pairs(ops, h);
        expect_list(ops, h, "a", 0, "1=p;2=q;3=r;4=x;5=q;");
        expect_list(ops, h, "b", 0, "1=p;2=x;3=r;4=q;");
        expect_list(ops, h, "c", 0, "1=x;");
        expect_list(ops, h, "b", 2, "3=r;4=q;");
        expect_list(ops, h, "b", 4, "");
        expect_range(ops, h, "a", 1, 5);
        expect_range(ops, h, "b", 1, 4);
        expect_range(ops, h, "c", 1, 1);
}

TEST(store_gives_an_event_a_number_in_each_of_its_two_topics)
{
        each_store(check_pair);
}

static void check_pair_limits(const struct store_ops *ops, void *h)
{
        struct event got[3];
        struct error err = { 0 };

        put_pairs(ops, h);
        EXPECT_INT(ops->events(h, "b", 0, got, 3, &err), 3);
        for (int i = 0; i < 3; i++) {
                EXPECT_INT(got[i].seq, i + 1);
                chunk_unref(got[i].body);
        }
}

TEST(store_page_of_a_second_topic_ends_at_its_limit)
{
        each_store(check_pair_limits);
}

static void check_pair_trim(const struct store_ops *ops, void *h)
{
        struct error err = { 0 };

        put_pairs(ops, h);
        EXPECT_OK(ops->trim(h, "a", 3, &err), err);
        expect_list(ops, h, "a", 0, "4=x;5=q;"); /* what is there for b only does not show */
        expect_list(ops, h, "b", 0, "1=p;2=x;3=r;4=q;");
        expect_range(ops, h, "a", 4, 5);
        EXPECT_OK(ops->trim(h, "b", UINT64_MAX, &err), err);
        expect_list(ops, h, "b", 0, "");
        expect_range(ops, h, "b", 5, 4);
        expect_list(ops, h, "a", 0, "4=x;5=q;");
        EXPECT_OK(ops->trim(h, "c", 1, &err), err);
        EXPECT_OK(ops->trim(h, "a", 4, &err), err);
        expect_list(ops, h, "a", 0, "5=q;");
        EXPECT_OK(ops->trim(h, "a", 5, &err), err);
        expect_range(ops, h, "a", 6, 5);
        expect_range(ops, h, "c", 2, 1);
}

TEST(store_trim_of_one_topic_leaves_the_event_to_the_other)
{
        each_store(check_pair_trim);
}

/* Refused whole: a good operation goes first, a document goes along. */
static void expect_conflict(const struct store_ops *ops, void *h, struct store_op bad)
{
        struct error err = { 0 };
        struct store_op all[] = {
                pair("a", 6, "new", 1, bad.ev.body),
                { .op = OP_PUT, .key = "doc", .doc = bad.ev.body },
                bad,
        };

        EXPECT_ERR(ops->commit(h, all, ARRAY_LEN(all), &err), ERR_CONFLICT, err);
        expect_range(ops, h, "new", 0, 0);
        expect_docs(ops, h, "", "");
        expect_list(ops, h, "a", 0, "1=p;2=q;3=r;4=x;5=q;");
        expect_list(ops, h, "b", 0, "1=p;2=x;3=r;4=q;");
}

static void check_pair_conflicts(const struct store_ops *ops, void *h)
{
        _cleanup_(chunk_unrefp) struct chunk *z = text_chunk("z");
        const struct store_op good = pair("a", 6, "b", 5, z);
        struct error err = { 0 };

        put_pairs(ops, h);
        expect_conflict(ops, h, pair("b", 5, "a", 5, z)); /* taken, as a first number */
        expect_conflict(ops, h, pair("b", 5, "a", 3, z)); /* taken, as a second number */
        expect_conflict(ops, h, pair("b", 3, NULL, 0, z));
        expect_conflict(ops, h, pair("b", 4, NULL, 0, z)); /* taken by a second number */
        expect_conflict(ops, h, pair("a", 7, "b", 6, z));  /* a hole */
        EXPECT_OK(ops->commit(h, &good, 1, &err), err);
        expect_list(ops, h, "b", 4, "5=z;");
}

TEST(store_refuses_a_pair_whole_when_one_number_is_not_the_next)
{
        each_store(check_pair_conflicts);
}
