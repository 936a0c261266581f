#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/macro.h"
#include "base/secret.h"
#include "base/str.h"
#include "client/source.h"
#include "io/loop.h"
#include "io/tls.h"

struct client {
        char *base; /* without a slash at the end */
        bool is_unix;
        const struct secret *token;
        struct loop *loop;
        struct tls *tls; /* https only */
        uint32_t connect_ms, answer_ms;
};

static int endpoint_check(const char *endpoint, struct error *err)
{
        static const char *const schemes[] = { "http://", "https://", "unix:/" };

        for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
                if (str_starts(endpoint, schemes[i]) && endpoint[strlen(schemes[i])])
                        return 0;
        return error_set(
                err, ERR_USAGE, 0,
                "invalid endpoint '%.128s': expected http://host:port, https://… or unix:/path",
                endpoint);
}

int client_new(const char *endpoint, const struct secret *token, struct client **ret,
               struct error *err)
{
        _cleanup_(client_freep) struct client *c = NULL;
        size_t len = strlen(endpoint);

        if (endpoint_check(endpoint, err) < 0)
                return -1;
        while (endpoint[len - 1] == '/')
                len--;
        c = NEW(struct client);
        c->base = xstrndup(endpoint, len);
        c->is_unix = str_starts(endpoint, "unix:");
        c->token = token;
        if (str_starts(endpoint, "https:") && tls_client_new(NULL, &c->tls, err) < 0)
                return -1;
        c->loop = loop_new();
        if (!c->loop)
                return error_set(err, ERR_SYSTEM, errno, "start the event loop");
        *ret = TAKE_PTR(c);
        return 0;
}

struct client *client_free(struct client *c)
{
        if (!c)
                return NULL;
        loop_free(c->loop);
        tls_ctx_free(c->tls);
        free(c->base);
        free(c);
        return NULL;
}

void client_set_limits(struct client *c, uint32_t connect_ms, uint32_t answer_ms)
{
        c->connect_ms = connect_ms;
        c->answer_ms = answer_ms;
}

/* ---- one exchange ---- */

enum { HEADERS_MAX = 8 };

/* What one call needs while http/client copies it: URL and header lines. The authorization line is
 * wiped when it goes. */
struct call_text {
        char *url, *auth, *type, *accept, *last_id, *length, *ws_key;
        const char *headers[HEADERS_MAX];
};

static void call_text_done(struct call_text *t)
{
        if (t->auth)
                explicit_bzero(t->auth, strlen(t->auth));
        free(t->url);
        free(t->auth);
        free(t->type);
        free(t->accept);
        free(t->last_id);
        free(t->length);
        free(t->ws_key);
}

/* A file's length is known and promised; what a pipe brings is not. */
static bool file_length(int fd, uint64_t *ret)
{
        struct stat st;
        off_t at;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;
        at = lseek(fd, 0, SEEK_CUR);
        if (at < 0)
                return false;
        *ret = at < st.st_size ? (uint64_t) (st.st_size - at) : 0;
        return true;
}

static void call_text_fill(const struct client *c, const struct client_request *q,
                           struct call_text *ret)
{
        bool has_query = q->query && *q->query;
        uint64_t length;
        size_t n = 0;

        ret->url = xasprintf("%s%s%s%s%s", c->base, c->is_unix ? ":" : "", q->path,
                             has_query ? "?" : "", has_query ? q->query : "");
        if (c->token)
                ret->headers[n++] = ret->auth =
                        xasprintf("Authorization: Bearer %s", secret_reveal(c->token, NULL));
        if (q->body || q->has_body_fd)
                ret->headers[n++] = ret->type =
                        xasprintf("Content-Type: %s", q->type ?: "application/json");
        if (q->accept)
                ret->headers[n++] = ret->accept = xasprintf("Accept: %s", q->accept);
        if (q->last_event_id)
                ret->headers[n++] = ret->last_id = xasprintf("Last-Event-ID: %s", q->last_event_id);
        if (q->has_body_fd && file_length(q->body_fd, &length))
                ret->headers[n++] = ret->length =
                        xasprintf("Content-Length: %llu", (unsigned long long) length);
        if (q->ws_key) {
                ret->headers[n++] = "Sec-WebSocket-Version: 13";
                ret->headers[n++] = ret->ws_key = xasprintf("Sec-WebSocket-Key: %s", q->ws_key);
        }
}

static struct http_call_spec call_spec(const struct client *c, const struct client_request *q,
                                       const struct call_text *t)
{
        return (struct http_call_spec) {
                .method = q->method,
                .url = t->url,
                .headers = t->headers,
                .body = q->body,
                .stream_body = q->has_body_fd,
                .upgrade = q->ws_key ? "websocket" : NULL,
                .tls = c->tls,
                .connect_ms = c->connect_ms,
                .head_ms = c->answer_ms,
        };
}

int client_call(struct client *c, const struct client_request *q, struct http_answer *ret,
                struct error *err)
{
        _cleanup_(call_text_done) struct call_text t = {};
        struct http_call_spec spec;

        call_text_fill(c, q, &t);
        spec = call_spec(c, q, &t);
        if (http_fetch(c->loop, &spec, CLIENT_ANSWER_MAX, ret, err) < 0)
                return error_wrap(err, "%s %s%s", q->method, c->base, q->path);
        return 0;
}

struct loop *client_loop(struct client *c)
{
        return c->loop;
}

int client_start(struct client *c, const struct client_request *q, const struct http_call_cb *cb,
                 void *arg, struct http_call **ret, struct error *err)
{
        _cleanup_(call_text_done) struct call_text t = {};
        struct http_call_spec spec;

        call_text_fill(c, q, &t);
        spec = call_spec(c, q, &t);
        return http_call_new(c->loop, &spec, cb, arg, ret, err);
}

/* ---- one exchange as it comes ---- */

struct streaming {
        const struct client_sink *sink;
        void *arg;
        struct http_call *call;
        struct error *err;
        struct source *body; /* what is being sent, or NULL */
        uint64_t left;       /* of the promised length */
        bool has_length;
        int result;
        bool is_refused, is_over;
};

static void stream_head(void *arg, int status)
{
        struct streaming *s = arg;
        const char *type = http_call_header(s->call, "content-type");

        if (!s->sink->on_head(s->arg, status, type ?: ""))
                s->is_refused = s->is_over = true;
}

static void stream_data(void *arg, const char *data, size_t len)
{
        struct streaming *s = arg;

        if (!s->is_refused && !s->sink->on_data(s->arg, data, len))
                s->is_refused = s->is_over = true;
}

static void stream_end(void *arg, const struct error *why)
{
        struct streaming *s = arg;

        if (why && !s->is_refused) {
                s->result = -1;
                if (s->err)
                        *s->err = *why;
        }
        s->is_over = true;
}

/* ---- the body of a file ---- */

static void body_finish(struct streaming *s)
{
        s->body = source_free(s->body);
        http_call_finish(s->call);
}

static void body_data(void *arg, const char *data, size_t len)
{
        struct streaming *s = arg;
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;

        if (s->has_length)
                len = (size_t) MIN((uint64_t) len, s->left); /* it has grown since */
        s->left -= s->has_length ? len : 0;
        c = chunk_copy(data, len);
        if (http_call_write(s->call, c) == 0)
                source_pause(s->body, true);
        if (s->has_length && !s->left)
                body_finish(s);
}

static void body_end(void *arg, const struct error *why)
{
        struct streaming *s = arg;
        struct error err;

        if (!why && s->has_length && s->left) {
                (void) error_set(
                        &err, ERR_SYSTEM, 0,
                        "the file became shorter while it was sent: %llu bytes are missing",
                        (unsigned long long) s->left);
                why = &err;
        }
        if (why)
                stream_end(s, why);
        else
                body_finish(s);
}

static void body_room(void *arg)
{
        struct streaming *s = arg;

        if (s->body)
                source_pause(s->body, false);
}

static int body_start(struct client *c, struct streaming *s, const struct client_request *q,
                      struct error *err)
{
        static const struct source_cb cb = { body_data, body_end };

        if (!q->has_body_fd)
                return 0;
        s->has_length = file_length(q->body_fd, &s->left);
        if (s->has_length && !s->left) {
                http_call_finish(s->call);
                return 0;
        }
        return source_new(c->loop, q->body_fd, &cb, s, &s->body, err);
}

int client_stream(struct client *c, const struct client_request *q, const struct client_sink *sink,
                  void *arg, struct error *err)
{
        static const struct http_call_cb cb = { stream_head, stream_data, body_room, stream_end };
        struct streaming s = { .sink = sink, .arg = arg, .err = err };

        if (client_start(c, q, &cb, &s, &s.call, err) < 0)
                return error_wrap(err, "%s %s%s", q->method, c->base, q->path);
        s.result = body_start(c, &s, q, err);
        if (s.result >= 0)
                (void) loop_run_until(c->loop, &s.is_over, -1);
        s.body = source_free(s.body);
        s.call = http_call_free(s.call);
        return s.result < 0 ? error_wrap(err, "%s %s%s", q->method, c->base, q->path) : 0;
}

/* ---- texts ---- */

static bool is_unreserved(char ch)
{
        return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
               (ch && strchr("-._~", ch));
}

void client_encode(struct buf *out, const char *text, const char *keep)
{
        for (; *text; text++)
                if (is_unreserved(*text) || strchr(keep, *text))
                        buf_putc(out, *text);
                else
                        buf_printf(out, "%%%02X", (unsigned char) *text);
}

void client_query_add(struct buf *query, const char *name, const char *value)
{
        if (query->len)
                buf_putc(query, '&');
        client_encode(query, name, "");
        buf_putc(query, '=');
        client_encode(query, value, "");
}
