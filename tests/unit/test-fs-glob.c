#include "test.h"

#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fs/glob.h"
#include "fs/search.h"

struct row {
        const char *pattern, *path;
        bool fits;
};

static void expect_rows(const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (glob_match(rows[i].pattern, rows[i].path) != rows[i].fits)
                        test_fail(TEST_AT, "'%s' and '%s': expected %s", rows[i].pattern,
                                  rows[i].path, rows[i].fits ? "a match" : "none");
}
#define EXPECT_ROWS(rows) expect_rows((rows), ARRAY_LEN(rows))

TEST(glob_without_a_slash_is_about_the_last_component)
{
        static const struct row rows[] = {
                { "*.c", "a.c", true },
                { "*.c", "src/deep/a.c", true },
                { "*.c", "a.cc", false },
                { "a?c", "x/abc", true },
                { "a?c", "ac", false },
                { "main.c", "src/main.c", true },
                { "main.c", "main.c/x", false },
                { "*", "anything", true },
                { "", "", true },
                { "", "a", false },
                { "*a*b*c*", "xxaxxbxxc", true },
                { "*a*b*c*", "xxaxxcxxb", false },
        };

        EXPECT_ROWS(rows);
}

TEST(glob_with_a_slash_is_about_the_whole_path)
{
        static const struct row rows[] = {
                { "src/*.c", "src/a.c", true },
                { "src/*.c", "src/x/a.c", false },
                { "src/*.c", "lib/src/a.c", false },
                { "/a.c", "a.c", true },
                { "/a.c", "x/a.c", false },
                { "src/", "src/x/y", true },
                { "src/", "src", false },
                { "*/a", "x/a", true },
                { "*/a", "x/y/a", false },
                { "a?b", "a/b", false },
                { "x/a?b", "x/a/b", false },
                { "x/a[/]b", "x/a/b", false },
        };

        EXPECT_ROWS(rows);
}

TEST(glob_double_star_crosses_directories)
{
        static const struct row rows[] = {
                { "**/a", "a", true },
                { "**/a", "x/y/a", true },
                { "**/a", "x/ya", false },
                { "a/**", "a/b/c", true },
                { "a/**", "a", false },
                { "a/**/b", "a/b", true },
                { "a/**/b", "a/x/y/b", true },
                { "a/**/b", "a/xb", false },
                { "a/**/b/*.c", "a/b/x/b/y.c", true },
                { "**/x/**/y", "1/x/2/x/3/y", true },
                { "**", "a/b", true },
                { "a**b/c", "axxb/c", true },
                { "a**b/c", "a/b/c", false },
                { "**/*a*/b", "x/1a2/b", true },
                { "**/*a*/b", "x/1a2/c/b", false },
        };

        EXPECT_ROWS(rows);
}

TEST(glob_classes_as_git_reads_them)
{
        static const struct row rows[] = {
                { "[abc]", "b", true },         { "[a-c]x", "bx", true },
                { "[!a-c]", "b", false },       { "[^a-c]", "d", true },
                { "[]a]", "]", true },          { "[]-]", "-", true },
                { "[a-]", "-", true },          { "[\\]]", "]", true },
                { "[[:digit:]]x", "7x", true }, { "[[:digit:]]", "a", false },
                { "[[:bogus:]]", "b", false },  { "[[:]", ":", true },
                { "[a", "[a", false },          { "\\[a", "[a", true },
                { "a\\", "a\\", false },        { "\\*", "*", true },
                { "\\*", "x", false },          { "[\\a-\\c]", "b", true },
        };

        EXPECT_ROWS(rows);
}

TEST(glob_braces_are_choices)
{
        static const struct row rows[] = {
                { "*.{c,h}", "a.h", true },     { "*.{c,h}", "a.o", false },
                { "{a,b}/{x,y}", "b/x", true }, { "{a,b}/{x,y}", "b/z", false },
                { "{a,{b,c}d}", "cd", true },   { "{a,{b,c}d}", "c", false },
                { "x{,y}", "x", true },         { "x{,y}", "xy", true },
                { "{a}", "{a}", true },         { "{a,b", "{a,b", true },
                { "\\{a,b}", "{a,b}", true },   { "{src/,}a", "src/a", true },
        };

        EXPECT_ROWS(rows);
}

TEST(glob_counts_characters_not_bytes)
{
        static const struct row rows[] = {
                { "?", "é", true },     { "??", "é", false },  { "[é]", "é", true },
                { "[à-ö]", "é", true }, { "*?é", "xé", true }, { "?", "\xe9", true },
                { "*??", "é", false },
        };

        EXPECT_ROWS(rows);
        EXPECT(!wild_match("?", "é", 0)); /* git counts bytes */
        EXPECT(wild_match("??", "é", 0));
}

TEST(glob_folds_case_on_request)
{
        EXPECT(wild_match("ReadMe*", "README.md", WILD_FOLD));
        EXPECT(wild_match("[a-c]x", "BX", WILD_FOLD));
        EXPECT(wild_match("[[:upper:]]", "q", WILD_FOLD));
        EXPECT(!wild_match("readme", "README", 0));
}

TEST(glob_list_lets_the_last_word_count)
{
        _cleanup_(globs_done) struct globs g = { .flags = WILD_UTF8 };
        struct error err = {};

        EXPECT(globs_want(&g, "a.c", false)); /* no pattern: everything */
        EXPECT_OK(globs_add(&g, "!*.o", &err), err);
        EXPECT(globs_want(&g, "a.c", false));
        EXPECT(!globs_want(&g, "x/a.o", false));
        EXPECT_OK(globs_add(&g, "keep.o", &err), err);
        EXPECT(globs_want(&g, "x/keep.o", false));
        EXPECT(!globs_want(&g, "a.c", false)); /* now one must be chosen */
        EXPECT(globs_want(&g, "dir", true));   /* but the way goes on below */
        EXPECT_OK(globs_add(&g, "!dir", &err), err);
        EXPECT(!globs_want(&g, "dir", true));
}

TEST(glob_choices_have_a_ceiling)
{
        _cleanup_(globs_done) struct globs g = { 0 };
        struct error err = {};

        EXPECT_OK(globs_add(&g, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &err), err);
        EXPECT_INT(g.n, 128);
        EXPECT_OK(globs_add(&g, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &err), err);
        EXPECT_INT(g.n, GLOB_VARIANTS_MAX);
        EXPECT_ERR(globs_add(&g, "x", &err), ERR_INVALID, err);
}

TEST(glob_length_has_a_ceiling)
{
        _cleanup_(globs_done) struct globs g = { 0 };
        char text[SEARCH_PATTERN_MAX + 2];
        struct error err = {};

        memset(text, '*', sizeof(text));
        text[SEARCH_PATTERN_MAX] = '\0';
        EXPECT_OK(globs_add(&g, text, &err), err);
        text[SEARCH_PATTERN_MAX] = '*';
        text[SEARCH_PATTERN_MAX + 1] = '\0';
        EXPECT_ERR(globs_add(&g, text, &err), ERR_INVALID, err);
}

/* A matcher that tries every way takes longer than the universe for these. */
TEST(glob_with_many_stars_ends_soon)
{
        char pattern[401], path[801];
        int64_t started_us = clock_mono_us();

        for (size_t i = 0; i < 400; i += 4)
                memcpy(pattern + i, "*a**", 4);
        pattern[400] = '\0';
        pattern[399] = 'b';
        memset(path, 'a', 800);
        path[800] = '\0';
        EXPECT(!wild_match(pattern, path, 0));
        for (size_t i = 0; i < 400; i += 4)
                memcpy(pattern + i, "**/a", 4);
        for (size_t i = 0; i < 800; i += 2)
                memcpy(path + i, "a/", 2);
        path[799] = 'b';
        EXPECT(!wild_match(pattern, path, 0));
        EXPECT(clock_mono_us() - started_us < 1000 * 1000);
}
