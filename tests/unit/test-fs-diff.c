#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "fs/edit.h"
#include "test.h"

static struct slice slice_of(const struct buf *b)
{
        return (struct slice) { b->data, b->len };
}

/* Applies the only file of a diff to a text; the result, or NULL with err. */
static char *apply(const char *diff, const char *text, struct error *err)
{
        struct diff d = { 0 };
        struct buf out = { 0 };
        unsigned n;
        int r;

        if (diff_parse(SLICE(diff), &d, err) < 0)
                return NULL;
        EXPECT_INT(d.n_files, 1);
        r = diff_apply(&d.files[0], SLICE(text), &out, &n, err);
        diff_done(&d);
        if (r == 0)
                return buf_take(&out);
        buf_done(&out);
        return NULL;
}

static void expect_apply(const char *diff, const char *text, const char *want)
{
        struct error err = { 0 };
        _cleanup_free_ char *seen = apply(diff, text, &err);

        EXPECT_OK(seen ? 0 : -1, err);
        EXPECT_STR(seen, want);
}

static void expect_refused(const char *diff, const char *text, enum err_kind kind, const char *why)
{
        struct error err = { 0 };
        _cleanup_free_ char *seen = apply(diff, text, &err);

        EXPECT(!seen);
        EXPECT_INT(err.kind, kind);
        if (!strstr(err.msg, why))
                EXPECT_STR(err.msg, why);
}

#define HEAD "--- a/f\n+++ b/f\n"

TEST(diff_replaces_a_line)
{
        expect_apply(HEAD "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nb\nc\n", "a\nB\nc\n");
}

TEST(diff_finds_hunks_that_moved)
{
        const char *const diff = HEAD "@@ -2,2 +2,2 @@\n x\n-y\n+Y\n@@ -5,1 +5,2 @@\n z\n+new\n";

        expect_apply(diff, "1\nx\ny\n4\nz\n", "1\nx\nY\n4\nz\nnew\n");
        expect_apply(diff, "0\n0\n0\n1\nx\ny\n4\nz\n", "0\n0\n0\n1\nx\nY\n4\nz\nnew\n");
        expect_apply(diff, "x\ny\nz\n", "x\nY\nz\nnew\n");
}

TEST(diff_takes_the_nearest_place)
{
        const char *const diff = HEAD "@@ -4 +4 @@\n-s\n+S\n";

        expect_apply(diff, "s\n\n\n\ns\n", "s\n\n\n\nS\n");
        expect_apply(diff, "\ns\n\n\n\n\n\ns\n", "\nS\n\n\n\n\n\ns\n");
        expect_apply(diff, "s\ns\ns\ns\ns\n", "s\ns\ns\nS\ns\n");
}

TEST(diff_hunks_keep_their_order)
{
        /* The second hunk must not go before the first. */
        expect_refused(HEAD "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n", "a\nb\n", ERR_CONFLICT,
                       "hunk 2 (line 6 of the diff) does not fit at line 1");
}

TEST(diff_says_which_hunk_does_not_fit)
{
        expect_refused(HEAD "@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-c\n+C\n", "a\nb\nx\n", ERR_CONFLICT,
                       "hunk 2 (line 6 of the diff) does not fit at line 3");
        expect_refused(HEAD "@@ -1 +1 @@\n-a\n+A\n", "", ERR_CONFLICT, "hunk 1 (line 3");
        expect_refused(HEAD "@@ -1 +1 @@\n-a\n+A\n", "a \n", ERR_CONFLICT, "hunk 1");
}

TEST(diff_inserts_without_context)
{
        expect_apply(HEAD "@@ -0,0 +1 @@\n+top\n", "a\n", "top\na\n");
        expect_apply(HEAD "@@ -1,0 +2 @@\n+mid\n", "a\nb\n", "a\nmid\nb\n");
        expect_apply(HEAD "@@ -2,0 +3 @@\n+end\n", "a\nb\n", "a\nb\nend\n");
        expect_refused(HEAD "@@ -3,0 +4 @@\n+far\n", "a\nb\n", ERR_CONFLICT, "line 3");
        expect_refused(HEAD "@@ -1,0 +2 @@\n+x\n", "no feed", ERR_CONFLICT, "line 1");
}

TEST(diff_knows_a_last_line_without_feed)
{
#define NO "\\ No newline at end of file\n"
        expect_apply(HEAD "@@ -1 +1 @@\n-a\n" NO "+b\n", "a", "b\n");
        expect_apply(HEAD "@@ -1 +1 @@\n-a\n+b\n" NO, "a\n", "b");
        expect_apply(HEAD "@@ -1 +1 @@\n-a\n" NO "+b\n" NO, "a", "b");
        expect_apply(HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n c\n" NO, "a\nc", "b\nc");
        expect_refused(HEAD "@@ -1 +1 @@\n-a\n" NO "+b\n", "a\n", ERR_CONFLICT, "hunk 1");
        expect_refused(HEAD "@@ -1 +1 @@\n-a\n+b\n", "a", ERR_CONFLICT, "hunk 1");
        expect_refused(HEAD "@@ -1 +1 @@\n-a\n+b\n" NO, "a\nmore\n", ERR_CONFLICT,
                       "ends the file at line 1, but more follows");
        expect_refused(HEAD "@@ -1,2 +1 @@\n-a\n" NO "-b\n+c\n", "a\nb\n", ERR_INVALID, "line 6");
}

TEST(diff_keeps_carriage_returns)
{
        expect_apply(HEAD "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", "a\r\nb\r\n", "a\r\nB\r\n");
        expect_refused(HEAD "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\r\nb\r\n", ERR_CONFLICT, "hunk 1");
}

TEST(diff_takes_empty_lines_for_empty_context)
{
        expect_apply(HEAD "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nb\n", "a\n\nB\n");
}

TEST(diff_refuses_hunks_that_do_not_count)
{
        static const char *const bad[] = {
                HEAD "@@ -1,2 +1 @@\n-a\n+b\n",          /* one line too few */
                HEAD "@@ -1 +1 @@\n-a\n+b\n+c\n",        /* too many: would be lost */
                HEAD "@@ -1 +1 @@\n-a\n+b\n c\n",        /* the same with context */
                HEAD "@@ -1 +1 @@\n-a\n*b\n",            /* not a line of a hunk */
                HEAD "@@ -1 +1\n-a\n+b\n",               /* not a header */
                HEAD "@@ -0,1 +1 @@\n-a\n+b\n",          /* lines count from 1 */
                HEAD "@@ -99999999999999999999 +1 @@\n", /* no number */
                HEAD "@@ -1 +1 @@\n" NO "-a\n+b\n",      /* a remark about nothing */
                "@@ -1 +1 @@\n-a\n+b\n",                 /* no file */
                HEAD,                                    /* no hunk */
                "some text\n--- a ruler\n",              /* no file either */
                "",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                expect_refused(bad[i], "a\n", ERR_INVALID, "diff");
}

TEST(diff_header_in_a_hunk_is_a_line)
{
        expect_apply(HEAD "@@ -1,2 +1,2 @@\n--- x\n-y\n+++ z\n+y\n", "-- x\ny\n", "++ z\ny\n");
}

/* ---- files ---- */

static struct diff parsed(const char *text)
{
        struct diff d = { 0 };
        struct error err = { 0 };

        EXPECT_OK(diff_parse(SLICE(text), &d, &err), err);
        return d;
}

TEST(diff_reads_names)
{
        static const struct {
                const char *head, *old_path, *new_path;
        } rows[] = {
                { "--- a/x\n+++ b/x\n", "x", "x" },
                { "--- a/x\r\n+++ b/x\r\n", "x", "x" },
                { "--- x\n+++ x\n", "x", "x" },
                { "--- x.orig\t2026-01-02 03:04:05.0 +0000\n+++ x\t2026-01-02\n", "x.orig", "x" },
                { "--- a/with space\t\n+++ b/with space\t\n", "with space", "with space" },
                { "--- \"a/t\\303\\251\\t\"\n+++ \"b/t\\303\\251\\t\"\n", "t\xc3\xa9\t",
                  "t\xc3\xa9\t" },
                { "--- /dev/null\n+++ b/d/new\n", NULL, "d/new" },
                { "--- a/gone\n+++ /dev/null\n", "gone", NULL },
                { "--- a/a/x\n+++ c/x\n", "a/a/x", "c/x" },
                { "--- n\t1970-01-01 01:00:00.000000000 +0100\n+++ n\t2026-01-02\n", NULL, "n" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _cleanup_free_ char *text = xasprintf("%s@@ -1 +1 @@\n-a\n+b\n", rows[i].head);
                struct diff d = parsed(text);

                EXPECT_INT(d.n_files, 1);
                EXPECT_INT(d.files[0].line, 3);
                EXPECT_STR(d.files[0].old_path, rows[i].old_path);
                EXPECT_STR(d.files[0].new_path, rows[i].new_path);
                EXPECT(!d.files[0].is_rename);
                diff_done(&d);
        }
}

TEST(diff_reads_what_git_says)
{
        struct diff d = parsed("From 123 Mon Sep 17\nSubject: things\n\n---\n f | 2 +-\n\n"
                               "diff --git a/old name b/new name\nsimilarity index 90%\n"
                               "rename from old name\nrename to new name\n"
                               "--- a/old name\t\n+++ b/new name\t\n@@ -1 +1 @@\n-a\n+b\n"
                               "diff --git a/p q b/p q\nold mode 100644\nnew mode 100755\n"
                               "diff --git a/e b/e\nnew file mode 100644\nindex 0..0\n"
                               "diff --git a/g b/g\ndeleted file mode 100644\nindex 0..0\n"
                               "-- \n2.39.5\n\n");

        EXPECT_INT(d.n_files, 4);
        EXPECT(d.files[0].is_rename);
        EXPECT_STR(d.files[0].old_path, "old name");
        EXPECT_STR(d.files[0].new_path, "new name");
        EXPECT_INT(d.files[0].line, 13);
        EXPECT_STR(d.files[1].new_path, "p q");
        EXPECT_INT(d.files[1].mode, 0755);
        EXPECT(!d.files[2].old_path);
        EXPECT_STR(d.files[2].new_path, "e");
        EXPECT_STR(d.files[3].old_path, "g");
        EXPECT(!d.files[3].new_path);
        diff_done(&d);
}

TEST(diff_refuses_what_is_not_text)
{
        static const char *const texts[] = {
                "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\n",
                "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
                "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n",
                "diff --git a/x b/y\ncopy from x\ncopy to y\n",
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                expect_refused(texts[i], "", ERR_UNSUPPORTED, "diff");
}

TEST(diff_refuses_names_that_lead_out)
{
        static const char *const names[] = { "a/../../x", "/etc/passwd", "a/x/../y",
                                             "\"a/..\\057\"", "." };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _cleanup_free_ char *text =
                        xasprintf("--- %s\n+++ %s\n@@ -1 +1 @@\n-a\n+b\n", names[i], names[i]);

                expect_refused(text, "a\n", ERR_INVALID, "invalid relative path");
        }
}

TEST(diff_limits_files)
{
        static const char part[] = HEAD "@@ -1 +1 @@\n-a\n+b\n";
        _cleanup_(buf_done) struct buf text = { 0 };
        struct error err = { 0 };
        struct diff d = { 0 };

        for (int i = 0; i < EDIT_FILES_MAX; i++)
                buf_puts(&text, part);
        EXPECT_OK(diff_parse(slice_of(&text), &d, &err), err);
        EXPECT_INT(d.n_files, EDIT_FILES_MAX);
        diff_done(&d);
        buf_puts(&text, part);
        EXPECT_ERR(diff_parse(slice_of(&text), &d, &err), ERR_TOO_BIG, err);
}

/* ---- against GNU diff ---- */

static void run_diff(const char *dir, const char *context, struct buf *ret)
{
        char out[128], old[128], new[128];
        char *const argv[] = { (char *) "diff", (char *) "-a", (char *) context, old, new, NULL };
        char *const env[] = { (char *) "LC_ALL=C", NULL };
        posix_spawn_file_actions_t acts;
        struct error err = { 0 };
        pid_t pid;
        int status = -1;

        (void) snprintf(out, sizeof(out), "%s/out", dir);
        (void) snprintf(old, sizeof(old), "%s/old", dir);
        (void) snprintf(new, sizeof(new), "%s/new", dir);
        EXPECT_INT(posix_spawn_file_actions_init(&acts), 0);
        (void) posix_spawn_file_actions_addopen(&acts, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        EXPECT_INT(posix_spawnp(&pid, "diff", &acts, NULL, argv, env), 0);
        (void) posix_spawn_file_actions_destroy(&acts);
        EXPECT_INT(waitpid(pid, &status, 0), pid);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        buf_clear(ret);
        EXPECT_OK(file_read(out, ret, &err), err);
}

static void random_text(struct buf *b, unsigned *seed)
{
        static const char *const words[] = { "a",   "b",           "c",
                                             "",    "\r",          "- x",
                                             "+ y", "@@ -1 +1 @@", "\\ No newline at end of file" };
        int n = rand_r(seed) % 20;

        buf_clear(b);
        for (int i = 0; i < n; i++)
                buf_printf(b, "%s\n", words[(size_t) rand_r(seed) % ARRAY_LEN(words)]);
        if (n && rand_r(seed) % 3 == 0)
                b->len--;
        buf_put(b, "", 0);
}

/* Where the names came from: absolute paths, which diff_parse() rightly refuses. */
static void rename_files(struct buf *text)
{
        const char *hunks = strstr(text->data, "\n@@ ");
        struct buf b = { 0 };

        EXPECT(hunks);
        buf_puts(&b, "--- f\n+++ f");
        buf_put(&b, hunks, text->len - (size_t) (hunks - text->data));
        buf_done(text);
        *text = b;
}

static void write_file(const char *dir, const char *name, const struct buf *text)
{
        char path[128];
        struct error err = { 0 };

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        EXPECT_OK(file_write(path, text->data, text->len, 0600, &err), err);
}

TEST(diff_of_two_texts_makes_one_the_other)
{
        static const char *const contexts[] = { "-U3", "-U1", "-U0" };
        _cleanup_(buf_done) struct buf old = { 0 }, new = { 0 }, text = { 0 };
        char dir[] = "/tmp/sa-unit-diff-XXXXXX", path[64];
        unsigned seed = 7;

        EXPECT(mkdtemp(dir));
        for (int i = 0; i < 60; i++) {
                _cleanup_(buf_done) struct buf out = { 0 };
                struct error err = { 0 };
                struct diff d;
                unsigned n;

                random_text(&old, &seed);
                random_text(&new, &seed);
                if (old.len == new.len && memcmp(old.data, new.data, old.len) == 0)
                        continue;
                write_file(dir, "old", &old);
                write_file(dir, "new", &new);
                run_diff(dir, contexts[i % 3], &text);
                rename_files(&text);
                d = parsed(text.data);
                EXPECT_OK(diff_apply(&d.files[0], slice_of(&old), &out, &n, &err), err);
                EXPECT_INT(out.len, new.len);
                EXPECT_MEM(out.data, new.data, new.len);
                diff_done(&d);
        }
        for (const char *const *p = (const char *const[]) { "old", "new", "out", NULL }; *p; p++) {
                (void) snprintf(path, sizeof(path), "%s/%s", dir, *p);
                (void) unlink(path);
        }
        EXPECT_INT(rmdir(dir), 0);
}
