#include <stdio.h>

#include "base/clock.h"
#include "test.h"

static void expect_time(const char *text, int64_t want_us)
{
        int64_t seen_us = -1;

        if (!clock_parse_rfc3339(text, &seen_us))
                test_fail(TEST_AT, "'%s' was refused", text);
        EXPECT_INT(seen_us, want_us);
}

TEST(rfc3339_with_zulu_and_offsets_is_read)
{
        expect_time("1970-01-01T00:00:00Z", 0);
        expect_time("1970-01-01T00:00:01z", 1000000);
        expect_time("1970-01-01T02:00:00+02:00", 0);
        expect_time("1969-12-31T19:30:00-04:30", 0);
        expect_time("2026-01-02T03:04:05Z", 1767323045 * INT64_C(1000000));
        expect_time("2024-02-29T00:00:00Z", 1709164800 * INT64_C(1000000));
}

TEST(rfc3339_fractions_are_read_to_the_microsecond)
{
        expect_time("1970-01-01T00:00:00.5Z", 500000);
        expect_time("1970-01-01T00:00:00.000001Z", 1);
        expect_time("1970-01-01T00:00:00.0000019Z", 1);
        expect_time("1970-01-01T00:00:00.123456789123456789+00:00", 123456);
}

TEST(rfc3339_refuses_what_is_no_time)
{
        static const char *const bad[] = {
                "",
                "tomorrow",
                "2026-01-02",
                "2026-01-02T03:04:05",
                "2026-01-02 03:04:05Z",
                "2026-13-02T03:04:05Z",
                "2026-01-32T03:04:05Z",
                "2026-01-02T25:04:05Z",
                "2026-01-02T03:04:05Zulu",
                "2026-01-02T03:04:05+2:00",
                "2026-01-02T03:04:05+02:000",
                "2026-01-02T03:04:05+0200",
                "2026-01-02T03:04:05.Z",
                "2026-01-02T03:04:05+99:00",
                "2026-02-30T00:00:00Z",
                "26-01-02T03:04:05Z",
                " 2026-01-02T03:04:05Z",
                "2026-1-2T3:4:5Z",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                int64_t us;

                if (clock_parse_rfc3339(bad[i], &us))
                        test_fail(TEST_AT, "'%s' was taken", bad[i]);
        }
}

TEST(rfc3339_text_of_a_time_is_read_back)
{
        static const int64_t times[] = { 0, 1, 999999, 1767323045123456, 4102444800000000 };
        char text[CLOCK_TEXT_MAX];
        int64_t us;

        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
                clock_rfc3339(times[i], text);
                EXPECT(clock_parse_rfc3339(text, &us));
                EXPECT_INT(us, times[i]);
        }
        EXPECT_STR((clock_rfc3339(1767323045123456, text), text), "2026-01-02T03:04:05.123456Z");
}

TEST(monotonic_clock_does_not_go_back)
{
        int64_t last_us = clock_mono_us();

        for (int i = 0; i < 1000; i++) {
                int64_t now_us = clock_mono_us();

                EXPECT(now_us >= last_us);
                last_us = now_us;
        }
}
