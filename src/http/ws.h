/* WebSocket (RFC 6455). The codec is pure and fuzzed; the connection joins it to a stream. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/chunk.h"
#include "base/error.h"
#include "base/str.h"

enum ws_op { WS_CONT = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
enum {
        WS_NORMAL = 1000,
        WS_GOING_AWAY = 1001,
        WS_PROTOCOL = 1002,
        WS_NO_STATUS = 1005, /* never on the wire: an empty close frame */
        WS_BROKEN = 1006,    /* never on the wire: no close handshake took place */
        WS_BAD_DATA = 1007,
        WS_TOO_BIG = 1009,
        WS_INTERNAL = 1011,
};
enum { WS_MESSAGE_MAX = 16 * 1024 * 1024, WS_CONTROL_MAX = 125, WS_HEAD_MAX = 14 };

/* ---- codec ---- */
struct ws_decoder {
        bool expect_mask; /* server side: true */
        size_t max_message;
        /* inner */
        uint8_t head[WS_HEAD_MAX];
        uint8_t head_len;
        uint8_t op;     /* of the frame under way */
        uint8_t msg_op; /* of the message under way, WS_CONT = none */
        uint8_t control_len;
        uint8_t key[4];
        bool is_fin, in_payload, is_dead;
        uint64_t left;     /* payload bytes of this frame still to come */
        uint64_t mask_pos; /* payload bytes of this frame seen */
        struct buf msg;
        char control[WS_CONTROL_MAX];
};
/* Borrowed bytes, gone after the call. Text is valid UTF-8. A callback may set decoder.is_dead to
 * stop the decoding; it must not call ws_decoder_done(). */
struct ws_events {
        /* Text or binary. */
        void (*on_message)(void *arg, enum ws_op op, const char *data, size_t len);
        /* Ping, pong or close. */
        void (*on_control)(void *arg, enum ws_op op, const char *data, size_t len);
};
/* Feeds bytes. Returns 0, or the close code (1002, 1007, 1009) that the violation asks for; then
 * the decoder is dead. A dead decoder swallows what it is fed. */
int ws_decode(struct ws_decoder *d, const char *data, size_t len, const struct ws_events *,
              void *arg);
void ws_decoder_done(struct ws_decoder *d);
/* The head of a whole frame without its mask; returns its length (2 to 10). */
size_t ws_encode_head(uint8_t ret[static WS_HEAD_MAX], enum ws_op op, size_t len, bool is_masked);
/* Appends one whole frame; mask NULL on the server side, else 4 bytes. */
void ws_encode(struct buf *out, enum ws_op op, const void *data, size_t len, const uint8_t *mask);
/* May this code stand in a close frame? */
bool ws_close_code_ok(unsigned code);
/* The code of a close payload that the decoder accepted; WS_NO_STATUS when it is empty. */
int ws_close_code(const char *data, size_t len);
/* Sec-WebSocket-Accept for a key; ret takes 29 bytes. */
void ws_accept_key(const char *key, char ret[static 29]);

/* ---- connection ---- */
struct req;
struct stream;
struct ws;
struct ws_times {
        uint32_t ping_ms;  /* from one ping to the next */
        uint32_t pong_ms;  /* then the peer must show a sign of life */
        uint32_t close_ms; /* for the whole closing handshake */
};
extern const struct ws_times ws_times_default; /* 30 s, 20 s, 5 s */

struct ws_cb {
        void (*on_message)(void *arg, enum ws_op op, const char *data, size_t len);
        void (*on_room)(void *arg);          /* may be NULL */
        void (*on_end)(void *arg, int code); /* once, last: the close code, 1006 when it broke */
};
/* Does the handshake (the router has checked the headers) and takes the connection over. No
 * callback comes before it returns. Pings are sent and answered here; a peer that shows no sign of
 * life within pong_ms of a ping is gone (1006). When the server drains, the connection is closed
 * with 1001. The request is held until ws_free(). */
int ws_accept(struct req *r, const struct ws_cb *, void *arg, size_t max_message, struct ws **ret,
              struct error *err);
/* The same for a stream whose handshake is done; it is owned from then on. `early` is copied. */
struct ws *ws_attach(struct stream *s, struct slice early, const struct ws_cb *, void *arg,
                     size_t max_message, const struct ws_times *);

/* 1 = room, 0 = full (on_room follows), -1 = dead. The second one shares the bytes. */
int ws_send(struct ws *w, enum ws_op op, const void *data, size_t len);
int ws_send_chunk(struct ws *w, enum ws_op op, struct chunk *data);
/* Messages that were read together with the current one still come after ws_pause(w, true). */
void ws_pause(struct ws *w, bool on);
uint64_t ws_taken(struct ws *w); /* stream_taken() below it */
/* Starts the closing handshake, which takes close_ms at most; on_end follows. No message comes
 * after it. WS_NO_STATUS sends an empty close frame; reason may be NULL. */
void ws_close(struct ws *w, int code, const char *reason);
struct ws *ws_free(struct ws *w); /* now; no callback after it; NULL is fine */
