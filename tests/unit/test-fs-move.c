#include "test-fs.h"

#include <sys/mount.h>

TEST(move_renames_and_makes_directories)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        put(&b, "in/a", "x");
        EXPECT_OK(fs_move(b.in, at(&b, "in/a"), at(&b, "in/n/m/b"), false, &err), err);
        EXPECT_STR(got(&b, "in/n/m/b"), "x");
        EXPECT(!is_there(&b, "in/a"));
        EXPECT_INT(symlink("/nowhere", at(&b, "in/link")), 0);
        EXPECT_OK(fs_move(b.in, at(&b, "in/link"), at(&b, "in/link2"), false, &err), err);
        EXPECT(is_there(&b, "in/link2"));
}

TEST(move_onto_itself_does_nothing)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        put(&b, "in/a", "x");
        EXPECT_OK(fs_move(b.in, at(&b, "in/a"), at(&b, "in/a"), true, &err), err);
        EXPECT_OK(fs_move(b.in, at(&b, "in/a"), at(&b, "in//./a"), false, &err), err);
        EXPECT_STR(got(&b, "in/a"), "x");
        /* two names of one file: the move takes one away */
        EXPECT_INT(link(at(&b, "in/a"), at(&b, "in/b")), 0);
        EXPECT_OK(fs_move(b.in, at(&b, "in/a"), at(&b, "in/b"), true, &err), err);
        EXPECT(!is_there(&b, "in/a"));
        EXPECT_STR(got(&b, "in/b"), "x");
}

TEST(move_without_overwrite_leaves_what_is_there)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        char text[200];

        put(&b, "in/a", "a");
        put(&b, "in/b", "b");
        EXPECT_ERR(fs_move(b.in, at(&b, "in/a"), at(&b, "in/b"), false, &err), ERR_INVALID, err);
        (void) snprintf(text, sizeof(text), "destination already exists: %s", at(&b, "in/b"));
        EXPECT_STR(err.msg, text);
        EXPECT_STR(got(&b, "in/b"), "b");
        EXPECT_OK(fs_move(b.in, at(&b, "in/a"), at(&b, "in/b"), true, &err), err);
        EXPECT_STR(got(&b, "in/b"), "a");
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(move_of_nothing_touches_nothing)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        put(&b, "in/b", "b");
        EXPECT_ERR(fs_move(b.in, at(&b, "in/none"), at(&b, "in/b"), true, &err), ERR_NOT_FOUND,
                   err);
        EXPECT_STR(got(&b, "in/b"), "b");
        EXPECT_ERR(fs_move(b.in, at(&b, "in/none"), at(&b, "in/n/m"), true, &err), ERR_NOT_FOUND,
                   err);
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(move_replaces_trees_both_ways)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        bool is_long = false;

        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/d/sub"), &err), err);
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/e/sub"), &err), err);
        put(&b, "in/d/sub/f", "d");
        put(&b, "in/e/sub/f", "e");
        put(&b, "in/file", "file");
        EXPECT_OK(fs_move_quick(b.in, at(&b, "in/d"), at(&b, "in/e"), true, &is_long, &err), err);
        EXPECT(is_long);
        EXPECT_STR(got(&b, "in/e/sub/f"), "e");
        EXPECT_OK(fs_move(b.in, at(&b, "in/d"), at(&b, "in/e"), true, &err), err);
        EXPECT_STR(got(&b, "in/e/sub/f"), "d");
        EXPECT(!is_there(&b, "in/d"));
        EXPECT_OK(fs_move(b.in, at(&b, "in/file"), at(&b, "in/e"), true, &err), err);
        EXPECT_STR(got(&b, "in/e"), "file");
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/d"), &err), err);
        EXPECT_OK(fs_move(b.in, at(&b, "in/d"), at(&b, "in/e"), true, &err), err);
        EXPECT_INT(n_entries(&b, "in/e"), 0);
        EXPECT_INT(n_entries(&b, "in"), 1);
}

TEST(move_into_itself_or_over_its_own_parent_is_refused)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/d/e"), &err), err);
        EXPECT_ERR(fs_move(b.in, at(&b, "in/d"), at(&b, "in/d/e/f/g"), false, &err), ERR_INVALID,
                   err);
        EXPECT(!is_there(&b, "in/d/e/f"));
        EXPECT_ERR(fs_move(b.in, at(&b, "in/d/e"), at(&b, "in/d"), true, &err), ERR_INVALID, err);
        EXPECT(is_there(&b, "in/d/e"));
        /* by way of a link the text does not show it, but the kernel sees it */
        EXPECT_INT(symlink("d", at(&b, "in/l")), 0);
        EXPECT_ERR(fs_move(b.in, at(&b, "in/d"), at(&b, "in/l/x"), false, &err), ERR_INVALID, err);
        EXPECT(is_there(&b, "in/d/e"));
        put(&b, "in/f", "x");
        EXPECT_ERR(fs_move(b.all, at(&b, "in/f"), b.dir, true, &err), ERR_INVALID, err);
}

TEST(move_cannot_leave_the_root)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        put(&b, "in/a", "x");
        put(&b, "secret", "outside");
        EXPECT_ERR(fs_move(b.in, at(&b, "in/a"), at(&b, "b"), true, &err), ERR_FORBIDDEN, err);
        EXPECT_ERR(fs_move(b.in, at(&b, "secret"), at(&b, "in/b"), true, &err), ERR_FORBIDDEN, err);
        EXPECT_ERR(fs_move(b.in, at(&b, "in/a"), at(&b, "in/../b"), true, &err), ERR_FORBIDDEN,
                   err);
        EXPECT_STR(got(&b, "secret"), "outside");
        EXPECT_STR(got(&b, "in/a"), "x");
}

/* ---- when somebody wants an end of it ---- */

static bool after_a_while(void *arg)
{
        return --*(int *) arg < 0;
}

TEST(long_removal_stops_when_asked_to)
{
        _cleanup_bed_ struct bed b = bed_new();
        int n_left = 5;
        const struct fs_stop stop = { after_a_while, &n_left };
        struct error err = {};

        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/t/1/2/3/4/5/6/7/8/9"), &err), err);
        EXPECT_ERR(fs_remove_until(b.in, at(&b, "in/t"), true, &stop, &err), ERR_BUSY, err);
        EXPECT(is_there(&b, "in/t/1/2/3"));
        EXPECT_OK(fs_remove_until(b.in, at(&b, "in/t"), true, NULL, &err), err);
}

/* Wherever a move is stopped: the source is whole, or gone and the target is. Half of something at
 * the source's name would replace the whole target when the client tries again. */
static bool move_stops_well(const struct bed *b, const char *to, int n_left)
{
        const struct fs_stop stop = { after_a_while, &n_left };
        struct error err = {};
        char path[96];
        int n;

        EXPECT_OK(fs_mkdir(b->in, at(b, "in/d/sub/deep"), &err), err);
        put(b, "in/d/sub/deep/f", "new");
        put(b, "in/d/a", "new");
        (void) snprintf(path, sizeof(path), "%s/sub/deep", to);
        EXPECT_OK(fs_mkdir(b->in, at(b, path), &err), err);
        (void) snprintf(path, sizeof(path), "%s/sub/deep/f", to);
        put(b, path, "old");
        n = fs_move_until(b->in, at(b, "in/d"), at(b, to), true, &stop, &err);
        if (n < 0)
                EXPECT_INT(err.kind, ERR_BUSY);
        if (is_there(b, "in/d")) {
                EXPECT_STR(got(b, "in/d/sub/deep/f"), "new");
                EXPECT_STR(got(b, "in/d/a"), "new");
        } else {
                EXPECT_STR(got(b, path), "new");
        }
        EXPECT_OK(fs_move(b->in, at(b, is_there(b, "in/d") ? "in/d" : to), at(b, to), true, &err),
                  err);
        EXPECT_STR(got(b, path), "new");
        EXPECT_OK(fs_remove(b->in, at(b, to), true, &err), err);
        return n == 0;
}

TEST(move_can_be_repeated_wherever_it_is_stopped)
{
        _cleanup_bed_ struct bed b = bed_new();
        int n = 0;

        while (!move_stops_well(&b, "in/e", n))
                n++;
        EXPECT(n > 3);
}

/* ---- to another file system ---- */

struct mounted {
        char dir[96];
};

static void unmount(struct mounted *m)
{
        if (m->dir[0])
                (void) umount2(m->dir, MNT_DETACH);
}

/* A file system of its own at in/other; false where this is not allowed. */
static bool mount_other(const struct bed *b, struct mounted *m)
{
        EXPECT_INT(mkdir(at(b, "in/other"), 0755), 0);
        if (mount("tmpfs", at(b, "in/other"), "tmpfs", 0, "size=4m") < 0)
                return false;
        (void) snprintf(m->dir, sizeof(m->dir), "%s", at(b, "in/other"));
        return true;
}

TEST(move_to_another_file_system_takes_everything_along)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        const struct timespec times[2] = { { 1000, 5 }, { 2000, 7 } };
        struct error err = {};
        struct stat st;

        if (!mount_other(&b, &m))
                return;
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/t/sub"), &err), err);
        put(&b, "in/t/sub/f", "content");
        EXPECT_INT(chmod(at(&b, "in/t/sub/f"), 0640), 0);
        EXPECT_INT(utimensat(AT_FDCWD, at(&b, "in/t/sub/f"), times, 0), 0);
        EXPECT_INT(symlink("sub/f", at(&b, "in/t/link")), 0);
        EXPECT_INT(mkfifo(at(&b, "in/t/fifo"), 0600), 0);
        EXPECT_INT(truncate(at(&b, "in/t/sub/f"), 1 << 20), 0);
        EXPECT_INT(utimensat(AT_FDCWD, at(&b, "in/t/sub/f"), times, 0), 0);
        EXPECT_OK(fs_move(b.in, at(&b, "in/t"), at(&b, "in/other/t"), false, &err), err);
        EXPECT(!is_there(&b, "in/t"));
        EXPECT_INT(stat(at(&b, "in/other/t/link"), &st), 0);
        EXPECT_INT(st.st_size, 1 << 20);
        EXPECT_INT(st.st_mode & 07777, 0640);
        EXPECT(st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 7);
        EXPECT(st.st_blocks < 1024); /* the hole is still one */
        EXPECT_INT(n_entries(&b, "in/other"), 1);
        /* back, over something */
        put(&b, "in/t", "in the way");
        EXPECT_OK(fs_move(b.in, at(&b, "in/other/t"), at(&b, "in/t"), true, &err), err);
        EXPECT_INT(n_entries(&b, "in/t"), 3);
        EXPECT_INT(n_entries(&b, "in/other"), 0);
}

TEST(move_that_does_not_fit_leaves_both_sides_as_they_were)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        _cleanup_free_ char *big = xmalloc(8 << 20);
        struct error err = {};

        if (!mount_other(&b, &m))
                return;
        memset(big, 'x', 8 << 20);
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/t"), &err), err);
        EXPECT_OK(file_write(at(&b, "in/t/big"), big, 8 << 20, 0644, &err), err);
        put(&b, "in/other/t", "old");
        EXPECT_ERR(fs_move(b.in, at(&b, "in/t"), at(&b, "in/other/t"), true, &err), ERR_SYSTEM,
                   err);
        EXPECT_INT(err.sys, ENOSPC);
        EXPECT(is_there(&b, "in/t/big"));
        EXPECT_STR(got(&b, "in/other/t"), "old");
        EXPECT_INT(n_entries(&b, "in/other"), 1);
}

TEST(move_that_is_stopped_leaves_both_sides_as_they_were)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        int n_left = 3;
        const struct fs_stop stop = { after_a_while, &n_left };
        struct error err = {};

        if (!mount_other(&b, &m))
                return;
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/t/1/2/3"), &err), err);
        put(&b, "in/t/1/2/3/f", "content");
        EXPECT_ERR(fs_move_until(b.in, at(&b, "in/t"), at(&b, "in/other/t"), false, &stop, &err),
                   ERR_BUSY, err);
        EXPECT_STR(got(&b, "in/t/1/2/3/f"), "content");
        EXPECT_INT(n_entries(&b, "in/other"), 0);
}

TEST(move_to_another_file_system_can_be_repeated_wherever_it_is_stopped)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        int n = 0;

        if (!mount_other(&b, &m))
                return;
        while (!move_stops_well(&b, "in/other/e", n))
                n++;
        EXPECT(n > 6);
}

TEST(move_from_where_nothing_can_be_removed_replaces_nothing)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        struct error err = {};

        if (!mount_other(&b, &m))
                return;
        put(&b, "in/other/f", "source");
        put(&b, "in/f", "target");
        EXPECT_INT(mount(NULL, m.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
        EXPECT_ERR(fs_move(b.in, at(&b, "in/other/f"), at(&b, "in/f"), true, &err), ERR_FORBIDDEN,
                   err);
        EXPECT_STR(got(&b, "in/f"), "target");
        EXPECT_INT(n_entries(&b, "in"), 2);
}

/* The same directory by way of another mount: the kernel does not see that one holds the other. */
TEST(move_into_itself_by_another_mount_is_refused)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_(unmount) struct mounted m = { "" };
        struct error err = {};

        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/d/sub"), &err), err);
        EXPECT_INT(mkdir(at(&b, "in/other"), 0755), 0);
        if (mount(at(&b, "in/d"), at(&b, "in/other"), NULL, MS_BIND, NULL) < 0)
                return;
        (void) snprintf(m.dir, sizeof(m.dir), "%s", at(&b, "in/other"));
        EXPECT_ERR(fs_move(b.in, at(&b, "in/d"), at(&b, "in/other/sub/x"), false, &err),
                   ERR_INVALID, err);
        EXPECT_INT(n_entries(&b, "in/d"), 1);
        EXPECT_INT(n_entries(&b, "in/d/sub"), 0);
}
