#include "http/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "http/response.h"
#include "http/url.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/stream.h"
#include "io/timer.h"
#include "io/tls.h"

enum { CONNECT_MS = 5000, HEAD_MS = 30000 };

/* DIALING → HEAD (request goes out, answer is awaited) → BODY, or TUNNEL after a 101 → OVER (on_end
 * was called, or the owner freed the call). Body pieces written before the connection stands are
 * kept in `out` behind the request's head and leave with it. */
enum call_state { CALL_DIALING, CALL_HEAD, CALL_BODY, CALL_TUNNEL, CALL_OVER };

struct http_call {
        struct loop *loop;
        const struct http_call_cb *cb;
        void *arg;
        struct url url;
        char *label; /* for errors: method and address without the query, which may hold a secret */
        struct tls *tls;
        struct dial *dial;
        char *fallback_host;   /* not tried yet, or NULL */
        struct error *refusal; /* of the first host, while the other one is tried */
        struct stream *stream;
        struct response response;
        struct timer timer; /* head or idle */
        struct task reap;
        struct buf out;
        struct chunk *body;
        enum call_state state;
        uint32_t connect_ms, head_ms, idle_ms;
        uint64_t sent_bytes; /* at the last look: has the request made progress? */
        bool is_chunked, is_paused, wants_room, has_finished, wants_upgrade;
};

/* Everything but the memory of the call itself. */
static void let_go(struct http_call *c)
{
        c->state = CALL_OVER;
        timer_stop(&c->timer);
        response_stop(&c->response);
        if (c->dial)
                dial_cancel(TAKE_PTR(c->dial));
        c->stream = stream_free(c->stream);
}

static void finish(struct http_call *c, const struct error *why)
{
        struct error err;

        if (c->state == CALL_OVER)
                return;
        let_go(c);
        if (why) {
                err = *why;
                (void) error_wrap(&err, "%s", c->label);
        }
        c->cb->on_end(c->arg, why ? &err : NULL);
}

/* ---- the answer ---- */

static void set_idle(struct http_call *c)
{
        if (c->idle_ms && !c->is_paused)
                timer_set(&c->timer, c->idle_ms);
        else
                timer_stop(&c->timer);
}

static void got_head(void *arg, int status)
{
        struct http_call *c = arg;

        c->state = CALL_BODY;
        set_idle(c);
        c->cb->on_head(c->arg, status);
}

static void got_body(void *arg, const char *data, size_t len)
{
        struct http_call *c = arg;

        c->cb->on_data(c->arg, data, len);
}

static const struct response_cb response_events = { got_head, got_body };

/* The parser of answers stops at every 101, with its headers read; who asked for it goes on. */
static bool has_switched(const struct http_call *c)
{
        const struct response *r = &c->response;

        return c->wants_upgrade && r->fault.kind == ERR_UPSTREAM && !r->has_head &&
               r->parser.status_code == 101;
}

static void start_tunnel(struct http_call *c, struct slice early)
{
        timer_stop(&c->timer);
        c->state = CALL_TUNNEL;
        c->has_finished = false;
        c->cb->on_head(c->arg, 101);
        if (c->state == CALL_TUNNEL && early.len)
                c->cb->on_data(c->arg, early.at, early.len);
}

static void on_data(void *arg, const char *data, size_t len)
{
        struct http_call *c = arg;
        struct error err;
        int r;

        if (c->state == CALL_TUNNEL) {
                c->cb->on_data(c->arg, data, len);
                return;
        }
        r = response_feed(&c->response, data, len, &err);
        if (c->state == CALL_OVER)
                return;
        if (r < 0 && has_switched(c)) {
                const char *end = llhttp_get_error_pos(&c->response.parser);

                start_tunnel(c, (struct slice) { end, len - (size_t) (end - data) });
                return;
        }
        if (r)
                finish(c, r < 0 ? &err : NULL);
        else if (c->state == CALL_BODY)
                set_idle(c);
}

static void on_room(void *arg)
{
        struct http_call *c = arg;

        if (c->state != CALL_OVER && c->cb->on_room && !c->has_finished)
                c->cb->on_room(c->arg);
}

static void on_end(void *arg, const struct error *why)
{
        struct http_call *c = arg;
        struct error err;

        if (!why && c->state != CALL_TUNNEL && response_finish(&c->response, &err) < 0)
                why = &err;
        finish(c, why);
}

static const struct stream_sink call_sink = { .on_data = on_data,
                                              .on_room = on_room,
                                              .on_end = on_end };

/* An upload that is still moving is not a silent server. */
static bool is_uploading(struct http_call *c)
{
        uint64_t was = c->sent_bytes;

        c->sent_bytes = stream_sent(c->stream);
        return c->sent_bytes > was;
}

static void on_timer(struct timer *t)
{
        struct http_call *c = CONTAINER_OF(t, struct http_call, timer);
        struct error err;

        if (c->state == CALL_HEAD && is_uploading(c)) {
                timer_set(t, c->head_ms);
                return;
        }
        (void) error_set(&err, ERR_TIMEOUT, 0, "%s for %u ms",
                         c->state == CALL_HEAD ? "no answer" : "the answer stood still",
                         c->state == CALL_HEAD ? c->head_ms : c->idle_ms);
        finish(c, &err);
}

/* ---- connecting ---- */

static int open_stream(struct http_call *c, int fd, struct error *err)
{
        if (stream_open_fd(c->loop, fd, &call_sink, c, &c->stream, err) < 0)
                return -1;
        c->stream->hears_out = true; /* an answer to half a request is an answer */
        if (!c->url.is_tls)
                return 0;
        return tls_wrap(c->tls, TAKE_PTR(c->stream), c->url.host, &call_sink, c, &c->stream, err);
}

static void send_request(struct http_call *c)
{
        _cleanup_(chunk_unrefp) struct chunk *out = buf_take_chunk(&c->out);

        (void) stream_write(c->stream, out, NULL);
        if (c->body)
                (void) stream_write(c->stream, c->body, NULL);
        c->body = chunk_unref(c->body);
        c->sent_bytes = stream_sent(c->stream);
}

static void connected(void *arg, int fd, const struct error *why);

static void dial(struct http_call *c, const char *host)
{
        c->dial = c->url.unix_path
                          ? dial_unix(c->loop, c->url.unix_path, (int) c->connect_ms, connected, c)
                          : dial_tcp(c->loop, host, c->url.port, (int) c->connect_ms, connected, c);
}

/* Nobody there: is somebody at the other address? If not, the first reason is the better one. */
static void not_connected(struct http_call *c, const struct error *why)
{
        _cleanup_free_ char *host = TAKE_PTR(c->fallback_host);

        if (!host || why->sys != ECONNREFUSED) {
                finish(c, c->refusal ? c->refusal : why);
                return;
        }
        c->refusal = NEW(struct error);
        *c->refusal = *why;
        dial(c, host);
}

static void connected(void *arg, int fd, const struct error *why)
{
        struct http_call *c = arg;
        struct error err;

        c->dial = NULL;
        if (fd < 0) {
                not_connected(c, why);
                return;
        }
        if (open_stream(c, fd, &err) < 0) {
                finish(c, &err);
                return;
        }
        c->state = CALL_HEAD;
        stream_pause(c->stream, c->is_paused);
        send_request(c);
        timer_set(&c->timer, c->head_ms);
        if (c->wants_room && !c->stream->is_full)
                on_room(c);
}

/* ---- the request ---- */

static bool is_token(struct slice s)
{
        static const char marks[] = "!#$%&'*+-.^_`|~";

        for (size_t i = 0; i < s.len; i++) {
                char c = (char) (s.at[i] | 0x20);

                if (!(c >= 'a' && c <= 'z') && !(s.at[i] >= '0' && s.at[i] <= '9') &&
                    (!s.at[i] || !strchr(marks, s.at[i])))
                        return false;
        }
        return s.len;
}

static bool is_field_text(struct slice s)
{
        for (size_t i = 0; i < s.len; i++)
                if (((unsigned char) s.at[i] < 0x20 && s.at[i] != '\t') || s.at[i] == 0x7f)
                        return false;
        return true;
}

/* Headers that the caller gave, by the rows they switch off. */
struct given {
        bool host, length, agent, accept;
};

static int put_header(struct buf *out, const char *line, struct given *given, struct error *err)
{
        struct slice value = SLICE(line), name;
        const struct {
                const char *name;
                bool *flag; /* NULL: ours to decide */
        } rows[] = {
                { "host", &given->host },      { "content-length", &given->length },
                { "accept", &given->accept },  { "user-agent", &given->agent },
                { "transfer-encoding", NULL }, { "connection", NULL },
        };

        (void) slice_cut(&value, ':', &name);
        if (!value.at || !is_token(name) || !is_field_text(value))
                return error_set(err, ERR_INVALID, 0, "header '%.*s' is malformed",
                                 (int) MIN(name.len, 64u), name.at);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                if (!slice_ieq(name, rows[i].name))
                        continue;
                if (!rows[i].flag)
                        return error_set(err, ERR_INVALID, 0, "header '%s' cannot be chosen",
                                         rows[i].name);
                *rows[i].flag = true;
        }
        value = slice_trim(value);
        buf_printf(out, "%.*s: %.*s\r\n", (int) name.len, name.at, (int) value.len, value.at);
        return 0;
}

static bool has_body_by_nature(const char *method)
{
        return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
               strcmp(method, "PATCH") == 0;
}

static void put_framing(struct http_call *c, const struct http_call_spec *spec,
                        const struct given *given)
{
        if (given->length)
                return;
        if (spec->stream_body) {
                buf_puts(&c->out, "transfer-encoding: chunked\r\n");
                c->is_chunked = true;
        } else if (spec->body || has_body_by_nature(spec->method)) {
                buf_printf(&c->out, "content-length: %zu\r\n", spec->body ? spec->body->len : 0);
        }
}

static int put_request(struct http_call *c, const struct http_call_spec *spec, struct error *err)
{
        struct given given = { 0 };

        if (!is_token(SLICE(spec->method)))
                return error_set(err, ERR_INVALID, 0, "method '%.32s' is malformed", spec->method);
        buf_printf(&c->out, "%s %s HTTP/1.1\r\n", spec->method, c->url.target);
        for (const char *const *h = spec->headers; h && *h; h++)
                if (put_header(&c->out, *h, &given, err) < 0)
                        return -1;
        if (!given.host)
                buf_printf(&c->out, "host: %s\r\n", c->url.authority);
        if (!given.accept)
                buf_puts(&c->out, "accept: */*\r\n");
        if (!given.agent)
                buf_puts(&c->out, "user-agent: sandbox-agent/" SA_VERSION "\r\n");
        put_framing(c, spec, &given);
        if (spec->upgrade)
                buf_printf(&c->out, "connection: upgrade\r\nupgrade: %s\r\n\r\n", spec->upgrade);
        else
                buf_puts(&c->out, "connection: close\r\n\r\n");
        return 0;
}

/* What could end the request line early has no place in it. */
static int set_target(struct http_call *c, const char *target, struct error *err)
{
        if (*target != '/')
                return error_set(err, ERR_INVALID, 0, "the target must begin with '/'");
        for (const char *p = target; *p; p++)
                if ((unsigned char) *p <= 0x20 || *p == 0x7f)
                        return error_set(err, ERR_INVALID, 0,
                                         "the target contains a blank or a control character");
        free(c->url.target);
        c->url.target = xstrdup(target);
        return 0;
}

static void call_destroy(struct http_call *c)
{
        response_done(&c->response);
        url_done(&c->url);
        buf_done(&c->out);
        chunk_unref(c->body);
        free(c->fallback_host);
        free(c->refusal);
        free(c->label);
        free(c);
}

static void run_reap(struct task *t)
{
        call_destroy(CONTAINER_OF(t, struct http_call, reap));
}

static int prepare(struct http_call *c, const struct http_call_spec *spec, struct error *err)
{
        if (url_parse(spec->url, &c->url, err) < 0)
                return -1;
        c->label = xasprintf("%s %s", spec->method, c->url.label);
        if (c->url.is_tls && !spec->tls)
                return error_set(err, ERR_INVALID, 0, "%s: no certificates were loaded", c->label);
        if (spec->upgrade && (!*spec->upgrade || !is_field_text(SLICE(spec->upgrade))))
                return error_set(err, ERR_INVALID, 0, "%s: the upgrade is malformed", c->label);
        if (spec->target && set_target(c, spec->target, err) < 0)
                return error_wrap(err, "%s", c->label);
        if (put_request(c, spec, err) < 0)
                return error_wrap(err, "%s", c->label);
        return 0;
}

int http_call_new(struct loop *l, const struct http_call_spec *spec, const struct http_call_cb *cb,
                  void *arg, struct http_call **ret, struct error *err)
{
        struct http_call *c = NEW(struct http_call);

        *c = (struct http_call) {
                .loop = l,
                .cb = cb,
                .arg = arg,
                .tls = spec->tls,
                .connect_ms = spec->connect_ms ? spec->connect_ms : CONNECT_MS,
                .head_ms = spec->head_ms ? spec->head_ms : HEAD_MS,
                .idle_ms = spec->idle_ms,
                .has_finished = !spec->stream_body,
                .wants_upgrade = spec->upgrade != NULL,
        };
        timer_init(&c->timer, l, on_timer);
        task_init(&c->reap, run_reap);
        response_init(&c->response, strcmp(spec->method, "HEAD") == 0, spec->max_head_bytes,
                      &response_events, c);
        if (prepare(c, spec, err) < 0) {
                call_destroy(c);
                return -1;
        }
        c->body = spec->body ? chunk_ref(spec->body) : NULL;
        c->fallback_host = spec->fallback_host ? xstrdup(spec->fallback_host) : NULL;
        dial(c, c->url.host);
        *ret = c;
        return 0;
}

const char *http_call_header(const struct http_call *c, const char *lower_name)
{
        return response_header(&c->response, lower_name);
}

const char *http_call_next_header(const struct http_call *c, size_t *at, const char **ret_value)
{
        const struct buf *all = &c->response.headers;
        const char *name;

        if (*at >= all->len)
                return NULL;
        name = all->data + *at;
        *ret_value = name + strlen(name) + 1;
        *at = (size_t) (*ret_value + strlen(*ret_value) + 1 - all->data);
        return name;
}

uint64_t http_call_sent(const struct http_call *c)
{
        return c->stream ? stream_sent(c->stream) : 0;
}

/* Before the connection stands everything goes behind the request's head. */
static int hold_back(struct http_call *c, struct chunk *body)
{
        if (c->is_chunked)
                buf_printf(&c->out, "%zx\r\n", body->len);
        buf_put(&c->out, body->data, body->len);
        if (c->is_chunked)
                buf_put(&c->out, "\r\n", 2);
        c->wants_room = true;
        return 0;
}

int http_call_write(struct http_call *c, struct chunk *body)
{
        char size[24];
        int n;

        if (c->state == CALL_OVER || c->has_finished)
                return -1;
        if (!body->len)
                return 1; /* an empty chunk would end the body */
        if (c->state == CALL_DIALING)
                return hold_back(c, body);
        if (c->state == CALL_HEAD)
                timer_set(&c->timer, c->head_ms);
        if (!c->is_chunked)
                return stream_write(c->stream, body, NULL);
        n = snprintf(size, sizeof(size), "%zx\r\n", body->len);
        if (stream_write_bytes(c->stream, size, (size_t) n, NULL) < 0 ||
            stream_write(c->stream, body, NULL) < 0)
                return -1;
        return stream_write_bytes(c->stream, "\r\n", 2, NULL);
}

void http_call_finish(struct http_call *c)
{
        static const char last[] = "0\r\n\r\n";

        if (c->state == CALL_OVER || c->has_finished)
                return;
        c->has_finished = true;
        if (c->state == CALL_TUNNEL)
                stream_finish(c->stream);
        if (!c->is_chunked)
                return;
        if (c->state == CALL_DIALING)
                buf_puts(&c->out, last);
        else
                (void) stream_write_bytes(c->stream, last, strlen(last), NULL);
}

void http_call_pause(struct http_call *c, bool on)
{
        c->is_paused = on;
        if (!c->stream)
                return;
        stream_pause(c->stream, on);
        if (c->state == CALL_BODY)
                set_idle(c);
}

struct http_call *http_call_free(struct http_call *c)
{
        if (!c)
                return NULL;
        let_go(c);
        loop_defer(c->loop, &c->reap); /* the parser may be on the stack */
        return NULL;
}

/* ---- the whole exchange at once ---- */

struct fetch {
        struct http_call *call;
        struct http_answer answer;
        struct buf body;
        struct error why;
        bool is_done, has_failed;
};

static void fetch_head(void *arg, int status)
{
        struct fetch *f = arg;

        f->answer.status = status;
        f->answer.type = xstrdup(http_call_header(f->call, "content-type") ?: "");
}

static void fetch_data(void *arg, const char *data, size_t len)
{
        struct fetch *f = arg;

        if (buf_add(&f->body, data, len, &f->why) == 0)
                return;
        (void) error_wrap(&f->why, "%s: the answer is too big", f->call->label);
        f->is_done = f->has_failed = true;
        f->call = http_call_free(f->call);
}

static void fetch_end(void *arg, const struct error *why)
{
        struct fetch *f = arg;

        f->is_done = true;
        f->has_failed = why;
        if (why)
                f->why = *why;
}

static const struct http_call_cb fetch_events = {
        .on_head = fetch_head,
        .on_data = fetch_data,
        .on_end = fetch_end,
};

int http_fetch(struct loop *l, const struct http_call_spec *spec, size_t max_body,
               struct http_answer *ret, struct error *err)
{
        struct fetch f = { .body = { .max_bytes = max_body } };

        if (http_call_new(l, spec, &fetch_events, &f, &f.call, err) < 0)
                return -1;
        (void) loop_run_until(l, &f.is_done, -1);
        http_call_free(f.call);
        if (f.has_failed) {
                if (err)
                        *err = f.why;
                free(f.answer.type);
                buf_done(&f.body);
                return -1;
        }
        f.answer.len = f.body.len;
        f.answer.body = buf_take(&f.body);
        *ret = f.answer;
        return 0;
}

void http_answer_done(struct http_answer *a)
{
        free(a->type);
        free(a->body);
        *a = (struct http_answer) { 0 };
}
