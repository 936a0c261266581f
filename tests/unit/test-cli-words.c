/* Fields of a route that may be given as words: paths, and commands with their arguments. */
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/mirror.h"
#include "cli/registry.h"
#include "http/route.h"
#include "test.h"

struct place {
        const char *path;
        bool deep;
};
struct move {
        const char *from, *to;
};
struct program {
        const char *command;
        struct strv args;
        bool tty;
};
static const struct field may_path[] = {
        { "path", F_STR, 0, offsetof(struct place, path), 100, .doc = "where" },
        { "deep", F_BOOL, 0, offsetof(struct place, deep), .doc = "deep" },
        {},
};
static const struct field must_path[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct place, path), 100, .doc = "where" },
        {},
};
static const struct field move_fields[] = {
        { "from", F_STR, F_REQUIRED, offsetof(struct move, from), 100, .doc = "from" },
        { "to", F_STR, F_REQUIRED, offsetof(struct move, to), 100, .doc = "to" },
        {},
};
static const struct field program_fields[] = {
        { "command", F_STR, F_REQUIRED, offsetof(struct program, command), 100, .doc = "program" },
        { "args", F_STRV, 0, offsetof(struct program, args), 100, .doc = "arguments" },
        { "tty", F_BOOL, 0, offsetof(struct program, tty), .doc = "terminal" },
        {},
};
struct typed {
        const struct jval *data;
};
static const struct field typed_fields[] = {
        { "data", F_ANY, 0, offsetof(struct typed, data), .doc = "text" },
        {},
};
static const struct route routes[] = {
        { "GET", "/v1/list", .query = may_path, .cli = "list", .doc = "List." },
        { "PUT", "/v1/write", .flags = R_STREAM_BODY, .query = must_path, .cli = "write",
          .doc = "Write." },
        { "POST", "/v1/move", .body = move_fields, .cli = "move", .doc = "Move." },
        { "POST", "/v1/run", .body = program_fields, .cli = "run", .doc = "Run." },
        { "POST", "/v1/processes/{id}/input", .body = typed_fields, .cli = "processes input",
          .doc = "Type." },
        { "GET", "/v1/x/{id}", .query = must_path, .cli = "x", .doc = "X." },
        {},
};
static const struct route *const tables[] = { routes, NULL };
static const struct cli_env env = { .routes = tables };

struct planned {
        struct cli cli;
        struct command_ctx ctx;
        struct mirror_slot *slots;
        struct mirror_call call;
        struct error err;
};

static void planned_init(struct planned *p, const char *name, const char *const *words)
{
        *p = (struct planned) {};
        cli_init(&p->cli, &env);
        cli_expand(&p->cli);
        p->ctx = (struct command_ctx) { .self = cli_find(&p->cli, name), .args = words };
        while (words[p->ctx.args_size])
                p->ctx.args_size++;
        EXPECT(p->ctx.args_size <= p->ctx.self->args_max);
        p->slots = arena_zalloc(&p->cli.arena, p->ctx.self->values_size);
}

static void planned_set(struct planned *p, const char *name, const char *text)
{
        const struct option_set set = { p->ctx.self->options, p->ctx.self->options_size, p->slots };

        EXPECT_OK(option_assign(&p->cli.arena, option_find(&set, name, strlen(name)), p->slots,
                                text, "X", &p->err),
                  p->err);
}

static void planned_done(struct planned *p)
{
        mirror_call_done(&p->call);
        cli_done(&p->cli);
}

#define WORDS(...)                                                                                 \
        (const char *const[])                                                                      \
        {                                                                                          \
                __VA_ARGS__ __VA_OPT__(, ) NULL                                                    \
        }

static void expect_query(const char *name, const char *const *words, const char *want)
{
        struct planned p;

        planned_init(&p, name, words);
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT_STR(p.call.query.data, want);
        planned_done(&p);
}

static void expect_body(const char *name, const char *const *words, const char *want)
{
        struct planned p;

        planned_init(&p, name, words);
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT_STR(p.call.body.data, want);
        EXPECT(p.call.has_body);
        planned_done(&p);
}

TEST(mirror_takes_a_path_as_a_word)
{
        expect_query("api list", WORDS("/a b"), "path=%2Fa%20b");
        expect_query("api list", WORDS(), NULL);
        expect_query("api write", WORDS("/x"), "path=%2Fx");
        expect_body("api move", WORDS("/a", "/b"), "{\"from\":\"/a\",\"to\":\"/b\"}");
}

TEST(mirror_takes_a_command_as_words)
{
        expect_body("api run", WORDS("ls", "-la", "/"),
                    "{\"command\":\"ls\",\"args\":[\"-la\",\"/\"]}");
        expect_body("api run", WORDS("ls"), "{\"command\":\"ls\"}");
}

TEST(mirror_still_takes_the_flags_of_words)
{
        struct planned p;

        planned_init(&p, "api run", WORDS("ls", "/"));
        planned_set(&p, "tty", "true");
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT_STR(p.call.body.data, "{\"command\":\"ls\",\"args\":[\"/\"],\"tty\":true}");
        planned_done(&p);
        planned_init(&p, "api write", WORDS());
        planned_set(&p, "path", "/x");
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT_STR(p.call.query.data, "path=%2Fx");
        planned_done(&p);
        planned_init(&p, "api move", WORDS("/a"));
        planned_set(&p, "to", "/b");
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT_STR(p.call.body.data, "{\"from\":\"/a\",\"to\":\"/b\"}");
        planned_done(&p);
}

static void expect_refused(const char *name, const char *const *words, const char *flag,
                           const char *msg)
{
        struct planned p;

        planned_init(&p, name, words);
        if (flag)
                planned_set(&p, flag, "{}");
        EXPECT_ERR(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), ERR_USAGE, p.err);
        EXPECT_STR(p.err.msg, msg);
        planned_done(&p);
}

TEST(mirror_refuses_words_that_are_missing_or_doubled)
{
        expect_refused("api write", WORDS(), NULL,
                       "the following required arguments were not provided: <PATH>");
        expect_refused("api move", WORDS("/a"), NULL,
                       "the following required arguments were not provided: <FROM> <TO>");
        expect_refused("api run", WORDS(), NULL,
                       "the following required arguments were not provided: [--] <COMMAND> "
                       "[ARGS]...");
        expect_refused("api write", WORDS("/a"), "path", "'/a' and --path: provide it once");
        expect_refused("api run", WORDS("a", "b"), "args", "'b' and --args: provide it once");
        expect_refused("api run", WORDS("a"), "json",
                       "provide the body either as JSON or by its flags, not both");
}

TEST(mirror_takes_a_whole_body_instead_of_words)
{
        struct planned p;

        planned_init(&p, "api move", WORDS());
        planned_set(&p, "json", "{}");
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT(p.call.has_body);
        planned_done(&p);
}

TEST(mirror_makes_no_words_of_fields_behind_parameters)
{
        struct planned p;

        planned_init(&p, "api x", WORDS("7"));
        EXPECT_STR(p.ctx.self->args, "<ID>");
        EXPECT_INT(p.ctx.self->args_max, 1);
        planned_done(&p);
}

TEST(mirror_takes_what_is_typed_as_text)
{
        struct planned p;

        planned_init(&p, "api processes input", WORDS("p1"));
        planned_set(&p, "data", "12 \"x\"\n");
        EXPECT_OK(mirror_plan(&p.ctx, p.slots, &p.call, &p.err), p.err);
        EXPECT_STR(p.call.path.data, "/v1/processes/p1/input");
        EXPECT_STR(p.call.body.data, "{\"data\":\"12 \\\"x\\\"\\n\"}");
        planned_done(&p);
}

TEST(help_shows_the_words)
{
        static const struct {
                const char *name, *usage;
        } rows[] = {
                { "api list", "Usage: sandbox-agent api list [OPTIONS] [PATH]\n" },
                { "api move", "Usage: sandbox-agent api move [OPTIONS] <FROM> <TO>\n" },
                { "api run", "Usage: sandbox-agent api run [OPTIONS] [--] <COMMAND> [ARGS]...\n" },
                { "api terminal attach",
                  "Usage: sandbox-agent api terminal attach [OPTIONS] <ID>\n" },
        };
        struct cli cli;

        cli_init(&cli, &env);
        cli_expand(&cli);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                _cleanup_(buf_done) struct buf out = {};

                help_usage(&cli, rows[i].name, &out);
                EXPECT_STR(out.data, rows[i].usage);
        }
        cli_done(&cli);
}
