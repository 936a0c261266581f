#include "test-tar.h"

#include <zstd.h>

static void make_tree(const struct bed *b, const char *name)
{
        static const char *const dirs[] = { "", "/empty", "/d", "/d/\xc3\xa9\xcc\x81" };
        static const struct {
                const char *name, *text;
                unsigned mode;
        } files[] = {
                { "/a", "one\n", 0644 },
                { "/d/run", "", 0755 },
                { "/d/\xc3\xa9\xcc\x81/\xe6\x97\xa5", "deep", 0600 },
        };
        const struct timespec times[2] = { { 1, 1 }, { 1234567890, 123456789 } };
        _cleanup_free_ char *base = path_join(b->dir, name);
        char path[512], other[512];
        struct error err = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
                (void) snprintf(path, sizeof(path), "%s%s", base, dirs[i]);
                EXPECT_INT(mkdir(path, 0751), 0);
        }
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                (void) snprintf(path, sizeof(path), "%s%s", base, files[i].name);
                EXPECT_OK(
                        file_write(path, files[i].text, strlen(files[i].text), files[i].mode, &err),
                        err);
                EXPECT_INT(utimensat(AT_FDCWD, path, times, 0), 0);
        }
        (void) snprintf(path, sizeof(path), "%s/%0230d", base, 7);
        EXPECT_OK(file_write(path, "long", 4, 0644, &err), err);
        (void) snprintf(other, sizeof(other), "%s/linked", base);
        EXPECT_INT(link(path, other), 0);
        (void) snprintf(path, sizeof(path), "%s/sym", base);
        EXPECT_INT(symlink("d/run", path), 0);
        (void) snprintf(path, sizeof(path), "%s/dangling", base);
        (void) snprintf(other, sizeof(other), "/nowhere/%0200d", 1);
        EXPECT_INT(symlink(other, path), 0);
        (void) snprintf(path, sizeof(path), "%s/empty", base);
        EXPECT_INT(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void expect_same(const struct bed *b, const char *x, const char *y, const char *name)
{
        _cleanup_free_ char *px = path_join(x, name), *py = path_join(y, name);
        struct stat sx = look(b, px), sy = look(b, py);

        EXPECT_INT(sx.st_mode, sy.st_mode);
        EXPECT_INT(sx.st_size, sy.st_size);
        EXPECT_INT(sx.st_nlink, sy.st_nlink);
        EXPECT_INT(sx.st_mtim.tv_sec, sy.st_mtim.tv_sec);
        EXPECT_INT(sx.st_mtim.tv_nsec, sy.st_mtim.tv_nsec);
}

static void expect_same_tree(const struct bed *b)
{
        static const char *const names[] = {
                "empty", "d",      "d/\xc3\xa9\xcc\x81",
                "a",     "d/run",  "d/\xc3\xa9\xcc\x81/\xe6\x97\xa5",
                "sym",   "linked", "dangling",
        };
        char name[256];

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                expect_same(b, "tree", "dest", names[i]);
        (void) snprintf(name, sizeof(name), "%0230d", 7);
        expect_same(b, "tree", "dest", name);
        expect_content(b, "dest/linked", "long");
        expect_content(b, "dest/d/\xc3\xa9\xcc\x81/\xe6\x97\xa5", "deep");
}

TEST(tar_packed_and_unpacked_is_the_same)
{
        _cleanup_free_ char *tree = NULL;
        struct bed b;

        bed_open(&b);
        make_tree(&b, "tree");
        tree = path_join(b.dir, "tree");
        EXPECT_OK(pack(&b, tree, TAR_PLAIN), b.err);
        EXPECT_INT(b.tar.len % 512, 0);
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(b.paths.n, 10);
        expect_same_tree(&b);
        EXPECT_OK(unpack(&b), b.err); /* over itself */
        expect_same_tree(&b);
        bed_close(&b);
}

TEST(tar_zst_is_the_same_archive)
{
        _cleanup_(buf_done) struct buf plain = { 0 };
        _cleanup_free_ char *tree = NULL;
        struct bed b;
        size_t n;

        bed_open(&b);
        make_tree(&b, "tree");
        tree = path_join(b.dir, "tree");
        EXPECT_OK(pack(&b, tree, TAR_PLAIN), b.err);
        buf_put(&plain, b.tar.data, b.tar.len);
        EXPECT_OK(pack(&b, tree, TAR_ZSTD), b.err);
        EXPECT(b.tar.len < plain.len);
        {
                _cleanup_free_ char *back = xmalloc(plain.len + 1);

                n = ZSTD_decompress(back, plain.len + 1, b.tar.data, b.tar.len);
                EXPECT_INT(n, plain.len);
                EXPECT_MEM(back, plain.data, n);
        }
        bed_close(&b);
}

TEST(tar_packs_one_file_under_its_name)
{
        _cleanup_free_ char *path = NULL;
        struct bed b;

        bed_open(&b);
        path = path_join(b.dir, "one.txt");
        EXPECT_OK(file_write(path, "1", 1, 0644, &b.err), b.err);
        EXPECT_OK(pack(&b, path, TAR_PLAIN), b.err);
        EXPECT_OK(unpack(&b), b.err);
        expect_content(&b, "dest/one.txt", "1");
        free(path);
        path = path_join(b.dir, "none");
        EXPECT_ERR(pack(&b, path, TAR_PLAIN), ERR_NOT_FOUND, b.err);
        EXPECT_INT(b.tar.len, 0);
        bed_close(&b);
}

TEST(tar_pack_leaves_fifos_out)
{
        _cleanup_free_ char *fifo = NULL;
        struct bed b;

        bed_open(&b);
        fifo = path_join(b.dest, "fifo");
        EXPECT_INT(mkfifo(fifo, 0666), 0);
        EXPECT_INT(count_entries(&b, b.dest), 0);
        EXPECT_ERR(pack(&b, fifo, TAR_PLAIN), ERR_INVALID, b.err);
        bed_close(&b);
}

TEST(tar_pack_refuses_files_of_the_kernel)
{
        struct bed b;

        bed_open(&b);
        EXPECT_ERR(pack(&b, "/proc", TAR_PLAIN), ERR_INVALID, b.err);
        EXPECT_STR(b.err.msg, "files of the kernel are not packed: /proc");
        EXPECT_ERR(pack(&b, "/proc/self/status", TAR_PLAIN), ERR_INVALID, b.err);
        EXPECT_INT(b.tar.len, 0);
        bed_close(&b);
}

struct stopper {
        char head[512];
};

static int stop_after_head(void *arg, const void *data, size_t len, struct error *err)
{
        struct stopper *s = arg;
        const char *at = data;

        EXPECT(len >= 2048);
        memcpy(s->head, at[156] == 'x' ? at + 1024 : at, 512);
        return error_set(err, ERR_UPSTREAM, 0, "enough");
}

static void expect_size(struct bed *b, const char *name, off_t size, const char *octal)
{
        _cleanup_free_ char *path = path_join(b->dest, name);
        struct stopper s = { 0 };
        const struct tar_sink sink = { stop_after_head, &s };
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        EXPECT_INT(ftruncate(fd, size), 0);
        (void) close(fd);
        EXPECT_ERR(tar_pack(b->root, path, TAR_PLAIN, &sink, &b->err), ERR_UPSTREAM, b->err);
        EXPECT_STR(s.head + 124, octal);
}

TEST(tar_pack_states_large_sizes)
{
        struct bed b;

        bed_open(&b);
        expect_size(&b, "five", (off_t) 5 << 30, "50000000000");
        expect_size(&b, "limit", ((off_t) 8 << 30) - 1, "77777777777");
        expect_size(&b, "above", (off_t) 8 << 30, "00000000000"); /* in a PAX record */
        bed_close(&b);
}

struct shrinker {
        struct buf *tar;
        const char *path;
};

static int shrink_and_write(void *arg, const void *data, size_t len, struct error *err)
{
        struct shrinker *s = arg;

        (void) !truncate(s->path, 1000);
        return buf_write(s->tar, data, len, err);
}

TEST(tar_pack_stays_whole_when_a_file_shrinks)
{
        _cleanup_free_ char *path = NULL, *text = xcalloc(1, 400000);
        struct bed b;

        bed_open(&b);
        path = path_join(b.dir, "f");
        EXPECT_OK(file_write(path, text, 400000, 0644, &b.err), b.err);
        {
                struct shrinker s = { &b.tar, path };
                const struct tar_sink sink = { shrink_and_write, &s };

                EXPECT_OK(tar_pack(b.root, path, TAR_PLAIN, &sink, &b.err), b.err);
        }
        EXPECT_OK(unpack(&b), b.err);
        EXPECT_INT(look(&b, "dest/f").st_size, 400000);
        bed_close(&b);
}
