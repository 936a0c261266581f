/* The proxy and what the client does for it: the pure parts, and the waits that cannot be timed
 * from outside. Everything else is in tests/api/ports.test.mjs. */
#include "http/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "http/client.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/stream.h"
#include "io/timer.h"
#include "test.h"

enum { PATIENCE_MS = 10000, STALL_MS = 40 };

/* ---- the pure parts ---- */

TEST(proxy_target_drops_our_token_and_nothing_else)
{
        static const char *const rows[][2] = {
                { "/", "/" },
                { "/x?", "/x?" },
                { "/x?a=1&b=2", "/x?a=1&b=2" },
                { "/x?access_token=1", "/x" },
                { "/x?access_token", "/x" },
                { "/x?access_token=1&a=1", "/x?a=1" },
                { "/x?a=1&access_token=1&b=2", "/x?a=1&b=2" },
                { "/x?access%5ftoken=1&access%5Ftoken=2&c", "/x?c" },
                { "/x?a=1&&b=", "/x?a=1&&b=" },
                { "/x?access_token2=1&my_access_token=2", "/x?access_token2=1&my_access_token=2" },
                { "/access_token=1?q=access_token=1", "/access_token=1?q=access_token=1" },
                { "/x?%zz=1", "/x?%zz=1" },
                { "/x?a?access_token=1", "/x?a?access_token=1" },
        };
        struct arena a;

        arena_init(&a, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                EXPECT_STR(proxy_target(&a, rows[i][0]), rows[i][1]);
        arena_done(&a);
}

TEST(proxy_location_stays_within_the_prefix)
{
        static const struct proxy_spec spec = { .url = "http://127.0.0.1:3000",
                                                .host = "app.test:3000",
                                                .prefix = "/p" };
        static const char *const rows[][2] = {
                { "/", "/p/" },
                { "/x?y#z", "/p/x?y#z" },
                { "/pp", "/p/pp" },
                { "http://127.0.0.1:3000", "/p/" },
                { "http://127.0.0.1:3000?a", "/p/?a" },
                { "HTTP://LocalHost:3000/x", "/p/x" },
                { "http://[::1]:3000/x", "/p/x" },
                { "http://app.test:3000/x", "/p/x" },
                { "//127.0.0.1:3000/x", "/p/x" },
                { "http://us:2468/x", "/p/x" },
                { "https://US:2468/x", "/p/x" }, /* TLS may end in front of us */
                { "/p", NULL },
                { "/p/x", NULL },
                { "/p?x", NULL },
                { "http://us:2468/p/x", NULL },
                { "x", NULL },
                { "", NULL },
                { "?x", NULL },
                { "mailto:a@b", NULL },
                { "http://127.0.0.1/x", NULL },
                { "http://127.0.0.1:3001/x", NULL },
                { "http://127.0.0.1:3000@evil/x", NULL },
                { "https://127.0.0.1:3000/x", NULL },
                { "http://app.test/x", NULL },
                { "http://us/x", NULL },
                { "//", NULL },
        };
        struct arena a;

        arena_init(&a, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                EXPECT_STR(proxy_location(&a, &spec, SLICE("us:2468"), rows[i][0]), rows[i][1]);
        arena_done(&a);
}

TEST(proxy_location_knows_the_usual_port)
{
        const struct proxy_spec spec = { .url = "http://localhost:80", .prefix = "/p" };
        const struct proxy_spec plain = { .url = "unix:/x.sock:/", .prefix = "/p" };
        const struct proxy_spec bare = { .url = "http://localhost:80" };
        const struct slice nobody = { "", 0 };
        struct arena a;

        arena_init(&a, 0);
        EXPECT_STR(proxy_location(&a, &spec, nobody, "http://localhost/x"), "/p/x");
        EXPECT_STR(proxy_location(&a, &spec, nobody, "http://localhost:080/x"), "/p/x");
        EXPECT_STR(proxy_location(&a, &spec, nobody, "http:///x"), NULL);
        EXPECT_STR(proxy_location(&a, &plain, nobody, "/x"), "/p/x");
        EXPECT_STR(proxy_location(&a, &plain, nobody, "http://localhost/x"), NULL);
        EXPECT_STR(proxy_location(&a, &bare, nobody, "/x"), NULL);
        arena_done(&a);
}

/* ---- a server that says what it is told ---- */

struct peer {
        struct loop *loop;
        struct listener *listener;
        struct stream *stream;
        struct buf got;
        const char *answer; /* sent once a head is here */
        bool has_answered, is_deaf, saw_eof, is_over;
};

static void peer_say(struct peer *p, const char *text)
{
        (void) stream_write_bytes(p->stream, text, strlen(text), NULL);
}

static void peer_data(void *arg, const char *data, size_t len)
{
        struct peer *p = arg;

        buf_put(&p->got, data, len);
        if (p->has_answered || !strstr(p->got.data, "\r\n\r\n"))
                return;
        p->has_answered = true;
        if (p->answer)
                peer_say(p, p->answer);
        stream_pause(p->stream, p->is_deaf);
}

static void peer_eof(void *arg)
{
        ((struct peer *) arg)->saw_eof = true;
}

static void peer_end(void *arg, const struct error *why)
{
        ((struct peer *) arg)->is_over = true;
}

static const struct stream_sink peer_events = { .on_data = peer_data,
                                                .on_eof = peer_eof,
                                                .on_end = peer_end };

static void peer_accept(void *arg, int fd)
{
        struct peer *p = arg;

        EXPECT(!p->stream);
        EXPECT_INT(stream_open_fd(p->loop, fd, &peer_events, p, &p->stream, NULL), 0);
}

static void peer_listen(struct peer *p, struct loop *l, const char *host)
{
        struct listen_spec spec = { .host = host, .fd = -1, .backlog = 4 };
        struct error err = { 0 };

        p->loop = l;
        buf_puts(&p->got, "");
        EXPECT_OK(listener_new(l, &spec, peer_accept, p, &p->listener, &err), err);
}

static void peer_done(struct peer *p)
{
        stream_free(p->stream);
        listener_free(p->listener);
        buf_done(&p->got);
}

/* ---- the client's part ---- */

struct talk {
        struct http_call *call;
        struct buf heard; /* "101|bytes" */
        struct error why;
        int status;
        bool is_over, has_failed;
};

static void talk_head(void *arg, int status)
{
        struct talk *t = arg;

        t->status = status;
        buf_printf(&t->heard, "%d|", status);
}

static void talk_data(void *arg, const char *data, size_t len)
{
        buf_put(&((struct talk *) arg)->heard, data, len);
}

static void talk_end(void *arg, const struct error *why)
{
        struct talk *t = arg;

        t->is_over = true;
        t->has_failed = why;
        if (why)
                t->why = *why;
}

static const struct http_call_cb talk_events = { talk_head, talk_data, NULL, talk_end };

static void talk_done(struct talk *t)
{
        http_call_free(t->call);
        buf_done(&t->heard);
}

/* Turns the loop until the text is what was wanted. */
static void wait_text(struct loop *l, const struct buf *b, const char *want)
{
        int64_t end_us = loop_now_us(l) + PATIENCE_MS * 1000;
        bool never = false;

        while ((!b->data || !strstr(b->data, want)) && loop_now_us(l) < end_us)
                (void) loop_run_until(l, &never, 1);
        EXPECT(b->data && strstr(b->data, want));
}

TEST(client_upgrade_becomes_a_tunnel)
{
        struct loop *l = loop_new();
        struct peer p = { .answer = "HTTP/1.1 101 Go\r\nUpgrade: x/1\r\nX-A: b\r\n\r\nfirst " };
        struct chunk *c = chunk_copy("plain bytes", 11);
        struct talk t = { 0 };
        struct error err = { 0 };
        char url[64];

        peer_listen(&p, l, "127.0.0.1");
        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u", listener_port(p.listener));
        EXPECT_OK(http_call_new(
                          l,
                          &(struct http_call_spec) {
                                  .method = "GET", .url = url, .target = "/a?b", .upgrade = "x/1" },
                          &talk_events, &t, &t.call, &err),
                  err);
        wait_text(l, &t.heard, "101|first ");
        EXPECT(strstr(p.got.data, "GET /a?b HTTP/1.1\r\n") == p.got.data);
        EXPECT(strstr(p.got.data, "connection: upgrade\r\nupgrade: x/1\r\n"));
        EXPECT_STR(http_call_header(t.call, "x-a"), "b");
        EXPECT_INT(http_call_write(t.call, c), 1);
        chunk_unref(c);
        wait_text(l, &p.got, "plain bytes");
        peer_say(&p, "second");
        wait_text(l, &t.heard, "first second");
        http_call_finish(t.call);
        EXPECT(loop_run_until(l, &p.saw_eof, PATIENCE_MS));
        EXPECT(!t.is_over);
        peer_say(&p, " last");
        stream_finish(p.stream);
        EXPECT(loop_run_until(l, &t.is_over, PATIENCE_MS));
        EXPECT(!t.has_failed);
        EXPECT_STR(t.heard.data, "101|first second last");
        talk_done(&t);
        peer_done(&p);
        loop_free(l);
}

TEST(client_refuses_a_target_that_would_end_its_line)
{
        static const char *const bad[] = { "", "x", "/a b", "/a\r\nb: c", "/\x7f" };
        struct loop *l = loop_new();

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                const struct http_call_spec spec = { .method = "GET",
                                                     .url = "http://a",
                                                     .target = bad[i] };
                struct error err = { 0 };
                struct http_call *c;

                EXPECT_ERR(http_call_new(l, &spec, &talk_events, NULL, &c, &err), ERR_INVALID, err);
        }
        loop_free(l);
}

TEST(client_tries_the_other_host_when_one_refuses)
{
        struct loop *l = loop_new();
        struct peer p = { .answer = "HTTP/1.1 200 OK\r\nA: 1\r\nb:\r\nC: 3\r\nContent-Length: "
                                    "2\r\n\r\nok" };
        struct talk t = { 0 };
        struct error err = { 0 };
        const char *name, *value;
        size_t at = 0;
        struct buf all = { 0 };
        char url[64];

        peer_listen(&p, l, "127.0.0.1");
        (void) snprintf(url, sizeof(url), "http://127.0.0.2:%u", listener_port(p.listener));
        EXPECT_OK(http_call_new(l,
                                &(struct http_call_spec) {
                                        .method = "GET", .url = url, .fallback_host = "127.0.0.1" },
                                &talk_events, &t, &t.call, &err),
                  err);
        EXPECT(loop_run_until(l, &t.is_over, PATIENCE_MS));
        EXPECT_STR(t.heard.data, "200|ok");
        while ((name = http_call_next_header(t.call, &at, &value)))
                buf_printf(&all, "%s=%s;", name, value);
        EXPECT_STR(all.data, "a=1;b=;c=3;content-length=2;");
        buf_done(&all);
        talk_done(&t);
        peer_done(&p);
        loop_free(l);
}

TEST(client_tells_the_first_reason_when_both_hosts_refuse)
{
        struct loop *l = loop_new();
        struct peer p = { 0 };
        struct talk t = { 0 };
        struct error err = { 0 };
        char url[64];

        peer_listen(&p, l, "127.0.0.1"); /* a number that nobody else has */
        (void) snprintf(url, sizeof(url), "http://127.0.0.2:%u", listener_port(p.listener));
        EXPECT_OK(http_call_new(l,
                                &(struct http_call_spec) {
                                        .method = "GET", .url = url, .fallback_host = "127.0.0.3" },
                                &talk_events, &t, &t.call, &err),
                  err);
        EXPECT(loop_run_until(l, &t.is_over, PATIENCE_MS));
        EXPECT(t.has_failed);
        EXPECT_INT(t.why.kind, ERR_UPSTREAM);
        EXPECT(strstr(t.why.msg, "connect to '127.0.0.2'"));
        talk_done(&t);
        peer_done(&p);
        loop_free(l);
}

/* ---- waits ---- */

struct bed {
        struct loop *loop;
        struct router *router;
        struct http_server *srv;
        struct peer peer;
        struct talk talk;
        uint32_t stall_ms;
        char url[64], peer_url[64];
};

static int any_pass(struct req *r, struct error *err)
{
        struct bed *b = req_app(r);
        const struct proxy_spec spec = { .url = b->peer_url, .path = "/", .stall_ms = b->stall_ms };

        return proxy_pass(r, &spec, err);
}

static const struct route rows[] = {
        { "GET", "/pass", any_pass, R_STREAM_BODY, .doc = "-" },
        { "POST", "/pass", any_pass, R_STREAM_BODY, .doc = "-" },
        { 0 },
};

static void bed_init(struct bed *b, const char *answer)
{
        static const struct route *const tables[] = { rows, NULL };
        struct listen_spec at = { .host = "127.0.0.1", .fd = -1, .backlog = 4 };
        struct error err = { 0 };

        *b = (struct bed) { .loop = loop_new(),
                            .router = router_new(tables),
                            .stall_ms = STALL_MS };
        b->srv = http_server_new(b->loop, &(struct http_server_spec) {
                                                  .router = b->router,
                                                  .limits = http_limits_default,
                                                  .app = b,
                                          });
        EXPECT_OK(http_server_listen(b->srv, &at, &err), err);
        (void) snprintf(b->url, sizeof(b->url), "http://127.0.0.1:%u/pass",
                        http_server_port(b->srv));
        b->peer.answer = answer;
        peer_listen(&b->peer, b->loop, "127.0.0.1");
        (void) snprintf(b->peer_url, sizeof(b->peer_url), "http://127.0.0.1:%u",
                        listener_port(b->peer.listener));
}

static void bed_ask(struct bed *b, const struct http_call_spec *spec)
{
        struct error err = { 0 };

        EXPECT_OK(http_call_new(b->loop, spec, &talk_events, &b->talk, &b->talk.call, &err), err);
}

static void bed_done(struct bed *b)
{
        talk_done(&b->talk);
        http_server_free(b->srv);
        peer_done(&b->peer);
        loop_free(b->loop);
        router_free(b->router);
}

TEST(proxy_gives_up_on_a_server_that_takes_nothing)
{
        enum { BIG = 32 * 1024 * 1024 };
        struct chunk *body = chunk_new(BIG);
        struct bed b;

        memset(chunk_bytes(body), 'x', BIG);
        bed_init(&b, NULL);
        b.peer.is_deaf = true;
        bed_ask(&b, &(struct http_call_spec) { .method = "POST", .url = b.url, .body = body });
        chunk_unref(body);
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT_INT(b.talk.status, 504);
        EXPECT(strstr(b.talk.heard.data, "took nothing"));
        bed_done(&b);
}

TEST(proxy_waits_for_a_server_that_only_thinks)
{
        struct bed b;

        bed_init(&b, NULL);
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url });
        EXPECT(!loop_run_until(b.loop, &b.talk.is_over, STALL_MS * 3));
        peer_say(&b.peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT_STR(b.talk.heard.data, "200|ok");
        bed_done(&b);
}

TEST(proxy_keeps_an_idle_tunnel_and_ends_half_a_dead_one)
{
        struct bed b;

        bed_init(&b, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhi");
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url, .upgrade = "x" });
        wait_text(b.loop, &b.talk.heard, "101|hi");
        EXPECT(!loop_run_until(b.loop, &b.talk.is_over, STALL_MS * 3));
        http_call_finish(b.talk.call); /* the other side is told and does not react */
        EXPECT(loop_run_until(b.loop, &b.peer.saw_eof, PATIENCE_MS));
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        bed_done(&b);
}

TEST(proxy_ends_a_tunnel_whose_client_does_not_read)
{
        enum { BIG = 32 * 1024 * 1024 };
        char *much = xmalloc(BIG);
        struct bed b;

        memset(much, 'x', BIG);
        bed_init(&b, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhi");
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url, .upgrade = "x" });
        wait_text(b.loop, &b.talk.heard, "101|hi");
        http_call_pause(b.talk.call, true);
        (void) stream_write_bytes(b.peer.stream, much, BIG, NULL);
        free(much);
        EXPECT(loop_run_until(b.loop, &b.peer.is_over, PATIENCE_MS));
        bed_done(&b);
}

/* The body came while we still connected, and is all there is: nobody waits for it any more. */
TEST(proxy_waits_for_the_answer_to_a_small_body)
{
        struct chunk *body = chunk_copy("small", 5);
        struct bed b;

        bed_init(&b, NULL);
        bed_ask(&b, &(struct http_call_spec) { .method = "POST", .url = b.url, .body = body });
        chunk_unref(body);
        EXPECT(!loop_run_until(b.loop, &b.talk.is_over, STALL_MS * 5));
        EXPECT(strstr(b.peer.got.data, "\r\n\r\nsmall"));
        peer_say(&b.peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT_STR(b.talk.heard.data, "200|ok");
        bed_done(&b);
}

TEST(proxy_waits_for_the_answer_to_an_upgrade_only_so_long)
{
        struct bed b;

        bed_init(&b, NULL);
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url, .upgrade = "x" });
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT_INT(b.talk.status, 504);
        bed_done(&b);
}

static void set_flag(void *arg)
{
        *(bool *) arg = true;
}

static const char go[] = "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhi";

static void bed_tunnel(struct bed *b)
{
        bed_init(b, go);
        b->stall_ms = PATIENCE_MS * 10;
        bed_ask(b, &(struct http_call_spec) { .method = "GET", .url = b->url, .upgrade = "x" });
        wait_text(b->loop, &b->talk.heard, "101|hi");
}

TEST(server_that_goes_takes_its_tunnels_along)
{
        struct bed b;

        bed_tunnel(&b);
        b.srv = http_server_free(b.srv);
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT(loop_run_until(b.loop, &b.peer.saw_eof, PATIENCE_MS));
        bed_done(&b);
}

/* Its server has left, its client has not: that is no reason to use up the grace. */
TEST(server_that_drains_does_not_wait_for_a_tunnel_that_closes)
{
        bool is_drained = false;
        int64_t start_us;
        struct bed b;

        bed_tunnel(&b);
        http_call_pause(b.talk.call, true); /* does not see the end, and does not close */
        stream_finish(b.peer.stream);
        EXPECT(loop_run_until(b.loop, &b.peer.is_over, PATIENCE_MS) || b.peer.saw_eof);
        start_us = loop_now_us(b.loop);
        http_server_drain(b.srv, set_flag, &is_drained);
        EXPECT(loop_run_until(b.loop, &is_drained, PATIENCE_MS));
        EXPECT(loop_now_us(b.loop) - start_us < http_limits_default.drain_ms * 1000 / 2);
        bed_done(&b);
}

/* ---- headers ---- */

TEST(proxy_tells_who_the_client_is)
{
        static const char *const headers[] = { "X-Forwarded-For: 10.0.0.1", "x-forwarded-for: ",
                                               "X-Forwarded-For: 10.0.0.2, ::3", NULL };
        struct bed b;

        bed_init(&b, "HTTP/1.1 204 No\r\n\r\n");
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url, .headers = headers });
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT(strstr(b.peer.got.data,
                      "\r\nx-forwarded-for: 10.0.0.1, 10.0.0.2, ::3, 127.0.0.1\r\n"));
        bed_done(&b);
}

TEST(proxy_does_not_believe_an_endless_list_of_clients)
{
        char line[600] = "x-forwarded-for: ";
        const char *const headers[] = { line, NULL };
        struct bed b;

        memset(line + strlen(line), '1', 513);
        bed_init(&b, "HTTP/1.1 204 No\r\n\r\n");
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url, .headers = headers });
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT(strstr(b.peer.got.data, "\r\nx-forwarded-for: 127.0.0.1\r\n"));
        bed_done(&b);
}

TEST(proxy_says_nothing_about_a_client_without_an_address)
{
        char path[] = "/tmp/unit-proxy-XXXXXX", sock[64], url[96];
        struct listen_spec at = { .unix_path = sock, .fd = -1, .backlog = 4 };
        struct error err = { 0 };
        struct bed b;

        EXPECT(mkdtemp(path));
        (void) snprintf(sock, sizeof(sock), "%s/s", path);
        (void) snprintf(url, sizeof(url), "unix:%s:/pass", sock);
        bed_init(&b, "HTTP/1.1 204 No\r\n\r\n");
        EXPECT_OK(http_server_listen(b.srv, &at, &err), err);
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = url });
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT_INT(b.talk.status, 204);
        EXPECT(strstr(b.peer.got.data, "\r\nx-forwarded-proto: http\r\n"));
        EXPECT(!strstr(b.peer.got.data, "x-forwarded-for"));
        bed_done(&b);
        EXPECT_INT(rmdir(path), 0);
}

TEST(proxy_keeps_what_any_connection_header_of_the_answer_names)
{
        struct bed b;

        bed_init(&b, "HTTP/1.1 200 OK\r\nConnection: close\r\nX-A: 1\r\nConnection: x-a\r\n"
                     "X-B: 2\r\nContent-Length: 0\r\n\r\n");
        bed_ask(&b, &(struct http_call_spec) { .method = "GET", .url = b.url });
        EXPECT(loop_run_until(b.loop, &b.talk.is_over, PATIENCE_MS));
        EXPECT_STR(http_call_header(b.talk.call, "x-b"), "2");
        EXPECT_STR(http_call_header(b.talk.call, "x-a"), NULL);
        bed_done(&b);
}
