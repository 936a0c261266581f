#include "http/sse.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "http/req.h"
#include "io/loop.h"
#include "io/timer.h"

/* Bodies up to this size are copied into one piece with their frame: cheaper than three pieces. */
enum { COPY_BYTES = 2048 };

struct sse {
        struct req *req;
        const struct sse_cb *cb;
        void *arg;
        struct timer heartbeat;
        struct task head_only; /* HEAD: the headers are all there is */
        uint32_t every_ms;
        bool is_full, is_told;
};

static int note(struct sse *s, int r)
{
        if (r == 0)
                s->is_full = true;
        if (r >= 0)
                timer_set(&s->heartbeat, s->every_ms);
        return r;
}

static int send_buf(struct sse *s, struct buf *frame)
{
        _cleanup_(chunk_unrefp) struct chunk *c = buf_take_chunk(frame);

        return note(s, reply_write(s->req, c));
}

static void on_heartbeat(struct timer *t)
{
        struct sse *s = CONTAINER_OF(t, struct sse, heartbeat);

        /* A reader that does not keep up needs no further sign of life. */
        if (s->is_full)
                timer_set(t, s->every_ms);
        else
                (void) sse_comment(s, "heartbeat");
}

static void on_room(void *arg)
{
        struct sse *s = arg;

        s->is_full = false;
        if (s->cb->on_room)
                s->cb->on_room(s->arg);
}

static void on_gone(void *arg)
{
        struct sse *s = arg;

        if (s->is_told)
                return;
        s->is_told = true;
        timer_stop(&s->heartbeat);
        task_cancel(&s->head_only);
        s->cb->on_gone(s->arg);
}

static void run_head_only(struct task *t)
{
        on_gone(CONTAINER_OF(t, struct sse, head_only));
}

int sse_open(struct req *r, const struct sse_cb *cb, void *arg, struct sse **ret, struct error *err)
{
        struct sse *s = NEW(struct sse);

        *s = (struct sse) { .req = r, .cb = cb, .arg = arg, .every_ms = SSE_HEARTBEAT_MS };
        task_init(&s->head_only, run_head_only);
        timer_init(&s->heartbeat, req_loop(r), on_heartbeat);
        reply_header(r, "cache-control", "no-cache");
        reply_header(r, "x-accel-buffering", "no");
        req_hold(r, on_gone, s); /* first: the reply to a HEAD is over when it begins */
        if (reply_begin(r, 200, "text/event-stream", -1) < 0) {
                req_release(r);
                free(s);
                return error_set(err, ERR_UPSTREAM, 0, "open event stream: the client is gone");
        }
        req_on_drain(r, on_gone, s);
        reply_on_room(r, on_room, s);
        if (req_is_head(r))
                loop_defer(req_loop(r), &s->head_only);
        else
                timer_set(&s->heartbeat, s->every_ms);
        *ret = s;
        return 0;
}

/* A line ends at \n, \r\n or a lone \r: readers see all three as the end of a line. */
static struct slice next_line(struct slice *rest)
{
        size_t n = 0;
        struct slice line;

        while (n < rest->len && rest->at[n] != '\n' && rest->at[n] != '\r')
                n++;
        line = (struct slice) { rest->at, n };
        if (n == rest->len) {
                *rest = (struct slice) { 0 };
                return line;
        }
        n += rest->at[n] == '\r' && n + 1 < rest->len && rest->at[n + 1] == '\n' ? 2 : 1;
        rest->at += n;
        rest->len -= n;
        return line;
}

static void put_lines(struct buf *out, const char *prefix, struct slice text)
{
        do {
                struct slice line = next_line(&text);

                buf_puts(out, prefix);
                buf_put(out, line.at, line.len);
                buf_putc(out, '\n');
        } while (text.at);
}

void sse_frame_head(struct buf *out, const char *event, uint64_t id)
{
        if (event) {
                buf_puts(out, "event: ");
                buf_puts(out, event);
                buf_putc(out, '\n');
        }
        if (id) {
                buf_puts(out, "id: ");
                buf_putu(out, id);
                buf_putc(out, '\n');
        }
}

void sse_frame(struct buf *out, const char *event, uint64_t id, const char *data, size_t len)
{
        sse_frame_head(out, event, id);
        put_lines(out, "data: ", (struct slice) { data ? data : "", len });
        buf_putc(out, '\n');
}

int sse_send(struct sse *s, const char *event, uint64_t id, const char *data, size_t len)
{
        struct buf frame = { 0 };

        sse_frame(&frame, event, id, data, len);
        return send_buf(s, &frame);
}

int sse_send_chunk(struct sse *s, const char *event, uint64_t id, struct chunk *data)
{
        struct buf frame = { 0 };

        sse_frame_head(&frame, event, id);
        buf_puts(&frame, "data: ");
        if (data->len <= COPY_BYTES) {
                buf_put(&frame, data->data, data->len);
                buf_put(&frame, "\n\n", 2);
                return send_buf(s, &frame);
        }
        if (send_buf(s, &frame) < 0 || reply_write(s->req, data) < 0)
                return -1;
        return note(s, reply_write_bytes(s->req, "\n\n", 2));
}

int sse_comment(struct sse *s, const char *text)
{
        struct buf frame = { 0 };

        put_lines(&frame, ": ", SLICE(text));
        buf_putc(&frame, '\n');
        return send_buf(s, &frame);
}

void sse_set_heartbeat(struct sse *s, uint32_t every_ms)
{
        s->every_ms = every_ms;
        timer_set(&s->heartbeat, every_ms);
}

struct sse *sse_free(struct sse *s)
{
        if (!s)
                return NULL;
        timer_stop(&s->heartbeat);
        task_cancel(&s->head_only);
        reply_on_room(s->req, NULL, NULL);
        req_on_drain(s->req, NULL, NULL);
        if (!req_is_gone(s->req))
                reply_end(s->req);
        req_release(s->req);
        free(s);
        return NULL;
}

static struct slice query_value(struct slice query, const char *name)
{
        struct slice pair, key;

        while (slice_cut(&query, '&', &pair))
                if (slice_cut(&pair, '=', &key) && slice_eq(key, name))
                        return pair;
        return (struct slice) { 0 };
}

int sse_parse_id(struct slice text, const char *what, uint64_t *ret, struct error *err)
{
        text = slice_trim(text);
        *ret = 0;
        if (!text.len || str_to_u64(text.at, text.len, ret))
                return 0;
        return error_set(err, ERR_INVALID, 0, "%s must be a positive integer", what);
}

int sse_last_id(struct req *r, uint64_t *ret, struct error *err)
{
        const char *id = req_header(r, "last-event-id");

        if (id && *id)
                return sse_parse_id(SLICE(id), "Last-Event-ID", ret, err);
        return sse_parse_id(query_value(req_query_text(r), "offset"), "offset", ret, err);
}
