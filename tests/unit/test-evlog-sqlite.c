/* The event log over the real store: restarts, a full disk, kill -9. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/str.h"
#include "event/evlog.h"
#include "io/loop.h"
#include "store/store.h"
#include "test-evlog.h"

struct bed {
        struct loop *loop;
        struct evlog *log;
};

static void bed_init(struct bed *b, const char *dsn)
{
        struct error err = { 0 };

        b->loop = loop_new();
        EXPECT_OK(evlog_new(b->loop, &store_sqlite, dsn, &b->log, &err), err);
}

static void bed_done(struct bed *b)
{
        b->log = evlog_free(b->log, -1);
        b->loop = loop_free(b->loop);
}

enum { PATIENCE_MS = 10000 };

static void bed_await(struct bed *b, const bool *flag)
{
        EXPECT(loop_run_until(b->loop, flag, PATIENCE_MS));
}

static void note_done(void *arg, const struct error *why)
{
        *(bool *) arg = true;
        EXPECT(!why);
}

static void append_many(struct bed *b, const char *topic, uint64_t first, uint64_t last)
{
        for (uint64_t n = first; n <= last; n++) {
                char text[24];
                struct chunk *body;
                struct error err = { 0 };
                uint64_t seq;

                (void) snprintf(text, sizeof(text), "%" PRIu64, n);
                body = text_chunk(text);
                EXPECT_OK(evlog_append(b->log, topic, 5, body, &seq, &err), err);
                EXPECT_INT(seq, n);
                chunk_unref(body);
        }
}

static void await_commit(struct bed *b)
{
        bool done = false;

        evlog_barrier(b->log, note_done, &done);
        bed_await(b, &done);
}

struct reader {
        struct evsub *sub;
        uint64_t seen, until;
        bool is_there;
};

static void reader_pull(void *arg)
{
        struct reader *r = arg;
        const struct event *e;
        struct error err = { 0 };
        int k;

        while ((k = evsub_next(r->sub, &e, &err)) > 0)
                EXPECT_INT(e->seq, ++r->seen);
        EXPECT_OK(k, err);
        r->is_there = r->seen == r->until;
}

static void expect_all(struct bed *b, const char *topic, uint64_t after, uint64_t until)
{
        struct reader r = { .seen = after, .until = until };
        struct error err = { 0 };

        EXPECT_OK(evlog_subscribe(b->log, topic, after, reader_pull, &r, &r.sub, &err), err);
        bed_await(b, &r.is_there);
        EXPECT_INT(r.seen, until);
        evsub_free(r.sub);
}

TEST(evlog_goes_on_where_it_stopped_after_a_restart)
{
        struct scratch s;
        struct bed b;
        bool done = false;

        scratch_init(&s);
        bed_init(&b, s.db);
        append_many(&b, "a", 1, 700);
        append_many(&b, "b", 1, 2);
        bed_done(&b);

        bed_init(&b, s.db);
        expect_all(&b, "a", 0, 700);
        expect_all(&b, "a", 650, 700);
        append_many(&b, "a", 701, 702);
        append_many(&b, "b", 3, 3);
        await_commit(&b);
        expect_all(&b, "a", 690, 702);
        evlog_trim(b.log, "b", 3, note_done, &done);
        bed_await(&b, &done);
        bed_done(&b);

        bed_init(&b, s.db);
        append_many(&b, "b", 4, 4); /* nothing is left of b, but its numbers go on */
        bed_done(&b);
        scratch_done(&s);
}

/* Readers of both kinds while a writer is at work on the same file. */
TEST(evlog_reads_pages_while_it_writes)
{
        enum { OLD = 2500, ALL = 6000 };
        struct scratch s;
        struct bed b;
        struct reader r[3] = { { .until = ALL }, { .until = ALL }, { .until = ALL } };
        struct error err = { 0 };

        scratch_init(&s);
        bed_init(&b, s.db);
        append_many(&b, "a", 1, OLD);
        await_commit(&b);
        for (int i = 0; i < 3; i++) {
                r[i].seen = (uint64_t) i * 1000;
                EXPECT_OK(
                        evlog_subscribe(b.log, "a", r[i].seen, reader_pull, &r[i], &r[i].sub, &err),
                        err);
        }
        for (uint64_t n = OLD + 1; n <= ALL; n += 50) {
                append_many(&b, "a", n, n + 49);
                append_many(&b, "other", n - OLD, n - OLD + 49);
                await_commit(&b);
        }
        for (int i = 0; i < 3; i++) {
                bed_await(&b, &r[i].is_there);
                evsub_free(r[i].sub);
        }
        bed_done(&b);
        scratch_done(&s);
}

TEST(evlog_on_a_full_disk_refuses_then_recovers_without_loss)
{
        _cleanup_(chunk_unrefp) struct chunk *body = chunk_new(3000);
        struct scratch s;
        struct bed b;
        struct evlog_stats st = { 0 };
        struct error err = { 0 };
        uint64_t last = 0;
        char dsn[128];

        memset(chunk_bytes(body), 'x', body->len);
        scratch_init(&s);
        (void) snprintf(dsn, sizeof(dsn), "%s?max_pages=60", s.db);
        bed_init(&b, dsn);
        append_many(&b, "old", 1, 1);
        for (int i = 0; i < 20; i++)
                EXPECT_OK(evlog_append(b.log, "old", 5, body, NULL, &err), err);
        await_commit(&b);
        while (!st.is_failing) { /* three at a time, each three decided before the next */
                for (int i = 0; i < 3; i++)
                        EXPECT_OK(evlog_append(b.log, "a", 5, body, &last, &err), err);
                do {
                        (void) loop_run_until(b.loop, &st.is_failing, 0);
                        evlog_stats(b.log, &st);
                } while (st.committed < st.appended && !st.is_failing);
        }
        EXPECT_ERR(evlog_append(b.log, "a", 5, body, NULL, &err), ERR_BUSY, err);
        EXPECT(strstr(err.msg, "database or disk is full") != NULL);
        EXPECT_INT(st.committed, st.appended - 3);

        evlog_trim(b.log, "old", 21, NULL, NULL);
        expect_all(&b, "a", 0, last);
        EXPECT_OK(evlog_append(b.log, "a", 5, body, &last, &err), err);
        evlog_stats(b.log, &st);
        EXPECT_INT(st.appended, 21 + last);
        bed_done(&b);

        bed_init(&b, s.db);
        expect_all(&b, "a", 0, last);
        bed_done(&b);
        scratch_done(&s);
}

/* kill -9
 *
 * A child appends as fast as it can, in bursts of different sizes, and reports each number on a
 * pipe once its barrier was called. It is killed after a number of reports that differs from round
 * to round. Then the file is opened: what was reported is there, without holes, and the document
 * that goes with each burst agrees with the last event.
 *
 * Two of three events of topic t are in topic u as well, so each number of t tells the one of u: a
 * pair of which only one half came down would show. */

static bool is_in_both(uint64_t seq)
{
        return seq % 3 != 0;
}

static uint64_t number_in_u(uint64_t seq)
{
        return seq - seq / 3;
}

struct victim {
        struct bed bed;
        int fd;
        uint64_t last;
        int burst;
};

static void victim_append(struct victim *v)
{
        char text[32];
        struct chunk *body, *doc;
        struct error err;
        int n = v->burst++ % 7 + 1;

        for (int i = 0; i < n; i++) {
                (void) snprintf(text, sizeof(text), "%" PRIu64, v->last + 1);
                body = text_chunk(text);
                doc = chunk_ref(body);
                struct store_op ops[] = {
                        { .op = OP_EVENT, .key = "t", .ev = { .kind = 1, .body = body } },
                        { .op = OP_PUT, .key = "last", .doc = doc },
                };
                ops[0].also = is_in_both(v->last + 1) ? "u" : NULL;
                if (evlog_commit(v->bed.log, ops, 2, &err) < 0 || ops[0].ev.seq != v->last + 1)
                        _exit(3);
                if (ops[0].also && ops[0].also_seq != number_in_u(ops[0].ev.seq))
                        _exit(6);
                v->last = ops[0].ev.seq;
                chunk_unref(body);
                chunk_unref(doc);
        }
}

struct report {
        struct victim *v;
        uint64_t seq;
};

static void victim_report(void *arg, const struct error *why)
{
        struct report *r = arg;
        struct victim *v = r->v;

        if (why || write(v->fd, &r->seq, sizeof(r->seq)) != sizeof(r->seq))
                _exit(4);
        free(r);
        r = NEW(struct report);
        victim_append(v);
        *r = (struct report) { v, v->last };
        evlog_barrier(v->bed.log, victim_report, r);
}

static _Noreturn void victim_main(const char *dsn, int fd)
{
        struct victim v = { .fd = fd };
        struct error err = { 0 };
        uint64_t first;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        v.bed.loop = loop_new();
        if (evlog_new(v.bed.loop, &store_sqlite, dsn, &v.bed.log, &err) < 0 ||
            evlog_range(v.bed.log, "t", &first, &v.last, &err) < 0)
                _exit(2);
        /* Three chains of reports, so that commits overlap with appends. */
        for (int i = 0; i < 3; i++) {
                struct report *r = NEW(struct report);

                victim_append(&v);
                *r = (struct report) { &v, v.last };
                evlog_barrier(v.bed.log, victim_report, r);
        }
        loop_run(v.bed.loop);
        _exit(5);
}

/* Returns the highest number that was reported. */
static uint64_t kill_after(const char *dsn, int n_reports)
{
        uint64_t seq, acked = 0;
        int fds[2], status;
        pid_t pid;

        EXPECT_INT(pipe(fds), 0);
        pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
                victim_main(dsn, fds[1]);
        (void) close(fds[1]);
        for (int i = 0; i < n_reports; i++) {
                EXPECT_INT(read(fds[0], &seq, sizeof(seq)), sizeof(seq));
                acked = MAX(acked, seq);
        }
        EXPECT_INT(kill(pid, SIGKILL), 0);
        EXPECT_INT(waitpid(pid, &status, 0), pid);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (read(fds[0], &seq, sizeof(seq)) == sizeof(seq)) /* said before it died */
                acked = MAX(acked, seq);
        (void) close(fds[0]);
        return acked;
}

static int read_number(void *arg, const char *key, const char *doc, size_t len)
{
        return str_to_u64(doc, len, arg) ? 0 : -1;
}

/* Every number of the topic, with the body that belongs to it. */
static void expect_no_holes(void *h, const char *topic, uint64_t last)
{
        struct event events[128];
        struct error err = { 0 };
        uint64_t seen = 0, body = 0;
        char text[24];
        int n;

        while ((n = store_sqlite.events(h, topic, seen, events, ARRAY_LEN(events), &err)) > 0)
                for (int i = 0; i < n; i++) {
                        body++;
                        if (*topic == 'u' && !is_in_both(body))
                                body++;
                        EXPECT_INT(events[i].seq, ++seen);
                        (void) snprintf(text, sizeof(text), "%" PRIu64, body);
                        expect_body(&events[i], text);
                        chunk_unref(events[i].body);
                }
        EXPECT_OK(n, err);
        EXPECT_INT(seen, last);
}

TEST(evlog_loses_nothing_acknowledged_to_kill_9)
{
        struct scratch s;

        scratch_init(&s);
        for (int round = 0; round < 30; round++) {
                uint64_t acked = kill_after(s.db, 1 + round * 7 % 23);
                uint64_t first, last, doc = 0;
                struct error err = { 0 };
                void *h;

                EXPECT_OK(store_sqlite.open(s.db, &h, &err), err);
                EXPECT_OK(store_sqlite.range(h, "t", &first, &last, &err), err);
                EXPECT(last >= acked);
                expect_no_holes(h, "t", last);
                expect_no_holes(h, "u", number_in_u(last));
                EXPECT_OK(store_sqlite.docs(h, "last", read_number, &doc, &err), err);
                EXPECT_INT(doc, last);
                store_sqlite.close(h);
        }
        scratch_done(&s);
}
