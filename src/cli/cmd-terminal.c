/* `api terminal …`: the user's terminal becomes one of the server's. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "cli/answer.h"
#include "cli/attach.h"
#include "cli/registry.h"
#include "cli/tty.h"
#include "client/client.h"
#include "client/events.h"
#include "http/status.h"
#include "json/json.h"
#include "json/write.h"

enum { CONNECT_MS = 5000, ANSWER_MS = 60 * 1000, EXIT_SIGNAL = 128 };

struct values {
        const char *endpoint, *history, *cwd;
        struct option_list env;
};
#define AT(member) offsetof(struct values, member)
#define ENDPOINT                                                                                   \
        {                                                                                          \
                "endpoint", 'e', OPT_STR, AT(endpoint),                                            \
                        .env = "SANDBOX_AGENT_ENDPOINT", .preset = CLIENT_ENDPOINT, .arg = "URL",  \
                        .doc = "server to talk to: http://…, https://… or unix:/path"          \
        }

static const struct option attach_rows[] = {
        ENDPOINT,
        { "history", 0, OPT_STR, AT(history), .arg = "BYTES", .flags = OPT_NO_FILE,
          .doc = "output so far that is shown first: all, or the last so many bytes" },
};
static const struct option open_rows[] = {
        ENDPOINT,
        { "cwd", 0, OPT_STR, AT(cwd), .arg = "DIR", .flags = OPT_NO_FILE,
          .doc = "directory to run in; the server's own when absent" },
        { "env", 0, OPT_LIST, AT(env), .arg = "KEY=VALUE", .flags = OPT_NO_FILE,
          .doc = "variable on top of the server's environment" },
};

/* ---- calls ---- */

static int connect_client(const struct values *v, const struct command_ctx *ctx,
                          struct client **ret, struct error *err)
{
        if (client_new(v->endpoint, ctx->globals->token, ret, err) < 0)
                return -1;
        client_set_limits(*ret, CONNECT_MS, ANSWER_MS);
        return 0;
}

static int call(struct client *c, const struct client_request *q, struct http_answer *ret,
                struct error *err)
{
        if (client_call(c, q, ret, err) < 0)
                return -1;
        if (ret->status >= 200 && ret->status < 300)
                return 0;
        answer_problem(ret->type, ret->body, ret->len);
        return error_set(err, ERR_UPSTREAM, 0, "unexpected http status: %d %s", ret->status,
                         http_status_text(ret->status));
}

static char *process_path(const char *id, const char *behind)
{
        struct buf b = {};

        buf_puts(&b, "/v1/processes/");
        client_encode(&b, id, "");
        buf_puts(&b, behind);
        return buf_take(&b);
}

/* ---- how it ended ---- */

struct signal_search {
        struct events events;
        int64_t signum;
};

static bool search_event(void *arg, const struct client_event *e)
{
        _cleanup_(arena_done) struct arena arena = {};
        struct signal_search *s = arg;
        const struct jval *v;

        if (strcmp(e->name, "end") != 0)
                return true;
        if (json_parse(&arena, e->data.at, e->data.len, &v, NULL) == 0)
                (void) json_i64(json_get(v, "signal"), &s->signum);
        return false;
}

static bool search_head(void *arg, int status, const char *type)
{
        return status == 200;
}

static bool search_data(void *arg, const char *data, size_t len)
{
        struct signal_search *s = arg;

        return events_feed(&s->events, data, len, search_event, s, NULL) == 0 && !s->events.is_over;
}

/* The terminal does not tell which signal it was; the end of the log does. */
static int signal_of(struct client *c, const char *id)
{
        static const struct client_sink sink = { search_head, search_data };
        _cleanup_free_ char *path = process_path(id, "/logs");
        const struct client_request q = { .method = "GET",
                                          .path = path,
                                          .query = "follow=true&tail=0" };
        struct signal_search s = {};

        (void) client_stream(c, &q, &sink, &s, NULL);
        events_done(&s.events);
        return (int) (s.signum & 0x7f);
}

static int exit_status(struct client *c, const char *id, const struct attach_end *end)
{
        switch (end->how) {
        case ATTACH_DETACHED: return 0;
        case ATTACH_SIGNALED: return EXIT_SIGNAL + end->code;
        case ATTACH_EXITED: break;
        }
        return end->code >= 0 ? end->code & 0xff : EXIT_SIGNAL + signal_of(c, id);
}

/* Says where the process can be found again. */
static void tell_left(const char *id)
{
        _cleanup_free_ char *line = xasprintf("\n[detached from %s]\n", id);

        (void) fd_write_all(STDERR_FILENO, line, strlen(line), NULL);
}

static int attach(struct client *c, const struct attach_spec *spec, struct attach_end *ret,
                  struct error *err)
{
        if (attach_run(c, spec, ret, err) < 0)
                return error_wrap(err, "terminal of '%s'", spec->id);
        if (ret->how != ATTACH_EXITED)
                tell_left(spec->id);
        return 0;
}

/* ---- attach ---- */

static int run_attach(const void *values, const struct command_ctx *ctx, struct error *err)
{
        const struct values *v = values;
        const struct attach_spec spec = { .id = ctx->args[0], .history = v->history };
        _cleanup_(client_freep) struct client *c = NULL;
        struct attach_end end;

        if (connect_client(v, ctx, &c, err) < 0 || attach(c, &spec, &end, err) < 0)
                return -1;
        return exit_status(c, spec.id, &end);
}

/* ---- open ---- */

static void put_env(struct jw *w, const struct option_list *env)
{
        const char *term = isatty(STDIN_FILENO) ? getenv("TERM") : NULL;

        jw_obj(w, "env");
        if (term)
                jw_str(w, "TERM", term); /* of two equal names the last counts */
        for (size_t i = 0; i < env->n; i++) {
                size_t len = strcspn(env->at[i], "=");
                _cleanup_free_ char *name = xstrndup(env->at[i], len);

                jw_str(w, name, env->at[i][len] ? env->at[i] + len + 1 : "");
        }
        jw_end(w);
}

/* Without words it is the shell of the server's user. */
static void put_command(struct jw *w, const struct command_ctx *ctx)
{
        static const char *const shell[] = { "sh", "-c", "exec \"${SHELL:-/bin/sh}\"" };
        const char *const *words = ctx->args_size ? ctx->args : shell;
        size_t n = ctx->args_size ? ctx->args_size : ARRAY_LEN(shell);

        jw_str(w, "command", words[0]);
        jw_arr(w, "args");
        for (size_t i = 1; i < n; i++)
                jw_str(w, NULL, words[i]);
        jw_end(w);
}

static struct chunk *open_body(const struct values *v, const struct command_ctx *ctx)
{
        struct buf b = {};
        struct jw w = { .out = &b };
        uint16_t cols, rows;

        jw_obj(&w, NULL);
        put_command(&w, ctx);
        if (v->cwd)
                jw_str(&w, "cwd", v->cwd);
        put_env(&w, &v->env);
        jw_bool(&w, "tty", true);
        jw_bool(&w, "interactive", true);
        if (tty_size(STDIN_FILENO, &cols, &rows) || tty_size(STDOUT_FILENO, &cols, &rows)) {
                jw_u64(&w, "cols", cols);
                jw_u64(&w, "rows", rows);
        }
        jw_end(&w);
        return buf_take_chunk(&b);
}

static int open_process(struct client *c, const struct values *v, const struct command_ctx *ctx,
                        char **ret_id, struct error *err)
{
        _cleanup_(http_answer_done) struct http_answer answer = {};
        _cleanup_(chunk_unrefp) struct chunk *body = open_body(v, ctx);
        _cleanup_(arena_done) struct arena arena = {};
        const struct client_request q = { .method = "POST", .path = "/v1/processes", .body = body };
        const struct jval *process;
        const char *id;

        if (call(c, &q, &answer, err) < 0)
                return -1;
        if (json_parse(&arena, answer.body, answer.len, &process, err) < 0)
                return error_wrap(err, "POST /v1/processes");
        id = json_str(json_get(process, "id"));
        if (!id)
                return error_set(err, ERR_UPSTREAM, 0, "POST /v1/processes: no id in the answer");
        *ret_id = xstrdup(id);
        return 0;
}

static int delete_process(struct client *c, const char *id, struct error *err)
{
        _cleanup_free_ char *path = process_path(id, "");
        _cleanup_(http_answer_done) struct http_answer answer = {};
        const struct client_request q = { .method = "DELETE", .path = path };

        return call(c, &q, &answer, err);
}

static int check_env(const struct option_list *env, struct error *err)
{
        for (size_t i = 0; i < env->n; i++)
                if (!strchr(env->at[i], '='))
                        return error_set(err, ERR_USAGE, 0,
                                         "invalid value '%.64s' for '--env <KEY=VALUE>': expected "
                                         "KEY=VALUE",
                                         env->at[i]);
        return 0;
}

static int run_open(const void *values, const struct command_ctx *ctx, struct error *err)
{
        const struct values *v = values;
        struct attach_spec spec = { .history = "all", .sends_eof = true };
        _cleanup_(client_freep) struct client *c = NULL;
        _cleanup_free_ char *id = NULL;
        struct attach_end end;
        int status;

        if (check_env(&v->env, err) < 0 || connect_client(v, ctx, &c, err) < 0 ||
            open_process(c, v, ctx, &id, err) < 0)
                return -1;
        spec.id = id;
        if (attach(c, &spec, &end, err) < 0)
                return -1;
        status = exit_status(c, id, &end);
        if (end.how == ATTACH_EXITED && delete_process(c, id, err) < 0)
                return -1;
        return status;
}

#define KEYS                                                                                       \
        "Ctrl-] detaches and leaves the process running. The exit status is that of the process, " \
        "128 and the number when a signal ended it, 0 after detaching. "

const struct command cmd_terminal_attach = {
        .name = "api terminal attach",
        .args = "<ID>",
        .args_min = 1,
        .args_max = 1,
        .summary = "Attach to the terminal of a process",
        .doc = KEYS "The end of a stdin that is no terminal detaches.",
        .options = attach_rows,
        .options_size = ARRAY_LEN(attach_rows),
        .values_size = sizeof(struct values),
        .run = run_attach,
};

const struct command cmd_terminal_open = {
        .name = "api terminal open",
        .args = "[--] [COMMAND] [ARGS]...",
        .args_max = UINT_MAX,
        .summary = "Start a process in a terminal and attach to it",
        .doc = KEYS "Without a command it is the shell of the server's user. The record of the "
                    "process goes when it has ended. The end of a stdin that is no terminal is "
                    "passed on as Ctrl-D.",
        .options = open_rows,
        .options_size = ARRAY_LEN(open_rows),
        .values_size = sizeof(struct values),
        .run = run_open,
};
