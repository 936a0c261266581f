/* The API client that the command line uses: an endpoint, a token, calls.
 *
 * An endpoint is http://host:port[/prefix], https://… or unix:/path/to.sock. The calls block: each
 * runs the client's own loop until the answer is there. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chunk.h"
#include "base/error.h"
#include "http/client.h"

struct client;
struct secret;

#define CLIENT_ENDPOINT "http://127.0.0.1:2468"
enum { CLIENT_ANSWER_MAX = 256 * 1024 * 1024 };

/* token is borrowed and may be NULL. ERR_USAGE for an endpoint that makes no sense. */
int client_new(const char *endpoint, const struct secret *token, struct client **ret,
               struct error *err);
struct client *client_free(struct client *c);
static inline void client_freep(struct client **c)
{
        client_free(*c);
}
/* 0 = the defaults of http/client.h. */
void client_set_limits(struct client *c, uint32_t connect_ms, uint32_t answer_ms);

struct client_request {
        const char *method;
        const char *path;          /* "/v1/health", already encoded (client_encode) */
        const char *query;         /* "a=1&b=2", already encoded; may be NULL */
        struct chunk *body;        /* or NULL */
        int body_fd;               /* instead, with has_body_fd: read while it is sent */
        bool has_body_fd;          /* client_stream() only */
        const char *type;          /* of the body; NULL = application/json */
        const char *accept;        /* or NULL */
        const char *last_event_id; /* or NULL */
        const char *ws_key;        /* asks for a WebSocket (client/ws.h); or NULL */
};

/* Any answer is a success here, 404 too; -1 means that there is none. http_answer_done()
 * afterwards. */
int client_call(struct client *c, const struct client_request *q, struct http_answer *ret,
                struct error *err);

/* The body as it comes, for answers that are big or have no end. on_head says with what it begins.
 * A false from either ends the call without an error. Both run before client_stream() returns, and
 * may block: that holds the server back. A body_fd that is a file is sent with its length, from
 * where its offset stands; anything else in chunks until it ends. */
struct client_sink {
        bool (*on_head)(void *arg, int status, const char *type);
        bool (*on_data)(void *arg, const char *data, size_t len);
};
int client_stream(struct client *c, const struct client_request *q, const struct client_sink *sink,
                  void *arg, struct error *err);

/* ---- for longer conversations ---- */
struct loop;
struct loop *client_loop(struct client *c); /* of the calls */
/* Only starts it; as http_call_new(). A body_fd is not read here. */
int client_start(struct client *c, const struct client_request *q, const struct http_call_cb *cb,
                 void *arg, struct http_call **ret, struct error *err);

struct buf;
/* Percent-encodes what is not unreserved; `keep` names further characters that stay. */
void client_encode(struct buf *out, const char *text, const char *keep);
/* Appends name=value with the separator it needs. */
void client_query_add(struct buf *query, const char *name, const char *value);
