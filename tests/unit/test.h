/* What a unit test needs. A test is named after a behaviour, registers itself and takes
 * milliseconds:
 *
 *         TEST(line_framer_refuses_long_line)
 *         {
 *                 struct error err = {};
 *
 *                 EXPECT_INT(line_feed(&f, "12345678\n", 9, &err), 1);
 *                 EXPECT_ERR(line_feed(&f, "123456789", 9, &err), ERR_TOO_BIG, err);
 *         }
 *
 * The first failed expectation ends the test and prints what was expected and what was seen;
 * `_cleanup_` variables of a failed test are not cleaned up. A test that takes longer than
 * TEST_DEADLINE_S is ended. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

enum { TEST_DEADLINE_S = 60 };

struct test {
        const char *name, *file;
        int line;
        void (*fn)(void);
        struct test *next;
        int64_t started_us, took_us;
};

void test_register(struct test *t);

/* Where an expectation stands, for its message. */
struct test_at {
        const char *file;
        int line;
};
#define TEST_AT ((struct test_at) { __FILE__, __LINE__ })

_Noreturn void test_fail(struct test_at at, const char *fmt, ...) _printf_(2, 3);
void test_expect_int(struct test_at at, const char *text, intmax_t seen, intmax_t want);
void test_expect_str(struct test_at at, const char *text, const char *seen, const char *want);
void test_expect_mem(struct test_at at, const char *text, const void *seen, const void *want,
                     size_t len);
void test_expect_ok(struct test_at at, const char *text, intmax_t ret, const struct error *err);
void test_expect_err(struct test_at at, const char *text, intmax_t ret, const struct error *err,
                     enum err_kind want, const char *want_text);

#define TEST(id)                                                                                   \
        static void test_fn_##id(void);                                                            \
        static struct test test_##id = { #id, __FILE__, __LINE__, test_fn_##id };                  \
        static __attribute__((constructor)) void test_reg_##id(void)                               \
        {                                                                                          \
                test_register(&test_##id);                                                         \
        }                                                                                          \
        static void test_fn_##id(void)

#define EXPECT(cond)                                                                               \
        do {                                                                                       \
                if (!(cond))                                                                       \
                        test_fail(TEST_AT, "expected: %s", #cond);                                 \
        } while (0)
#define EXPECT_INT(seen, want)      test_expect_int(TEST_AT, #seen, (intmax_t) (seen), (intmax_t) (want))
#define EXPECT_STR(seen, want)      test_expect_str(TEST_AT, #seen, (seen), (want))
#define EXPECT_MEM(seen, want, len) test_expect_mem(TEST_AT, #seen, (seen), (want), (len))
/* A call that returns >= 0; one that returns -1 with this kind of error. err is a struct error. */
#define EXPECT_OK(call, err)        test_expect_ok(TEST_AT, #call, (call), &(err))
#define EXPECT_ERR(call, kind, err) test_expect_err(TEST_AT, #call, (call), &(err), (kind), #kind)
