/* One connection: bytes → parser → request, one request at a time, in order. The parser's callbacks
 * only copy and pause; everything that can answer, close or free runs outside of the parser. */
#include "http/conn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "http/req.h"
#include "io/tls.h"

enum {
        LINGER_MS = 2000,
        PENDING_MAX = STREAM_READ_BYTES,
        /* Answers that wait for a client that pipelines and does not read. Small answers cost
         * several times their bytes in memory, so this is less than a stream may have under way. */
        PIPELINE_BYTES = 32 * 1024,
};

static const char *const known_methods[] = { "GET",    "HEAD",    "POST", "PUT",
                                             "DELETE", "OPTIONS", "PATCH" };

/* ---- parser callbacks ---- */

static int refuse(struct conn *c, enum err_kind kind, const char *what, size_t max)
{
        c->fault = NEW(struct error);
        (void) error_set(c->fault, kind, 0, "%s (limit %zu)", what, max);
        return HPE_USER;
}

/* Long texts grow by doubling. A text that comes byte by byte and grows by little more than that
 * would be copied, and kept by the arena, a thousand times. */
static size_t room_for(size_t len)
{
        size_t n = 256;

        if (len < n)
                return len + 1;
        while (n <= len)
                n *= 2;
        return n;
}

static void append(struct req *r, struct slice *s, const char *at, size_t len)
{
        char *p = arena_grow(&r->arena, s->len ? (char *) s->at : NULL, room_for(s->len),
                             room_for(s->len + len));

        memcpy(p + s->len, at, len);
        p[s->len + len] = '\0';
        *s = (struct slice) { p, s->len + len };
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
        struct conn *c = p->data;

        if (c->req->target.len + len > c->srv->spec.limits.max_uri_bytes)
                return refuse(c, ERR_URI_TOO_LONG, "the request target is too long",
                              c->srv->spec.limits.max_uri_bytes);
        append(c->req, &c->req->target, at, len);
        return 0;
}

static int count_head(struct conn *c, size_t len)
{
        const struct http_limits *lim = &c->srv->spec.limits;

        c->req->head_bytes += len;
        if (c->req->head_bytes > lim->max_head_bytes)
                return refuse(c, ERR_HEAD_TOO_BIG, "the header fields are too large",
                              lim->max_head_bytes);
        return 0;
}

static int add_header(struct conn *c)
{
        struct req *r = c->req;
        size_t was = r->cap_headers;

        if (r->n_headers == c->srv->spec.limits.max_headers)
                return refuse(c, ERR_HEAD_TOO_BIG, "too many header fields", r->n_headers);
        if (r->n_headers == was) {
                r->cap_headers = was ? was * 2 : HTTP_HEADERS_START;
                r->headers = arena_grow(&r->arena, r->headers, was * sizeof(struct header),
                                        r->cap_headers * sizeof(struct header));
        }
        r->headers[r->n_headers++] = (struct header) { { "", 0 }, { "", 0 } };
        return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
        struct conn *c = p->data;
        struct header *h;

        if (count_head(c, len))
                return HPE_USER;
        if (c->state == CONN_BODY)
                return 0; /* a trailer: it comes after all decisions and changes none */
        if ((c->in_value || !c->req->n_headers) && add_header(c))
                return HPE_USER;
        c->in_value = false;
        h = &c->req->headers[c->req->n_headers - 1];
        append(c->req, &h->name, at, len);
        for (char *s = (char *) h->name.at + h->name.len - len; *s; s++)
                if (*s >= 'A' && *s <= 'Z')
                        *s = (char) (*s | 0x20);
        return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
        struct conn *c = p->data;

        if (count_head(c, len))
                return HPE_USER;
        c->in_value = true;
        if (len && c->state != CONN_BODY)
                append(c->req, &c->req->headers[c->req->n_headers - 1].value, at, len);
        return 0;
}

static int on_value_complete(llhttp_t *p)
{
        ((struct conn *) p->data)->in_value = true; /* also after an empty value */
        return 0;
}

static int on_head(llhttp_t *p)
{
        struct conn *c = p->data;
        struct req *r = c->req;

        if (!(p->flags & F_CHUNKED) && p->content_length > INT64_MAX)
                return refuse(c, ERR_INVALID, "the content-length is absurd", INT64_MAX);
        r->keep_alive = llhttp_should_keep_alive(p);
        r->is_http10 = p->http_major == 1 && p->http_minor == 0;
        r->content_length = (p->flags & F_CHUNKED) ? -1 : (int64_t) p->content_length;
        r->has_body = r->content_length != 0;
        /* The parser would stop at an upgrade that we may not want; dispatch decides. */
        p->upgrade = 0;
        c->head_done = true;
        return HPE_PAUSED;
}

static void buffer_body(struct conn *c, const char *at, size_t len)
{
        struct req *r = c->req;

        r->body.max_bytes = r->max_body;
        if (!c->fault && buf_add(&r->body, at, len, NULL) < 0) {
                c->fault = NEW(struct error);
                (void) error_set(c->fault, ERR_TOO_BIG, 0,
                                 "the request body is over the limit of %zu bytes", r->max_body);
        }
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
        struct conn *c = p->data;
        struct req *r = c->req;

        if (c->is_dead || c->state != CONN_BODY)
                return HPE_USER; /* answered in the middle of the body: feed_parser() stops */
        if (r->is_discarding)
                return 0;
        if (r->sink) {
                timer_set(&c->in_timer, c->srv->spec.limits.body_ms);
                r->sink->on_data(r->sink_arg, at, len);
                return 0;
        }
        buffer_body(c, at, len);
        return c->fault ? HPE_USER : 0;
}

static int on_message(llhttp_t *p)
{
        ((struct conn *) p->data)->msg_done = true;
        return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_header_field = on_field,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_complete,
        .on_headers_complete = on_head,
        .on_body = on_body,
        .on_message_complete = on_message,
};

/* ---- life ---- */

static void set_state(struct conn *c, enum conn_state s)
{
        c->state = s;
}

void conn_kill(struct conn *c)
{
        struct req *r = c->req;

        if (c->is_dead)
                return;
        c->is_dead = true;
        c->req = NULL;
        timer_stop(&c->in_timer);
        timer_stop(&c->out_timer);
        task_cancel(&c->resume);
        buf_done(&c->pending);
        list_remove(&c->node);
        c->stream = stream_free(c->stream);
        free(c->fault);
        c->fault = NULL;
        server_conn_closed(c->srv, c);
        if (r)
                req_gone(r);
        loop_free_later(c->srv->loop, c);
}

void conn_wait_room(struct conn *c)
{
        if (timer_armed(&c->out_timer))
                return; /* who writes on regardless does not buy the client time */
        c->taken_then = stream_taken(c->stream);
        timer_set(&c->out_timer, c->srv->spec.limits.write_ms);
}

/* Slowly is fine, not at all is not. */
static bool is_reading(struct conn *c)
{
        uint64_t was = c->taken_then;

        c->taken_then = stream_taken(c->stream);
        return c->taken_then != was;
}

/* Closes our side after what is queued; the client may still read. */
static void linger(struct conn *c)
{
        set_state(c, CONN_LINGER);
        buf_done(&c->pending);
        if (c->saw_eof && !stream_queued(c->stream)) {
                conn_kill(c);
                return;
        }
        stream_pause(c->stream, false);
        stream_finish(c->stream);
        timer_set(&c->in_timer, LINGER_MS);
        conn_wait_room(c);
}

/* A failure of the message itself: answer if nobody has, then close. */
static void fail(struct conn *c, const struct error *why)
{
        struct req *r = c->req;

        if (!r)
                r = c->req = req_new(c);
        r->keep_alive = false;
        (void) req_ref(r);
        if (why->kind == ERR_SLOW_CLIENT)
                c->srv->stats.timeouts++;
        else
                c->srv->stats.parse_errors++;
        set_state(c, CONN_WAIT);
        if (r->sink) {
                const struct body_sink *to = r->sink;

                r->sink = NULL;
                to->on_end(r->sink_arg, why);
        }
        if (!c->is_dead && !r->has_begun)
                (void) reply_error(r, why);
        else if (!c->is_dead && !r->has_ended)
                conn_kill(c); /* half an answer is out: a broken transfer is the honest end */
        req_gone(r);
        req_unref(r);
}

/* Between two requests, with room to answer: read on, what was held back first. */
static void go_on(struct conn *c)
{
        stream_pause(c->stream, false);
        if (c->pending.len && !c->is_feeding)
                loop_defer(c->srv->loop, &c->resume);
}

void conn_reply_done(struct conn *c)
{
        struct req *r = c->req;
        bool may_go_on = r->keep_alive && (r->body_done || !r->has_body) && !c->srv->is_draining &&
                         !c->saw_eof;

        c->req = NULL;
        timer_stop(&c->out_timer);
        r->conn = NULL;
        r->sink = NULL;
        req_unref(r);
        c->is_body_paused = c->must_step = c->is_head_timed = false;
        if (!may_go_on) {
                linger(c);
                return;
        }
        set_state(c, CONN_IDLE);
        c->stream->high_bytes = PIPELINE_BYTES;
        c->method_len = 0;
        c->taken_then = 0; /* to look now would cost each answer a system call */
        timer_set(&c->in_timer, c->srv->spec.limits.idle_ms);
        if (c->stream->is_full)
                conn_wait_room(c);
        else
                go_on(c);
}

/* ---- reading ---- */

static bool is_tchar(char ch)
{
        return (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') ||
               (ch && strchr("!#$%&'*+-.^_`|~", ch));
}

static bool is_known(const char *method, size_t len)
{
        for (size_t i = 0; i < ARRAY_LEN(known_methods); i++)
                if (strlen(known_methods[i]) == len && memcmp(known_methods[i], method, len) == 0)
                        return true;
        return false;
}

static void start_message(struct conn *c)
{
        struct req *r = c->req = req_new(c);

        memcpy(r->method, c->method, c->method_len);
        r->method[c->method_len] = '\0';
        r->is_unknown_method = !is_known(c->method, c->method_len);
        r->is_head = strcmp(r->method, "HEAD") == 0;
        c->method_len = 0;
        c->in_value = c->head_done = c->msg_done = false;
        set_state(c, CONN_HEAD);
        llhttp_init(&c->parser, HTTP_REQUEST, &settings);
        c->parser.data = c;
        /* The parser refuses methods that it does not know with 400; the router's answer is 405. So
         * it is shown GET, and the request keeps the real word. */
        (void) llhttp_execute(&c->parser, r->is_unknown_method ? "GET" : r->method,
                              r->is_unknown_method ? 3 : strlen(r->method));
}

static void fail_text(struct conn *c, enum err_kind kind, const char *text)
{
        struct error err;

        (void) error_set(&err, kind, 0, "%s", text);
        fail(c, &err);
}

/* Reads the method. Returns the bytes taken; the state is CONN_HEAD once the word is complete. */
static size_t feed_method(struct conn *c, const char *data, size_t len)
{
        size_t i = 0;

        if (!c->method_len)
                while (i < len && (data[i] == '\r' || data[i] == '\n'))
                        i++;
        for (; i < len; i++) {
                if (data[i] == ' ' && c->method_len) {
                        start_message(c);
                        return i;
                }
                if (!is_tchar(data[i]) || c->method_len == HTTP_METHOD_MAX - 1) {
                        fail_text(c, ERR_INVALID, "the request line is malformed");
                        return len;
                }
                c->method[c->method_len++] = data[i];
        }
        return i;
}

static void parser_failed(struct conn *c, llhttp_errno_t code)
{
        struct error err;
        _cleanup_free_ struct error *fault = TAKE_PTR(c->fault);

        if (fault)
                err = *fault;
        else if (code == HPE_INVALID_VERSION &&
                 !(c->parser.http_major == 1 && c->parser.http_minor <= 1))
                (void) error_set(&err, ERR_HTTP_VERSION, 0, "this is not HTTP/1.0 or HTTP/1.1");
        else
                (void) error_set(&err, ERR_INVALID, 0, "malformed HTTP: %s",
                                 llhttp_get_error_reason(&c->parser));
        fail(c, &err);
}

static void head_complete(struct conn *c)
{
        c->head_done = false;
        c->must_step = !c->req->has_body;
        c->is_head_timed = false;
        set_state(c, CONN_BODY);
        if (c->req->has_body)
                timer_set(&c->in_timer, c->srv->spec.limits.body_ms);
        dispatch_head(c->req);
        if (!c->is_dead && c->state == CONN_BODY && c->req->is_streaming && !c->req->sink)
                timer_stop(&c->in_timer); /* nobody reads yet: the client is not the slow one */
}

static void message_complete(struct conn *c)
{
        struct req *r = c->req;

        c->msg_done = false;
        r->body_done = true;
        timer_stop(&c->in_timer);
        if (c->state != CONN_BODY)
                return; /* answered already */
        set_state(c, CONN_WAIT);
        if (c->is_body_paused) { /* read on, or nobody notices when the client leaves */
                c->is_body_paused = false;
                stream_pause(c->stream, false);
        }
        if (r->sink) {
                const struct body_sink *to = r->sink;

                r->sink = NULL;
                to->on_end(r->sink_arg, NULL);
        } else {
                dispatch_complete(r);
        }
}

/* One step of the parser. Returns the bytes taken. */
static size_t feed_parser(struct conn *c, const char *data, size_t len)
{
        llhttp_errno_t code = llhttp_execute(&c->parser, data, len);
        size_t used;

        c->must_step = false;
        if (code == HPE_OK || c->is_dead || c->state == CONN_LINGER)
                return len;
        if (code != HPE_PAUSED) {
                parser_failed(c, code);
                return len;
        }
        used = (size_t) (llhttp_get_error_pos(&c->parser) - data);
        llhttp_resume(&c->parser);
        c->rest = (struct slice) { data + used, len - used }; /* for an upgrade */
        if (c->head_done)
                head_complete(c);
        else if (c->msg_done)
                message_complete(c);
        return used;
}

static bool may_read(const struct conn *c)
{
        switch (c->state) {
        case CONN_IDLE: return !c->stream->is_full; /* who does not read gets no further answer */
        case CONN_HEAD: return true;
        case CONN_BODY: return !c->req->is_streaming || c->req->sink;
        case CONN_WAIT:
        case CONN_LINGER: break;
        }
        return false;
}

static void hold_back(struct conn *c, const char *data, size_t len)
{
        buf_put(&c->pending, data, len);
        if (c->pending.len < PENDING_MAX)
                return;
        stream_pause(c->stream, true);
        if (c->state == CONN_WAIT)
                timer_set(&c->in_timer, c->srv->spec.limits.idle_ms);
}

/* So much waits behind a request that is not answered for so long: it is dropped, and the answer is
 * the last one. Only who reads on notices when the client leaves; its end may stand behind bytes
 * that do not fit into the kernel. */
static void go_deaf(struct conn *c)
{
        c->is_deaf = true;
        c->req->keep_alive = false;
        buf_done(&c->pending);
        stream_pause(c->stream, false);
}

static void feed(struct conn *c, const char *data, size_t len)
{
        c->is_feeding = true;
        while ((len || c->must_step) && !c->is_dead && may_read(c)) {
                size_t n = c->state == CONN_IDLE ? feed_method(c, data, len)
                                                 : feed_parser(c, data, len);

                data += n;
                len -= n;
        }
        c->is_feeding = false;
        c->rest = (struct slice) { 0 };
        if (c->is_dead)
                return;
        if (len && c->state != CONN_LINGER)
                hold_back(c, data, len);
        /* Once per head, however slowly it comes. */
        if (!c->is_head_timed &&
            (c->state == CONN_HEAD || (c->state == CONN_IDLE && c->method_len))) {
                c->is_head_timed = true;
                timer_set(&c->in_timer, c->srv->spec.limits.head_ms);
        }
}

static void run_resume(struct task *t)
{
        struct conn *c = CONTAINER_OF(t, struct conn, resume);
        struct buf held = c->pending;

        c->pending = (struct buf) { 0 };
        stream_pause(c->stream, c->is_body_paused);
        if (held.len || c->must_step)
                feed(c, held.len ? held.data : "", held.len);
        buf_done(&held);
}

static void on_data(void *arg, const char *data, size_t len)
{
        struct conn *c = arg;

        c->srv->stats.bytes_in += len;
        if (c->state == CONN_LINGER || c->is_deaf)
                return;
        if (c->pending.len || !may_read(c)) {
                hold_back(c, data, len);
                return;
        }
        feed(c, data, len);
}

static void on_eof(void *arg)
{
        struct conn *c = arg;

        bool has_more = stream_queued(c->stream) > 0; /* answers that the client may still read */

        c->saw_eof = true;
        if (c->state == CONN_IDLE && has_more)
                linger(c);
        else if (c->state != CONN_LINGER || !has_more)
                conn_kill(c);
}

static void on_room(void *arg)
{
        struct conn *c = arg;

        if (c->state == CONN_LINGER)
                return; /* the rest must be read as well */
        timer_stop(&c->out_timer);
        if (c->req && c->req->on_room)
                c->req->on_room(c->req->room_arg);
        else if (c->state == CONN_IDLE)
                go_on(c);
}

static void on_end(void *arg, const struct error *why)
{
        conn_kill(arg); /* the client went away: its right, not our error */
}

static const struct stream_sink sink = {
        .on_data = on_data,
        .on_eof = on_eof,
        .on_room = on_room,
        .on_end = on_end,
};

static void on_in_timer(struct timer *t)
{
        struct conn *c = CONTAINER_OF(t, struct conn, in_timer);

        if (c->state == CONN_HEAD || c->state == CONN_BODY) {
                fail_text(c, ERR_SLOW_CLIENT,
                          c->state == CONN_HEAD ? "the request head took too long"
                                                : "the request body took too long");
        } else if (c->state == CONN_IDLE && c->method_len) {
                fail_text(c, ERR_SLOW_CLIENT, "the request head took too long");
        } else if (c->state == CONN_IDLE && stream_queued(c->stream) &&
                   (timer_armed(&c->out_timer) || is_reading(c))) {
                timer_set(t, c->srv->spec.limits.idle_ms); /* busy with our last answer */
        } else if (c->state == CONN_LINGER && stream_queued(c->stream)) {
                timer_set(t, LINGER_MS); /* the other timer watches whether it reads */
        } else if (c->state == CONN_WAIT && c->req) {
                go_deaf(c);
        } else {
                conn_kill(c);
        }
}

static void on_out_timer(struct timer *t)
{
        struct conn *c = CONTAINER_OF(t, struct conn, out_timer);

        if (is_reading(c)) {
                timer_set(t, c->srv->spec.limits.write_ms);
                return;
        }
        c->srv->stats.timeouts++;
        conn_kill(c);
}

void conn_drain(struct conn *c)
{
        if (c->state == CONN_IDLE)
                linger(c);
        else if (c->req)
                c->req->keep_alive = false;
}

void conn_new(struct http_server *srv, int fd)
{
        struct conn *c = NEW(struct conn);
        struct stream *plain = NULL;

        *c = (struct conn) { .srv = srv };
        list_init(&c->node);
        timer_init(&c->in_timer, srv->loop, on_in_timer);
        timer_init(&c->out_timer, srv->loop, on_out_timer);
        task_init(&c->resume, run_resume);
        if (stream_open_fd(srv->loop, fd, srv->spec.tls ? NULL : &sink, c, &plain, NULL) < 0) {
                free(c);
                return;
        }
        if (!srv->spec.tls) {
                c->stream = plain;
        } else if (tls_wrap(srv->spec.tls, plain, NULL, &sink, c, &c->stream, NULL) < 0) {
                free(c);
                return;
        }
        c->stream->high_bytes = PIPELINE_BYTES;
        list_push(&srv->conns, &c->node);
        srv->stats.conns_total++;
        srv->stats.conns_open++;
        srv->stats.conns_max = MAX(srv->stats.conns_max, srv->stats.conns_open);
        timer_set(&c->in_timer, srv->spec.limits.head_ms);
}
