#include <stdlib.h>

#include "base/alloc.h"
#include "io/line.h"
#include "test.h"

struct lines {
        struct buf text; /* "<line>|" each */
};

static void take(void *arg, const char *line, size_t len)
{
        struct lines *l = arg;

        buf_put(&l->text, line, len);
        buf_putc(&l->text, '|');
}

TEST(line_framer_cuts_at_line_feeds_however_the_bytes_arrive)
{
        static const char text[] = "one\ntwo\r\n\nfour\r\r\nrest";
        struct error err = { 0 };

        for (size_t step = 1; step < sizeof(text); step++) {
                struct line_framer f = { .max_bytes = 8 };
                struct lines l = { 0 };

                for (size_t at = 0; at < sizeof(text) - 1; at += step)
                        EXPECT_OK(line_feed(&f, text + at, MIN(step, sizeof(text) - 1 - at), take,
                                            &l, &err),
                                  err);
                EXPECT_STR(l.text.data, "one|two||four\r|");
                EXPECT_INT(f.held.len, 4);
                line_done(&f);
                buf_done(&l.text);
        }
}

TEST(line_framer_takes_a_line_at_the_limit_and_one_below)
{
        struct line_framer f = { .max_bytes = 8 };
        struct lines l = { 0 };
        struct error err = { 0 };

        EXPECT_INT(line_feed(&f, "1234567\n12345678\n", 17, take, &l, &err), 2);
        EXPECT_INT(line_feed(&f, "12345678", 8, take, &l, &err), 0);
        EXPECT_INT(line_feed(&f, "\n", 1, take, &l, &err), 1);
        EXPECT_STR(l.text.data, "1234567|12345678|12345678|");
        line_done(&f);
        buf_done(&l.text);
}

TEST(line_framer_refuses_long_line)
{
        struct line_framer f = { .max_bytes = 8 };
        struct lines l = { 0 };
        struct error err = { 0 };

        EXPECT_ERR(line_feed(&f, "ok\n123456789\n", 13, take, &l, &err), ERR_TOO_BIG, err);
        EXPECT_STR(l.text.data, "ok|");
        EXPECT_INT(f.held.len, 0);
        line_done(&f);
        buf_done(&l.text);
}

TEST(line_framer_refuses_a_line_that_grows_too_long_in_pieces)
{
        struct line_framer f = { .max_bytes = 8 };
        struct lines l = { 0 };
        struct error err = { 0 };

        for (int i = 0; i < 8; i++)
                EXPECT_INT(line_feed(&f, "x", 1, take, &l, &err), 0);
        EXPECT_ERR(line_feed(&f, "x", 1, take, &l, &err), ERR_TOO_BIG, err);
        EXPECT(!l.text.data);
        line_done(&f);
}
