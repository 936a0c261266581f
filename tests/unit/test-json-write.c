/* The JSON writer: brackets and commas, escapes, numbers, broken text. */
#include "base/arena.h"
#include "base/buf.h"
#include "test.h"
#include "json/json.h"
#include "json/write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

TEST(jw_places_brackets_and_commas)
{
        struct buf b = {};
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "status", "ok");
        jw_str(&w, "none", NULL);
        jw_arr(&w, "list");
        jw_i64(&w, NULL, INT64_MIN);
        jw_i64(&w, NULL, -1);
        jw_u64(&w, NULL, UINT64_MAX);
        jw_bool(&w, NULL, true);
        jw_bool(&w, NULL, false);
        jw_null(&w, NULL);
        jw_obj(&w, NULL);
        jw_end(&w);
        jw_arr(&w, NULL);
        jw_end(&w);
        jw_raw(&w, NULL, "{\"x\":1}", 7);
        jw_end(&w);
        jw_i64(&w, "a\"b", 0);
        jw_end(&w);
        EXPECT_STR(b.data, "{\"status\":\"ok\",\"none\":null,\"list\":[-9223372036854775808,-1,"
                           "18446744073709551615,true,false,null,{},[],{\"x\":1}],\"a\\\"b\":0}");
        EXPECT_INT(w.depth, 0);
        buf_done(&b);
}

TEST(jw_closes_the_right_bracket_at_every_depth)
{
        struct buf b = {};
        struct jw w = { .out = &b };
        size_t open;

        for (int i = 0; i < JSON_DEPTH_MAX; i++)
                if (i % 3)
                        jw_arr(&w, i && (i - 1) % 3 == 0 ? "k" : NULL);
                else
                        jw_obj(&w, i && (i - 1) % 3 == 0 ? "k" : NULL);
        open = b.len;
        for (int i = JSON_DEPTH_MAX; i-- > 0;)
                jw_end(&w);
        for (int i = JSON_DEPTH_MAX; i-- > 0; open++)
                EXPECT_INT(b.data[open], i % 3 ? ']' : '}');
        EXPECT_INT(open, b.len);
        buf_done(&b);
}

static void expect_string(const char *s, size_t len, const char *want)
{
        struct buf b = {};
        struct jw w = { .out = &b };

        jw_strn(&w, NULL, s, len);
        EXPECT_STR(b.data, want);
        buf_done(&b);
}

TEST(jw_escapes_what_must_be)
{
        expect_string("", 0, "\"\"");
        expect_string("\"\\/\b\f\n\r\t", 8, "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
        expect_string("\0\x01\x0b\x1f\x20\x7f", 6, "\"\\u0000\\u0001\\u000b\\u001f \x7f\"");
        expect_string("\u00e9\u20ac\U0001f600\u2028", 12, "\"\u00e9\u20ac\U0001f600\u2028\"");
}

/* As many U+FFFD as a browser's TextDecoder would give. */
TEST(jw_replaces_broken_utf8)
{
#define X "\xef\xbf\xbd"
        expect_string("a\xff"
                      "b",
                      3, "\"a" X "b\"");
        expect_string("\x80\x80", 2, "\"" X X "\"");
        expect_string("\xc0\xaf", 2, "\"" X X "\"");
        expect_string("\xc3", 1, "\"" X "\"");
        expect_string("\xe2\x82", 2, "\"" X "\"");
        expect_string("\xe2\x82(", 3, "\"" X "(\"");
        expect_string("\xf0\x9f\x98", 3, "\"" X "\"");
        expect_string("\xf0\x9f\x98\"", 4, "\"" X "\\\"\"");
        expect_string("\xe0\x80\x80", 3, "\"" X X X "\"");
        expect_string("\xed\xa0\x80", 3, "\"" X X X "\"");
        expect_string("\xf4\x90\x80\x80", 4, "\"" X X X X "\"");
        expect_string("\xf5\x80", 2, "\"" X X "\"");
        expect_string("12345678\xe2\x82\xe2\x82\xac", 13, "\"12345678" X "\u20ac\"");
#undef X
}

/* Long runs of escapes outgrow the room that was taken for them. */
TEST(jw_writes_text_that_is_all_escapes)
{
        for (size_t n = 0; n < 300; n++) {
                _cleanup_free_ char *text = calloc(1, n + 1);
                struct buf b = {};
                struct jw w = { .out = &b };

                memset(text, 1, n);
                jw_strn(&w, NULL, text, n);
                EXPECT_INT(b.len, 6 * n + 2);
                for (size_t i = 0; i < n; i++)
                        EXPECT_MEM(b.data + 1 + 6 * i, "\\u0001", 6);
                buf_done(&b);
        }
}

static void expect_number(double v, const char *want)
{
        struct buf b = {};
        struct jw w = { .out = &b };

        jw_f64(&w, NULL, v);
        EXPECT_STR(b.data, want);
        buf_done(&b);
}

TEST(jw_f64_uses_the_fewest_digits)
{
        expect_number(0, "0");
        expect_number(-0.0, "-0");
        expect_number(0.1, "0.1");
        expect_number(0.1 + 0.2, "0.30000000000000004");
        expect_number(1.0 / 3, "0.3333333333333333");
        expect_number(100, "100");
        expect_number(1700000000123.0, "1700000000123");
        expect_number(1e20, "1e20");
        expect_number(1e-7, "1e-7");
        expect_number(-1.5e300, "-1.5e300");
        expect_number(5e-324, "5e-324");
        expect_number(1.7976931348623157e308, "1.7976931348623157e308");
        expect_number(9007199254740993.0, "9007199254740992");
        expect_number(NAN, "null");
        expect_number(INFINITY, "null");
        expect_number(-INFINITY, "null");
}

TEST(jw_f64_reads_back)
{
        uint64_t bits = 0x9e3779b97f4a7c15;

        for (int i = 0; i < 4000; i++) {
                struct buf b = {};
                struct jw w = { .out = &b };
                double v;

                bits ^= bits << 13;
                bits ^= bits >> 7;
                bits ^= bits << 17;
                memcpy(&v, &bits, sizeof(v));
                if (!isfinite(v))
                        continue;
                jw_f64(&w, NULL, v);
                EXPECT(strtod(b.data, NULL) == v);
                buf_done(&b);
        }
}

TEST(jw_val_keeps_what_was_parsed)
{
        static const char text[] = "{\"n\":1.50,\"s\":\"a\\u0000\\n\",\"o\":{\"a\":[]}}";
        const struct jval *v = NULL;
        struct error err = {};
        struct buf b = {};
        struct jw w = { .out = &b };
        struct arena a;

        arena_init(&a, 0);
        EXPECT_OK(json_parse(&a, text, strlen(text), &v, &err), err);
        jw_arr(&w, NULL);
        jw_val(&w, NULL, v);
        jw_val(&w, NULL, json_get(v, "n"));
        jw_end(&w);
        EXPECT_STR(b.data, "[{\"n\":1.50,\"s\":\"a\\u0000\\n\",\"o\":{\"a\":[]}},1.50]");
        buf_done(&b);
        arena_done(&a);
}
