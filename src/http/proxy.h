/* Passes a request on to another HTTP server and its answer back: bodies stream both ways with
 * back-pressure, WebSockets (any upgrade) become a tunnel of bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct arena;
struct req;

enum { PROXY_STALL_MS = 5 * 60 * 1000 };

struct proxy_spec {
        const char *url;    /* http://127.0.0.1:3000 or unix:/path.sock:/ – without the path */
        const char *path;   /* "/x?y=1": target at the other server */
        const char *prefix; /* ours, told as x-forwarded-prefix; Location headers below the other
                             * server's root are rewritten to it; may be NULL */
        const char *host;   /* Host header; NULL = that of the url */
        const char *fallback_host; /* tried when the host of the url refuses; or NULL */
        uint32_t connect_ms;       /* 0 = 5 s */
        uint32_t head_ms;  /* 0 = none: a server may take its time; stall_ms for an upgrade */
        uint32_t stall_ms; /* 0 = PROXY_STALL_MS: somebody waits and nothing moves */
        bool passes_authorization; /* the header was not meant for us: nobody here asks for it */
};
/* The row must have R_STREAM_BODY. Holds the request and answers it. Hop-by-hop headers go neither
 * way; credentials meant for us (authorization unless the spec says so, access_token in the query)
 * do not go on; x-forwarded-for (unless the client has no address), -proto, -host and -prefix are
 * set. ERR_UPSTREAM when nobody answers there, ERR_TIMEOUT when nothing moves. */
int proxy_pass(struct req *r, const struct proxy_spec *, struct error *err);

/* ---- the pure parts; results live in the arena ---- */
/* The target without its access_token parameters. */
const char *proxy_target(struct arena *a, const char *path);
/* Where a Location of the other server leads from outside. NULL: leave it as it is, because it
 * points elsewhere or is right already. our_host: what the client calls us, may be empty. */
const char *proxy_location(struct arena *a, const struct proxy_spec *, struct slice our_host,
                           const char *location);
