#include "test.h"

#include <time.h>

#include "base/clock.h"
#include "base/str.h"

/* str */

TEST(slice_cut_gives_every_piece_once)
{
        struct slice rest = SLICE("a,,b,"), piece;

        EXPECT(slice_cut(&rest, ',', &piece) && slice_eq(piece, "a"));
        EXPECT(slice_cut(&rest, ',', &piece) && slice_eq(piece, ""));
        EXPECT(slice_cut(&rest, ',', &piece) && slice_eq(piece, "b"));
        EXPECT(slice_cut(&rest, ',', &piece) && slice_eq(piece, ""));
        EXPECT(!slice_cut(&rest, ',', &piece));
}

TEST(slice_trim_takes_blanks_of_both_ends_only)
{
        EXPECT(slice_eq(slice_trim(SLICE(" \ta b\t ")), "a b"));
        EXPECT(slice_eq(slice_trim(SLICE(" \t ")), ""));
        EXPECT(slice_eq(slice_trim(SLICE("\na")), "\na"));
}

TEST(slice_list_has_finds_whole_words)
{
        EXPECT(slice_list_has(SLICE("keep-alive, Upgrade"), "upgrade"));
        EXPECT(slice_list_has(SLICE(" Close "), "close"));
        EXPECT(!slice_list_has(SLICE("keep-alive, Upgraded"), "upgrade"));
        EXPECT(!slice_list_has(SLICE(""), "close"));
        EXPECT(!slice_list_has(SLICE("a b"), "b"));
}

TEST(str_starts_and_ends)
{
        EXPECT(str_starts("abc", "") && str_starts("abc", "abc") && !str_starts("ab", "abc"));
        EXPECT(str_ends("abc", "") && str_ends("abc", "bc") && !str_ends("c", "bc"));
}

TEST(str_to_u64_takes_numbers_and_nothing_else)
{
        static const char *const bad[] = { "",   "-1",  "+1",  " 1",
                                           "1 ", "0x1", "1e3", "18446744073709551616" };
        uint64_t v = 7;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                EXPECT(!str_to_u64(bad[i], strlen(bad[i]), &v));
        EXPECT_INT(v, 7);
        EXPECT(str_to_u64("18446744073709551615", 20, &v) && v == UINT64_MAX);
        EXPECT(str_to_u64("007", 3, &v) && v == 7);
        EXPECT(str_to_u64("123", 2, &v) && v == 12);
}

TEST(str_to_i64_keeps_both_ends_of_the_range)
{
        int64_t v = 7;

        EXPECT(str_to_i64("9223372036854775807", 19, &v) && v == INT64_MAX);
        EXPECT(str_to_i64("-9223372036854775808", 20, &v) && v == INT64_MIN);
        EXPECT(!str_to_i64("9223372036854775808", 19, &v));
        EXPECT(!str_to_i64("-9223372036854775809", 20, &v));
        EXPECT(!str_to_i64("-", 1, &v) && !str_to_i64("", 0, &v) && !str_to_i64("--1", 3, &v));
}

TEST(str_equal_secret_compares_whole_strings)
{
        EXPECT(str_equal_secret("abc", 3, "abc", 3));
        EXPECT(!str_equal_secret("abd", 3, "abc", 3));
        EXPECT(!str_equal_secret("ab", 2, "abc", 3));
        EXPECT(!str_equal_secret("abcabc", 6, "abc", 3));
        EXPECT(!str_equal_secret("abc", 3, "abcabc", 6));
        EXPECT(!str_equal_secret("", 0, "abc", 3));
        EXPECT(!str_equal_secret("abc", 3, "", 0));
        EXPECT(str_equal_secret("a\0b", 3, "a\0b", 3));
        EXPECT(!str_equal_secret("a\0b", 3, "a\0c", 3));
}

TEST(utf8_check_finds_the_first_bad_byte)
{
        static const struct {
                const char *text;
                size_t bad; /* == strlen: none */
        } rows[] = {
                { "", 0 },
                { "plain text of more than eight bytes", 35 },
                { "gr\xc3\xbc\xc3\x9f", 6 },
                { "\xe2\x82\xac", 3 },
                { "\xf0\x9f\x98\x80", 4 },
                { "\xf4\x8f\xbf\xbf", 4 },  /* U+10FFFF */
                { "a\xf4\x90\x80\x80", 1 }, /* beyond */
                { "\xed\x9f\xbf", 3 },      /* U+D7FF */
                { "ab\xed\xa0\x80", 2 },    /* surrogate */
                { "\xc0\xaf", 0 },          /* overlong */
                { "\xe0\x9f\xbf", 0 },
                { "\xf0\x8f\xbf\xbf", 0 },
                { "\x80", 0 },
                { "12345678\xff", 8 },
                { "1234567\xe2\x82", 7 }, /* cut short */
                { "\xe2\x82\x61", 0 },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                EXPECT_INT(utf8_check(rows[i].text, strlen(rows[i].text)), rows[i].bad);
        EXPECT_INT(utf8_check("a\0b", 3), 3);
}

TEST(percent_decode_takes_whole_escapes_only)
{
        char out[32];
        size_t n;

        EXPECT(percent_decode("a%2Fb%00c+", 10, false, out, &n));
        EXPECT_INT(n, 6);
        EXPECT_MEM(out, "a/b\0c+", 7);
        EXPECT(percent_decode("a+b%2b", 6, true, out, &n));
        EXPECT_STR(out, "a b+");
        EXPECT(percent_decode("", 0, false, out, &n) && n == 0);
        EXPECT(!percent_decode("%", 1, false, out, &n));
        EXPECT(!percent_decode("%2", 2, false, out, &n));
        EXPECT(!percent_decode("%2g", 3, false, out, &n));
        EXPECT(!percent_decode("%g2", 3, false, out, &n));
        EXPECT(!percent_decode("%41", 2, false, out,
                               &n)); /* the digit behind the end is not ours */
}

/* clock */

TEST(clock_text_is_utc_with_microseconds)
{
        char text[CLOCK_TEXT_MAX];

        clock_rfc3339(0, text);
        EXPECT_STR(text, "1970-01-01T00:00:00.000000Z");
        clock_rfc3339(1767323045123456, text);
        EXPECT_STR(text, "2026-01-02T03:04:05.123456Z");
        clock_rfc3339(1767323045000001, text); /* same second: the cached part must not be stale */
        EXPECT_STR(text, "2026-01-02T03:04:05.000001Z");
}

TEST(clock_reads_back_what_it_writes)
{
        static const struct {
                const char *text;
                int64_t us;
        } rows[] = {
                { "2026-01-02T03:04:05.123456Z", 1767323045123456 },
                { "2026-01-02T03:04:05Z", 1767323045000000 },
                { "2026-01-02T05:04:05+02:00", 1767323045000000 },
                { "2026-01-02T02:34:05-00:30", 1767323045000000 },
                { "2026-01-02T03:04:05.5z", 1767323045500000 },
                { "2026-01-02T03:04:05.1234567899Z", 1767323045123456 },
        };
        static const char *const bad[] = { "",
                                           "2026-01-02",
                                           "2026-01-02T03:04:05",
                                           "2026-13-02T03:04:05Z",
                                           "2026-01-02T03:04:05Zx",
                                           "2026-01-02T03:04:05+2",
                                           "now" };
        int64_t us;

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                EXPECT(clock_parse_rfc3339(rows[i].text, &us));
                EXPECT_INT(us, rows[i].us);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                EXPECT(!clock_parse_rfc3339(bad[i], &us));
}

TEST(clock_mono_does_not_go_back)
{
        int64_t a = clock_mono_us(), b = clock_mono_us();

        EXPECT(b >= a && a > 0);
        EXPECT(clock_real_us() > 1600000000000000);
}

TEST(clock_http_date_is_an_imf_fixdate)
{
        struct tm tm = {};
        const char *text = clock_http_date();
        const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        int64_t now_s = clock_real_us() / 1000000;

        EXPECT_INT(strlen(text), 29);
        EXPECT(end && !*end);
        EXPECT(now_s - (int64_t) timegm(&tm) <= 1);
}
