/* What event/ needs of a store. Filled by store/ (sqlite, memory; postgres later).
 *
 * Every call may block. commit and trim are made by one thread at a time (the writer thread of the
 * event log); events, range and docs may run on any threads, at the same time as each other and as
 * a commit, and see whole transactions only. open and close stand alone. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/chunk.h"
#include "base/error.h"

enum {
        STORE_PAGE_BYTES = 1024 * 1024, /* events() stops after so many bytes of bodies */
        STORE_KEY_MAX = 512,            /* bytes of a topic's name or of a document's key */
};

struct event {
        uint64_t seq;  /* per topic, from 1, no holes; is the SSE id */
        int64_t at_us; /* real time */
        uint16_t kind;
        struct chunk *body; /* JSON, serialised once, shared by all readers */
};

/* Documents and events go down in one transaction, so a state and the event that announces it can
 * never disagree after a crash. */
struct store_op {
        enum { OP_EVENT, OP_PUT, OP_DEL } op;
        const char *key; /* topic, or "kind/id" */
        struct event ev; /* OP_EVENT */
        /* OP_EVENT: a second topic that carries the same event under a number of its own, or NULL.
         * Not the same as key. The body is stored once and goes when both topics trimmed it. */
        const char *also;
        uint64_t also_seq;
        struct chunk *doc; /* OP_PUT */
};

struct store_ops {
        const char *name;
        /* Migrates to the newest schema; refuses a store of a newer program. */
        int (*open)(const char *dsn, void **ret, struct error *err);
        /* All or nothing. A number that is not the next one of its topic is ERR_CONFLICT. Deleting
         * what is not there succeeds. */
        int (*commit)(void *h, const struct store_op *ops, size_t n, struct error *err);
        /* Events with seq > after, in order; bodies are new references. Returns how many: at most
         * max, fewer after STORE_PAGE_BYTES, but at least one if there is one. */
        int (*events)(void *h, const char *topic, uint64_t after, struct event *ret, size_t max,
                      struct error *err);
        /* First kept and last given number of a topic; 0, 0 when it never had an event. After a
         * trim of everything first is last + 1: the numbers go on, they do not begin again. */
        int (*range)(void *h, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                     struct error *err);
        /* Documents whose key begins with prefix, in the order of their keys. row() borrows its
         * arguments; a negative result of it ends the walk and becomes the result. */
        int (*docs)(void *h, const char *prefix,
                    int (*row)(void *arg, const char *key, const char *doc, size_t len), void *arg,
                    struct error *err);
        /* Removes seq <= upto from this topic; another topic that has the same event keeps it. */
        int (*trim)(void *h, const char *topic, uint64_t upto, struct error *err);
        void (*close)(void *h); /* NULL is fine */
};
