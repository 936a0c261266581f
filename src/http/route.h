/* The router is a table. One row gives path, method, auth, limits, field tables, OpenAPI and the
 * CLI mirror; handlers stay thin. Protected by default: a row is open only if it says R_OPEN, and
 * the open rows are a short list (docs/internals/http.md). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "json/bind.h"

struct req;

enum {
        R_OPEN = 1u << 0, /* no token needed */
        R_SSE = 1u << 1,  /* answers text/event-stream: checked against Accept */
        R_WS = 1u << 2,   /* WebSocket: upgrade headers checked, ?access_token= accepted */
        R_STREAM_BODY =
                1u << 3,      /* the handler starts after the head and reads the body by itself */
        R_RAW_BODY = 1u << 4, /* buffered body of any type; else a body must be JSON */
        R_ADMIN = 1u << 5,    /* needs scope admin (else: GET and HEAD read, others write) */
        R_HOST = 1u << 6,     /* belongs to the host role: 404 on a guest */
        R_HIDDEN = 1u << 7,   /* not in OpenAPI (the page's files) */
        R_READ = 1u << 8,     /* a POST that changes nothing: scope read is enough */
};

struct route {
        const char *method; /* "GET" also answers HEAD; "*" answers what no other row of the path
                             * does, methods nobody knows included; NULL ends the table */
        const char *path;   /* "/v1/things/{id}"; a last "{name*}" takes the rest */
        int (*fn)(struct req *, struct error *); /* -1: err becomes the problem body */
        uint32_t flags;
        const struct field *body, *query, *reply;
        size_t body_size, query_size; /* of the structs that the tables fill */
        size_t max_body;              /* 0 = HTTP_BODY_MAX */
        const char *cli;              /* "health": `sandbox-agent api health`; or NULL */
        const char *doc;
};

struct router;
enum { ROUTE_PARAMS_MAX = 6 };

struct route_match {
        const struct route *row;               /* NULL: path unknown, or method not offered */
        const char *allow;                     /* "GET,HEAD,PUT" when the path is known */
        struct slice params[ROUTE_PARAMS_MAX]; /* raw text between the slashes */
        size_t n_params;
        bool needs_auth, is_host; /* for a known path whatever the method */
};

/* tables: NULL-terminated list of row tables. Rows are borrowed. A malformed or doubled row aborts.
 */
struct router *router_new(const struct route *const *tables);
struct router *router_free(struct router *r);
void router_find(const struct router *r, struct slice method, struct slice path,
                 struct route_match *ret);
/* Walks all rows in table order. */
const struct route *router_row(const struct router *r, size_t i); /* NULL past the end */
static inline bool route_is_any(const struct route *row)
{
        return row->method[0] == '*';
}
/* The name of parameter i of a row: "/v1/{a}/{b}", 1 → "b". */
struct slice route_param_name(const struct route *row, size_t i);
