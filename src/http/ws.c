#include "http/ws.h"

#include <string.h>

#include "base/alloc.h"
#include "http/req.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"

/* OPEN → CLOSING (our close frame is out, theirs is awaited) → FLUSHING (nothing more to say or to
 * hear: what is queued goes out, what arrives is dropped, until the stream ends) → OVER. A close
 * frame of the peer or a violation leads from OPEN straight to FLUSHING. Reading goes on while
 * flushing, since a socket closed with unread bytes is reset and the peer might never see our close
 * frame. */
enum ws_state { ST_OPEN, ST_CLOSING, ST_FLUSHING, ST_OVER };

struct ws {
        struct stream *stream;
        struct req *req; /* held for the server's drain; NULL without a server */
        const struct ws_cb *cb;
        void *arg;
        struct loop *loop;
        const struct ws_times *times;
        struct ws_decoder in;
        struct buf early;   /* came with the request's head */
        struct timer timer; /* ping, pong or closing handshake */
        struct task begin, reap;
        enum ws_state state;
        int code;        /* what on_end will say */
        bool is_paused;  /* by the owner */
        bool is_stuffed; /* the peer sends pings but does not take the pongs */
        bool has_heard;  /* a sign of life since the last ping */
        bool awaits_pong;
};

const struct ws_times ws_times_default = { .ping_ms = 30000, .pong_ms = 20000, .close_ms = 5000 };

static void set_reading(struct ws *w)
{
        bool is_held = w->is_paused || w->is_stuffed || w->early.len;

        stream_pause(w->stream, w->state == ST_OPEN && is_held);
}

static int put_frame(struct ws *w, enum ws_op op, const void *data, size_t len)
{
        uint8_t head[WS_HEAD_MAX];
        size_t n = ws_encode_head(head, op, len, false);
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_new(n + len);

        memcpy(chunk_bytes(c), head, n);
        if (len)
                memcpy(chunk_bytes(c) + n, data, len);
        return stream_write(w->stream, c, NULL);
}

static void put_close(struct ws *w, int code, const char *reason)
{
        char body[WS_CONTROL_MAX];
        size_t n = reason ? MIN(strlen(reason), sizeof(body) - 2) : 0;

        if (code == WS_NO_STATUS) {
                (void) put_frame(w, WS_CLOSE, NULL, 0);
                return;
        }
        /* A reason that is cut must not end inside a character. */
        n = n ? utf8_check(reason, n) : 0;
        body[0] = (char) (code >> 8);
        body[1] = (char) code;
        memcpy(body + 2, reason ? reason : "", n);
        (void) put_frame(w, WS_CLOSE, body, n + 2);
}

static void flush(struct ws *w)
{
        w->state = ST_FLUSHING;
        stream_finish(w->stream);
        set_reading(w);
        timer_set(&w->timer, w->times->close_ms);
}

static void got_ping(struct ws *w, const char *data, size_t len)
{
        if (w->state != ST_OPEN || put_frame(w, WS_PONG, data, len) != 0)
                return;
        w->is_stuffed = true;
        set_reading(w);
}

static void got_close(struct ws *w, const char *data, size_t len)
{
        w->code = ws_close_code(data, len);
        if (w->state == ST_OPEN)
                put_close(w, w->code, NULL);
        flush(w);
}

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct ws *w = arg;

        if (w->state == ST_OPEN)
                w->cb->on_message(w->arg, op, data, len);
}

static void on_control(void *arg, enum ws_op op, const char *data, size_t len)
{
        if (op == WS_PING)
                got_ping(arg, data, len);
        else if (op == WS_CLOSE)
                got_close(arg, data, len);
}

static const struct ws_events decoder_events = { on_message, on_control };

static void on_data(void *arg, const char *data, size_t len)
{
        struct ws *w = arg;
        int code;

        w->has_heard = true;
        if (w->state >= ST_FLUSHING)
                return;
        code = ws_decode(&w->in, data, len, &decoder_events, w);
        if (!code)
                return;
        w->code = code;
        if (w->state == ST_OPEN)
                put_close(w, code, NULL);
        flush(w);
}

static void on_room(void *arg)
{
        struct ws *w = arg;

        w->has_heard = true; /* it reads, slowly perhaps */
        if (w->state != ST_OPEN)
                return;
        w->is_stuffed = false;
        set_reading(w);
        if (w->cb->on_room)
                w->cb->on_room(w->arg);
}

static void on_end(void *arg, const struct error *why)
{
        struct ws *w = arg;

        w->state = ST_OVER;
        timer_stop(&w->timer);
        w->cb->on_end(w->arg, w->code);
}

static const struct stream_sink ws_sink = { .on_data = on_data,
                                            .on_room = on_room,
                                            .on_end = on_end };

static void send_ping(struct ws *w)
{
        (void) put_frame(w, WS_PING, NULL, 0);
        w->has_heard = false;
        w->awaits_pong = true;
        timer_set(&w->timer, w->times->pong_ms);
}

static void on_timer(struct timer *t)
{
        struct ws *w = CONTAINER_OF(t, struct ws, timer);
        bool is_alive =
                w->has_heard || w->is_paused; /* while we do not read, silence says nothing */

        if (w->state != ST_OPEN || (w->awaits_pong && !is_alive)) {
                stream_close(w->stream);
        } else if (w->awaits_pong) {
                w->awaits_pong = false;
                timer_set(t, (int64_t) w->times->ping_ms - w->times->pong_ms);
        } else {
                send_ping(w);
        }
}

static void run_begin(struct task *t)
{
        struct ws *w = CONTAINER_OF(t, struct ws, begin);
        struct buf early = w->early;

        w->early = (struct buf) { 0 };
        on_data(w, early.data, early.len);
        buf_done(&early);
        if (w->stream) /* else a callback freed the connection */
                set_reading(w);
}

/* The decoder may be on the stack when the connection is freed, so its memory goes afterwards. */
static void run_reap(struct task *t)
{
        struct ws *w = CONTAINER_OF(t, struct ws, reap);

        ws_decoder_done(&w->in);
        buf_done(&w->early);
        free(w);
}

struct ws *ws_attach(struct stream *s, struct slice early, const struct ws_cb *cb, void *arg,
                     size_t max_message, const struct ws_times *times)
{
        struct ws *w = NEW(struct ws);

        *w = (struct ws) {
                .stream = s,
                .cb = cb,
                .arg = arg,
                .loop = s->loop,
                .times = times,
                .in = { .expect_mask = true, .max_message = max_message },
                .code = WS_BROKEN,
        };
        task_init(&w->begin, run_begin);
        task_init(&w->reap, run_reap);
        timer_init(&w->timer, w->loop, on_timer);
        timer_set(&w->timer, times->ping_ms);
        if (early.len) {
                buf_put(&w->early, early.at, early.len);
                loop_defer(w->loop, &w->begin);
        }
        set_reading(w);
        stream_set_sink(s, &ws_sink, w);
        return w;
}

static void on_drain(void *arg)
{
        ws_close(arg, WS_GOING_AWAY, "the server is shutting down");
}

/* The drain took too long: no more handshakes. on_end follows. */
static void on_cut(void *arg)
{
        stream_close(((struct ws *) arg)->stream);
}

int ws_accept(struct req *r, const struct ws_cb *cb, void *arg, size_t max_message, struct ws **ret,
              struct error *err)
{
        const char *key = req_header(r, "sec-websocket-key");
        struct slice early = { 0 };
        struct stream *s;
        char accept[29];

        if (!key)
                return error_set(err, ERR_INVALID, 0, "header 'sec-websocket-key' is missing");
        ws_accept_key(key, accept);
        reply_header(r, "sec-websocket-accept", accept);
        req_hold(r, NULL, NULL);
        if (req_upgrade(r, "websocket", &s, &early, err) < 0) {
                req_release(r);
                return -1;
        }
        *ret = ws_attach(s, early, cb, arg, max_message, &ws_times_default);
        (*ret)->req = r;
        req_on_drain(r, on_drain, *ret);
        req_on_gone(r, on_cut, *ret);
        return 0;
}

int ws_send(struct ws *w, enum ws_op op, const void *data, size_t len)
{
        return w->state == ST_OPEN ? put_frame(w, op, data, len) : -1;
}

int ws_send_chunk(struct ws *w, enum ws_op op, struct chunk *data)
{
        uint8_t head[WS_HEAD_MAX];
        size_t n = ws_encode_head(head, op, data->len, false);

        if (w->state != ST_OPEN || stream_write_bytes(w->stream, head, n, NULL) < 0)
                return -1;
        return stream_write(w->stream, data, NULL);
}

uint64_t ws_taken(struct ws *w)
{
        return stream_taken(w->stream);
}

void ws_pause(struct ws *w, bool on)
{
        w->is_paused = on;
        if (w->state == ST_OPEN)
                set_reading(w);
}

void ws_close(struct ws *w, int code, const char *reason)
{
        if (w->state != ST_OPEN)
                return;
        put_close(w, code, reason);
        w->state = ST_CLOSING;
        set_reading(w);
        timer_set(&w->timer, w->times->close_ms);
}

struct ws *ws_free(struct ws *w)
{
        if (!w)
                return NULL;
        w->state = ST_OVER;
        w->in.is_dead = true;
        timer_stop(&w->timer);
        task_cancel(&w->begin);
        w->stream = stream_free(w->stream);
        if (w->req)
                req_release(TAKE_PTR(w->req));
        loop_defer(w->loop, &w->reap);
        return NULL;
}
