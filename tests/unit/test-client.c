#include "http/client.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "http/req.h"
#include "http/response.h"
#include "http/route.h"
#include "http/server.h"
#include "http/url.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/stream.h"
#include "io/tls.h"
#include "test.h"

/* ---- addresses ---- */

TEST(url_parse_takes_addresses_apart)
{
        static const struct {
                const char *text, *host, *unix_path, *target, *authority, *label;
                int port;
                bool is_tls;
        } rows[] = {
                { "http://a", "a", NULL, "/", "a", "http://a/", 80, false },
                { "https://a.b/c?d=e", "a.b", NULL, "/c?d=e", "a.b", "https://a.b/c", 443, true },
                { "http://a:2468/v1", "a", NULL, "/v1", "a:2468", "http://a:2468/v1", 2468, false },
                { "http://a?x", "a", NULL, "/?x", "a", "http://a/", 80, false },
                { "http://[::1]:80/", "::1", NULL, "/", "[::1]:80", "http://[::1]:80/", 80, false },
                { "http://[::1]", "::1", NULL, "/", "[::1]", "http://[::1]/", 80, false },
                { "unix:/run/x.sock:/v1/a?b", NULL, "/run/x.sock", "/v1/a?b", "localhost",
                  "unix:/run/x.sock:/v1/a", 0, false },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error err = { 0 };
                struct url u;

                EXPECT_OK(url_parse(rows[i].text, &u, &err), err);
                EXPECT_STR(u.host, rows[i].host);
                EXPECT_STR(u.unix_path, rows[i].unix_path);
                EXPECT_STR(u.target, rows[i].target);
                EXPECT_STR(u.authority, rows[i].authority);
                EXPECT_STR(u.label, rows[i].label);
                EXPECT_INT(u.port, rows[i].port);
                EXPECT_INT(u.is_tls, rows[i].is_tls);
                url_done(&u);
        }
}

TEST(url_parse_refuses_what_it_does_not_know)
{
        static const char *const bad[] = {
                "",
                "a",
                "ftp://a/",
                "http://",
                "http:///x",
                "http://:80/",
                "http://a:/",
                "http://a:0/",
                "http://a:65536/",
                "http://a:8o/",
                "http://user:pass@a/",
                "http://[::1/",
                "http://[::1]x/",
                "http://a/ b",
                "http://a/\r\nX: y",
                "http://a/#top",
                "unix:relative:/x",
                "unix:/no/path",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct error err = { 0 };
                struct url u;

                EXPECT_ERR(url_parse(bad[i], &u, &err), ERR_INVALID, err);
        }
}

/* ---- answers ---- */

struct heard {
        struct response r;
        struct buf text; /* "200|body" */
        bool stops;
};

static void on_head(void *arg, int status)
{
        struct heard *h = arg;

        buf_printf(&h->text, "%d|", status);
        if (h->stops)
                response_stop(&h->r);
}

static void on_data(void *arg, const char *data, size_t len)
{
        buf_put(&((struct heard *) arg)->text, data, len);
}

static const struct response_cb response_events = { on_head, on_data };

/* 1 = complete, 0 = complete with the end of the connection, -1 = failed. */
static int feed(struct heard *h, bool is_head, size_t max_head, const char *in, size_t step,
                struct error *err)
{
        size_t len = strlen(in);
        int r = 0;

        buf_puts(&h->text, "");
        response_init(&h->r, is_head, max_head, &response_events, h);
        for (size_t at = 0; at < len && r == 0; at += step)
                r = response_feed(&h->r, in + at, MIN(step, len - at), err);
        return r ? r : response_finish(&h->r, err);
}

static void heard_done(struct heard *h)
{
        response_done(&h->r);
        buf_done(&h->text);
}

static const struct {
        const char *name, *in, *heard;
        int result;
        bool is_head;
} answers[] = {
        { "length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200|hello", 1 },
        { "what follows is ignored",
          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 500 no", "200|hi", 1 },
        { "until the end", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "200|hello", 0 },
        { "old version", "HTTP/1.0 200 OK\r\n\r\nhello", "200|hello", 0 },
        { "no content", "HTTP/1.1 204 No Content\r\n\r\n", "204|", 1 },
        { "not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304|", 1 },
        { "chunked",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
          "chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n",
          "200|hello", 1 },
        { "interim answers",
          "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 "
          "OK\r\nContent-Length: 1\r\n\r\nx",
          "200|x", 1 },
        { "head", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", "200|", 1, true },
        { "no bytes", "", "", -1 },
        { "cut head", "HTTP/1.1 200 OK\r\nContent-Le", "", -1 },
        { "cut body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "200|hell", -1 },
        { "cut before the last chunk",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", "200|hel", -1 },
        { "cut in the last chunk",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n", "200|hel", -1 },
        { "only an interim answer", "HTTP/1.1 100 Continue\r\n\r\n", "", -1 },
        { "interim answer with a body",
          "HTTP/1.1 103 Early\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "", -1 },
        { "status below 100", "HTTP/1.1 020 OK\r\n\r\nhello", "", -1 },
        { "not http", "SSH-2.0-OpenSSH_9.2\r\n", "", -1 },
        { "length and chunks",
          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "",
          -1 },
        { "two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
          "", -1 },
        { "switch of protocols",
          "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc", "",
          -1 },
};

TEST(response_says_the_same_for_every_split)
{
        for (size_t i = 0; i < ARRAY_LEN(answers); i++)
                for (size_t step = 1; step <= 50; step++) {
                        struct error err = { 0 };
                        struct heard h = { 0 };
                        int r = feed(&h, answers[i].is_head, 0, answers[i].in, step, &err);

                        if (r != answers[i].result)
                                test_fail(TEST_AT, "%s, step %zu: expected %d, saw %d (%s)",
                                          answers[i].name, step, answers[i].result, r, err.msg);
                        EXPECT_STR(h.text.data, answers[i].heard);
                        if (r < 0)
                                EXPECT_INT(err.kind, ERR_UPSTREAM);
                        heard_done(&h);
                }
}

TEST(response_headers_are_found_by_lower_case_name)
{
        struct heard h = { 0 };
        struct error err = { 0 };

        EXPECT_INT(feed(&h, false, 0,
                        "HTTP/1.1 200 OK\r\nContent-TYPE:  text/plain \t\r\nX-Empty:\r\nx-Two: "
                        "1\r\nX-two: "
                        "2\r\nContent-Length: 0\r\n\r\n",
                        3, &err),
                   1);
        EXPECT_STR(response_header(&h.r, "content-type"), "text/plain");
        EXPECT_STR(response_header(&h.r, "x-empty"), "");
        EXPECT_STR(response_header(&h.r, "x-two"), "1");
        EXPECT_STR(response_header(&h.r, "content-length"), "0");
        EXPECT_STR(response_header(&h.r, "x-none"), NULL);
        heard_done(&h);
}

TEST(response_limits_the_head)
{
        /* Counted: reason, names, values and four bytes per header line. */
        static const char in[] = "HTTP/1.1 200 OK\r\nabc: 12345\r\nContent-Length: 0\r\n\r\n";
        size_t bytes = 2 + 3 + 5 + 4 + 14 + 1 + 4;

        for (int over = -1; over <= 1; over++) {
                struct heard h = { 0 };
                struct error err = { 0 };
                int r = feed(&h, false, bytes - (size_t) over, in, 5, &err);

                if (over <= 0)
                        EXPECT_INT(r, 1);
                else
                        EXPECT_ERR(r, ERR_HEAD_TOO_BIG, err);
                heard_done(&h);
        }
}

TEST(response_may_be_stopped_inside_a_callback)
{
        struct heard h = { .stops = true };
        struct error err = { 0 };

        EXPECT_INT(feed(&h, false, 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 999, &err),
                   -1);
        EXPECT_STR(h.text.data, "200|");
        heard_done(&h);
}

/* ---- the whole client, against a listener that answers fixed bytes ---- */

struct canned {
        struct loop *loop;
        struct listener *listener;
        struct stream *stream;
        struct buf seen;
        const char *answer; /* sent once the request ends with `until` */
        const char *until;
        bool is_silent, closes;
        char url[64];
};

static void canned_data(void *arg, const char *data, size_t len)
{
        struct canned *s = arg;

        buf_put(&s->seen, data, len);
        if (s->is_silent || !s->answer || s->seen.len < strlen(s->until) ||
            memcmp(s->seen.data + s->seen.len - strlen(s->until), s->until, strlen(s->until)) != 0)
                return;
        (void) stream_write_bytes(s->stream, s->answer, strlen(s->answer), NULL);
        s->answer = NULL;
        if (s->closes)
                stream_finish(s->stream);
}

static const struct stream_sink canned_sink = { .on_data = canned_data };

static void canned_accept(void *arg, int fd)
{
        struct canned *s = arg;
        struct error err;

        EXPECT_OK(stream_open_fd(s->loop, fd, &canned_sink, s, &s->stream, &err), err);
}

static void canned_open(struct canned *s, const char *until, const char *answer)
{
        struct listen_spec spec = { .host = "127.0.0.1", .fd = -1, .backlog = 8 };
        struct error err = { 0 };

        *s = (struct canned) { .loop = loop_new(), .answer = answer, .until = until };
        EXPECT_OK(listener_new(s->loop, &spec, canned_accept, s, &s->listener, &err), err);
        (void) snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/a?b=c",
                        listener_port(s->listener));
}

static void canned_close(struct canned *s)
{
        listener_free(s->listener);
        stream_free(s->stream);
        loop_free(s->loop);
        buf_done(&s->seen);
}

TEST(http_fetch_brings_the_answer)
{
        static const char *const headers[] = { "X-Token: secret", "Accept: text/plain", NULL };
        struct canned s;
        struct http_answer a;
        struct error err = { 0 };
        char want[256];

        canned_open(&s, "\r\n\r\n",
                    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: "
                    "5\r\n\r\nhello");
        EXPECT_OK(http_fetch(s.loop,
                             &(struct http_call_spec) {
                                     .method = "GET", .url = s.url, .headers = headers },
                             100, &a, &err),
                  err);
        EXPECT_INT(a.status, 404);
        EXPECT_STR(a.type, "text/plain");
        EXPECT_STR(a.body, "hello");
        EXPECT_INT(a.len, 5);
        (void) snprintf(want, sizeof(want),
                        "GET /a?b=c HTTP/1.1\r\nX-Token: secret\r\nAccept: text/plain\r\n"
                        "host: 127.0.0.1:%u\r\nuser-agent: sandbox-agent/" SA_VERSION
                        "\r\nconnection: close\r\n\r\n",
                        listener_port(s.listener));
        EXPECT_STR(s.seen.data, want);
        http_answer_done(&a);
        canned_close(&s);
}

TEST(http_fetch_sends_a_body_with_its_length)
{
        _cleanup_(chunk_unrefp) struct chunk *body = chunk_copy("{\"a\":1}", 7);
        struct http_call_spec spec = { .method = "POST", .body = body };
        struct canned s;
        struct http_answer a;
        struct error err = { 0 };

        canned_open(&s, "{\"a\":1}", "HTTP/1.1 204 No Content\r\n\r\n");
        spec.url = s.url;
        EXPECT_OK(http_fetch(s.loop, &spec, 100, &a, &err), err);
        EXPECT_INT(a.status, 204);
        EXPECT_STR(a.body, "");
        EXPECT(strstr(s.seen.data, "\r\ncontent-length: 7\r\n"));
        http_answer_done(&a);
        canned_close(&s);
}

static int fetch(struct canned *s, struct http_call_spec spec, size_t max, struct error *err)
{
        struct http_answer a = { 0 };
        int r;

        spec.method = "GET";
        spec.url = s->url;
        r = http_fetch(s->loop, &spec, max, &a, err);
        http_answer_done(&a);
        return r;
}

TEST(http_fetch_limits_the_body)
{
        for (size_t max = 4; max <= 6; max++) {
                struct canned s;
                struct error err = { 0 };
                int r;

                canned_open(&s, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                r = fetch(&s, (struct http_call_spec) { 0 }, max, &err);
                if (max >= 5)
                        EXPECT_OK(r, err);
                else
                        EXPECT_ERR(r, ERR_TOO_BIG, err);
                canned_close(&s);
        }
}

TEST(http_fetch_fails_on_a_cut_answer)
{
        static const char *const cut[] = {
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                "HTTP/1.1 200 OK\r\nContent-Le",
        };

        for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
                struct canned s;
                struct error err = { 0 };

                canned_open(&s, "\r\n\r\n", cut[i]);
                s.closes = true;
                EXPECT_ERR(fetch(&s, (struct http_call_spec) { 0 }, 100, &err), ERR_UPSTREAM, err);
                EXPECT(!strstr(err.msg, "b=c")); /* a query may hold a secret */
                canned_close(&s);
        }
}

TEST(http_fetch_takes_a_body_that_ends_with_the_connection)
{
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nhello");
        s.closes = true;
        EXPECT_OK(fetch(&s, (struct http_call_spec) { 0 }, 100, &err), err);
        canned_close(&s);
}

TEST(http_fetch_waits_for_a_head_only_so_long)
{
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "", "");
        s.is_silent = true;
        EXPECT_ERR(fetch(&s, (struct http_call_spec) { .head_ms = 1 }, 100, &err), ERR_TIMEOUT,
                   err);
        EXPECT(strstr(err.msg, "no answer for 1 ms"));
        canned_close(&s);
}

TEST(http_fetch_waits_for_a_body_only_so_long)
{
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello");
        EXPECT_ERR(fetch(&s, (struct http_call_spec) { .idle_ms = 1 }, 100, &err), ERR_TIMEOUT,
                   err);
        EXPECT(strstr(err.msg, "stood still"));
        canned_close(&s);
}

TEST(http_fetch_names_the_address_that_refuses)
{
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "", "");
        s.listener = listener_free(s.listener);
        EXPECT_ERR(fetch(&s, (struct http_call_spec) { 0 }, 100, &err), ERR_UPSTREAM, err);
        EXPECT(str_starts(err.msg, "GET http://127.0.0.1:"));
        canned_close(&s);
}

TEST(http_call_refuses_headers_that_would_break_the_request)
{
        static const char *const bad[][2] = {
                { "X: a\r\nY: b", NULL },  { "no colon", NULL },
                { "X Y: a", NULL },        { ": a", NULL },
                { "Connection: x", NULL }, { "Transfer-Encoding: chunked", NULL },
        };
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct http_answer a;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct http_call_spec spec = { .method = "GET",
                                               .url = "http://127.0.0.1:1/",
                                               .headers = bad[i] };

                EXPECT_ERR(http_fetch(l, &spec, 1, &a, &err), ERR_INVALID, err);
        }
        EXPECT_ERR(http_fetch(l,
                              &(struct http_call_spec) { .method = "GET /",
                                                         .url = "http://127.0.0.1:1/" },
                              1, &a, &err),
                   ERR_INVALID, err);
        EXPECT_ERR(http_fetch(l,
                              &(struct http_call_spec) { .method = "GET",
                                                         .url = "https://127.0.0.1:1/" },
                              1, &a, &err),
                   ERR_INVALID, err);
        loop_free(l);
}

/* ---- streaming ---- */

struct caller {
        struct http_call *call;
        struct buf body;
        struct error why;
        int status, n_ends, n_rooms;
        bool is_over, has_failed, frees_on_head;
};

static void caller_head(void *arg, int status)
{
        struct caller *c = arg;

        c->status = status;
        if (c->frees_on_head) {
                c->call = http_call_free(c->call);
                c->is_over = true;
        }
}

static void caller_data(void *arg, const char *data, size_t len)
{
        buf_put(&((struct caller *) arg)->body, data, len);
}

static void caller_room(void *arg)
{
        struct caller *c = arg;
        _cleanup_(chunk_unrefp) struct chunk *piece = chunk_copy("later", 5);

        if (c->n_rooms++)
                return;
        EXPECT_INT(http_call_write(c->call, piece), 1);
        http_call_finish(c->call);
        EXPECT_INT(http_call_write(c->call, piece), -1);
}

static void caller_end(void *arg, const struct error *why)
{
        struct caller *c = arg;

        c->n_ends++;
        c->is_over = true;
        c->has_failed = why;
        if (why)
                c->why = *why;
}

static const struct http_call_cb caller_events = { caller_head, caller_data, caller_room,
                                                   caller_end };

TEST(http_call_streams_a_body_in_chunks)
{
        _cleanup_(chunk_unrefp) struct chunk *piece = chunk_copy("first", 5),
                                             *none = chunk_copy("", 0);
        struct caller c = { 0 };
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        EXPECT_OK(http_call_new(s.loop,
                                &(struct http_call_spec) {
                                        .method = "PUT", .url = s.url, .stream_body = true },
                                &caller_events, &c, &c.call, &err),
                  err);
        EXPECT_INT(http_call_write(c.call, none), 1);
        EXPECT_INT(http_call_write(c.call, piece), 0); /* held back until the connection stands */
        EXPECT(loop_run_until(s.loop, &c.is_over, 10000));
        EXPECT(!c.has_failed);
        EXPECT_INT(c.status, 200);
        EXPECT_STR(c.body.data, "ok");
        EXPECT(strstr(s.seen.data, "\r\ntransfer-encoding: chunked\r\n"));
        EXPECT(str_ends(s.seen.data, "\r\n\r\n5\r\nfirst\r\n5\r\nlater\r\n0\r\n\r\n"));
        EXPECT_INT(c.n_ends, 1);
        http_call_free(c.call);
        buf_done(&c.body);
        canned_close(&s);
}

TEST(http_call_streams_a_body_of_stated_length_as_it_is)
{
        static const char *const headers[] = { "Content-Length: 10", NULL };
        _cleanup_(chunk_unrefp) struct chunk *piece = chunk_copy("first", 5);
        struct caller c = { 0 };
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "firstlater", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        EXPECT_OK(http_call_new(s.loop,
                                &(struct http_call_spec) { .method = "PUT",
                                                           .url = s.url,
                                                           .stream_body = true,
                                                           .headers = headers },
                                &caller_events, &c, &c.call, &err),
                  err);
        EXPECT_INT(http_call_write(c.call, piece), 0);
        EXPECT(loop_run_until(s.loop, &c.is_over, 10000));
        EXPECT(!c.has_failed);
        EXPECT(!strstr(s.seen.data, "chunked"));
        http_call_free(c.call);
        buf_done(&c.body);
        canned_close(&s);
}

TEST(http_call_may_be_freed_inside_a_callback)
{
        struct caller c = { .frees_on_head = true };
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        EXPECT_OK(http_call_new(s.loop, &(struct http_call_spec) { .method = "GET", .url = s.url },
                                &caller_events, &c, &c.call, &err),
                  err);
        EXPECT(loop_run_until(s.loop, &c.is_over, 10000));
        EXPECT_INT(c.n_ends, 0);
        EXPECT_INT(c.body.len, 0);
        canned_close(&s);
}

TEST(http_call_may_be_freed_before_it_is_connected)
{
        struct caller c = { 0 };
        struct canned s;
        struct error err = { 0 };

        canned_open(&s, "\r\n\r\n", "");
        EXPECT_OK(http_call_new(s.loop, &(struct http_call_spec) { .method = "GET", .url = s.url },
                                &caller_events, &c, &c.call, &err),
                  err);
        http_call_free(c.call);
        (void) loop_run_until(s.loop, &c.is_over, 0);
        EXPECT_INT(c.n_ends, 0);
        canned_close(&s);
}

TEST(http_fetch_speaks_over_a_unix_socket)
{
        char dir[] = "/tmp/sa-test-XXXXXX", path[64], url[128];
        struct canned s = { .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                            .until = "\r\n\r\n" };
        struct listen_spec spec = { .unix_path = path, .fd = -1, .backlog = 8 };
        struct http_answer a;
        struct error err = { 0 };

        EXPECT(mkdtemp(dir));
        (void) snprintf(path, sizeof(path), "%s/s", dir);
        (void) snprintf(url, sizeof(url), "unix:%s:/v1/health", path);
        s.loop = loop_new();
        EXPECT_OK(listener_new(s.loop, &spec, canned_accept, &s, &s.listener, &err), err);
        EXPECT_OK(http_fetch(s.loop, &(struct http_call_spec) { .method = "GET", .url = url }, 10,
                             &a, &err),
                  err);
        EXPECT_STR(a.body, "ok");
        EXPECT(str_starts(s.seen.data, "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n"));
        http_answer_done(&a);
        canned_close(&s);
        EXPECT_INT(rmdir(dir), 0);
}

/* ---- over TLS, with a certificate made for the test ---- */

struct cert {
        char dir[32], cert_path[64], key_path[64];
};

static void add_name(X509 *x, const char *names)
{
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);

        EXPECT(e && X509_add_ext(x, e, -1));
        X509_EXTENSION_free(e);
}

static void write_pem(const char *path, X509 *x, EVP_PKEY *key)
{
        FILE *f = fopen(path, "w");

        EXPECT(f);
        if (x)
                EXPECT(PEM_write_X509(f, x));
        else
                EXPECT(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL));
        (void) fclose(f);
}

static void cert_make(struct cert *c, const char *names)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *x = X509_new();

        *c = (struct cert) { .dir = "/tmp/sa-test-XXXXXX" };
        EXPECT(mkdtemp(c->dir) && key && x);
        (void) snprintf(c->cert_path, sizeof(c->cert_path), "%s/cert", c->dir);
        (void) snprintf(c->key_path, sizeof(c->key_path), "%s/key", c->dir);
        (void) X509_set_version(x, X509_VERSION_3);
        (void) ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
        (void) X509_gmtime_adj(X509_getm_notBefore(x), -3600);
        (void) X509_gmtime_adj(X509_getm_notAfter(x), 3600);
        (void) X509_set_pubkey(x, key);
        add_name(x, names);
        EXPECT(X509_sign(x, key, EVP_sha256()));
        write_pem(c->cert_path, x, NULL);
        write_pem(c->key_path, NULL, key);
        X509_free(x);
        EVP_PKEY_free(key);
}

static void cert_remove(struct cert *c)
{
        (void) unlink(c->cert_path);
        (void) unlink(c->key_path);
        (void) rmdir(c->dir);
}

static int say_hello(struct req *r, struct error *err)
{
        return reply_json(r, 200, "{\"hello\":1}", 11);
}

static const struct route tls_rows[] = { { "GET", "/hello", say_hello, R_OPEN, .doc = "Hello." },
                                         { 0 } };

/* One request to a TLS server whose certificate is for `names`; the client trusts it or not. */
static int fetch_tls(const char *names, bool is_trusted, struct http_answer *ret, struct error *err)
{
        const struct route *const tables[] = { tls_rows, NULL };
        struct listen_spec where = { .host = "127.0.0.1", .fd = -1, .backlog = 8 };
        struct http_server_spec spec = { .limits = http_limits_default };
        struct router *router = router_new(tables);
        struct loop *l = loop_new();
        struct http_server *server;
        struct tls *client;
        struct cert cert;
        char url[64];
        int r;

        cert_make(&cert, names);
        spec.router = router;
        EXPECT_OK(tls_server_new(cert.cert_path, cert.key_path, &spec.tls, err), *err);
        EXPECT_OK(tls_client_new(is_trusted ? cert.cert_path : NULL, &client, err), *err);
        server = http_server_new(l, &spec);
        EXPECT_OK(http_server_listen(server, &where, err), *err);
        (void) snprintf(url, sizeof(url), "https://127.0.0.1:%u/hello", http_server_port(server));
        r = http_fetch(l, &(struct http_call_spec) { .method = "GET", .url = url, .tls = client },
                       100, ret, err);
        http_server_free(server);
        loop_free(l);
        router_free(router);
        tls_ctx_free(client);
        tls_ctx_free(spec.tls);
        cert_remove(&cert);
        return r;
}

TEST(http_fetch_speaks_tls_and_checks_the_certificate)
{
        struct http_answer a = { 0 };
        struct error err = { 0 };

        EXPECT_OK(fetch_tls("IP:127.0.0.1", true, &a, &err), err);
        EXPECT_INT(a.status, 200);
        EXPECT_STR(a.body, "{\"hello\":1}");
        http_answer_done(&a);
        EXPECT_ERR(fetch_tls("IP:127.0.0.1", false, &a, &err), ERR_UPSTREAM, err);
        EXPECT(strstr(err.msg, "certificate verify failed"));
        EXPECT_ERR(fetch_tls("IP:127.0.0.2", true, &a, &err), ERR_UPSTREAM, err);
        EXPECT(strstr(err.msg, "certificate verify failed"));
}
