#include "fs/edit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/path.h"
#include "fs/file.h"
#include "fs/root.h"
#include "test.h"

static int64_t replace(const char *text, const char *old, const char *new, uint64_t expected,
                       struct buf *out, struct error *err)
{
        buf_clear(out);
        return edit_replace(SLICE(text), SLICE(old), SLICE(new), expected, out, err);
}

TEST(edit_replaces_every_occurrence)
{
        _cleanup_(buf_done) struct buf out = { 0 };
        struct error err = { 0 };

        EXPECT_INT(replace("one two one", "one", "1", 0, &out, &err), 2);
        EXPECT_STR(out.data, "1 two 1");
        EXPECT_INT(replace("aaaa", "aa", "b", 2, &out, &err), 2); /* they do not overlap */
        EXPECT_STR(out.data, "bb");
        EXPECT_INT(replace("a\nb\nc\n", "b\n", "", 1, &out, &err), 1);
        EXPECT_STR(out.data, "a\nc\n");
        EXPECT_INT(replace("x", "x", "x", 0, &out, &err), 1);
        EXPECT_STR(out.data, "x");
}

TEST(edit_says_what_it_found_instead)
{
        _cleanup_(buf_done) struct buf out = { 0 };
        struct error err = { 0 };

        EXPECT_ERR(replace("\n\n\nx\nx\n", "x", "y", 1, &out, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "expected 1 occurrence of 'x', found 2 (lines 4, 5)");
        EXPECT_ERR(replace("x", "x", "y", 2, &out, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "expected 2 occurrences of 'x', found 1 (lines 1)");
        EXPECT_ERR(replace("", "long\nold text", "y", 3, &out, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "expected 3 occurrences of 'long…', found 0");
        EXPECT_ERR(replace("a", "x", "y", 0, &out, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "there is no 'x'");
        EXPECT_ERR(replace("a", "", "y", 0, &out, &err), ERR_INVALID, err);
        EXPECT_INT(out.len, 0);
}

TEST(edit_limits_what_it_makes)
{
        _cleanup_(buf_done) struct buf out = { .max_bytes = 10 };
        struct error err = { 0 };

        EXPECT_INT(replace("xx", "x", "12345", 0, &out, &err), 2);
        EXPECT_ERR(replace("xx", "x", "123456", 0, &out, &err), ERR_TOO_BIG, err);
}

/* ---- on files ---- */

struct bed {
        char dir[64];
        struct fsroot *root;
        struct error err;
        struct edit_results res;
};

static void bed_open(struct bed *b)
{
        *b = (struct bed) { 0 };
        (void) snprintf(b->dir, sizeof(b->dir), "/tmp/sa-unit-edit-XXXXXX");
        EXPECT(mkdtemp(b->dir));
        EXPECT_OK(fsroot_open(NULL, "/", &b->root, &b->err), b->err);
}

static void bed_close(struct bed *b)
{
        edit_results_done(&b->res);
        EXPECT_OK(fs_remove(b->root, b->dir, true, &b->err), b->err);
        fsroot_free(b->root);
}

static void write_text(struct bed *b, const char *name, const char *text)
{
        _cleanup_free_ char *path = path_join(b->dir, name);

        EXPECT_OK(file_write(path, text, strlen(text), 0644, &b->err), b->err);
}

/* want NULL: must not be there. */
static void expect_text(struct bed *b, const char *name, const char *want)
{
        _cleanup_free_ char *path = path_join(b->dir, name);
        _cleanup_(buf_done) struct buf text = { 0 };

        if (!want) {
                EXPECT(access(path, F_OK) < 0);
                return;
        }
        EXPECT_OK(file_read(path, &text, &b->err), b->err);
        EXPECT_STR(text.data ? text.data : "", want);
}

static unsigned mode_of(struct bed *b, const char *name)
{
        _cleanup_free_ char *path = path_join(b->dir, name);
        struct stat st;

        EXPECT_INT(stat(path, &st), 0);
        return st.st_mode & 07777;
}

static size_t count_names(struct bed *b)
{
        DIR *d = opendir(b->dir);
        size_t n = 0;

        while (readdir(d))
                n++;
        (void) closedir(d);
        return n - 2;
}

static int edit_diff(struct bed *b, const char *text, bool is_dry_run)
{
        edit_results_done(&b->res);
        return fs_edit_diff(b->root, b->dir, SLICE(text), is_dry_run, &b->res, &b->err);
}

TEST(edit_changes_a_file_in_one_step)
{
        _cleanup_free_ char *path = NULL;
        struct bed b;

        bed_open(&b);
        path = path_join(b.dir, "f");
        write_text(&b, "f", "one two\n");
        EXPECT_INT(chmod(path, 0751), 0);
        EXPECT_OK(fs_edit_replace(b.root, path, SLICE("two"), SLICE("2"), 1, true, &b.res, &b.err),
                  b.err);
        expect_text(&b, "f", "one two\n"); /* a dry run */
        edit_results_done(&b.res);
        EXPECT_OK(fs_edit_replace(b.root, path, SLICE("two"), SLICE("2"), 1, false, &b.res, &b.err),
                  b.err);
        expect_text(&b, "f", "one 2\n");
        EXPECT_INT(mode_of(&b, "f"), 0751);
        EXPECT_INT(b.res.n, 1);
        EXPECT_STR(b.res.at[0].path, path);
        EXPECT_STR(b.res.at[0].what, "modified");
        EXPECT_INT(b.res.at[0].n, 1);
        edit_results_done(&b.res);
        EXPECT_ERR(fs_edit_replace(b.root, path, SLICE("2"), SLICE("3"), 2, false, &b.res, &b.err),
                   ERR_CONFLICT, b.err);
        EXPECT_ERR(fs_edit_replace(b.root, b.dir, SLICE("2"), SLICE("3"), 0, false, &b.res, &b.err),
                   ERR_INVALID, b.err);
        expect_text(&b, "f", "one 2\n");
        EXPECT_INT(count_names(&b), 1);
        bed_close(&b);
}

static const char four_files[] = "diff --git a/mod b/mod\nold mode 100644\nnew mode 100755\n"
                                 "--- a/mod\n+++ b/mod\n@@ -1 +1 @@\n-m\n+M\n"
                                 "diff --git a/d/new b/d/new\nnew file mode 100644\n"
                                 "--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+n\n"
                                 "diff --git a/gone b/gone\ndeleted file mode 100644\n"
                                 "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
                                 "diff --git a/from b/sub/to\nsimilarity index 50%\n"
                                 "rename from from\nrename to sub/to\n"
                                 "--- a/from\n+++ b/sub/to\n@@ -1,2 +1,2 @@\n r\n-1\n+2\n";

static void make_four(struct bed *b)
{
        write_text(b, "mod", "m\n");
        write_text(b, "gone", "g\n");
        write_text(b, "from", "r\n1\n");
}

TEST(edit_applies_a_diff_to_all_files)
{
        static const char *const whats[] = { "modified", "created", "deleted", "renamed" };
        struct bed b;

        bed_open(&b);
        make_four(&b);
        EXPECT_OK(edit_diff(&b, four_files, true), b.err);
        EXPECT_INT(b.res.n, 4);
        expect_text(&b, "mod", "m\n"); /* a dry run */
        expect_text(&b, "d", NULL);
        EXPECT_INT(count_names(&b), 3);

        EXPECT_OK(edit_diff(&b, four_files, false), b.err);
        EXPECT_INT(b.res.n, 4);
        for (size_t i = 0; i < 4; i++)
                EXPECT_STR(b.res.at[i].what, whats[i]);
        EXPECT(str_ends(b.res.at[3].path, "/sub/to") && str_ends(b.res.at[3].from, "/from"));
        expect_text(&b, "mod", "M\n");
        EXPECT_INT(mode_of(&b, "mod"), 0755);
        expect_text(&b, "d/new", "n\n");
        expect_text(&b, "gone", NULL);
        expect_text(&b, "from", NULL);
        expect_text(&b, "sub/to", "r\n2\n");
        EXPECT_INT(count_names(&b), 3); /* mod, d, sub: nothing hidden is left */
        bed_close(&b);
}

/* The last file of the diff does not fit: none is changed, no directory stays. */
TEST(edit_applies_all_of_a_diff_or_nothing)
{
        static const char *const spoilers[] = {
                "--- a/last\n+++ b/last\n@@ -1 +1 @@\n-other\n+x\n",  /* does not fit */
                "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n",      /* not there */
                "--- /dev/null\n+++ b/last\n@@ -0,0 +1 @@\n+x\n",     /* there already */
                "--- a/mod\n+++ b/mod\n@@ -1 +1 @@\n-m\n+x\n",        /* a second time */
                "--- a/last\n+++ /dev/null\n@@ -1 +0,0 @@\n-other\n", /* not what is deleted */
                "--- a/link\n+++ b/link\n@@ -1 +1 @@\n-l\n+x\n",      /* a symbolic link */
                "--- a/way/x\n+++ b/way/x\n@@ -0,0 +1 @@\n+x\n",      /* through one */
                "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",        /* a way out */
        };

        for (size_t i = 0; i < ARRAY_LEN(spoilers); i++) {
                _cleanup_free_ char *text = xasprintf("%s%s", four_files, spoilers[i]);
                _cleanup_free_ char *link = NULL, *way = NULL;
                struct bed b;

                bed_open(&b);
                make_four(&b);
                write_text(&b, "last", "l\n");
                link = path_join(b.dir, "link");
                way = path_join(b.dir, "way");
                EXPECT_INT(symlink("last", link), 0);
                EXPECT_INT(symlink(".", way), 0);
                EXPECT(edit_diff(&b, text, false) < 0);
                EXPECT(edit_diff(&b, text, true) < 0);
                expect_text(&b, "mod", "m\n");
                expect_text(&b, "from", "r\n1\n");
                expect_text(&b, "gone", "g\n");
                expect_text(&b, "last", "l\n");
                EXPECT_INT(mode_of(&b, "mod"), 0644);
                EXPECT_INT(count_names(&b), 6);
                bed_close(&b);
        }
}

/* The failure comes when steps are taken already: the directory for "A/b" stands where "A" should
 * be. */
TEST(edit_undoes_what_was_in_place)
{
        static const char text[] = "--- a/mod\n+++ b/mod\n@@ -1 +1 @@\n-m\n+M\n"
                                   "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
                                   "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n"
                                   "--- /dev/null\n+++ b/A\n@@ -0,0 +1 @@\n+one\n"
                                   "--- /dev/null\n+++ b/A/b\n@@ -0,0 +1 @@\n+two\n";
        struct bed b;

        bed_open(&b);
        make_four(&b);
        EXPECT_ERR(edit_diff(&b, text, false), ERR_CONFLICT, b.err);
        EXPECT_STR(b.err.msg, "'A' exists already");
        expect_text(&b, "mod", "m\n");
        expect_text(&b, "gone", "g\n");
        expect_text(&b, "new", NULL);
        EXPECT_INT(count_names(&b), 3); /* and the directory is gone again */
        bed_close(&b);
}

TEST(edit_finds_the_file_behind_gnu_names)
{
        struct bed b;

        bed_open(&b);
        write_text(&b, "f", "a\n");
        EXPECT_OK(edit_diff(&b, "--- f.orig\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", false), b.err);
        expect_text(&b, "f", "b\n");
        EXPECT_OK(edit_diff(&b, "--- f\n+++ f.new\n@@ -1 +1 @@\n-b\n+c\n", false), b.err);
        expect_text(&b, "f", "c\n");
        expect_text(&b, "f.new", NULL);
        EXPECT_OK(edit_diff(&b, "--- x/n\n+++ x/n\n@@ -0,0 +1 @@\n+new\n", false), b.err);
        EXPECT_STR(b.res.at[0].what, "created");
        expect_text(&b, "x/n", "new\n");
        bed_close(&b);
}

TEST(edit_limits_the_file)
{
        _cleanup_free_ char *path = NULL;
        struct bed b;

        bed_open(&b);
        write_text(&b, "f", "a\n");
        path = path_join(b.dir, "f");
        EXPECT_INT(truncate(path, EDIT_FILE_MAX), 0);
        EXPECT_OK(edit_diff(&b, "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", false), b.err);
        EXPECT_INT(truncate(path, EDIT_FILE_MAX + 1), 0);
        EXPECT_ERR(edit_diff(&b, "--- f\n+++ f\n@@ -1 +1 @@\n-b\n+c\n", false), ERR_TOO_BIG, b.err);
        bed_close(&b);
}
