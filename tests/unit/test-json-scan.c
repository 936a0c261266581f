/* The envelope scan: what it finds, what it refuses, and that nothing hides from it. */
#include "base/arena.h"
#include "base/buf.h"
#include "test.h"
#include "json/json.h"
#include "json/scan.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPECT_SLICE(s, want)                                                                      \
        do {                                                                                       \
                char _text[256] = "";                                                              \
                snprintf(_text, sizeof(_text), "%.*s", (int) (s).len, (s).at ? (s).at : "");       \
                EXPECT_STR(_text, want);                                                           \
        } while (0)

static struct jscan scan(const char *text)
{
        struct jscan s = {};
        struct error err = {};

        EXPECT_OK(json_scan(text, strlen(text), &s, &err), err);
        return s;
}

TEST(scan_finds_the_members_of_a_request)
{
        struct jscan s =
                scan("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/prompt\",\"params\":"
                     "{\"prompt\":[{\"id\":8}],\"sessionId\":\"s-1\"}}");

        EXPECT_SLICE(s.id, "7");
        EXPECT_SLICE(s.method, "session/prompt");
        EXPECT_SLICE(s.params, "{\"prompt\":[{\"id\":8}],\"sessionId\":\"s-1\"}");
        EXPECT_SLICE(s.session_id, "s-1");
        EXPECT_INT(s.result.len, 0);
        EXPECT_INT(s.error.len, 0);
}

TEST(scan_finds_the_members_of_a_response)
{
        struct jscan s =
                scan(" { \"id\" : \"a\\\"b\" ,\n \"result\" : { \"sessionId\" : \"x\" } } \n");

        EXPECT_SLICE(s.id, "\"a\\\"b\"");
        EXPECT_SLICE(s.result, "{ \"sessionId\" : \"x\" }");
        EXPECT_SLICE(s.session_id, "x");
        EXPECT_INT(s.method.len, 0);

        s = scan("{\"id\":null,\"error\":{\"code\":-32600,\"message\":\"no\"}}");
        EXPECT_SLICE(s.id, "null");
        EXPECT_SLICE(s.error, "{\"code\":-32600,\"message\":\"no\"}");
}

TEST(scan_takes_values_of_any_kind)
{
        struct jscan s = scan("{\"id\":-1.5e3,\"method\":5,\"params\":[1,[2]],\"result\":null}");

        EXPECT_SLICE(s.id, "-1.5e3");
        EXPECT_INT(s.method.len, 0);
        EXPECT_SLICE(s.params, "[1,[2]]");
        EXPECT_SLICE(s.result, "null");
        EXPECT_INT(s.session_id.len, 0);
        s = scan("{}");
        EXPECT_INT(s.id.len, 0);
        s = scan("{\"params\":{\"sessionId\":7}}");
        EXPECT_INT(s.session_id.len, 0);
        s = scan("{\"params\":{},\"result\":\"sessionId\"}");
        EXPECT_INT(s.session_id.len, 0);
}

TEST(scan_looks_at_the_two_outer_levels_only)
{
        struct jscan s =
                scan("{\"x\":{\"id\":1,\"method\":\"no\",\"sessionId\":\"no\"},\"params\":{\"a\":"
                     "{\"sessionId\":\"no\"}},\"sessionId\":\"no\"}");

        EXPECT_INT(s.id.len, 0);
        EXPECT_INT(s.method.len, 0);
        EXPECT_INT(s.session_id.len, 0);
}

TEST(scan_of_duplicate_members_the_last_counts)
{
        struct jscan s =
                scan("{\"id\":1,\"method\":\"a\",\"params\":{\"sessionId\":\"1\",\"sessionId\":"
                     "\"2\"},\"id\":2,\"m\\u0065thod\":\"b\"}");

        EXPECT_SLICE(s.id, "2");
        EXPECT_SLICE(s.method, "b");
        EXPECT_SLICE(s.session_id, "2");
        s = scan("{\"params\":{\"sessionId\":\"1\"},\"params\":{}}");
        EXPECT_SLICE(s.params, "{}");
        EXPECT_INT(s.session_id.len, 0);
        s = scan("{\"params\":{\"sessionId\":\"1\"},\"params\":[]}");
        EXPECT_INT(s.session_id.len, 0);
        s = scan("{\"method\":\"a\",\"method\":1}");
        EXPECT_INT(s.method.len, 0);
        s = scan("{\"params\":{\"sessionId\":\"1\"},\"result\":{}}");
        EXPECT_SLICE(s.session_id, "1");
}

TEST(scan_refuses_what_is_not_one_object)
{
        static const char *const bad[] = {
                "",
                " ",
                "[]",
                "1",
                "\"{}\"",
                "{",
                "{}}",
                "{} x",
                "{1:2}",
                "{\"a\"}",
                "{\"a\":}",
                "{\"a\":1,}",
                "{\"a\":1 \"b\":2}",
                "{\"a\":tru}",
                "{\"id\":01}",
                "{\"id\":1.}",
                "{\"id\":+1}",
                "{\"a\":[}",
                "{\"a\":[1}]",
                "{\"a\":{]}",
                "{\"a\":[}]}",
                "{\"a\":[\x01]}",
                "{\"a\":[\xc3\xa9]}",
                "{\"a\":[#]}",
                "{\"a\":[\"]}",
                "{\"a\":\"\t\"}",
                "{\"a\":\"\\x\"}",
                "{\"a\":\"\\u12g4\"}",
                "{\"a\":[\"\\",
                "{\"a\":\"\\u12",
                "{\"a\":\"\xff\"}",
                "{\"a\":[\"12345678\xe2\x82\"]}",
                "{\"\xff\":1}",
                "{\"params\":{\"sessionId\":\"1\"}",
                "{\"params\":{\"sessionId\":x}}",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct jscan s = { .id = SLICE("untouched") };
                struct error err = {};

                EXPECT_ERR(json_scan(bad[i], strlen(bad[i]), &s, &err), ERR_INVALID, err);
                EXPECT_SLICE(s.id, "untouched");
        }
}

TEST(scan_lets_half_a_surrogate_pair_through)
{
        struct jscan s = scan("{\"params\":{\"text\":\"\\ud83d\",\"sessionId\":\"\\udc00\"}}");
        struct arena a;

        arena_init(&a, 0);
        EXPECT_SLICE(s.session_id, "\\udc00");
        EXPECT(!jscan_text(&a, s.session_id));
        arena_done(&a);
}

TEST(scan_depth_is_limited_like_the_tree)
{
        for (size_t depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX + 1; depth++) {
                for (int i = 0; i < 2; i++) {
                        struct buf b = {};
                        struct jscan s = {};
                        struct error err = {};

                        buf_puts(&b, i ? "{\"params\":{\"x\":" : "{\"x\":");
                        for (size_t k = 1 + (size_t) i; k < depth; k++)
                                buf_putc(&b, '[');
                        for (size_t k = 1 + (size_t) i; k < depth; k++)
                                buf_putc(&b, ']');
                        buf_puts(&b, i ? "}}" : "}");
                        EXPECT_INT(json_scan(b.data, b.len, &s, &err),
                                   depth > JSON_DEPTH_MAX ? -1 : 0);
                        buf_done(&b);
                }
        }
}

TEST(scan_never_reads_past_the_end)
{
        static const char doc[] =
                "{\"id\":12,\"method\":\"a\\u20ac\",\"params\":{\"sessionId\":\"s\",\"x\":"
                "[true,{\"y\":\"0123456789\"}]}}";

        for (size_t n = 0; n + 1 < sizeof(doc); n++) {
                _cleanup_free_ char *copy = malloc(n ? n : 1);
                struct jscan s = {};
                struct error err = {};

                memcpy(copy, doc, n);
                EXPECT_ERR(json_scan(copy, n, &s, &err), ERR_INVALID, err);
        }
}

TEST(scan_text_is_compared_decoded)
{
        struct arena a;

        arena_init(&a, 0);
        EXPECT(jscan_eq(SLICE("session/prompt"), "session/prompt"));
        EXPECT(jscan_eq(SLICE("session\\/prompt"), "session/prompt"));
        EXPECT(jscan_eq(SLICE("\\u0073ession\\u002fprompt"), "session/prompt"));
        EXPECT(jscan_eq(SLICE("\\ud83d\\ude00"), "\U0001f600"));
        EXPECT(!jscan_eq(SLICE("session"), "session/prompt"));
        EXPECT(!jscan_eq(SLICE("session\\/prompt2"), "session/prompt"));
        EXPECT(!jscan_eq(SLICE("sess\\u0000"), "sess"));
        EXPECT(!jscan_eq(SLICE("\\ud83d"), "\xed\xa0\xbd"));
        EXPECT(jscan_eq((struct slice) {}, ""));
        EXPECT_STR(jscan_text(&a, SLICE("a\\n\\u20ac\\\"")), "a\n\u20ac\"");
        EXPECT_STR(jscan_text(&a, (struct slice) {}), "");
        EXPECT(!jscan_text(&a, SLICE("a\\u0000b")));
        arena_done(&a);
}
