#include "http/proxy.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "http/client.h"
#include "http/conn.h"
#include "http/cors.h"
#include "http/req.h"
#include "http/url.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"

enum {
        NEVER_MS = INT32_MAX, /* 24 days: the client has left long before */
        CLOSE_MS = 1000,      /* for the last bytes of a tunnel when the server shuts down */
        FORWARDED_MAX = 512,  /* of a x-forwarded-for that somebody in front of us began */
};

/* ASKING (the request goes on, its answer is awaited) → ANSWERING → gone, or → TUNNEL → CLOSING
 * (the other server has ended, or we shut down: the client reads the rest) → gone.
 *
 * Everything ends in drop(): the call is aborted if it still runs, the client sees a broken
 * transfer if its answer is not complete. Whenever one side waits for the other the watchdog runs;
 * it ends the exchange when nothing at all has moved for a whole period. */
enum proxy_state { PROXY_ASKING, PROXY_ANSWERING, PROXY_TUNNEL, PROXY_CLOSING };

struct proxy {
        struct req *req;
        struct http_call *call; /* NULL once it is over */
        struct stream *client;  /* of a tunnel */
        struct proxy_spec spec; /* its texts live in the request's arena */
        struct timer watchdog;
        uint64_t moved, moved_then; /* a number that grows with every sign of life */
        enum proxy_state state;
        bool is_endless;   /* an event stream: ends with the server */
        bool holds_client; /* the other server is slower than the client: we do not read from it */
        bool holds_server; /* the same the other way round */
        bool saw_eof;      /* half a tunnel is closed */
};

/* ---- headers ---- */

/* Of this connection alone, or ours to say. */
static const char *const hop_names[] = {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
};
static const char *const request_names[] = { "host",
                                             "expect",
                                             "forwarded",
                                             "x-forwarded-for",
                                             "x-forwarded-proto",
                                             "x-forwarded-host",
                                             "x-forwarded-prefix" };
static const char *const reply_names[] = { "date", "x-request-id", "vary", "location" };

static bool is_in(const char *name, const char *const *names, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

static const char *put_line(struct arena *a, const char *name, const char *value)
{
        return arena_printf(a, "%s: %s", name, value);
}

/* Is the header one of those that a Connection header takes out? */
static bool is_listed(struct req *r, const char *name)
{
        const char *other, *value;

        for (size_t i = 0; req_header_at(r, i, &other, &value); i++)
                if (strcmp(other, "connection") == 0 && slice_list_has(SLICE(value), name))
                        return true;
        return false;
}

static bool goes_on(struct req *r, const struct proxy_spec *spec, const char *name)
{
        if (strcmp(name, "authorization") == 0 && !spec->passes_authorization)
                return false;
        return !is_in(name, hop_names, ARRAY_LEN(hop_names)) &&
               !is_in(name, request_names, ARRAY_LEN(request_names)) && !is_listed(r, name);
}

/* Who the request came from: what others in front of us say, then the client's own address. NULL:
 * a unix socket, and nobody says anything. */
static const char *forwarded_for(struct req *r)
{
        const char *name, *value, *list = NULL, *peer = req_peer(r);

        for (size_t i = 0; req_header_at(r, i, &name, &value); i++) {
                if (strcmp(name, "x-forwarded-for") != 0 || !*value)
                        continue;
                list = list ? arena_printf(req_arena(r), "%s, %s", list, value) : value;
                if (strlen(list) > FORWARDED_MAX)
                        return peer;
        }
        return list && peer ? arena_printf(req_arena(r), "%s, %s", list, peer) : list ?: peer;
}

static size_t put_forwarded(struct req *r, const struct proxy_spec *spec, const char **to)
{
        struct arena *a = req_arena(r);
        const char *from = forwarded_for(r);
        struct slice host = req_host(r);
        size_t n = 0;

        if (from)
                to[n++] = put_line(a, "x-forwarded-for", from);
        to[n++] = put_line(a, "x-forwarded-proto", r->srv->spec.tls ? "https" : "http");
        if (host.len)
                to[n++] = put_line(a, "x-forwarded-host", arena_strndup(a, host.at, host.len));
        if (spec->prefix)
                to[n++] = put_line(a, "x-forwarded-prefix", spec->prefix);
        return n;
}

/* The lines of the request as it goes on. */
static const char *const *make_headers(struct req *r, const struct proxy_spec *spec)
{
        enum { OURS = 8 };
        struct arena *a = req_arena(r);
        const char **lines = arena_zalloc(a, (r->n_headers + OURS) * sizeof(*lines));
        const char *name, *value;
        size_t n = put_forwarded(r, spec, lines);

        for (size_t i = 0; req_header_at(r, i, &name, &value); i++)
                if (goes_on(r, spec, name))
                        lines[n++] = put_line(a, name, value);
        if (spec->host)
                lines[n++] = put_line(a, "host", spec->host);
        if (r->content_length > 0) /* else in chunks, or no body at all */
                lines[n++] = arena_printf(a, "content-length: %lld", (long long) r->content_length);
        return lines;
}

const char *proxy_target(struct arena *a, const char *path)
{
        struct slice rest = SLICE(path), head, pair;
        char *out = arena_alloc(a, rest.len + 1), *key = arena_alloc(a, rest.len + 1);
        size_t n;
        char sep = '?';

        (void) slice_cut(&rest, '?', &head);
        memcpy(out, head.at, head.len);
        n = head.len;
        while (slice_cut(&rest, '&', &pair)) {
                struct slice value = pair, name;
                size_t len;

                (void) slice_cut(&value, '=', &name);
                if (percent_decode(name.at, name.len, true, key, &len) &&
                    slice_eq((struct slice) { key, len }, "access_token"))
                        continue;
                out[n++] = sep;
                sep = '&';
                memcpy(out + n, pair.at, pair.len);
                n += pair.len;
        }
        out[n] = '\0';
        return out;
}

/* ---- Location ---- */

static bool is_below(const char *path, const char *prefix)
{
        size_t n = strlen(prefix);

        return strncmp(path, prefix, n) == 0 && (!path[n] || strchr("/?#", path[n]));
}

static bool is_name_of_self(struct slice host)
{
        static const char *const names[] = { "localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (slice_ieq(host, names[i]))
                        return true;
        return false;
}

/* "name", "name:port", "[v6]:port"; 0 is no port that anybody has. */
static struct slice split_port(struct slice authority, bool is_tls, uint64_t *ret_port)
{
        const char *colon = memrchr(authority.at, ':', authority.len);
        struct slice digits;

        *ret_port = is_tls ? 443 : 80;
        if (!colon || memchr(colon, ']', authority.len - (size_t) (colon - authority.at)))
                return authority;
        digits = (struct slice) { colon + 1, authority.len - (size_t) (colon + 1 - authority.at) };
        if (!str_to_u64(digits.at, digits.len, ret_port))
                *ret_port = 0;
        return (struct slice) { authority.at, (size_t) (colon - authority.at) };
}

/* Is it the other server, whatever name it has picked for itself? */
static bool is_upstream(const struct proxy_spec *spec, struct slice authority, bool is_tls)
{
        struct url url;
        struct slice host;
        uint64_t port;
        bool is_same;

        if (url_parse(spec->url, &url, NULL) < 0)
                return false;
        host = split_port(authority, is_tls, &port);
        is_same = url.host && port == url.port &&
                  (slice_ieq(host, url.host) ||
                   (is_name_of_self(SLICE(url.host)) && is_name_of_self(host)));
        is_same = url.is_tls == is_tls &&
                  (is_same || (spec->host && slice_ieq(authority, spec->host)));
        url_done(&url);
        return is_same;
}

const char *proxy_location(struct arena *a, const struct proxy_spec *spec, struct slice our_host,
                           const char *location)
{
        const char *at = location;
        bool is_tls = strncasecmp(at, "https://", 8) == 0;
        struct slice authority;

        if (!spec->prefix)
                return NULL;
        if (is_tls || strncasecmp(at, "http://", 7) == 0)
                at += is_tls ? 6 : 5;
        if (at[0] == '/' && at[1] == '/') {
                authority = (struct slice) { at + 2, strcspn(at + 2, "/?#") };
                if (!is_upstream(spec, authority, is_tls) &&
                    !(our_host.len && authority.len == our_host.len &&
                      strncasecmp(authority.at, our_host.at, our_host.len) == 0))
                        return NULL;
                at = authority.at + authority.len;
        } else if (at[0] != '/') {
                return NULL; /* below where we are, or another scheme */
        }
        if (is_below(at, spec->prefix))
                return NULL;
        return arena_printf(a, "%s%s%s", spec->prefix, *at == '/' ? "" : "/", at);
}

/* ---- the end ---- */

static void drop(struct proxy *p)
{
        timer_stop(&p->watchdog);
        p->call = http_call_free(p->call);
        p->client = stream_free(p->client);
        req_release(p->req);
        loop_free_later(p->watchdog.loop, p);
}

/* Nothing was said yet: the reason is the answer. Else the transfer breaks. */
static void fail(struct proxy *p, const struct error *why)
{
        struct error err = *why;

        if (err.kind != ERR_TIMEOUT)
                err.kind = ERR_UPSTREAM;
        if (p->state == PROXY_ASKING)
                (void) reply_error(p->req, &err);
        drop(p);
}

static uint64_t all_moved(const struct proxy *p)
{
        return p->moved + (p->call ? http_call_sent(p->call) : 0) +
               (p->client ? stream_sent(p->client) : 0);
}

static void hold_client(struct proxy *p, bool on)
{
        p->holds_client = on;
        if (p->client)
                stream_pause(p->client, on);
        else
                req_pause_body(p->req, on);
}

static void hold_server(struct proxy *p, bool on)
{
        p->holds_server = on;
        if (p->call)
                http_call_pause(p->call, on);
}

/* Silence alone is fine: a tunnel may idle for days, an answer may take its time. A client that
 * does not read its answer is the server's business, in a tunnel it is ours. */
static bool is_waiting(const struct proxy *p)
{
        return p->holds_client || (p->client && (p->holds_server || p->saw_eof));
}

/* One side waits for the other from here on. */
static void watch(struct proxy *p)
{
        if (timer_armed(&p->watchdog))
                return;
        p->moved_then = all_moved(p);
        timer_set(&p->watchdog, p->spec.stall_ms);
}

static void on_watchdog(struct timer *t)
{
        struct proxy *p = CONTAINER_OF(t, struct proxy, watchdog);
        struct error err;

        if (p->state != PROXY_CLOSING && !is_waiting(p))
                return;
        if (p->state != PROXY_CLOSING && all_moved(p) != p->moved_then) {
                watch(p);
                return;
        }
        (void) error_set(&err, ERR_TIMEOUT, 0, "%s took nothing for %u ms", p->spec.url,
                         p->spec.stall_ms);
        fail(p, &err);
}

/* ---- the request's body ---- */

static void body_data(void *arg, const char *data, size_t len)
{
        struct proxy *p = arg;
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(data, len);

        p->moved++;
        if (http_call_write(p->call, c) > 0)
                return;
        /* Full, or the other server takes no more: then its answer tells why. */
        hold_client(p, true);
        watch(p);
}

static void body_end(void *arg, const struct error *why)
{
        struct proxy *p = arg;

        if (!why) {
                p->holds_client = false; /* it waits for the answer now, as long as that takes */
                http_call_finish(p->call);
                return;
        }
        (void) reply_error(p->req, why); /* too slow; who is gone does not hear it */
        drop(p);
}

static const struct body_sink body_events = { body_data, body_end };

/* ---- the tunnel ---- */

static void say(struct proxy *p, const char *data, size_t len)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(data, len);

        p->moved++;
        if (!p->call || http_call_write(p->call, c) != 0)
                return; /* behind the other server's end nobody listens */
        hold_client(p, true);
        watch(p);
}

static void client_data(void *arg, const char *data, size_t len)
{
        say(arg, data, len);
}

static void client_eof(void *arg)
{
        struct proxy *p = arg;

        p->saw_eof = true;
        if (p->call)
                http_call_finish(p->call);
        watch(p); /* half a tunnel must show that somebody still needs it */
}

static void client_room(void *arg)
{
        struct proxy *p = arg;

        p->moved++;
        hold_server(p, false);
}

static void client_end(void *arg, const struct error *why)
{
        drop(arg);
}

static const struct stream_sink client_events = {
        .on_data = client_data,
        .on_eof = client_eof,
        .on_room = client_room,
        .on_end = client_end,
};

/* The client gets what is queued for it; what it still says is dropped. */
static void close_tunnel(struct proxy *p, uint32_t within_ms)
{
        p->call = http_call_free(p->call);
        p->state = PROXY_CLOSING;
        stream_pause(p->client, false);
        stream_finish(p->client);
        timer_set(&p->watchdog, within_ms);
}

/* ---- the answer ---- */

/* Is the header one of those that a Connection header of the answer takes out? */
static bool is_listed_back(struct proxy *p, const char *name)
{
        const char *other, *value;

        for (size_t at = 0; (other = http_call_next_header(p->call, &at, &value));)
                if (strcmp(other, "connection") == 0 && slice_list_has(SLICE(value), name))
                        return true;
        return false;
}

static bool comes_back(struct proxy *p, const char *name, bool has_cors)
{
        if (is_in(name, hop_names, ARRAY_LEN(hop_names)) ||
            is_in(name, reply_names, ARRAY_LEN(reply_names)))
                return false;
        if (has_cors && str_starts(name, "access-control-"))
                return false; /* two of them would mean none to a browser */
        return !is_listed_back(p, name);
}

static bool has_cors(const struct req *r)
{
        const struct cors *c = r->srv->spec.policy.cors;

        return c && ((c->origins && c->origins[0]) || c->credentials);
}

static void pass_location(struct proxy *p)
{
        const char *to = http_call_header(p->call, "location");
        const char *ours;

        if (!to)
                return;
        ours = proxy_location(req_arena(p->req), &p->spec, req_host(p->req), to);
        reply_header(p->req, "location", ours ? ours : to);
}

static void pass_headers(struct proxy *p)
{
        bool is_ours = has_cors(p->req);
        const char *name, *value, *vary = NULL;

        for (size_t at = 0; (name = http_call_next_header(p->call, &at, &value));) {
                if (strcmp(name, "vary") == 0)
                        vary = vary ? arena_printf(req_arena(p->req), "%s, %s", vary, value)
                                    : value;
                else if (comes_back(p, name, is_ours))
                        reply_header(p->req, name, value);
        }
        if (vary)
                reply_header(p->req, "vary", vary);
        pass_location(p);
}

/* The stated length, -1 when there is none, -2 when the body is in a form that we cannot pass. */
static int64_t body_length(struct proxy *p)
{
        const char *te = http_call_header(p->call, "transfer-encoding");
        const char *length = http_call_header(p->call, "content-length");
        int64_t n;

        if (te)
                return strcasecmp(te, "chunked") == 0 ? -1 : -2;
        return length && str_to_i64(length, strlen(length), &n) && n >= 0 ? n : -1;
}

static bool is_event_stream(struct proxy *p)
{
        const char *type = http_call_header(p->call, "content-type");

        return type && strncasecmp(type, "text/event-stream", 17) == 0;
}

static void start_answer(struct proxy *p, int status)
{
        int64_t length = body_length(p);
        struct error err;

        if (length == -2) {
                (void) error_set(&err, ERR_UPSTREAM, 0, "%s: unknown transfer-encoding",
                                 p->spec.url);
                fail(p, &err);
                return;
        }
        p->state = PROXY_ANSWERING;
        p->is_endless = length < 0 && is_event_stream(p);
        pass_headers(p);
        (void) reply_begin(p->req, status, NULL, length);
}

/* The 101 of the other server as it goes on: its headers are part of the handshake. */
static struct chunk *make_switch(struct proxy *p)
{
        const char *protocol = http_call_header(p->call, "upgrade");
        struct buf head = { 0 };

        if (!protocol || strpbrk(protocol, "\r\n"))
                protocol = req_header(p->req, "upgrade");
        buf_printf(&head,
                   "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %s\r\n",
                   protocol);
        pass_headers(p);
        if (p->req->extra.len)
                buf_put(&head, p->req->extra.data, p->req->extra.len);
        buf_puts(&head, "\r\n");
        return buf_take_chunk(&head);
}

static void start_tunnel(struct proxy *p)
{
        _cleanup_(chunk_unrefp) struct chunk *head = make_switch(p);
        struct slice early;
        struct error err;

        if (req_take_stream(p->req, head, &p->client, &early, &err) < 0) {
                fail(p, &err);
                return;
        }
        p->state = PROXY_TUNNEL;
        stream_set_sink(p->client, &client_events, p);
        stream_keep_alive(p->client);
        if (early.len)
                say(p, early.at, early.len);
}

static void call_head(void *arg, int status)
{
        struct proxy *p = arg;

        p->moved++;
        if (status == 101)
                start_tunnel(p);
        else
                start_answer(p, status);
}

static void call_data(void *arg, const char *data, size_t len)
{
        struct proxy *p = arg;
        int room;

        p->moved++;
        if (p->state == PROXY_TUNNEL)
                room = stream_write_bytes(p->client, data, len, NULL);
        else
                room = reply_write_bytes(p->req, data, len);
        if (room != 0)
                return;
        hold_server(p, true);
        if (is_waiting(p))
                watch(p);
}

static void call_room(void *arg)
{
        struct proxy *p = arg;

        p->moved++;
        hold_client(p, false);
}

static void call_end(void *arg, const struct error *why)
{
        struct proxy *p = arg;

        if (p->state == PROXY_TUNNEL) {
                close_tunnel(p, p->spec.stall_ms);
        } else if (why) {
                fail(p, why);
        } else {
                reply_end(p->req);
                drop(p);
        }
}

static const struct http_call_cb call_events = { call_head, call_data, call_room, call_end };

/* ---- the client, from the server's view ---- */

static void reply_room(void *arg)
{
        hold_server(arg, false);
}

static void client_gone(void *arg)
{
        drop(arg);
}

/* What would go on for ever ends now; the rest has the server's grace to finish. */
static void server_drains(void *arg)
{
        struct proxy *p = arg;

        if (p->client) {
                close_tunnel(p, CLOSE_MS);
        } else if (p->state == PROXY_ANSWERING && p->is_endless) {
                reply_end(p->req);
                drop(p);
        }
}

static int start_call(struct proxy *p, struct error *err)
{
        struct req *r = p->req;
        bool is_upgrade = req_wants_upgrade(r);
        /* Until an upgrade is answered nobody reads what the client sends, so that its leaving may
         * go unnoticed. */
        uint32_t head_ms = is_upgrade ? p->spec.stall_ms : NEVER_MS;
        const struct http_call_spec spec = {
                .method = r->method,
                .url = p->spec.url,
                .target = proxy_target(req_arena(r), p->spec.path),
                .fallback_host = p->spec.fallback_host,
                .headers = make_headers(r, &p->spec),
                .stream_body = r->has_body,
                .upgrade = is_upgrade ? req_header(r, "upgrade") : NULL,
                .connect_ms = p->spec.connect_ms,
                .head_ms = p->spec.head_ms ? p->spec.head_ms : head_ms,
        };

        return http_call_new(req_loop(r), &spec, &call_events, p, &p->call, err);
}

/* The texts of the spec are kept as long as the request. */
static const char *keep(struct req *r, const char *text)
{
        return text ? arena_strdup(req_arena(r), text) : NULL;
}

int proxy_pass(struct req *r, const struct proxy_spec *spec, struct error *err)
{
        struct proxy *p;

        if (slice_eq(req_method(r), "CONNECT"))
                return error_set(err, ERR_INVALID, 0, "CONNECT cannot be passed on");
        p = NEW(struct proxy);
        *p = (struct proxy) { .req = r, .spec = *spec };
        p->spec.url = keep(r, spec->url);
        p->spec.path = keep(r, spec->path);
        p->spec.prefix = keep(r, spec->prefix);
        p->spec.host = keep(r, spec->host);
        p->spec.fallback_host = keep(r, spec->fallback_host);
        p->spec.stall_ms = spec->stall_ms ? spec->stall_ms : PROXY_STALL_MS;
        timer_init(&p->watchdog, req_loop(r), on_watchdog);
        if (start_call(p, err) < 0) {
                free(p);
                return -1;
        }
        req_hold(r, client_gone, p);
        req_on_drain(r, server_drains, p);
        reply_on_room(r, reply_room, p);
        if (!req_wants_upgrade(r)) /* an upgrade has no body, and may not be read for one */
                req_read_body(r, &body_events, p);
        return 0;
}
