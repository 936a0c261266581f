/* A WebSocket (RFC 6455) from the client's side, on the client's connection: the same endpoints,
 * TLS and token as any call. */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "http/ws.h"

struct client;
struct client_ws;

struct client_ws_cb {
        void (*on_open)(void *arg);
        void (*on_message)(void *arg, enum ws_op op, const char *data, size_t len);
        void (*on_room)(void *arg); /* may be NULL */
        /* The server answered with a status instead; on_end follows. May be NULL. */
        void (*on_refused)(void *arg, int status, const char *type, const char *body, size_t len);
        /* Once, last: NULL when it was closed in order. */
        void (*on_end)(void *arg, const struct error *why);
};

/* path and query as in struct client_request. No callback comes before it returns. A server that
 * shows no sign of life for two periods of CLIENT_WS_PING_MS is gone. */
enum { CLIENT_WS_PING_MS = 30 * 1000, CLIENT_WS_CLOSE_MS = 5 * 1000 };
int client_ws_open(struct client *c, const char *path, const char *query,
                   const struct client_ws_cb *, void *arg, struct client_ws **ret,
                   struct error *err);
/* 1 = room, 0 = taken but full (on_room follows), -1 = not open. */
int client_ws_send(struct client_ws *w, enum ws_op op, const void *data, size_t len);
/* Starts the closing handshake, which takes CLIENT_WS_CLOSE_MS at most; on_end follows. */
void client_ws_close(struct client_ws *w);
struct client_ws *client_ws_free(struct client_ws *w); /* now; no callback after it; NULL is fine */
