#include "test-fs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/path.h"

/* ---- text → path ---- */

static void expect_path(const struct fsroot *r, const char *text, const char *want)
{
        _cleanup_free_ char *path = NULL;
        struct error err = {};

        EXPECT_OK(fsroot_resolve(r, SLICE(text), &path, &err), err);
        EXPECT_STR(path, want);
}

static void expect_refused(const struct fsroot *r, const char *text, size_t len, const char *why)
{
        char *path = NULL;
        struct error err = {};

        EXPECT_ERR(fsroot_resolve(r, (struct slice) { text, len }, &path, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, why);
}

TEST(paths_resolve_against_home_and_absolute_ones_stay)
{
        struct fsroot *r = NULL;
        struct error err = {};

        EXPECT_OK(fsroot_open(NULL, "/home/me", &r, &err), err);
        expect_path(r, "", "/home/me");
        expect_path(r, "~", "/home/me");
        expect_path(r, "~/", "/home/me");
        expect_path(r, "~/x/y", "/home/me/x/y");
        expect_path(r, "x", "/home/me/x");
        expect_path(r, "./x//y/.", "/home/me/x/y");
        expect_path(r, "~you", "/home/me/~you");
        expect_path(r, "/a/../b", "/a/../b");
        expect_path(r, "/", "/");
        expect_path(r, "..x", "/home/me/..x");
        fsroot_free(r);
}

TEST(paths_that_make_no_sense_are_refused)
{
        struct fsroot *r = NULL;
        struct error err = {};

        EXPECT_OK(fsroot_open(NULL, "/home/me", &r, &err), err);
        expect_refused(r, "../x", 4, "invalid relative path: ../x");
        expect_refused(r, "a/../b", 6, "invalid relative path: a/../b");
        expect_refused(r, "~/..", 4, "invalid relative path: /..");
        expect_refused(r, "/a\0b", 4, "path must not contain a NUL byte");
        expect_refused(r, "/a\xff", 3, "path must be valid UTF-8");
        fsroot_free(r);
}

TEST(path_ceilings_hold_at_the_limit)
{
        struct fsroot *r = NULL;
        struct error err = {};
        char text[PATH_BYTES_MAX + 2], *path;

        EXPECT_OK(fsroot_open(NULL, "/", &r, &err), err);
        memset(text, 'a', sizeof(text));
        text[0] = '/';
        EXPECT_OK(fsroot_resolve(r, (struct slice) { text, 1 + PATH_PART_MAX }, &path, &err), err);
        free(path);
        expect_refused(r, text, 2 + PATH_PART_MAX,
                       "path component of 256 bytes, at most 255 are allowed");
        for (size_t i = 0; i < sizeof(text); i += 2)
                text[i] = '/';
        EXPECT_OK(fsroot_resolve(r, (struct slice) { text, PATH_BYTES_MAX - 1 }, &path, &err), err);
        free(path);
        expect_refused(r, text, PATH_BYTES_MAX, "path of 4096 bytes, at most 4095 are allowed");
        fsroot_free(r);
}

TEST(root_without_the_home_starts_at_itself)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fsroot *r = NULL;
        struct error err = {};

        EXPECT_OK(fsroot_open(at(&b, "in"), "/", &r, &err), err);
        expect_path(r, "x", at(&b, "in/x"));
        expect_path(r, "~", at(&b, "in"));
        fsroot_free(r);
        EXPECT_ERR(fsroot_open(at(&b, "none"), "/", &r, &err), ERR_INVALID, err);
}

/* ---- path → descriptor, beneath a root ---- */

static int open_one(const struct fsroot *r, const char *path, int flags, struct error *err)
{
        int fd = fsroot_openat(r, path, flags, 0644, err);

        closep(&fd);
        return fd;
}

static struct bed escape_bed(void)
{
        struct bed b = bed_new();

        EXPECT_INT(mkdir(at(&b, "in/dir"), 0755), 0);
        put(&b, "secret", "outside");
        put(&b, "in/file", "inside");
        put(&b, "in/dir/deep", "inside");
        EXPECT_INT(symlink("../secret", at(&b, "in/up")), 0);
        EXPECT_INT(symlink(at(&b, "secret"), at(&b, "in/abs")), 0);
        EXPECT_INT(symlink("..", at(&b, "in/dots")), 0);
        EXPECT_INT(symlink("dir/../../secret", at(&b, "in/far")), 0);
        return b;
}

static const char *const escapes[] = { "in/../secret",        "in/up",          "in/abs",
                                       "in/dots/secret",      "in/far",         "secret",
                                       "in/dir/../../secret", "in/dots/in/file" };

static void expect_no_escape(const struct bed *b)
{
        struct error err = {};

        for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
                EXPECT_ERR(open_one(b->in, at(b, escapes[i]), O_RDONLY, &err), ERR_FORBIDDEN, err);
                EXPECT_ERR(open_one(b->in, at(b, escapes[i]), O_PATH, &err), ERR_FORBIDDEN, err);
                EXPECT_ERR(fs_put(b->in, at(b, escapes[i]), "x", NULL, &err), ERR_FORBIDDEN, err);
        }
        EXPECT_ERR(open_one(b->in, "/etc/passwd", O_RDONLY, &err), ERR_FORBIDDEN, err);
        EXPECT_ERR(open_one(b->in, "/", O_RDONLY, &err), ERR_FORBIDDEN, err);
        EXPECT_STR(got(b, "secret"), "outside");
        EXPECT_INT(n_entries(b, ""), 2);
}

TEST(nothing_leads_out_of_a_root)
{
        _cleanup_bed_ struct bed b = escape_bed();
        struct error err = {};

        expect_no_escape(&b);
        EXPECT_INT(symlink("dir/../file", at(&b, "in/good")), 0);
        EXPECT_OK(open_one(b.in, at(&b, "in/good"), O_RDONLY, &err), err);
        EXPECT_OK(open_one(b.in, at(&b, "in/dir/../file"), O_RDONLY, &err), err);
        EXPECT_OK(open_one(b.in, at(&b, "in"), O_RDONLY | O_DIRECTORY, &err), err);
        EXPECT_OK(fs_put(b.in, at(&b, "in/good"), "new", NULL, &err), err);
        EXPECT_STR(got(&b, "in/file"), "new");
}

TEST(nothing_leads_out_of_a_root_without_openat2)
{
        _cleanup_bed_ struct bed b = escape_bed();
        struct error err = {};

        fsroot_walk_by_hand(b.in);
        expect_no_escape(&b);
        EXPECT_OK(open_one(b.in, at(&b, "in/file"), O_RDONLY, &err), err);
        EXPECT_OK(open_one(b.in, at(&b, "in//dir/./../file"), O_RDONLY, &err), err);
        EXPECT_OK(open_one(b.in, at(&b, "in/dir/deep"), O_RDONLY, &err), err);
        EXPECT_OK(open_one(b.in, at(&b, "in"), O_RDONLY | O_DIRECTORY, &err), err);
        EXPECT_OK(fs_put(b.in, at(&b, "in/x/y/z"), "new", NULL, &err), err);
        EXPECT_STR(got(&b, "in/x/y/z"), "new");
        EXPECT_ERR(open_one(b.in, at(&b, "in/none"), O_RDONLY, &err), ERR_NOT_FOUND, err);
        EXPECT_ERR(open_one(b.in, at(&b, "in/file/x"), O_RDONLY, &err), ERR_NOT_FOUND, err);
}

TEST(root_is_known_by_its_link_too)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct fsroot *r = NULL;
        struct error err = {};

        put(&b, "in/file", "x");
        EXPECT_INT(symlink("in", at(&b, "link")), 0);
        EXPECT_OK(fsroot_open(at(&b, "link"), NULL, &r, &err), err);
        EXPECT_OK(open_one(r, at(&b, "link/file"), O_RDONLY, &err), err);
        EXPECT_OK(open_one(r, at(&b, "in/file"), O_RDONLY, &err), err);
        EXPECT_ERR(open_one(r, at(&b, "link2"), O_RDONLY, &err), ERR_FORBIDDEN, err);
        fsroot_free(r);
}

TEST(magic_links_of_proc_lead_nowhere_below_a_root)
{
        struct fsroot *r = NULL;
        struct error err = {};

        EXPECT_OK(fsroot_open("/proc", NULL, &r, &err), err);
        EXPECT_ERR(open_one(r, "/proc/self/root/etc/passwd", O_RDONLY, &err), ERR_FORBIDDEN, err);
        EXPECT_ERR(open_one(r, "/proc/self/cwd", O_RDONLY, &err), ERR_FORBIDDEN, err);
        fsroot_free(r);
}

TEST(parent_gives_the_directory_and_the_name)
{
        _cleanup_bed_ struct bed b = bed_new();
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *name = NULL;
        struct error err = {};
        struct stat st;

        EXPECT_OK(fsroot_parent(b.in, at(&b, "in/a/b/c/./"), true, &fd, &name, &err), err);
        EXPECT_STR(name, "c");
        EXPECT_INT(fstatat(fd, "../../a/b", &st, 0), 0);
        EXPECT_ERR(fsroot_parent(b.in, at(&b, "in"), true, &fd, &name, &err), ERR_INVALID, err);
        EXPECT_ERR(fsroot_parent(b.in, at(&b, "in/."), true, &fd, &name, &err), ERR_INVALID, err);
        EXPECT_ERR(fsroot_parent(b.in, at(&b, "in/a/.."), true, &fd, &name, &err), ERR_INVALID,
                   err);
        EXPECT_ERR(fsroot_parent(b.all, "/", true, &fd, &name, &err), ERR_INVALID, err);
        EXPECT_ERR(fsroot_parent(b.in, at(&b, "in/no/x"), false, &fd, &name, &err), ERR_NOT_FOUND,
                   err);
        EXPECT(!is_there(&b, "in/no"));
}

TEST(parents_are_not_made_through_a_link_that_leads_out)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct error err = {};

        EXPECT_INT(mkdir(at(&b, "out"), 0755), 0);
        EXPECT_INT(symlink("../out", at(&b, "in/link")), 0);
        EXPECT_ERR(fs_mkdir(b.in, at(&b, "in/link/x/y"), &err), ERR_FORBIDDEN, err);
        EXPECT_ERR(fs_put(b.in, at(&b, "in/link/x/y"), "x", NULL, &err), ERR_FORBIDDEN, err);
        EXPECT_INT(n_entries(&b, "out"), 0);
}

/* ---- races ---- */

enum { RACE_ROUNDS = 20000 };

struct swapper {
        const struct bed *bed;
        atomic_bool is_over;
        atomic_uint n;
};

/* in/d is a directory and a link to the outside, in turns, as fast as the kernel can. */
static void *swap_main(void *arg)
{
        struct swapper *s = arg;
        char d[64], l[64];

        (void) snprintf(d, sizeof(d), "%s/in/d", s->bed->dir);
        (void) snprintf(l, sizeof(l), "%s/in/l", s->bed->dir);
        while (!s->is_over) {
                (void) renameat2(AT_FDCWD, d, AT_FDCWD, l, RENAME_EXCHANGE);
                s->n++;
        }
        return NULL;
}

static int saw_entry(void *arg, const char *name, const struct fs_info *i, struct error *err)
{
        *(bool *) arg |= strcmp(name, "secret") == 0;
        return 0;
}

/* One round of everything that a client can do with in/d. */
static void race_round(const struct bed *b, unsigned i, bool *saw_secret)
{
        struct fs_list_cb cb = { saw_entry, saw_secret };
        struct fs_reader rd;
        struct fs_info info;
        char path[96];

        (void) snprintf(path, sizeof(path), "%s/in/d/x", b->dir);
        switch (i % 7) {
        case 0: (void) fs_put(b->in, path, "x", NULL, NULL); break;
        case 1: (void) fs_remove(b->in, path, true, NULL); break;
        case 2:
                (void) snprintf(path, sizeof(path), "%s/in/d", b->dir);
                (void) fs_list(b->in, path, &cb, NULL);
                break;
        case 3:
                (void) snprintf(path, sizeof(path), "%s/in/d/secret", b->dir);
                if (fs_reader_open(b->in, path, &rd, NULL) == 0) {
                        (void) close(rd.fd);
                        *saw_secret = true;
                }
                *saw_secret |= fs_stat(b->in, path, &info, NULL) == 0;
                *saw_secret |= fs_stat_now(b->in, path, &info) == 1;
                break;
        case 4: {
                char to[96];

                (void) snprintf(path, sizeof(path), "%s/in/d/secret", b->dir);
                (void) snprintf(to, sizeof(to), "%s/in/d/taken", b->dir);
                (void) fs_move(b->in, path, to, true, NULL);
                break;
        }
        case 5:
                (void) snprintf(path, sizeof(path), "%s/in/d/new/dir", b->dir);
                (void) fs_mkdir(b->in, path, NULL);
                break;
        default:
                (void) snprintf(path, sizeof(path), "%s/in/d/new", b->dir);
                (void) fs_remove(b->in, path, true, NULL);
        }
}

static void race(bool by_hand)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct swapper s = { .bed = &b };
        bool saw_secret = false;
        pthread_t thread;

        if (by_hand)
                fsroot_walk_by_hand(b.in);
        EXPECT_INT(mkdir(at(&b, "in/d"), 0755), 0);
        EXPECT_INT(mkdir(at(&b, "out"), 0755), 0);
        EXPECT_INT(mkdir(at(&b, "out/keep"), 0755), 0);
        put(&b, "out/secret", "outside");
        EXPECT_INT(symlink("../out", at(&b, "in/l")), 0);
        EXPECT_INT(pthread_create(&thread, NULL, swap_main, &s), 0);
        while (s.n < 10)
                ;
        for (unsigned i = 0; i < RACE_ROUNDS; i++)
                race_round(&b, i, &saw_secret);
        s.is_over = true;
        EXPECT_INT(pthread_join(thread, NULL), 0);
        EXPECT(!saw_secret);
        EXPECT_STR(got(&b, "out/secret"), "outside");
        EXPECT_INT(n_entries(&b, "out"), 2);
        EXPECT_INT(n_entries(&b, "out/keep"), 0);
}

TEST(root_holds_while_a_directory_and_a_link_trade_places)
{
        race(false);
}

TEST(root_holds_in_the_race_without_openat2)
{
        race(true);
}
