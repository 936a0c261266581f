/* The event log: numbers, visibility, cursors. */
#include "base/macro.h"
#include "test-evlog-bed.h"

/* Numbers and visibility */

TEST(evlog_numbers_each_topic_from_one_without_holes)
{
        struct bed b;

        bed_init(&b);
        append_numbers(&b, "a", 1, 3);
        append_numbers(&b, "b", 1, 2);
        await_commit(&b);
        append_numbers(&b, "a", 4, 5);
        append_numbers(&b, "b", 3, 3);
        bed_done(&b);
}

TEST(evlog_shows_nothing_until_the_commit_returns)
{
        struct bed b;
        struct told told = { 0 };
        struct reader r = { 0 };
        struct evlog_stats st;
        const struct event *e;
        uint64_t first, last;
        struct error err = { 0 };

        bed_init(&b);
        gate_hold(&gate.holds_commits, true);
        reader_start(&b, &r, "a", 0);
        append_numbers(&b, "a", 1, 1);
        evlog_barrier(b.log, tell, &told);
        bed_turn(&b);
        gate_await(gate_is_occupied);
        bed_turn(&b);
        EXPECT_INT(evsub_next(r.sub, &e, &err), 0);
        EXPECT_OK(evlog_range(b.log, "a", &first, &last, &err), err);
        EXPECT_INT(last, 0);
        EXPECT_INT(r.n_wakes, 0);
        EXPECT(!told.is_told);
        evlog_stats(b.log, &st);
        EXPECT_INT(st.appended, 1);
        EXPECT_INT(st.committed, 0);
        EXPECT(st.pending_bytes > 0);

        gate_hold(&gate.holds_commits, false);
        reader_reach(&b, &r, 1);
        EXPECT(bed_await(&b, &told.is_told));
        EXPECT_INT(told.why.kind, ERR_OK);
        evlog_stats(b.log, &st);
        EXPECT_INT(st.committed, 1);
        EXPECT_INT(st.pending_bytes, 0);
        evsub_free(r.sub);
        bed_done(&b);
}

TEST(evlog_appends_of_one_iteration_are_one_transaction)
{
        struct bed b;

        bed_init(&b);
        append_numbers(&b, "a", 1, 10);
        await_commit(&b);
        EXPECT_INT(gate.n_commits, 1);
        EXPECT_INT(gate.sizes[0], 10);
        bed_done(&b);
}

TEST(evlog_appends_during_a_slow_commit_are_one_transaction)
{
        struct bed b;
        struct reader r = { 0 };

        bed_init(&b);
        reader_start(&b, &r, "a", 0);
        gate_hold(&gate.holds_commits, true);
        append_numbers(&b, "a", 1, 1);
        bed_turn(&b);
        gate_await(gate_is_occupied);
        for (uint64_t n = 2; n <= 101; n++) {
                append_numbers(&b, "a", n, n);
                bed_turn(&b);
        }
        gate_hold(&gate.holds_commits, false);
        reader_reach(&b, &r, 101);
        EXPECT_INT(gate.n_commits, 2);
        EXPECT_INT(gate.sizes[0], 1);
        EXPECT_INT(gate.sizes[1], 100);
        EXPECT_INT(r.n_wakes, 2);
        evsub_free(r.sub);
        bed_done(&b);
}

static int see_doc(void *arg, const char *key, const char *doc, size_t len)
{
        char *text = arg;

        (void) snprintf(text, 32, "%s=%.*s", key, (int) len, doc);
        return 0;
}

TEST(evlog_commits_documents_and_events_in_one_transaction)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("1"), *doc = text_chunk("busy");
        struct store_op ops[] = {
                { .op = OP_PUT, .key = "session/1", .doc = doc },
                { .op = OP_EVENT, .key = "a", .ev = { .kind = 5, .body = body } },
                { .op = OP_EVENT, .key = "b", .ev = { .kind = 5, .body = body, .at_us = 77 } },
                { .op = OP_DEL, .key = "session/0" },
        };
        struct bed b;
        struct error err = { 0 };
        char text[32] = "";

        bed_init(&b);
        EXPECT_INT(evlog_commit(b.log, ops, ARRAY_LEN(ops), &err), 1);
        EXPECT_INT(ops[1].ev.seq, 1);
        EXPECT(ops[1].ev.at_us > 0);
        EXPECT_INT(ops[2].ev.seq, 1);
        EXPECT_INT(ops[2].ev.at_us, 77);
        await_commit(&b);
        EXPECT_INT(gate.n_commits, 1);
        EXPECT_INT(gate.sizes[0], 4);
        EXPECT_OK(evlog_docs(b.log, "session/", see_doc, text, &err), err);
        EXPECT_STR(text, "session/1=busy");
        bed_done(&b);
}

TEST(evlog_uses_no_number_when_one_operation_is_refused)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("1");
        struct store_op ops[] = {
                { .op = OP_EVENT, .key = "a", .ev = { .kind = 5, .body = body } },
                { .op = OP_EVENT, .key = "unreadable", .ev = { .kind = 5, .body = body } },
        };
        struct bed b;
        struct error err = { 0 };

        bed_init(&b);
        EXPECT_ERR(evlog_commit(b.log, ops, 2, &err), ERR_SYSTEM, err);
        EXPECT_STR(err.msg, "look up topic 'unreadable': store 'x': Input/output error");
        append_numbers(&b, "a", 1, 1);
        await_commit(&b);
        EXPECT_INT(gate.sizes[0], 1);
        bed_done(&b);
}

TEST(evlog_checks_the_length_of_keys_and_bodies)
{
        _cleanup_(chunk_unrefp) struct chunk *small = text_chunk("1"),
                                             *most = chunk_new(EVLOG_BODY_MAX),
                                             *over = chunk_new(EVLOG_BODY_MAX + 1);
        char key[STORE_KEY_MAX + 2];
        struct bed b;
        struct error err = { 0 };

        bed_init(&b);
        memset(key, 'k', sizeof(key));
        memset(chunk_bytes(most), 'x', most->len);
        key[STORE_KEY_MAX + 1] = 0;
        EXPECT_ERR(evlog_append(b.log, key, 0, small, NULL, &err), ERR_INVALID, err);
        EXPECT_ERR(evlog_append(b.log, "", 0, small, NULL, &err), ERR_INVALID, err);
        key[STORE_KEY_MAX] = 0;
        EXPECT_INT(evlog_append(b.log, key, 0, small, NULL, &err), 1);
        EXPECT_ERR(evlog_append(b.log, "a", 0, over, NULL, &err), ERR_TOO_BIG, err);
        EXPECT_INT(evlog_append(b.log, "a", 0, most, NULL, &err), 0); /* full with it alone */
        await_commit(&b);
        bed_done(&b);
}

TEST(evlog_barrier_without_anything_pending_comes_later_all_the_same)
{
        struct bed b;

        bed_init(&b);
        await_commit(&b); /* expects that it is not called from inside */
        append_numbers(&b, "a", 1, 1);
        await_commit(&b);
        await_commit(&b);
        bed_done(&b);
}

/* Cursors */

TEST(evlog_subscribers_share_one_chunk)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("1");
        struct bed b;
        struct evsub *s[2];
        const struct event *e[2];
        struct error err = { 0 };
        int wakes = 0;

        bed_init(&b);
        for (int i = 0; i < 2; i++)
                EXPECT_OK(evlog_subscribe(b.log, "a", 0, count_call, &wakes, &s[i], &err), err);
        EXPECT_INT(evlog_append(b.log, "a", 5, body, NULL, &err), 1);
        await_commit(&b);
        EXPECT_INT(wakes, 2);
        for (int i = 0; i < 2; i++)
                EXPECT_INT(evsub_next(s[i], &e[i], &err), 1);
        EXPECT(e[0]->body == body);
        EXPECT(e[1]->body == body);
        for (int i = 0; i < 2; i++)
                evsub_free(s[i]);
        bed_done(&b);
}

TEST(evlog_newcomer_reads_the_store_then_the_tail)
{
        enum { OLD = 3 * EVLOG_TAIL_EVENTS };
        struct bed b;
        struct reader early = { 0 }, late = { 0 }, middle = { 0 };

        bed_init(&b);
        reader_start(&b, &early, "a", 0);
        append_numbers(&b, "a", 1, OLD);
        reader_reach(&b, &early, OLD);

        /* While it reads its pages, more is appended: the boundary between store and tail moves. */
        reader_start(&b, &late, "a", 0);
        reader_start(&b, &middle, "a", OLD - 10);
        for (uint64_t n = OLD + 1; n <= OLD + 2000; n += 20) {
                append_numbers(&b, "a", n, n + 19);
                bed_turn(&b);
        }
        reader_reach(&b, &late, OLD + 2000);
        reader_reach(&b, &middle, OLD + 2000);
        reader_reach(&b, &early, OLD + 2000);
        EXPECT(gate.n_reads >= OLD / EVLOG_PAGE_EVENTS - EVLOG_TAIL_EVENTS / EVLOG_PAGE_EVENTS);
        evsub_free(early.sub);
        evsub_free(late.sub);
        evsub_free(middle.sub);
        bed_done(&b);
}

/* One event per turn of the loop, while the writer is much faster. */
TEST(evlog_slow_reader_falls_behind_the_tail_and_misses_nothing)
{
        enum { ALL = EVLOG_TAIL_EVENTS + 600 };
        struct bed b;
        struct evsub *s;
        const struct event *e;
        struct error err = { 0 };
        uint64_t seen = 0;
        int wakes = 0, r;

        bed_init(&b);
        EXPECT_OK(evlog_subscribe(b.log, "a", 0, count_call, &wakes, &s, &err), err);
        for (uint64_t n = 1; n <= ALL; n += 8) {
                append_numbers(&b, "a", n, n + 7);
                await_commit(&b);
                r = evsub_next(s, &e, &err);
                EXPECT(r >= 0);
                if (r > 0)
                        EXPECT_INT(e->seq, ++seen);
        }
        EXPECT(seen < ALL - EVLOG_TAIL_EVENTS);
        while (seen < ALL) {
                int was = wakes;

                r = evsub_next(s, &e, &err);
                EXPECT(r >= 0);
                if (r > 0)
                        EXPECT_INT(e->seq, ++seen);
                while (r == 0 && wakes == was)
                        bed_turn(&b);
        }
        EXPECT_INT(evsub_next(s, &e, &err), 0);
        evsub_free(s);
        bed_done(&b);
}

TEST(evlog_tail_is_bounded_by_bytes)
{
        enum { EACH = EVLOG_TAIL_BYTES / 4 };
        struct bed b;
        struct evsub *s;
        const struct event *e;
        struct error err = { 0 };
        int wakes = 0;

        bed_init(&b);
        EXPECT_OK(evlog_subscribe(b.log, "a", 0, count_call, &wakes, &s, &err), err);
        for (int i = 0; i < 5; i++) {
                _cleanup_(chunk_unrefp) struct chunk *body = chunk_new(EACH);

                memset(chunk_bytes(body), 'x', EACH);
                EXPECT_INT(evlog_append(b.log, "a", 5, body, NULL, &err), 1);
        }
        await_commit(&b);
        EXPECT_INT(evsub_next(s, &e, &err), 0); /* the first has left: a page is being read */
        for (uint64_t seq = 1; seq <= 5;) {
                int r = evsub_next(s, &e, &err);

                EXPECT(r >= 0);
                if (r > 0)
                        EXPECT_INT(e->seq, seq++);
                else
                        bed_turn(&b);
        }
        EXPECT_INT(gate.n_reads, 1);
        evsub_free(s);
        bed_done(&b);
}

TEST(evlog_cursor_from_the_future_gets_what_comes)
{
        struct bed b;
        struct reader r = { 0 };
        struct error err = { 0 };

        bed_init(&b);
        append_numbers(&b, "a", 1, 2);
        await_commit(&b);
        EXPECT_OK(evlog_subscribe(b.log, "a", 99, reader_pull, &r, &r.sub, &err), err);
        r.seen = 2;
        append_numbers(&b, "a", 3, 4);
        reader_reach(&b, &r, 4);
        evsub_free(r.sub);
        bed_done(&b);
}

struct freer {
        struct evsub *self, *other;
        int n;
};

static void free_both(void *arg)
{
        struct freer *f = arg;

        f->n++;
        f->self = evsub_free(f->self);
        f->other = evsub_free(f->other);
}

TEST(evlog_wake_may_free_its_own_and_other_cursors)
{
        struct bed b;
        struct freer f = { 0 };
        struct error err = { 0 };

        bed_init(&b);
        EXPECT_OK(evlog_subscribe(b.log, "a", 0, free_both, &f, &f.self, &err), err);
        EXPECT_OK(evlog_subscribe(b.log, "a", 0, free_both, &f, &f.other, &err), err);
        append_numbers(&b, "a", 1, 1);
        await_commit(&b);
        EXPECT_INT(f.n, 1);
        append_numbers(&b, "a", 2, 2); /* without a listener */
        await_commit(&b);
        bed_done(&b);
}

TEST(evlog_cursor_freed_while_its_page_is_read_is_safe)
{
        struct bed b;
        struct evsub *s;
        const struct event *e;
        struct error err = { 0 };
        int wakes = 0;

        bed_init(&b);
        append_numbers(&b, "a", 1, 3);
        await_commit(&b);
        gate_hold(&gate.holds_reads, true);
        EXPECT_OK(evlog_subscribe(b.log, "a", 0, count_call, &wakes, &s, &err), err);
        EXPECT_INT(evsub_next(s, &e, &err), 0);
        gate_await(gate_is_occupied);
        evsub_free(s);
        gate_hold(&gate.holds_reads, false);
        bed_done(&b);
        EXPECT_INT(wakes, 0);
}
