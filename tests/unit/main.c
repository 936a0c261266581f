/* Runs every registered test through cmocka and speaks TAP; tests/run.mjs reads it.
 *
 *         unit [--list] [WORD]     only tests whose file or name contains WORD
 *
 * After the TAP a comment per test says how long it took. */
#include "test.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

static struct test *tests;
static const struct test *current;

/* Keep the sanitizer's stack trace for a crash; cmocka would only name the signal. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
        return "handle_segv=2:handle_sigbus=2:handle_sigfpe=2:handle_sigill=2:detect_leaks=1";
}

void test_register(struct test *t)
{
        t->next = tests;
        tests = t;
}

/* Into the TAP, so that a failure and its reason stay together. */
static void print_comment(struct test_at at, const char *text)
{
        (void) printf("# %s:%d: ", at.file, at.line);
        for (; *text; text++)
                (void) (*text == '\n' ? fputs("\n# ", stdout) : fputc(*text, stdout));
        (void) fputc('\n', stdout);
}

void test_fail(struct test_at at, const char *fmt, ...)
{
        char text[4096];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        print_comment(at, text);
        _fail(at.file, at.line);
        abort(); /* _fail() jumps out of the test; the compiler cannot know */
}

void test_expect_int(struct test_at at, const char *text, intmax_t seen, intmax_t want)
{
        if (seen != want)
                test_fail(at, "%s: expected %jd, saw %jd", text, want, seen);
}

void test_expect_str(struct test_at at, const char *text, const char *seen, const char *want)
{
        if (seen == want || (seen && want && strcmp(seen, want) == 0))
                return;
        test_fail(at, "%s:\n  expected \"%s\"\n  saw      \"%s\"", text, want ?: "(null)",
                  seen ?: "(null)");
}

void test_expect_mem(struct test_at at, const char *text, const void *seen, const void *want,
                     size_t len)
{
        const unsigned char *s = seen, *w = want;

        if (len > 0 && (!s || !w))
                test_fail(at, "%s: expected %zu bytes, saw NULL", text, len);
        for (size_t i = 0; i < len; i++)
                if (s[i] != w[i])
                        test_fail(at, "%s: byte %zu of %zu: expected 0x%02x, saw 0x%02x", text, i,
                                  len, w[i], s[i]);
}

void test_expect_ok(struct test_at at, const char *text, intmax_t ret, const struct error *err)
{
        if (ret < 0)
                test_fail(at, "%s: expected success, saw kind %d: %s", text, err->kind, err->msg);
}

void test_expect_err(struct test_at at, const char *text, intmax_t ret, const struct error *err,
                     enum err_kind want, const char *want_text)
{
        if (ret >= 0)
                test_fail(at, "%s: expected %s, saw success (%jd)", text, want_text, ret);
        if (err->kind != want)
                test_fail(at, "%s: expected %s (%d), saw kind %d: %s", text, want_text, want,
                          err->kind, err->msg);
}

static void on_alarm(int sig)
{
        (void) dprintf(STDERR_FILENO, "%s (%s:%d) took longer than %d s\n", current->name,
                       current->file, current->line, TEST_DEADLINE_S);
        abort();
}

static int test_begin(void **state)
{
        struct test *t = *state;

        current = t;
        (void) alarm(TEST_DEADLINE_S);
        t->started_us = clock_mono_us();
        return 0;
}

static void test_run(void **state)
{
        struct test *t = *state;

        t->fn();
}

static int test_end(void **state)
{
        struct test *t = *state;

        t->took_us = clock_mono_us() - t->started_us;
        (void) alarm(0);
        return 0;
}

static int by_place(const void *a, const void *b)
{
        const struct test *s = ((const struct CMUnitTest *) a)->initial_state;
        const struct test *t = ((const struct CMUnitTest *) b)->initial_state;
        int order = strcmp(s->file, t->file);

        return order != 0 ? order : s->line - t->line;
}

/* The chosen tests in the order of their files, as cmocka wants them. */
static struct CMUnitTest *plan_new(const char *word, size_t *ret_n)
{
        struct CMUnitTest *plan;
        size_t n = 0;

        for (struct test *t = tests; t; t = t->next)
                n++;
        plan = calloc(n + 1, sizeof(*plan));
        if (!plan)
                abort();
        n = 0;
        for (struct test *t = tests; t; t = t->next)
                if (!word || strstr(t->name, word) || strstr(t->file, word))
                        plan[n++] =
                                (struct CMUnitTest) { t->name, test_run, test_begin, test_end, t };
        qsort(plan, n, sizeof(*plan), by_place);
        *ret_n = n;
        return plan;
}

static int list_all(const struct CMUnitTest *plan, size_t n)
{
        for (size_t i = 0; i < n; i++)
                (void) puts(plan[i].name);
        return 0;
}

static int run_all(const struct CMUnitTest *plan, size_t n)
{
        int failed;

        (void) setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not take the last lines with it */
        (void) signal(SIGALRM, on_alarm);
        (void) signal(SIGPIPE, SIG_IGN); /* as the program does */
        cmocka_set_message_output(CM_OUTPUT_TAP);
        failed = _cmocka_run_group_tests("unit", plan, n, NULL, NULL);
        for (size_t i = 0; i < n; i++) {
                const struct test *t = plan[i].initial_state;

                (void) printf("# time %.3f ms %s\n", (double) t->took_us / 1000, t->name);
        }
        return failed != 0 || n == 0;
}

int main(int argc, char **argv)
{
        bool is_list = argc > 1 && strcmp(argv[1], "--list") == 0;
        const char *word = argc > 1 + is_list ? argv[1 + is_list] : NULL;
        struct CMUnitTest *plan;
        size_t n;
        int ret;

        plan = plan_new(word, &n);
        ret = is_list ? list_all(plan, n) : run_all(plan, n);
        free(plan);
        return ret;
}
