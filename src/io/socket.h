/* Where to listen and where to connect. Addresses:
 *   tcp: host + port        unix: absolute path        systemd: the sockets in LISTEN_FDS */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct loop;
struct listener;

struct listen_spec {
        const char *host;      /* "127.0.0.1", "::1", "0.0.0.0", "localhost" … */
        uint16_t port;         /* 0 = any */
        const char *unix_path; /* instead of host/port */
        int fd;                /* already listening (socket activation), or -1 */
        int backlog;
};

/* accepted() gets a connected, non-blocking, close-on-exec descriptor and owns it. When descriptors
 * run out the listener pauses for a moment instead of spinning. */
int listener_new(struct loop *l, const struct listen_spec *, void (*accepted)(void *arg, int fd),
                 void *arg, struct listener **ret, struct error *err);
uint16_t listener_port(const struct listener *);
struct listener *listener_free(struct listener *); /* closes; a unix path that it made is removed */

/* The descriptors that systemd handed over, first one in *ret_first (3). Clears the environment. */
int socket_activation(int *ret_first);
bool socket_host_is_loopback(const char *host);
bool socket_fd_is_local(int fd); /* a unix socket, or bound to loopback */

/* Connects without blocking: names are looked up on a pool thread, each address is tried in turn.
 * Exactly one call of done, later, with fd >= 0 (yours) or the reason; none after dial_cancel(). */
struct dial;
struct dial *dial_tcp(struct loop *l, const char *host, uint16_t port, int timeout_ms,
                      void (*done)(void *arg, int fd, const struct error *why), void *arg);
struct dial *dial_unix(struct loop *l, const char *path, int timeout_ms,
                       void (*done)(void *arg, int fd, const struct error *why), void *arg);
void dial_cancel(struct dial *d); /* only before done() */
