/* The parts of the command line that are plain data in and out: help, pretty JSON, the mirror of
 * the routes. The program as a whole is tested by tests/api/cli.test.mjs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/secret.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/mirror.h"
#include "cli/procfs.h"
#include "cli/registry.h"
#include "client/client.h"
#include "http/route.h"
#include "http/status.h"
#include "test.h"
#include "json/json.h"
#include "json/pretty.h"

/* ---- pretty JSON ---- */

static void expect_pretty(const char *in, const char *want)
{
        _cleanup_(arena_done) struct arena a = {};
        _cleanup_(buf_done) struct buf out = {};
        const struct jval *v;
        struct error err;

        EXPECT_OK(json_parse(&a, in, strlen(in), &v, &err), err);
        pretty_write(&out, v);
        EXPECT_STR(out.data, want);
}

TEST(pretty_sorts_keys_and_indents)
{
        expect_pretty(
                "{\"b\":1,\"a\":[true,{\"z\":null,\"y\":\"q\\\"\\n\"}]}",
                "{\n  \"a\": [\n    true,\n    {\n      \"y\": \"q\\\"\\n\",\n      \"z\": null\n"
                "    }\n  ],\n  \"b\": 1\n}\n");
        expect_pretty("{\"ab\":1,\"a\":2,\"B\":3}",
                      "{\n  \"B\": 3,\n  \"a\": 2,\n  \"ab\": 1\n}\n");
}

TEST(pretty_keeps_numbers_as_written_and_empty_things_short)
{
        expect_pretty("[1.50, 12345678901234567890, 1e400]",
                      "[\n  1.50,\n  12345678901234567890,\n  1e400\n]\n");
        expect_pretty("{\"o\":{},\"a\":[]}", "{\n  \"a\": [],\n  \"o\": {}\n}\n");
        expect_pretty("false", "false\n");
}

TEST(pretty_shows_only_the_last_of_equal_keys)
{
        expect_pretty("{\"a\":1,\"b\":0,\"a\":2}", "{\n  \"a\": 2,\n  \"b\": 0\n}\n");
}

/* ---- the list of commands ---- */

struct query {
        const char *path;
        bool deep;
        struct strv tags;
};
struct body {
        const char *name, *key;
        int64_t max;
        double share;
        bool is_on;
        int mode;
        struct strv items;
        struct pairs env;
        const struct jval *any;
};
static const char *const modes[] = { "slow", "fast", NULL };
static const struct field query_fields[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct query, path), 100, .doc = "where" },
        { "isDeep", F_BOOL, 0, offsetof(struct query, deep), .doc = "deep" },
        { "tag", F_STRV, 0, offsetof(struct query, tags), 10, .doc = "tags" },
        {},
};
static const struct field body_fields[] = {
        { "name", F_STR, F_REQUIRED, offsetof(struct body, name), 100, .doc = "name" },
        { "apiKey", F_STR, F_SECRET, offsetof(struct body, key), 100, .doc = "key" },
        { "maxBytes", F_INT, 0, offsetof(struct body, max), .doc = "max" },
        { "share", F_NUM, 0, offsetof(struct body, share), .doc = "share" },
        { "is_on", F_BOOL, 0, offsetof(struct body, is_on), .doc = "on" },
        { "mode", F_ENUM, 0, offsetof(struct body, mode), .names = modes, .doc = "mode" },
        { "items", F_STRV, 0, offsetof(struct body, items), 10, .doc = "items" },
        { "env", F_MAP, 0, offsetof(struct body, env), 10, .doc = "env" },
        { "any", F_ANY, 0, offsetof(struct body, any), 10, .doc = "any" },
        {},
};
static const struct route routes[] = {
        { "GET", "/v1/health", .cli = "health", .doc = "Tell whether all is well. At once." },
        { "POST", "/v1/a/{id}/b/{rest*}", .query = query_fields, .body = body_fields,
          .cli = "thing make", .doc = "Make a thing." },
        { "GET", "/v1/things", .cli = "thing", .doc = "List things." },
        { "GET", "/v1/acp/{id}", .flags = R_SSE, .cli = "acp stream", .doc = "Events." },
        { "PUT", "/v1/raw", .flags = R_RAW_BODY, .cli = "raw", .doc = "Raw." },
        { "GET", "/v1/ws", .flags = R_WS, .cli = "ws", .doc = "Socket." },
        { "GET", "/v1/quiet", .doc = "No command." },
        {},
};
static const struct route *const tables[] = { routes, NULL };
static const struct cli_env env = { .routes = tables };

TEST(registry_lets_routes_take_over_commands_without_a_function)
{
        struct cli cli;
        size_t before;

        cli_init(&cli, &env);
        EXPECT(cli_find(&cli, "api acp stream") && !cli_find(&cli, "api acp stream")->run);
        EXPECT(!cli_find(&cli, "api health"));
        before = cli.n;
        cli_expand(&cli);
        EXPECT(cli_find(&cli, "api acp stream")->run != NULL);
        EXPECT(cli_find(&cli, "api health") && cli_find(&cli, "api thing"));
        EXPECT(!cli_find(&cli, "api ws"));
        EXPECT_INT(cli.n, before + 4);
        cli_expand(&cli);
        EXPECT_INT(cli.n, before + 4);
        EXPECT(cli_has_group(&cli, "api") && cli_has_group(&cli, "api thing") &&
               !cli_has_group(&cli, "ap"));
        cli_done(&cli);
}

static void expect_sound(const struct command *c)
{
        _cleanup_(arena_done) struct arena a = {};
        struct option_set set = { c->options, c->options_size,
                                  arena_zalloc(&a, c->values_size + 1) };
        struct error err;

        EXPECT(c->summary && *c->summary);
        EXPECT(c->args_min <= c->args_max && (c->args != NULL) == (c->args_max > 0));
        EXPECT_OK(options_preset(&a, &set, &err), err);
        for (size_t k = 0; k < c->options_size; k++) {
                const struct option *row = &c->options[k];

                EXPECT(row->doc && *row->doc);
                EXPECT((row->arg == NULL) == (row->type == OPT_BOOL));
                EXPECT(option_find(&set, row->name, strlen(row->name)) == row);
        }
        options_done(&set);
}

TEST(registry_rows_are_sound)
{
        struct cli cli;

        cli_init(&cli, &env);
        cli_expand(&cli);
        for (size_t i = 0; i < cli.n; i++)
                expect_sound(cli.all[i]);
        cli_done(&cli);
}

TEST(help_of_every_command_has_usage_and_fits_the_screen)
{
        struct cli cli;

        cli_init(&cli, &env);
        cli_expand(&cli);
        for (size_t i = 0; i < cli.n; i++) {
                _cleanup_(buf_done) struct buf out = {};

                help_write(&cli, cli.all[i]->name, &out);
                EXPECT(strstr(out.data, "Usage: sandbox-agent "));
                EXPECT(strstr(out.data, cli.all[i]->name));
                EXPECT(strstr(out.data, "-h, --help"));
                for (const char *at = out.data; *at; at += strcspn(at, "\n") + 1)
                        EXPECT(strcspn(at, "\n") <= 104); /* "…" has three bytes */
        }
        cli_done(&cli);
}

/* ---- the mirror ---- */

struct mirrored {
        struct cli cli;
        struct mirror_slot *slots;
        struct command_ctx ctx;
        struct mirror_call call;
        struct error err;
};

static void mirrored_init(struct mirrored *m, const char *name, const char *const *args)
{
        struct option_set set;

        *m = (struct mirrored) {};
        cli_init(&m->cli, &env);
        cli_expand(&m->cli);
        m->ctx = (struct command_ctx) { .self = cli_find(&m->cli, name), .args = args };
        m->slots = arena_zalloc(&m->cli.arena, m->ctx.self->values_size);
        set = (struct option_set) { m->ctx.self->options, m->ctx.self->options_size, m->slots };
        EXPECT_OK(options_preset(&m->cli.arena, &set, &m->err), m->err);
}

static void mirrored_set(struct mirrored *m, const char *name, const char *text)
{
        const struct option_set set = { m->ctx.self->options, m->ctx.self->options_size, m->slots };
        const struct option *row = option_find(&set, name, strlen(name));

        EXPECT(row != NULL);
        EXPECT_OK(option_assign(&m->cli.arena, row, m->slots, text, "X", &m->err), m->err);
}

static void mirrored_done(struct mirrored *m)
{
        const struct option_set set = { m->ctx.self->options, m->ctx.self->options_size, m->slots };

        options_done(&set);
        mirror_call_done(&m->call);
        cli_done(&m->cli);
}

static const char *const two_words[] = { "a/b c", "x/y z", NULL };

TEST(mirror_makes_words_of_parameters_and_flags_of_fields)
{
        struct mirrored m;

        mirrored_init(&m, "api thing make", two_words);
        EXPECT_STR(m.ctx.self->args, "<ID> <REST>");
        EXPECT_INT(m.ctx.self->args_min, 2);
        EXPECT_STR(m.ctx.self->summary, "Make a thing");
        mirrored_set(&m, "path", "/tmp/ä&b");
        mirrored_set(&m, "is-deep", "false");
        mirrored_set(&m, "tag", "1");
        mirrored_set(&m, "tag", "2");
        mirrored_set(&m, "name", "n\"x");
        mirrored_set(&m, "api-key", "hunter2");
        mirrored_set(&m, "max-bytes", "12345678901234567890");
        mirrored_set(&m, "share", "-0.50");
        mirrored_set(&m, "is-on", "true");
        mirrored_set(&m, "mode", "fast");
        mirrored_set(&m, "items", "i");
        mirrored_set(&m, "env", "A=1=2");
        mirrored_set(&m, "any", "[{}]");
        EXPECT_OK(mirror_plan(&m.ctx, m.slots, &m.call, &m.err), m.err);
        EXPECT_STR(m.call.path.data, "/v1/a/a%2Fb%20c/b/x/y%20z");
        EXPECT_STR(m.call.query.data, "path=%2Ftmp%2F%C3%A4%26b&isDeep=false&tag=1&tag=2");
        EXPECT_STR(m.call.body.data,
                   "{\"name\":\"n\\\"x\",\"apiKey\":\"hunter2\",\"maxBytes\":12345678901234567890,"
                   "\"share\":-0.50,\"is_on\":true,\"mode\":\"fast\",\"items\":[\"i\"],"
                   "\"env\":{\"A\":\"1=2\"},\"any\":[{}]}");
        EXPECT(m.call.has_body);
        mirrored_done(&m);
}

TEST(mirror_leaves_out_what_was_not_given)
{
        struct mirrored m;

        mirrored_init(&m, "api health", NULL);
        EXPECT_OK(mirror_plan(&m.ctx, m.slots, &m.call, &m.err), m.err);
        EXPECT_STR(m.call.path.data, "/v1/health");
        EXPECT_INT(m.call.query.len, 0);
        EXPECT(!m.call.has_body);
        EXPECT_STR(mirror_slot(m.ctx.self, m.slots, "endpoint")->str, CLIENT_ENDPOINT);
        EXPECT(mirror_slot(m.ctx.self, m.slots, "json") == NULL);
        mirrored_done(&m);
}

static void expect_body_refused(const char *flag, const char *text, const char *other,
                                const char *more, enum err_kind kind, const char *msg)
{
        struct mirrored m;

        mirrored_init(&m, "api thing make", two_words);
        if (flag)
                mirrored_set(&m, flag, text);
        if (other)
                mirrored_set(&m, other, more);
        EXPECT(mirror_plan(&m.ctx, m.slots, &m.call, &m.err) < 0);
        EXPECT_STR(m.err.msg, msg);
        EXPECT_INT(m.err.kind, kind);
        mirrored_done(&m);
}

TEST(mirror_refuses_bodies_that_make_no_sense)
{
        expect_body_refused(NULL, NULL, NULL, NULL, ERR_INVALID,
                            "missing payload: provide --json or --json-file");
        expect_body_refused("json", "{}", "json-file", "f", ERR_INVALID,
                            "provide either --json or --json-file, not both");
        expect_body_refused("json", "{}", "name", "n", ERR_USAGE,
                            "provide the body either as JSON or by its flags, not both");
        expect_body_refused("max-bytes", "many", NULL, NULL, ERR_USAGE,
                            "invalid value 'many' for '--max-bytes <NUMBER>': expected a number");
        expect_body_refused("max-bytes", "\"1\"", NULL, NULL, ERR_USAGE,
                            "invalid value '\"1\"' for '--max-bytes <NUMBER>': expected a number");
        expect_body_refused("env", "A", NULL, NULL, ERR_USAGE,
                            "invalid value 'A' for '--env <KEY=VALUE>': expected KEY=VALUE");
        expect_body_refused("any", "{", NULL, NULL, ERR_USAGE,
                            "invalid value '{' for '--any <JSON>': expected JSON");
}

TEST(mirror_offers_what_the_row_can_use)
{
        struct mirrored m;

        mirrored_init(&m, "api acp stream", NULL);
        EXPECT(mirror_slot(m.ctx.self, m.slots, "last-event-id") != NULL);
        mirrored_done(&m);
        mirrored_init(&m, "api raw", NULL);
        EXPECT(mirror_slot(m.ctx.self, m.slots, "file") != NULL);
        EXPECT(mirror_slot(m.ctx.self, m.slots, "last-event-id") == NULL);
        mirrored_done(&m);
}

/* ---- client texts ---- */

TEST(client_refuses_endpoints_that_make_no_sense)
{
        static const char *const bad[] = { "",        "localhost:1", "ftp://x",
                                           "http://", "unix:rel",    "unix:/" };
        struct client *c = NULL;
        struct error err;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                EXPECT_ERR(client_new(bad[i], NULL, &c, &err), ERR_USAGE, err);
        EXPECT(c == NULL);
        EXPECT_OK(client_new("unix:/run/x.sock", NULL, &c, &err), err);
        c = client_free(c);
}

TEST(client_status_has_words)
{
        EXPECT_STR(http_status_text(404), "Not Found");
        EXPECT_STR(http_status_text(799), "Unknown");
}

/* ---- processes ---- */

TEST(procfs_takes_this_program_for_ours_and_others_not)
{
        struct pidref p = { .fd = -1 };

        EXPECT(pidref_open_ours(getpid(), false, &p));
        EXPECT_INT(p.pid, getpid());
        EXPECT(!pidref_wait(&p, 0));
        pidref_done(&p);
        EXPECT(!pidref_open_ours(getpid(), true, &p)); /* no `server` in our arguments */
        EXPECT(!pidref_open_ours(1, false, &p));
        EXPECT(!pidref_open_ours(0, false, &p));
        EXPECT(!pidref_open_ours(-1, false, &p));
        EXPECT_INT(p.fd, -1);
}
