/* The real server with a few rows more, so that the shared pieces (streams both ways, SSE,
 * WebSocket, event log, children, shutdown) can be tested from outside before the product uses
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/serve.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "core/app.h"
#include "event/evlog.h"
#include "http/req.h"
#include "http/route.h"
#include "http/sse.h"
#include "http/ws.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"
#include "proc/child.h"
#include "json/json.h"
#include "json/write.h"

enum {
        STREAM_BLOCK = 32 * 1024,
        WS_MAX = 1024 * 1024,
        SLOW_MS = 50,
        TOPIC_MAX = 200,
        DURABLE_MS = 2000
};

static int reply_u64(struct req *r, const char *name, uint64_t v)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };
        int n;

        jw_obj(&w, NULL);
        jw_u64(&w, name, v);
        jw_end(&w);
        n = reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return n;
}

/* ---- POST /test/echo ---- */

struct echo {
        const char *text;
        uint64_t n;
        bool has_n;
};
static const struct field echo_fields[] = {
        { "text", F_STR, F_REQUIRED, offsetof(struct echo, text), 1000, .doc = "any text" },
        { "n", F_UINT, 0, offsetof(struct echo, n), .has_offset = offsetof(struct echo, has_n),
          .doc = "any number" },
        { 0 },
};

static int post_echo(struct req *r, struct error *err)
{
        const struct echo *e = req_body(r);
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "text", e->text);
        if (e->has_n)
                jw_u64(&w, "n", e->n);
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}

/* ---- POST /test/sink ---- */

struct sink_query {
        bool slow;
};
static const struct field sink_query[] = {
        { "slow", F_BOOL, 0, offsetof(struct sink_query, slow), .doc = "pause after each block" },
        { 0 },
};

struct sink {
        struct req *req;
        struct timer timer;
        uint64_t bytes;
        bool is_slow;
};

static void sink_go_on(struct timer *t)
{
        req_pause_body(CONTAINER_OF(t, struct sink, timer)->req, false);
}

static void sink_data(void *arg, const char *data, size_t len)
{
        struct sink *s = arg;

        s->bytes += len;
        if (s->is_slow && !timer_armed(&s->timer)) {
                req_pause_body(s->req, true);
                timer_set(&s->timer, SLOW_MS);
        }
}

static void sink_end(void *arg, const struct error *why)
{
        struct sink *s = arg;

        timer_stop(&s->timer);
        if (why)
                (void) reply_error(s->req, why);
        else
                (void) reply_u64(s->req, "bytes", s->bytes);
        req_release(s->req);
        free(s);
}

static int post_sink(struct req *r, struct error *err)
{
        static const struct body_sink ops = { sink_data, sink_end };
        struct sink *s = NEW(struct sink);

        s->req = r;
        s->is_slow = ((const struct sink_query *) req_query(r))->slow;
        timer_init(&s->timer, req_loop(r), sink_go_on);
        req_hold(r, NULL, NULL);
        req_read_body(r, &ops, s);
        return 0;
}

/* ---- GET /test/stream ---- */

struct stream_query {
        uint64_t bytes;
};
static const struct field stream_query[] = {
        { "bytes", F_UINT, F_REQUIRED, offsetof(struct stream_query, bytes), .doc = "how many" },
        { 0 },
};

struct source {
        struct req *req;
        uint64_t left;
};

static void source_free(void *arg)
{
        struct source *s = arg;

        req_release(s->req);
        free(s);
}

static void source_pump(void *arg)
{
        static const char block[STREAM_BLOCK] = { 'x' };
        struct source *s = arg;
        int room = 1;

        while (s->left && room == 1) {
                size_t n = s->left < STREAM_BLOCK ? s->left : STREAM_BLOCK;

                room = reply_write_bytes(s->req, block, n);
                s->left -= n;
        }
        if (room < 0 || !s->left) {
                reply_end(s->req);
                source_free(s);
        }
}

static int get_stream(struct req *r, struct error *err)
{
        struct source *s = NEW(struct source);

        s->req = r;
        s->left = ((const struct stream_query *) req_query(r))->bytes;
        req_hold(r, source_free, s);
        reply_on_room(r, source_pump, s);
        if (reply_begin(r, 200, "application/octet-stream", -1) == 0)
                source_pump(s);
        return 0;
}

/* ---- GET /test/sse ---- */

struct sse_query {
        uint64_t count, every;
};
static const struct field sse_query[] = {
        { "count", F_UINT, 0, offsetof(struct sse_query, count),
          .doc = "how many; endless when absent" },
        { "every", F_UINT, 0, offsetof(struct sse_query, every),
          .doc = "milliseconds between two" },
        { 0 },
};

struct ticker {
        struct sse *sse;
        struct timer timer;
        uint64_t at, count, every_ms;
};

static void ticker_free(void *arg)
{
        struct ticker *t = arg;

        timer_stop(&t->timer);
        sse_free(t->sse);
        free(t);
}

static void ticker_tick(struct timer *timer)
{
        struct ticker *t = CONTAINER_OF(timer, struct ticker, timer);
        char text[32];
        int n = snprintf(text, sizeof(text), "{\"n\":%llu}", (unsigned long long) ++t->at);

        if (sse_send(t->sse, "message", t->at, text, (size_t) n) < 0 ||
            (t->count && t->at >= t->count))
                ticker_free(t);
        else
                timer_set(&t->timer, (int64_t) t->every_ms);
}

static int get_sse(struct req *r, struct error *err)
{
        static const struct sse_cb cb = { .on_gone = ticker_free };
        const struct sse_query *q = req_query(r);
        struct ticker *t = NEW(struct ticker);

        t->count = q->count;
        t->every_ms = q->every ? q->every : 1;
        timer_init(&t->timer, req_loop(r), ticker_tick);
        if (sse_last_id(r, &t->at, err) < 0 || sse_open(r, &cb, t, &t->sse, err) < 0) {
                free(t);
                return -1;
        }
        timer_set(&t->timer, 0);
        return 0;
}

/* ---- GET /test/ws ---- */

struct echo_ws {
        struct ws *ws;
};

static void ws_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct echo_ws *e = arg;

        if (ws_send(e->ws, op, data, len) == 0)
                ws_pause(e->ws, true);
}

static void ws_room(void *arg)
{
        ws_pause(((struct echo_ws *) arg)->ws, false);
}

static void ws_over(void *arg, int code)
{
        struct echo_ws *e = arg;

        ws_free(e->ws);
        free(e);
}

static int get_ws(struct req *r, struct error *err)
{
        static const struct ws_cb cb = { ws_message, ws_room, ws_over };
        struct echo_ws *e = NEW(struct echo_ws);

        if (ws_accept(r, &cb, e, WS_MAX, &e->ws, err) < 0) {
                free(e);
                return -1;
        }
        return 0;
}

/* ---- /test/events ---- */

struct topic_query {
        const char *topic;
};
static const struct field topic_query[] = {
        { "topic", F_STR, F_REQUIRED, offsetof(struct topic_query, topic), TOPIC_MAX,
          .doc = "of the log" },
        { 0 },
};
static const struct field any_body[] = { { 0 } };

struct append {
        struct req *req; /* NULL once answered */
        struct timer limit;
        uint64_t seq;
};

static void append_answer(struct append *a, const struct error *why)
{
        struct req *r = TAKE_PTR(a->req);

        timer_stop(&a->limit);
        if (!r)
                return;
        if (why)
                (void) reply_error(r, why);
        else
                (void) reply_u64(r, "seq", a->seq);
        req_release(r);
}

static void append_late(struct timer *t)
{
        struct error err;

        (void) error_set(&err, ERR_BUSY, 0, "the event is not durable yet");
        append_answer(CONTAINER_OF(t, struct append, limit), &err);
}

static void append_durable(void *arg, const struct error *why)
{
        append_answer(arg, why);
        free(arg);
}

static int post_events(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        const struct topic_query *q = req_query(r);
        struct slice raw = req_raw(r);
        _cleanup_(chunk_unrefp) struct chunk *body = chunk_copy(raw.at, raw.len);
        uint64_t seq;
        struct append *a;

        if (evlog_append(api->app->log, q->topic, 1, body, &seq, err) < 0)
                return -1;
        a = NEW(struct append);
        a->req = r;
        a->seq = seq;
        timer_init(&a->limit, req_loop(r), append_late);
        timer_set(&a->limit, DURABLE_MS);
        req_hold(r, NULL, NULL);
        evlog_barrier(api->app->log, append_durable, a);
        return 0;
}

struct tail {
        struct sse *sse;
        struct evsub *sub;
};

static void tail_free(void *arg)
{
        struct tail *t = arg;

        evsub_free(t->sub);
        sse_free(t->sse);
        free(t);
}

static void tail_pump(void *arg)
{
        struct tail *t = arg;
        const struct event *ev;
        int n, room = 1;

        while (room == 1 && (n = evsub_next(t->sub, &ev, NULL)) == 1)
                room = sse_send_chunk(t->sse, "message", ev->seq, ev->body);
        if (room < 0 || (room == 1 && n < 0))
                tail_free(t);
}

static int get_events(struct req *r, struct error *err)
{
        static const struct sse_cb cb = { .on_room = tail_pump, .on_gone = tail_free };
        const struct api *api = req_app(r);
        const struct topic_query *q = req_query(r);
        struct tail *t = NEW(struct tail);
        uint64_t after;

        if (sse_last_id(r, &after, err) < 0 ||
            evlog_subscribe(api->app->log, q->topic, after, tail_pump, t, &t->sub, err) < 0 ||
            sse_open(r, &cb, t, &t->sse, err) < 0) {
                evsub_free(t->sub);
                free(t);
                return -1;
        }
        tail_pump(t);
        return 0;
}

/* ---- GET /test/hang, POST /test/spawn, GET /test/host ---- */

static void hang_over(void *arg)
{
        struct req *r = arg;
        struct error err;

        (void) error_set(&err, ERR_BUSY, 0, "the server is shutting down");
        (void) reply_error(r, &err);
        req_release(r);
}

static int get_hang(struct req *r, struct error *err)
{
        req_hold(r, hang_over, r);
        req_on_drain(r, hang_over, r);
        return 0;
}

static void spawned_exit(void *arg, struct child *c, int code, int sig)
{
        child_free(c);
}

static int post_spawn(struct req *r, struct error *err)
{
        static const char *const argv[] = { "sh", "-c", "setsid sleep 1000 & exec sleep 1000",
                                            NULL };
        static const struct child_cb cb = { .on_exit = spawned_exit };
        const struct api *api = req_app(r);
        struct child_spec spec = { .argv = argv, .stdio = STDIO_NULL };
        struct child *c;

        if (supervisor_spawn(api->app->children, &spec, &cb, NULL, &c, err) < 0)
                return -1;
        return reply_u64(r, "pid", (uint64_t) child_pid(c));
}

static int get_host(struct req *r, struct error *err)
{
        return reply_empty(r, 204);
}

static const struct route test_rows[] = {
        { "POST", "/test/echo", post_echo, .body = echo_fields, .body_size = sizeof(struct echo),
          .doc = "The body again." },
        { "POST", "/test/sink", post_sink, R_STREAM_BODY, .query = sink_query,
          .query_size = sizeof(struct sink_query), .doc = "Counts a streamed body." },
        { "GET", "/test/stream", get_stream, .query = stream_query,
          .query_size = sizeof(struct stream_query), .doc = "A long answer." },
        { "GET", "/test/sse", get_sse, R_SSE, .query = sse_query,
          .query_size = sizeof(struct sse_query), .doc = "A counter." },
        { "GET", "/test/ws", get_ws, R_WS, .doc = "A WebSocket that echoes." },
        { "POST", "/test/events", post_events, .body = any_body, .query = topic_query,
          .query_size = sizeof(struct topic_query), .doc = "Appends to the log." },
        { "GET", "/test/events", get_events, R_SSE, .query = topic_query,
          .query_size = sizeof(struct topic_query), .doc = "Follows the log." },
        { "GET", "/test/hang", get_hang, .doc = "No answer until the end." },
        { "POST", "/test/spawn", post_spawn, .doc = "Starts a tree of processes." },
        { "GET", "/test/host", get_host, R_HOST, .doc = "A path of the host role." },
        { 0 },
};

/* Everything the product serves, and our rows. */
enum { TABLES_MAX = 64 };
static const struct route *test_tables[TABLES_MAX];

static void fill_tables(void)
{
        size_t n = 0;

        while (api_tables[n] && n + 2 < TABLES_MAX) {
                test_tables[n] = api_tables[n];
                n++;
        }
        test_tables[n] = test_rows;
}

static int run_testd(const void *values, const struct command_ctx *ctx, struct error *err)
{
        return serve_run(values, ctx, test_tables, err);
}

int main(int argc, char **argv)
{
        struct command server = api_server_command;
        const struct command *const commands[] = { &server, NULL };
        const struct cli_env env = { .commands = commands, .routes = test_tables };

        fill_tables();
        server.run = run_testd;
        return cli_main(argc, argv, &env);
}
