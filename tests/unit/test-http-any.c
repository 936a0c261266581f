/* Rows of any method, and connections that leave HTTP with a head of somebody else's. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "http/conn.h"
#include "http/cors.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/stream.h"
#include "test.h"

struct bed {
        struct loop *loop;
        struct router *router;
        struct http_server *srv;
        struct req *held;
        struct stream *upgraded;
        struct buf got;
        unsigned gone;
        int fd, last_status;
        bool at_eof;
};

static void on_gone(void *arg)
{
        struct bed *b = arg;

        b->gone++;
        req_release(TAKE_PTR(b->held));
}

static int hold(struct req *r, struct error *err)
{
        struct bed *b = req_app(r);

        b->held = r;
        req_hold(r, on_gone, b);
        return 0;
}

static const struct route rows[] = {
        { "*", "/any/{rest*}", hold, R_STREAM_BODY, .doc = "-" },
        { 0 },
};

static void on_done(void *app, struct req *r, int status, int64_t took_us, uint64_t bytes)
{
        ((struct bed *) app)->last_status = status;
}

static void bed_open_with(struct bed *b, const struct http_server_spec *base)
{
        static const struct route *const tables[] = { rows, NULL };
        struct http_server_spec spec = *base;
        int fd[2];

        *b = (struct bed) { .loop = loop_new(), .router = router_new(tables) };
        spec.limits = http_limits_default;
        spec.router = b->router;
        spec.app = b;
        spec.on_done = on_done;
        b->srv = http_server_new(b->loop, &spec);
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        b->fd = fd[1];
        conn_new(b->srv, fd[0]);
}

static void bed_open(struct bed *b)
{
        static const struct http_server_spec plain;

        bed_open_with(b, &plain);
}

static void bed_close(struct bed *b)
{
        if (b->held)
                req_release(TAKE_PTR(b->held));
        http_server_free(b->srv);
        stream_free(b->upgraded);
        loop_free(b->loop);
        router_free(b->router);
        buf_done(&b->got);
        (void) close(b->fd);
}

static void say(struct bed *b, const char *text)
{
        EXPECT_INT(write(b->fd, text, strlen(text)), strlen(text));
}

/* A few turns, and what the server has said by then. */
static void hear(struct bed *b)
{
        static const bool never;
        char block[4096];

        for (int i = 0; i < 6; i++) {
                ssize_t n;

                (void) loop_run_until(b->loop, &never, 0);
                n = read(b->fd, block, sizeof(block));
                if (n > 0)
                        buf_put(&b->got, block, (size_t) n);
                else if (n == 0 || errno != EAGAIN)
                        b->at_eof = true;
        }
}

#define HEAD "Host: localhost\r\n"

/* ---- leaving HTTP ---- */

#define SWITCH                                                                                     \
        "GET /any/chat HTTP/1.1\r\n" HEAD                                                          \
        "Connection: keep-alive, Upgrade\r\nUpgrade: chat/2\r\n\r\n"

TEST(http_stream_is_taken_with_another_servers_head)
{
        static const char head[] =
                "HTTP/1.1 101 Switching\r\nupgrade: chat/2\r\nx-theirs: 1\r\n\r\n";
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(head, sizeof(head) - 1);
        struct error err = { 0 };
        struct slice early;
        struct bed b;

        bed_open(&b);
        say(&b, SWITCH "first");
        hear(&b);
        EXPECT(b.held && req_wants_upgrade(b.held));
        say(&b, " second");
        hear(&b);
        EXPECT_OK(req_take_stream(b.held, c, &b.upgraded, &early, &err), err);
        EXPECT_INT(early.len, 12);
        EXPECT_MEM(early.at, "first second", 12);
        EXPECT_INT(b.last_status, 101);
        EXPECT_INT(http_server_stats(b.srv)->streams_open, 1);
        EXPECT_INT(req_take_stream(b.held, c, &b.upgraded, &early, &err), -1);
        EXPECT(stream_write_bytes(b.upgraded, "bytes", 5, NULL) >= 0);
        hear(&b);
        EXPECT_INT(b.got.len, sizeof(head) - 1 + 5);
        EXPECT_MEM(b.got.data, head, sizeof(head) - 1); /* nothing of ours is added */
        req_release(TAKE_PTR(b.held));
        EXPECT_INT(http_server_stats(b.srv)->streams_open, 0);
        bed_close(&b);
}

TEST(http_stream_is_not_taken_from_a_client_that_left)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy("x", 1);
        struct stream *none = NULL;
        struct error err = { 0 };
        struct slice early;
        struct bed b;
        struct req *r;

        bed_open(&b);
        say(&b, SWITCH);
        hear(&b);
        r = b.held;
        req_hold(r, NULL, NULL);
        (void) shutdown(b.fd, SHUT_RDWR);
        hear(&b);
        EXPECT_INT(b.gone, 1);
        EXPECT_ERR(req_take_stream(r, c, &none, &early, &err), ERR_UPSTREAM, err);
        EXPECT(!none);
        req_release(r);
        bed_close(&b);
}

static void expect_upgrade(const char *request, bool want)
{
        struct bed b;

        bed_open(&b);
        say(&b, request);
        hear(&b);
        EXPECT(b.held);
        EXPECT_INT(req_wants_upgrade(b.held), want);
        bed_close(&b);
}

TEST(http_upgrade_is_wanted_with_both_headers_and_no_body)
{
        expect_upgrade(SWITCH, true);
        expect_upgrade("GET /any/ HTTP/1.1\r\n" HEAD "Upgrade: x\r\n\r\n", false);
        expect_upgrade("GET /any/ HTTP/1.1\r\n" HEAD "Connection: upgrade\r\n\r\n", false);
        expect_upgrade("GET /any/ HTTP/1.0\r\n" HEAD "Connection: upgrade\r\nUpgrade: x\r\n\r\n",
                       false);
        expect_upgrade("POST /any/ HTTP/1.1\r\n" HEAD
                       "Content-Length: 1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
                       false);
}

/* ---- rows of any method ---- */

static void expect_any(const char *method)
{
        struct bed b;
        char text[128];

        bed_open(&b);
        (void) snprintf(text, sizeof(text), "%s /any/a/b HTTP/1.1\r\n" HEAD "\r\n", method);
        say(&b, text);
        hear(&b);
        EXPECT(b.held);
        EXPECT(slice_eq(req_method(b.held), method));
        EXPECT_STR(req_param(b.held, "rest"), "a/b");
        EXPECT_INT(req_is_head(b.held), strcmp(method, "HEAD") == 0);
        (void) reply_json(b.held, 200, "{}", 2);
        hear(&b);
        EXPECT(strncmp(b.got.data, "HTTP/1.1 200 ", 13) == 0);
        EXPECT(!b.at_eof);
        bed_close(&b);
}

TEST(http_row_of_any_method_is_handed_every_method)
{
        static const char *const methods[] = { "GET",   "HEAD",   "POST",    "PUT",
                                               "PATCH", "DELETE", "OPTIONS", "PROPFIND" };

        for (size_t i = 0; i < ARRAY_LEN(methods); i++)
                expect_any(methods[i]);
}

TEST(http_browsers_question_is_answered_by_us_when_cors_is_on)
{
#define QUESTION                                                                                   \
        "OPTIONS /any/a HTTP/1.1\r\n" HEAD                                                         \
        "Origin: http://page\r\nAccess-Control-Request-Method: PUT\r\n\r\n"
        static const char *const origins[] = { "http://page", NULL }, *const none[] = { NULL };
        struct cors cors = { .origins = origins };
        struct http_server_spec spec = { 0 };
        struct bed b;

        spec.policy.cors = &cors;
        bed_open_with(&b, &spec);
        say(&b, QUESTION);
        hear(&b);
        EXPECT(!b.held);
        EXPECT(strstr(b.got.data, "access-control-allow-origin: http://page"));
        say(&b, "OPTIONS /any/a HTTP/1.1\r\n" HEAD "\r\n"); /* no question of a browser */
        hear(&b);
        EXPECT(b.held);
        bed_close(&b);
        cors.origins = none;
        bed_open_with(&b, &spec);
        say(&b, QUESTION);
        hear(&b);
        EXPECT(b.held);
        bed_close(&b);
}

static bool as_reader(void *arg, struct req *r, bool is_ws, const char **ret_name,
                      unsigned *ret_scopes)
{
        *ret_name = "reader";
        *ret_scopes = SCOPE_READ;
        *(bool *) arg = is_ws;
        return true;
}

TEST(http_row_of_any_method_wants_the_scope_of_the_method)
{
        static const struct {
                const char *line, *headers;
                bool may, is_ws;
        } cases[] = {
                { "GET", "", true, false },      { "HEAD", "", true, false },
                { "POST", "", false, false },    { "PROPFIND", "", false, false },
                { "OPTIONS", "", false, false }, { "GET", "Upgrade: x\r\n", false, true },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct http_server_spec spec = { 0 };
                bool is_ws = false;
                char text[128];
                struct bed b;

                spec.policy.authenticate = as_reader;
                spec.policy.arg = &is_ws;
                bed_open_with(&b, &spec);
                (void) snprintf(text, sizeof(text), "%s /any/a HTTP/1.1\r\n" HEAD "%s\r\n",
                                cases[i].line, cases[i].headers);
                say(&b, text);
                hear(&b);
                EXPECT_INT(b.held != NULL, cases[i].may);
                EXPECT_INT(is_ws, cases[i].is_ws);
                if (!cases[i].may)
                        EXPECT(strstr(b.got.data, "HTTP/1.1 403 "));
                bed_close(&b);
        }
}
