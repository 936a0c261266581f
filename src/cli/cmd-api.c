/* `api …`: calls the server and shows its answer. The commands themselves come from the route rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/chunk.h"
#include "base/fd.h"
#include "base/macro.h"
#include "cli/answer.h"
#include "cli/mirror.h"
#include "cli/registry.h"
#include "client/client.h"
#include "http/route.h"
#include "json/json.h"

enum {
        BODY_MAX = 256 * 1024 * 1024,
        CONNECT_MS = 5000,
        ANSWER_MS = 24 * 60 * 60 * 1000, /* a call may last as long as the agent's turn does */
};

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

static int take_json(const struct command *c, const struct mirror_slot *slots,
                     struct mirror_call *plan, struct error *err)
{
        const struct mirror_slot *json = mirror_slot(c, slots, "json"),
                                 *json_file = mirror_slot(c, slots, "json-file");

        if (json && json->str) {
                buf_clear(&plan->body);
                buf_puts(&plan->body, json->str);
                return check_json(&plan->body, "json", err);
        }
        if (!json_file || !json_file->str)
                return 0;
        buf_clear(&plan->body);
        if (read_input(json_file->str, &plan->body, err) < 0)
                return -1;
        return check_json(&plan->body, "json-file", err);
}

/* The file that is the body; *ret stays -1 for a row that has none. */
static int open_file(const struct mirror_slot *file, bool has_body, int *ret, struct error *err)
{
        if (!file || (has_body && !file->str))
                return 0;
        if (!file->str || strcmp(file->str, "-") == 0)
                *ret = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        else
                *ret = open(file->str, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (*ret < 0)
                return error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno,
                                 "open '%s'", file->str ?: "stdin");
        return 0;
}

/* ---- the command ---- */

static const char *file_type(const struct route *row)
{
        return strcmp(row->cli, "fs upload") == 0 ? "application/x-tar"
                                                  : "application/octet-stream";
}

static struct answer_spec answer_spec(const struct command *c, const struct mirror_slot *slots)
{
        const struct mirror *m = c->extra;
        const struct mirror_slot *output = mirror_slot(c, slots, "output"),
                                 *raw = mirror_slot(c, slots, "raw");
        struct answer_spec spec = { .output = output ? output->str : NULL };

        if (raw && raw->on)
                spec.raw = strcmp(m->row->cli, "processes run") == 0 ? RAW_RUN : RAW_LOGS;
        return spec;
}

static int perform(const struct command_ctx *ctx, const struct mirror_slot *slots,
                   struct mirror_call *plan, struct error *err)
{
        const struct mirror *m = ctx->self->extra;
        const struct answer_spec spec = answer_spec(ctx->self, slots);
        const struct mirror_slot *last = mirror_slot(ctx->self, slots, "last-event-id");
        _cleanup_(chunk_unrefp) struct chunk *body = NULL;
        _cleanup_(client_freep) struct client *c = NULL;
        _cleanup_close_ int file = -1;
        struct client_request q = { .method = m->row->method,
                                    .path = plan->path.data,
                                    .query = plan->query.data };

        if (client_new(mirror_slot(ctx->self, slots, "endpoint")->str, ctx->globals->token, &c,
                       err) < 0 ||
            open_file(mirror_slot(ctx->self, slots, "file"), plan->has_body, &file, err) < 0)
                return -1;
        client_set_limits(c, CONNECT_MS, ANSWER_MS);
        if (plan->has_body && file < 0)
                body = chunk_copy(plan->body.data ?: "", plan->body.len);
        q.body = body;
        q.body_fd = file;
        q.has_body_fd = file >= 0;
        q.type = file >= 0 ? file_type(m->row) : NULL;
        if (m->row->flags & R_SSE)
                q.accept = "text/event-stream";
        q.last_event_id = last ? last->str : NULL;
        return answer_show(c, &q, &spec, err);
}

static int run(const void *values, const struct command_ctx *ctx, struct error *err)
{
        _cleanup_(mirror_call_done) struct mirror_call plan = {};

        if (mirror_plan(ctx, values, &plan, err) < 0 ||
            take_json(ctx->self, values, &plan, err) < 0)
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
