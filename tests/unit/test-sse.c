#include "http/sse.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "http/client.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/socket.h"
#include "test.h"

TEST(sse_frame_writes_the_wire_format)
{
        static const struct {
                const char *event;
                uint64_t id;
                const char *data, *want;
        } rows[] = {
                { "message", 12, "{\"a\":1}", "event: message\nid: 12\ndata: {\"a\":1}\n\n" },
                { NULL, 0, "x", "data: x\n\n" },
                { NULL, 7, "", "id: 7\ndata: \n\n" },
                { "e", 0, "a\nb", "event: e\ndata: a\ndata: b\n\n" },
                { NULL, 0, "a\r\nb\rc\n", "data: a\ndata: b\ndata: c\ndata: \n\n" },
                { NULL, UINT64_MAX, "x", "id: 18446744073709551615\ndata: x\n\n" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _cleanup_(buf_done) struct buf out = { 0 };

                sse_frame(&out, rows[i].event, rows[i].id, rows[i].data, strlen(rows[i].data));
                EXPECT_STR(out.data, rows[i].want);
        }
}

TEST(sse_parse_id_wants_an_integer)
{
        struct error err = { 0 };
        uint64_t id;

        EXPECT_OK(sse_parse_id(SLICE(""), "Last-Event-ID", &id, &err), err);
        EXPECT_INT(id, 0);
        EXPECT_OK(sse_parse_id(SLICE(" 42 "), "Last-Event-ID", &id, &err), err);
        EXPECT_INT(id, 42);
        EXPECT_ERR(sse_parse_id(SLICE("-1"), "Last-Event-ID", &id, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "Last-Event-ID must be a positive integer");
        EXPECT_ERR(sse_parse_id(SLICE("1.5"), "offset", &id, &err), ERR_INVALID, err);
        EXPECT_ERR(sse_parse_id(SLICE("18446744073709551616"), "offset", &id, &err), ERR_INVALID,
                   err);
}

/* ---- through the server: one stream, one reader, one loop ---- */

struct feed {
        struct loop *loop;
        struct router *router;
        struct http_server *server;
        struct sse *sse;
        uint64_t last_id;
        int n_gone, n_rooms;
        bool is_open, is_gone, has_room;
        /* the reader */
        struct http_call *call;
        struct buf seen;
        char type[64], cache[32], accel[16];
        int status;
        size_t want; /* bytes that complete the wait */
        bool is_over, has_failed, has_want;
};

static void feed_room(void *arg)
{
        struct feed *f = arg;

        f->n_rooms++;
        f->has_room = true;
}

static void feed_gone(void *arg)
{
        struct feed *f = arg;

        f->n_gone++;
        f->is_gone = true;
        f->sse = sse_free(f->sse);
}

static const struct sse_cb feed_events = { feed_room, feed_gone };

static int open_feed(struct req *r, struct error *err)
{
        struct feed *f = req_app(r);

        if (sse_last_id(r, &f->last_id, err) < 0 || sse_open(r, &feed_events, f, &f->sse, err) < 0)
                return -1;
        f->is_open = true;
        return 0;
}

static const struct route rows[] = { { "GET", "/events", open_feed, R_OPEN, .doc = "Events." },
                                     { 0 } };

static void reader_head(void *arg, int status)
{
        struct feed *f = arg;

        f->status = status;
        (void) snprintf(f->type, sizeof(f->type), "%s",
                        http_call_header(f->call, "content-type") ?: "");
        (void) snprintf(f->cache, sizeof(f->cache), "%s",
                        http_call_header(f->call, "cache-control") ?: "");
        (void) snprintf(f->accel, sizeof(f->accel), "%s",
                        http_call_header(f->call, "x-accel-buffering") ?: "");
}

static void reader_data(void *arg, const char *data, size_t len)
{
        struct feed *f = arg;

        buf_put(&f->seen, data, len);
        f->has_want = f->want && f->seen.len >= f->want;
}

static void reader_end(void *arg, const struct error *why)
{
        struct feed *f = arg;

        f->is_over = true;
        f->has_failed = why;
}

static const struct http_call_cb reader_events = { reader_head, reader_data, NULL, reader_end };

static void feed_open(struct feed *f, const char *method, const char *query, const char *header)
{
        const struct route *const tables[] = { rows, NULL };
        const char *const headers[] = { header, NULL };
        struct listen_spec where = { .host = "127.0.0.1", .fd = -1, .backlog = 8 };
        struct error err = { 0 };
        char url[128];

        *f = (struct feed) { .loop = loop_new(), .router = router_new(tables) };
        f->server = http_server_new(
                f->loop, &(struct http_server_spec) {
                                 .router = f->router, .limits = http_limits_default, .app = f });
        EXPECT_OK(http_server_listen(f->server, &where, &err), err);
        buf_puts(&f->seen, "");
        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u/events%s",
                        http_server_port(f->server), query);
        EXPECT_OK(http_call_new(f->loop,
                                &(struct http_call_spec) {
                                        .method = method, .url = url, .headers = headers },
                                &reader_events, f, &f->call, &err),
                  err);
}

static void feed_close(struct feed *f)
{
        http_call_free(f->call);
        sse_free(f->sse);
        http_server_free(f->server);
        loop_free(f->loop);
        router_free(f->router);
        buf_done(&f->seen);
}

TEST(sse_stream_carries_events_and_ends_cleanly)
{
        _cleanup_(chunk_unrefp) struct chunk *small = chunk_copy("{}", 2), *large = chunk_new(5000);
        struct feed f;

        feed_open(&f, "GET", "", NULL);
        EXPECT(loop_run_until(f.loop, &f.is_open, 10000));
        EXPECT_INT(sse_send(f.sse, "message", 1, "one", 3), 1);
        EXPECT_INT(sse_send_chunk(f.sse, "message", 2, small), 1);
        memset(chunk_bytes(large), 'x', large->len);
        EXPECT_INT(sse_send_chunk(f.sse, NULL, 3, large), 1);
        EXPECT_INT(sse_comment(f.sse, "bye"), 1);
        f.sse = sse_free(f.sse);
        EXPECT(loop_run_until(f.loop, &f.is_over, 10000));
        EXPECT(!f.has_failed);
        EXPECT_INT(f.status, 200);
        EXPECT_STR(f.type, "text/event-stream");
        EXPECT_STR(f.cache, "no-cache");
        EXPECT_STR(f.accel, "no");
        EXPECT(str_starts(f.seen.data,
                          "event: message\nid: 1\ndata: one\n\nevent: message\nid: 2\ndata: {}\n\n"
                          "id: 3\ndata: xxxx"));
        EXPECT(str_ends(f.seen.data, "xxxx\n\n: bye\n\n"));
        EXPECT_INT(f.seen.len, 32 + 31 + 12 + 5000 + 2 + 7);
        EXPECT_INT(f.n_gone, 0);
        feed_close(&f);
}

TEST(sse_stream_breaks_the_silence_with_a_heartbeat)
{
        static const char twice[] = ": heartbeat\n\n: heartbeat\n\n";
        struct feed f;

        feed_open(&f, "GET", "", NULL);
        EXPECT(loop_run_until(f.loop, &f.is_open, 10000));
        sse_set_heartbeat(f.sse, 1);
        f.want = strlen(twice);
        EXPECT(loop_run_until(f.loop, &f.has_want, 10000));
        EXPECT(str_starts(f.seen.data, twice));
        feed_close(&f);
}

TEST(sse_stream_tells_when_the_client_left)
{
        struct feed f;

        feed_open(&f, "GET", "", NULL);
        EXPECT(loop_run_until(f.loop, &f.is_open, 10000));
        f.call = http_call_free(f.call);
        EXPECT(loop_run_until(f.loop, &f.is_gone, 10000));
        EXPECT_INT(f.n_gone, 1);
        feed_close(&f);
}

static void on_drained(void *arg)
{
        *(bool *) arg = true;
}

TEST(sse_stream_ends_kindly_when_the_server_drains)
{
        bool is_drained = false;
        struct feed f;

        feed_open(&f, "GET", "", NULL);
        EXPECT(loop_run_until(f.loop, &f.is_open, 10000));
        EXPECT_INT(sse_send(f.sse, NULL, 1, "last", 4), 1);
        http_server_drain(f.server, on_drained, &is_drained);
        EXPECT(loop_run_until(f.loop, &f.is_over, 10000));
        EXPECT(!f.has_failed);
        EXPECT_STR(f.seen.data, "id: 1\ndata: last\n\n");
        EXPECT_INT(f.n_gone, 1);
        EXPECT(loop_run_until(f.loop, &is_drained, 10000));
        feed_close(&f);
}

TEST(sse_stream_of_a_head_request_is_over_at_once)
{
        struct feed f;

        feed_open(&f, "HEAD", "", NULL);
        EXPECT(loop_run_until(f.loop, &f.is_gone, 10000));
        EXPECT(loop_run_until(f.loop, &f.is_over, 10000));
        EXPECT_INT(f.status, 200);
        EXPECT_STR(f.type, "text/event-stream");
        EXPECT_STR(f.seen.data, "");
        feed_close(&f);
}

TEST(sse_stream_says_full_and_then_room)
{
        _cleanup_free_ char *block = xcalloc(1, 64 * 1024);
        struct feed f;
        int r = 1;

        memset(block, 'x', 64 * 1024);
        feed_open(&f, "GET", "", NULL);
        EXPECT(loop_run_until(f.loop, &f.is_open, 10000));
        for (int i = 0; r == 1 && i < 1000; i++)
                r = sse_send(f.sse, NULL, 0, block, 64 * 1024);
        EXPECT_INT(r, 0);
        EXPECT_INT(f.n_rooms, 0);
        EXPECT(loop_run_until(f.loop, &f.has_room, 10000));
        EXPECT_INT(f.n_rooms, 1);
        feed_close(&f);
}

TEST(sse_last_id_prefers_the_header)
{
        static const struct {
                const char *query, *header;
                uint64_t want;
                int status;
        } cases[] = {
                { "", NULL, 0, 200 },
                { "?offset=7", NULL, 7, 200 },
                { "?a=b&offset=7&c", "Last-Event-ID: 9", 9, 200 },
                { "?offset=7", "Last-Event-ID:", 7, 200 },
                { "?offsets=7", NULL, 0, 200 },
                { "", "Last-Event-ID: abc", 0, 400 },
                { "?offset=-1", NULL, 0, 400 },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct feed f;

                feed_open(&f, "HEAD", cases[i].query, cases[i].header);
                EXPECT(loop_run_until(f.loop, &f.is_over, 10000));
                EXPECT_INT(f.status, cases[i].status);
                EXPECT_INT(f.last_id, cases[i].want);
                feed_close(&f);
        }
}
