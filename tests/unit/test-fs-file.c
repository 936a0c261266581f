#include "test-fs.h"

#include <sys/socket.h>
#include <sys/un.h>

/* ---- look ---- */

struct seen {
        int n;
        unsigned types;
        char last[300];
};

static int on_entry(void *arg, const char *name, const struct fs_info *i, struct error *err)
{
        struct seen *s = arg;

        s->n++;
        s->types |= 1u << (i->mode >> 12);
        (void) snprintf(s->last, sizeof(s->last), "%s", name);
        return 0;
}

TEST(list_shows_every_entry_as_itself)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct seen s = { 0 };
        const struct fs_list_cb cb = { on_entry, &s };
        struct error err = {};

        EXPECT_INT(mkdir(at(&b, "in/dir"), 0755), 0);
        put(&b, "in/.hidden", "x");
        EXPECT_INT(symlink("/nowhere", at(&b, "in/dangling")), 0);
        EXPECT_INT(symlink("dir", at(&b, "in/link")), 0);
        EXPECT_OK(fs_list(b.in, at(&b, "in"), &cb, &err), err);
        EXPECT_INT(s.n, 4);
        EXPECT_INT(s.types, 1u << 4 | 1u << 8 | 1u << 10); /* directory, file, link */
}

TEST(list_takes_odd_names_and_many)
{
        _cleanup_bed_ struct bed b = bed_fast();
        struct seen s = { 0 };
        const struct fs_list_cb cb = { on_entry, &s };
        struct error err = {};
        char name[300];

        for (int i = 0; i < 3000; i++) {
                (void) snprintf(name, sizeof(name), "in/%d-with-a-longer-name-than-usual", i);
                EXPECT_INT(mknod(at(&b, name), S_IFREG | 0644, 0), 0);
        }
        EXPECT_OK(fs_list(b.in, at(&b, "in"), &cb, &err), err);
        EXPECT_INT(s.n, 3000);
        EXPECT_INT(mkdir(at(&b, "one"), 0755), 0);
        memset(name, 'n', 259);
        memcpy(name, "one/", 4);
        name[259] = '\0';
        put(&b, "one/x", "");
        EXPECT_INT(rename(at(&b, "one/x"), at(&b, name)), 0);
        EXPECT_OK(fs_list(b.all, at(&b, "one/"), &cb, &err), err);
        EXPECT_STR(s.last, name + 4);
}

TEST(list_of_something_else_says_so)
{
        _cleanup_bed_ struct bed b = bed_new();
        const struct fs_list_cb cb = { on_entry, NULL };
        struct error err = {};
        char text[200];

        put(&b, "in/file", "x");
        EXPECT_ERR(fs_list(b.in, at(&b, "in/file"), &cb, &err), ERR_INVALID, err);
        (void) snprintf(text, sizeof(text), "path is not a directory: %s", at(&b, "in/file"));
        EXPECT_STR(err.msg, text);
        EXPECT_ERR(fs_list(b.in, at(&b, "in/none"), &cb, &err), ERR_NOT_FOUND, err);
        (void) snprintf(text, sizeof(text), "path not found: %s", at(&b, "in/none"));
        EXPECT_STR(err.msg, text);
        EXPECT_ERR(fs_list(b.in, at(&b, "in/file/x"), &cb, &err), ERR_NOT_FOUND, err);
}

TEST(stat_follows_links_and_etags_tell_versions_apart)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fs_info i, k;
        struct error err = {};
        char one[64], two[64];

        put(&b, "in/file", "abc");
        EXPECT_INT(symlink("file", at(&b, "in/link")), 0);
        EXPECT_OK(fs_stat(b.in, at(&b, "in/link"), &i, &err), err);
        EXPECT(S_ISREG(i.mode));
        EXPECT_INT(i.size, 3);
        EXPECT_OK(fs_stat(b.all, at(&b, "in/file"), &k, &err), err);
        fs_etag(&i, one);
        fs_etag(&k, two);
        EXPECT_STR(one, two);
        EXPECT(one[0] == '"' && one[strlen(one) - 1] == '"');
        EXPECT_OK(fs_put(b.in, at(&b, "in/file"), "abd", NULL, &err), err);
        EXPECT_OK(fs_stat(b.in, at(&b, "in/file"), &k, &err), err);
        fs_etag(&k, two);
        EXPECT(strcmp(one, two) != 0);
        EXPECT_INT(symlink("loop", at(&b, "in/loop")), 0);
        EXPECT_ERR(fs_stat(b.all, at(&b, "in/loop"), &k, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_stat(b.in, at(&b, "in/loop"), &k, &err), ERR_FORBIDDEN, err);
}

/* ---- read ---- */

TEST(stat_that_does_not_wait_says_the_same)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};
        struct fs_info now = {}, i;

        put(&b, "in/file", "hello");
        put(&b, "secret", "outside");
        EXPECT_INT(symlink("../secret", at(&b, "in/up")), 0);
        EXPECT_INT(symlink("file", at(&b, "in/link")), 0);
        EXPECT_OK(fs_stat(b.in, at(&b, "in/file"), &i, &err), err);
        EXPECT_INT(fs_stat_now(b.in, at(&b, "in/link"), &now), 1);
        EXPECT(now.mode == i.mode && now.size == 5 && now.ino == i.ino && now.dev == i.dev);
        EXPECT(now.modified_ns == i.modified_ns);
        EXPECT_INT(fs_stat_now(b.all, at(&b, "in/file"), &now), 1);
        EXPECT_INT(fs_stat_now(b.in, at(&b, "in"), &now), 1);
        EXPECT(S_ISDIR(now.mode));
        /* whatever it cannot answer it leaves to the other */
        EXPECT_INT(fs_stat_now(b.in, at(&b, "in/up"), &now), 0);
        EXPECT_INT(fs_stat_now(b.in, at(&b, "in/../secret"), &now), 0);
        EXPECT_INT(fs_stat_now(b.in, at(&b, "secret"), &now), 0);
        EXPECT_INT(fs_stat_now(b.in, at(&b, "in/none"), &now), 0);
        EXPECT_OK(fs_stat(b.all, "/proc/self/status", &i, &err), err);
        EXPECT_INT(fs_stat_now(b.all, "/proc/self/status", &now), 0);
        fsroot_walk_by_hand(b.in);
        EXPECT_INT(fs_stat_now(b.in, at(&b, "in/file"), &now), 0);
}

TEST(stat_of_a_file_from_a_far_year_is_bounded)
{
        _cleanup_bed_ struct bed b = bed_fast();
        const struct timespec late[2] = { { 90000000000, 5 }, { 90000000000, 5 } };
        const struct timespec early[2] = { { -90000000000, 5 }, { -90000000000, 5 } };
        struct error err = {};
        struct fs_info i;

        put(&b, "in/file", "x");
        EXPECT_INT(utimensat(AT_FDCWD, at(&b, "in/file"), late, 0), 0);
        EXPECT_OK(fs_stat(b.in, at(&b, "in/file"), &i, &err), err);
        EXPECT(i.modified_ns == INT64_MAX);
        EXPECT_INT(utimensat(AT_FDCWD, at(&b, "in/file"), early, 0), 0);
        EXPECT_OK(fs_stat(b.in, at(&b, "in/file"), &i, &err), err);
        EXPECT(i.modified_ns < 0); /* not every file system goes back that far */
}

TEST(reader_takes_regular_files_only_and_never_hangs)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        _cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct fs_reader rd;
        struct error err = {};

        EXPECT_INT(mkfifo(at(&b, "in/fifo"), 0644), 0);
        (void) snprintf(un.sun_path, sizeof(un.sun_path), "%s", at(&b, "in/socket"));
        EXPECT_INT(bind(sock, (void *) &un, sizeof(un)), 0);
        EXPECT_ERR(fs_reader_open(b.in, at(&b, "in/fifo"), &rd, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_reader_open(b.in, at(&b, "in/socket"), &rd, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_reader_open(b.in, at(&b, "in"), &rd, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_reader_open(b.all, "/dev/null", &rd, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "path is not a file: /dev/null");
        EXPECT_ERR(fs_reader_open(b.all, "/dev/zero", &rd, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_reader_open(b.in, at(&b, "in/none"), &rd, &err), ERR_NOT_FOUND, err);
}

/* Somebody waits in open() for a reader of the FIFO: our look must not be taken for one. */
TEST(reader_does_not_touch_a_fifo)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fs_reader rd;
        struct error err = {};

        EXPECT_INT(mkfifo(at(&b, "in/fifo"), 0644), 0);
        EXPECT_ERR(fs_reader_open(b.in, at(&b, "in/fifo"), &rd, &err), ERR_INVALID, err);
        EXPECT_INT(open(at(&b, "in/fifo"), O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1);
        EXPECT_INT(errno, ENXIO);
}

TEST(virtual_files_are_read_for_what_they_say)
{
        struct fsroot *r = NULL;
        struct fs_reader rd;
        struct error err = {};
        struct buf b = {};

        EXPECT_OK(fsroot_open(NULL, "/", &r, &err), err);
        EXPECT_OK(fs_reader_open(r, "/proc/self/status", &rd, &err), err);
        EXPECT(rd.is_virtual);
        EXPECT_OK(fs_read_virtual(rd.fd, "/proc/self/status", &b, &err), err);
        EXPECT(b.len > 100 && strstr(b.data, "Threads:"));
        (void) close(rd.fd);
        buf_done(&b);
        EXPECT_OK(fs_reader_open(r, "/etc/passwd", &rd, &err), err);
        EXPECT(!rd.is_virtual);
        (void) close(rd.fd);
        fsroot_free(r);
}

TEST(virtual_file_without_end_is_refused_at_its_ceiling)
{
        _cleanup_close_ int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        struct error err = {};
        struct buf b = {};

        EXPECT_ERR(fs_read_virtual(fd, "/dev/zero", &b, &err), ERR_TOO_BIG, err);
        EXPECT(b.len <= FS_VIRTUAL_MAX);
        buf_done(&b);
}

/* ---- make, remove ---- */

TEST(mkdir_makes_parents_and_is_content_with_what_is_there)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/a/b/c"), &err), err);
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/a/b/c"), &err), err);
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in"), &err), err);
        EXPECT_OK(fs_mkdir(b.all, "/", &err), err);
        put(&b, "in/file", "x");
        EXPECT_ERR(fs_mkdir(b.in, at(&b, "in/file"), &err), ERR_CONFLICT, err);
        EXPECT_INT(symlink("nowhere", at(&b, "in/dangling")), 0);
        EXPECT_ERR(fs_mkdir(b.in, at(&b, "in/dangling"), &err), ERR_CONFLICT, err);
        EXPECT(!is_there(&b, "in/nowhere"));
}

TEST(remove_takes_the_link_and_leaves_its_target)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        EXPECT_INT(mkdir(at(&b, "out"), 0755), 0);
        put(&b, "out/file", "x");
        EXPECT_INT(symlink("../out", at(&b, "in/link")), 0);
        EXPECT_INT(symlink("nowhere", at(&b, "in/dangling")), 0);
        EXPECT_INT(mkdir(at(&b, "in/dir"), 0755), 0);
        EXPECT_INT(symlink("../../out", at(&b, "in/dir/link")), 0);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/link"), false, &err), err);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/dangling"), false, &err), err);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/dir"), true, &err), err);
        EXPECT_STR(got(&b, "out/file"), "x");
        EXPECT_INT(n_entries(&b, "in"), 0);
        EXPECT_ERR(fs_remove(b.in, at(&b, "in/dir"), true, &err), ERR_NOT_FOUND, err);
}

TEST(remove_of_a_full_directory_must_be_asked_for)
{
        _cleanup_bed_ struct bed b = bed_fast();
        struct error err = {};
        char name[64];

        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/t/a/b"), &err), err);
        for (int i = 0; i < 2000; i++) {
                (void) snprintf(name, sizeof(name), "in/t/a/%s%d", i % 3 ? "file" : "dir", i);
                EXPECT_INT(i % 3 ? mknod(at(&b, name), S_IFREG | 0644, 0)
                                 : mkdir(at(&b, name), 0755),
                           0);
        }
        EXPECT_ERR(fs_remove(b.in, at(&b, "in/t"), false, &err), ERR_CONFLICT, err);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/t"), true, &err), err);
        EXPECT(!is_there(&b, "in/t"));
        EXPECT_OK(fs_mkdir(b.in, at(&b, "in/empty"), &err), err);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/empty"), false, &err), err);
}

/* Directories in directories; a path cannot name that many, so it is made step by step. */
static void make_deep(const char *top, int depth)
{
        int fd;

        EXPECT_INT(mkdir(top, 0755), 0);
        fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (int i = 1; i < depth; i++) {
                int next;

                EXPECT_INT(mkdirat(fd, "some-directory", 0755), 0);
                next = openat(fd, "some-directory", O_PATH | O_DIRECTORY | O_CLOEXEC);
                (void) close(fd);
                fd = next;
        }
        EXPECT(fd >= 0);
        (void) close(fd);
}

TEST(remove_goes_as_deep_as_it_may_and_no_deeper)
{
        _cleanup_bed_ struct bed b = bed_fast();
        struct error err = {};

        make_deep(at(&b, "in/deep"), FS_DEPTH_MAX);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/deep"), true, &err), err);
        make_deep(at(&b, "in/deep"), FS_DEPTH_MAX + 1);
        EXPECT_ERR(fs_remove(b.in, at(&b, "in/deep"), true, &err), ERR_TOO_BIG, err);
        EXPECT_INT(rename(at(&b, "in/deep/some-directory"), at(&b, "in/rest")), 0);
        EXPECT_OK(fs_remove(b.in, at(&b, "in/rest"), true, &err), err);
}

TEST(remove_leaves_an_empty_home_too)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        EXPECT_ERR(fs_remove(b.all, at(&b, "in"), false, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_remove(b.all, at(&b, "in"), true, &err), ERR_INVALID, err);
        EXPECT(is_there(&b, "in"));
}

TEST(remove_refuses_what_everything_stands_on)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        EXPECT_ERR(fs_remove(b.all, "/", true, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_remove(b.all, "/tmp", true, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_remove(b.all, b.dir, true, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_remove(b.all, at(&b, "in"), true, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_remove(b.all, at(&b, "in/../in"), true, &err), ERR_INVALID, err);
        EXPECT_ERR(fs_remove(b.in, at(&b, "in"), true, &err), ERR_INVALID, err);
        EXPECT(is_there(&b, "in"));
}
