/* Server-sent events over a held request: framing, heartbeat, back-pressure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chunk.h"
#include "base/error.h"
#include "base/str.h"

struct buf;
struct req;
struct sse;

enum { SSE_HEARTBEAT_MS = 15000 };

struct sse_cb {
        void (*on_room)(void *arg); /* write on; may be NULL */
        /* The client left, the server drains, or it was a HEAD: free the sse here; once, last. */
        void (*on_gone)(void *arg);
};

/* Answers 200 text/event-stream, holds the request, starts the heartbeat (": heartbeat"). No
 * callback comes before it returns. */
int sse_open(struct req *r, const struct sse_cb *, void *arg, struct sse **ret, struct error *err);
/* One event; event (one line, or NULL) and id (0 = none) may be left out; a newline in data is
 * framed as several data lines. 1 = room, 0 = full (on_room follows), -1 = gone. */
int sse_send(struct sse *s, const char *event, uint64_t id, const char *data, size_t len);
/* Data that is one line of JSON in a shared chunk: framed without copying the body. */
int sse_send_chunk(struct sse *s, const char *event, uint64_t id, struct chunk *data);
int sse_comment(struct sse *s, const char *text);
void sse_set_heartbeat(struct sse *s, uint32_t every_ms); /* after so much silence */
struct sse *sse_free(struct sse *s); /* ends the stream cleanly; NULL is fine */

/* Last-Event-ID, else ?offset=…: 0 when absent or empty; ERR_INVALID
 * "Last-Event-ID must be a positive integer". */
int sse_last_id(struct req *r, uint64_t *ret, struct error *err);

/* ---- the pure parts ---- */
void sse_frame_head(struct buf *out, const char *event, uint64_t id);
void sse_frame(struct buf *out, const char *event, uint64_t id, const char *data, size_t len);
int sse_parse_id(struct slice text, const char *what, uint64_t *ret, struct error *err);
