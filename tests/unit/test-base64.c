#include "base/base64.h"

#include "base/buf.h"
#include "test.h"

static const struct {
        const char *bytes, *text;
} rows[] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "foobar", "Zm9vYmFy" },
        { "foobarf", "Zm9vYmFyZg==" },
        { "foobarfo", "Zm9vYmFyZm8=" },
        { "foobarfoo", "Zm9vYmFyZm9v" },
        { "\xff\xff\xff\xfb\xf0\x3e", "////+/A+" },
};

TEST(base64_encodes_the_examples_of_the_rfc)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct buf b = { 0 };

                buf_puts(&b, "<");
                base64_put(&b, rows[i].bytes, strlen(rows[i].bytes));
                EXPECT_INT(b.len, 1 + strlen(rows[i].text));
                EXPECT_STR(b.data + 1, rows[i].text);
                EXPECT_INT(base64_len(strlen(rows[i].bytes)), strlen(rows[i].text));
                buf_done(&b);
        }
}

TEST(base64_decodes_what_it_encoded)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error err = { 0 };
                struct buf b = { 0 };

                buf_puts(&b, "<");
                EXPECT_OK(base64_decode(SLICE(rows[i].text), &b, NULL, &err), err);
                EXPECT_STR(b.data + 1, rows[i].bytes);
                buf_done(&b);
        }
}

TEST(base64_every_length_comes_back)
{
        unsigned char data[300];
        struct error err = { 0 };
        struct buf text = { 0 }, back = { 0 };

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (unsigned char) (i * 167 + 13);
        for (size_t n = 0; n <= sizeof(data); n++) {
                buf_clear(&text);
                buf_clear(&back);
                base64_put(&text, data, n);
                EXPECT_OK(base64_decode((struct slice) { text.data, text.len }, &back, NULL, &err),
                          err);
                EXPECT_INT(back.len, n);
                if (n)
                        EXPECT_MEM(back.data, data, n);
        }
        buf_done(&text);
        buf_done(&back);
}

/* Exact memory on both sides: a read or write beyond it is seen by the sanitizer. */
TEST(base64_reads_and_writes_nothing_beyond_the_end)
{
        for (size_t n = 0; n < 40; n++) {
                char *in = malloc(n + !n), *out = malloc(base64_len(n) + !n);

                memset(in, 'x', n + !n);
                EXPECT(base64_encode(out, in, n) == out + base64_len(n));
                free(in);
                free(out);
        }
}

TEST(base64_refuses_bad_text_and_says_where)
{
        static const struct {
                const char *text, *why;
                size_t at;
        } bad[] = {
                { "!!!!", "Invalid symbol 33, offset 0.", 0 },
                { "Zm9v!mFy", "Invalid symbol 33, offset 4.", 4 },
                { "Zm9vY mFy", "Invalid symbol 32, offset 5.", 5 },
                { "Zm9v\nmFy", "Invalid symbol 10, offset 4.", 4 },
                { "Zg==Zg==", "Invalid symbol 61, offset 2.", 2 },
                { "Zm9v====", "Invalid symbol 61, offset 4.", 4 },
                { "Z===", "Invalid symbol 61, offset 1.", 1 },
                { "=", "Invalid symbol 61, offset 0.", 0 },
                { "Zg=x", "Invalid symbol 61, offset 2.", 2 },
                { "Zm9_", "Invalid symbol 95, offset 3.", 3 },
                { "Zm9-", "Invalid symbol 45, offset 3.", 3 },
                { "Z", "Invalid input length: 1", 1 },
                { "Zm9vZ", "Invalid input length: 5", 5 },
                { "Zg", "Invalid padding", 2 },
                { "Zg=", "Invalid padding", 3 },
                { "Zm8", "Invalid padding", 3 },
                { "Zh==", "Invalid last symbol 104, offset 1.", 1 },
                { "Zm9=", "Invalid last symbol 57, offset 2.", 2 },
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct error err = { 0 };
                struct buf b = { 0 };
                size_t at = 99;

                buf_puts(&b, "kept");
                EXPECT_ERR(base64_decode(SLICE(bad[i].text), &b, &at, &err), ERR_INVALID, err);
                EXPECT_STR(err.msg, bad[i].why);
                EXPECT_INT(at, bad[i].at);
                EXPECT_STR(b.data, "kept");
                buf_done(&b);
        }
}

TEST(base64_a_nul_in_the_text_is_a_bad_symbol)
{
        struct error err = { 0 };
        struct buf b = { 0 };

        EXPECT_ERR(base64_decode((struct slice) { "Zm\0v", 4 }, &b, NULL, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "Invalid symbol 0, offset 2.");
        buf_done(&b);
}
