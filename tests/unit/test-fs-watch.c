#include "test-fs.h"

#include <semaphore.h>
#include <stdatomic.h>

#include "fs/changes.h"
#include "fs/watch.h"
#include "io/job.h"
#include "io/loop.h"

/* ---- what waits to be told ---- */

static int note(void *arg, const struct fs_event *e, struct error *err)
{
        static const char *const words[] = {
                [FS_CREATED] = "created", [FS_MODIFIED] = "modified", [FS_DELETED] = "deleted",
                [FS_MOVED] = "moved",     [FS_OVERFLOW] = "overflow", [FS_READY] = "ready",
        };
        struct buf *b = arg;

        buf_printf(b, "%s%s", words[e->change], e->is_dir ? "/" : "");
        if (e->from)
                buf_printf(b, " %s", e->from);
        buf_printf(b, " %s\n", e->path ? e->path : "");
        return 0;
}

/* Tells all of it, as one text that is good until the next call. */
static const char *told(struct changes *c)
{
        static struct buf b;
        struct error err = {};

        buf_clear(&b);
        buf_puts(&b, "");
        EXPECT_OK(changes_tell(c, note, &b, &err), err);
        EXPECT_INT(c->n, 0);
        EXPECT_INT(c->n_leaving, 0);
        return b.len ? b.data : "";
}

TEST(changes_of_one_path_become_one)
{
        static const struct {
                enum fs_change first, second;
                const char *want;
        } rows[] = {
                { FS_CREATED, FS_MODIFIED, "created a\n" },
                { FS_CREATED, FS_CREATED, "created a\n" },
                { FS_CREATED, FS_DELETED, "" },
                { FS_MODIFIED, FS_MODIFIED, "modified a\n" },
                { FS_MODIFIED, FS_DELETED, "deleted a\n" },
                { FS_MODIFIED, FS_CREATED, "modified a\n" },
                { FS_DELETED, FS_CREATED, "modified a\n" },
                { FS_DELETED, FS_DELETED, "deleted a\n" },
        };
        struct changes c;

        changes_init(&c);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                EXPECT(changes_put(&c, rows[i].first, "a", false));
                EXPECT(changes_put(&c, rows[i].second, "a", false));
                EXPECT_STR(told(&c), rows[i].want);
        }
        changes_done(&c);
}

TEST(changes_keep_the_order_of_paths)
{
        struct changes c;

        changes_init(&c);
        EXPECT(changes_put(&c, FS_CREATED, "d", true));
        EXPECT(changes_put(&c, FS_CREATED, "d/f", false));
        EXPECT(changes_put(&c, FS_MODIFIED, "a", false));
        EXPECT(changes_put(&c, FS_MODIFIED, "d/f", false));
        EXPECT_STR(told(&c), "created/ d\ncreated d/f\nmodified a\n");
        changes_done(&c);
}

TEST(changes_do_not_merge_a_directory_with_the_next_one)
{
        struct changes c;

        changes_init(&c);
        EXPECT(changes_put(&c, FS_DELETED, "d", true));
        EXPECT(!changes_put(&c, FS_CREATED, "d", true));
        EXPECT_STR(told(&c), "deleted/ d\n");
        changes_done(&c);
}

TEST(changes_pair_the_halves_of_a_move)
{
        struct changes c;

        changes_init(&c);
        EXPECT(changes_leave(&c, "a", false, 7));
        EXPECT_INT(changes_arrive(&c, "b", false, 8), 0);
        EXPECT_INT(changes_arrive(&c, "b", false, 7), 1);
        EXPECT_STR(told(&c), "moved a b\n");

        EXPECT(changes_leave(&c, "a", false, 7)); /* out of sight */
        EXPECT_STR(told(&c), "deleted a\n");

        EXPECT(changes_put(&c, FS_MODIFIED, "a", false));
        EXPECT(changes_leave(&c, "a", false, 1));
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_put(&c, FS_MODIFIED, "b", false));
        EXPECT_STR(told(&c), "moved a b\nmodified b\n");

        EXPECT(changes_leave(&c, "a", false, 1)); /* a chain is one way */
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_leave(&c, "b", false, 2));
        EXPECT_INT(changes_arrive(&c, "c", false, 2), 1);
        EXPECT_STR(told(&c), "moved a c\n");
        changes_done(&c);
}

TEST(changes_see_through_a_temporary_file)
{
        struct changes c;

        changes_init(&c);
        EXPECT(changes_put(&c, FS_CREATED, "tmp", false)); /* a new file */
        EXPECT(changes_leave(&c, "tmp", false, 1));
        EXPECT_INT(changes_arrive(&c, "f", false, 1), 1);
        EXPECT_STR(told(&c), "created f\n");

        EXPECT(changes_put(&c, FS_CREATED, "tmp", false)); /* in the place of an old one */
        EXPECT(changes_leave(&c, "tmp", false, 1));
        EXPECT_INT(changes_arrive(&c, "f", true, 1), 1);
        EXPECT_STR(told(&c), "modified f\n");

        EXPECT(changes_put(&c, FS_CREATED, "tmp", false)); /* and never seen at all */
        EXPECT(changes_leave(&c, "tmp", false, 1));
        EXPECT_STR(told(&c), "");
        changes_done(&c);
}

TEST(changes_of_what_moved_and_went)
{
        struct changes c;

        changes_init(&c);
        EXPECT(changes_leave(&c, "a", false, 1));
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_put(&c, FS_DELETED, "b", false));
        EXPECT_STR(told(&c), "deleted a\n");

        EXPECT(changes_leave(&c, "a", false, 1));
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_put(&c, FS_CREATED, "a", false)); /* its place was taken */
        EXPECT(changes_put(&c, FS_DELETED, "b", false));
        EXPECT_STR(told(&c), "moved a b\ndeleted b\ncreated a\n");

        changes_done(&c);
}

/* Where one event would not be true, it says so, and two are told. */
TEST(changes_that_do_not_merge_are_told_one_by_one)
{
        struct changes c;

        changes_init(&c);
        EXPECT(changes_leave(&c, "a", false, 1)); /* moved, then moved over by another */
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_leave(&c, "x", false, 2));
        EXPECT_INT(changes_arrive(&c, "b", true, 2), -1);
        EXPECT_STR(told(&c), "moved a b\ndeleted x\n");

        EXPECT(changes_leave(&c, "a", false, 1)); /* moved over one, then moved on */
        EXPECT_INT(changes_arrive(&c, "b", true, 1), 1);
        EXPECT(changes_leave(&c, "b", false, 2));
        EXPECT_INT(changes_arrive(&c, "c", false, 2), -1);
        EXPECT_STR(told(&c), "moved a b\ndeleted b\n");

        EXPECT(changes_leave(&c, "a", false, 1)); /* moved on, when its first place was taken */
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_put(&c, FS_CREATED, "a", true));
        EXPECT(changes_leave(&c, "b", false, 2));
        EXPECT_INT(changes_arrive(&c, "c", false, 2), -1);
        EXPECT_STR(told(&c), "moved a b\ndeleted b\ncreated/ a\n");

        EXPECT(changes_leave(&c, "a", true, 1)); /* a file is now where the directory was */
        EXPECT_INT(changes_arrive(&c, "b", false, 1), 1);
        EXPECT(changes_put(&c, FS_CREATED, "a", false));
        EXPECT(changes_put(&c, FS_DELETED, "b", true));
        EXPECT(!changes_put(&c, FS_CREATED, "b", true));
        EXPECT(!changes_leave(&c, "b", true, 3));
        EXPECT_STR(told(&c), "moved/ a b\ndeleted/ b\ncreated a\n");
        changes_done(&c);
}

static int refuse(void *arg, const struct fs_event *e, struct error *err)
{
        return error_set(err, ERR_UPSTREAM, 0, "no");
}

TEST(changes_are_gone_when_nobody_takes_them)
{
        struct changes c;
        struct error err = {};

        changes_init(&c);
        EXPECT(changes_put(&c, FS_CREATED, "a", false));
        EXPECT(changes_put(&c, FS_CREATED, "b", false));
        EXPECT_ERR(changes_tell(&c, refuse, NULL, &err), ERR_UPSTREAM, err);
        EXPECT_INT(c.n, 0);
        changes_done(&c);
}

/* ---- the real thing ---- */

enum { WAIT_MS = 20 * 1000 };

/* Stops the watch in the middle of telling, once. */
struct hold {
        sem_t is_held, go_on;
};

static void hold_init(struct hold *h)
{
        EXPECT_INT(sem_init(&h->is_held, 0, 0), 0);
        EXPECT_INT(sem_init(&h->go_on, 0, 0), 0);
}

static void hold_done(struct hold *h)
{
        (void) sem_destroy(&h->is_held);
        (void) sem_destroy(&h->go_on);
}

/* A watch in a job of its own; what it says gathers as text, paths shown below the bed's "in". */
struct eye {
        struct bed bed;
        struct loop *loop;
        struct job *job, *self; /* as the loop and as the thread know it */
        struct fs_watch_spec spec;
        char *path;
        struct buf text;
        const char *wanted; /* wakes the test when it is there */
        bool is_there, is_done;
        struct error why;
        bool has_failed;
        _Atomic(struct hold *) hold; /* for the thread, which takes it */
};

static int emit(void *arg, const struct fs_event *e, struct error *err)
{
        struct eye *y = arg;
        struct hold *h = atomic_exchange(&y->hold, NULL);
        _cleanup_(buf_done) struct buf b = { 0 };

        if (h) {
                (void) sem_post(&h->is_held);
                (void) sem_wait(&h->go_on);
        }
        (void) note(&b, e, err);
        return job_emit(y->self, b.data, b.len, err);
}

static int eye_run(struct job *j, void *arg, struct error *err)
{
        struct eye *y = arg;

        y->self = j;
        return fs_watch(y->bed.all, &y->spec, j, emit, y, err);
}

static void eye_look(struct eye *y)
{
        y->is_there = y->wanted && y->text.len && strstr(y->text.data, y->wanted);
}

static void eye_data(void *arg, struct chunk *c)
{
        struct eye *y = arg;

        buf_put(&y->text, c->data, c->len);
        eye_look(y);
}

static void eye_end(void *arg, const struct error *why)
{
        struct eye *y = arg;

        y->is_done = true;
        y->has_failed = why;
        if (why)
                y->why = *why;
}

/* Waits for "<what> <path below in>\n". */
static void expect_told(struct eye *y, const char *what, const char *name)
{
        _cleanup_free_ char *line =
                xasprintf("%s %s%s%s\n", what, at(&y->bed, "in"), *name ? "/" : "", name);

        y->wanted = line;
        eye_look(y);
        if (!y->is_there && !loop_run_until(y->loop, &y->is_there, WAIT_MS))
                test_fail(TEST_AT, "expected '%s', seen:\n%s", line,
                          y->text.len ? y->text.data : "");
        y->wanted = NULL;
}

static void expect_moved(struct eye *y, const char *what, const char *from, const char *to)
{
        _cleanup_free_ char *word = xasprintf("%s %s", what, at(&y->bed, from));
        _cleanup_free_ char *line = xasprintf("%s %s\n", word, at(&y->bed, to));

        y->wanted = line;
        eye_look(y);
        if (!y->is_there && !loop_run_until(y->loop, &y->is_there, WAIT_MS))
                test_fail(TEST_AT, "expected '%s', seen:\n%s", line, y->text.data);
        y->wanted = NULL;
}

static bool was_told(const struct eye *y, const char *word)
{
        return y->text.len && strstr(y->text.data, word);
}

static void eye_start(struct eye *y, const char *name)
{
        static const struct job_spec spec = { .run = eye_run,
                                              .on_data = eye_data,
                                              .on_done = eye_end };
        struct error err = {};

        y->loop = loop_new();
        y->path = xstrdup(at(&y->bed, name));
        y->spec.path = y->path;
        EXPECT_OK(job_start(y->loop, &spec, y, &y->job, &err), err);
}

static struct eye *eye_open(struct eye *y, const char *name)
{
        eye_start(y, name);
        y->wanted = "ready ";
        eye_look(y);
        EXPECT(y->is_there || loop_run_until(y->loop, &y->is_there, WAIT_MS));
        y->wanted = NULL;
        buf_clear(&y->text);
        return y;
}

static void eye_done(struct eye *y)
{
        if (!y->is_done) {
                job_cancel(y->job);
                EXPECT(loop_run_until(y->loop, &y->is_done, WAIT_MS));
                EXPECT(!y->has_failed);
        }
        loop_free(y->loop);
        buf_done(&y->text);
        free(y->path);
        bed_done(&y->bed);
}
#define _cleanup_eye_ _cleanup_(eye_done)

TEST(watch_tells_created_modified_and_deleted)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };
        FILE *f;

        put(&y.bed, "in/old", "1\n");
        eye_open(&y, "in");
        f = fopen(at(&y.bed, "in/new"), "we");
        EXPECT(f && fclose(f) == 0);
        expect_told(&y, "created", "new");
        f = fopen(at(&y.bed, "in/old"), "ae");
        EXPECT(f && fputs("2\n", f) > 0 && fclose(f) == 0);
        expect_told(&y, "modified", "old");
        EXPECT_INT(unlink(at(&y.bed, "in/old")), 0);
        expect_told(&y, "deleted", "old");
}

TEST(watch_tells_an_atomic_replacement_as_modified)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };

        put(&y.bed, "in/f", "1\n");
        eye_open(&y, "in");
        put(&y.bed, "in/f", "2\n"); /* a file beside it, then rename */
        expect_told(&y, "modified", "f");
        put(&y.bed, "in/g", "2\n");
        expect_told(&y, "created", "g");
        EXPECT(!was_told(&y, "moved"));
}

/* A file without a name shows under its number while it is written; a real name like that counts.
 */
TEST(watch_does_not_tell_of_files_without_a_name)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };
        struct error err = {};

        put(&y.bed, "in/f", "1\n");
        put(&y.bed, "in/#1", "1\n");
        eye_open(&y, "in");
        EXPECT_OK(fs_put(y.bed.all, at(&y.bed, "in/f"), "two\n", NULL, &err), err);
        expect_told(&y, "modified", "f");
        EXPECT(!was_told(&y, "#") && !was_told(&y, "deleted") && !was_told(&y, "created"));
        EXPECT_INT(truncate(at(&y.bed, "in/#1"), 0), 0);
        expect_told(&y, "modified", "#1");
}

TEST(watch_tells_everything_in_a_directory_that_comes_with_content)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };

        EXPECT_INT(mkdir(at(&y.bed, "out"), 0755), 0);
        EXPECT_INT(mkdir(at(&y.bed, "out/deep"), 0755), 0);
        put(&y.bed, "out/deep/f", "x");
        eye_open(&y, "in");
        EXPECT_INT(rename(at(&y.bed, "out"), at(&y.bed, "in/moved")), 0);
        expect_told(&y, "created/", "moved");
        expect_told(&y, "created/", "moved/deep");
        expect_told(&y, "created", "moved/deep/f");
        put(&y.bed, "in/moved/deep/g", "x"); /* and it is watched */
        expect_told(&y, "created", "moved/deep/g");
}

/* Directories and their files come faster than watches can be added. */
TEST(watch_misses_no_file_of_a_new_tree)
{
        _cleanup_eye_ struct eye y = { .bed = bed_fast(), .spec.is_recursive = true };
        char name[64];

        eye_open(&y, "in");
        for (int i = 0; i < 100; i++) {
                (void) snprintf(name, sizeof(name), "in/d%d", i);
                EXPECT_INT(mkdir(at(&y.bed, name), 0755), 0);
                (void) snprintf(name, sizeof(name), "in/d%d/e", i);
                EXPECT_INT(mkdir(at(&y.bed, name), 0755), 0);
                (void) snprintf(name, sizeof(name), "in/d%d/e/f", i);
                put(&y.bed, name, "x");
        }
        for (int i = 0; i < 100; i++) {
                (void) snprintf(name, sizeof(name), "d%d/e/f", i);
                expect_told(&y, "created", name);
        }
}

TEST(watch_pairs_moves_and_follows_directories)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };

        EXPECT_INT(mkdir(at(&y.bed, "in/a"), 0755), 0);
        EXPECT_INT(mkdir(at(&y.bed, "in/a/sub"), 0755), 0);
        put(&y.bed, "in/f", "x");
        eye_open(&y, "in");
        EXPECT_INT(rename(at(&y.bed, "in/f"), at(&y.bed, "in/a/g")), 0);
        expect_moved(&y, "moved", "in/f", "in/a/g");
        EXPECT_INT(rename(at(&y.bed, "in/a"), at(&y.bed, "in/b")), 0);
        expect_moved(&y, "moved/", "in/a", "in/b");
        put(&y.bed, "in/b/sub/new", "x"); /* under its new name */
        expect_told(&y, "created", "b/sub/new");
        EXPECT_INT(rename(at(&y.bed, "in/b"), at(&y.bed, "gone")), 0);
        expect_told(&y, "deleted/", "b");
        buf_clear(&y.text);
        put(&y.bed, "gone/sub/unseen", "x"); /* out of the tree, out of sight */
        put(&y.bed, "in/seen", "x");
        expect_told(&y, "created", "seen");
        EXPECT(!was_told(&y, "unseen"));
}

TEST(watch_tells_of_both_that_change_places)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };
        int in;

        EXPECT_INT(mkdir(at(&y.bed, "in/d"), 0755), 0);
        EXPECT_INT(mkdir(at(&y.bed, "in/d/sub"), 0755), 0);
        put(&y.bed, "in/a", "1");
        put(&y.bed, "in/b", "2");
        put(&y.bed, "outside", "3");
        eye_open(&y, "in");
        in = open(at(&y.bed, "in"), O_PATH | O_DIRECTORY | O_CLOEXEC);
        EXPECT_INT(renameat2(in, "a", in, "b", RENAME_EXCHANGE), 0);
        expect_told(&y, "modified", "a");
        expect_told(&y, "modified", "b");
        buf_clear(&y.text);
        EXPECT_INT(renameat2(in, "a", in, "../outside", RENAME_EXCHANGE), 0);
        expect_told(&y, "modified", "a");
        EXPECT_INT(renameat2(in, "b", in, "d", RENAME_EXCHANGE), 0);
        expect_told(&y, "deleted", "b");
        expect_told(&y, "created/", "b");
        expect_told(&y, "created/", "b/sub");
        expect_told(&y, "deleted/", "d");
        expect_told(&y, "created", "d");
        put(&y.bed, "in/b/sub/f", ""); /* watched where it is now */
        expect_told(&y, "created", "b/sub/f");
        EXPECT(!was_told(&y, "moved"));
        (void) close(in);
}

TEST(watch_leaves_out_what_is_ignored)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };

        EXPECT_INT(mkdir(at(&y.bed, "in/.git"), 0755), 0);
        EXPECT_INT(mkdir(at(&y.bed, "in/build"), 0755), 0);
        put(&y.bed, "in/.gitignore", "build/\n*.o\n");
        eye_open(&y, "in");
        put(&y.bed, "in/.git/x", "");
        put(&y.bed, "in/build/x", "");
        put(&y.bed, "in/a.o", "");
        put(&y.bed, "in/a.c", "");
        expect_told(&y, "created", "a.c");
        EXPECT(!was_told(&y, "build") && !was_told(&y, ".o") && !was_told(&y, "/.git/"));
        put(&y.bed, "in/.gitignore", "*.o\n"); /* other rules: other directories */
        expect_told(&y, "modified", ".gitignore");
        put(&y.bed, "in/build/y", "");
        expect_told(&y, "created", "build/y");
}

TEST(watch_with_ignored_leaves_out_nothing)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(),
                                       .spec = { .is_recursive = true, .with_ignored = true } };

        EXPECT_INT(mkdir(at(&y.bed, "in/.git"), 0755), 0);
        put(&y.bed, "in/.gitignore", "*.o\n");
        eye_open(&y, "in");
        put(&y.bed, "in/a.o", "");
        expect_told(&y, "created", "a.o");
        put(&y.bed, "in/.git/x", "");
        expect_told(&y, "created", ".git/x");
}

TEST(watch_that_is_not_recursive_stays_on_its_level)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new() };

        EXPECT_INT(mkdir(at(&y.bed, "in/sub"), 0755), 0);
        eye_open(&y, "in");
        put(&y.bed, "in/sub/unseen", "");
        EXPECT_INT(mkdir(at(&y.bed, "in/new"), 0755), 0);
        put(&y.bed, "in/new/unseen", "");
        put(&y.bed, "in/seen", "");
        expect_told(&y, "created/", "new");
        expect_told(&y, "created", "seen");
        EXPECT(!was_told(&y, "unseen"));
}

TEST(watch_ends_when_its_directory_goes)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new(), .spec.is_recursive = true };
        _cleanup_close_ int held = -1;

        put(&y.bed, "in/f", "");
        eye_open(&y, "in");
        held = open(at(&y.bed, "in"), O_DIRECTORY | O_CLOEXEC); /* somebody works in it */
        EXPECT_INT(unlink(at(&y.bed, "in/f")), 0);
        EXPECT_INT(rmdir(at(&y.bed, "in")), 0);
        EXPECT(loop_run_until(y.loop, &y.is_done, WAIT_MS));
        EXPECT(!y.has_failed);
        expect_told(&y, "deleted", "f");
        expect_told(&y, "deleted/", "");
}

TEST(watch_of_a_file_survives_its_replacement_but_not_its_end)
{
        _cleanup_eye_ struct eye y = { .bed = bed_new() };
        struct error err = {};

        put(&y.bed, "in/f", "1");
        put(&y.bed, "in/other", "1");
        eye_open(&y, "in/f");
        put(&y.bed, "in/other", "2");
        put(&y.bed, "in/f", "2");
        expect_told(&y, "modified", "f");
        EXPECT(!was_told(&y, "other"));
        buf_clear(&y.text);
        EXPECT_OK(fs_put(y.bed.all, at(&y.bed, "in/f"), "3", NULL, &err), err);
        expect_told(&y, "modified", "f");
        EXPECT_INT(unlink(at(&y.bed, "in/f")), 0);
        EXPECT(loop_run_until(y.loop, &y.is_done, WAIT_MS));
        EXPECT(!y.has_failed);
        expect_told(&y, "deleted", "f");
}

TEST(watch_refuses_what_cannot_be_watched)
{
        static const char *const names[] = { "none", "fifo" };
        static const enum err_kind kinds[] = { ERR_NOT_FOUND, ERR_INVALID };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _cleanup_eye_ struct eye y = { .bed = bed_new() };

                EXPECT_INT(mkfifo(at(&y.bed, "fifo"), 0600), 0);
                eye_start(&y, names[i]);
                EXPECT(loop_run_until(y.loop, &y.is_done, WAIT_MS));
                EXPECT(y.has_failed);
                EXPECT_INT(y.why.kind, kinds[i]);
        }
}

static uint64_t queue_max(void)
{
        struct buf b = { .max_bytes = 64 };
        uint64_t n = 0;

        EXPECT_INT(file_read("/proc/sys/fs/inotify/max_queued_events", &b, NULL), 0);
        EXPECT(str_to_u64(b.data, strcspn(b.data, "\n"), &n));
        buf_done(&b);
        return n;
}

/* While nobody takes what the watch says it does not listen, and the kernel's queue runs over. That
 * is said, what is watched is looked at anew, and it goes on. */
TEST(watch_says_when_it_missed_something_and_goes_on)
{
        _cleanup_eye_ struct eye y = { .bed = bed_fast(), .spec.is_recursive = true };
        uint64_t n = queue_max();
        struct hold hold;
        int fds[2];

        eye_open(&y, "in");
        hold_init(&hold);
        atomic_store(&y.hold, &hold);
        fds[0] = open(at(&y.bed, "in/a"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        fds[1] = open(at(&y.bed, "in/b"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        EXPECT_INT(sem_wait(&hold.is_held), 0);
        for (uint64_t i = 0; i < 2 * n; i++) /* in turn: equal events in a row would be one */
                EXPECT_INT(pwrite(fds[i % 2], "x", 1, 0), 1);
        (void) close(fds[0]);
        (void) close(fds[1]);
        EXPECT_INT(mkdir(at(&y.bed, "in/lost"), 0755), 0); /* its event finds no room */
        EXPECT_INT(sem_post(&hold.go_on), 0);
        expect_told(&y, "overflow", "");
        EXPECT(!was_told(&y, "/lost\n"));
        put(&y.bed, "in/lost/found", "");
        expect_told(&y, "created", "lost/found");
        hold_done(&hold);
}
