#include "base/option.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/secret.h"
#include "base/str.h"
#include "test.h"

enum { ARGS_MAX = 12, ARG_BYTES = 64 };

struct sample {
        const char *host;
        uint64_t port, wait_ms, count;
        struct secret *token;
        bool is_open, has_quiet, has_open;
        int role;
        struct option_list origins;
        bool quiet;
};
#define AT(field) offsetof(struct sample, field)

static const char *const roles[] = { "both", "guest", "host", NULL };
static const struct option rows[] = {
        { "host", 'H', OPT_STR, AT(host), "SA_TEST_HOST", "127.0.0.1", .arg = "HOST" },
        { "port", 'p', OPT_UINT, AT(port), "SA_TEST_PORT", "2468", .min = 1, .max = 65535,
          .arg = "PORT" },
        { "wait", 'w', OPT_MS, AT(wait_ms), .preset = "5s", .min = 10, .max = 3600000,
          .arg = "TIME" },
        { "count", 0, OPT_UINT, AT(count), .min = 2, .arg = "N" },
        { "token", 't', OPT_SECRET, AT(token), "SA_TEST_TOKEN", .arg = "TOKEN" },
        { "open", 'n', OPT_BOOL, AT(is_open), "SA_TEST_OPEN", .has_offset = AT(has_open) },
        { "quiet", 'q', OPT_BOOL, AT(quiet), .preset = "true", .has_offset = AT(has_quiet) },
        { "role", 'r', OPT_ENUM, AT(role), "SA_TEST_ROLE", "both", .names = roles, .arg = "ROLE" },
        { "origin", 'O', OPT_LIST, AT(origins), "SA_TEST_ORIGIN", .arg = "ORIGIN" },
        { "only-flag", 0, OPT_STR, AT(host), .flags = OPT_NO_FILE, .arg = "X" },
};

/* One command line with its own copy of argv, since secrets are overwritten in it. */
struct fixture {
        struct arena arena;
        struct sample v;
        struct option_set set;
        struct option_scan scan;
        char text[ARGS_MAX][ARG_BYTES];
        char *argv[ARGS_MAX + 1];
        struct error err;
};

static void fixture_init(struct fixture *f, const char *const *args)
{
        int n = 0;

        *f = (struct fixture) {};
        arena_init(&f->arena, 0);
        for (; args && args[n]; n++) {
                (void) snprintf(f->text[n], ARG_BYTES, "%s", args[n]);
                f->argv[n] = f->text[n];
        }
        f->set = (struct option_set) { rows, ARRAY_LEN(rows), &f->v };
        f->scan = (struct option_scan) { .arena = &f->arena, .argv = f->argv, .argc = n };
}
#define ARGS(...) ((const char *const[]) { __VA_ARGS__ __VA_OPT__(, ) NULL })

static void fixture_done(struct fixture *f)
{
        options_done(&f->set);
        arena_done(&f->arena);
}

/* Takes flags until a plain word, then assigns them. */
static int scan_all(struct fixture *f)
{
        int r;

        while ((r = option_scan_next(&f->scan, &f->set, 1, &f->err)) == 1)
                ;
        return r < 0 ? -1 : option_scan_apply(&f->scan, &f->err);
}

static int parse_file(struct fixture *f, const char *text, struct option_file *ret)
{
        char *copy = arena_strdup(&f->arena, text);

        if (option_file_parse(&f->arena, "conf", copy, ret, &f->err) < 0)
                return -1;
        if (option_file_check(ret, &f->set, 1, &f->err) < 0)
                return -1;
        return option_file_apply(&f->arena, ret, &f->set, &f->err);
}

/* ---- flags ---- */

TEST(option_flags_are_read_in_every_spelling)
{
        static const struct {
                const char *args[4];
        } cases[] = {
                { { "-p", "1", NULL } },  { { "-p1", NULL } },
                { { "-p=1", NULL } },     { { "--port", "1", NULL } },
                { { "--port=1", NULL } }, { { "-p", "9", "-p1", NULL } },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct fixture f;

                fixture_init(&f, cases[i].args);
                EXPECT_OK(scan_all(&f), f.err);
                EXPECT_INT(f.v.port, 1);
                EXPECT_INT(f.scan.at, f.scan.argc);
                fixture_done(&f);
        }
}

TEST(option_letters_may_stand_together)
{
        struct fixture f;

        fixture_init(&f, ARGS("-nqp12"));
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT(f.v.is_open && f.v.quiet);
        EXPECT_INT(f.v.port, 12);
        fixture_done(&f);
}

TEST(option_list_collects_repeated_flags)
{
        struct fixture f;

        fixture_init(&f, ARGS("-O", "a", "--origin=b", "-Oc"));
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT_INT(f.v.origins.n, 3);
        EXPECT_STR(f.v.origins.at[0], "a");
        EXPECT_STR(f.v.origins.at[1], "b");
        EXPECT_STR(f.v.origins.at[2], "c");
        fixture_done(&f);
}

TEST(option_scan_stops_at_plain_words_and_behind_two_dashes)
{
        struct fixture f;

        fixture_init(&f, ARGS("-p1", "word", "--", "-p2"));
        EXPECT_INT(option_scan_next(&f.scan, &f.set, 1, &f.err), 1);
        EXPECT_INT(option_scan_next(&f.scan, &f.set, 1, &f.err), 0);
        EXPECT_STR(f.argv[f.scan.at++], "word");
        EXPECT_INT(option_scan_next(&f.scan, &f.set, 1, &f.err), 0);
        EXPECT_STR(f.argv[f.scan.at++], "-p2");
        EXPECT_INT(option_scan_next(&f.scan, &f.set, 1, &f.err), 0);
        EXPECT_INT(f.scan.at, f.scan.argc);
        EXPECT_OK(option_scan_apply(&f.scan, &f.err), f.err);
        EXPECT_INT(f.v.port, 1);
        fixture_done(&f);
}

TEST(option_scan_takes_a_lone_dash_as_a_word_and_as_a_value)
{
        struct fixture f;

        fixture_init(&f, ARGS("-H", "-", "-"));
        EXPECT_INT(option_scan_next(&f.scan, &f.set, 1, &f.err), 1);
        EXPECT_INT(option_scan_next(&f.scan, &f.set, 1, &f.err), 0);
        EXPECT_STR(f.argv[f.scan.at], "-");
        EXPECT_OK(option_scan_apply(&f.scan, &f.err), f.err);
        EXPECT_STR(f.v.host, "-");
        fixture_done(&f);
}

TEST(option_value_may_be_a_negative_number_but_not_a_flag)
{
        struct fixture f;

        fixture_init(&f, ARGS("-H", "-5"));
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT_STR(f.v.host, "-5");
        fixture_done(&f);

        fixture_init(&f, ARGS("-H", "--port", "1"));
        EXPECT_ERR(scan_all(&f), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "a value is required for '--host <HOST>' but none was supplied");
        fixture_done(&f);

        fixture_init(&f, ARGS("--host=--port"));
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT_STR(f.v.host, "--port");
        fixture_done(&f);
}

TEST(option_scan_names_what_it_does_not_know)
{
        static const struct {
                const char *arg, *msg;
        } cases[] = {
                { "--bogus", "unexpected argument '--bogus' found" },
                { "--bogus=1", "unexpected argument '--bogus' found" },
                { "--por", "unexpected argument '--por' found" },
                { "--ports", "unexpected argument '--ports' found" },
                { "-x", "unexpected argument '-x' found" },
                { "-nx", "unexpected argument '-x' found" },
                { "--=1", "unexpected argument '--' found" },
                { "--port", "a value is required for '--port <PORT>' but none was supplied" },
                { "-p", "a value is required for '--port <PORT>' but none was supplied" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct fixture f;

                fixture_init(&f, ARGS(cases[i].arg));
                EXPECT_ERR(scan_all(&f), ERR_USAGE, f.err);
                EXPECT_STR(f.err.msg, cases[i].msg);
                fixture_done(&f);
        }
}

TEST(option_flag_goes_to_the_set_that_has_it)
{
        struct sample other = {};
        const struct option_set sets[] = {
                { rows, 1, &other }, /* host only */
                { rows + 1, 1, &other },
        };
        struct fixture f;

        fixture_init(&f, ARGS("-p7", "-H", "h"));
        EXPECT_INT(option_scan_next(&f.scan, sets, 2, &f.err), 1);
        EXPECT_INT(option_scan_next(&f.scan, sets, 2, &f.err), 1);
        EXPECT_OK(option_scan_apply(&f.scan, &f.err), f.err);
        EXPECT_INT(other.port, 7);
        EXPECT_STR(other.host, "h");
        fixture_done(&f);
}

/* ---- values ---- */

static int assign(struct fixture *f, const char *name, const char *text)
{
        const struct option *row = option_find(&f->set, name, strlen(name));

        return option_assign(&f->arena, row, &f->v, text, "X", &f->err);
}

TEST(option_number_is_checked_at_its_limits)
{
        static const struct {
                const char *text;
                bool is_good;
        } cases[] = {
                { "1", true },    { "65535", true },
                { "0", false },   { "65536", false },
                { "-1", false },  { "", false },
                { "12x", false }, { "18446744073709551616", false },
        };
        struct fixture f;

        fixture_init(&f, NULL);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                if (cases[i].is_good)
                        EXPECT_OK(assign(&f, "port", cases[i].text), f.err);
                else
                        EXPECT_ERR(assign(&f, "port", cases[i].text), ERR_USAGE, f.err);
        EXPECT_ERR(assign(&f, "port", "65536"), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "invalid value '65536' for X: 65536 is not in 1..65535");
        EXPECT_ERR(assign(&f, "count", "1"), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "invalid value '1' for X: 1 is less than 2");
        EXPECT_OK(assign(&f, "count", "18446744073709551615"), f.err);
        EXPECT(f.v.count == UINT64_MAX);
        fixture_done(&f);
}

TEST(option_duration_takes_units)
{
        static const struct {
                const char *text;
                uint64_t ms;
        } cases[] = {
                { "250", 250 },   { "250ms", 250 },  { "5s", 5000 },
                { "2m", 120000 }, { "1h", 3600000 }, { "10", 10 },
        };
        static const char *const bad[] = {
                "",
                "s",
                "5 s",
                "5d",
                "1.5s",
                "-5s",
                "5S",
                "9",
                "3600001",
                "2h",
                "6000000000000000h",
        };
        struct fixture f;

        fixture_init(&f, NULL);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                EXPECT_OK(assign(&f, "wait", cases[i].text), f.err);
                EXPECT_INT(f.v.wait_ms, cases[i].ms);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                EXPECT_ERR(assign(&f, "wait", bad[i]), ERR_USAGE, f.err);
        EXPECT_ERR(assign(&f, "wait", "soon"), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg,
                   "invalid value 'soon' for X: expected a duration such as 250ms, 5s, 2m or 1h");
        fixture_done(&f);
}

TEST(option_bool_can_be_switched_off)
{
        struct fixture f;

        fixture_init(&f, ARGS("--quiet=false", "-n"));
        EXPECT_OK(options_preset(&f.arena, &f.set, &f.err), f.err);
        EXPECT(f.v.quiet && !f.v.has_quiet);
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT(!f.v.quiet && f.v.has_quiet);
        EXPECT(f.v.is_open && f.v.has_open);
        EXPECT_ERR(assign(&f, "open", "maybe"), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "invalid value 'maybe' for X: expected true or false");
        fixture_done(&f);
}

TEST(option_enum_lists_its_names_when_refused)
{
        struct fixture f;

        fixture_init(&f, ARGS("--role", "hosts"));
        EXPECT_OK(assign(&f, "role", "host"), f.err);
        EXPECT_INT(f.v.role, 2);
        EXPECT_ERR(scan_all(&f), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg,
                   "invalid value 'hosts' for '--role <ROLE>': expected both, guest or host");
        fixture_done(&f);
}

TEST(option_secret_is_overwritten_in_argv_and_never_quoted)
{
        struct fixture f;
        size_t len;

        fixture_init(&f, ARGS("-t", "hunter2", "--token=swordfish", "-tlast"));
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT_STR(secret_reveal(f.v.token, &len), "last");
        EXPECT_STR(f.argv[1], "*******");
        EXPECT_STR(f.argv[2], "--token=*********");
        EXPECT_STR(f.argv[3], "-t****");
        fixture_done(&f);
        EXPECT(f.v.token == NULL);

        fixture_init(&f, ARGS("--token", "hunter2", "--port", "x"));
        EXPECT_ERR(scan_all(&f), ERR_USAGE, f.err);
        EXPECT(!strstr(f.err.msg, "hunter2"));
        EXPECT_STR(f.argv[1], "*******");
        fixture_done(&f);

        fixture_init(&f, ARGS("--token="));
        EXPECT_ERR(scan_all(&f), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "invalid value for '--token <TOKEN>': it must not be empty");
        fixture_done(&f);
}

/* ---- layers ---- */

TEST(option_layers_win_in_order)
{
        struct option_file file;
        struct fixture f;

        fixture_init(&f, ARGS("--origin", "flag"));
        EXPECT_OK(options_preset(&f.arena, &f.set, &f.err), f.err);
        EXPECT_INT(f.v.port, 2468);
        EXPECT_INT(f.v.wait_ms, 5000);
        EXPECT_OK(parse_file(&f, "port = 1\nhost = file\norigin = a\norigin = b\nrole = host\n",
                             &file),
                  f.err);
        EXPECT_INT(f.v.port, 1);
        EXPECT_INT(f.v.origins.n, 2);

        setenv("SA_TEST_PORT", "2", 1);
        setenv("SA_TEST_ORIGIN", " c , d,,e ", 1);
        setenv("SA_TEST_ROLE", "", 1); /* empty counts as unset */
        EXPECT_OK(options_from_env(&f.arena, &f.set, &f.err), f.err);
        unsetenv("SA_TEST_PORT");
        unsetenv("SA_TEST_ORIGIN");
        unsetenv("SA_TEST_ROLE");
        EXPECT_INT(f.v.port, 2);
        EXPECT_STR(f.v.host, "file");
        EXPECT_INT(f.v.role, 2);
        EXPECT_INT(f.v.origins.n, 3);
        EXPECT_STR(f.v.origins.at[0], "c");
        EXPECT_STR(f.v.origins.at[2], "e");

        EXPECT_OK(scan_all(&f), f.err);
        EXPECT_INT(f.v.origins.n, 1);
        EXPECT_STR(f.v.origins.at[0], "flag");
        fixture_done(&f);
}

TEST(option_environment_error_names_the_variable)
{
        struct fixture f;

        fixture_init(&f, NULL);
        setenv("SA_TEST_PORT", "many", 1);
        EXPECT_ERR(options_from_env(&f.arena, &f.set, &f.err), ERR_USAGE, f.err);
        unsetenv("SA_TEST_PORT");
        EXPECT_STR(f.err.msg, "invalid value 'many' for SA_TEST_PORT: expected a whole number");
        fixture_done(&f);
}

TEST(option_secret_variable_is_not_left_for_children)
{
        struct fixture f;
        const char *raw;

        fixture_init(&f, NULL);
        setenv("SA_TEST_TOKEN", "hunter2", 1);
        raw = getenv("SA_TEST_TOKEN");
        EXPECT_OK(options_from_env(&f.arena, &f.set, &f.err), f.err);
        EXPECT_STR(secret_reveal(f.v.token, NULL), "hunter2");
        EXPECT(getenv("SA_TEST_TOKEN") == NULL);
        EXPECT_STR(raw, "");
        fixture_done(&f);
}

/* ---- file ---- */

TEST(option_file_reads_lines_comments_and_odd_spacing)
{
        static const char text[] = "# comment\n\n  port=7  \r\n\thost =  a = b # not a comment \n"
                                   "open = yes\n origin =\nwait = 2m";
        struct option_file file;
        struct fixture f;

        fixture_init(&f, NULL);
        EXPECT_OK(parse_file(&f, text, &file), f.err);
        EXPECT_INT(file.n, 5);
        EXPECT_INT(file.lines[0].line, 3);
        EXPECT_INT(file.lines[4].line, 7);
        EXPECT_INT(f.v.port, 7);
        EXPECT_STR(f.v.host, "a = b # not a comment");
        EXPECT(f.v.is_open);
        EXPECT_INT(f.v.wait_ms, 120000);
        EXPECT_STR(f.v.origins.at[0], "");
        fixture_done(&f);
}

TEST(option_file_error_names_file_and_line)
{
        static const struct {
                const char *text, *msg;
        } cases[] = {
                { "port = 1\nprot = 2\n", "conf:2: unknown option 'prot'" },
                { "only-flag = 2\n", "conf:1: unknown option 'only-flag'" },
                { "= 2\n", "conf:1: unknown option ''" },
                { "#\n\nport 1\n", "conf:3: expected 'name = value'" },
                { "\nport = x\n", "conf:2: invalid value 'x' for 'port': expected a whole number" },
                { "token =\n", "conf:1: invalid value for 'token': it must not be empty" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct option_file file;
                struct fixture f;

                fixture_init(&f, NULL);
                EXPECT_ERR(parse_file(&f, cases[i].text, &file), ERR_USAGE, f.err);
                EXPECT_STR(f.err.msg, cases[i].msg);
                fixture_done(&f);
        }
}

TEST(option_file_leaves_other_sets_names_alone)
{
        const struct option_set host_only = { rows, 1, NULL };
        struct option_file file;
        struct fixture f;
        char text[] = "port = 1\nhost = h\n";

        fixture_init(&f, NULL);
        EXPECT_OK(option_file_parse(&f.arena, "conf", text, &file, &f.err), f.err);
        f.set.rows_size = 1;
        EXPECT_OK(option_file_apply(&f.arena, &file, &f.set, &f.err), f.err);
        EXPECT_STR(f.v.host, "h");
        EXPECT_INT(f.v.port, 0);
        EXPECT_ERR(option_file_check(&file, &host_only, 1, &f.err), ERR_USAGE, f.err);
        fixture_done(&f);
}

TEST(option_file_of_many_lines_stays_cheap)
{
        enum { LINES = 20000 };
        struct option_file file;
        struct fixture f;
        char *text, *at;

        fixture_init(&f, NULL);
        text = at = arena_alloc(&f.arena, LINES * 9 + 1);
        for (int i = 0; i < LINES; i++, at += 9)
                memcpy(at, "origin=x\n", 10);
        EXPECT_OK(option_file_parse(&f.arena, "conf", text, &file, &f.err), f.err);
        EXPECT_OK(option_file_apply(&f.arena, &file, &f.set, &f.err), f.err);
        EXPECT_INT(f.v.origins.n, LINES);
        EXPECT(f.arena.used_bytes < 16 * 1024 * 1024);
        fixture_done(&f);
}

TEST(option_file_that_is_missing_or_no_text_is_told)
{
        struct option_file file;
        struct fixture f;
        char path[] = "/tmp/sa-option-XXXXXX";
        int fd = mkstemp(path);

        fixture_init(&f, NULL);
        EXPECT(fd >= 0);
        EXPECT_INT(write(fd, "port = 1\0x\n", 11), 11);
        EXPECT_ERR(option_file_read(&f.arena, path, &file, &f.err), ERR_USAGE, f.err);
        EXPECT_INT(ftruncate(fd, 0), 0);
        EXPECT_OK(option_file_read(&f.arena, path, &file, &f.err), f.err);
        EXPECT_INT(file.n, 0);
        EXPECT_INT(ftruncate(fd, OPTION_FILE_MAX + 1), 0);
        EXPECT_ERR(option_file_read(&f.arena, path, &file, &f.err), ERR_TOO_BIG, f.err);
        close(fd);
        unlink(path);
        EXPECT_ERR(option_file_read(&f.arena, path, &file, &f.err), ERR_NOT_FOUND, f.err);
        fixture_done(&f);
}

TEST(option_file_values_are_wiped)
{
        struct option_file file;
        struct fixture f;
        const char *value;

        fixture_init(&f, NULL);
        EXPECT_OK(parse_file(&f, "token = hunter2\n", &file), f.err);
        value = file.lines[0].value;
        EXPECT_STR(value, "hunter2");
        option_file_wipe(&file);
        EXPECT_STR(value, "");
        EXPECT_STR(secret_reveal(f.v.token, NULL), "hunter2");
        fixture_done(&f);
}

/* ---- required ---- */

TEST(option_required_must_be_set_by_somebody)
{
        static const struct option needed[] = {
                { "id", 0, OPT_STR, AT(host), .arg = "ID", .flags = OPT_REQUIRED },
                { "item", 0, OPT_LIST, AT(origins), .arg = "ITEM", .flags = OPT_REQUIRED },
        };
        struct fixture f;

        fixture_init(&f, ARGS("--id", "7"));
        f.set = (struct option_set) { needed, 2, &f.v };
        EXPECT_ERR(options_check(&f.set, &f.err), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "the required argument '--id <ID>' was not provided");
        EXPECT_OK(scan_all(&f), f.err);
        EXPECT_ERR(options_check(&f.set, &f.err), ERR_USAGE, f.err);
        EXPECT_STR(f.err.msg, "the required argument '--item <ITEM>' was not provided");
        EXPECT_OK(option_assign(&f.arena, &needed[1], &f.v, "x", "X", &f.err), f.err);
        EXPECT_OK(options_check(&f.set, &f.err), f.err);
        fixture_done(&f);
}
