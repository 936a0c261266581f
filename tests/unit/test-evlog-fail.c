/* The event log at its limits: memory, retention, a store that fails or hangs, the end. */
#include "base/macro.h"
#include "test-evlog-bed.h"

/* Memory */

TEST(evlog_forgets_silent_topics_and_still_knows_their_numbers)
{
        struct bed b;
        struct evlog_stats st;
        char name[24];

        bed_init(&b);
        for (int i = 0; i < EVLOG_IDLE_TOPICS + 50; i++) {
                (void) snprintf(name, sizeof(name), "t%d", i);
                EXPECT_INT(append(&b, name, "x"), 1);
        }
        await_commit(&b);
        evlog_stats(b.log, &st);
        EXPECT_INT(st.topics, EVLOG_IDLE_TOPICS);
        EXPECT_INT(gate.n_ranges, EVLOG_IDLE_TOPICS + 50);
        EXPECT_INT(append(&b, "t0", "x"), 2); /* asked of the store */
        EXPECT_INT(gate.n_ranges, EVLOG_IDLE_TOPICS + 51);
        EXPECT_INT(append(&b, name, "x"), 2); /* remembered */
        EXPECT_INT(gate.n_ranges, EVLOG_IDLE_TOPICS + 51);
        bed_done(&b);
}

TEST(evlog_says_full_at_the_high_mark_and_calls_when_there_is_room)
{
        enum { EACH = 1024 * 1024 };
        _cleanup_(chunk_unrefp) struct chunk *mb = chunk_new(EACH), *none = text_chunk("");
        struct bed b;
        struct error err = { 0 };
        struct evlog_stats st;
        int rooms = 0, others = 0, r = 1;

        bed_init(&b);
        memset(chunk_bytes(mb), 'x', EACH);
        evlog_on_room(b.log, count_call, &rooms);
        evlog_on_room(b.log, count_call, &others);
        evlog_off_room(b.log, count_call, &others);
        gate_hold(&gate.holds_commits, true);
        while (r == 1) {
                evlog_stats(b.log, &st);
                EXPECT(st.pending_bytes <= EVLOG_PENDING_BYTES);
                r = evlog_append(b.log, "a", 0, mb, NULL, &err);
        }
        EXPECT_INT(r, 0);
        evlog_stats(b.log, &st);
        EXPECT(st.pending_bytes > EVLOG_PENDING_BYTES);
        EXPECT_INT(evlog_append(b.log, "a", 0, none, NULL, &err), 0); /* taken, though full */

        while (r >= 0) /* a source that does not listen */
                r = evlog_append(b.log, "a", 0, mb, NULL, &err);
        EXPECT_INT(err.kind, ERR_BUSY);
        evlog_stats(b.log, &st);
        EXPECT(st.pending_bytes > EVLOG_PENDING_MAX);
        EXPECT(st.pending_bytes < EVLOG_PENDING_MAX + 2 * EACH);
        bed_turn(&b);
        EXPECT_INT(rooms, 0);
        gate_hold(&gate.holds_commits, false);
        await_commit(&b);
        bed_turn(&b);
        EXPECT_INT(rooms, 1);
        EXPECT_INT(others, 0);
        EXPECT_INT(evlog_append(b.log, "a", 0, none, NULL, &err), 1);
        await_commit(&b);
        EXPECT_INT(rooms, 1);
        bed_done(&b);
}

/* Retention */

TEST(evlog_cursor_behind_retention_is_told)
{
        struct bed b;
        struct reader r = { 0 };
        struct told told = { 0 };
        struct error err = { 0 };
        uint64_t first, last;

        bed_init(&b);
        append_numbers(&b, "a", 1, 10);
        await_commit(&b);
        reader_start(&b, &r, "a", 3); /* would need 4 */
        r.until = UINT64_MAX;
        evlog_trim(b.log, "a", 5, tell, &told);
        EXPECT(!told.is_told);
        gate_hold(&gate.holds_reads, true);
        EXPECT(bed_await(&b, &told.is_told));
        EXPECT_INT(told.why.kind, ERR_OK);
        gate_hold(&gate.holds_reads, false);
        EXPECT(bed_await(&b, &r.is_there));
        EXPECT_INT(r.over.kind, ERR_NOT_FOUND);
        EXPECT_STR(r.over.msg, "event 4 of topic 'a' is no longer kept");
        EXPECT_INT(r.seen, 3);
        evsub_free(r.sub);

        EXPECT_ERR(evlog_subscribe(b.log, "a", 4, reader_pull, &r, &r.sub, &err), ERR_NOT_FOUND,
                   err);
        EXPECT_OK(evlog_range(b.log, "a", &first, &last, &err), err);
        EXPECT_INT(first, 6);
        EXPECT_INT(last, 10);
        r = (struct reader) { 0 };
        reader_start(&b, &r, "a", 5);
        reader_reach(&b, &r, 10);
        evsub_free(r.sub);

        told.is_told = false;
        evlog_trim(b.log, "a", UINT64_MAX, tell, &told);
        EXPECT(bed_await(&b, &told.is_told));
        append_numbers(&b, "a", 11, 11);
        bed_done(&b);
}

/* Failure */

TEST(evlog_failed_commit_is_tried_again_and_loses_nothing)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("4");
        struct bed b;
        struct reader r = { 0 };
        struct told told = { 0 };
        struct error err = { 0 };
        struct evlog_stats st = { 0 };
        int rooms = 0;

        bed_init(&b);
        reader_start(&b, &r, "a", 0);
        evlog_on_room(b.log, count_call, &rooms);
        gate.n_failing = 1;
        gate_hold(&gate.holds_commits, true);
        append_numbers(&b, "a", 1, 2);
        bed_turn(&b);
        gate_await(gate_is_occupied);
        append_numbers(&b, "a", 3, 3); /* behind the one that is going to fail */
        evlog_barrier(b.log, tell, &told);
        gate_hold(&gate.holds_commits, false);
        while (!st.is_failing) {
                bed_turn(&b);
                evlog_stats(b.log, &st);
        }
        EXPECT_STR(st.why, "store 'x': database or disk is full");
        EXPECT_INT(st.failed_commits, 1);
        EXPECT_INT(r.n_wakes, 0);
        EXPECT(!told.is_told);
        EXPECT_ERR(evlog_append(b.log, "a", 5, body, NULL, &err), ERR_BUSY, err);
        EXPECT_STR(err.msg, "the event log takes nothing now: store 'x': database or disk is full");

        reader_reach(&b, &r, 3);
        EXPECT(bed_await(&b, &told.is_told));
        EXPECT_INT(told.why.kind, ERR_OK);
        bed_turn(&b);
        EXPECT_INT(rooms, 1); /* who was refused hears that it is over */
        evlog_stats(b.log, &st);
        EXPECT(!st.is_failing);
        EXPECT_INT(st.committed, 3);
        append_numbers(&b, "a", 4, 4);
        reader_reach(&b, &r, 4);
        evsub_free(r.sub);
        bed_done(&b);
}

TEST(evlog_trim_is_done_while_commits_fail)
{
        struct bed b;
        struct reader r = { 0 };
        struct evlog_stats st = { 0 };

        bed_init(&b);
        append_numbers(&b, "old", 1, 3);
        await_commit(&b);
        gate.n_failing = 1000000;
        reader_start(&b, &r, "a", 0);
        append_numbers(&b, "a", 1, 2);
        while (!st.is_failing) {
                bed_turn(&b);
                evlog_stats(b.log, &st);
        }
        evlog_trim(b.log, "old", 3, NULL, NULL);
        reader_reach(&b, &r, 2);
        evsub_free(r.sub);
        bed_done(&b);
}

/* Ending */

TEST(evlog_free_commits_what_is_pending)
{
        struct bed b;
        struct told told = { 0 };

        bed_init(&b);
        append_numbers(&b, "a", 1, 5);
        evlog_barrier(b.log, tell, &told);
        b.log = evlog_free(b.log, -1);
        EXPECT_INT(told.n, 1);
        EXPECT_INT(told.why.kind, ERR_OK);
        EXPECT_INT(gate.sizes[0], 5);
        loop_free(b.loop);
}

TEST(evlog_free_gives_up_on_a_failing_store_and_says_why)
{
        struct bed b;
        struct told told = { 0 };

        bed_init(&b);
        gate.n_failing = 1000;
        append_numbers(&b, "a", 1, 1);
        evlog_barrier(b.log, tell, &told);
        b.log = evlog_free(b.log, 100);
        EXPECT_INT(told.n, 1);
        EXPECT_INT(told.why.kind, ERR_SYSTEM);
        EXPECT_STR(told.why.msg, "store 'x': database or disk is full");
        gate_await(gate_is_closed); /* by the writer, if it was inside at the deadline */
        loop_free(b.loop);
}

TEST(evlog_free_leaves_a_stuck_writer_behind)
{
        struct bed b;
        struct told first = { 0 }, second = { 0 }, trimmed = { 0 };

        bed_init(&b);
        gate_hold(&gate.holds_commits, true);
        append_numbers(&b, "a", 1, 1);
        evlog_barrier(b.log, tell, &first);
        bed_turn(&b);
        gate_await(gate_is_occupied);
        append_numbers(&b, "a", 2, 2);
        evlog_barrier(b.log, tell, &second);
        evlog_trim(b.log, "a", 1, tell, &trimmed);
        b.log = evlog_free(b.log, 1);
        EXPECT_INT(first.why.kind, ERR_TIMEOUT);
        EXPECT_INT(second.why.kind, ERR_TIMEOUT);
        EXPECT_INT(trimmed.why.kind, ERR_TIMEOUT);
        EXPECT(!gate.is_closed);
        gate_hold(&gate.holds_commits, false);
        gate_await(gate_is_closed);
        loop_free(b.loop);
}

TEST(evlog_free_with_a_read_inside_closes_when_it_has_left)
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
        b.log = evlog_free(b.log, 1);
        EXPECT(!gate.is_closed);
        EXPECT_ERR(evsub_next(s, &e, &err), ERR_BUSY, err);
        evsub_free(s);
        gate_hold(&gate.holds_reads, false);
        gate_await(gate_is_closed);
        loop_free(b.loop);
        EXPECT_INT(wakes, 0);
}

struct closer {
        struct bed *bed;
        bool is_done;
};

static void close_log(void *arg, const struct error *why)
{
        struct closer *c = arg;

        c->bed->log = evlog_free(c->bed->log, -1);
        c->is_done = true;
}

static void close_log_room(void *arg)
{
        close_log(arg, NULL);
}

TEST(evlog_may_be_freed_by_its_own_callback)
{
        struct bed b;
        struct told told = { 0 };
        struct closer c = { .bed = &b };
        struct evsub *s;
        struct error err = { 0 };
        int wakes = 0;

        bed_init(&b);
        EXPECT_OK(evlog_subscribe(b.log, "a", 0, count_call, &wakes, &s, &err), err);
        append_numbers(&b, "a", 1, 1);
        evlog_barrier(b.log, close_log, &c);
        evlog_barrier(b.log, tell, &told);
        EXPECT(bed_await(&b, &c.is_done));
        EXPECT_INT(told.n, 1);
        EXPECT_INT(told.why.kind, ERR_OK);
        EXPECT_INT(wakes, 0);
        evsub_free(s);
        loop_free(b.loop);
}

TEST(evlog_may_be_freed_when_there_is_room)
{
        _cleanup_(chunk_unrefp) struct chunk *most = chunk_new(EVLOG_BODY_MAX);
        struct bed b;
        struct closer c = { .bed = &b };
        struct error err = { 0 };
        int rooms = 0;

        bed_init(&b);
        memset(chunk_bytes(most), 'x', most->len);
        evlog_on_room(b.log, close_log_room, &c);
        evlog_on_room(b.log, count_call, &rooms);
        EXPECT_INT(evlog_append(b.log, "a", 0, most, NULL, &err), 0);
        EXPECT(bed_await(&b, &c.is_done));
        EXPECT_INT(rooms, 0);
        loop_free(b.loop);
}
