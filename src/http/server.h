/* The HTTP/1.1 server: listeners, connections, limits, deadlines, graceful shutdown. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct http_server;
struct listen_spec;
struct loop;
struct req;
struct router;
struct tls;

/* Ceilings; every one is printed by GET /v1/limits and has a test at the limit and one above. */
struct http_limits {
        uint32_t max_conns;
        uint32_t max_head_bytes; /* all header fields of one request */
        uint32_t max_headers;
        uint32_t max_uri_bytes;
        uint64_t max_body_bytes; /* buffered bodies; streams have their own */
        uint32_t head_ms, body_ms, idle_ms, write_ms, drain_ms;
};
extern const struct http_limits http_limits_default;

/* Checks that come before the handler; filled by api/, since http/ knows no tokens. */
struct http_policy {
        /* Credential → scopes. Sets *ret_name (borrowed) and *ret_scopes; false = refuse with 401.
         * NULL = everything is open. is_ws: ?access_token= counts too. */
        bool (*authenticate)(void *arg, struct req *r, bool is_ws, const char **ret_name,
                             unsigned *ret_scopes);
        /* Host and Origin: -1 with ERR_FORBIDDEN refuses. May be NULL. */
        int (*admit)(void *arg, struct req *r, struct error *err);
        void *arg;
        const struct cors *cors;
};
enum { SCOPE_READ = 1, SCOPE_WRITE = 2, SCOPE_ADMIN = 4 };

struct http_stats {
        uint64_t requests, bytes_in, bytes_out, conns_total,
                by_class[6]; /* 1xx … 5xx, [0] unused */
        uint64_t parse_errors, timeouts, latency_us_sum;
        uint32_t conns_open, conns_max, streams_open; /* streams: WebSockets, not in conns */
};

struct http_server_spec {
        const struct router *router;
        struct http_limits limits;
        struct http_policy policy;
        struct tls *tls; /* optional */
        void *app;       /* req_app() */
        bool is_guest;
        /* One finished request, for the log; may be NULL. */
        void (*on_done)(void *app, struct req *r, int status, int64_t took_us, uint64_t bytes);
};

struct http_server *http_server_new(struct loop *l, const struct http_server_spec *);
int http_server_listen(struct http_server *s, const struct listen_spec *, struct error *err);
/* Stops accepting, lets requests finish, ends streams kindly, closes what is left after drain_ms;
 * then done(arg), once. */
void http_server_drain(struct http_server *s, void (*done)(void *arg), void *arg);
uint16_t http_server_port(const struct http_server *s); /* of the first TCP listener */
const struct http_stats *http_server_stats(const struct http_server *s);
struct http_server *http_server_free(struct http_server *s);
