#include "client/ws.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/macro.h"
#include "base/rand.h"
#include "base/str.h"
#include "client/client.h"
#include "http/client.h"
#include "http/status.h"
#include "io/loop.h"
#include "io/timer.h"

enum { KEY_BYTES = 16, PROBLEM_MAX = 1024 * 1024 };

/* ASKING → OPEN → CLOSING (our close frame is out) → OVER (on_end was called, or it was freed).
 * ASKING → REFUSED when the answer is not an upgrade: its body is read first. */
enum client_ws_state { CW_ASKING, CW_REFUSED, CW_OPEN, CW_CLOSING, CW_OVER };

struct client_ws {
        const struct client_ws_cb *cb;
        void *arg;
        struct loop *loop;
        struct http_call *call;
        struct ws_decoder in;
        struct timer timer; /* ping, or the closing handshake */
        struct task reap;
        struct buf problem;
        char key[32];
        struct error why; /* for the end, once the server's close frame told it */
        int status;
        enum client_ws_state state;
        bool has_heard; /* a sign of life since the last ping */
};

static void over(struct client_ws *w, const struct error *why)
{
        if (w->state == CW_OVER)
                return;
        w->state = CW_OVER;
        w->in.is_dead = true;
        timer_stop(&w->timer);
        w->call = http_call_free(w->call);
        w->cb->on_end(w->arg, why);
}

static void broken(struct client_ws *w, enum err_kind kind, const char *why)
{
        struct error err;

        (void) error_set(&err, kind, 0, "%s", why);
        over(w, &err);
}

/* ---- sending ---- */

static int put_frame(struct client_ws *w, enum ws_op op, const void *data, size_t len)
{
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;
        struct buf out = {};
        uint8_t mask[4];

        rand_bytes(mask, sizeof(mask));
        ws_encode(&out, op, data, len, mask);
        c = buf_take_chunk(&out);
        return http_call_write(w->call, c);
}

int client_ws_send(struct client_ws *w, enum ws_op op, const void *data, size_t len)
{
        return w->state == CW_OPEN ? put_frame(w, op, data, len) : -1;
}

void client_ws_close(struct client_ws *w)
{
        static const char normal[] = { WS_NORMAL >> 8, (char) (WS_NORMAL & 0xff) };

        if (w->state != CW_OPEN)
                return;
        (void) put_frame(w, WS_CLOSE, normal, sizeof(normal));
        w->state = CW_CLOSING;
        timer_set(&w->timer, CLIENT_WS_CLOSE_MS);
}

/* ---- hearing ---- */

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct client_ws *w = arg;

        if (w->state == CW_OPEN)
                w->cb->on_message(w->arg, op, data, len);
}

/* The answer leaves before the connection does: the server ends it. */
static void got_close(struct client_ws *w, const char *data, size_t len)
{
        int code = ws_close_code(data, len);

        if (w->state == CW_CLOSING) {
                over(w, NULL);
                return;
        }
        if (code != WS_NORMAL && code != WS_NO_STATUS)
                (void) error_set(&w->why, ERR_UPSTREAM, 0,
                                 "the server closed the connection: %.*s (code %d)",
                                 (int) (len - 2), data + 2, code);
        (void) put_frame(w, WS_CLOSE, data, MIN(len, (size_t) 2));
        w->state = CW_CLOSING;
        w->in.is_dead = true;
        http_call_finish(w->call);
        timer_set(&w->timer, CLIENT_WS_CLOSE_MS);
}

static void on_control(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct client_ws *w = arg;

        if (op == WS_PING && w->state == CW_OPEN)
                (void) put_frame(w, WS_PONG, data, len);
        else if (op == WS_CLOSE && w->state != CW_OVER)
                got_close(w, data, len);
}

static const struct ws_events decoder_events = { on_message, on_control };

static bool is_accepted(const struct client_ws *w)
{
        const char *accept = http_call_header(w->call, "sec-websocket-accept");
        char wanted[29];

        ws_accept_key(w->key, wanted);
        return accept && strcmp(accept, wanted) == 0;
}

static void on_head(void *arg, int status)
{
        struct client_ws *w = arg;

        w->status = status;
        if (status != 101) {
                w->state = CW_REFUSED;
                timer_set(&w->timer, CLIENT_WS_CLOSE_MS);
                return;
        }
        if (!is_accepted(w)) {
                broken(w, ERR_UPSTREAM, "the answer to the WebSocket handshake is wrong");
                return;
        }
        w->state = CW_OPEN;
        w->has_heard = true;
        timer_set(&w->timer, CLIENT_WS_PING_MS);
        w->cb->on_open(w->arg);
}

static void on_data(void *arg, const char *data, size_t len)
{
        struct client_ws *w = arg;

        if (w->state == CW_REFUSED) {
                (void) buf_add(&w->problem, data, len, NULL);
                return;
        }
        w->has_heard = true;
        if (ws_decode(&w->in, data, len, &decoder_events, w))
                broken(w, ERR_UPSTREAM, "the server broke the WebSocket protocol");
}

static void on_room(void *arg)
{
        struct client_ws *w = arg;

        if (w->state == CW_OPEN && w->cb->on_room)
                w->cb->on_room(w->arg);
}

static void refused(struct client_ws *w)
{
        const char *type = http_call_header(w->call, "content-type");
        struct error err;

        (void) error_set(&err, ERR_UPSTREAM, 0, "unexpected http status: %d %s", w->status,
                         http_status_text(w->status));
        if (w->cb->on_refused)
                w->cb->on_refused(w->arg, w->status, type ?: "", w->problem.data ?: "",
                                  w->problem.len);
        over(w, &err);
}

static void closed(struct client_ws *w)
{
        over(w, w->why.kind == ERR_OK ? NULL : &w->why);
}

static void on_end(void *arg, const struct error *why)
{
        struct client_ws *w = arg;

        if (w->state == CW_REFUSED)
                refused(w);
        else if (w->state == CW_CLOSING)
                closed(w);
        else if (why)
                over(w, why);
        else
                broken(w, ERR_UPSTREAM, "the connection was lost");
}

static void on_timer(struct timer *t)
{
        struct client_ws *w = CONTAINER_OF(t, struct client_ws, timer);

        if (w->state == CW_REFUSED) {
                refused(w);
        } else if (w->state == CW_CLOSING) {
                closed(w);
        } else if (!w->has_heard) {
                broken(w, ERR_TIMEOUT, "the server is silent");
        } else {
                w->has_heard = false;
                (void) put_frame(w, WS_PING, NULL, 0);
                timer_set(t, CLIENT_WS_PING_MS);
        }
}

/* ---- opening ---- */

static void make_key(struct client_ws *w)
{
        uint8_t bytes[KEY_BYTES];

        rand_bytes(bytes, sizeof(bytes));
        *base64_encode(w->key, bytes, sizeof(bytes)) = 0;
}

static void run_reap(struct task *t)
{
        struct client_ws *w = CONTAINER_OF(t, struct client_ws, reap);

        ws_decoder_done(&w->in);
        buf_done(&w->problem);
        free(w);
}

int client_ws_open(struct client *c, const char *path, const char *query,
                   const struct client_ws_cb *cb, void *arg, struct client_ws **ret,
                   struct error *err)
{
        static const struct http_call_cb events = { on_head, on_data, on_room, on_end };
        struct client_ws *w = NEW(struct client_ws);
        struct client_request q = { .method = "GET", .path = path, .query = query };

        *w = (struct client_ws) {
                .cb = cb,
                .arg = arg,
                .loop = client_loop(c),
                .in = { .max_message = WS_MESSAGE_MAX },
                .problem = { .max_bytes = PROBLEM_MAX },
        };
        make_key(w);
        q.ws_key = w->key;
        task_init(&w->reap, run_reap);
        timer_init(&w->timer, w->loop, on_timer);
        if (client_start(c, &q, &events, w, &w->call, err) < 0) {
                free(w);
                return -1;
        }
        *ret = w;
        return 0;
}

struct client_ws *client_ws_free(struct client_ws *w)
{
        if (!w)
                return NULL;
        w->state = CW_OVER;
        w->in.is_dead = true;
        timer_stop(&w->timer);
        w->call = http_call_free(w->call);
        loop_defer(w->loop, &w->reap); /* the decoder may be on the stack */
        return NULL;
}
