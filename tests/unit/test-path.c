#include "base/path.h"

#include "base/alloc.h"
#include "test.h"

static int check(const char *p, struct error *err)
{
        return path_check_relative(p, strlen(p), err);
}

TEST(path_relative_accepts_ordinary_names)
{
        static const char *const good[] = {
                "a",
                "a/b/c",
                "./a",
                "a/",
                "a//b",
                ".",
                "a/./b",
                "...",
                "..a",
                "a..",
                "a. ",
                "dir/.hidden",
                "\xc3\xa9t\xc3\xa9",
        };
        struct error err = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                EXPECT_OK(check(good[i], &err), err);
}

TEST(path_relative_refuses_ways_out)
{
        static const char *const bad[] = {
                "",       "/",      "/etc/passwd", "..",       "../x", "a/..",
                "a/../b", "a/b/..", "./..",        "a//..//b", "\xff", "a/\xc0\xaf",
        };
        struct error err = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                EXPECT_ERR(check(bad[i], &err), ERR_INVALID, err);
        EXPECT_ERR(path_check_relative("a\0b", 3, &err), ERR_INVALID, err);
}

TEST(path_relative_limits_component_length)
{
        char p[PATH_PART_MAX + 8];
        struct error err = { 0 };

        memset(p, 'x', sizeof(p));
        EXPECT_OK(path_check_relative(p, PATH_PART_MAX - 1, &err), err);
        EXPECT_OK(path_check_relative(p, PATH_PART_MAX, &err), err);
        EXPECT_ERR(path_check_relative(p, PATH_PART_MAX + 1, &err), ERR_TOO_BIG, err);
        memcpy(p, "ab/", 3);
        EXPECT_OK(path_check_relative(p, 3 + PATH_PART_MAX, &err), err);
        EXPECT_ERR(path_check_relative(p, 3 + PATH_PART_MAX + 1, &err), ERR_TOO_BIG, err);
}

TEST(path_relative_limits_total_length)
{
        char p[PATH_BYTES_MAX + 1];
        struct error err = { 0 };

        for (size_t i = 0; i < sizeof(p); i++)
                p[i] = i % 2 ? '/' : 'a';
        EXPECT_OK(path_check_relative(p, PATH_BYTES_MAX - 1, &err), err);
        EXPECT_OK(path_check_relative(p, PATH_BYTES_MAX, &err), err);
        EXPECT_ERR(path_check_relative(p, PATH_BYTES_MAX + 1, &err), ERR_TOO_BIG, err);
}

TEST(path_join_puts_one_slash)
{
        static const struct {
                const char *dir, *name, *want;
        } rows[] = {
                { "/a", "b", "/a/b" }, { "/a/", "b", "/a/b" }, { "/a//", "//b/c", "/a/b/c" },
                { "/", "b", "/b" },    { "/a", "", "/a" },     { "/a", "/", "/a" },
                { "", "b", "b" },      { "a", "b/", "a/b/" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _cleanup_free_ char *seen = path_join(rows[i].dir, rows[i].name);

                EXPECT_STR(seen, rows[i].want);
        }
}
