/* A terminal over a WebSocket: bytes of the program as binary frames, everything else as JSON.
 *
 * A viewer is a reader of the process. It pulls while its client takes; when the client does not,
 * the program waits for a while, and what it is not waited for any longer is announced with its
 * size. Input that the program does not take is held back, and with it the client, for the same
 * while. A client that asks but does not read the answers is not heard until it does. */
#include "api/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/processes.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "http/req.h"
#include "http/ws.h"
#include "io/timer.h"
#include "json/write.h"

enum {
        COPY_BYTES = 2048, /* up to this size a copy with its frame's head is the cheaper way */
        FRAME_ARENA_BYTES = 4 * WS_MESSAGE_MAX,
};

struct viewer {
        struct ws *ws;
        struct processes *table;
        struct process_reader *reader;
        struct process_end end;
        size_t skip_bytes;          /* of the first entry: the history begins inside it */
        struct buf held;            /* input that the process has not taken */
        struct process_waiter room; /* while something is held … */
        struct timer patience;      /* … and none of it was taken */
        bool is_full, has_ended;
        bool is_stuffed; /* with answers that the client does not read */
};

static void viewer_free(struct viewer *v)
{
        timer_stop(&v->patience);
        process_unwait(&v->room);
        v->reader = reader_free(v->reader);
        process_end_done(&v->end);
        buf_done(&v->held);
        v->ws = ws_free(v->ws);
        free(v);
}

/* ---- to the client ---- */

static int send_json(struct viewer *v, struct buf *b)
{
        int room = ws_send(v->ws, WS_TEXT, b->data, b->len);

        buf_done(b);
        return room;
}

static void set_reading(struct viewer *v)
{
        ws_pause(v->ws, v->held.len || v->is_stuffed);
}

static void send_ready(struct viewer *v)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "processId", v->end.id);
        jw_str(&w, "type", "ready");
        jw_end(&w);
        (void) send_json(v, &b);
}

static void send_error(struct viewer *v, const char *prefix, const char *message)
{
        struct buf b = { 0 }, text = { 0 };
        struct jw w = { .out = &b };

        buf_printf(&text, "%s%s", prefix, message);
        jw_obj(&w, NULL);
        jw_str(&w, "message", text.data);
        jw_str(&w, "type", "error");
        jw_end(&w);
        buf_done(&text);
        if (send_json(v, &b) == 0)
                v->is_full = v->is_stuffed = true;
        set_reading(v);
}

/* The same words as in a problem body; only a size says it by itself. */
static void send_failure(struct viewer *v, const struct error *err)
{
        send_error(v, err->kind == ERR_TOO_BIG ? "" : err_faces[err->kind].prefix, err->msg);
}

static int send_gap(struct viewer *v, const struct log_gap *g)
{
        struct buf b = { 0 }, text = { 0 };
        struct jw w = { .out = &b };

        buf_printf(&text, "output skipped: %llu bytes in %llu pieces were not read in time",
                   (unsigned long long) g->n_bytes, (unsigned long long) g->n_entries);
        jw_obj(&w, NULL);
        jw_u64(&w, "bytes", g->n_bytes);
        jw_u64(&w, "entries", g->n_entries);
        jw_str(&w, "message", text.data);
        jw_str(&w, "type", "error");
        jw_end(&w);
        buf_done(&text);
        return send_json(v, &b);
}

static void send_exit(struct viewer *v)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        process_end_look(&v->end);
        jw_obj(&w, NULL);
        if (v->end.code >= 0)
                jw_i64(&w, "exitCode", v->end.code);
        else
                jw_null(&w, "exitCode");
        jw_str(&w, "type", "exit");
        jw_end(&w);
        (void) send_json(v, &b);
        v->has_ended = true;
        ws_close(v->ws, WS_NO_STATUS, NULL);
}

static int send_output(struct viewer *v, const struct log_entry *e)
{
        size_t skip = MIN(v->skip_bytes, e->data->len);

        v->skip_bytes = 0;
        if (skip || e->data->len <= COPY_BYTES)
                return ws_send(v->ws, WS_BINARY, e->data->data + skip, e->data->len - skip);
        return ws_send_chunk(v->ws, WS_BINARY, e->data);
}

static void viewer_pump(struct viewer *v)
{
        while (!v->is_full && !v->has_ended) {
                struct log_entry e;
                struct log_gap gap;
                int room = 1;

                switch (reader_next(v->reader, &e, &gap)) {
                case READER_WAIT: return;
                case READER_END: send_exit(v); return;
                case READER_GAP: room = send_gap(v, &gap); break;
                case READER_ENTRY: room = send_output(v, &e); break;
                }
                if (room < 0)
                        return; /* it is closing */
                v->is_full = room == 0;
        }
}

/* ---- from the client ---- */

static int give(struct viewer *v, const void *data, size_t len, struct error *err)
{
        struct process *p;

        if (process_find(v->table, v->end.id, &p, err) < 0)
                return error_set(err, ERR_CONFLICT, 0, "process is not running");
        return process_input(p, data, len, err);
}

/* While something is held: until there is room, but not longer than PROCESS_STALL_MS without any
 * progress. */
static void await_room(struct viewer *v, bool has_moved)
{
        struct process *p;

        process_unwait(&v->room);
        if (has_moved || !v->held.len)
                timer_stop(&v->patience);
        if (v->held.len && process_find(v->table, v->end.id, &p, NULL) == 0)
                process_wait_room(p, &v->room);
        if (v->held.len && !timer_armed(&v->patience))
                timer_set(&v->patience, PROCESS_STALL_MS);
        set_reading(v);
}

static void hold_input(struct viewer *v, struct slice bytes)
{
        bool is_first = !v->held.len;

        buf_put(&v->held, bytes.at, bytes.len);
        if (is_first)
                await_room(v, false);
}

static void drop_held(struct viewer *v, const struct error *why)
{
        struct buf text = { 0 };

        buf_printf(&text, "%zu bytes of input were not delivered: %s", v->held.len, why->msg);
        buf_clear(&v->held);
        send_error(v, err_faces[why->kind].prefix, text.data);
        buf_done(&text);
}

/* Was some of it taken? */
static bool give_held(struct viewer *v, struct error *err)
{
        const size_t max = (size_t) processes_config(v->table)->max_input_bytes;
        const size_t was = v->held.len;

        while (v->held.len) {
                size_t n = MIN(v->held.len, max);

                if (give(v, v->held.data, n, err) < 0)
                        break;
                buf_drop(&v->held, n);
        }
        return v->held.len < was;
}

static void try_again(struct viewer *v, bool is_late)
{
        struct error err = { 0 };
        bool has_moved = give_held(v, &err);

        if (v->held.len && (err.kind != ERR_BUSY || (is_late && !has_moved)))
                drop_held(v, &err);
        await_room(v, has_moved);
}

static void on_input_room(struct process_waiter *w)
{
        try_again(CONTAINER_OF(w, struct viewer, room), false);
}

static void on_late(struct timer *t)
{
        try_again(CONTAINER_OF(t, struct viewer, patience), true);
}

/* Messages that came together with one that had to wait come in spite of the pause: they wait
 * behind it. What was read at once bounds them. */
static int take_input(struct viewer *v, struct slice bytes, struct error *err)
{
        uint64_t max = processes_config(v->table)->max_input_bytes;

        if (bytes.len > max)
                return error_set(err, ERR_TOO_BIG, 0,
                                 "input payload exceeds maxInputBytesPerRequest (%llu)",
                                 (unsigned long long) max);
        if (!v->held.len) {
                if (give(v, bytes.at, bytes.len, err) >= 0)
                        return 0;
                if (err->kind != ERR_BUSY)
                        return -1;
        }
        hold_input(v, bytes);
        return 0;
}

static int got_input(struct viewer *v, const struct terminal_frame *f, struct error *err)
{
        _cleanup_(buf_done) struct buf hold = { 0 };
        struct slice bytes;

        if (process_input_decode(f->encoding, "text", f->data, &hold, &bytes, err) < 0)
                return -1;
        return take_input(v, bytes, err);
}

static int got_resize(struct viewer *v, const struct terminal_frame *f, struct error *err)
{
        struct process *p;

        if (process_find(v->table, v->end.id, &p, err) < 0)
                return -1;
        return process_resize(p, f->cols, f->rows, err);
}

/* From here on nothing is sent, so the program must not wait for this viewer either. */
static void leave(struct viewer *v)
{
        v->reader = reader_free(v->reader);
        v->has_ended = true;
        ws_close(v->ws, WS_NO_STATUS, NULL);
}

static void got_text(struct viewer *v, const char *data, size_t len)
{
        struct terminal_frame f;
        struct error err = { 0 };
        struct arena a;
        int done = 0;

        arena_init(&a, FRAME_ARENA_BYTES);
        if (terminal_frame_parse(&a, data, len, &f, &err) < 0)
                send_error(v, "invalid terminal frame: ", err.msg);
        else if (f.type == TERM_CLOSE)
                leave(v);
        else
                done = f.type == TERM_INPUT ? got_input(v, &f, &err) : got_resize(v, &f, &err);
        if (done < 0)
                send_failure(v, &err);
        arena_done(&a);
}

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        if (op == WS_TEXT)
                got_text(arg, data, len);
        else
                send_error(arg, "", "binary input is not supported; use text JSON frames");
}

static void on_room(void *arg)
{
        struct viewer *v = arg;

        v->is_full = v->is_stuffed = false;
        set_reading(v);
        reader_progress(v->reader);
        viewer_pump(v);
}

static void on_end(void *arg, int code)
{
        viewer_free(arg);
}

static void on_ready(void *arg)
{
        viewer_pump(arg);
}

static uint64_t on_taken(void *arg)
{
        return ws_taken(((struct viewer *) arg)->ws);
}

/* ---- opening ---- */

struct terminal_query {
        const char *history;
};
static const struct field terminal_query[] = {
        { "history", F_STR, 0, offsetof(struct terminal_query, history), 32,
          .doc = "output so far that is shown first: all, or the last so many bytes" },
        { 0 },
};

/* Where the last `bytes` of the output begin: behind entry *ret, and so far into the next one. */
static size_t history_place(struct logring *ring, uint64_t bytes, uint64_t *ret)
{
        uint64_t left = logring_bytes(ring);
        struct log_entry e;
        struct log_gap gap;
        struct logcursor c;
        size_t skip = 0;

        *ret = logring_last(ring);
        if (!bytes)
                return 0;
        logcursor_init(&c, ring, 1u << LOG_PTY, 0, -1);
        for (int item; (item = logcursor_next(&c, &e, &gap));) {
                if (item != 1)
                        continue;
                if (left <= bytes || left - e.data->len < bytes) {
                        skip = left > bytes ? (size_t) (left - bytes) : 0;
                        *ret = e.seq - 1;
                        break;
                }
                left -= e.data->len;
        }
        logcursor_done(&c);
        return skip;
}

static int viewer_open(struct req *r, struct process *p, uint64_t history, struct error *err)
{
        static const struct ws_cb ws_cb = { on_message, on_room, on_end };
        static const struct process_reader_cb reader_cb = { on_ready, on_taken };
        struct viewer *v = NEW(struct viewer);
        uint64_t since;

        if (ws_accept(r, &ws_cb, v, WS_MESSAGE_MAX, &v->ws, err) < 0) {
                free(v);
                return -1;
        }
        v->table = req_processes(r);
        timer_init(&v->patience, req_loop(r), on_late);
        v->room.fn = on_input_room;
        list_init(&v->room.node);
        process_end_watch(&v->end, v->table, p);
        v->skip_bytes = history_place(process_log(p), history, &since);
        v->reader = process_read(p, 1u << LOG_PTY, since, -1, &reader_cb, v);
        send_ready(v);
        viewer_pump(v);
        return 0;
}

static int get_terminal(struct req *r, struct error *err)
{
        const struct terminal_query *q = req_query(r);
        uint64_t history = 0;
        struct process_info i;
        struct process *p;

        if (q->history && terminal_history_parse(q->history, &history, err) < 0)
                return -1;
        if (req_process(r, &p, err) < 0)
                return -1;
        process_info(p, &i);
        if (!i.is_tty)
                return error_set(err, ERR_CONFLICT, 0, "process is not running in tty mode");
        return viewer_open(r, p, history, err);
}

const struct route api_terminal[] = {
        { "GET", "/v1/processes/{id}/terminal/ws", get_terminal, R_WS, .query = terminal_query,
          .query_size = sizeof(struct terminal_query),
          .doc = "A terminal as a WebSocket. Binary frames are output; JSON frames are ready, exit "
                 "and error from the server, input, resize and close from the client." },
        { 0 },
};
