/* Entity tags, dates, conditions and ranges. The requests come in over a real connection, so that
 * headers are what the parser makes of them. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "http/condition.h"
#include "http/conn.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "test.h"

/* ---- the pure parts ---- */

TEST(etag_list_compares_strongly_or_weakly)
{
        static const struct {
                const char *list, *etag;
                bool is_strong, is_weak; /* what the two comparisons say */
        } cases[] = {
                /* the table of RFC 9110 section 8.8.3.2 */
                { "W/\"1\"", "W/\"1\"", false, true },
                { "W/\"1\"", "W/\"2\"", false, false },
                { "W/\"1\"", "\"1\"", false, true },
                { "\"1\"", "\"1\"", true, true },
                { "*", "\"1\"", true, true },
                { " * ", NULL, true, true },
                { "\"a\", \"b\"", "\"b\"", true, true },
                { ",, \"a\"\t,\t \"b\" ,", "\"a\"", true, true },
                { "\"a,b\"", "\"a,b\"", true, true },
                { "\"a,b\"", "\"a\"", false, false },
                { "\"\"", "\"\"", true, true },
                { "\"\xc3\xa9\"", "\"\xc3\xa9\"", true, true },
                { "\"1\"", NULL, false, false },
                { "\"1\"", "none", false, false },
                { "\"11\"", "\"1\"", false, false },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                bool is_bad = true;

                EXPECT_INT(etag_list_has(cases[i].list, cases[i].etag, false, &is_bad),
                           cases[i].is_strong);
                EXPECT(!is_bad);
                EXPECT_INT(etag_list_has(cases[i].list, cases[i].etag, true, &is_bad),
                           cases[i].is_weak);
                EXPECT(!is_bad);
        }
}

TEST(etag_list_that_makes_no_sense_is_bad_and_has_nothing)
{
        static const char *const bad[] = {
                "",          " ",           ",",          "a",        "\"",
                "\"a",       "a\"",         "w/\"a\"",    "W/a",      "W /\"a\"",
                "\"a\"x",    "\"a\" \"b\"", "\"a\"\"b\"", "\"a\", b", "\"a b\"",
                "\"a\x7f\"", "*, \"a\"",    "\"a\", *",   "**",       "\"a\\\"b\"",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                bool is_bad = false;

                if (etag_list_has(bad[i], "\"a\"", true, &is_bad) || !is_bad)
                        test_fail(TEST_AT, "'%s' was understood", bad[i]);
        }
}

TEST(etag_list_takes_so_many_tags_and_no_more)
{
        struct buf list = { 0 };
        bool is_bad;

        for (int i = 1; i < CONDITION_TAGS_MAX; i++)
                buf_printf(&list, "\"%d\",", i);
        EXPECT(!etag_list_has(list.data, "\"last\"", true, &is_bad) && !is_bad);
        buf_puts(&list, "\"last\"");
        EXPECT(etag_list_has(list.data, "\"last\"", true, &is_bad) && !is_bad);
        buf_puts(&list, ",\"more\"");
        EXPECT(!etag_list_has(list.data, "\"last\"", true, &is_bad) && is_bad);
        buf_done(&list);
}

TEST(range_is_none_a_part_or_beyond_the_end)
{
        static const struct {
                const char *text;
                uint64_t size;
                int want;
                uint64_t from, len;
        } cases[] = {
                { "bytes=0-0", 10, 1, 0, 1 },
                { "bytes=0-9", 10, 1, 0, 10 },
                { "bytes=0-10", 10, 1, 0, 10 },
                { "bytes=9-", 10, 1, 9, 1 },
                { "bytes=10-", 10, -1 },
                { "bytes=10-20", 10, -1 },
                { "bytes=2-5", 10, 1, 2, 4 },
                { "BYTES= 2-5 ", 10, 1, 2, 4 },
                { "bytes=0-", 10, 1, 0, 10 },
                { "bytes=-1", 10, 1, 9, 1 },
                { "bytes=-10", 10, 1, 0, 10 },
                { "bytes=-11", 10, 1, 0, 10 },
                { "bytes=-0", 10, -1 },
                { "bytes=0-", 0, -1 },
                { "bytes=-1", 0, 0, 0, 0 },
                { "bytes=18446744073709551615-", 10, -1 },
                { "bytes=18446744073709551616-", 10, -1 },
                { "bytes=99999999999999999999999999-", 10, -1 },
                { "bytes=1-99999999999999999999999999", 10, 1, 1, 9 },
                { "bytes=-99999999999999999999999999", 10, 1, 0, 10 },
                { "bytes=0-18446744073709551615", UINT64_MAX, 1, 0, UINT64_MAX },
                { "bytes=5-2", 10, 0 },
                { "bytes=", 10, 0 },
                { "bytes=-", 10, 0 },
                { "bytes=1", 10, 0 },
                { "bytes=a-b", 10, 0 },
                { "bytes=0x1-2", 10, 0 },
                { "bytes=1-2x", 10, 0 },
                { "bytes=1 -2", 10, 0 },
                { "bytes=-1x", 10, 0 },
                { "bytes=+1-2", 10, 0 },
                { "bytes=--1", 10, 0 },
                { "bytes=0-1,3-4", 10, 0 },
                { "bytes=0-1,", 10, 0 },
                { "bytes 0-1", 10, 0 },
                { "lines=0-1", 10, 0 },
                { "byte", 10, 0 },
                { "", 10, 0 },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct range r;
                int seen = range_parse(cases[i].text, cases[i].size, &r);

                if (seen != cases[i].want)
                        test_fail(TEST_AT, "'%s' of %ju: %d", cases[i].text,
                                  (uintmax_t) cases[i].size, seen);
                EXPECT_INT(r.is_part, seen == 1);
                EXPECT(r.from == (seen == 1 ? cases[i].from : 0));
                EXPECT(r.len == (seen == 1 ? cases[i].len : cases[i].size));
        }
}

TEST(http_date_has_three_forms)
{
        static const char *const same[] = {
                "Sun, 06 Nov 1994 08:49:37 GMT",
                "Sunday, 06-Nov-94 08:49:37 GMT",
                "Sun Nov  6 08:49:37 1994",
        };
        static const char *const bad[] = {
                "",
                "0",
                "Sun, 06 Nov 1994 08:49:37",
                "Sun, 06 Nov 1994 08:49:37 UTC",
                "Sun, 06 Nov 1994 08:49:37 GMT ",
                "sun, 06 Nov 1994 08:49:37 GMT",
                "Sun, 6 Nov 1994 08:49:37 GMT",
                "Sun, 31 Nov 1994 08:49:37 GMT",
                "Sun, 00 Nov 1994 08:49:37 GMT",
                "Sun, 06 Nov 1994 24:49:37 GMT",
                "Sun, 06 Nov 1994 08:60:37 GMT",
                "Sun, 06 Nov 1994 08:49:61 GMT",
                "Sun, 06 Nox 1994 08:49:37 GMT",
                "Sun, 06 Nov 94 08:49:37 GMT",
                "Sun, 06-Nov-94 08:49:37 GMT",
                "Sun Nov 6 08:49:37 1994",
                "1994-11-06T08:49:37Z",
        };
        int64_t sec;

        for (size_t i = 0; i < ARRAY_LEN(same); i++) {
                sec = 0;
                EXPECT(http_date_parse(same[i], &sec));
                EXPECT_INT(sec, 784111777);
        }
        EXPECT(http_date_parse("Sunday, 06-Nov-33 08:49:37 GMT", &sec) && sec == 2014879777);
        EXPECT(http_date_parse("Thu Feb 29 23:59:60 2024", &sec) && sec == 1709251200);
        EXPECT(http_date_parse(clock_http_date(), &sec));
        EXPECT(sec <= clock_real_us() / 1000000 && sec > clock_real_us() / 1000000 - 10);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                if (http_date_parse(bad[i], &sec))
                        test_fail(TEST_AT, "'%s' was understood", bad[i]);
}

/* ---- with a request ---- */

enum { MODIFIED = 784111777 };
#define THEN   "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER  "Sun, 06 Nov 1994 08:49:38 GMT"

static const struct entity here = { true, "\"tag\"", MODIFIED, 100 };
static const struct entity weak = { true, "W/\"tag\"", MODIFIED, 100 };
static const struct entity plain = { true, NULL, MODIFIED, 100 };
static const struct entity gone = { .exists = false };

/* Answers with what the two functions said: "0 ", "304 ", "-1 <kind> ", then from+len or "whole".
 */
static int judge(struct req *r, struct error *err)
{
        const struct entity *e = *(const struct entity **) req_app(r);
        struct range part;
        struct buf out = { 0 };
        int n = condition_check(r, e, err);

        if (n == 0)
                n = range_pick(r, e, &part, err);
        if (n < 0)
                return -1;
        buf_printf(&out, "%d ", n);
        if (n == 0 && part.is_part)
                buf_printf(&out, "%ju+%ju", (uintmax_t) part.from, (uintmax_t) part.len);
        else
                buf_puts(&out, "whole");
        reply_header(r, "x-seen", out.data);
        buf_done(&out);
        return reply_empty(r, 200);
}

static const struct route rows[] = { { "GET", "/x", judge, .doc = "-" },
                                     { "PUT", "/x", judge, .doc = "-" },
                                     { 0 } };

static void ask(struct loop *l, int fd, const char *method, const char *headers, struct buf *ret)
{
        static const bool never;
        struct buf out = { 0 };
        char block[4096];
        ssize_t n = -1;

        buf_printf(&out, "%s /x HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, headers);
        EXPECT_INT(write(fd, out.data, out.len), out.len);
        buf_done(&out);
        for (int i = 0; i < 100 && n < 0; i++) {
                (void) loop_run_until(l, &never, 0);
                n = read(fd, block, sizeof(block));
        }
        EXPECT(n > 0);
        buf_put(ret, block, (size_t) n);
}

static void expect_seen(const struct entity *e, const char *method, const char *headers,
                        const char *want)
{
        static const struct route *const tables[] = { rows, NULL };
        struct http_server_spec spec = { .limits = http_limits_default, .app = &e };
        struct loop *l = loop_new();
        struct router *router = router_new(tables);
        struct http_server *srv;
        struct buf got = { 0 };
        int fd[2];

        spec.router = router;
        srv = http_server_new(l, &spec);
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        conn_new(srv, fd[0]);
        ask(l, fd[1], method, headers, &got);
        if (!strstr(got.data, want))
                test_fail(TEST_AT, "%s with '%s': wanted '%s', got '%s'", method, headers, want,
                          got.data);
        buf_done(&got);
        http_server_free(srv);
        router_free(router);
        loop_free(l);
        (void) close(fd[1]);
}

static void expect_get(const struct entity *e, const char *headers, const char *want)
{
        expect_seen(e, "GET", headers, want);
}

#define GO_ON    "x-seen: 0 whole\r\n"
#define SAME     "x-seen: 304 "
#define REFUSED  "HTTP/1.1 412 "
#define NONSENSE "HTTP/1.1 400 "

TEST(condition_if_match_wants_the_tag_strongly)
{
        expect_get(&here, "If-Match: \"tag\"\r\n", GO_ON);
        expect_get(&here, "If-Match: \"a\", \"tag\"\r\n", GO_ON);
        expect_get(&here, "If-Match: \"a\"\r\nIf-Match: \"tag\"\r\nIf-Match: \"b\"\r\n", GO_ON);
        expect_get(&here, "If-Match: *\r\n", GO_ON);
        expect_get(&plain, "If-Match: *\r\n", GO_ON);
        expect_get(&here, "If-Match: \"other\"\r\n", REFUSED);
        expect_get(&here, "If-Match: W/\"tag\"\r\n", REFUSED);
        expect_get(&weak, "If-Match: W/\"tag\"\r\n", REFUSED);
        expect_get(&plain, "If-Match: \"tag\"\r\n", REFUSED);
        expect_get(&gone, "If-Match: *\r\n", REFUSED);
        expect_get(&here, "If-Match: tag\r\n", NONSENSE);
        expect_get(&here, "If-Match: \"tag\"\r\nIf-Match: tag\r\n", NONSENSE);
        expect_seen(&here, "PUT", "If-Match: \"tag\"\r\n", GO_ON);
        expect_seen(&here, "PUT", "If-Match: \"other\"\r\n", REFUSED);
}

TEST(condition_if_unmodified_since_counts_without_if_match_only)
{
        expect_get(&here, "If-Unmodified-Since: " THEN "\r\n", GO_ON);
        expect_get(&here, "If-Unmodified-Since: " AFTER "\r\n", GO_ON);
        expect_get(&here, "If-Unmodified-Since: " BEFORE "\r\n", REFUSED);
        expect_seen(&here, "PUT", "If-Unmodified-Since: " BEFORE "\r\n", REFUSED);
        expect_get(&here, "If-Match: \"tag\"\r\nIf-Unmodified-Since: " BEFORE "\r\n", GO_ON);
        expect_get(&here, "If-Unmodified-Since: yesterday\r\n", GO_ON);
        expect_get(&gone, "If-Unmodified-Since: " BEFORE "\r\n", GO_ON);
}

TEST(condition_if_none_match_compares_weakly)
{
        expect_get(&here, "If-None-Match: \"tag\"\r\n", SAME);
        expect_get(&here, "If-None-Match: W/\"tag\"\r\n", SAME);
        expect_get(&weak, "If-None-Match: \"tag\"\r\n", SAME);
        expect_get(&here, "If-None-Match: \"a\"\r\nIf-None-Match: \"tag\"\r\n", SAME);
        expect_get(&here, "If-None-Match: *\r\n", SAME);
        expect_get(&here, "If-None-Match: \"other\"\r\n", GO_ON);
        expect_get(&plain, "If-None-Match: \"tag\"\r\n", GO_ON);
        expect_get(&gone, "If-None-Match: *\r\n", GO_ON);
        expect_get(&here, "If-None-Match: tag\r\n", NONSENSE);
        expect_seen(&here, "HEAD", "If-None-Match: \"tag\"\r\n", SAME);
        expect_seen(&here, "PUT", "If-None-Match: *\r\n", REFUSED);
        expect_seen(&here, "PUT", "If-None-Match: \"tag\"\r\n", REFUSED);
        expect_seen(&gone, "PUT", "If-None-Match: *\r\n", GO_ON);
        expect_get(&here, "If-Match: \"tag\"\r\nIf-None-Match: \"tag\"\r\n", SAME);
        expect_get(&here, "If-Match: \"other\"\r\nIf-None-Match: \"tag\"\r\n", REFUSED);
}

TEST(condition_if_modified_since_counts_for_reads_without_if_none_match_only)
{
        expect_get(&here, "If-Modified-Since: " THEN "\r\n", SAME);
        expect_get(&here, "If-Modified-Since: " AFTER "\r\n", SAME);
        expect_get(&here, "If-Modified-Since: " BEFORE "\r\n", GO_ON);
        expect_seen(&here, "HEAD", "If-Modified-Since: " THEN "\r\n", SAME);
        expect_seen(&here, "PUT", "If-Modified-Since: " THEN "\r\n", GO_ON);
        expect_get(&here, "If-None-Match: \"a\"\r\nIf-Modified-Since: " THEN "\r\n", GO_ON);
        expect_get(&here, "If-Modified-Since: later\r\n", GO_ON);
        expect_get(&gone, "If-Modified-Since: " THEN "\r\n", GO_ON);
}

TEST(range_pick_gives_a_part_of_a_get)
{
        expect_get(&here, "Range: bytes=10-19\r\n", "x-seen: 0 10+10\r\n");
        expect_get(&here, "Range: bytes=-1\r\n", "x-seen: 0 99+1\r\n");
        expect_get(&here, "Range: bytes=99-\r\n", "x-seen: 0 99+1\r\n");
        expect_get(&here, "Range: bytes=0-1,5-6\r\n", GO_ON);
        expect_get(&here, "Range: bytes=0-1\r\nRange: bytes=5-6\r\n", GO_ON);
        expect_get(&here, "Range: pages=1-2\r\n", GO_ON);
        expect_seen(&here, "PUT", "Range: bytes=0-1\r\n", GO_ON);
        expect_seen(&here, "HEAD", "Range: bytes=0-1\r\n", GO_ON);
        expect_get(&here, "", GO_ON);
}

TEST(range_pick_refuses_what_starts_beyond_the_end_and_says_where_that_is)
{
        expect_get(&here, "Range: bytes=100-\r\n", "HTTP/1.1 416 ");
        expect_get(&here, "Range: bytes=100-\r\n", "\r\ncontent-range: bytes */100\r\n");
        expect_get(&here, "Range: bytes=-0\r\n", "HTTP/1.1 416 ");
}

TEST(range_pick_sends_the_whole_when_if_range_names_another)
{
#define PART "Range: bytes=0-1\r\n"
        expect_get(&here, PART "If-Range: \"tag\"\r\n", "x-seen: 0 0+2\r\n");
        expect_get(&here, PART "If-Range: \"other\"\r\n", GO_ON);
        expect_get(&here, PART "If-Range: W/\"tag\"\r\n", GO_ON);
        expect_get(&weak, PART "If-Range: W/\"tag\"\r\n", GO_ON);
        expect_get(&plain, PART "If-Range: \"tag\"\r\n", GO_ON);
        expect_get(&here, PART "If-Range: \"tag\", \"b\"\r\n", GO_ON);
        expect_get(&here, PART "If-Range: nonsense\r\n", GO_ON);
        expect_get(&here, PART "If-Range: " THEN "\r\n", "x-seen: 0 0+2\r\n");
        expect_get(&here, PART "If-Range: " AFTER "\r\n", GO_ON);
        expect_get(&here, "Range: bytes=100-\r\nIf-Range: \"other\"\r\n", GO_ON);
}

TEST(range_pick_trusts_no_date_of_the_second_that_is_running)
{
        struct entity now = { true, NULL, clock_real_us() / 1000000 + 60, 100 };
        char text[128];
        time_t sec = (time_t) now.modified_sec;
        struct tm tm;

        (void) gmtime_r(&sec, &tm);
        (void) strftime(text, sizeof(text), PART "If-Range: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        expect_get(&now, text, GO_ON);
}
