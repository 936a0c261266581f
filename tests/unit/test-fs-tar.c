#include "test-tar.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/clock.h"

TEST(tar_unpacks_files_with_mode_and_time)
{
        struct bed b;

        bed_open(&b);
        add_dir(&b.tar, "d/", 0750);
        add_entry(&b.tar, '0', "d/run.sh", 0755, "", "#!/bin/sh\n", 10);
        add_file(&b.tar, "./deep/er/x.txt", "x");
        add_end(&b.tar);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, 3);
        EXPECT(str_ends(b.paths.at[0], "/dest/d"));
        EXPECT(str_ends(b.paths.at[2], "/dest/deep/er/x.txt"));
        EXPECT(!b.paths.is_truncated);
        expect_content(&b, "dest/d/run.sh", "#!/bin/sh\n");
        EXPECT_INT(look(&b, "dest/d/run.sh").st_mode, S_IFREG | 0755);
        EXPECT_INT(look(&b, "dest/d/run.sh").st_mtime, 1000000000);
        EXPECT_INT(look(&b, "dest/d").st_mode, S_IFDIR | 0750);
        EXPECT_INT(look(&b, "dest/d").st_mtime, 1000000000);
        bed_close(&b);
}

TEST(tar_unpacks_whatever_the_pieces)
{
        static const size_t steps[] = { 1, 7, 511, 512, 513, 4096 };
        struct bed b;

        bed_open(&b);
        add_file(&b.tar, "a", "first");
        add_file(&b.tar, "b", "second");
        add_end(&b.tar);
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                EXPECT_OK(unpack_by(&b, steps[i]), b.err);
                EXPECT_INT(b.paths.n, 2);
                expect_content(&b, "dest/b", "second");
        }
        bed_close(&b);
}

TEST(tar_unpack_of_nothing_is_an_empty_archive)
{
        struct bed b;

        bed_open(&b);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, 0);
        add_end(&b.tar);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, 0);
        bed_close(&b);
}

TEST(tar_unpack_makes_its_destination)
{
        struct bed b;

        bed_open(&b);
        free(b.dest);
        b.dest = path_join(b.dir, "new/er");
        add_file(&b.tar, "a", "x");
        EXPECT_OK(unpack(&b), b.err); /* the end mark may be missing */
        expect_content(&b, "new/er/a", "x");
        bed_close(&b);
}

TEST(tar_unpack_refuses_names_that_lead_out)
{
        static const char *const names[] = { "../evil.txt", "/evil.txt", "a/../../evil.txt",
                                             "a/../b",      "..",        "a/..",
                                             "./../x" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _cleanup_free_ char *want = xasprintf("invalid relative path: %s", names[i]);
                struct bed b;

                bed_open(&b);
                add_file(&b.tar, "before", "stays");
                add_file(&b.tar, names[i], "bad");
                EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
                EXPECT_STR(b.err.msg, want);
                expect_content(&b, "dest/before", "stays");

                buf_clear(&b.tar); /* the same by a PAX record over a harmless name */
                add_pax(&b.tar, "path", names[i]);
                add_file(&b.tar, "harmless", "bad");
                EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
                EXPECT_STR(b.err.msg, want);

                buf_clear(&b.tar); /* and by GNU's long name */
                add_entry(&b.tar, 'L', "././@LongLink", 0644, "", names[i], strlen(names[i]) + 1);
                add_file(&b.tar, "harmless", "bad");
                EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
                EXPECT(!is_there(&b, "evil.txt") && !is_there(&b, "dest/harmless"));
                bed_close(&b);
        }
}

TEST(tar_unpack_never_walks_through_a_link)
{
        struct bed b;

        bed_open(&b);
        add_symlink(&b.tar, "way", b.outside);
        add_file(&b.tar, "way/evil.txt", "bad");
        EXPECT_ERR(unpack(&b), ERR_FORBIDDEN, b.err);

        buf_clear(&b.tar); /* the link is there from before now; deeper, and as a directory */
        add_file(&b.tar, "way/deep/evil.txt", "bad");
        EXPECT_ERR(unpack(&b), ERR_FORBIDDEN, b.err);
        buf_clear(&b.tar);
        add_dir(&b.tar, "way", 0777);
        EXPECT_ERR(unpack(&b), ERR_FORBIDDEN, b.err);
        buf_clear(&b.tar); /* a hard link does not look through it either */
        add_hardlink(&b.tar, "x", "way/x");
        EXPECT_ERR(unpack(&b), ERR_FORBIDDEN, b.err);

        buf_clear(&b.tar); /* a link within is a link too */
        add_dir(&b.tar, "real", 0755);
        add_symlink(&b.tar, "near", "real");
        add_file(&b.tar, "near/x", "bad");
        EXPECT_ERR(unpack(&b), ERR_FORBIDDEN, b.err);
        EXPECT(!is_there(&b, "dest/real/x"));
        bed_close(&b);
}

TEST(tar_unpack_replaces_links_and_files)
{
        struct bed b;
        _cleanup_free_ char *target = NULL;

        bed_open(&b);
        target = path_join(b.dir, "precious");
        add_symlink(&b.tar, "l", target);
        add_hardlink(&b.tar, "h", "l"); /* one more name of the link itself */
        add_file(&b.tar, "l", "new");
        add_file(&b.tar, "h", "new");
        add_file(&b.tar, "f", "old");
        add_hardlink(&b.tar, "g", "f");
        add_file(&b.tar, "f", "new");
        add_symlink(&b.tar, "g2", "f");
        add_symlink(&b.tar, "g2", "g");
        add_hardlink(&b.tar, "g", "./g");
        EXPECT_OK(unpack(&b), b.err);
        EXPECT(!is_there(&b, "precious"));
        expect_content(&b, "dest/l", "new");
        expect_content(&b, "dest/h", "new");
        expect_content(&b, "dest/g", "old");
        expect_content(&b, "dest/f", "new");
        expect_content(&b, "dest/g2", "old");
        EXPECT_INT(count_entries(&b, b.dest), 5); /* nothing hidden is left */
        bed_close(&b);
}

TEST(tar_unpack_links_below_the_destination_only)
{
        struct bed b;

        bed_open(&b);
        add_file(&b.tar, "d/a", "x");
        add_hardlink(&b.tar, "b", "d/a");
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(look(&b, "dest/b").st_ino, look(&b, "dest/d/a").st_ino);
        buf_clear(&b.tar);
        add_hardlink(&b.tar, "c", "../outside/x");
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        buf_clear(&b.tar);
        add_hardlink(&b.tar, "c", "/etc/passwd");
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        buf_clear(&b.tar);
        add_hardlink(&b.tar, "c", "gone");
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        EXPECT(!is_there(&b, "dest/c"));
        bed_close(&b);
}

TEST(tar_unpack_keeps_directories)
{
        struct bed b;

        bed_open(&b);
        add_file(&b.tar, "d/a", "x");
        EXPECT_OK(unpack(&b), b.err);
        buf_clear(&b.tar);
        add_file(&b.tar, "d", "x");
        EXPECT_ERR(unpack(&b), ERR_CONFLICT, b.err);
        buf_clear(&b.tar);
        add_symlink(&b.tar, "d", "elsewhere");
        EXPECT_ERR(unpack(&b), ERR_CONFLICT, b.err);
        buf_clear(&b.tar);
        add_dir(&b.tar, "d/a", 0755); /* and the other way round */
        EXPECT_ERR(unpack(&b), ERR_CONFLICT, b.err);
        buf_clear(&b.tar);
        add_file(&b.tar, "d/a/b", "x");
        EXPECT_ERR(unpack(&b), ERR_CONFLICT, b.err);
        expect_content(&b, "dest/d/a", "x");
        EXPECT_INT(count_entries(&b, b.dest),
                   3); /* d with a PAX header for its time, a; no debris */
        bed_close(&b);
}

TEST(tar_unpack_drops_set_id_bits)
{
        struct bed b;

        bed_open(&b);
        add_entry(&b.tar, '0', "s", 06755, "", "x", 1);
        add_dir(&b.tar, "d", 07777);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(look(&b, "dest/s").st_mode, S_IFREG | 0755);
        EXPECT_INT(look(&b, "dest/d").st_mode, S_IFDIR | 01777);
        EXPECT_INT(look(&b, "dest/s").st_uid, getuid());
        bed_close(&b);
}

TEST(tar_unpack_sets_directories_last)
{
        struct bed b;

        bed_open(&b);
        add_dir(&b.tar, "d", 0);
        add_dir(&b.tar, "d/e", 0500);
        add_file(&b.tar, "d/e/x", "x");
        add_file(&b.tar, "d/y", "y");
        add_dir(&b.tar, "d/e", 0511); /* the last word counts */
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(look(&b, "dest/d").st_mode, S_IFDIR);
        EXPECT_INT(look(&b, "dest/d").st_mtime, 1000000000);
        EXPECT_INT(chmod(b.paths.at[0], 0700), 0);
        EXPECT_INT(look(&b, "dest/d/e").st_mode, S_IFDIR | 0511);
        EXPECT_INT(look(&b, "dest/d/e").st_mtime, 1000000000);
        bed_close(&b);
}

/* More directories than are held back: the early ones get their modes before the end. */
TEST(tar_unpack_holds_back_a_bounded_number_of_directories)
{
        char name[4000] = "top", full[4096];
        struct bed b;
        size_t n;

        bed_open(&b);
        add_dir(&b.tar, "top", 0711);
        while ((n = strlen(name)) < 3600)
                (void) snprintf(name + n, sizeof(name) - n, "/%0250d", 0);
        for (int i = 0; i < 700; i++) { /* more than 2 MiB of names */
                (void) snprintf(name + n, sizeof(name) - n, "/%d", i);
                add_pax(&b.tar, "path", name);
                add_dir(&b.tar, "x", 0751);
        }
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, 701);
        for (int i = 0; i < 700; i += 699) {
                (void) snprintf(full, sizeof(full), "dest/%.*s/%d", (int) n, name, i);
                EXPECT_INT(look(&b, full).st_mode, S_IFDIR | 0751);
                EXPECT_INT(look(&b, full).st_mtime, 1000000000);
        }
        EXPECT_INT(look(&b, "dest/top").st_mode, S_IFDIR | 0711);
        bed_close(&b);
}

/* One directory named again and again, and a long chain of them with entries at its end: neither
 * may be sorted anew for every entry (a minute instead of a second). */
TEST(tar_unpack_of_repeated_directories_is_linear)
{
        char name[512] = "a";
        struct bed b;
        int64_t begin_us;

        bed_open(&b);
        for (int i = 0; i < 70000; i++)
                add_dir(&b.tar, "a", i == 69999 ? 0711 : 0700);
        for (size_t n; (n = strlen(name)) < 90;) {
                (void) snprintf(name + n, sizeof(name) - n, "/d");
                add_dir(&b.tar, name, 0701);
        }
        begin_us = clock_mono_us();
        EXPECT_OK(unpack(&b), b.err);
        EXPECT(clock_mono_us() - begin_us < 10 * 1000 * 1000);
        EXPECT_INT(look(&b, "dest/a").st_mode, S_IFDIR | 0711);
        EXPECT_INT(look(&b, "dest/a/d").st_mode, S_IFDIR | 0701);
        bed_close(&b);
}

TEST(tar_unpack_says_which_entry_has_no_name)
{
        struct bed b;

        bed_open(&b);
        add_file(&b.tar, "x", "1");
        add_file(&b.tar, "", "2");
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        EXPECT(str_starts(b.err.msg, "entry 2, near byte "));
        bed_close(&b);
}

/* What a file system does not offer is refused and leaves nothing; what it offers costs a page. */
TEST(tar_unpack_takes_a_huge_sparse_file_or_refuses_it_at_once)
{
        struct bed b;

        bed_open(&b);
        add_pax(&b.tar, "GNU.sparse.map", "9223372036854775797,10");
        {
                /* two records in one header: the size is put behind the map by hand */
                static const char size[] = "39 GNU.sparse.size=9223372036854775807\n";
                size_t at = strlen(b.tar.data + 512);

                EXPECT_INT(strlen(size), 39);
                memcpy(b.tar.data + 512 + at, size, 39);
                (void) snprintf(b.tar.data + 124, 12, "%011zo", at + 39);
                fix_sum(b.tar.data);
        }
        add_file(&b.tar, "huge", "0123456789");
        if (unpack(&b) < 0) {
                EXPECT(b.err.kind == ERR_TOO_BIG || b.err.kind == ERR_INVALID);
                EXPECT_INT(count_entries(&b, b.dest), 0);
        } else {
                EXPECT_INT(look(&b, "dest/huge").st_size, INT64_MAX);
                EXPECT(look(&b, "dest/huge").st_blocks < 1024);
        }
        bed_close(&b);
}

TEST(tar_unpack_says_where_garbage_is)
{
        struct bed b;

        bed_open(&b);
        for (int i = 0; i < 1000; i++)
                buf_puts(&b.tar, "garbage ");
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        EXPECT(strstr(b.err.msg, "near byte 0"));
        buf_clear(&b.tar);
        add_file(&b.tar, "good", "x");
        add_blocks(&b.tar, "garbage", 7);
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        EXPECT(strstr(b.err.msg, "near byte 1536"));
        expect_content(&b, "dest/good", "x");
        bed_close(&b);
}

TEST(tar_unpack_refuses_half_a_file)
{
        struct bed b;

        bed_open(&b);
        add_file(&b.tar, "f", "old");
        EXPECT_OK(unpack(&b), b.err);
        buf_clear(&b.tar);
        add_file(&b.tar, "f", "new content");
        b.tar.len = 512 + 4;
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        expect_content(&b, "dest/f", "old");
        EXPECT_INT(count_entries(&b, b.dest), 1); /* no debris */
        bed_close(&b);
}

TEST(tar_unpack_refuses_devices)
{
        static const char types[] = { '3', '4', '6' };
        struct bed b;

        bed_open(&b);
        for (size_t i = 0; i < sizeof(types); i++) {
                buf_clear(&b.tar);
                add_entry(&b.tar, types[i], "dev", 0666, "", "", 0);
                EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
                EXPECT(!is_there(&b, "dest/dev"));
        }
        bed_close(&b);
}

TEST(tar_unpack_reports_a_bounded_number_of_paths)
{
        struct bed b;

        bed_open(&b);
        for (int i = 0; i < TAR_PATHS_MAX; i++)
                add_dir(&b.tar, "again", 0755);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, TAR_PATHS_MAX);
        EXPECT(!b.paths.is_truncated);
        add_dir(&b.tar, "again", 0755);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, TAR_PATHS_MAX);
        EXPECT(b.paths.is_truncated);
        bed_close(&b);
}

TEST(tar_unpack_takes_names_as_they_are)
{
        static const char utf8[] = "h\xc3\xa9llo/e\xcc\x81/\xe6\x97\xa5\xe6\x9c\xac.txt";
        char name[240];
        struct bed b;

        bed_open(&b);
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        add_pax(&b.tar, "path", utf8); /* e and a combining accent: not to be made one */
        add_file(&b.tar, "x", "utf");
        add_entry(&b.tar, 'L', "././@LongLink", 0644, "", name, sizeof(name));
        add_file(&b.tar, "x", "long");
        add_pax(&b.tar, "linkpath", utf8);
        add_symlink(&b.tar, "l", "x");
        add_pax(&b.tar, "linkpath", utf8);
        add_hardlink(&b.tar, "k", "x");
        EXPECT_OK(unpack(&b), b.err);
        EXPECT(str_ends(b.paths.at[0], utf8));
        EXPECT(str_ends(b.paths.at[1], name));
        expect_content(&b, "dest/l", "utf");
        expect_content(&b, "dest/k", "utf");
        buf_clear(&b.tar);
        add_file(&b.tar, "bad\xff", "x");
        EXPECT_ERR(unpack(&b), ERR_INVALID, b.err);
        bed_close(&b);
}

/* An old GNU sparse file whose map never ends: libarchive would hold all of it. */
TEST(tar_unpack_limits_headers)
{
        char block[512] = { 0 };
        struct bed b;

        bed_open(&b);
        add_entry(&b.tar, 'S', "sparse", 0644, "", "", 0);
        memcpy(b.tar.data + 386, "00000000001\00000000000001", 24);
        b.tar.data[482] = 1; /* another block of the map follows */
        memcpy(b.tar.data + 257, "ustar  ", 8);
        fix_sum(b.tar.data);
        for (int i = 0; i < 21; i++)
                memcpy(block + (ptrdiff_t) i * 24, "00000000001\00000000000001", 24);
        block[504] = 1;
        for (int i = 0; i < 6000; i++)
                buf_put(&b.tar, block, sizeof(block));
        EXPECT_ERR(unpack(&b), ERR_TOO_BIG, b.err);
        bed_close(&b);
}

static int broken_read(void *arg, const char **ret, size_t *ret_len, struct error *err)
{
        return error_set(err, ERR_UPSTREAM, 0, "the client went away");
}

TEST(tar_unpack_passes_the_reason_of_its_source_on)
{
        const struct tar_source src = { broken_read, NULL };
        struct bed b;

        bed_open(&b);
        EXPECT_ERR(tar_unpack(b.root, b.dest, &src, &b.paths, &b.err), ERR_UPSTREAM, b.err);
        EXPECT_STR(b.err.msg, "the client went away");
        bed_close(&b);
}

/* A disk that takes no more looks like this: part of the file is written, then an error. */
TEST(tar_unpack_leaves_nothing_of_a_file_that_does_not_fit)
{
        struct rlimit was, small;
        static const char big[64 * 1024] = { 'x' };
        struct bed b;
        int r;

        bed_open(&b);
        add_file(&b.tar, "f", "old");
        EXPECT_OK(unpack(&b), b.err);
        buf_clear(&b.tar);
        add_entry(&b.tar, '0', "f", 0644, "", big, sizeof(big));
        (void) getrlimit(RLIMIT_FSIZE, &was);
        small = was;
        small.rlim_cur = 4096;
        (void) signal(SIGXFSZ, SIG_IGN);
        (void) setrlimit(RLIMIT_FSIZE, &small);
        r = unpack(&b);
        (void) setrlimit(RLIMIT_FSIZE, &was);
        (void) signal(SIGXFSZ, SIG_DFL);
        EXPECT_ERR(r, ERR_TOO_BIG, b.err);
        expect_content(&b, "dest/f", "old");
        EXPECT_INT(count_entries(&b, b.dest), 1);
        bed_close(&b);
}

struct swapper {
        const struct bed *b;
        char *dir, *link;
        atomic_bool is_over;
};

static void *swap_for_ever(void *arg)
{
        struct swapper *s = arg;

        while (!atomic_load(&s->is_over))
                (void) renameat2(AT_FDCWD, s->dir, AT_FDCWD, s->link, RENAME_EXCHANGE);
        return NULL;
}

/* Somebody exchanges a directory for a link to the outside, again and again: every file goes into
 * the directory or nowhere. (bed_close() looks whether "outside" is still empty.) */
TEST(tar_unpack_holds_against_a_race)
{
        struct swapper s = { 0 };
        struct bed b;
        pthread_t thread;

        bed_open(&b);
        s.dir = path_join(b.dest, "d");
        s.link = path_join(b.dest, "l");
        EXPECT_INT(mkdir(s.dir, 0755), 0);
        EXPECT_INT(symlink(b.outside, s.link), 0);
        add_file(&b.tar, "x/y", "1"); /* so that the directory is opened anew each time */
        add_file(&b.tar, "d/a", "1");
        add_file(&b.tar, "d/b/c", "1");
        add_hardlink(&b.tar, "d/h", "d/a");
        EXPECT_INT(pthread_create(&thread, NULL, swap_for_ever, &s), 0);
        for (int i = 0; i < 300; i++)
                (void) unpack(&b);
        atomic_store(&s.is_over, true);
        EXPECT_INT(pthread_join(thread, NULL), 0);
        free(s.dir);
        free(s.link);
        bed_close(&b);
}
