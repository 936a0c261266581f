/* `api …`: calls the server and shows its answer. The commands themselves come from the route rows.
 */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/chunk.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"
#include "cli/mirror.h"
#include "cli/registry.h"
#include "client/client.h"
#include "http/route.h"
#include "http/status.h"
#include "json/json.h"
#include "json/pretty.h"

enum {
        BODY_MAX = 256 * 1024 * 1024,
        PROBLEM_MAX = 1024 * 1024,
        CONNECT_MS = 5000,
        ANSWER_MS = 24 * 60 * 60 * 1000, /* a call may last as long as the agent's turn does */
};

/* ---- showing ---- */

static bool is_json_type(const char *type)
{
        struct slice t = { type, strcspn(type, ";") };

        t = slice_trim(t);
        return slice_ieq(t, "application/json") ||
               (t.len > 5 && memcmp(t.at + t.len - 5, "+json", 5) == 0);
}

/* JSON sorted and indented; everything else, and JSON that is none, byte for byte. */
static int show(int fd, const char *type, const char *body, size_t len, struct error *err)
{
        _cleanup_(arena_done) struct arena a = {};
        _cleanup_(buf_done) struct buf out = {};
        const struct jval *v;

        if (!is_json_type(type) || json_parse(&a, body, len, &v, NULL) < 0)
                return fd_write_all(fd, body, len, err);
        pretty_write(&out, v);
        return fd_write_all(fd, out.data, out.len, err);
}

static bool is_good(int status)
{
        return status >= 200 && status < 300;
}

/* The problem goes to stderr, then the status is the error. */
static int fail(int status, const char *type, const char *body, size_t len, struct error *err)
{
        if (len) {
                (void) show(STDERR_FILENO, type, body, len, NULL);
                if (!is_json_type(type) && body[len - 1] != '\n')
                        (void) fd_write_all(STDERR_FILENO, "\n", 1, NULL);
        }
        return error_set(err, ERR_UPSTREAM, 0, "unexpected http status: %d %s", status,
                         http_status_text(status));
}

static int call(struct client *c, const struct client_request *q, struct error *err)
{
        _cleanup_(http_answer_done) struct http_answer a = {};

        if (client_call(c, q, &a, err) < 0)
                return -1;
        if (!is_good(a.status))
                return fail(a.status, a.type, a.body, a.len, err);
        if (a.status == 202 || a.status == 204)
                return 0;
        return show(STDOUT_FILENO, a.type, a.body, a.len, err);
}

/* ---- streams: bytes as they come ---- */

struct watch {
        int status;
        char type[64];
        struct buf problem;
        struct error *err;
        bool is_broken; /* stdout is gone */
};

static bool watch_head(void *arg, int status, const char *type)
{
        struct watch *w = arg;

        w->status = status;
        memcpy(w->type, type, MIN(strlen(type), sizeof(w->type) - 1));
        return true;
}

static bool watch_data(void *arg, const char *data, size_t len)
{
        struct watch *w = arg;

        if (!is_good(w->status))
                return buf_add(&w->problem, data, len, NULL) >= 0;
        w->is_broken = fd_write_all(STDOUT_FILENO, data, len, w->err) < 0;
        return !w->is_broken;
}

static int stream(struct client *c, const struct client_request *q, struct error *err)
{
        static const struct client_sink sink = { watch_head, watch_data };
        struct watch w = { .problem = { .max_bytes = PROBLEM_MAX }, .err = err };
        int r = client_stream(c, q, &sink, &w, err);

        if (w.is_broken)
                r = error_wrap(err, "stdout");
        else if (r == 0 && !is_good(w.status))
                r = fail(w.status, w.type, w.problem.data ?: "", w.problem.len, err);
        buf_done(&w.problem);
        return r;
}

/* ---- the body ---- */

static int read_input(const char *path, struct buf *ret, struct error *err)
{
        ret->max_bytes = BODY_MAX;
        if (strcmp(path, "-") != 0)
                return file_read(path, ret, err);
        if (fd_read_all(STDIN_FILENO, ret, err) < 0)
                return error_wrap(err, "stdin");
        return 0;
}

/* --json and --json-file must be JSON: a typing mistake is told here, not by the server. */
static int check_json(const struct buf *body, const char *flag, struct error *err)
{
        _cleanup_(arena_done) struct arena a = {};
        const struct jval *v;

        if (json_parse(&a, body->data ?: "", body->len, &v, err) < 0)
                return error_wrap(err, "invalid JSON in --%s", flag);
        return 0;
}

static int take_body(const struct command *c, const struct mirror_slot *slots,
                     struct mirror_call *plan, struct error *err)
{
        const struct mirror_slot *json = mirror_slot(c, slots, "json"),
                                 *json_file = mirror_slot(c, slots, "json-file");
        const struct mirror_slot *file = mirror_slot(c, slots, "file");

        if (json && json->str) {
                buf_clear(&plan->body);
                buf_puts(&plan->body, json->str);
                return check_json(&plan->body, "json", err);
        }
        if (json_file && json_file->str) {
                buf_clear(&plan->body);
                if (read_input(json_file->str, &plan->body, err) < 0)
                        return -1;
                return check_json(&plan->body, "json-file", err);
        }
        if (!file || !file->str)
                return 0;
        buf_clear(&plan->body);
        plan->has_body = true;
        return read_input(file->str, &plan->body, err);
}

/* ---- the command ---- */

static int perform(const struct command_ctx *ctx, const struct mirror_slot *slots,
                   struct mirror_call *plan, struct error *err)
{
        const struct mirror *m = ctx->self->extra;
        const struct mirror_slot *file = mirror_slot(ctx->self, slots, "file");
        const struct mirror_slot *last = mirror_slot(ctx->self, slots, "last-event-id");
        _cleanup_(chunk_unrefp) struct chunk *body = NULL;
        _cleanup_(client_freep) struct client *c = NULL;
        struct client_request q = { .method = m->row->method,
                                    .path = plan->path.data,
                                    .query = plan->query.data };

        if (client_new(mirror_slot(ctx->self, slots, "endpoint")->str, ctx->globals->token, &c,
                       err) < 0)
                return -1;
        client_set_limits(c, CONNECT_MS, ANSWER_MS);
        if (plan->has_body)
                body = chunk_copy(plan->body.data ?: "", plan->body.len);
        q.body = body;
        q.type = file && file->str ? "application/octet-stream" : NULL;
        if (!(m->row->flags & R_SSE))
                return call(c, &q, err);
        q.accept = "text/event-stream";
        q.last_event_id = last ? last->str : NULL;
        return stream(c, &q, err);
}

static int run(const void *values, const struct command_ctx *ctx, struct error *err)
{
        _cleanup_(mirror_call_done) struct mirror_call plan = {};

        if (mirror_plan(ctx, values, &plan, err) < 0 ||
            take_body(ctx->self, values, &plan, err) < 0)
                return -1;
        return perform(ctx, values, &plan, err);
}

void cli_mirror(struct cli *cli, const struct route *const *tables)
{
        for (size_t i = 0; tables[i]; i++)
                for (const struct route *row = tables[i]; row->method; row++) {
                        const struct command *c =
                                row->cli ? mirror_command(&cli->arena, row, run) : NULL;

                        if (c)
                                cli_add(cli, c);
                }
}
