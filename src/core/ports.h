/* The TCP ports that something on this machine listens on. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/list.h"

struct loop;
struct ports;

enum {
        PORTS_MAX = 4096,                /* rows; what is beyond is left out */
        PORTS_POLL_MS = 500,             /* while somebody listens */
        PORTS_OWNER_LINKS_MAX = 1 << 18, /* descriptors looked at in one search for owners */
        PORTS_OWNER_TRIES = 3,           /* then an owner that hides is not looked for again */
};

struct port {
        uint16_t port;
        char address[46]; /* "0.0.0.0", "127.0.0.1", "::" … */
        bool is_loopback; /* listens on this machine only */
        pid_t pid;        /* 0 = not known (another user's process) */
        char command[32]; /* its name, or "" */
};
/* Sorted by port, one row per address. The server's own ports are left out (`mine`). */
struct port_list {
        struct port *at;
        size_t n;
};
void port_list_done(struct port_list *l);
/* Blocking: reads /proc. */
int ports_scan(const uint16_t *mine, size_t n_mine, struct port_list *ret, struct error *err);
/* Whole lines of /proc/net/tcp or tcp6 as text; pure and fuzzed. Appends listening sockets and, in
 * step with them, their inodes (malloc'd); both may be empty at first. Lines that make no sense are
 * passed over. Returns how many were added. */
int ports_parse(const char *text, size_t len, bool is_v6, struct port_list *ret, uint64_t **inodes);

/* Looks again every PORTS_POLL_MS as long as there is a listener, on the pool. */
struct ports_listener {
        struct list node;
        /* The whole list at first (never older than ports_listen()) and after each change. NULL
         * with the reason when /proc cannot be read; then this comes with each look. Never from
         * inside ports_listen(). May unlisten and free itself. */
        void (*fn)(struct ports_listener *, const struct port_list *, const struct error *why);
        uint64_t since; /* inner: the look that tells it first, 0 once it was told */
};
struct ports *ports_new(struct loop *l, const uint16_t *mine, size_t n_mine);
bool ports_is_mine(const struct ports *p, uint16_t port);
void ports_listen(struct ports *p, struct ports_listener *li);
void ports_unlisten(struct ports_listener *li); /* idempotent */
struct ports *ports_free(struct ports *p);      /* NULL is fine; no callback comes after it */
