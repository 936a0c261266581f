#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "core/logring.h"
#include "test.h"

enum { OUT = 1u << LOG_STDOUT, ERR = 1u << LOG_STDERR, BOTH = OUT | ERR };

static void add(struct logring *r, enum log_stream s, const char *text)
{
        logring_append(r, s, 1000, text, strlen(text));
}

/* Everything that the cursor gives now, as "1:abc 2:def [3-4 2/6]". */
static const char *drain(struct logcursor *c)
{
        static char text[1024];
        size_t at = 0;
        struct log_entry e;
        struct log_gap g;

        text[0] = '\0';
        for (int got; (got = logcursor_next(c, &e, &g)) != 0;) {
                const char *space = at ? " " : "";

                if (got == 1)
                        at += (size_t) snprintf(text + at, sizeof(text) - at, "%s%d:%.*s", space,
                                                (int) e.seq, (int) e.data->len, e.data->data);
                else
                        at += (size_t) snprintf(text + at, sizeof(text) - at, "%s[%d-%d %d/%d]",
                                                space, (int) g.from, (int) g.to, (int) g.n_entries,
                                                (int) g.n_bytes);
                EXPECT(at < sizeof(text));
        }
        return text;
}

static const char *read_from(struct logring *r, unsigned streams, uint64_t since, int64_t tail)
{
        struct logcursor c;
        const char *text;

        logcursor_init(&c, r, streams, since, tail);
        text = drain(&c);
        logcursor_done(&c);
        return text;
}

TEST(logring_numbers_entries_over_all_streams)
{
        struct logring *r = logring_new(100);

        EXPECT_INT(logring_last(r), 0);
        EXPECT_STR(read_from(r, BOTH, 0, -1), "");
        add(r, LOG_STDOUT, "a");
        add(r, LOG_STDERR, "b");
        add(r, LOG_STDOUT, ""); /* nothing is no entry */
        add(r, LOG_STDOUT, "c");
        EXPECT_INT(logring_last(r), 3);
        EXPECT_INT(logring_bytes(r), 3);
        EXPECT_STR(read_from(r, BOTH, 0, -1), "1:a 2:b 3:c");
        EXPECT_STR(read_from(r, OUT, 0, -1), "1:a 3:c");
        EXPECT_STR(read_from(r, ERR, 0, -1), "2:b");
        EXPECT_STR(read_from(r, 1u << LOG_PTY, 0, -1), "");
        logring_free(r);
}

TEST(logring_reads_behind_since_and_from_the_tail)
{
        struct logring *r = logring_new(100);

        add(r, LOG_STDOUT, "a");
        add(r, LOG_STDERR, "b");
        add(r, LOG_STDOUT, "c");
        add(r, LOG_STDERR, "d");
        EXPECT_STR(read_from(r, BOTH, 2, -1), "3:c 4:d");
        EXPECT_STR(read_from(r, BOTH, 4, -1), "");
        EXPECT_STR(read_from(r, BOTH, 9, -1), ""); /* a number that is yet to come */
        EXPECT_STR(read_from(r, BOTH, UINT64_MAX, -1), "");
        EXPECT_STR(read_from(r, BOTH, 0, 0), "");
        EXPECT_STR(read_from(r, BOTH, 0, 1), "4:d");
        EXPECT_STR(read_from(r, OUT, 0, 1), "3:c"); /* the last of its own streams */
        EXPECT_STR(read_from(r, BOTH, 0, 99), "1:a 2:b 3:c 4:d");
        EXPECT_STR(read_from(r, BOTH, 3, 99), "4:d"); /* whichever is later */
        EXPECT_STR(read_from(r, BOTH, 1, 2), "3:c 4:d");
        logring_free(r);
}

TEST(logring_drops_the_oldest_over_its_limit)
{
        struct logring *r = logring_new(9);

        add(r, LOG_STDOUT, "aaa");
        add(r, LOG_STDERR, "bbb");
        add(r, LOG_STDOUT, "ccc"); /* at the limit */
        EXPECT_STR(read_from(r, BOTH, 0, -1), "1:aaa 2:bbb 3:ccc");
        add(r, LOG_STDOUT, "d"); /* one above */
        EXPECT_INT(logring_bytes(r), 7);
        EXPECT_INT(logring_last(r), 4);
        EXPECT_STR(read_from(r, BOTH, 0, -1), "[1-1 1/3] 2:bbb 3:ccc 4:d");
        EXPECT_STR(read_from(r, ERR, 0, -1), "2:bbb"); /* it misses nothing of its own */
        EXPECT_STR(read_from(r, BOTH, 1, -1), "2:bbb 3:ccc 4:d");
        EXPECT_STR(read_from(r, BOTH, 0, 99), "2:bbb 3:ccc 4:d"); /* a tail has no gap */
        logring_free(r);
}

TEST(logring_says_what_a_late_reader_missed)
{
        struct logring *r = logring_new(2);

        for (int i = 0; i < 6; i++)
                add(r, i % 3 ? LOG_STDOUT : LOG_STDERR, "x"); /* 1 and 4 are errors */
        EXPECT_STR(read_from(r, BOTH, 0, -1), "[1-4 4/4] 5:x 6:x");
        EXPECT_STR(read_from(r, OUT, 0, -1), "[1-4 2/2] 5:x 6:x");
        /* Whose entries 3 and 4 were, nobody knows any more. */
        EXPECT_STR(read_from(r, BOTH, 2, -1), "[3-4 2/0] 5:x 6:x");
        logring_free(r);
}

TEST(logring_counts_what_an_open_reader_misses)
{
        struct logring *r = logring_new(4);
        struct logcursor all, err;

        logcursor_init(&all, r, BOTH, 0, -1);
        logcursor_init(&err, r, ERR, 0, -1);
        add(r, LOG_STDOUT, "aa");
        EXPECT_STR(drain(&all), "1:aa");
        add(r, LOG_STDOUT, "bb");
        add(r, LOG_STDERR, "cc");
        add(r, LOG_STDOUT, "dd");
        EXPECT_STR(drain(&err), "3:cc"); /* 1 and 2 were of no interest */
        EXPECT_STR(drain(&all), "[2-2 1/2] 3:cc 4:dd");
        EXPECT_STR(drain(&all), "");
        logcursor_done(&all);
        logcursor_done(&err);
        logcursor_done(&err);
        logring_free(r);
}

TEST(logring_keeps_what_a_held_cursor_has_not_read)
{
        struct logring *r = logring_new(4);
        struct logcursor c;

        logcursor_init(&c, r, BOTH, 0, -1);
        c.is_held = true;
        for (int i = 0; i < 4; i++)
                add(r, LOG_STDOUT, "xx");
        EXPECT_INT(logring_bytes(r), 8);
        EXPECT_INT(logcursor_behind(&c), 8 + 4 * LOGRING_ENTRY_COST);
        EXPECT_STR(drain(&c), "1:xx 2:xx 3:xx 4:xx");
        EXPECT_INT(logcursor_behind(&c), 0);
        add(r, LOG_STDOUT, "yy"); /* the next one trims */
        EXPECT_INT(logring_bytes(r), 4);
        c.is_held = false; /* no longer waited for */
        for (int i = 0; i < 4; i++)
                add(r, LOG_STDOUT, "zz");
        EXPECT_INT(logring_bytes(r), 4);
        EXPECT_STR(drain(&c), "[5-7 3/6] 8:zz 9:zz");
        logcursor_done(&c);
        logring_free(r);
}

TEST(logring_cuts_long_pieces)
{
        const size_t len = 2 * LOGRING_ENTRY_MAX + 1;
        _cleanup_free_ char *big = malloc(len);
        struct logring *r = logring_new(1 << 20);
        struct logcursor c;
        struct log_entry e;
        struct log_gap g;
        struct chunk *kept;

        for (size_t i = 0; i < len; i++)
                big[i] = (char) (i * 7);
        logring_append(r, LOG_PTY, 5, big, LOGRING_ENTRY_MAX);
        EXPECT_INT(logring_last(r), 1);
        logring_append(r, LOG_PTY, 6, big, len);
        EXPECT_INT(logring_last(r), 4);
        logcursor_init(&c, r, 1u << LOG_PTY, 1, -1);
        for (size_t at = 0; at < len; at += LOGRING_ENTRY_MAX) {
                size_t n = MIN((size_t) LOGRING_ENTRY_MAX, len - at);

                EXPECT_INT(logcursor_next(&c, &e, &g), 1);
                EXPECT_INT(e.time_ms, 6);
                EXPECT_INT(e.data->len, n);
                EXPECT_MEM(e.data->data, big + at, n);
        }
        kept = chunk_ref(e.data); /* outlives the ring, with the piece that it was cut from */
        logcursor_done(&c);
        logring_free(r);
        EXPECT_INT(kept->data[0], big[len - 1]);
        chunk_unref(kept);
}

TEST(logring_smaller_than_a_piece_keeps_its_end)
{
        struct logring *r = logring_new(4);

        add(r, LOG_STDOUT, "0123456789");
        EXPECT_STR(read_from(r, BOTH, 0, -1), "[1-2 2/8] 3:89");
        add(r, LOG_STDOUT, "abcd");
        EXPECT_STR(read_from(r, BOTH, 3, -1), "4:abcd");
        logring_set_max(r, 1);
        EXPECT_INT(logring_bytes(r), 0);
        add(r, LOG_STDOUT, "xyz");
        EXPECT_STR(read_from(r, BOTH, 6, -1), "7:z");
        logring_free(r);
}

TEST(logring_bounds_the_number_of_entries_too)
{
        struct logring *r = logring_new(2 * LOGRING_ENTRIES_MIN * LOGRING_ENTRY_COST);

        for (int i = 0; i < 2 * LOGRING_ENTRIES_MIN; i++)
                add(r, LOG_STDOUT, "x");
        EXPECT_INT(logring_bytes(r), 2 * LOGRING_ENTRIES_MIN);
        add(r, LOG_STDOUT, "x");
        EXPECT_INT(logring_bytes(r), 2 * LOGRING_ENTRIES_MIN);
        logring_set_max(r, 1 << 20);
        logring_set_max(r, LOGRING_ENTRIES_MIN + 1);
        EXPECT_INT(logring_bytes(r), LOGRING_ENTRIES_MIN);
        logring_free(r);
}
