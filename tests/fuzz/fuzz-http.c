/* The HTTP server's side of a connection, through the real parser glue: whatever the bytes are and
 * however they are split, every byte that comes back belongs to an answer, and nothing is left
 * behind when the client has gone.
 *
 * Input: one byte (how many cuts), one byte per cut (where, in 256ths of what is left), the wire.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http/conn.h"
#include "http/req.h"
#include "http/sse.h"
#include "http/ws.h"
#include "io/loop.h"

enum { CUTS_MAX = 6, TURNS_MAX = 200, WIRE_MAX = 64 * 1024 };

static struct loop *loop;
static struct http_server *srv;

/* ---- a row of each kind ---- */

static int get_plain(struct req *r, struct error *err)
{
        return reply_json(r, 200, "{\"ok\":true}", 11);
}

struct body {
        const char *text;
        uint64_t n;
};
static const struct field body_fields[] = {
        { "text", F_STR, F_REQUIRED, offsetof(struct body, text), 64, .doc = "-" },
        { "n", F_UINT, 0, offsetof(struct body, n), .doc = "-" },
        { 0 },
};

static int post_body(struct req *r, struct error *err)
{
        const struct body *b = req_body(r);

        assert(strlen(b->text) <= 64);
        return reply_json(r, 200, "{}", 2);
}

struct upload {
        struct req *req;
        struct task later;
        size_t bytes;
};

static void upload_data(void *arg, const char *data, size_t len)
{
        struct upload *u = arg;

        u->bytes += len;
        if (len % 5 == 1) {
                req_pause_body(u->req, true);
                loop_defer(loop, &u->later);
        }
}

static void upload_end(void *arg, const struct error *why)
{
        struct upload *u = arg;

        if (why)
                (void) reply_error(u->req, why);
        else
                (void) reply_empty(u->req, 204);
        task_cancel(&u->later);
        req_release(u->req);
        free(u);
}

static void upload_later(struct task *t)
{
        static const struct body_sink sink = { upload_data, upload_end };
        struct upload *u = CONTAINER_OF(t, struct upload, later);

        if (u->bytes)
                req_pause_body(u->req, false);
        else
                req_read_body(u->req, &sink, u);
}

static void upload_gone(void *arg)
{
        struct upload *u = arg;

        task_cancel(&u->later);
        req_release(u->req);
        free(u);
}

/* Reads at once or an iteration later; answers an empty path parameter without reading. */
static int post_upload(struct req *r, struct error *err)
{
        static const struct body_sink sink = { upload_data, upload_end };
        const char *how = req_param(r, "how");
        struct upload *u;

        if (how[0] == 'n')
                return error_set(err, ERR_CONFLICT, 0, "no");
        u = NEW(struct upload);
        u->req = r;
        task_init(&u->later, upload_later);
        if (how[0] == 'l') {
                req_hold(r, upload_gone, u);
                loop_defer(loop, &u->later);
                return 0;
        }
        req_hold(r, NULL, NULL);
        req_read_body(r, &sink, u);
        return 0;
}

struct feed {
        struct sse *sse;
};

static void feed_gone(void *arg)
{
        struct feed *f = arg;

        sse_free(f->sse);
        free(f);
}

static int get_sse(struct req *r, struct error *err)
{
        static const struct sse_cb cb = { .on_gone = feed_gone };
        struct feed *f = NEW(struct feed);
        uint64_t after;

        if (sse_last_id(r, &after, err) < 0 || sse_open(r, &cb, f, &f->sse, err) < 0) {
                free(f);
                return -1;
        }
        (void) sse_send(f->sse, NULL, after + 1, "{}", 2);
        return 0;
}

struct echo {
        struct ws *ws;
};

static void echo_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        (void) ws_send(((struct echo *) arg)->ws, op, data, len);
}

static void echo_end(void *arg, int code)
{
        struct echo *e = arg;

        ws_free(e->ws);
        free(e);
}

static int get_ws(struct req *r, struct error *err)
{
        static const struct ws_cb cb = { echo_message, NULL, echo_end };
        struct echo *e = NEW(struct echo);

        if (ws_accept(r, &cb, e, 4096, &e->ws, err) < 0) {
                free(e);
                return -1;
        }
        return 0;
}

static const struct route rows[] = {
        { "GET", "/v1/health", get_plain, .doc = "-" },
        { "POST", "/v1/echo", post_body, .body = body_fields, .body_size = sizeof(struct body),
          .max_body = 4096, .doc = "-" },
        { "POST", "/v1/up/{how}", post_upload, R_STREAM_BODY, .doc = "-" },
        { "GET", "/v1/sse", get_sse, R_SSE, .doc = "-" },
        { "GET", "/v1/ws", get_ws, R_WS, .doc = "-" },
        { 0 },
};

/* ---- one connection ---- */

static void turn(void)
{
        static const bool never;

        (void) loop_run_until(loop, &never, 0);
}

static void drain(int fd, struct buf *ret)
{
        char block[16 * 1024];
        ssize_t n;

        while ((n = read(fd, block, sizeof(block))) > 0)
                buf_put(ret, block, (size_t) n);
}

static void send_part(int fd, const uint8_t *data, size_t len, struct buf *got)
{
        while (len) {
                ssize_t n = write(fd, data, len);

                if (n < 0 && errno != EAGAIN)
                        return; /* the server has closed: fine */
                if (n > 0) {
                        data += n;
                        len -= (size_t) n;
                }
                turn();
                drain(fd, got);
        }
}

static bool is_quiet(void)
{
        return list_empty(&srv->conns) && list_empty(&srv->reqs);
}

static void set_up(void)
{
        static const struct route *const tables[] = { rows, NULL };
        struct http_server_spec spec = { .limits = http_limits_default };

        loop = loop_new();
        spec.router = router_new(tables);
        spec.limits.max_head_bytes = 4096;
        spec.limits.max_headers = 16;
        spec.limits.max_uri_bytes = 1024;
        srv = http_server_new(loop, &spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        size_t n_cuts = size ? data[0] % (CUTS_MAX + 1) : 0;
        struct buf got = { 0 };
        int fd[2];

        if (size < n_cuts + 2 || size > WIRE_MAX)
                return 0;
        if (!loop)
                set_up();
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) < 0)
                abort();
        conn_new(srv, fd[0]);
        for (size_t i = 0, at = n_cuts + 1; i <= n_cuts; i++) {
                size_t left = size - at, n = i < n_cuts ? left * data[1 + i] / 256 : left;

                send_part(fd[1], data + at, n, &got);
                at += n;
        }
        (void) shutdown(fd[1], SHUT_WR);
        for (int i = 0; i < TURNS_MAX && !is_quiet(); i++) {
                turn();
                drain(fd[1], &got);
        }
        drain(fd[1], &got);
        assert(is_quiet());
        assert(srv->stats.conns_open == 0 && srv->stats.streams_open == 0);
        assert(!got.len || strncmp(got.data, "HTTP/1.1 ", MIN(got.len, 9u)) == 0);
        (void) close(fd[1]);
        buf_done(&got);
        return 0;
}
