/* The JSON tree: what is accepted, what is refused and how, and what comes back out. */
#include "base/arena.h"
#include "base/buf.h"
#include "test.h"
#include "json/json.h"
#include "json/write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Parses and writes again; "" when the text was refused (err then says why). */
static char *round_trip(const char *text, size_t len, struct error *err)
{
        struct arena a;
        struct buf out = {};
        struct jw w = { .out = &out };
        const struct jval *v = NULL;

        arena_init(&a, 0);
        if (json_parse(&a, text, len, &v, err) == 0)
                jw_val(&w, NULL, v);
        arena_done(&a);
        return buf_take(&out);
}

struct text_case {
        const char *in, *out; /* out: canonical text, or the whole error message */
};

static void expect_same(const struct text_case *c)
{
        struct error err = {};
        _cleanup_free_ char *out = round_trip(c->in, strlen(c->in), &err);

        EXPECT_STR(err.msg, "");
        EXPECT_STR(out, c->out ? c->out : c->in);
}

static void expect_refused(const struct text_case *c)
{
        struct error err = {};
        _cleanup_free_ char *out = round_trip(c->in, strlen(c->in), &err);

        EXPECT_STR(out, "");
        EXPECT_INT(err.kind, ERR_INVALID);
        EXPECT_STR(err.msg, c->out);
}

TEST(json_round_trips_every_kind_of_value)
{
        static const struct text_case cases[] = {
                { "null" },
                { "true" },
                { "false" },
                { "0" },
                { "\"\"" },
                { "[]" },
                { "{}" },
                { "[[],{},[{}]]" },
                { "{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}" },
                { " \t\r\n[ 1 , 2 ]\n ", "[1,2]" },
                { "{ \"a\" : { \"b\" : [ ] } }", "{\"a\":{\"b\":[]}}" },
                { "{\"a\":1,\"a\":2}" },
                { "\"\\u0041\\n\\t\\b\\f\\r\\\"\\\\\\/\"", "\"A\\n\\t\\b\\f\\r\\\"\\\\/\"" },
                { "\"\\u001f\\u0000\\u007f\"", "\"\\u001f\\u0000\x7f\"" },
                { "\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\"\u00e9\u20ac\U0001f600\"" },
                { "\"\u00e9\u20ac\U0001f600\"" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                expect_same(&cases[i]);
}

TEST(json_keeps_numbers_as_written)
{
        static const struct text_case cases[] = {
                { "9007199254740993" },
                { "123456789012345678901234567890" },
                { "-0" },
                { "-0.0" },
                { "0.1" },
                { "1.0" },
                { "1E+2" },
                { "1e-0005" },
                { "1e999" },
                { "[0.10000000000000000000000000000001,-1]" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                expect_same(&cases[i]);
}

TEST(json_says_what_is_wrong_and_where)
{
        static const struct text_case cases[] = {
                { "", "EOF while parsing a value at line 1 column 0" },
                { "  ", "EOF while parsing a value at line 1 column 2" },
                { "{1}", "key must be a string at line 1 column 2" },
                { "{", "EOF while parsing an object at line 1 column 1" },
                { "{\"a\"", "EOF while parsing an object at line 1 column 4" },
                { "{\"a\" 1}", "expected `:` at line 1 column 6" },
                { "{\"a\":", "EOF while parsing a value at line 1 column 5" },
                { "{\"a\":}", "expected value at line 1 column 6" },
                { "{\"a\":1", "EOF while parsing an object at line 1 column 6" },
                { "{\"a\":1,", "EOF while parsing a value at line 1 column 7" },
                { "{\"a\":1,}", "trailing comma at line 1 column 8" },
                { "{\"a\":1 \"b\":2}", "expected `,` or `}` at line 1 column 8" },
                { "{\"a\":1]", "expected `,` or `}` at line 1 column 7" },
                { "[", "EOF while parsing a list at line 1 column 1" },
                { "[1", "EOF while parsing a list at line 1 column 2" },
                { "[1,]", "trailing comma at line 1 column 4" },
                { "[1 2]", "expected `,` or `]` at line 1 column 4" },
                { "[,1]", "expected value at line 1 column 2" },
                { "]", "expected value at line 1 column 1" },
                { "tru", "EOF while parsing a value at line 1 column 3" },
                { "trux", "expected ident at line 1 column 4" },
                { "True", "expected value at line 1 column 1" },
                { "nul\n", "expected ident at line 2 column 0" },
                { "NaN", "expected value at line 1 column 1" },
                { "1 2", "trailing characters at line 1 column 3" },
                { "{}x", "trailing characters at line 1 column 3" },
                { "[\n  1,\n  x\n]", "expected value at line 3 column 3" },
                { "\xef\xbb\xbf{}", "expected value at line 1 column 1" },
                { "/* c */ 1", "expected value at line 1 column 1" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                expect_refused(&cases[i]);
}

TEST(json_refuses_bad_numbers)
{
        static const struct text_case cases[] = {
                { "01", "invalid number at line 1 column 2" },
                { "-01", "invalid number at line 1 column 3" },
                { "-", "EOF while parsing a value at line 1 column 1" },
                { "-a", "invalid number at line 1 column 2" },
                { "1.", "EOF while parsing a value at line 1 column 2" },
                { "[1.]", "invalid number at line 1 column 4" },
                { "1e", "EOF while parsing a value at line 1 column 2" },
                { "[1e+]", "invalid number at line 1 column 5" },
                { "+1", "expected value at line 1 column 1" },
                { ".5", "expected value at line 1 column 1" },
                { "0x10", "trailing characters at line 1 column 2" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                expect_refused(&cases[i]);
}

#define CONTROL "control character (\\u0000-\\u001F) found while parsing a string"

TEST(json_refuses_bad_strings)
{
        static const struct text_case cases[] = {
                { "\"", "EOF while parsing a string at line 1 column 1" },
                { "\"abcdefghijk", "EOF while parsing a string at line 1 column 12" },
                { "\"\\", "EOF while parsing a string at line 1 column 2" },
                { "\"\\u12", "EOF while parsing a string at line 1 column 5" },
                { "\"\\x\"", "invalid escape at line 1 column 3" },
                { "\"\\u12g4\"", "invalid escape at line 1 column 6" },
                { "\"\t\"", CONTROL " at line 1 column 2" },
                { "\"abcdefgh\x01\"", CONTROL " at line 1 column 10" },
                { "\"a\nb\"", CONTROL " at line 2 column 0" },
                { "\"\\ud800\"", "lone surrogate in hex escape at line 1 column 8" },
                { "\"\\udc00\"", "lone surrogate in hex escape at line 1 column 8" },
                { "\"\\ud800\\n\"", "lone surrogate in hex escape at line 1 column 9" },
                { "\"\\ud800\\ud800\"", "lone surrogate in hex escape at line 1 column 14" },
                { "\"\\ud800\\u\"", "invalid escape at line 1 column 10" },
                { "\"\xff\"", "invalid unicode code point at line 1 column 2" },
                { "\"\xc0\xaf\"", "invalid unicode code point at line 1 column 2" },
                { "\"abcdefghi\xe2\x82\"", "invalid unicode code point at line 1 column 11" },
                { "\"\xed\xa0\x80\"", "invalid unicode code point at line 1 column 2" },
                { "\"\xf4\x90\x80\x80\"", "invalid unicode code point at line 1 column 2" },
                { "{\"\xff\":1}", "invalid unicode code point at line 1 column 3" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                expect_refused(&cases[i]);
}

TEST(json_refuses_nul_between_tokens)
{
        struct error err = {};
        _cleanup_free_ char *out = round_trip("[1\0]", 4, &err);

        EXPECT_STR(out, "");
        EXPECT_STR(err.msg, "expected `,` or `]` at line 1 column 3");
}

/* Every byte that must be noticed, at every place relative to the word that is looked at. */
TEST(json_notices_a_byte_at_every_alignment)
{
        for (size_t n = 0; n < 40; n++) {
                for (size_t i = 0; i < n; i++) {
                        struct error err = {};
                        char text[64];

                        text[0] = '"';
                        memset(text + 1, 'x', n);
                        memcpy(text + n + 1, "\"", 2);
                        text[1 + i] = 0x1f;
                        free(round_trip(text, n + 2, &err));
                        EXPECT_INT(err.kind, ERR_INVALID);
                        text[1 + i] = (char) 0x80;
                        err.kind = ERR_OK;
                        free(round_trip(text, n + 2, &err));
                        EXPECT_INT(err.kind, ERR_INVALID);
                        text[1 + i] = ' ';
                        _cleanup_free_ char *out = round_trip(text, n + 2, &err);
                        EXPECT_STR(out, text);
                }
        }
}

/* A prefix of a document is never a document, and is never read past its end. */
TEST(json_refuses_every_prefix)
{
        static const char doc[] = "{\"a\":[1.5e3,true,null,\"x\\u20ac\\ud83d\\ude00\\n\"],"
                                  "\"b\\\\\":{\"c\":\"0123456789\"}}";

        for (size_t n = 0; n + 1 < sizeof(doc); n++) {
                struct error err = {};
                _cleanup_free_ char *copy = malloc(n ? n : 1);

                memcpy(copy, doc, n);
                free(round_trip(copy, n, &err));
                EXPECT_INT(err.kind, ERR_INVALID);
                EXPECT(strncmp(err.msg, "EOF while parsing", 17) == 0);
        }
}

static char *nested(size_t depth, char open, char close)
{
        char *s = malloc(2 * depth + 1);

        memset(s, open, depth);
        memset(s + depth, close, depth);
        s[2 * depth] = '\0';
        return s;
}

TEST(json_depth_is_limited)
{
        for (size_t depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX; depth++) {
                struct error err = {};
                _cleanup_free_ char *text = nested(depth, '[', ']');
                _cleanup_free_ char *out = round_trip(text, 2 * depth, &err);

                EXPECT_STR(out, text);
        }
        struct error err = {};
        _cleanup_free_ char *text = nested(JSON_DEPTH_MAX + 1, '[', ']');
        _cleanup_free_ char *out = round_trip(text, strlen(text), &err);

        EXPECT_STR(out, "");
        EXPECT_STR(err.msg, "recursion limit exceeded at line 1 column 129");
}

TEST(json_siblings_do_not_count_as_depth)
{
        struct error err = {};
        struct buf b = {};

        buf_puts(&b, "[");
        for (int i = 0; i < 1000; i++)
                buf_puts(&b, "[],{},{\"a\":[1]},");
        buf_puts(&b, "0]");
        _cleanup_free_ char *out = round_trip(b.data, b.len, &err);
        EXPECT_STR(out, b.data);
        buf_done(&b);
}

TEST(json_of_two_equal_keys_the_last_counts)
{
        static const char text[] = "{\"a\":1,\"b\":2,\"a\":3,\"\\u0062\":4}";
        const struct jval *v = NULL;
        struct error err = {};
        struct arena a;
        int64_t n;

        arena_init(&a, 0);
        EXPECT_OK(json_parse(&a, text, strlen(text), &v, &err), err);
        EXPECT_INT(v->n, 4);
        EXPECT(json_i64(json_get(v, "a"), &n) && n == 3);
        EXPECT(json_i64(json_get(v, "b"), &n) && n == 4);
        EXPECT(!json_get(v, "c"));
        EXPECT(!json_get(v, ""));
        EXPECT(!json_get(&v->kids[0], "a"));
        EXPECT(!json_get(NULL, "a"));
        arena_done(&a);
}

TEST(json_strings_end_with_nul_and_may_hold_one)
{
        static const char text[] = "[\"a\\u0000b\",\"\",12,{\"k\":\"v\"}]";
        const struct jval *v = NULL;
        struct error err = {};
        struct arena a;

        arena_init(&a, 0);
        EXPECT_OK(json_parse(&a, text, strlen(text), &v, &err), err);
        EXPECT_INT(v->kids[0].text.len, 3);
        EXPECT_MEM(v->kids[0].text.at, "a\0b", 4);
        EXPECT_STR(json_str(&v->kids[1]), "");
        EXPECT_STR(v->kids[2].text.at, "12");
        EXPECT(!json_str(&v->kids[2]));
        EXPECT(!json_str(NULL));
        EXPECT_STR(v->kids[3].kids[0].key.at, "k");
        arena_done(&a);
}

TEST(json_integers_are_exact)
{
        static const char text[] = "[9223372036854775807,9223372036854775808,-9223372036854775808,"
                                   "-9223372036854775809,18446744073709551615,18446744073709551616,"
                                   "1.0,1e3,-0,\"1\"]";
        static const bool fits_i64[] = { 1, 0, 1, 0, 0, 0, 0, 0, 1, 0 };
        static const bool fits_u64[] = { 1, 1, 0, 0, 1, 0, 0, 0, 0, 0 };
        const struct jval *v = NULL;
        struct error err = {};
        struct arena a;

        arena_init(&a, 0);
        EXPECT_OK(json_parse(&a, text, strlen(text), &v, &err), err);
        for (size_t i = 0; i < v->n; i++) {
                uint64_t u;
                int64_t s;

                EXPECT_INT(json_i64(&v->kids[i], &s), fits_i64[i]);
                EXPECT_INT(json_u64(&v->kids[i], &u), fits_u64[i]);
        }
        arena_done(&a);
}

TEST(json_doubles_are_finite)
{
        static const char text[] = "[1.5,-2e3,1e308,1e309,-1e999,5e-324,\"1\"]";
        const struct jval *v = NULL;
        struct error err = {};
        struct arena a;
        double d = 0;

        arena_init(&a, 0);
        EXPECT_OK(json_parse(&a, text, strlen(text), &v, &err), err);
        EXPECT(json_f64(&v->kids[0], &d) && d == 1.5);
        EXPECT(json_f64(&v->kids[1], &d) && d == -2000);
        EXPECT(json_f64(&v->kids[2], &d) && d == 1e308);
        EXPECT(!json_f64(&v->kids[3], &d));
        EXPECT(!json_f64(&v->kids[4], &d));
        EXPECT(json_f64(&v->kids[5], &d) && d == 5e-324);
        EXPECT(!json_f64(&v->kids[6], &d));
        EXPECT(!json_f64(NULL, &d));
        arena_done(&a);
}

TEST(json_types_have_names)
{
        EXPECT_STR(json_type_name(J_NULL), "null");
        EXPECT_STR(json_type_name(J_TRUE), "boolean");
        EXPECT_STR(json_type_name(J_FALSE), "boolean");
        EXPECT_STR(json_type_name(J_NUM), "number");
        EXPECT_STR(json_type_name(J_STR), "string");
        EXPECT_STR(json_type_name(J_ARR), "array");
        EXPECT_STR(json_type_name(J_OBJ), "object");
}

/* Two bytes of text become a value of 48: the ceiling must hold for that, too. */
TEST(json_stays_under_the_ceiling_of_the_arena)
{
        enum { N = 100000, CEILING = 1 << 20 };
        _cleanup_free_ char *text = malloc(2 * N + 1);
        const struct jval *v = NULL;
        struct error err = {};
        struct arena a;

        /* "[1,1,…,1,1]" */
        for (size_t i = 0; i < 2 * N; i++)
                text[i] = i % 2 ? '1' : ',';
        text[0] = '[';
        text[2 * N] = ']';
        arena_init(&a, CEILING);
        EXPECT_ERR(json_parse(&a, text, 2 * N + 1, &v, &err), ERR_TOO_BIG, err);
        EXPECT(!v);
        EXPECT(a.used_bytes <= CEILING + 8192);
        arena_done(&a);

        arena_init(&a, 16 << 20);
        EXPECT_OK(json_parse(&a, text, 2 * N + 1, &v, &err), err);
        EXPECT_INT(v->n, N);
        arena_done(&a);
}

/* Values are contiguous and survive the growth of the parser's own stack. */
TEST(json_large_arrays_are_whole)
{
        struct buf b = {};
        const struct jval *v = NULL;
        struct error err = {};
        struct arena a;
        int64_t n;

        for (size_t size = 62; size <= 5000; size = size < 68 ? size + 1 : size * 2) {
                buf_clear(&b);
                for (size_t i = 0; i < size; i++)
                        buf_printf(&b, "%c{\"i\":%zu,\"s\":\"%zu\"}", i ? ',' : '[', i, i);
                buf_putc(&b, ']');
                arena_init(&a, 0);
                EXPECT_OK(json_parse(&a, b.data, b.len, &v, &err), err);
                EXPECT_INT(v->n, size);
                for (size_t i = 0; i < size; i++) {
                        EXPECT(json_i64(json_get(&v->kids[i], "i"), &n));
                        EXPECT_INT(n, i);
                        EXPECT_INT(strtol(json_str(json_get(&v->kids[i], "s")), NULL, 10), i);
                }
                arena_done(&a);
        }
        buf_done(&b);
}

/* Random trees, written by the writer, read back and written again. */
static uint32_t dice(uint32_t *seed, uint32_t sides)
{
        *seed = *seed * 1664525 + 1013904223;
        return (*seed >> 8) % sides;
}

static void random_string(uint32_t *seed, char *ret, size_t size)
{
        static const char *const parts[] = { "a",           "\n",     "\"",     "\\",
                                             "\x01",        "\u00e9", "\u20ac", "\U0001f600",
                                             "plain text ", "/",      "\x7f" };
        size_t n = dice(seed, 12);

        for (*ret = '\0'; n--;)
                strncat(ret, parts[dice(seed, ARRAY_LEN(parts))], size - strlen(ret) - 1);
}

static void random_value(struct jw *w, const char *key, uint32_t *seed, int depth)
{
        char text[256], name[256];

        switch (dice(seed, depth ? 8 : 6)) {
        case 0: jw_null(w, key); return;
        case 1: jw_bool(w, key, dice(seed, 2)); return;
        case 2: jw_i64(w, key, (int64_t) dice(seed, 1000000) - 500000); return;
        case 3: jw_f64(w, key, (double) dice(seed, 1000000) / 997); return;
        case 4:
        case 5:
                random_string(seed, text, sizeof(text));
                jw_str(w, key, text);
                return;
        case 6: jw_arr(w, key); break;
        default: jw_obj(w, key); break;
        }
        bool is_array = w->out->data[w->out->len - 1] == '[';
        for (uint32_t n = dice(seed, 6); n--;) {
                random_string(seed, name, sizeof(name));
                random_value(w, is_array ? NULL : name, seed, depth - 1);
        }
        jw_end(w);
}

TEST(json_random_trees_round_trip)
{
        uint32_t seed = 42;

        for (int i = 0; i < 2000; i++) {
                struct buf b = {};
                struct jw w = { .out = &b };
                struct error err = {};

                random_value(&w, NULL, &seed, 6);
                _cleanup_free_ char *out = round_trip(b.data, b.len, &err);
                EXPECT_STR(err.msg, "");
                EXPECT_STR(out, b.data);
                buf_done(&b);
        }
}
