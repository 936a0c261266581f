#include "test-fs.h"

#include <pthread.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>

static void etag_of(const struct bed *b, const char *name, char ret[static 64])
{
        struct fs_info i;
        struct error err = {};

        EXPECT_OK(fs_stat(b->all, at(b, name), &i, &err), err);
        fs_etag(&i, ret);
}

TEST(write_makes_the_file_and_its_directories)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        struct stat st;
        mode_t mask = umask(022);

        EXPECT_OK(fs_put(b.in, at(&b, "in/a/b/file"), "hello", NULL, &err), err);
        (void) umask(mask);
        EXPECT_STR(got(&b, "in/a/b/file"), "hello");
        EXPECT_INT(stat(at(&b, "in/a/b/file"), &st), 0);
        EXPECT_INT(st.st_mode & 07777, 0644);
        EXPECT_INT(n_entries(&b, "in/a/b"), 1);
        EXPECT_OK(fs_put(b.in, at(&b, "in/empty"), "", NULL, &err), err);
        EXPECT_STR(got(&b, "in/empty"), "");
}

TEST(write_makes_directories_at_the_end_only)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fs_write_opts opts = {};
        struct fs_writer *w = NULL;
        struct error err = {};

        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/a/b/file"), &opts, &w, &err), err);
        EXPECT_OK(fs_writer_write(w, "half", 4, &err), err);
        EXPECT_INT(n_entries(&b, "in"), 0);
        w = fs_writer_free(w);
        EXPECT_INT(n_entries(&b, "in"), 0);
        put(&b, "in/file", "");
        EXPECT_ERR(fs_writer_open(b.in, at(&b, "in/file/x/y"), &opts, &w, &err), ERR_NOT_FOUND,
                   err);
}

TEST(write_finds_what_came_to_its_place_meanwhile)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fs_write_opts opts = {};
        struct fs_writer *w = NULL;
        struct error err = {};

        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/a/file"), &opts, &w, &err), err);
        EXPECT_OK(fs_writer_write(w, "new", 3, &err), err);
        EXPECT_OK(fs_put(b.in, at(&b, "in/a/file"), "other", NULL, &err), err);
        EXPECT_OK(fs_writer_commit(w, NULL, &err), err);
        w = fs_writer_free(w);
        EXPECT_STR(got(&b, "in/a/file"), "new");
        EXPECT_INT(n_entries(&b, "in/a"), 1);
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/c/dir"), &opts, &w, &err), err);
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/c/dir"), &err), err);
        EXPECT_ERR(fs_writer_commit(w, NULL, &err), ERR_INVALID, err);
        w = fs_writer_free(w);
        EXPECT_INT(n_entries(&b, "in/c"), 1);
}

TEST(write_keeps_mode_and_owner_and_replaces_in_one_step)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_close_ int old = -1;
        struct error err = {};
        struct stat st;
        char text[8] = "";

        put(&b, "in/file", "old");
        EXPECT_INT(chmod(at(&b, "in/file"), 0751), 0);
        if (geteuid() == 0)
                EXPECT_INT(chown(at(&b, "in/file"), 12, 34), 0);
        old = open(at(&b, "in/file"), O_RDONLY | O_CLOEXEC);
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "new", NULL, &err), err);
        EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
        EXPECT_INT(st.st_mode & 07777, 0751);
        if (geteuid() == 0)
                EXPECT(st.st_uid == 12 && st.st_gid == 34);
        EXPECT_INT(read(old, text, sizeof(text)), 3); /* who had it open still reads the old one */
        EXPECT_STR(text, "old");
        EXPECT_STR(got(&b, "in/file"), "new");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(write_gives_way_to_a_directory_that_came_meanwhile)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts none = { 0 };
        struct fs_writer *w = NULL;
        struct error err = {};

        put(&b, "in/file", "old");
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/file"), &none, &w, &err), err);
        EXPECT_INT(unlink(at(&b, "in/file")), 0);
        EXPECT_INT(mkdir(at(&b, "in/file"), 0755), 0);
        EXPECT_INT(mkdir(at(&b, "in/file/sub"), 0755), 0);
        EXPECT_ERR(fs_writer_commit(w, NULL, &err), ERR_INVALID, err);
        fs_writer_free(w);
        EXPECT(is_there(&b, "in/file/sub"));
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(write_of_large_files_replaces_too)
{
        _cleanup_bed_ struct bed b = bed_fast();
        _cleanup_free_ char *big = xmalloc((1 << 20) + 2);
        struct error err = {};
        struct stat st;

        memset(big, 'x', (1 << 20) + 1);
        for (int more = 0; more <= 1; more++) { /* the largest that is traded, and one more */
                big[(1 << 20) + more] = '\0';
                EXPECT_OK(fs_put(b.in, at(&b, "in/file"), big, NULL, &err), err);
                EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
                EXPECT_INT(st.st_size, (1 << 20) + more);
                EXPECT_INT(n_entries(&b, "in"), 1);
                big[(1 << 20) + more] = 'x';
        }
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "small", NULL, &err), err);
        EXPECT_STR(got(&b, "in/file"), "small");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(short_write_ends_the_same)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts o = { .is_short = true };
        struct fs_writer *w = NULL;
        struct error err = {};
        struct stat st;

        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "one", &o, &err), err);
        EXPECT_INT(chmod(at(&b, "in/file"), 0604), 0);
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "two", &o, &err), err);
        EXPECT_STR(got(&b, "in/file"), "two");
        EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
        EXPECT_INT(st.st_mode & 07777, 0604);
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/file"), &o, &w, &err), err);
        fs_writer_free(w);
        EXPECT_STR(got(&b, "in/file"), "two");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(write_that_is_given_up_changes_nothing)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts none = { 0 };
        struct fs_writer *w = NULL;
        struct error err = {};

        put(&b, "in/file", "old");
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/file"), &none, &w, &err), err);
        EXPECT_OK(fs_writer_write(w, "half", 4, &err), err);
        EXPECT_STR(got(&b, "in/file"), "old");
        EXPECT_INT(n_entries(&b, "in"), 1);
        fs_writer_free(w);
        EXPECT_STR(got(&b, "in/file"), "old");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(write_goes_through_links_to_their_target)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        struct stat st;

        EXPECT_INT(mkdir(at(&b, "in/dir"), 0755), 0);
        put(&b, "in/dir/file", "old");
        EXPECT_INT(symlink("dir/file", at(&b, "in/link")), 0);
        EXPECT_INT(symlink("../link", at(&b, "in/dir/twice")), 0);
        EXPECT_INT(symlink("dir/fresh", at(&b, "in/dangling")), 0);
        EXPECT_INT(symlink("self", at(&b, "in/self")), 0);
        EXPECT_OK(fs_put(b.in, at(&b, "in/link"), "one", NULL, &err), err);
        EXPECT_STR(got(&b, "in/dir/file"), "one");
        EXPECT_OK(fs_put(b.in, at(&b, "in/dir/twice"), "two", NULL, &err), err);
        EXPECT_STR(got(&b, "in/dir/file"), "two");
        EXPECT_OK(fs_put(b.in, at(&b, "in/dangling"), "three", NULL, &err), err);
        EXPECT_STR(got(&b, "in/dir/fresh"), "three");
        EXPECT_INT(lstat(at(&b, "in/link"), &st), 0);
        EXPECT(S_ISLNK(st.st_mode));
        EXPECT_ERR(fs_put(b.in, at(&b, "in/self"), "x", NULL, &err), ERR_INVALID, err);
        EXPECT_INT(symlink(at(&b, "in/dir/file"), at(&b, "in/abs")), 0);
        EXPECT_OK(fs_put(b.all, at(&b, "in/abs"), "four", NULL, &err), err);
        EXPECT_STR(got(&b, "in/dir/file"), "four");
}

TEST(write_to_something_else_is_refused)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        char text[200];

        EXPECT_INT(mkfifo(at(&b, "in/fifo"), 0644), 0);
        EXPECT_INT(mkdir(at(&b, "in/dir"), 0755), 0);
        EXPECT_ERR(fs_put(b.in, at(&b, "in/dir"), "x", NULL, &err), ERR_INVALID, err);
        (void) snprintf(text, sizeof(text), "path is not a file: %s", at(&b, "in/dir"));
        EXPECT_STR(err.msg, text);
        EXPECT_ERR(fs_put(b.in, at(&b, "in/fifo"), "x", NULL, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_put(b.all, "/dev/null", "x", NULL, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_put(b.all, "/", "x", NULL, &err), ERR_INVALID, err);
}

TEST(write_only_as_a_new_file)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts o = { .must_be_new = true };
        struct fs_writer *w = NULL;
        struct error err = {};

        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "one", &o, &err), err);
        EXPECT_ERR(fs_put(b.in, at(&b, "in/file"), "two", &o, &err), ERR_PRECONDITION, err);
        /* somebody else makes it between the beginning and the end */
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/late"), &o, &w, &err), err);
        put(&b, "in/late", "theirs");
        EXPECT_ERR(fs_writer_commit(w, NULL, &err), ERR_PRECONDITION, err);
        fs_writer_free(w);
        EXPECT_STR(got(&b, "in/late"), "theirs");
        EXPECT_INT(n_entries(&b, "in"), 2);
}

TEST(write_only_over_the_version_that_was_seen)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fs_write_opts o = { 0 };
        struct fs_writer *w = NULL;
        struct error err = {};
        char etag[64];

        put(&b, "in/file", "one");
        etag_of(&b, "in/file", etag);
        o.match = etag;
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "two", &o, &err), err);
        EXPECT_ERR(fs_put(b.in, at(&b, "in/file"), "three", &o, &err), ERR_PRECONDITION, err);
        EXPECT_ERR(fs_put(b.in, at(&b, "in/none"), "x", &o, &err), ERR_PRECONDITION, err);
        etag_of(&b, "in/file", etag);
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/file"), &o, &w, &err), err);
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "theirs", NULL, &err), err);
        EXPECT_ERR(fs_writer_commit(w, NULL, &err), ERR_PRECONDITION, err);
        fs_writer_free(w);
        EXPECT_STR(got(&b, "in/file"), "theirs");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

/* ---- as somebody who may not do everything: this thread only, and only root can become one ----
 */

enum { NOBODY = 65534 };

static bool become_nobody(const struct bed *b)
{
        if (geteuid() != 0)
                return false;
        EXPECT_INT(chmod(b->dir, 0755), 0);
        (void) setfsuid(NOBODY);
        return true;
}

static void become_root(void)
{
        (void) setfsuid(0);
}

static void put_owned(const struct bed *b, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
        put(b, name, "old");
        EXPECT_INT(chown(at(b, name), uid, gid), 0);
        EXPECT_INT(chmod(at(b, name), mode), 0);
}

TEST(write_respects_a_file_that_is_read_only)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        int n;

        if (geteuid() != 0)
                return;
        put_owned(&b, "in/file", NOBODY, NOBODY, 0444);
        EXPECT_INT(chmod(at(&b, "in"), 0777), 0);
        (void) become_nobody(&b);
        n = fs_put(b.in, at(&b, "in/file"), "new", NULL, &err);
        become_root();
        EXPECT_INT(n, -1);
        EXPECT_INT(err.kind, ERR_FORBIDDEN);
        EXPECT_STR(got(&b, "in/file"), "old");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

/* Others' files in a sticky directory can be written, but not replaced. */
TEST(write_in_a_sticky_directory_goes_into_the_file)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        struct stat st;
        int n;

        if (geteuid() != 0)
                return;
        put_owned(&b, "in/file", 12, 34, 0666);
        EXPECT_INT(chmod(at(&b, "in"), 01777), 0);
        (void) become_nobody(&b);
        n = fs_put(b.in, at(&b, "in/file"), "newer", NULL, &err);
        become_root();
        EXPECT_OK(n, err);
        EXPECT_STR(got(&b, "in/file"), "newer");
        EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
        EXPECT_INT(st.st_uid, 12);
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(write_that_cannot_keep_the_group_lends_ours_nothing)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        struct stat st;
        int n;

        if (geteuid() != 0)
                return;
        put_owned(&b, "in/file", 12, 34, 04672);
        EXPECT_INT(chmod(at(&b, "in"), 0777), 0);
        (void) become_nobody(&b);
        n = fs_put(b.in, at(&b, "in/file"), "new", NULL, &err);
        become_root();
        EXPECT_OK(n, err);
        EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
        EXPECT_INT(st.st_mode & 07777, 0622);
}

TEST(write_keeps_the_group_in_a_directory_that_hands_down_its_own)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts brief = { .is_short = true };
        struct error err = {};
        struct stat st;

        if (geteuid() != 0)
                return;
        put(&b, "in/file", "old");
        EXPECT_INT(chown(at(&b, "in"), 0, 34), 0);
        EXPECT_INT(chmod(at(&b, "in"), 02755), 0);
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "new", NULL, &err), err);
        EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
        EXPECT_INT(st.st_gid, getegid());
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "new", &brief, &err), err);
        EXPECT_INT(stat(at(&b, "in/file"), &st), 0);
        EXPECT_INT(st.st_gid, getegid());
}

/* ---- versions ---- */

/* As fast as they come, every version has a name of its own. */
TEST(etags_never_repeat)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        char seen[64][64];

        for (int i = 0; i < 64; i++) {
                EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "same", NULL, &err), err);
                etag_of(&b, "in/file", seen[i]);
                for (int k = 0; k < i; k++)
                        EXPECT(strcmp(seen[i], seen[k]) != 0);
        }
}

TEST(durable_write_ends_the_same)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts o = { .is_durable = true };
        struct error err = {};

        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "one", &o, &err), err);
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "two", &o, &err), err);
        EXPECT_STR(got(&b, "in/file"), "two");
}

TEST(write_without_room_is_refused_before_the_first_byte)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_write_opts o = { .size_hint = UINT64_MAX / 2 };
        struct error err = {};

        put(&b, "in/file", "old");
        EXPECT_ERR(fs_put(b.in, at(&b, "in/file"), "x", &o, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, ENOSPC);
        EXPECT_STR(got(&b, "in/file"), "old");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

/* Where no file can be made beside it, the bytes go into the file itself. */
TEST(write_reaches_files_of_proc)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct buf was = { .max_bytes = 64 };
        struct error err = {};

        EXPECT_OK(file_read("/proc/self/oom_score_adj", &was, &err), err);
        EXPECT_OK(fs_put(b.all, "/proc/self/oom_score_adj", was.data, NULL, &err), err);
        EXPECT_ERR(fs_put(b.all, "/proc/self/oom_score_adj", "no number", NULL, &err), ERR_SYSTEM,
                   err);
        EXPECT_INT(fs_put(b.all, "/proc/none", "x", NULL, &err), -1);
        buf_done(&was);
}

/* ---- many at once ---- */

enum { WRITERS = 16, WRITES = 40, WRITE_BYTES = 20000 };

struct crowd {
        const struct bed *bed;
        char letter;
        const char *etag;
        int n_failed;
};

static void *crowd_main(void *arg)
{
        struct crowd *c = arg;
        _cleanup_free_ char *content = xmalloc(WRITE_BYTES + 1);
        char path[96];

        memset(content, c->letter, WRITE_BYTES);
        content[WRITE_BYTES] = '\0';
        (void) snprintf(path, sizeof(path), "%s/in/file", c->bed->dir);
        for (int i = 0; i < WRITES; i++)
                c->n_failed += fs_put(c->bed->in, path, content, NULL, NULL) < 0;
        return NULL;
}

TEST(sixteen_writers_leave_one_whole_content)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct crowd crowd[WRITERS];
        pthread_t threads[WRITERS];
        const char *text;

        for (int i = 0; i < WRITERS; i++) {
                crowd[i] = (struct crowd) { .bed = &b, .letter = (char) ('a' + i) };
                EXPECT_INT(pthread_create(&threads[i], NULL, crowd_main, &crowd[i]), 0);
        }
        for (int i = 0; i < WRITERS; i++) {
                EXPECT_INT(pthread_join(threads[i], NULL), 0);
                EXPECT_INT(crowd[i].n_failed, 0);
        }
        text = got(&b, "in/file");
        EXPECT_INT(strlen(text), WRITE_BYTES);
        EXPECT_INT(strspn(text, (char[]) { text[0], 0 }), WRITE_BYTES);
        EXPECT_INT(n_entries(&b, "in"), 1);
}

/* Of many who saw the same version, one may replace it. */
static void *match_main(void *arg)
{
        struct crowd *c = arg;
        const struct fs_write_opts o = { .match = c->etag };
        char path[96];

        (void) snprintf(path, sizeof(path), "%s/in/file", c->bed->dir);
        c->n_failed = fs_put(c->bed->in, path, "x", &o, NULL) < 0;
        return NULL;
}

TEST(one_of_many_with_the_same_etag_wins)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct crowd crowd[WRITERS];
        pthread_t threads[WRITERS];
        int n_won = 0;
        char etag[64];

        put(&b, "in/file", "old");
        etag_of(&b, "in/file", etag);
        for (int i = 0; i < WRITERS; i++) {
                crowd[i] = (struct crowd) { .bed = &b, .etag = etag };
                EXPECT_INT(pthread_create(&threads[i], NULL, match_main, &crowd[i]), 0);
        }
        for (int i = 0; i < WRITERS; i++) {
                EXPECT_INT(pthread_join(threads[i], NULL), 0);
                n_won += !crowd[i].n_failed;
        }
        EXPECT_INT(n_won, 1);
}

/* ---- where things are not as usual: own mounts, so only for root ---- */

struct mounted {
        char dir[96];
};

static void unmount(struct mounted *m)
{
        if (m->dir[0])
                (void) umount2(m->dir, MNT_DETACH);
}

/* A file system of 1 MiB at in/small; false where this is not allowed. */
static bool mount_small(const struct bed *b, struct mounted *m)
{
        EXPECT_INT(mkdir(at(b, "in/small"), 0755), 0);
        if (mount("tmpfs", at(b, "in/small"), "tmpfs", 0, "size=1m") < 0)
                return false;
        (void) snprintf(m->dir, sizeof(m->dir), "%s", at(b, "in/small"));
        return true;
}

TEST(full_disk_leaves_the_old_file_and_no_debris)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        _cleanup_free_ char *big = xmalloc(2 << 20);
        const struct fs_write_opts none = { 0 };
        struct fs_writer *w = NULL;
        struct error err = {};

        if (!mount_small(&b, &m))
                return;
        put(&b, "in/small/file", "old");
        memset(big, 'x', 2 << 20);
        EXPECT_OK(fs_writer_open(b.in, at(&b, "in/small/file"), &none, &w, &err), err);
        EXPECT_ERR(fs_writer_write(w, big, 2 << 20, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, ENOSPC);
        fs_writer_free(w);
        EXPECT_STR(got(&b, "in/small/file"), "old");
        EXPECT_INT(n_entries(&b, "in/small"), 1);
        EXPECT_OK(fs_put(b.in, at(&b, "in/small/file"), "room again", NULL, &err), err);
}

TEST(mount_point_is_written_in_place)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        struct error err = {};

        put(&b, "source", "old and longer");
        put(&b, "in/target", "hidden");
        if (mount(at(&b, "source"), at(&b, "in/target"), NULL, MS_BIND, NULL) < 0)
                return;
        (void) snprintf(m.dir, sizeof(m.dir), "%s", at(&b, "in/target"));
        EXPECT_OK(fs_put(b.in, at(&b, "in/target"), "new", NULL, &err), err);
        EXPECT_STR(got(&b, "in/target"), "new");
        EXPECT_STR(got(&b, "source"), "new");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(mount_point_on_a_full_disk_keeps_its_content)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted small = { "" }, m = { "" };
        _cleanup_free_ char *big = xmalloc((2 << 20) + 1);
        struct error err = {};

        if (!mount_small(&b, &small))
                return;
        put(&b, "in/small/source", "old and longer");
        put(&b, "in/target", "hidden");
        EXPECT_INT(mount(at(&b, "in/small/source"), at(&b, "in/target"), NULL, MS_BIND, NULL), 0);
        (void) snprintf(m.dir, sizeof(m.dir), "%s", at(&b, "in/target"));
        memset(big, 'x', 2 << 20);
        big[2 << 20] = '\0';
        EXPECT_ERR(fs_put(b.in, at(&b, "in/target"), big, NULL, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, ENOSPC);
        EXPECT_STR(got(&b, "in/target"), "old and longer");
        EXPECT_OK(fs_put(b.in, at(&b, "in/target"), "new", NULL, &err), err);
        EXPECT_STR(got(&b, "in/small/source"), "new");
        EXPECT_INT(n_entries(&b, "in"), 2);
}
