/* Bytes with back-pressure, in both directions.
 *
 * The owner writes until stream_write() says "full" (0) and goes on at on_room. It may pause
 * reading; then the other side's writes block in the kernel. on_end comes exactly once, last, and
 * never from inside a call that the owner made. When a write to a socket fails, what the other side
 * said before is still read; then the stream ends with the reason. Writes are gathered and leave at
 * the end of the iteration, so many small writes become one system call. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chunk.h"
#include "base/error.h"

struct loop;
struct stream;
struct stream_files;

struct stream_sink {
        /* Borrowed bytes, gone after the call. NULL for a stream that is only written. */
        void (*on_data)(void *arg, const char *data, size_t len);
        /* The other side will send no more, but may still read. NULL: the stream ends then. */
        void (*on_eof)(void *arg);
        /* Below the low mark again after a "full": write on. May be NULL. */
        void (*on_room)(void *arg);
        /* Over: why is NULL for a clean end (the other side closed, or stream_finish is done). The
         * owner frees the stream here or later. Not called after stream_free(). */
        void (*on_end)(void *arg, const struct error *why);
};

/* One kind of stream: descriptor (socket, pipe, pty), TLS, in-memory pair. */
struct stream_ops {
        const char *name;
        int (*write)(struct stream *, struct chunk *, struct error *);
        void (*pause)(struct stream *, bool on);
        void (*finish)(struct stream *);
        void (*close)(struct stream *);
        void (*free)(struct stream *); /* releases everything, callbacks never come again */
        /* For stream_write_file(). Ends the stream with this reason; NULL: the kind takes no files.
         */
        void (*fail)(struct stream *, const struct error *why);
        /* The socket below, when what is written leaves there as it is; else -1. NULL: never. */
        int (*bare_fd)(struct stream *);
        void (*await)(struct stream *); /* bare_fd() is full: stream_has_room() when it is not */
};

struct stream {
        const struct stream_ops *ops;
        const struct stream_sink *sink;
        void *arg;
        struct loop *loop;
        size_t queued_bytes; /* written, not yet taken by the kernel: see stream_queued() */
        uint64_t sent_bytes; /* taken by the kernel since the beginning: see stream_sent() */
        const struct stream *carrier; /* TLS: the stream below, whose numbers count */
        struct stream_files *files;   /* a file and what was written behind it, or NULL */
        uint64_t file_bytes;          /* in there */
        uint32_t high_bytes;          /* "full" above; default STREAM_HIGH_BYTES */
        bool is_full, is_paused, is_finishing, has_ended;
        bool hears_out; /* the owner's choice: a pause does not end a stream that cannot write any
                         * more, since what the other side said before is wanted, if later */
};

enum { STREAM_HIGH_BYTES = 256 * 1024, STREAM_READ_BYTES = 64 * 1024 };

/* Takes the descriptor (non-blocking from then on). For pipes and ptys that are one-way pass the
 * end you have. Reading starts at once unless paused; EIO on a pty counts as a clean end. */
int stream_open_fd(struct loop *l, int fd, const struct stream_sink *, void *arg,
                   struct stream **ret, struct error *err);
/* Two ends in memory, for tests and built-in peers. */
void stream_pair(struct loop *l, struct stream *ret[2]);
void stream_set_sink(struct stream *s, const struct stream_sink *, void *arg);

/* Keeps its own reference to the chunk. 1 = taken and there is room, 0 = taken but full (wait for
 * on_room), -1 = dead. */
int stream_write(struct stream *s, struct chunk *c, struct error *err);
int stream_write_bytes(struct stream *s, const void *data, size_t len, struct error *err);
/* A part of a file, behind what is queued; takes the descriptor, whatever it returns (as above). A
 * plain socket gets it by sendfile(2), anything else in pieces of bounded size. Reading the disk
 * never blocks the loop. The whole part counts as queued: stream_queued() goes down as it leaves,
 * on_room follows. A file that is shorter than promised ends the stream with an error. */
int stream_write_file(struct stream *s, int fd, uint64_t offset, uint64_t len, struct error *err);
/* Bytes written and not yet taken by the kernel, now. */
static inline size_t stream_queued(const struct stream *s)
{
        return s->file_bytes + (s->carrier ? stream_queued(s->carrier) : s->queued_bytes);
}
/* The address of the other side's machine as text ("127.0.0.1", "::1"). False: it has none (a unix
 * socket, a pipe), or the stream is over. */
bool stream_peer(struct stream *s, char *ret, size_t size);
/* For a connection that may rightly be silent for days: the kernel asks now and then whether the
 * other machine is still there, and ends the stream if not. */
void stream_keep_alive(struct stream *s);
/* Has the other side taken anything since the last look? */
static inline uint64_t stream_sent(const struct stream *s)
{
        return s->carrier ? stream_sent(s->carrier) : s->sent_bytes;
}
/* What the other side has taken of it: changes while it reads, however slowly, long before its
 * buffer in the kernel has room for more. Only good for "has it changed?". */
uint64_t stream_taken(struct stream *s);
void stream_pause(struct stream *s, bool on);
void stream_finish(struct stream *s); /* write what is queued, close our side; reading goes on */
void stream_close(struct stream *s);  /* now, dropping what is queued; on_end follows */
struct stream *stream_free(struct stream *s); /* NULL is fine; no callback comes after it */
