/* The server's side of one connection, over a socketpair: what the raw-socket cases of the API
 * suite cannot time or see. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "http/conn.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"
#include "test.h"

enum { PATIENCE_TURNS = 20000, BIG = 3 * 1024 * 1024 };

/* What the handlers of a test share with it. */
struct app {
        struct req *held;
        unsigned gone, body_ends, done, rooms;
        size_t body_bytes;
        bool body_failed, pauses, ends_release;
        int last_status;
        struct stream *upgraded;
        struct buf early;
};

struct bed {
        struct loop *loop;
        struct router *router;
        struct http_server *srv;
        struct app app;
        struct buf got;
        int fd;
        bool at_eof;
};

static int get_plain(struct req *r, struct error *err)
{
        return reply_json(r, 200, "{}", 2);
}

static int get_big(struct req *r, struct error *err)
{
        static char bytes[BIG];
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_wrap(bytes, BIG, NULL, NULL);

        return reply_bytes(r, 200, "application/octet-stream", c);
}

static void on_gone(void *arg)
{
        struct app *a = arg;

        a->gone++;
        if (a->held)
                req_release(TAKE_PTR(a->held));
}

static int get_held(struct req *r, struct error *err)
{
        struct app *a = req_app(r);

        a->held = r;
        req_hold(r, on_gone, a);
        return 0;
}

static int post_refuse(struct req *r, struct error *err)
{
        return error_set(err, ERR_CONFLICT, 0, "not today");
}

static void body_data(void *arg, const char *data, size_t len)
{
        struct app *a = arg;

        a->body_bytes += len;
        if (a->pauses)
                req_pause_body(a->held, true);
}

static void body_end(void *arg, const struct error *why)
{
        struct app *a = arg;

        a->body_ends++;
        a->body_failed = why != NULL;
        if (a->ends_release)
                req_release(TAKE_PTR(a->held));
}

static const struct body_sink body_sink = { body_data, body_end };

static int get_204(struct req *r, struct error *err)
{
        return reply_json(r, 204, "{\"no\":1}", 8);
}

static const struct route rows[] = {
        { "GET", "/plain", get_plain, .doc = "-" },
        { "POST", "/plain", get_plain, .doc = "-" },
        { "GET", "/big", get_big, .doc = "-" },
        { "GET", "/held", get_held, .doc = "-" },
        { "GET", "/204", get_204, .doc = "-" },
        { "POST", "/up", get_held, R_STREAM_BODY, .doc = "-" },
        { "POST", "/refuse", post_refuse, R_STREAM_BODY, .doc = "-" },
        { "GET", "/ws", get_held, R_WS, .doc = "-" },
        { "PUT", "/host", get_plain, R_HOST, .doc = "-" },
        { 0 },
};

static void on_done(void *app, struct req *r, int status, int64_t took_us, uint64_t bytes)
{
        struct app *a = app;

        a->done++;
        a->last_status = status;
}

static void join(struct bed *b)
{
        int fd[2];

        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        if (b->fd >= 0)
                (void) close(b->fd);
        b->fd = fd[1];
        b->at_eof = false;
        conn_new(b->srv, fd[0]);
}

static void bed_open_with(struct bed *b, const struct http_server_spec *base)
{
        static const struct route *const tables[] = { rows, NULL };
        struct http_server_spec spec = *base;

        *b = (struct bed) { .loop = loop_new(), .router = router_new(tables), .fd = -1 };
        spec.router = b->router;
        spec.app = &b->app;
        spec.on_done = on_done;
        b->srv = http_server_new(b->loop, &spec);
        join(b);
}

static void bed_open(struct bed *b)
{
        struct http_server_spec spec = { .limits = http_limits_default };

        bed_open_with(b, &spec);
}

static void turn(struct bed *b)
{
        static const bool never;

        (void) loop_run_until(b->loop, &never, 0);
}

static void bed_close(struct bed *b)
{
        if (b->app.held)
                req_release(TAKE_PTR(b->app.held));
        b->srv = http_server_free(b->srv);
        stream_free(b->app.upgraded);
        buf_done(&b->app.early);
        turn(b);
        loop_free(b->loop);
        router_free(b->router);
        buf_done(&b->got);
        (void) close(b->fd);
}

static void say(struct bed *b, const char *text)
{
        EXPECT_INT(write(b->fd, text, strlen(text)), strlen(text));
}

/* Takes what has arrived, at most max bytes. */
static void listen_some(struct bed *b, size_t max)
{
        char block[64 * 1024];
        ssize_t n = read(b->fd, block, MIN(max, sizeof(block)));

        if (n > 0)
                buf_put(&b->got, block, (size_t) n);
        else if (n == 0 || errno != EAGAIN)
                b->at_eof = true;
}

static void hear(struct bed *b)
{
        for (int i = 0; i < 6; i++) {
                turn(b);
                listen_some(b, SIZE_MAX);
        }
}

static void hear_to_eof(struct bed *b)
{
        for (int i = 0; i < PATIENCE_TURNS && !b->at_eof; i++) {
                turn(b);
                listen_some(b, SIZE_MAX);
        }
        EXPECT(b->at_eof);
}

static unsigned answers(const struct bed *b)
{
        unsigned n = 0;

        for (const char *p = b->got.data; p && (p = strstr(p, "HTTP/1.1 ")); p++)
                n++;
        return n;
}

/* Waits with the loop running, for deadlines of a few milliseconds. */
static void wait_ms(struct bed *b, int ms)
{
        static const bool never;

        (void) loop_run_until(b->loop, &never, ms);
}

#define HEAD "Host: localhost\r\n"

/* ---- streamed bodies ---- */

TEST(http_streaming_row_that_answers_an_empty_body_at_once_keeps_the_connection)
{
        struct bed b;

        bed_open(&b);
        say(&b, "POST /refuse HTTP/1.1\r\n" HEAD "Content-Length: 0\r\n\r\n");
        hear(&b);
        EXPECT_INT(answers(&b), 1);
        EXPECT(strstr(b.got.data, "409 Conflict"));
        say(&b, "\r\nGET /plain HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(answers(&b), 2);
        bed_close(&b);
}

TEST(http_empty_body_ends_for_a_handler_that_reads_it_later)
{
        struct bed b;

        bed_open(&b);
        say(&b, "POST /up HTTP/1.1\r\n" HEAD "Content-Length: 0\r\n\r\n");
        hear(&b);
        EXPECT(b.app.held);
        EXPECT_INT(b.app.body_ends, 0);
        req_read_body(b.app.held, &body_sink, &b.app);
        hear(&b);
        EXPECT_INT(b.app.body_ends, 1);
        EXPECT(!b.app.body_failed);
        (void) reply_empty(b.app.held, 204);
        hear(&b);
        EXPECT(strstr(b.got.data, "204 No Content"));
        bed_close(&b);
}

TEST(http_body_that_waited_for_its_reader_arrives_whole)
{
        struct bed b;

        bed_open(&b);
        say(&b, "POST /up HTTP/1.1\r\n" HEAD "Content-Length: 10\r\n\r\n01234");
        hear(&b);
        say(&b, "56789GET /plain HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(b.app.body_bytes, 0);
        req_read_body(b.app.held, &body_sink, &b.app);
        hear(&b);
        EXPECT_INT(b.app.body_bytes, 10);
        EXPECT_INT(b.app.body_ends, 1);
        EXPECT_INT(answers(&b), 0);
        (void) reply_empty(b.app.held, 204);
        hear(&b);
        EXPECT_INT(answers(&b), 2);
        bed_close(&b);
}

TEST(http_handler_that_does_not_read_the_body_yet_makes_no_client_slow)
{
        struct http_server_spec spec = { .limits = http_limits_default };
        struct bed b;

        spec.limits.head_ms = spec.limits.body_ms = 2;
        bed_open_with(&b, &spec);
        say(&b, "POST /up HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\n");
        hear(&b);
        wait_ms(&b, 10);
        EXPECT_INT(b.app.done, 0);
        req_read_body(b.app.held, &body_sink, &b.app); /* from here on it is the client */
        wait_ms(&b, 10);
        EXPECT_INT(b.app.body_ends, 1);
        EXPECT(b.app.body_failed);
        hear(&b);
        EXPECT(strstr(b.got.data, "408 "));
        bed_close(&b);
}

TEST(http_client_that_leaves_is_noticed_after_a_paused_body_is_complete)
{
        struct bed b;

        bed_open(&b);
        say(&b, "POST /up HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\n");
        hear(&b);
        b.app.pauses = true;
        req_read_body(b.app.held, &body_sink, &b.app);
        say(&b, "abc");
        hear(&b);
        EXPECT_INT(b.app.body_ends, 1);
        (void) shutdown(b.fd, SHUT_RDWR);
        hear(&b);
        EXPECT_INT(b.app.gone, 1);
        bed_close(&b);
}

TEST(http_body_sink_is_told_once_when_the_client_leaves)
{
        struct bed b;

        bed_open(&b);
        say(&b, "POST /up HTTP/1.1\r\n" HEAD "Content-Length: 30\r\n\r\nabc");
        hear(&b);
        req_read_body(b.app.held, &body_sink, &b.app);
        hear(&b);
        EXPECT_INT(b.app.body_bytes, 3);
        (void) shutdown(b.fd, SHUT_RDWR);
        hear(&b);
        EXPECT_INT(b.app.body_ends, 1);
        EXPECT(b.app.body_failed);
        EXPECT_INT(b.app.gone, 1);
        bed_close(&b);
}

TEST(http_holder_that_lets_go_at_the_end_of_the_body_is_not_told_again)
{
        struct bed b;

        bed_open(&b);
        say(&b, "POST /up HTTP/1.1\r\n" HEAD "Content-Length: 30\r\n\r\nabc");
        hear(&b);
        b.app.ends_release = true;
        req_read_body(b.app.held, &body_sink, &b.app);
        (void) shutdown(b.fd, SHUT_RDWR);
        hear(&b);
        EXPECT_INT(b.app.body_ends, 1);
        EXPECT_INT(b.app.gone, 0);
        EXPECT(!b.app.held);
        bed_close(&b);
}

/* ---- ends ---- */

TEST(http_half_closed_client_reads_its_whole_last_answer)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /big HTTP/1.1\r\n" HEAD "Connection: close\r\n\r\n");
        turn(&b);
        (void) shutdown(b.fd, SHUT_WR);
        turn(&b); /* the server sees the end of the client's half with most of it unsent */
        hear_to_eof(&b);
        EXPECT(b.got.len > BIG);
        EXPECT_INT(http_server_stats(b.srv)->conns_open, 0);
        bed_close(&b);
}

TEST(http_half_closed_keep_alive_client_reads_its_whole_last_answer)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /big HTTP/1.1\r\n" HEAD "\r\n");
        turn(&b);
        (void) shutdown(b.fd, SHUT_WR);
        turn(&b);
        hear_to_eof(&b);
        EXPECT(b.got.len > BIG);
        bed_close(&b);
}

static struct conn *conn_of(struct bed *b)
{
        return LIST_ENTRY(b->srv->conns.next, struct conn, node);
}

static bool is_open(struct bed *b)
{
        return http_server_stats(b->srv)->conns_open == 1;
}

/* As if the time had come. */
static void fire(struct timer *t)
{
        EXPECT(timer_armed(t));
        timer_stop(t);
        t->fn(t);
}

/* As much as the kernel holds: with less it does not take more from the server. */
static void listen_much(struct bed *b)
{
        for (int i = 0; i < 4; i++)
                listen_some(b, SIZE_MAX);
}

TEST(http_slow_reader_of_an_answer_is_not_cut_one_that_stops_is)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /big HTTP/1.1\r\n" HEAD "\r\n");
        turn(&b);
        for (int i = 0; i < 5; i++) {
                listen_much(&b);
                turn(&b);
                fire(&conn_of(&b)->out_timer);
                EXPECT(is_open(&b));
                fire(&conn_of(&b)->in_timer);
                EXPECT(is_open(&b));
        }
        EXPECT_INT(http_server_stats(b.srv)->timeouts, 0);
        fire(&conn_of(&b)->out_timer);
        EXPECT(!is_open(&b));
        EXPECT_INT(http_server_stats(b.srv)->timeouts, 1);
        bed_close(&b);
}

TEST(http_slow_reader_of_a_last_answer_is_not_cut_one_that_stops_is)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /big HTTP/1.1\r\n" HEAD "Connection: close\r\n\r\n");
        turn(&b);
        for (int i = 0; i < 5; i++) {
                listen_much(&b);
                turn(&b);
                fire(&conn_of(&b)->in_timer); /* the moment that a closed connection lingers */
                EXPECT(is_open(&b));
                fire(&conn_of(&b)->out_timer);
                EXPECT(is_open(&b));
        }
        fire(&conn_of(&b)->out_timer);
        EXPECT(!is_open(&b));
        bed_close(&b);
}

TEST(http_reader_that_stops_is_cut)
{
        struct http_server_spec spec = { .limits = http_limits_default };
        struct bed b;

        spec.limits.write_ms = 4;
        bed_open_with(&b, &spec);
        say(&b, "GET /big HTTP/1.1\r\n" HEAD "\r\n");
        for (int i = 0; i < 100 && http_server_stats(b.srv)->conns_open; i++)
                wait_ms(&b, 2);
        EXPECT_INT(http_server_stats(b.srv)->conns_open, 0);
        EXPECT_INT(http_server_stats(b.srv)->timeouts, 1);
        bed_close(&b);
}

TEST(http_pipelined_requests_wait_while_the_client_does_not_read)
{
        struct bed b;

        bed_open(&b);
        for (int i = 0; i < 4; i++)
                say(&b, "GET /big HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(b.app.done, 1);
        while (b.got.len < 4 * BIG) {
                turn(&b);
                listen_some(&b, SIZE_MAX);
        }
        hear(&b);
        EXPECT_INT(b.app.done, 4);
        bed_close(&b);
}

TEST(http_idle_connection_goes_after_its_time)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /plain HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT(is_open(&b));
        EXPECT(!timer_armed(&conn_of(&b)->out_timer));
        fire(&conn_of(&b)->in_timer);
        EXPECT(!is_open(&b));
        bed_close(&b);
}

TEST(http_head_deadline_is_not_moved_by_single_bytes)
{
        static const char head[] = "OPTIONSOPTIONSOPTIONSOPTIONS";
        struct http_server_spec spec = { .limits = http_limits_default };
        struct bed b;
        size_t i;

        spec.limits.head_ms = 10;
        bed_open_with(&b, &spec);
        for (i = 0; i < sizeof(head) - 1 && !http_server_stats(b.srv)->timeouts; i++) {
                (void) !write(b.fd, &head[i], 1);
                wait_ms(&b, 2);
        }
        EXPECT_INT(http_server_stats(b.srv)->timeouts, 1);
        EXPECT(i < 20);
        bed_close(&b);
}

/* ---- held requests ---- */

TEST(http_held_request_is_told_once_and_answers_into_nothing)
{
        struct bed b;
        struct req *r;

        bed_open(&b);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        r = b.app.held;
        req_hold(r, NULL, NULL); /* a second holder that lets go later */
        (void) shutdown(b.fd, SHUT_RDWR);
        hear(&b);
        EXPECT_INT(b.app.gone, 1);
        EXPECT(req_is_gone(r));
        EXPECT_INT(reply_json(r, 200, "{}", 2), -1);
        EXPECT_INT(reply_begin(r, 200, "text/plain", -1), -1);
        req_release(r);
        bed_close(&b);
}

TEST(http_client_that_sends_on_behind_a_held_request_is_noticed_when_it_leaves)
{
        static char junk[90000];
        struct bed b;

        bed_open(&b);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(write(b.fd, junk, sizeof(junk)), sizeof(junk));
        hear(&b);
        EXPECT(conn_of(&b)->stream->is_paused);
        fire(&conn_of(&b)->in_timer); /* it waited long enough */
        EXPECT_INT(conn_of(&b)->pending.len, 0);
        EXPECT_INT(write(b.fd, junk, sizeof(junk)), sizeof(junk));
        (void) shutdown(b.fd, SHUT_WR);
        hear(&b);
        EXPECT_INT(b.app.gone, 1);
        EXPECT(!is_open(&b));
        bed_close(&b);
}

TEST(http_held_request_dropped_without_answer_is_a_500)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        req_release(TAKE_PTR(b.app.held));
        hear(&b);
        EXPECT(strstr(b.got.data, "500 Internal Server Error"));
        bed_close(&b);
}

TEST(http_held_request_outlives_its_server)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        req_on_gone(b.app.held, NULL, NULL);
        b.srv = http_server_free(b.srv);
        turn(&b);
        turn(&b);
        EXPECT(req_is_gone(b.app.held));
        bed_close(&b); /* releases it now */
}

TEST(http_answer_that_ends_short_breaks_the_transfer)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(reply_begin(b.app.held, 200, "text/plain", 10), 0);
        EXPECT_INT(reply_write_bytes(b.app.held, "12345", 5), 1);
        EXPECT_INT(reply_write_bytes(b.app.held, "678901", 6), -1); /* more than promised */
        reply_end(b.app.held);
        req_release(TAKE_PTR(b.app.held));
        hear_to_eof(&b);
        EXPECT_INT(b.app.done, 1);
        bed_close(&b);
}

TEST(http_head_of_a_streamed_answer_has_no_body)
{
        struct bed b;

        bed_open(&b);
        say(&b, "HEAD /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(reply_begin(b.app.held, 200, "text/plain", -1), 0);
        EXPECT_INT(reply_write_bytes(b.app.held, "12345", 5), -1);
        reply_end(b.app.held);
        req_release(TAKE_PTR(b.app.held));
        say(&b, "GET /plain HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT_INT(answers(&b), 2);
        EXPECT(strstr(b.got.data, "\r\n\r\nHTTP/1.1 200 OK\r\n"));
        EXPECT(!strstr(b.got.data, "12345"));
        bed_close(&b);
}

TEST(http_204_never_has_a_body)
{
        struct bed b;

        bed_open(&b);
        say(&b, "GET /204 HTTP/1.1\r\n" HEAD "\r\nGET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        EXPECT(strstr(b.got.data, "204 No Content"));
        EXPECT(!strstr(b.got.data, "content-length") && !strstr(b.got.data, "{\"no\""));
        EXPECT_INT(reply_begin(b.app.held, 204, NULL, -1), 0);
        EXPECT_INT(reply_write_bytes(b.app.held, "x", 1), -1);
        reply_end(b.app.held);
        hear(&b);
        EXPECT(!strstr(b.got.data, "transfer-encoding"));
        EXPECT_INT(b.app.done, 2);
        bed_close(&b);
}

/* ---- upgrade ---- */

#define UPGRADE                                                                                    \
        "GET /ws HTTP/1.1\r\n" HEAD "Connection: upgrade\r\nUpgrade: websocket\r\n"                \
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

TEST(http_late_upgrade_hands_over_what_came_meanwhile)
{
        struct error err = { 0 };
        struct slice early;
        struct bed b;

        bed_open(&b);
        say(&b, UPGRADE "first");
        hear(&b);
        say(&b, " second");
        hear(&b);
        EXPECT_OK(req_upgrade(b.app.held, "websocket", &b.app.upgraded, &early, &err), err);
        stream_set_sink(b.app.upgraded, NULL, NULL);
        EXPECT_INT(early.len, 12);
        EXPECT_MEM(early.at, "first second", 12);
        EXPECT_INT(b.app.last_status, 101);
        EXPECT_INT(http_server_stats(b.srv)->conns_open, 0);
        EXPECT_INT(http_server_stats(b.srv)->streams_open, 1);
        hear(&b);
        EXPECT(strstr(b.got.data, "101 Switching Protocols"));
        req_release(TAKE_PTR(b.app.held));
        EXPECT_INT(http_server_stats(b.srv)->streams_open, 0);
        bed_close(&b);
}

/* ---- heads ---- */

TEST(http_long_values_that_come_byte_by_byte_cost_no_more_than_twice_their_size)
{
        static char head[20000];
        struct bed b;
        struct conn *c;
        size_t n = (size_t) snprintf(head, sizeof(head), "GET /plain HTTP/1.1\r\nx-long: ");

        bed_open(&b);
        c = LIST_ENTRY(b.srv->conns.next, struct conn, node);
        memset(head + n, 'v', sizeof(head) - n);
        for (size_t i = 0; i < sizeof(head); i++) {
                EXPECT_INT(write(b.fd, &head[i], 1), 1);
                turn(&b);
        }
        EXPECT(c->req);
        EXPECT_INT(c->req->headers[0].value.len, sizeof(head) - n);
        EXPECT(c->req->arena.used_bytes < 4 * sizeof(head));
        bed_close(&b);
}

static void expect_status(const char *request, const char *status)
{
        struct bed b;
        char want[32];

        bed_open(&b);
        say(&b, request);
        hear(&b);
        (void) snprintf(want, sizeof(want), "HTTP/1.1 %s ", status);
        if (!b.got.data || strncmp(b.got.data, want, strlen(want)) != 0)
                test_fail(TEST_AT, "wanted %s for '%.60s', got '%.40s'", status, request,
                          b.got.data ? b.got.data : "nothing");
        EXPECT_INT(answers(&b), 1);
        EXPECT(b.at_eof);
        bed_close(&b);
}

TEST(http_doubtful_framing_is_a_400_and_what_follows_is_never_read)
{
#define NEXT "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"
        static const char *const cases[] = {
                "POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: "
                "18446744073709551615\r\n\r\n" NEXT,
                "POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: "
                "9223372036854775808\r\n\r\n" NEXT,
                "POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: "
                "chunked\r\n\r\n0\r\n\r\n" NEXT,
                "POST /plain HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: "
                "3\r\n\r\n0\r\n\r\n" NEXT,
                "POST /plain HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: "
                "chunked\r\n\r\n0\r\n\r\n" NEXT,
                "POST /plain HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, "
                "identity\r\n\r\n" NEXT,
                "POST /plain HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" NEXT,
                "GET /plain HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" NEXT,
                "GET /plain HTTP/1.1\r\n\r\n" NEXT,
                "GET /plain HTTP/1.1\nHost: x\n\n" NEXT,
                "G@T /plain HTTP/1.1\r\nHost: x\r\n\r\n" NEXT,
                "GET /plain HTTP/1.1\r\nHost : x\r\n\r\n" NEXT,
                "GET /plain HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" NEXT,
                "GET http:// HTTP/1.1\r\nHost: x\r\n\r\n" NEXT,
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                expect_status(cases[i], "400");
        expect_status("GET /plain HTTP/2.0\r\nHost: x\r\n\r\n", "505");
}

TEST(http_guest_hides_the_paths_of_the_host_whatever_the_method)
{
        static const char *const methods[] = { "PUT", "GET", "BREW" };
        struct http_server_spec spec = { .limits = http_limits_default, .is_guest = true };

        for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
                char text[200];
                struct bed b;

                bed_open_with(&b, &spec);
                (void) snprintf(text, sizeof(text), "%s /host HTTP/1.1\r\n" HEAD "\r\n",
                                methods[i]);
                say(&b, text);
                hear(&b);
                EXPECT(strstr(b.got.data, "404 Not Found"));
                EXPECT(!strstr(b.got.data, "allow:"));
                bed_close(&b);
        }
}

/* ---- drain ---- */

static void drained(void *arg)
{
        *(bool *) arg = true;
}

TEST(http_drain_lets_a_held_request_finish_and_closes)
{
        bool is_drained = false;
        struct bed b;

        bed_open(&b);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        http_server_drain(b.srv, drained, &is_drained);
        hear(&b);
        EXPECT(!is_drained);
        (void) reply_empty(b.app.held, 204);
        req_release(TAKE_PTR(b.app.held));
        hear(&b);
        EXPECT(strstr(b.got.data, "connection: close"));
        EXPECT(b.at_eof);
        (void) shutdown(b.fd, SHUT_WR);
        hear(&b);
        EXPECT(is_drained);
        bed_close(&b);
}

TEST(http_drain_cuts_what_is_left_after_its_time)
{
        struct http_server_spec spec = { .limits = http_limits_default };
        bool is_drained = false;
        struct bed b;

        spec.limits.drain_ms = 5;
        bed_open_with(&b, &spec);
        say(&b, "GET /held HTTP/1.1\r\n" HEAD "\r\n");
        hear(&b);
        http_server_drain(b.srv, drained, &is_drained);
        EXPECT(loop_run_until(b.loop, &is_drained, 2000));
        EXPECT_INT(b.app.gone, 1);
        hear_to_eof(&b);
        bed_close(&b);
}
