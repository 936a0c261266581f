#include "cli/attach.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "cli/answer.h"
#include "cli/tty.h"
#include "client/client.h"
#include "client/source.h"
#include "client/ws.h"
#include "io/loop.h"
#include "json/json.h"
#include "json/write.h"

enum {
        DETACH_KEY = 0x1d, /* ctrl-] */
        END_OF_FILE = 0x04,
        INPUT_BYTES = 16 * 1024, /* of one frame: below what the server takes at once */
        FRAME_MAX = 1024 * 1024,
};

struct attach {
        const struct attach_spec *spec;
        struct client *client;
        struct client_ws *ws;
        struct source *input;
        struct attach_end end;
        struct error why;
        char last; /* byte that was sent */
        bool has_tty;
        bool has_left; /* `end` is known */
        bool has_failed, is_over;
};

static void fail(struct attach *a, const struct error *why)
{
        if (a->is_over)
                return;
        a->has_failed = a->is_over = true;
        a->why = *why;
}

static void leave(struct attach *a, enum attach_how how, int code)
{
        a->end = (struct attach_end) { how, code };
        a->has_left = true;
        a->input = source_free(a->input);
        client_ws_close(a->ws);
}

/* ---- to the server ---- */

static int send_json(struct attach *a, struct buf *b)
{
        int room = client_ws_send(a->ws, WS_TEXT, b->data, b->len);

        buf_done(b);
        return room;
}

static void send_size(struct attach *a)
{
        struct buf b = {};
        struct jw w = { .out = &b };
        uint16_t cols, rows;

        if (!tty_size(STDIN_FILENO, &cols, &rows) && !tty_size(STDOUT_FILENO, &cols, &rows))
                return;
        jw_obj(&w, NULL);
        jw_str(&w, "type", "resize");
        jw_u64(&w, "cols", cols);
        jw_u64(&w, "rows", rows);
        jw_end(&w);
        (void) send_json(a, &b);
}

static int send_input(struct attach *a, const char *data, size_t len)
{
        _cleanup_(buf_done) struct buf text = {};
        struct buf b = {};
        struct jw w = { .out = &b };

        base64_put(&text, data, len);
        a->last = data[len - 1];
        jw_obj(&w, NULL);
        jw_str(&w, "type", "input");
        jw_strn(&w, "data", text.data, text.len);
        jw_str(&w, "encoding", "base64");
        jw_end(&w);
        return send_json(a, &b);
}

static void on_input(void *arg, const char *data, size_t len)
{
        struct attach *a = arg;
        const char *key = a->has_tty ? memchr(data, DETACH_KEY, len) : NULL;
        int room = 1;

        if (key)
                len = (size_t) (key - data);
        for (size_t n; len && room >= 0; data += n, len -= n) {
                n = MIN(len, (size_t) INPUT_BYTES);
                room = send_input(a, data, n);
        }
        if (key)
                leave(a, ATTACH_DETACHED, 0);
        else if (room == 0)
                source_pause(a->input, true);
}

static void on_room(void *arg)
{
        struct attach *a = arg;

        if (a->input)
                source_pause(a->input, false);
}

/* In the middle of a line the first ^D only hands it over. */
static void send_eof(struct attach *a)
{
        static const char twice[] = { END_OF_FILE, END_OF_FILE };

        (void) send_input(a, twice, a->last && a->last != '\n' ? 2 : 1);
}

static void on_input_end(void *arg, const struct error *why)
{
        struct attach *a = arg;

        a->input = source_free(a->input);
        if (why)
                fail(a, why);
        else if (a->spec->sends_eof && !a->has_tty)
                send_eof(a);
        else
                leave(a, ATTACH_DETACHED, 0);
}

/* ---- from the server ---- */

static void got_output(struct attach *a, const char *data, size_t len)
{
        struct error err;

        if (fd_write_all(STDOUT_FILENO, data, len, &err) == 0)
                return;
        (void) error_wrap(&err, "stdout");
        fail(a, &err);
}

static void got_exit(struct attach *a, const struct jval *frame)
{
        int64_t code;

        if (!json_i64(json_get(frame, "exitCode"), &code))
                code = -1;
        a->end = (struct attach_end) { ATTACH_EXITED, (int) code };
        a->is_over = true;
}

static void got_text(struct attach *a, const char *data, size_t len)
{
        _cleanup_(arena_done) struct arena arena = {};
        const struct jval *frame;
        const char *type, *message;

        arena_init(&arena, FRAME_MAX);
        if (json_parse(&arena, data, len, &frame, NULL) < 0)
                return;
        type = json_str(json_get(frame, "type")) ?: "";
        message = json_str(json_get(frame, "message"));
        if (strcmp(type, "exit") == 0) {
                got_exit(a, frame);
        } else if (strcmp(type, "error") == 0 && message) {
                _cleanup_free_ char *line = xasprintf("\r\n[%s]\r\n", message);

                (void) fd_write_all(STDERR_FILENO, line, strlen(line), NULL);
        }
}

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct attach *a = arg;

        if (a->is_over)
                return;
        if (op == WS_BINARY)
                got_output(a, data, len);
        else
                got_text(a, data, len);
}

static void on_open(void *arg)
{
        static const struct source_cb input = { on_input, on_input_end };
        struct attach *a = arg;
        struct error err;

        send_size(a);
        if ((a->has_tty && tty_make_raw(STDIN_FILENO, &err) < 0) ||
            source_new(client_loop(a->client), STDIN_FILENO, &input, a, &a->input, &err) < 0)
                fail(a, &err);
}

static void on_refused(void *arg, int status, const char *type, const char *body, size_t len)
{
        answer_problem(type, body, len);
}

static void on_end(void *arg, const struct error *why)
{
        struct attach *a = arg;
        struct error err;

        a->ws = client_ws_free(a->ws);
        if (!a->has_left) {
                (void) error_set(&err, ERR_UPSTREAM, 0, "the connection was closed");
                fail(a, why ?: &err);
        }
        a->is_over = true;
}

/* ---- signals ---- */

static void on_resized(void *arg, int signum)
{
        struct attach *a = arg;

        if (a->ws)
                send_size(a);
}

/* A shell that had us stopped has set its own modes since. */
static void on_continued(void *arg, int signum)
{
        struct attach *a = arg;

        if (a->has_tty && a->input)
                (void) tty_make_raw(STDIN_FILENO, NULL);
        on_resized(a, signum);
}

static void on_told_to_end(void *arg, int signum)
{
        struct attach *a = arg;

        if (a->is_over)
                return;
        a->end = (struct attach_end) { ATTACH_SIGNALED, signum };
        a->is_over = true;
}

static int watch_signals(struct attach *a, struct error *err)
{
        static const struct {
                int signum;
                void (*fn)(void *arg, int signum);
        } rows[] = {
                { SIGWINCH, on_resized },   { SIGCONT, on_continued },
                { SIGINT, on_told_to_end }, { SIGTERM, on_told_to_end },
                { SIGHUP, on_told_to_end }, { SIGQUIT, on_told_to_end },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (loop_on_signal(client_loop(a->client), rows[i].signum, rows[i].fn, a, err) < 0)
                        return -1;
        return 0;
}

/* ---- all of it ---- */

static int attach_open(struct attach *a, struct error *err)
{
        static const struct client_ws_cb cb = { on_open, on_message, on_room, on_refused, on_end };
        _cleanup_(buf_done) struct buf path = {}, query = {};

        buf_puts(&path, "/v1/processes/");
        client_encode(&path, a->spec->id, "");
        buf_puts(&path, "/terminal/ws");
        if (a->spec->history)
                client_query_add(&query, "history", a->spec->history);
        return client_ws_open(a->client, path.data, query.data, &cb, a, &a->ws, err);
}

int attach_run(struct client *c, const struct attach_spec *spec, struct attach_end *ret,
               struct error *err)
{
        /* The handlers of signals stay as long as the client's loop, so this does, too. */
        static struct attach a;

        a = (struct attach) { .spec = spec, .client = c, .has_tty = isatty(STDIN_FILENO) };
        if (watch_signals(&a, err) < 0 || attach_open(&a, err) < 0)
                return -1;
        (void) loop_run_until(client_loop(c), &a.is_over, -1);
        tty_restore();
        a.input = source_free(a.input);
        a.ws = client_ws_free(a.ws);
        a.is_over = true;
        if (a.has_failed) {
                if (err)
                        *err = a.why;
                return -1;
        }
        *ret = a.end;
        return 0;
}
