/* Field tables: JSON and query strings into structs, the words of their errors, and the schema. */
#include "base/arena.h"
#include "base/buf.h"
#include "test.h"
#include "json/bind.h"
#include "json/json.h"
#include "json/write.h"

#include <stdio.h>

struct source {
        const char *source;
        int64_t rank;
};
struct limits {
        uint64_t memory;
        double share;
};
struct thing {
        const char *to, *from, *token;
        int64_t x;
        uint64_t n;
        double ratio;
        bool on;
        int button;
        struct limits limits;
        struct strv args;
        struct objv sources;
        struct pairs env;
        const struct jval *meta;
        bool has_x, has_env, has_on;
};

static const char *const buttons[] = { "left", "middle", "right", NULL };

static const struct field source_fields[] = {
        { "source", F_STR, F_REQUIRED, offsetof(struct source, source), 16, .doc = "where from" },
        { "rank", F_INT, 0, offsetof(struct source, rank), .doc = "order" },
        {},
};
static const struct field limit_fields[] = {
        { "memory", F_UINT, F_REQUIRED, offsetof(struct limits, memory), .doc = "bytes" },
        { "share", F_NUM, 0, offsetof(struct limits, share), .doc = "of the CPU" },
        {},
};
static const struct field thing_fields[] = {
        { "to", F_STR, F_REQUIRED, offsetof(struct thing, to), 8, .doc = "target" },
        { "from", F_STR, 0, offsetof(struct thing, from), 1000, .doc = "origin" },
        { "token", F_STR, F_SECRET, offsetof(struct thing, token), 8, .doc = "kept" },
        { "x", F_INT, 0, offsetof(struct thing, x), .has_offset = offsetof(struct thing, has_x),
          .doc = "x" },
        { "n", F_UINT, 0, offsetof(struct thing, n), .doc = "count" },
        { "ratio", F_NUM, 0, offsetof(struct thing, ratio), .doc = "ratio" },
        { "on", F_BOOL, 0, offsetof(struct thing, on), .has_offset = offsetof(struct thing, has_on),
          .doc = "switch" },
        { "button", F_ENUM, 0, offsetof(struct thing, button), .names = buttons, .doc = "which" },
        { "limits", F_OBJ, 0, offsetof(struct thing, limits), .sub = limit_fields,
          .doc = "limits" },
        { "args", F_STRV, 0, offsetof(struct thing, args), 3, .doc = "words" },
        { "sources", F_OBJV, 0, offsetof(struct thing, sources), 2, .sub = source_fields,
          .sub_size = sizeof(struct source), .doc = "list" },
        { "env", F_MAP, 0, offsetof(struct thing, env), 3,
          .has_offset = offsetof(struct thing, has_env), .doc = "environment" },
        { "meta", F_ANY, 0, offsetof(struct thing, meta), .doc = "anything" },
        {},
};

static int bind(struct arena *a, const char *text, struct thing *ret, struct error *err)
{
        const struct jval *v = NULL;

        *ret = (struct thing) {};
        EXPECT_OK(json_parse(a, text, strlen(text), &v, err), *err);
        return json_bind(a, v, thing_fields, ret, err);
}

TEST(bind_fills_every_type)
{
        struct arena a;
        struct thing t;
        struct error err = {};
        const struct source *s;

        arena_init(&a, 0);
        EXPECT_OK(bind(&a,
                       "{\"to\":\"a\",\"from\":\"b\",\"token\":\"t\",\"x\":-5,\"n\":"
                       "18446744073709551615,"
                       "\"ratio\":0.5,\"on\":true,\"button\":\"right\",\"limits\":{\"memory\":9,"
                       "\"share\":2},"
                       "\"args\":[\"p\",\"q\"],\"sources\":[{\"source\":\"s\"},{\"source\":\"u\","
                       "\"rank\":3}],"
                       "\"env\":{\"A\":\"1\",\"B\":\"2\",\"A\":\"3\"},\"meta\":[1],\"unknown\":{}}",
                       &t, &err),
                  err);
        EXPECT_STR(t.to, "a");
        EXPECT_STR(t.from, "b");
        EXPECT_STR(t.token, "t");
        EXPECT_INT(t.x, -5);
        EXPECT(t.n == UINT64_MAX && t.ratio == 0.5 && t.on && t.has_x && t.has_env && t.has_on);
        EXPECT_INT(t.button, 2);
        EXPECT_INT(t.limits.memory, 9);
        EXPECT(t.limits.share == 2);
        EXPECT_INT(t.args.n, 2);
        EXPECT_STR(t.args.at[1], "q");
        EXPECT_INT(t.sources.n, 2);
        s = t.sources.at;
        EXPECT_STR(s[0].source, "s");
        EXPECT_INT(s[0].rank, 0);
        EXPECT_INT(s[1].rank, 3);
        EXPECT_INT(t.env.n, 2);
        EXPECT_STR(t.env.at[0].key, "B");
        EXPECT_STR(t.env.at[1].key, "A");
        EXPECT_STR(t.env.at[1].value, "3");
        EXPECT_INT(t.meta->type, J_ARR);
        arena_done(&a);
}

TEST(bind_null_of_an_optional_member_is_absent)
{
        struct arena a;
        struct thing t;
        struct error err = {};

        arena_init(&a, 0);
        EXPECT_OK(bind(&a, "{\"to\":\"\",\"x\":null,\"env\":null,\"meta\":null,\"limits\":null}",
                       &t, &err),
                  err);
        EXPECT_STR(t.to, "");
        EXPECT(!t.has_x && !t.has_env && !t.has_on && !t.meta && !t.from);
        arena_done(&a);
}

struct bind_case {
        const char *in, *error;
};

TEST(bind_says_what_is_wrong_and_where)
{
        static const struct bind_case cases[] = {
                { "{}", "missing field `to`" },
                { "[]", "invalid type: sequence, expected an object" },
                { "7", "invalid type: integer `7`, expected an object" },
                { "null", "invalid type: null, expected an object" },
                { "{\"to\":null}", "to: invalid type: null, expected a string" },
                { "{\"to\":{}}", "to: invalid type: map, expected a string" },
                { "{\"to\":true}", "to: invalid type: boolean `true`, expected a string" },
                { "{\"to\":\"a\",\"from\":1}",
                  "from: invalid type: integer `1`, expected a string" },
                { "{\"to\":\"a\",\"from\":1.5}",
                  "from: invalid type: floating point `1.5`, expected a string" },
                { "{\"to\":\"a\",\"x\":\"1\"}", "x: invalid type: string \"1\", expected i64" },
                { "{\"to\":\"a\",\"x\":1e2}",
                  "x: invalid type: floating point `1e2`, expected i64" },
                { "{\"to\":\"a\",\"x\":9223372036854775808}",
                  "x: invalid value: integer `9223372036854775808`, expected i64" },
                { "{\"to\":\"a\",\"n\":-1}", "n: invalid value: integer `-1`, expected u64" },
                { "{\"to\":\"a\",\"ratio\":false}",
                  "ratio: invalid type: boolean `false`, expected f64" },
                { "{\"to\":\"a\",\"ratio\":1e999}",
                  "ratio: invalid value: floating point `1e999`, expected f64" },
                { "{\"to\":\"a\",\"on\":1}", "on: invalid type: integer `1`, expected a boolean" },
                { "{\"to\":\"a\",\"button\":\"foo\"}",
                  "button: unknown variant `foo`, expected one of `left`, `middle`, `right`" },
                { "{\"to\":\"a\",\"button\":0}",
                  "button: invalid type: integer `0`, expected a string" },
                { "{\"to\":\"a\",\"limits\":{}}", "limits: missing field `memory`" },
                { "{\"to\":\"a\",\"limits\":[]}",
                  "limits: invalid type: sequence, expected an object" },
                { "{\"to\":\"a\",\"limits\":{\"memory\":\"x\"}}",
                  "limits.memory: invalid type: string \"x\", expected u64" },
                { "{\"to\":\"a\",\"args\":\"x\"}",
                  "args: invalid type: string \"x\", expected a sequence" },
                { "{\"to\":\"a\",\"args\":[\"x\",2]}",
                  "args[1]: invalid type: integer `2`, expected a string" },
                { "{\"to\":\"a\",\"sources\":[{}]}", "sources[0]: missing field `source`" },
                { "{\"to\":\"a\",\"sources\":[{\"source\":\"a\"},{\"source\":2}]}",
                  "sources[1].source: invalid type: integer `2`, expected a string" },
                { "{\"to\":\"a\",\"sources\":[1]}",
                  "sources[0]: invalid type: integer `1`, expected an object" },
                { "{\"to\":\"a\",\"env\":[]}", "env: invalid type: sequence, expected a map" },
                { "{\"to\":\"a\",\"env\":{\"K\":1}}",
                  "env.K: invalid type: integer `1`, expected a string" },
                { "{\"to\":\"a\",\"to\":7}", "to: invalid type: integer `7`, expected a string" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct arena a;
                struct thing t;
                struct error err = {};

                arena_init(&a, 0);
                EXPECT_ERR(bind(&a, cases[i].in, &t, &err), ERR_SHAPE, err);
                EXPECT_STR(err.msg, cases[i].error);
                arena_done(&a);
        }
}

TEST(bind_refuses_texts_that_cannot_be)
{
        static const struct bind_case cases[] = {
                { "{\"to\":\"a\\u0000b\"}", "to: a NUL byte is not allowed" },
                { "{\"to\":\"\\u0000\"}", "to: a NUL byte is not allowed" },
                { "{\"to\":\"a\",\"env\":{\"K\\u0000\":\"1\"}}",
                  "env.K: a NUL byte is not allowed" },
                { "{\"to\":\"a\",\"env\":{\"K\":\"1\\u0000\"}}",
                  "env.K: a NUL byte is not allowed" },
                { "{\"to\":\"a\",\"args\":[\"\\u0000\"]}", "args[0]: a NUL byte is not allowed" },
                { "{\"to\":\"123456789\"}", "to: at most 8 bytes, got 9" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct arena a;
                struct thing t;
                struct error err = {};

                arena_init(&a, 0);
                EXPECT_ERR(bind(&a, cases[i].in, &t, &err), ERR_INVALID, err);
                EXPECT_STR(err.msg, cases[i].error);
                arena_done(&a);
        }
}

TEST(bind_limits_hold_at_the_limit)
{
        static const struct bind_case cases[] = {
                { "{\"to\":\"1234567\"}", "" },
                { "{\"to\":\"12345678\"}", "" },
                { "{\"to\":\"123456789\"}", "to: at most 8 bytes, got 9" },
                { "{\"to\":\"1234567\u00e9\"}", "to: at most 8 bytes, got 9" },
                { "{\"to\":\"a\",\"args\":[\"\",\"\",\"\"]}", "" },
                { "{\"to\":\"a\",\"args\":[\"\",\"\",\"\",\"\"]}", "args: at most 3 items, got 4" },
                { "{\"to\":\"a\",\"sources\":[{},{},{}]}", "sources: at most 2 items, got 3" },
                { "{\"to\":\"a\",\"env\":{\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\"}}",
                  "env: at most 3 items, got 4" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct arena a;
                struct thing t;
                struct error err = {};

                arena_init(&a, 0);
                EXPECT_INT(bind(&a, cases[i].in, &t, &err), cases[i].error[0] ? -1 : 0);
                EXPECT_STR(err.msg, cases[i].error);
                arena_done(&a);
        }
}

TEST(bind_errors_never_show_a_secret)
{
        static const struct field fields[] = {
                { "a", F_INT, F_SECRET, 0, .doc = "a" },
                { "b", F_ENUM, F_SECRET, 8, .names = buttons, .doc = "b" },
                {},
        };
        static const char *const texts[] = { "{\"a\":\"hunter2\"}", "{\"a\":-7777.5}",
                                             "{\"b\":\"hunter2\"}", "{\"b\":7777}" };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                const struct jval *v = NULL;
                struct error err = {};
                struct arena a;
                int64_t ret[2] = {};

                arena_init(&a, 0);
                EXPECT_OK(json_parse(&a, texts[i], strlen(texts[i]), &v, &err), err);
                EXPECT_ERR(json_bind(&a, v, fields, ret, &err), ERR_SHAPE, err);
                EXPECT(!strstr(err.msg, "hunter2") && !strstr(err.msg, "7777"));
                arena_done(&a);
        }
}

TEST(bind_errors_show_little_of_a_long_text)
{
        struct buf b = {};
        struct arena a;
        struct thing t;
        struct error err = {};

        buf_puts(&b, "{\"to\":\"a\",\"x\":\"1");
        for (int i = 0; i < 1000; i++)
                buf_puts(&b, "\u20ac");
        buf_puts(&b, "\"}");
        arena_init(&a, 0);
        EXPECT_ERR(bind(&a, b.data, &t, &err), ERR_SHAPE, err);
        EXPECT_INT(utf8_check(err.msg, strlen(err.msg)), strlen(err.msg));
        EXPECT(strlen(err.msg) < 120);
        arena_done(&a);
        buf_done(&b);
}

TEST(bind_names_one_two_or_many_variants)
{
        static const char *const one[] = { "a", NULL }, *const two[] = { "a", "b", NULL };
        struct field f[] = { { "v", F_ENUM, 0, 0, .names = one }, {} };
        struct error err = {};
        struct arena a;
        int ret;

        arena_init(&a, 0);
        EXPECT_ERR(query_bind(&a, SLICE("v=x"), f, &ret, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "unknown variant `x`, expected `a`");
        f[0].names = two;
        EXPECT_ERR(query_bind(&a, SLICE("v=x"), f, &ret, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "unknown variant `x`, expected `a` or `b`");
        arena_done(&a);
}

struct params {
        const char *path;
        bool deep, has_deep;
        int64_t from;
        uint64_t tail;
        double ratio;
        int stream;
        struct strv tag;
};
static const char *const streams[] = { "stdout", "stderr", "combined", "pty", NULL };
static const struct field param_fields[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct params, path), 8, .doc = "file" },
        { "deep", F_BOOL, 0, offsetof(struct params, deep),
          .has_offset = offsetof(struct params, has_deep), .doc = "all" },
        { "from", F_INT, 0, offsetof(struct params, from), .doc = "first" },
        { "tail", F_UINT, 0, offsetof(struct params, tail), .doc = "last" },
        { "ratio", F_NUM, 0, offsetof(struct params, ratio), .doc = "ratio" },
        { "stream", F_ENUM, 0, offsetof(struct params, stream), .names = streams, .doc = "which" },
        { "tag", F_STRV, 0, offsetof(struct params, tag), 2, .doc = "tags" },
        {},
};

TEST(query_fills_scalars_and_lists)
{
        struct arena a;
        struct params p = {};
        struct error err = {};

        arena_init(&a, 0);
        EXPECT_OK(query_bind(&a,
                             SLICE("&x=%zz&p%61th=%2Fa+b%2B&path=later&deep=true&from=-3&tail=7&"
                                   "ratio=1.5e1&stream=combined&tag=a&tag=b%20c&flag"),
                             param_fields, &p, &err),
                  err);
        EXPECT_STR(p.path, "/a b+");
        EXPECT(p.deep && p.has_deep);
        EXPECT_INT(p.from, -3);
        EXPECT_INT(p.tail, 7);
        EXPECT(p.ratio == 15);
        EXPECT_INT(p.stream, 2);
        EXPECT_INT(p.tag.n, 2);
        EXPECT_STR(p.tag.at[0], "a");
        EXPECT_STR(p.tag.at[1], "b c");
        p = (struct params) {};
        EXPECT_OK(query_bind(&a, SLICE("path"), param_fields, &p, &err), err);
        EXPECT_STR(p.path, "");
        EXPECT(!p.has_deep && !p.tag.n);
        arena_done(&a);
}

TEST(query_says_what_is_wrong)
{
        static const struct bind_case cases[] = {
                { "", "missing field `path`" },
                { "Path=1", "missing field `path`" },
                { "path=a&deep=1", "provided string was not `true` or `false`" },
                { "path=a&deep=TRUE", "provided string was not `true` or `false`" },
                { "path=a&deep", "provided string was not `true` or `false`" },
                { "path=a&tail=x", "invalid digit found in string" },
                { "path=a&tail=-1", "invalid digit found in string" },
                { "path=a&tail=", "cannot parse integer from empty string" },
                { "path=a&tail=18446744073709551616", "number too large to fit in target type" },
                { "path=a&from=-9223372036854775809", "number too large to fit in target type" },
                { "path=a&from=-", "invalid digit found in string" },
                { "path=a&ratio=nan", "invalid float literal" },
                { "path=a&ratio=", "invalid float literal" },
                { "path=a&ratio=1e999", "invalid float literal" },
                { "path=a&ratio=1%00", "invalid float literal" },
                { "path=a&stream=bad",
                  "unknown variant `bad`, expected one of `stdout`, `stderr`, `combined`, `pty`" },
                { "path=12345678", "" },
                { "path=123456789", "path: at most 8 bytes, got 9" },
                { "path=%", "path: broken percent escape" },
                { "path=%4", "path: broken percent escape" },
                { "path=%ff", "path: not UTF-8" },
                { "path=a%00b", "path: a NUL byte is not allowed" },
                { "path=a&tag=1&tag=2", "" },
                { "path=a&tag=1&tag=2&tag=3", "tag: at most 2 items, got 3" },
                { "path=a&tag=%00", "tag: a NUL byte is not allowed" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct arena a;
                struct params p = {};
                struct error err = {};

                arena_init(&a, 0);
                EXPECT_INT(query_bind(&a, SLICE(cases[i].in), param_fields, &p, &err),
                           cases[i].error[0] ? -1 : 0);
                EXPECT_STR(err.msg, cases[i].error);
                EXPECT_INT(err.kind, cases[i].error[0] ? ERR_INVALID : ERR_OK);
                arena_done(&a);
        }
}

TEST(query_get_finds_the_first_of_a_name)
{
        struct arena a;
        struct slice q = SLICE("a=1&a=2&b=%20x&c=%&d=%00&e=%ff&access_token=t%3D+u&=z&f");

        arena_init(&a, 0);
        EXPECT_STR(query_get(&a, q, "a"), "1");
        EXPECT_STR(query_get(&a, q, "b"), " x");
        EXPECT(!query_get(&a, q, "c"));
        EXPECT(!query_get(&a, q, "d"));
        EXPECT(!query_get(&a, q, "e"));
        EXPECT_STR(query_get(&a, q, "access_token"), "t= u");
        EXPECT_STR(query_get(&a, q, "f"), "");
        EXPECT(!query_get(&a, q, "g"));
        EXPECT(!query_get(&a, (struct slice) {}, "a"));
        arena_done(&a);
}

TEST(schema_tells_what_the_table_knows)
{
        static const struct field fields[] = {
                { "name", F_STR, F_REQUIRED, 0, 64, .doc = "who" },
                { "key", F_STR, F_SECRET, 0, 100, .doc = "kept" },
                { "i", F_INT, 0, 0, .doc = "i" },
                { "u", F_UINT, 0, 0, .doc = "u" },
                { "d", F_NUM, 0, 0, .doc = "d" },
                { "b", F_BOOL, 0, 0, .doc = "b" },
                { "e", F_ENUM, 0, 0, .names = buttons, .doc = "e" },
                { "o", F_OBJ, F_REQUIRED, 0, .sub = limit_fields, .doc = "o" },
                { "sv", F_STRV, 0, 0, 5, .doc = "sv" },
                { "ov", F_OBJV, 0, 0, 6, .sub = source_fields, .sub_size = 16, .doc = "ov" },
                { "m", F_MAP, 0, 0, 7, .doc = "m" },
                { "a", F_ANY, 0, 0, .doc = "a" },
                {},
        };
        static const char want[] =
                "{\"type\":\"object\",\"properties\":{"
                "\"name\":{\"type\":\"string\",\"maxLength\":64,\"description\":\"who\"},"
                "\"key\":{\"type\":\"string\",\"maxLength\":100,\"writeOnly\":true,\"description\":"
                "\"kept\"},"
                "\"i\":{\"type\":\"integer\",\"format\":\"int64\",\"description\":\"i\"},"
                "\"u\":{\"type\":\"integer\",\"format\":\"uint64\",\"minimum\":0,\"description\":"
                "\"u\"},"
                "\"d\":{\"type\":\"number\",\"format\":\"double\",\"description\":\"d\"},"
                "\"b\":{\"type\":\"boolean\",\"description\":\"b\"},"
                "\"e\":{\"type\":\"string\",\"enum\":[\"left\",\"middle\",\"right\"],"
                "\"description\":\"e\"},"
                "\"o\":{\"type\":\"object\",\"properties\":{\"memory\":{\"type\":\"integer\","
                "\"format\":"
                "\"uint64\",\"minimum\":0,\"description\":\"bytes\"},\"share\":{\"type\":"
                "\"number\","
                "\"format\":\"double\",\"description\":\"of the CPU\"}},\"required\":[\"memory\"],"
                "\"description\":\"o\"},"
                "\"sv\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":5,"
                "\"description\":\"sv\"},"
                "\"ov\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
                "\"source\":"
                "{\"type\":\"string\",\"maxLength\":16,\"description\":\"where "
                "from\"},\"rank\":{\"type\":"
                "\"integer\",\"format\":\"int64\",\"description\":\"order\"}},\"required\":["
                "\"source\"]},"
                "\"maxItems\":6,\"description\":\"ov\"},"
                "\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
                "\"maxProperties\":7,\"description\":\"m\"},"
                "\"a\":{\"description\":\"a\"}},\"required\":[\"name\",\"o\"]}";
        struct buf b = {};
        struct jw w = { .out = &b };

        schema_write(&w, NULL, fields);
        EXPECT_STR(b.data, want);
        buf_clear(&b);
        w = (struct jw) { .out = &b };
        schema_write(&w, NULL, &(const struct field) {});
        EXPECT_STR(b.data, "{\"type\":\"object\",\"properties\":{}}");
        buf_done(&b);
}

TEST(field_table_faults_are_found)
{
        static const char *const none[] = { NULL };
        static const struct {
                struct field row;
                const char *fault;
        } cases[] = {
                { { "a", F_STR, .doc = "d" }, "a: no max" },
                { { "a", F_STR, .max = 1 }, "a: no doc" },
                { { "a", F_STRV, .doc = "d" }, "a: no max" },
                { { "a", F_MAP, .doc = "d" }, "a: no max" },
                { { "a", 0, .doc = "d" }, "a: no type" },
                { { "", F_INT, .doc = "d" }, ": no name" },
                { { "a", F_OBJ, .doc = "d" }, "a: no sub" },
                { { "a", F_OBJV, .max = 1, .sub = source_fields, .doc = "d" }, "a: no sub_size" },
                { { "a", F_ENUM, .doc = "d" }, "a: no names" },
                { { "a", F_ENUM, .names = none, .doc = "d" }, "a: no names" },
                { { "a", F_INT, .doc = "d" }, NULL },
        };

        EXPECT(!field_table_fault(thing_fields));
        EXPECT(!field_table_fault(param_fields));
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                const struct field table[] = { cases[i].row, {} };
                const struct field outer[] = { { "o", F_OBJ, .sub = table, .doc = "d" }, {} };

                if (cases[i].fault) {
                        EXPECT_STR(field_table_fault(table), cases[i].fault);
                        EXPECT_STR(field_table_fault(outer), cases[i].fault);
                } else {
                        EXPECT(!field_table_fault(outer));
                }
        }
        const struct field twice[] = { { "a", F_INT, .doc = "d" }, { "a", F_INT, .doc = "d" }, {} };
        EXPECT_STR(field_table_fault(twice), "a: name used twice");
        struct field loop[] = { { "l", F_OBJ, .doc = "d" }, {} };
        loop[0].sub = loop;
        EXPECT_STR(field_table_fault(loop), "l: nested too deep");
}
