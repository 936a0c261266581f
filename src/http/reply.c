#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "http/conn.h"
#include "http/cors.h"
#include "http/req.h"
#include "http/status.h"
#include "json/write.h"

enum {
        INLINE_BODY = 16 * 1024, /* a smaller body leaves in one piece with its head */
        HEAD_GUESS = 512,
};

void reply_header(struct req *r, const char *name, const char *value)
{
        /* No value can end the line: header injection stops here. */
        if (strpbrk(value, "\r\n"))
                return;
        if (strcmp(name, "vary") == 0) { /* every reply has this line: add to it */
                r->vary = arena_strdup(&r->arena, value);
                return;
        }
        buf_puts(&r->extra, name);
        buf_puts(&r->extra, ": ");
        buf_puts(&r->extra, value);
        buf_puts(&r->extra, "\r\n");
}

#define PUT(b, literal) buf_put((b), literal, sizeof(literal) - 1)

static void put_status(struct buf *b, int status)
{
        if (status == 200) {
                PUT(b, "HTTP/1.1 200 OK\r\n");
                return;
        }
        buf_printf(b, "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
}

static void put_type(struct buf *b, const char *type)
{
        if (!type)
                return;
        PUT(b, "content-type: ");
        buf_puts(b, type);
        PUT(b, "\r\n");
}

static void put_cors(struct req *r, struct buf *b)
{
        const struct cors *cors = r->srv->spec.policy.cors;

        PUT(b, "vary: origin, access-control-request-method, access-control-request-headers");
        if (r->vary) {
                PUT(b, ", ");
                buf_puts(b, r->vary);
        }
        PUT(b, "\r\n");
        if (cors)
                cors_put(cors, req_header(r, "origin"), strcmp(r->method, "OPTIONS") == 0,
                         req_header(r, "access-control-request-method"),
                         req_header(r, "access-control-request-headers"), b);
}

/* The head of a reply. length -1 = chunked (or until close, for HTTP/1.0). */
static void put_head(struct req *r, struct buf *b, int status, const char *type, int64_t length)
{
        (void) buf_room(b,
                        HEAD_GUESS + (size_t) (length > 0 && length <= INLINE_BODY ? length : 0));
        put_status(b, status);
        put_type(b, type);
        put_cors(r, b);
        if (r->extra.len)
                buf_put(b, r->extra.data, r->extra.len);
        if (length >= 0) {
                PUT(b, "content-length: ");
                buf_putu(b, (unsigned long long) length);
                PUT(b, "\r\n");
        } else if (r->is_chunked) {
                PUT(b, "transfer-encoding: chunked\r\n");
        }
        if (!r->keep_alive || r->srv->is_draining)
                PUT(b, "connection: close\r\n");
        else if (r->is_http10)
                PUT(b, "connection: keep-alive\r\n");
        PUT(b, "x-request-id: ");
        buf_puts(b, req_id(r));
        PUT(b, "\r\ndate: ");
        buf_puts(b, clock_http_date());
        PUT(b, "\r\n\r\n");
}

static void count(struct req *r, size_t bytes)
{
        r->reply_bytes += bytes;
        r->srv->stats.bytes_out += bytes;
}

static int send_buf(struct req *r, struct buf *b)
{
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;

        count(r, b->len);
        c = buf_take_chunk(b);
        return stream_write(r->conn->stream, c, NULL);
}

static void begin(struct req *r, int status)
{
        r->has_begun = true;
        r->status = status;
        if (r->has_body && !r->body_done)
                r->keep_alive = false; /* answered before the body came: it is never read */
}

/* Exactly once per request that began an answer. */
void reply_account(struct req *r)
{
        struct http_server *srv = r->srv;
        int64_t took_us = clock_mono_us() - r->start_us;

        r->has_ended = true;
        srv->stats.requests++;
        srv->stats.by_class[MIN(r->status / 100, 5)]++;
        srv->stats.latency_us_sum += (uint64_t) took_us;
        if (srv->spec.on_done)
                srv->spec.on_done(srv->spec.app, r, r->status, took_us, r->reply_bytes);
}

static void done(struct req *r)
{
        if (r->has_ended)
                return;
        reply_account(r);
        if (r->conn)
                conn_reply_done(r->conn);
}

static bool has_no_body(int status)
{
        return status == 204 || status == 304;
}

static int reply_small(struct req *r, int status, const char *type, const void *data, size_t len)
{
        struct buf b = { 0 };

        if (!r->conn || r->has_begun)
                return -1;
        begin(r, status);
        put_head(r, &b, status, type, has_no_body(status) ? -1 : (int64_t) len);
        if (!r->is_head && !has_no_body(status))
                buf_put(&b, data, len);
        (void) send_buf(r, &b);
        done(r);
        return 0;
}

int reply_json(struct req *r, int status, const char *json, size_t len)
{
        if (len <= INLINE_BODY)
                return reply_small(r, status, "application/json", json, len);
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(json, len);

        return reply_bytes(r, status, "application/json", c);
}

int reply_empty(struct req *r, int status)
{
        return reply_small(r, status, NULL, "", 0);
}

int reply_bytes(struct req *r, int status, const char *type, struct chunk *body)
{
        struct buf b = { 0 };

        if (body->len <= INLINE_BODY)
                return reply_small(r, status, type, body->data, body->len);
        if (!r->conn || r->has_begun)
                return -1;
        begin(r, status);
        put_head(r, &b, status, type, (int64_t) body->len);
        (void) send_buf(r, &b);
        if (!r->is_head) {
                count(r, body->len);
                (void) stream_write(r->conn->stream, body, NULL);
        }
        done(r);
        return 0;
}

int reply_file(struct req *r, int status, const char *type, int fd, uint64_t offset, uint64_t len)
{
        _cleanup_close_ int own = fd;
        struct buf b = { 0 };

        if (!r->conn || r->has_begun)
                return -1;
        begin(r, status);
        put_head(r, &b, status, type, (int64_t) len);
        (void) send_buf(r, &b);
        if (!r->is_head) {
                count(r, len);
                (void) stream_write_file(r->conn->stream, TAKE_FD(own), offset, len, NULL);
        }
        done(r);
        return 0;
}

static void put_problem(struct buf *b, const struct error *err)
{
        const struct err_face *f = &err_faces[err->kind];
        struct buf text = { 0 };
        struct jw w = { .out = b };

        jw_obj(&w, NULL);
        buf_printf(&text, "urn:sandbox-agent:error:%s", f->urn);
        jw_str(&w, "type", text.data);
        jw_str(&w, "title", f->title);
        jw_i64(&w, "status", f->http);
        buf_clear(&text);
        buf_printf(&text, "%s%s", f->detail ? f->detail : f->prefix, f->detail ? "" : err->msg);
        jw_str(&w, "detail", text.data);
        if (!err->ext && f->has_message) {
                jw_obj(&w, "details");
                jw_str(&w, "message", err->msg);
                jw_end(&w);
        }
        if (err->ext) {
                buf_putc(b, ',');
                buf_puts(b, err->ext);
        }
        jw_end(&w);
        buf_done(&text);
}

int reply_error(struct req *r, const struct error *err)
{
        struct buf b = { 0 };
        int n;

        put_problem(&b, err);
        n = reply_small(r, err_faces[err->kind].http, "application/problem+json", b.data, b.len);
        buf_done(&b);
        return n;
}

void reply_continue(struct req *r)
{
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

        (void) stream_write_bytes(r->conn->stream, text, sizeof(text) - 1, NULL);
}

int reply_begin(struct req *r, int status, const char *type, int64_t length)
{
        struct buf b = { 0 };

        if (!r->conn || r->has_begun)
                return -1;
        begin(r, status);
        r->conn->stream->high_bytes = STREAM_HIGH_BYTES;
        r->reply_left = has_no_body(status) ? 0 : length;
        r->is_chunked = r->reply_left < 0 && !r->is_http10;
        if (r->reply_left < 0 && r->is_http10)
                r->keep_alive = false;
        put_head(r, &b, status, type, has_no_body(status) ? -1 : length);
        (void) send_buf(r, &b);
        if (r->is_head)
                done(r); /* writes of the handler find the client gone */
        return 0;
}

static int write_framed(struct req *r, struct chunk *c)
{
        struct stream *s = r->conn->stream;
        char line[24];
        int n;

        if (!r->is_chunked)
                return stream_write(s, c, NULL);
        n = snprintf(line, sizeof(line), "%zx\r\n", c->len);
        (void) stream_write_bytes(s, line, (size_t) n, NULL);
        (void) stream_write(s, c, NULL);
        return stream_write_bytes(s, "\r\n", 2, NULL);
}

int reply_write(struct req *r, struct chunk *c)
{
        int room;

        if (!r->conn || r->has_ended || !r->has_begun)
                return -1;
        if (!c->len)
                return !r->conn->stream->is_full;
        if (r->reply_left >= 0) {
                if ((int64_t) c->len > r->reply_left)
                        return -1; /* more than was promised would be read as the next reply */
                r->reply_left -= (int64_t) c->len;
        }
        count(r, c->len);
        room = write_framed(r, c);
        if (room == 0)
                conn_wait_room(r->conn);
        return room;
}

int reply_write_bytes(struct req *r, const void *data, size_t len)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(data, len);

        return reply_write(r, c);
}

void reply_on_room(struct req *r, void (*on_room)(void *arg), void *arg)
{
        r->on_room = on_room;
        r->room_arg = arg;
}

void reply_end(struct req *r)
{
        if (!r->conn || r->has_ended || !r->has_begun)
                return;
        if (r->reply_left > 0) {
                reply_abort(r); /* a short body must not look complete */
                return;
        }
        if (r->is_chunked)
                (void) stream_write_bytes(r->conn->stream, "0\r\n\r\n", 5, NULL);
        done(r);
}

void reply_abort(struct req *r)
{
        struct conn *c = r->conn;

        if (!c || r->has_ended)
                return;
        (void) req_ref(r);
        r->conn = NULL;
        c->req = NULL;
        r->keep_alive = false;
        done(r);
        req_unref(r); /* the connection's */
        req_unref(r);
        conn_kill(c);
}
