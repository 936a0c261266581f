/* A small HTTP/1.1 client on the same loop and parser: TCP, TLS or unix socket, streaming both
 * ways, every wait with a limit. One request per connection (keep-alive when the caller reuses it
 * is not offered: engines and the CLI make few requests). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chunk.h"
#include "base/error.h"
#include "base/str.h"

struct http_call;
struct loop;
struct tls;

struct http_call_spec {
        const char *method;
        const char *url; /* http://…, https://… or unix:/path/to.sock:/request/path */
        const char *const *headers; /* "Name: value", NULL-terminated; may be NULL */
        struct chunk *body;         /* or NULL */
        bool stream_body;           /* the body follows with http_call_write / http_call_finish */
        struct tls *tls;            /* https only */
        uint32_t connect_ms, head_ms, idle_ms; /* 0 = the defaults 5 s, 30 s, none */
        size_t max_head_bytes;                 /* 0 = 64 KiB */
        const char *target;        /* "/x?y=1" instead of the path in the url; or NULL */
        const char *fallback_host; /* tried when the host of the url refuses; or NULL */
        const char *upgrade;       /* asks to leave HTTP for this protocol; or NULL */
};
struct http_call_cb {
        /* Status and headers are here (http_call_header). 101 comes only to who asked for an
         * upgrade: from then on the call is a tunnel. on_data brings what the other side says,
         * http_call_write() sends plain bytes, http_call_finish() closes our half, on_end comes
         * when the other side has closed its own. */
        void (*on_head)(void *arg, int status);
        void (*on_data)(void *arg, const char *data, size_t len);
        void (*on_room)(void *arg); /* stream_body and tunnels; may be NULL */
        void (*on_end)(void *arg, const struct error *why); /* once, last; NULL = complete */
};
/* Copies what it needs of spec; spec->tls is borrowed for the life of the call. No callback comes
 * before it returns. host, accept and user-agent may be given as headers; connection and
 * transfer-encoding may not (ERR_INVALID). Redirects are answers like any other. */
int http_call_new(struct loop *l, const struct http_call_spec *, const struct http_call_cb *,
                  void *arg, struct http_call **ret, struct error *err);
const char *http_call_header(const struct http_call *c, const char *lower_name); /* or NULL */
/* All headers in order: the next name from *at = 0 on, NULL behind the last. */
const char *http_call_next_header(const struct http_call *c, size_t *at, const char **ret_value);
/* stream_body: 1 = room, 0 = full (on_room follows), -1 = dead. Until the connection stands it is
 * full. Goes out in chunks, or as it is when a content-length header was given. */
int http_call_write(struct http_call *c, struct chunk *body);
void http_call_finish(struct http_call *c);
void http_call_pause(struct http_call *c, bool on);
uint64_t http_call_sent(const struct http_call *c); /* bytes that the other side's kernel took */
/* Aborts when not done; no callback after it, also from inside one. NULL is fine. */
struct http_call *http_call_free(struct http_call *c);

/* The whole exchange at once: runs the loop until the answer is there. For the CLI and tests. A
 * body over max_body is ERR_TOO_BIG. */
struct http_answer {
        int status;
        char *type; /* content-type or "" */
        char *body; /* NUL-terminated */
        size_t len;
};
int http_fetch(struct loop *l, const struct http_call_spec *, size_t max_body,
               struct http_answer *ret, struct error *err);
void http_answer_done(struct http_answer *a);
