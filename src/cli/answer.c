#include "cli/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"
#include "client/client.h"
#include "client/events.h"
#include "http/status.h"
#include "json/json.h"
#include "json/pretty.h"
#include "json/write.h"

enum {
        PROBLEM_MAX = 1024 * 1024,
        EXIT_TIMED_OUT = 124, /* as timeout(1) has it */
        EXIT_SIGNAL = 128,
};

enum answer_form {
        FORM_NOTHING, /* no content */
        FORM_PROBLEM,
        FORM_WHOLE, /* JSON: read to its end, then shown */
        FORM_EVENTS,
        FORM_BYTES,
};

struct answer {
        const struct answer_spec *spec;
        enum answer_form form;
        int status, result; /* HTTP status; exit status */
        char type[64];
        struct buf body; /* PROBLEM, WHOLE */
        struct events events;
        char *path, *temp; /* --output; temp NULL = written in place */
        int fd;
        struct error why;
        bool has_failed, has_begun, has_ended;
};

static bool has_type(const char *type, const char *name)
{
        struct slice t = { type, strcspn(type, ";") };

        return slice_ieq(slice_trim(t), name);
}

static bool is_json_type(const char *type)
{
        struct slice t = { type, strcspn(type, ";") };

        t = slice_trim(t);
        return slice_ieq(t, "application/json") ||
               (t.len > 5 && memcmp(t.at + t.len - 5, "+json", 5) == 0);
}

/* JSON sorted and indented; everything else, and JSON that is none, byte for byte. */
static int show_json(int fd, const char *type, const char *body, size_t len, struct error *err)
{
        _cleanup_(arena_done) struct arena a = {};
        _cleanup_(buf_done) struct buf out = {};
        const struct jval *v;

        if (!is_json_type(type) || json_parse(&a, body, len, &v, NULL) < 0)
                return fd_write_all(fd, body, len, err);
        pretty_write(&out, v);
        return fd_write_all(fd, out.data, out.len, err);
}

void answer_problem(const char *type, const char *body, size_t len)
{
        if (!len)
                return;
        (void) show_json(STDERR_FILENO, type, body, len, NULL);
        if (!is_json_type(type) && body[len - 1] != '\n')
                (void) fd_write_all(STDERR_FILENO, "\n", 1, NULL);
}

/* ---- where it goes ---- */

/* A file is replaced as a whole, with its mode; what is no file (a pipe, a device) is written to.
 */
static int output_open(struct answer *a)
{
        const char *path = a->spec->output;
        struct stat st = { .st_mode = S_IFREG | 0666 };

        if (!path || strcmp(path, "-") == 0)
                return 0;
        a->path = realpath(path, NULL) ?: xstrdup(path);
        if (stat(a->path, &st) < 0 || S_ISREG(st.st_mode))
                a->temp = xasprintf("%s.%d.tmp", a->path, (int) getpid());
        a->fd = open(a->temp ?: a->path,
                     O_WRONLY | O_CLOEXEC | O_NOCTTY | (a->temp ? O_CREAT | O_EXCL : 0),
                     st.st_mode & 0777);
        if (a->fd < 0)
                return error_set(&a->why, ERR_SYSTEM, errno, "create '%s'", a->temp ?: a->path);
        return 0;
}

static int output_commit(struct answer *a, struct error *err)
{
        if (!a->path || a->fd < 0)
                return 0;
        if (close(TAKE_FD(a->fd)) < 0 || (a->temp && rename(a->temp, a->path) < 0))
                return error_set(err, ERR_SYSTEM, errno, "write '%s'", a->path);
        free(TAKE_PTR(a->temp));
        return 0;
}

static void answer_done(struct answer *a)
{
        if (a->path && a->fd >= 0)
                (void) close(a->fd);
        if (a->temp)
                (void) unlink(a->temp);
        free(a->path);
        free(a->temp);
        buf_done(&a->body);
        events_done(&a->events);
}

static int put(struct answer *a, int fd, const void *data, size_t len)
{
        if (fd_write_all(fd, data, len, &a->why) == 0)
                return 0;
        a->has_failed = true;
        return error_wrap(&a->why, "%s", a->path && fd == a->fd ? a->path : "stdout");
}

/* ---- the output of programs ---- */

/* {"stream":…,"data":…,"encoding":"base64"}: each stream where it belongs. */
static int put_entry(struct answer *a, const struct jval *entry)
{
        _cleanup_(buf_done) struct buf bytes = {};
        const char *data = json_str(json_get(entry, "data")),
                   *stream = json_str(json_get(entry, "stream")),
                   *encoding = json_str(json_get(entry, "encoding"));
        int fd = stream && strcmp(stream, "stderr") == 0 ? STDERR_FILENO : a->fd;

        if (!data)
                return 0;
        if (!encoding || strcmp(encoding, "base64") != 0)
                return put(a, fd, data, strlen(data));
        if (base64_decode(SLICE(data), &bytes, NULL, &a->why) < 0) {
                a->has_failed = true;
                return -1;
        }
        return put(a, fd, bytes.data ?: "", bytes.len);
}

static void put_gap(const struct jval *gap)
{
        _cleanup_(buf_done) struct buf line = {};
        uint64_t bytes = 0;

        (void) json_u64(json_get(gap, "bytes"), &bytes);
        buf_printf(&line, "[%llu bytes are no longer there]\n", (unsigned long long) bytes);
        (void) fd_write_all(STDERR_FILENO, line.data, line.len, NULL);
}

static bool raw_event(struct answer *a, const struct client_event *e)
{
        _cleanup_(arena_done) struct arena arena = {};
        const struct jval *v;

        if (strcmp(e->name, "end") == 0) {
                a->has_ended = true;
                return false;
        }
        if (json_parse(&arena, e->data.at, e->data.len, &v, &a->why) < 0) {
                a->has_failed = true;
                return false;
        }
        if (strcmp(e->name, "gap") == 0)
                put_gap(v);
        else if (put_entry(a, v) < 0)
                return false;
        return true;
}

static int raw_logs(struct answer *a, const struct jval *page)
{
        const struct jval *entries = json_get(page, "entries");

        for (uint32_t i = 0; entries && entries->type == J_ARR && i < entries->n; i++)
                if (put_entry(a, &entries->kids[i]) < 0)
                        return -1;
        return 0;
}

static int raw_text(struct answer *a, int fd, const struct jval *text)
{
        return text && text->type == J_STR ? put(a, fd, text->text.at, text->text.len) : 0;
}

static int raw_run(struct answer *a, const struct jval *result)
{
        const struct jval *timed_out = json_get(result, "timedOut");
        int64_t code;

        if (raw_text(a, STDERR_FILENO, json_get(result, "stderr")) < 0 ||
            raw_text(a, a->fd, json_get(result, "stdout")) < 0)
                return -1;
        if (json_i64(json_get(result, "exitCode"), &code))
                a->result = (int) (code & 0xff);
        else
                a->result = timed_out && timed_out->type == J_TRUE ? EXIT_TIMED_OUT : EXIT_SIGNAL;
        return 0;
}

static int show_whole(struct answer *a)
{
        _cleanup_(arena_done) struct arena arena = {};
        const struct jval *v;

        if (a->spec->raw == RAW_NO) {
                if (show_json(a->fd, a->type, a->body.data ?: "", a->body.len, &a->why) < 0)
                        return error_wrap(&a->why, "%s", a->path ?: "stdout");
                return 0;
        }
        if (json_parse(&arena, a->body.data ?: "", a->body.len, &v, &a->why) < 0)
                return error_wrap(&a->why, "the answer");
        return a->spec->raw == RAW_LOGS ? raw_logs(a, v) : raw_run(a, v);
}

/* ---- events ---- */

static void event_line(const struct client_event *e, struct buf *out)
{
        _cleanup_(arena_done) struct arena arena = {};
        struct jw w = { .out = out };
        const struct jval *v;
        uint64_t id;

        jw_obj(&w, NULL);
        if (*e->name)
                jw_str(&w, "event", e->name);
        if (str_to_u64(e->id, strlen(e->id), &id))
                jw_u64(&w, "id", id);
        else if (*e->id)
                jw_str(&w, "id", e->id);
        if (json_parse(&arena, e->data.at, e->data.len, &v, NULL) == 0)
                jw_val(&w, "data", v);
        else
                jw_strn(&w, "data", e->data.at, e->data.len);
        jw_end(&w);
        buf_putc(out, '\n');
}

static bool on_event(void *arg, const struct client_event *e)
{
        struct answer *a = arg;
        _cleanup_(buf_done) struct buf line = {};

        if (a->spec->raw == RAW_LOGS)
                return raw_event(a, e);
        event_line(e, &line);
        return put(a, a->fd, line.data, line.len) == 0;
}

/* ---- as it comes ---- */

static enum answer_form form_of(int status, const char *type)
{
        if (status < 200 || status >= 300)
                return FORM_PROBLEM;
        if (status == 202 || status == 204)
                return FORM_NOTHING;
        if (has_type(type, "text/event-stream"))
                return FORM_EVENTS;
        return is_json_type(type) ? FORM_WHOLE : FORM_BYTES;
}

static bool on_head(void *arg, int status, const char *type)
{
        struct answer *a = arg;

        a->status = status;
        (void) snprintf(a->type, sizeof(a->type), "%s", type);
        a->form = form_of(status, type);
        a->body.max_bytes = a->form == FORM_PROBLEM ? PROBLEM_MAX : CLIENT_ANSWER_MAX;
        a->has_failed = a->form != FORM_PROBLEM && output_open(a) < 0;
        return !a->has_failed;
}

/* A terminal does strange things with what is not text; the first piece shows it. */
static bool is_unfit(struct answer *a, const char *data, size_t len)
{
        bool is_first = !a->has_begun;

        a->has_begun = true;
        if (!is_first || a->spec->output || !isatty(STDOUT_FILENO) || !memchr(data, 0, len))
                return false;
        a->has_failed = true;
        (void) error_set(&a->why, ERR_INVALID, 0,
                         "the answer is binary: use --output FILE, or --output - to print it");
        return true;
}

static bool on_data(void *arg, const char *data, size_t len)
{
        struct answer *a = arg;

        switch (a->form) {
        case FORM_NOTHING: return true;
        case FORM_PROBLEM: return buf_add(&a->body, data, len, NULL) >= 0;
        case FORM_WHOLE: a->has_failed = buf_add(&a->body, data, len, &a->why) < 0; break;
        case FORM_BYTES: return !is_unfit(a, data, len) && put(a, a->fd, data, len) == 0;
        case FORM_EVENTS:
                if (events_feed(&a->events, data, len, on_event, a, &a->why) < 0)
                        a->has_failed = true;
                return !a->has_failed && !a->has_ended;
        }
        return !a->has_failed;
}

/* ---- the end ---- */

static int finish(struct answer *a, struct error *err)
{
        if (a->form == FORM_PROBLEM) {
                answer_problem(a->type, a->body.data ?: "", a->body.len);
                return error_set(err, ERR_UPSTREAM, 0, "unexpected http status: %d %s", a->status,
                                 http_status_text(a->status));
        }
        if (a->form == FORM_WHOLE && !a->has_failed && show_whole(a) < 0)
                a->has_failed = true;
        if (a->form == FORM_EVENTS && a->spec->raw == RAW_LOGS && !a->has_failed && !a->has_ended) {
                a->has_failed = true;
                (void) error_set(&a->why, ERR_UPSTREAM, 0,
                                 "the server ended the stream before the process ended");
        }
        if (a->has_failed) {
                if (err)
                        *err = a->why;
                return -1;
        }
        return output_commit(a, err) < 0 ? -1 : a->result;
}

int answer_show(struct client *c, const struct client_request *q, const struct answer_spec *spec,
                struct error *err)
{
        static const struct client_sink sink = { on_head, on_data };
        _cleanup_(answer_done) struct answer a = { .spec = spec, .fd = STDOUT_FILENO };

        if (client_stream(c, q, &sink, &a, err) < 0)
                return -1;
        return finish(&a, err);
}
