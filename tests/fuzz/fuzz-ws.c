/* The WebSocket decoder: whatever the bytes are and however they are split, the same messages and
 * the same verdict come out, text is UTF-8, and the ceilings hold.
 *
 * Input: one byte (bit 0: server side, rest: size of the pieces), then the wire. */
#include <assert.h>
#include <stdint.h>

#include "base/str.h"
#include "http/ws.h"

enum { MESSAGE_MAX = 4096 };

struct heard {
        struct buf log;
};

static void put(struct heard *h, enum ws_op op, const char *data, size_t len)
{
        buf_printf(&h->log, "%d %zu ", op, len);
        buf_put(&h->log, data, len);
}

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        assert(op == WS_TEXT || op == WS_BINARY);
        assert(len <= MESSAGE_MAX);
        assert(op != WS_TEXT || utf8_check(data, len) == len);
        put(arg, op, data, len);
}

static void on_control(void *arg, enum ws_op op, const char *data, size_t len)
{
        assert(op == WS_CLOSE || op == WS_PING || op == WS_PONG);
        assert(len <= WS_CONTROL_MAX);
        assert(op != WS_CLOSE || len == 0 || ws_close_code_ok((unsigned) ws_close_code(data, len)));
        put(arg, op, data, len);
}

static int run(const char *data, size_t len, size_t step, bool is_server, struct heard *h)
{
        static const struct ws_events events = { on_message, on_control };
        struct ws_decoder d = { .expect_mask = is_server, .max_message = MESSAGE_MAX };
        int code = 0;

        for (size_t at = 0; at < len && !code; at += step)
                code = ws_decode(&d, data + at, MIN(step, len - at), &events, h);
        assert(!code || d.is_dead);
        assert(code == 0 || code == WS_PROTOCOL || code == WS_BAD_DATA || code == WS_TOO_BIG);
        ws_decoder_done(&d);
        return code;
}

/* What we encode ourselves must come back. */
static void round_trip(const char *data, size_t len)
{
        static const uint8_t mask[4] = { 1, 2, 3, 250 };
        struct heard h = { 0 };
        struct buf wire = { 0 };

        len = MIN(len, (size_t) MESSAGE_MAX);
        ws_encode(&wire, WS_BINARY, data, len, mask);
        assert(run(wire.data, wire.len, 5, true, &h) == 0);
        assert(h.log.len >= len && memcmp(h.log.data + h.log.len - len, data, len) == 0);
        buf_done(&wire);
        buf_done(&h.log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct heard whole = { 0 }, pieces = { 0 };
        const char *wire = (const char *) data + 1;
        bool is_server;
        int code;

        if (size < 2)
                return 0;
        is_server = data[0] & 1;
        code = run(wire, size - 1, size, is_server, &whole);
        assert(code == run(wire, size - 1, 1 + data[0] / 2, is_server, &pieces));
        assert(whole.log.len == pieces.log.len);
        assert(!whole.log.len || memcmp(whole.log.data, pieces.log.data, whole.log.len) == 0);
        round_trip(wire, size - 1);
        buf_done(&whole.log);
        buf_done(&pieces.log);
        return 0;
}
