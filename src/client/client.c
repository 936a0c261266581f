#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/macro.h"
#include "base/secret.h"
#include "base/str.h"
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

enum { HEADERS_MAX = 5 };

/* What one call needs while http/client copies it: URL and header lines. The authorization line is
 * wiped when it goes. */
struct call_text {
        char *url, *auth, *type, *accept, *last_id;
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
}

static void call_text_fill(const struct client *c, const struct client_request *q,
                           struct call_text *ret)
{
        bool has_query = q->query && *q->query;
        size_t n = 0;

        ret->url = xasprintf("%s%s%s%s%s", c->base, c->is_unix ? ":" : "", q->path,
                             has_query ? "?" : "", has_query ? q->query : "");
        if (c->token)
                ret->headers[n++] = ret->auth =
                        xasprintf("Authorization: Bearer %s", secret_reveal(c->token, NULL));
        if (q->body)
                ret->headers[n++] = ret->type =
                        xasprintf("Content-Type: %s", q->type ?: "application/json");
        if (q->accept)
                ret->headers[n++] = ret->accept = xasprintf("Accept: %s", q->accept);
        if (q->last_event_id)
                ret->headers[n++] = ret->last_id = xasprintf("Last-Event-ID: %s", q->last_event_id);
}

static struct http_call_spec call_spec(const struct client *c, const struct client_request *q,
                                       const struct call_text *t)
{
        return (struct http_call_spec) {
                .method = q->method,
                .url = t->url,
                .headers = t->headers,
                .body = q->body,
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

struct streaming {
        const struct client_sink *sink;
        void *arg;
        struct http_call *call;
        struct error *err;
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

int client_stream(struct client *c, const struct client_request *q, const struct client_sink *sink,
                  void *arg, struct error *err)
{
        static const struct http_call_cb cb = { stream_head, stream_data, NULL, stream_end };
        _cleanup_(call_text_done) struct call_text t = {};
        struct streaming s = { .sink = sink, .arg = arg, .err = err };
        struct http_call_spec spec;

        call_text_fill(c, q, &t);
        spec = call_spec(c, q, &t);
        if (http_call_new(c->loop, &spec, &cb, &s, &s.call, err) < 0)
                return error_wrap(err, "%s %s%s", q->method, c->base, q->path);
        (void) loop_run_until(c->loop, &s.is_over, -1);
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
