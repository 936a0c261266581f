#include "api/terminal.h"
#include "test.h"

static int parse(struct arena *a, const char *text, struct terminal_frame *ret, struct error *err)
{
        arena_init(a, 1024 * 1024);
        return terminal_frame_parse(a, text, strlen(text), ret, err);
}

TEST(terminal_frame_input_is_plain_text_unless_it_says_otherwise)
{
        struct terminal_frame f;
        struct error err = { 0 };
        struct arena a;

        EXPECT_OK(parse(&a, "{\"type\":\"input\",\"data\":\"ls\\n\"}", &f, &err), err);
        EXPECT_INT(f.type, TERM_INPUT);
        EXPECT_STR(f.data.at, "ls\n");
        EXPECT(!f.encoding);
        arena_done(&a);
        EXPECT_OK(parse(&a, "{\"data\":\"bHM=\",\"encoding\":\"base64\",\"type\":\"input\"}", &f,
                        &err),
                  err);
        EXPECT_STR(f.encoding, "base64");
        EXPECT_STR(f.data.at, "bHM=");
        arena_done(&a);
}

TEST(terminal_frame_input_may_hold_a_nul)
{
        struct terminal_frame f;
        struct error err = { 0 };
        struct arena a;

        EXPECT_OK(parse(&a, "{\"type\":\"input\",\"data\":\"a\\u0000b\"}", &f, &err), err);
        EXPECT_INT(f.data.len, 3);
        EXPECT_MEM(f.data.at, "a\0b", 3);
        arena_done(&a);
}

TEST(terminal_frame_resize_takes_sixteen_bits)
{
        struct terminal_frame f;
        struct error err = { 0 };
        struct arena a;

        EXPECT_OK(parse(&a, "{\"type\":\"resize\",\"cols\":65535,\"rows\":0}", &f, &err), err);
        EXPECT_INT(f.type, TERM_RESIZE);
        EXPECT_INT(f.cols, 65535);
        EXPECT_INT(f.rows, 0);
        arena_done(&a);
}

TEST(terminal_frame_close_needs_nothing_else)
{
        struct terminal_frame f;
        struct error err = { 0 };
        struct arena a;

        EXPECT_OK(parse(&a, " {\"type\" : \"close\", \"data\": 1}", &f, &err), err);
        EXPECT_INT(f.type, TERM_CLOSE);
        arena_done(&a);
}

TEST(terminal_frame_says_what_is_wrong_and_where)
{
        static const struct {
                const char *text, *why;
        } rows[] = {
                { "{\"type\":\"nope\"}", "unknown variant `nope`, expected one of `input`, "
                                         "`resize`, `close` at line 1 column 14" },
                { "{\"a\":[{\"type\":1}],\n \"type\" : \"no\\\"pe\" , \"b\":\"}\"}",
                  "unknown variant `no\"pe`, expected one of `input`, `resize`, `close` at line 2 "
                  "column 18" },
                { "hello", "expected value at line 1 column 1" },
                { "", "EOF while parsing a value at line 1 column 0" },
                { "{}", "missing field `type` at line 1 column 2" },
                { "{\"data\":\"type\"}", "missing field `type` at line 1 column 15" },
                { "{\"type\":5}",
                  "invalid type: integer `5`, expected a string at line 1 column 9" },
                { "[]", "invalid type: sequence, expected an object at line 1 column 2" },
                { "{\"type\":\"input\"}", "missing field `data`" },
                { "{\"type\":\"input\",\"data\":5}",
                  "data: invalid type: integer `5`, expected a string" },
                { "{\"type\":\"resize\",\"cols\":90}", "missing field `rows`" },
                { "{\"type\":\"resize\",\"rows\":90}", "missing field `cols`" },
                { "{\"type\":\"resize\",\"cols\":65536,\"rows\":1}",
                  "cols: invalid value: integer `65536`, expected u16" },
                { "{\"type\":\"resize\",\"cols\":1,\"rows\":70000}",
                  "rows: invalid value: integer `70000`, expected u16" },
                { "{\"type\":\"resize\",\"cols\":-1,\"rows\":1}",
                  "cols: invalid value: integer `-1`, expected u64" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct terminal_frame f;
                struct error err = { 0 };
                struct arena a;

                EXPECT_ERR(parse(&a, rows[i].text, &f, &err), ERR_INVALID, err);
                EXPECT_STR(err.msg, rows[i].why);
                arena_done(&a);
        }
}

TEST(terminal_history_is_all_or_a_number)
{
        static const char *const bad[] = { "", "ALL", "-1", "1k", " 5", "18446744073709551616" };
        struct error err = { 0 };
        uint64_t n;

        EXPECT_OK(terminal_history_parse("all", &n, &err), err);
        EXPECT(n == UINT64_MAX);
        EXPECT_OK(terminal_history_parse("0", &n, &err), err);
        EXPECT_INT(n, 0);
        EXPECT_OK(terminal_history_parse("4096", &n, &err), err);
        EXPECT_INT(n, 4096);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                EXPECT_ERR(terminal_history_parse(bad[i], &n, &err), ERR_INVALID, err);
}
