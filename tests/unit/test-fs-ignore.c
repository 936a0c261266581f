#include "test-fs.h"

#include "fs/ignore.h"

static bool has(const char *rules, const char *path, bool is_dir)
{
        struct ignore *i = ignore_push(NULL, "/r", SLICE(rules));
        bool is = ignore_has(i, path, is_dir);

        EXPECT(!ignore_pop(i));
        return is;
}

struct row {
        const char *rules, *path;
        bool is_dir, is_ignored;
};

static void expect_rows(const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (has(rows[i].rules, rows[i].path, rows[i].is_dir) != rows[i].is_ignored)
                        test_fail(TEST_AT, "rules '%s', path '%s': expected %s", rows[i].rules,
                                  rows[i].path, rows[i].is_ignored ? "ignored" : "kept");
}
#define EXPECT_ROWS(rows) expect_rows((rows), ARRAY_LEN(rows))

/* Those inside /r answer as `git check-ignore` (2.39) does. */
TEST(ignore_rules_mean_what_git_says)
{
        static const struct row rows[] = {
                { "*.o", "/r/a.o", false, true },
                { "*.o", "/r/x/y/a.o", false, true },
                { "*.o", "/elsewhere/a.o", false, false },
                { "build/", "/r/build", true, true },
                { "build/", "/r/build", false, false },
                { "build/", "/r/x/build", true, true },
                { "/build", "/r/build", false, true },
                { "/build", "/r/x/build", false, false },
                { "a/b", "/r/a/b", false, true },
                { "a/b", "/r/x/a/b", false, false },
                { "**/a/b", "/r/x/a/b", false, true },
                { "a/**", "/r/a/b/c", false, true },
                { "a/**", "/r/a", true, false },
                { "a/**/b", "/r/a/b", false, true },
                { "a/*", "/r/a/b", false, true },
                { "a/foo**/bar", "/r/a/foobar", false, true }, /* as strange as git's */
                { "*\n!keep", "/r/keep", false, false },
                { "*\n!keep\nkeep", "/r/keep", false, true },
                { "\\!x", "/r/!x", false, true },
                { "\\#x", "/r/#x", false, true },
                { "#x", "/r/#x", false, false },
                { "!", "/r/!", false, false },
                { "/", "/r/a", true, false },
        };

        EXPECT_ROWS(rows);
}

TEST(ignore_lines_end_as_git_says)
{
        static const struct row rows[] = {
                { "a  ", "/r/a", false, true },
                { "a\\ ", "/r/a ", false, true },
                { "a\\ ", "/r/a", false, false },
                { "a\\  ", "/r/a ", false, true },
                { "a\r\nb\r\n", "/r/a", false, true },
                { "a\r", "/r/a", false, true },
                { "\xef\xbb\xbf*.o", "/r/a.o", false, true },
                { "\n\n  \na", "/r/a", false, true },
                { "a\t", "/r/a", false, false },
                { "a\\", "/r/a\\", false, false },
                { "[a", "/r/[a", false, false },
        };

        EXPECT_ROWS(rows);
        EXPECT(!has("", "/r/a", false));
}

/* git would say "ignored" for the second: whoever walks does not go into the first. */
TEST(ignore_asks_about_the_path_alone)
{
        EXPECT(has("a/*", "/r/a/b", true));
        EXPECT(!has("a/*", "/r/a/b/c", false));
}

TEST(ignore_levels_below_overrule_those_above)
{
        struct ignore *top = ignore_push(NULL, "/r", SLICE("*.log\n/only\n"));
        struct ignore *sub = ignore_push(top, "/r/sub", SLICE("!keep.log\n/only2\n"));

        EXPECT(ignore_has(sub, "/r/sub/a.log", false));
        EXPECT(!ignore_has(sub, "/r/sub/keep.log", false));
        EXPECT(ignore_has(sub, "/r/keep.log", false)); /* not below it */
        EXPECT(!ignore_has(sub, "/r/sub/only", false));
        EXPECT(ignore_has(sub, "/r/sub/only2", false));
        EXPECT(ignore_pop(sub) == top);
        EXPECT(!ignore_pop(top));
        EXPECT(!ignore_pop(NULL));
}

TEST(ignore_at_the_root_of_the_system)
{
        struct ignore *i = ignore_push(NULL, "/", SLICE("/tmp\n*.o\n"));

        EXPECT(ignore_has(i, "/tmp", true));
        EXPECT(ignore_has(i, "/x/y.o", false));
        EXPECT(!ignore_has(i, "/x/tmp", true));
        (void) ignore_pop(i);
}

TEST(ignore_follows_a_directory_that_moves)
{
        struct ignore *top = ignore_push(NULL, "/r", SLICE("*.o"));
        struct ignore *other = ignore_push(NULL, "/q", SLICE("*.c"));
        struct ignore *sub = ignore_push(top, "/r/sub", SLICE("/x"));

        ignore_move(sub, top, other, "/q/new");
        EXPECT(ignore_has(sub, "/q/new/x", false));
        EXPECT(ignore_has(sub, "/q/new/a.c", false));
        EXPECT(!ignore_has(sub, "/q/new/a.o", false));
        EXPECT(ignore_leave(sub, NULL) == NULL); /* sub and other */
        (void) ignore_pop(top);
}

static void make_dirs(const struct bed *b, const char *const *names)
{
        for (; *names; names++)
                EXPECT_INT(mkdir(at(b, *names), 0755), 0);
}

TEST(ignore_reads_the_files_up_to_the_top_of_the_repository)
{
        static const char *const dirs[] = { "in/.git",    "in/.git/info",    "in/a", "in/a/b",
                                            "in/a/inner", "in/a/inner/.git", NULL };
        _cleanup_bed_ struct bed b = bed_new();
        struct ignore *i;

        make_dirs(&b, dirs);
        put(&b, ".gitignore", "outer\n"); /* above the repository: not its business */
        put(&b, "in/.gitignore", "top\n");
        put(&b, "in/.git/info/exclude", "excluded\n!top\n");
        put(&b, "in/a/.gitignore", "!top\nmiddle\n");
        i = ignore_parents(b.all, at(&b, "in/a/b"));
        EXPECT(ignore_has(i, at(&b, "in/a/b/middle"), false));
        EXPECT(ignore_has(i, at(&b, "in/a/b/excluded"), false));
        EXPECT(!ignore_has(i, at(&b, "in/a/b/top"), false));
        EXPECT(ignore_has(i, at(&b, "in/top"), false)); /* weaker than .gitignore */
        EXPECT(!ignore_has(i, at(&b, "in/a/b/outer"), false));
        (void) ignore_leave(i, NULL);

        /* A repository inside stands for itself, and so does what lies in none. */
        EXPECT(!ignore_parents(b.all, at(&b, "in/a/inner")));
        EXPECT_INT(mkdir(at(&b, "none"), 0755), 0);
        EXPECT(!ignore_parents(b.all, at(&b, "none")));
}

TEST(ignore_sees_no_rules_above_the_root_for_files)
{
        _cleanup_bed_ struct bed b = bed_new();

        EXPECT_INT(mkdir(at(&b, ".git"), 0755), 0);
        EXPECT_INT(mkdir(at(&b, "in/a"), 0755), 0);
        put(&b, ".gitignore", "x\n");
        EXPECT(!ignore_parents(b.in, at(&b, "in/a")));
        EXPECT_INT(symlink("../.gitignore", at(&b, "in/a/.gitignore")), 0);
        int fd = open(at(&b, "in/a"), O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct ignore *i = ignore_enter(NULL, fd, at(&b, "in/a"));

        EXPECT(!ignore_has(i, at(&b, "in/a/x"), false)); /* links are not followed */
        (void) ignore_leave(i, NULL);
        (void) close(fd);
}
