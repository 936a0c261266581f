/* Listening ports, and the way to them. */
#include "core/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "http/proxy.h"
#include "http/req.h"
#include "http/sse.h"
#include "json/write.h"

/* ---- GET /v1/ports ---- */

static void put_list(struct buf *out, const struct port_list *l)
{
        struct jw w = { .out = out };

        jw_obj(&w, NULL);
        jw_arr(&w, "ports");
        for (size_t i = 0; i < l->n; i++) {
                const struct port *p = &l->at[i];

                jw_obj(&w, NULL);
                jw_u64(&w, "port", p->port);
                jw_str(&w, "address", p->address);
                jw_bool(&w, "loopback", p->is_loopback);
                if (p->pid)
                        jw_i64(&w, "pid", p->pid);
                if (p->command[0])
                        jw_strn(&w, "command", p->command, strlen(p->command));
                jw_end(&w);
        }
        jw_end(&w);
        jw_end(&w);
}

/* One request for the list: answered with the first look, or told of every change (sse). */
struct lookout {
        struct ports_listener listener;
        struct req *req;
        struct sse *sse;
        struct buf latest; /* what a reader who did not keep up gets next; or empty */
        bool is_full;
};

static void lookout_free(struct lookout *o)
{
        ports_unlisten(&o->listener);
        sse_free(o->sse);
        buf_done(&o->latest);
        free(o);
}

static void answer_once(struct ports_listener *li, const struct port_list *l,
                        const struct error *why)
{
        struct lookout *o = CONTAINER_OF(li, struct lookout, listener);

        if (why) {
                (void) reply_error(o->req, why);
        } else {
                put_list(&o->latest, l);
                (void) reply_json(o->req, 200, o->latest.data, o->latest.len);
        }
        req_release(o->req);
        lookout_free(o);
}

static void asker_left(void *arg)
{
        struct lookout *o = arg;

        req_release(o->req);
        lookout_free(o);
}

static void send_latest(struct lookout *o)
{
        if (!o->latest.len || o->is_full)
                return;
        o->is_full = sse_send(o->sse, "ports", 0, o->latest.data, o->latest.len) == 0;
        buf_done(&o->latest);
}

static void tell_change(struct ports_listener *li, const struct port_list *l,
                        const struct error *why)
{
        struct lookout *o = CONTAINER_OF(li, struct lookout, listener);

        if (why)
                return; /* the next look may succeed; a change is not known */
        buf_clear(&o->latest);
        put_list(&o->latest, l);
        send_latest(o);
}

static void reader_room(void *arg)
{
        struct lookout *o = arg;

        o->is_full = false;
        send_latest(o);
}

static void reader_left(void *arg)
{
        lookout_free(arg);
}

static const struct sse_cb reader_events = { reader_room, reader_left };

struct ports_query {
        bool follow;
};
static const struct field ports_query[] = {
        { "follow", F_BOOL, 0, offsetof(struct ports_query, follow),
          .doc = "server-sent events, as with Accept: text/event-stream: the list, then the list "
                 "after each change" },
        { 0 },
};

static bool wants_events(struct req *r)
{
        const struct ports_query *q = req_query(r);
        const char *accept = req_header(r, "accept");
        struct slice rest = accept ? SLICE(accept) : (struct slice) { 0 }, item, type;

        while (slice_cut(&rest, ',', &item)) {
                (void) slice_cut(&item, ';', &type);
                if (slice_ieq(slice_trim(type), "text/event-stream"))
                        return true;
        }
        return q->follow;
}

static int get_ports(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        struct lookout *o = NEW(struct lookout);

        o->req = r;
        if (wants_events(r)) {
                o->listener.fn = tell_change;
                if (sse_open(r, &reader_events, o, &o->sse, err) < 0) {
                        free(o);
                        return -1;
                }
        } else {
                o->listener.fn = answer_once;
                reply_header(r, "vary", "accept");
                req_hold(r, asker_left, o);
        }
        ports_listen(api->ports, &o->listener);
        return 0;
}

/* ---- ANY /v1/ports/{port}/proxy ---- */

static int parse_port(struct req *r, uint16_t *ret, struct error *err)
{
        const struct api *api = req_app(r);
        const char *text = req_param(r, "port");
        uint64_t n;

        if (!str_to_u64(text, strlen(text), &n) || n < 1 || n > UINT16_MAX)
                return error_set(err, ERR_INVALID, 0,
                                 "port '%.16s' is not a number from 1 to 65535", text);
        if (ports_is_mine(api->ports, (uint16_t) n))
                return error_set(err, ERR_INVALID, 0, "port %u is this server itself",
                                 (unsigned) n);
        *ret = (uint16_t) n;
        return 0;
}

/* The path up to and with "/proxy", as the client wrote it. */
static struct slice prefix_of(struct req *r)
{
        struct slice path = req_path(r), rest = path, part;

        for (int i = 0; i < 5; i++) /* "", v1, ports, {port}, proxy */
                (void) slice_cut(&rest, '/', &part);
        return (struct slice) { path.at, (size_t) (part.at + part.len - path.at) };
}

static const char *with_query(struct req *r, struct slice path, const char *more)
{
        struct slice query = req_query_text(r);

        return arena_printf(req_arena(r), "%.*s%s%s%.*s", (int) path.len, path.at, more,
                            query.len ? "?" : "", (int) query.len, query.at);
}

/* Relative links of a page at "/proxy" would lead out of it. */
static int any_proxy_root(struct req *r, struct error *err)
{
        uint16_t port;

        if (parse_port(r, &port, err) < 0)
                return -1;
        reply_header(r, "location", with_query(r, prefix_of(r), "/"));
        return reply_empty(r, 308);
}

static int any_proxy(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        struct slice prefix = prefix_of(r), path = req_path(r);
        struct slice rest = { path.at + prefix.len, path.len - prefix.len };
        char url[32], host[32];
        uint16_t port = 0;
        struct proxy_spec spec = {
                .url = url,
                .path = with_query(r, rest, ""),
                .prefix = arena_strndup(req_arena(r), prefix.at, prefix.len),
                .host = host,
                .fallback_host = "::1",
                .passes_authorization = api->is_open,
        };

        if (parse_port(r, &port, err) < 0)
                return -1;
        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
        /* The name that development servers trust, whichever address answers. */
        (void) snprintf(host, sizeof(host), "localhost:%u", port);
        return proxy_pass(r, &spec, err);
}

struct port_row {
        uint64_t port;
        const char *address, *command;
        bool loopback;
        int64_t pid;
};
static const struct field port_fields[] = {
        { "port", F_UINT, F_REQUIRED, offsetof(struct port_row, port), .doc = "the number" },
        { "address", F_STR, F_REQUIRED, offsetof(struct port_row, address), 46,
          .doc = "where it listens; 0.0.0.0 and :: mean everywhere" },
        { "loopback", F_BOOL, F_REQUIRED, offsetof(struct port_row, loopback),
          .doc = "reachable on this machine only" },
        { "pid", F_INT, 0, offsetof(struct port_row, pid),
          .doc = "the process, when it can be known" },
        { "command", F_STR, 0, offsetof(struct port_row, command), 32, .doc = "its name" },
        { 0 },
};
struct ports_reply {
        struct objv ports;
};
static const struct field ports_reply[] = {
        { "ports", F_OBJV, F_REQUIRED, offsetof(struct ports_reply, ports), PORTS_MAX,
          .sub = port_fields, .sub_size = sizeof(struct port_row),
          .doc = "sorted by port, one per address" },
        { 0 },
};

const struct route api_ports[] = {
        { "GET", "/v1/ports", get_ports, .query = ports_query,
          .query_size = sizeof(struct ports_query), .reply = ports_reply, .cli = "ports",
          .doc = "The TCP ports that something on this machine listens on." },
        { "*", "/v1/ports/{port}/proxy", any_proxy_root, R_STREAM_BODY,
          .doc = "Redirects to the root of the preview." },
        { "*", "/v1/ports/{port}/proxy/{rest*}", any_proxy, R_STREAM_BODY,
          .doc = "Passes the request on to a port of this machine, WebSockets included." },
        { 0 },
};
