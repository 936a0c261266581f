#include "http/req.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "http/conn.h"
#include "http/ws.h"

struct req *req_new(struct conn *c)
{
        struct req *r = NEW(struct req);

        r->refs = 1;
        r->srv = c->srv;
        r->conn = c;
        r->start_us = clock_mono_us();
        r->reply_left = -1;
        r->token_name = "";
        r->keep_alive = true;
        arena_init(&r->arena, 0);
        list_push(&c->srv->reqs, &r->node);
        return r;
}

struct req *req_ref(struct req *r)
{
        r->refs++;
        return r;
}

void req_unref(struct req *r)
{
        if (--r->refs)
                return;
        list_remove(&r->node);
        if (r->is_upgraded)
                r->srv->stats.streams_open--;
        server_req_freed(r->srv);
        buf_done(&r->body);
        buf_done(&r->extra);
        free(r->early);
        arena_done(&r->arena);
        free(r);
}

/* Tells the holder once; it answers with req_release(). The reference that the connection had, if
 * it still had one, keeps the request alive in here and goes at the end. */
void req_gone(struct req *r)
{
        const struct body_sink *sink = r->sink;
        void (*fn)(void *);

        if (!r->conn)
                (void) req_ref(r);
        r->conn = NULL;
        r->sink = NULL;
        if (sink) {
                struct error why;

                (void) error_set(&why, ERR_UPSTREAM, 0, "the client went away");
                sink->on_end(r->sink_arg, &why);
        }
        fn = r->on_gone; /* unless on_end has let go already */
        r->on_gone = NULL;
        if (fn)
                fn(r->gone_arg);
        req_unref(r);
}

struct loop *req_loop(struct req *r)
{
        return r->srv->loop;
}

struct arena *req_arena(struct req *r)
{
        return &r->arena;
}

void *req_app(struct req *r)
{
        return r->srv->spec.app;
}

static bool is_sane_id(const char *s)
{
        size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

        return n && n < 40 && !s[n];
}

const char *req_id(struct req *r)
{
        if (!r->id[0]) {
                const char *theirs = req_header(r, "x-request-id");

                if (theirs && is_sane_id(theirs))
                        memcpy(r->id, theirs, strlen(theirs) + 1);
                else
                        (void) snprintf(r->id, sizeof(r->id), "%s%08llx", r->srv->id_prefix,
                                        (unsigned long long) ++r->srv->next_id);
        }
        return r->id;
}

struct slice req_method(struct req *r)
{
        return SLICE(r->method);
}

struct slice req_path(struct req *r)
{
        return r->path.at ? r->path : (struct slice) { "", 0 };
}

struct slice req_query_text(struct req *r)
{
        return r->query.at ? r->query : (struct slice) { "", 0 };
}

const char *req_header(struct req *r, const char *lower_name)
{
        size_t len = strlen(lower_name);

        for (size_t i = 0; i < r->n_headers; i++)
                if (r->headers[i].name.len == len &&
                    memcmp(r->headers[i].name.at, lower_name, len) == 0)
                        return r->headers[i].value.at;
        return NULL;
}

bool req_header_at(struct req *r, size_t i, const char **ret_name, const char **ret_value)
{
        if (i >= r->n_headers)
                return false;
        *ret_name = r->headers[i].name.at;
        *ret_value = r->headers[i].value.at;
        return true;
}

struct slice req_host(struct req *r)
{
        return r->host.at ? r->host : (struct slice) { "", 0 };
}

const char *req_peer(struct req *r)
{
        char text[INET6_ADDRSTRLEN];

        if (!r->conn || !stream_peer(r->conn->stream, text, sizeof(text)))
                return NULL;
        return arena_strdup(&r->arena, text);
}

uint64_t req_taken(struct req *r)
{
        return r->conn ? stream_taken(r->conn->stream) : 0;
}

const char *req_param(struct req *r, const char *name)
{
        for (size_t i = 0; i < r->match.n_params; i++)
                if (slice_eq(route_param_name(r->match.row, i), name))
                        return r->params[i];
        return "";
}

const void *req_query(struct req *r)
{
        return r->query_struct;
}

const void *req_body(struct req *r)
{
        return r->body_struct;
}

const struct jval *req_json(struct req *r)
{
        return r->json;
}

struct slice req_raw(struct req *r)
{
        return (struct slice) { r->body.data ? r->body.data : "", r->body.len };
}

bool req_is_head(struct req *r)
{
        return r->is_head;
}

const char *req_token_name(struct req *r)
{
        return r->token_name;
}

bool req_has_scope(struct req *r, unsigned scope)
{
        return (r->scopes & scope) == scope;
}

void req_hold(struct req *r, void (*on_gone)(void *arg), void *arg)
{
        (void) req_ref(r);
        r->holds++;
        if (on_gone)
                req_on_gone(r, on_gone, arg);
}

void req_on_gone(struct req *r, void (*on_gone)(void *arg), void *arg)
{
        r->on_gone = on_gone;
        r->gone_arg = arg;
}

void req_release(struct req *r)
{
        if (--r->holds == 0) {
                r->on_gone = NULL;
                r->on_room = NULL;
                r->on_drain = NULL;
                if (r->conn && !r->has_begun) {
                        struct error err;

                        (void) error_set(&err, ERR_SYSTEM, 0,
                                         "the request was dropped without an answer");
                        (void) reply_error(r, &err);
                } else if (r->conn && !r->has_ended) {
                        reply_abort(r);
                }
        }
        req_unref(r);
}

bool req_is_gone(struct req *r)
{
        return !r->conn;
}

void req_on_drain(struct req *r, void (*fn)(void *arg), void *arg)
{
        r->on_drain = fn;
        r->drain_arg = arg;
}

void req_read_body(struct req *r, const struct body_sink *sink, void *arg)
{
        if (!r->conn)
                return;
        r->sink = sink;
        r->sink_arg = arg;
        if (r->has_body)
                timer_set(&r->conn->in_timer, r->srv->spec.limits.body_ms);
        loop_defer(r->srv->loop, &r->conn->resume);
}

void req_pause_body(struct req *r, bool on)
{
        struct conn *c = r->conn;

        if (!c || r->body_done)
                return;
        c->is_body_paused = on;
        if (on)
                timer_stop(&c->in_timer); /* we are the slow one */
        else
                timer_set(&c->in_timer, c->srv->spec.limits.body_ms);
        stream_pause(c->stream, on);
}

int64_t req_body_length(struct req *r)
{
        return r->content_length;
}

bool req_wants_upgrade(struct req *r)
{
        const char *connection = req_header(r, "connection");

        return !r->is_http10 && !r->has_body && req_header(r, "upgrade") && connection &&
               slice_list_has(SLICE(connection), "upgrade");
}

int req_take_stream(struct req *r, struct chunk *head, struct stream **ret, struct slice *early,
                    struct error *err)
{
        struct conn *c = r->conn;
        struct slice rest;

        if (!c || r->has_begun)
                return error_set(err, ERR_UPSTREAM, 0, "the client went away");
        if (c->is_deaf)
                return error_set(err, ERR_INVALID, 0, "too much was sent before the upgrade");
        r->has_begun = r->is_upgraded = true;
        r->status = 101;
        r->srv->stats.streams_open++;
        (void) stream_write(c->stream, head, NULL);
        /* Right behind the head, or held back since when the handler took its time. */
        rest = c->pending.len ? (struct slice) { c->pending.data, c->pending.len } : c->rest;
        *early = (struct slice) { arena_strndup(&r->arena, rest.at, rest.len), rest.len };
        reply_account(r);
        *ret = TAKE_PTR(c->stream);
        stream_set_sink(*ret, NULL, NULL); /* nothing is read until the new owner has set its own */
        stream_pause(*ret, false);
        c->req = NULL;
        conn_kill(c);
        r->conn = NULL;
        req_unref(r); /* the connection's reference; the holder has its own */
        return 0;
}

int req_upgrade(struct req *r, const char *protocol, struct stream **ret, struct slice *early,
                struct error *err)
{
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;
        struct buf head = { 0 };

        buf_printf(&head,
                   "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %s\r\n",
                   protocol);
        if (r->extra.len)
                buf_put(&head, r->extra.data, r->extra.len);
        buf_puts(&head, "\r\n");
        c = buf_take_chunk(&head);
        return req_take_stream(r, c, ret, early, err);
}
