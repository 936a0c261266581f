/* The output of one process: numbered entries in a ring of bounded size, and cursors over it.
 *
 * Pure data, no loop: the owner appends, asks how far the slowest reader is, and tells the readers.
 * An entry's bytes are shared by everybody who reads it; entries that came in one piece share its
 * memory as well. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chunk.h"
#include "base/list.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_PTY, LOG_STREAMS };
/* Which streams a reader wants: 1u << LOG_STDOUT | … */
enum {
        LOGRING_ENTRY_MAX = 8192,
        /* What an entry costs beside its bytes, about: there may be one for every so many bytes of
         * the limit, so that a process which writes byte by byte cannot make it a joke … */
        LOGRING_ENTRY_COST = 64,
        LOGRING_ENTRIES_MIN = 1024, /* … but always that many */
};

struct log_entry {
        uint64_t seq; /* from 1, over all streams of the process, without holes */
        enum log_stream stream;
        int64_t time_ms;
        struct chunk *data;
};
/* What a reader missed, because the ring had moved on. */
struct log_gap {
        uint64_t from, to;  /* sequence numbers, both included */
        uint64_t n_entries; /* of the streams that the reader wants … */
        uint64_t n_bytes;   /* … or 0 = not known: it resumed at a number that was gone, and the
                             * entries are those of all streams */
};

struct logring;
struct logring *logring_new(size_t max_bytes);
struct logring *logring_free(struct logring *r); /* NULL is fine; returns NULL */
void logring_set_max(struct logring *r, size_t max_bytes);
/* Cuts at LOGRING_ENTRY_MAX, drops the oldest entries over the limit; but none that a held cursor
 * has not read, so whoever holds one must stop appending when it is far behind. */
void logring_append(struct logring *r, enum log_stream s, int64_t now_ms, const char *data,
                    size_t len);
uint64_t logring_last(const struct logring *r); /* the newest number, 0 = none yet */
size_t logring_bytes(const struct logring *r);
size_t logring_cost(const struct logring *r); /* of memory, about: bytes and entries */

/* A reader's place. Embed it; the ring must outlive it. */
struct logcursor {
        struct list node;
        struct logring *ring;
        uint64_t seq; /* everything up to here was delivered or is not wanted */
        unsigned streams;
        bool is_held;          /* the owner's to set: what it has not read is not dropped */
        struct log_gap missed; /* counts so far, for the next gap */
};
/* Starts behind `since`; tail >= 0: at the last so many entries of its streams instead, whichever
 * is later, and what was dropped before is no gap then. */
void logcursor_init(struct logcursor *c, struct logring *r, unsigned streams, uint64_t since,
                    int64_t tail);
/* 1 = an entry (its data borrowed until the next append), 0 = nothing yet, 2 = a gap first. */
int logcursor_next(struct logcursor *c, struct log_entry *ret, struct log_gap *ret_gap);
/* What it has not read costs so much memory: bytes, and a little for each entry. */
uint64_t logcursor_behind(const struct logcursor *c);
void logcursor_done(struct logcursor *c); /* idempotent */
