/* The WebSocket client against the codec of the house, frame by frame. */
#include "client/ws.h"

#include <stdio.h>
#include <unistd.h>

#include "base/macro.h"
#include "client/client.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/stream.h"
#include "test.h"

enum { WAIT_MS = 10000 };

/* A server for one connection. What it does is a row of the test. */
struct peer {
        struct client *client;
        struct client_ws *ws;
        struct listener *listener;
        struct stream *stream;
        struct ws_decoder in;         /* expects masks */
        struct buf head, heard, told; /* request; what the server heard; what the client told us */
        const char *answer;           /* instead of the handshake; or NULL */
        bool is_wrong_key, is_up, is_open, is_over, has_closed, has_failed, drops;
        struct error why;
};

static void peer_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct peer *p = arg;

        buf_printf(&p->heard, "%d:%.*s;", op, (int) len, data);
        if (p->drops) {
                stream_close(p->stream);
                return;
        }
        if (len == 3 && memcmp(data, "bye", 3) == 0) {
                _cleanup_(buf_done) struct buf out = {};

                ws_encode(&out, WS_TEXT, "last", 4, NULL);
                ws_encode(&out, WS_CLOSE, "\x03\xe9going", 7, NULL);
                (void) stream_write_bytes(p->stream, out.data, out.len, NULL);
        }
}

static void peer_control(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct peer *p = arg;

        buf_printf(&p->heard, "%d:%.*s;", op, (int) (op == WS_CLOSE ? 0 : len), data);
        if (op == WS_CLOSE) {
                p->has_closed = true;
                stream_finish(p->stream);
        }
}

static void peer_greet(struct peer *p)
{
        _cleanup_(buf_done) struct buf out = {};
        const char *key = strstr(p->head.data, "Sec-WebSocket-Key: ");
        char text[25] = "", accept[29];

        EXPECT(key && strstr(p->head.data, "Sec-WebSocket-Version: 13\r\n"));
        EXPECT(strstr(p->head.data, "upgrade: websocket\r\n"));
        memcpy(text, key + strlen("Sec-WebSocket-Key: "), 24);
        ws_accept_key(p->is_wrong_key ? "x" : text, accept);
        buf_printf(&out,
                   "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: "
                   "websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                   accept);
        ws_encode(&out, WS_TEXT, "early", 5, NULL); /* together with the head */
        ws_encode(&out, WS_PING, "p", 1, NULL);
        (void) stream_write_bytes(p->stream, out.data, out.len, NULL);
}

static void peer_data(void *arg, const char *data, size_t len)
{
        static const struct ws_events events = { peer_message, peer_control };
        struct peer *p = arg;

        if (p->is_up) {
                EXPECT_INT(ws_decode(&p->in, data, len, &events, p), 0);
                return;
        }
        buf_put(&p->head, data, len);
        if (!strstr(p->head.data, "\r\n\r\n"))
                return;
        p->is_up = true;
        if (!p->answer) {
                peer_greet(p);
                return;
        }
        (void) stream_write_bytes(p->stream, p->answer, strlen(p->answer), NULL);
        stream_finish(p->stream);
}

static void peer_end(void *arg, const struct error *why)
{
}

static const struct stream_sink peer_sink = { .on_data = peer_data, .on_end = peer_end };

static void peer_accept(void *arg, int fd)
{
        struct peer *p = arg;
        struct error err = {};

        EXPECT_OK(stream_open_fd(client_loop(p->client), fd, &peer_sink, p, &p->stream, &err), err);
}

static void on_open(void *arg)
{
        struct peer *p = arg;

        p->is_open = true;
}

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct peer *p = arg;

        buf_printf(&p->told, "%d:%.*s;", op, (int) len, data);
        if (len == 5 && memcmp(data, "early", 5) == 0) {
                EXPECT_INT(client_ws_send(p->ws, WS_TEXT, "hi", 2), 1);
                EXPECT_INT(client_ws_send(p->ws, WS_BINARY, "there", 5), 1);
                if (p->drops)
                        return;
                EXPECT_INT(client_ws_send(p->ws, WS_TEXT, "bye", 3), 1);
        }
}

static void on_refused(void *arg, int status, const char *type, const char *body, size_t len)
{
        struct peer *p = arg;

        buf_printf(&p->told, "%d %s %.*s;", status, type, (int) len, body);
}

static void on_end(void *arg, const struct error *why)
{
        struct peer *p = arg;

        EXPECT(!p->is_over);
        p->is_over = true;
        p->has_failed = why;
        if (why)
                p->why = *why;
        p->ws = client_ws_free(p->ws);
}

static const struct client_ws_cb client_events = { on_open, on_message, NULL, on_refused, on_end };

/* Runs until the connection is over. */
static void peer_run(struct peer *p)
{
        struct listen_spec spec = { .fd = -1, .backlog = 4 };
        char path[64], endpoint[80];
        struct error err = {};

        (void) snprintf(path, sizeof(path), "/tmp/sa-test-ws-%d.sock", (int) getpid());
        (void) snprintf(endpoint, sizeof(endpoint), "unix:%s", path);
        spec.unix_path = path;
        p->in = (struct ws_decoder) { .expect_mask = true, .max_message = 1000 };
        EXPECT_OK(client_new(endpoint, NULL, &p->client, &err), err);
        EXPECT_OK(listener_new(client_loop(p->client), &spec, peer_accept, p, &p->listener, &err),
                  err);
        EXPECT_OK(client_ws_open(p->client, "/v1/x", "a=b", &client_events, p, &p->ws, &err), err);
        EXPECT_INT(client_ws_send(p->ws, WS_TEXT, "x", 1), -1);
        EXPECT(loop_run_until(client_loop(p->client), &p->is_over, WAIT_MS));
}

static void peer_done(struct peer *p)
{
        ws_decoder_done(&p->in);
        p->stream = stream_free(p->stream);
        p->listener = listener_free(p->listener);
        p->client = client_free(p->client);
        buf_done(&p->head);
        buf_done(&p->heard);
        buf_done(&p->told);
}

TEST(client_ws_talks_answers_pings_and_closes_in_order)
{
        struct peer p = {};

        peer_run(&p);
        EXPECT(p.is_open && p.has_failed && p.has_closed);
        EXPECT(strstr(p.head.data, "GET /v1/x?a=b HTTP/1.1\r\n"));
        EXPECT_STR(p.told.data, "1:early;1:last;");
        EXPECT_STR(p.heard.data, "1:hi;2:there;1:bye;10:p;8:;");
        EXPECT_STR(p.why.msg, "the server closed the connection: going (code 1001)");
        peer_done(&p);
}

TEST(client_ws_tells_of_a_connection_that_breaks)
{
        struct peer p = { .drops = true };

        peer_run(&p);
        EXPECT(p.is_open && p.has_failed);
        EXPECT_INT(p.why.kind, ERR_UPSTREAM);
        peer_done(&p);
}

TEST(client_ws_refuses_a_wrong_accept_key)
{
        struct peer p = { .is_wrong_key = true };

        peer_run(&p);
        EXPECT(!p.is_open && p.has_failed);
        EXPECT_STR(p.why.msg, "the answer to the WebSocket handshake is wrong");
        peer_done(&p);
}

TEST(client_ws_hands_on_the_problem_of_a_refusal)
{
        struct peer p = { .answer = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n"
                                    "Content-Length: 4\r\n\r\nnope" };

        peer_run(&p);
        EXPECT(!p.is_open && p.has_failed);
        EXPECT_STR(p.told.data, "404 text/plain nope;");
        EXPECT_STR(p.why.msg, "unexpected http status: 404 Not Found");
        peer_done(&p);
}
