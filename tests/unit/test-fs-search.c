#include "test-fs.h"

#include "base/clock.h"
#include "fs/search.h"
#include "fs/walk.h"

/* What a search found: "path:line:column:text" per line, sorted, paths below the bed's "in". */
struct seen {
        char *lines[2000];
        size_t n, calls, cancel_after;
        size_t skip; /* bytes of the paths that are not shown */
        bool is_cut;
        uint64_t text_column;
        size_t text_len;
        struct search_stats stats;
};

static int on_hit(void *arg, const struct search_hit *h, struct error *err)
{
        struct seen *s = arg;

        EXPECT(s->n < ARRAY_LEN(s->lines));
        s->is_cut = h->is_cut;
        s->text_column = h->text_column;
        s->text_len = h->text.len;
        s->lines[s->n++] =
                h->line ? xasprintf("%s:%d:%d:%.*s", h->path + s->skip, (int) h->line,
                                    (int) h->column, (int) MIN(h->text.len, 60u), h->text.at)
                        : xasprintf("%s%s", h->path + s->skip, h->is_dir ? "/" : "");
        return 0;
}

static bool is_cancelled(void *arg)
{
        struct seen *s = arg;

        return ++s->calls > s->cancel_after && s->cancel_after;
}

static int by_text(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static void seen_done(struct seen *s)
{
        for (size_t i = 0; i < s->n; i++)
                free(s->lines[i]);
        s->n = 0;
}

static int search(const struct bed *b, struct search_spec spec, struct seen *s, struct error *err)
{
        const struct search_cb cb = { on_hit, is_cancelled, s };
        _cleanup_free_ char *in = xasprintf("%s/in", b->dir);
        int r;

        seen_done(s);
        s->skip = strlen(in) + 1;
        if (!spec.path)
                spec.path = in;
        if (!spec.limit)
                spec.limit = SEARCH_LIMIT;
        r = fs_search(b->all, &spec, &cb, &s->stats, err);
        qsort(s->lines, s->n, sizeof(s->lines[0]), by_text);
        return r;
}

/* All hits in one text, good until the next call. */
static const char *found(const struct bed *b, struct search_spec spec)
{
        static struct buf text;
        struct seen s = { 0 };
        struct error err = {};

        buf_clear(&text);
        EXPECT_OK(search(b, spec, &s, &err), err);
        for (size_t i = 0; i < s.n; i++)
                buf_printf(&text, "%s%s", i ? " | " : "", s.lines[i]);
        seen_done(&s);
        buf_puts(&text, "");
        return text.len ? text.data : "";
}
#define FIND(b, ...) found(&(b), (struct search_spec) { __VA_ARGS__ })

static struct bed small_tree(void)
{
        struct bed b = bed_new();

        EXPECT_INT(mkdir(at(&b, "in/sub"), 0755), 0);
        put(&b, "in/a.c", "one\ntwo three\r\n\nthree two");
        put(&b, "in/b.h", "nothing\n");
        put(&b, "in/sub/c.c", "  three\n");
        put(&b, "in/.hidden", "three\n");
        return b;
}

TEST(search_text_says_line_and_column)
{
        _cleanup_bed_ struct bed b = small_tree();

        EXPECT_STR(FIND(b, .text = "three"),
                   "a.c:2:5:two three | a.c:4:1:three two | sub/c.c:1:3:  three");
        EXPECT_STR(FIND(b, .text = "THREE"), "");
        EXPECT_STR(FIND(b, .text = "THREE T", .ignore_case = true), "a.c:4:1:three two");
        EXPECT_STR(FIND(b, .text = "t.o"), "");
        EXPECT_STR(FIND(b, .text = "three", .with_hidden = true, .n_globs = 1,
                        .globs = (const char *[]) { ".h*" }),
                   ".hidden:1:1:three");
}

TEST(search_regex_is_about_one_line)
{
        _cleanup_bed_ struct bed b = small_tree();

        EXPECT_STR(FIND(b, .text = "t.o$", .is_regex = true), "a.c:4:7:three two");
        EXPECT_STR(FIND(b, .text = "^two.*ee$", .is_regex = true), "a.c:2:1:two three");
        EXPECT_STR(FIND(b, .text = "one\\stwo", .is_regex = true), "");
        EXPECT_STR(FIND(b, .text = "^$", .is_regex = true), "a.c:3:1:");
        EXPECT_STR(FIND(b, .text = "ONE|NOTHING", .is_regex = true, .ignore_case = true),
                   "a.c:1:1:one | b.h:1:1:nothing");
}

TEST(search_globs_choose_the_files)
{
        _cleanup_bed_ struct bed b = small_tree();

        EXPECT_STR(FIND(b, .text = "three", .globs = (const char *[]) { "sub/**" }, .n_globs = 1),
                   "sub/c.c:1:3:  three");
        EXPECT_STR(FIND(b, .text = "three", .globs = (const char *[]) { "!sub" }, .n_globs = 1),
                   "a.c:2:5:two three | a.c:4:1:three two");
        EXPECT_STR(FIND(b, .text = "n", .globs = (const char *[]) { "*.{h,x}" }, .n_globs = 1),
                   "b.h:1:1:nothing");
}

TEST(search_names_by_glob)
{
        _cleanup_bed_ struct bed b = small_tree();

        EXPECT_STR(FIND(b, .name = "*.c"), "a.c | sub/c.c");
        EXPECT_STR(FIND(b, .name = "SUB", .ignore_case = true), "sub/");
        EXPECT_STR(FIND(b, .name = "sub/*"), "sub/c.c");
        EXPECT_STR(FIND(b, .name = "*"), "a.c | b.h | sub/ | sub/c.c");
        EXPECT_STR(FIND(b, .name = "*", .with_hidden = true),
                   ".hidden | a.c | b.h | sub/ | sub/c.c");
        EXPECT_STR(FIND(b, .name = "*", .globs = (const char *[]) { "*.h" }, .n_globs = 1), "b.h");
}

TEST(search_of_one_file_needs_no_permission_of_patterns)
{
        _cleanup_bed_ struct bed b = small_tree();
        _cleanup_free_ char *file = xstrdup(at(&b, "in/a.c"));

        EXPECT_STR(FIND(b, .path = file, .text = "one"), "a.c:1:1:one");
        EXPECT_STR(FIND(b, .path = file, .name = "*.c"), "a.c");
        EXPECT_STR(FIND(b, .path = file, .name = "*.h"), "");
        put(&b, "in/.gitignore", "a.c\n");
        EXPECT_STR(FIND(b, .path = file, .text = "one"), "a.c:1:1:one");
        EXPECT_STR(FIND(b, .path = "/proc/self/status", .text = "nothing like this"), "");
}

TEST(search_honours_gitignore)
{
        _cleanup_bed_ struct bed b = small_tree();

        put(&b, "in/.gitignore", "sub/\n*.h\n");
        EXPECT_STR(FIND(b, .name = "*"), "a.c");
        EXPECT_STR(FIND(b, .name = "*", .with_ignored = true), "a.c | b.h | sub/ | sub/c.c");
        put(&b, "in/.gitignore", "*.c\n");
        put(&b, "in/sub/.gitignore", "!c.c\n");
        EXPECT_STR(FIND(b, .name = "*"), "b.h | sub/ | sub/c.c");
        EXPECT_INT(mkdir(at(&b, "in/.git"), 0755), 0);
        put(&b, "in/.git/config", "three\n");
        EXPECT_STR(FIND(b, .text = "three", .with_hidden = true),
                   ".hidden:1:1:three | sub/c.c:1:3:  three");
}

TEST(search_skips_and_counts_what_is_no_text)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct seen s = { 0 };
        struct error err = {};
        char *data = xcalloc(1, SEARCH_BINARY_BYTES + 8);
        int n = SEARCH_BINARY_BYTES;

        memset(data, 'x', SEARCH_BINARY_BYTES + 8);
        memcpy(data, "find", 4);
        data[n] = '\0'; /* one byte too late to make it binary */
        EXPECT_OK(file_write(at(&b, "in/late"), data, (size_t) n + 8, 0644, &err), err);
        data[n - 1] = '\0';
        EXPECT_OK(file_write(at(&b, "in/binary"), data, (size_t) n + 8, 0644, &err), err);
        free(data);
        EXPECT_INT(mkfifo(at(&b, "in/fifo"), 0644), 0);
        EXPECT_INT(symlink("late", at(&b, "in/link")), 0);
        put(&b, "in/empty", "");
        EXPECT_OK(search(&b, (struct search_spec) { .text = "find" }, &s, &err), err);
        EXPECT_INT(s.n, 1);
        EXPECT(strncmp(s.lines[0], "late:1:1:", 9) == 0);
        EXPECT_INT(s.stats.n_skipped, 1);
        EXPECT_INT(s.stats.n_files, 2);
        EXPECT(!s.stats.is_limited);
        seen_done(&s);
}

TEST(search_file_size_has_a_ceiling)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct seen s = { 0 };
        struct error err = {};

        put(&b, "in/large", "x\n");
        EXPECT_INT(truncate(at(&b, "in/large"), (off_t) SEARCH_FILE_MAX + 1), 0);
        EXPECT_OK(search(&b, (struct search_spec) { .text = "x" }, &s, &err), err);
        EXPECT_INT(s.stats.n_skipped, 1);
        EXPECT_INT(s.n, 0);
        seen_done(&s);
}

TEST(search_stops_at_the_limit)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct seen s = { 0 };
        struct error err = {};

        put(&b, "in/a", "x\nx\nx\n");
        EXPECT_OK(search(&b, (struct search_spec) { .text = "x", .limit = 2 }, &s, &err), err);
        EXPECT_INT(s.n, 2);
        EXPECT(s.stats.is_limited);
        EXPECT_OK(search(&b, (struct search_spec) { .text = "x", .limit = 3 }, &s, &err), err);
        EXPECT_INT(s.n, 3);
        EXPECT(s.stats.is_limited);
        EXPECT_OK(search(&b, (struct search_spec) { .text = "x", .limit = 4 }, &s, &err), err);
        EXPECT_INT(s.n, 3);
        EXPECT(!s.stats.is_limited);
        EXPECT_OK(search(&b, (struct search_spec) { .name = "*", .limit = 1 }, &s, &err), err);
        EXPECT(s.stats.is_limited);
        seen_done(&s);
}

TEST(search_can_be_cancelled)
{
        _cleanup_bed_ struct bed b = small_tree();
        struct seen s = { .cancel_after = 1 };
        struct error err = {};

        EXPECT_ERR(search(&b, (struct search_spec) { .text = "x" }, &s, &err), ERR_UPSTREAM, err);
        EXPECT_INT(s.calls, 2);
        seen_done(&s);
}

TEST(search_counts_lines_across_blocks)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct buf text = { 0 };
        struct error err = {};

        for (int i = 1; i <= 60000; i++)
                buf_printf(&text, "%s %d\n", i % 25000 ? "line" : "HIT", i);
        EXPECT(text.len > 2 * SEARCH_BLOCK_BYTES);
        EXPECT_OK(file_write(at(&b, "in/f"), text.data, text.len, 0644, &err), err);
        buf_done(&text);
        EXPECT_STR(FIND(b, .text = "HIT"), "f:25000:1:HIT 25000 | f:50000:1:HIT 50000");
        EXPECT_STR(FIND(b, .text = "hit", .ignore_case = true),
                   "f:25000:1:HIT 25000 | f:50000:1:HIT 50000");
        EXPECT_STR(FIND(b, .text = "^HIT", .is_regex = true),
                   "f:25000:1:HIT 25000 | f:50000:1:HIT 50000");
}

/* A line longer than a block is looked at in pieces: a hit on the seam is found, once. */
TEST(search_finds_in_a_line_that_is_longer_than_a_block)
{
        _cleanup_bed_ struct bed b = bed_new();
        size_t len = SEARCH_BLOCK_BYTES * 2 + 1000, at_byte = SEARCH_BLOCK_BYTES - 2;
        char *data = xmalloc(len + 8);
        struct error err = {};
        struct seen s = { 0 };

        memset(data, '.', len);
        memcpy(data + at_byte, "HIT", 3);
        memcpy(data + at_byte + 5000, "HIT", 3);
        memcpy(data + len, "\nHIT\n", 5);
        EXPECT_OK(file_write(at(&b, "in/f"), data, len + 5, 0644, &err), err);
        for (int is_regex = 0; is_regex < 2; is_regex++) {
                struct search_spec spec = { .text = "HIT", .is_regex = is_regex };

                EXPECT_OK(search(&b, spec, &s, &err), err);
                EXPECT_INT(s.n, 2);
                EXPECT_STR(s.lines[1], "f:2:1:HIT");
                EXPECT_INT(strtoul(s.lines[0] + 4, NULL, 10), at_byte + 1);
        }
        /* Not found at all in the long one; the next line still has its number. */
        EXPECT_STR(FIND(b, .text = "^HIT", .is_regex = true), "f:2:1:HIT");
        seen_done(&s);
        free(data);
}

TEST(search_shows_the_part_of_a_long_line_that_has_the_hit)
{
        _cleanup_bed_ struct bed b = bed_new();
        char line[SEARCH_LINE_MAX * 2 + 1];
        struct seen s = { 0 };
        struct error err = {};

        memset(line, 'x', sizeof(line));
        line[SEARCH_LINE_MAX] = '\0';
        put(&b, "in/f", line);
        EXPECT_OK(search(&b, (struct search_spec) { .text = "x" }, &s, &err), err);
        EXPECT_INT(s.text_len, SEARCH_LINE_MAX);
        EXPECT(!s.is_cut);
        line[SEARCH_LINE_MAX] = 'x';
        line[SEARCH_LINE_MAX + 1] = '\0';
        put(&b, "in/f", line);
        EXPECT_OK(search(&b, (struct search_spec) { .text = "x" }, &s, &err), err);
        EXPECT_INT(s.text_len, SEARCH_LINE_MAX);
        EXPECT_INT(s.text_column, 1);
        EXPECT(s.is_cut);
        line[SEARCH_LINE_MAX + 1] = 'x';
        line[SEARCH_LINE_MAX * 2] = '\0';
        memcpy(line + 3000, "HIT", 3);
        put(&b, "in/f", line);
        EXPECT_OK(search(&b, (struct search_spec) { .text = "HIT" }, &s, &err), err);
        EXPECT(s.is_cut);
        EXPECT_INT(s.text_column, 3000 - 200 + 1);
        EXPECT(strncmp(s.lines[0], "f:1:3001:", 9) == 0);
        seen_done(&s);
}

TEST(search_knows_characters_where_there_are_some)
{
        _cleanup_bed_ struct bed b = bed_new();

        put(&b, "in/utf8", "x É y\n");
        put(&b, "in/latin1", "x \xe9 y\n");
        EXPECT_STR(FIND(b, .text = "x . y", .is_regex = true),
                   "latin1:1:1:x \xe9 y | utf8:1:1:x É y");
        EXPECT_STR(FIND(b, .text = "é", .ignore_case = true), "utf8:1:3:x É y");
        EXPECT_STR(FIND(b, .text = "\\p{Lu}", .is_regex = true), "utf8:1:3:x É y");
        EXPECT_STR(FIND(b, .text = "\\x{c9}", .is_regex = true), "utf8:1:3:x É y");
}

TEST(search_refuses_patterns_with_a_reason)
{
        _cleanup_bed_ struct bed b = bed_new();
        char text[SEARCH_PATTERN_MAX + 2];
        struct seen s = { 0 };
        struct error err = {};
        struct search_spec spec = { .text = "a(b", .is_regex = true };

        EXPECT_ERR(search(&b, spec, &s, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "invalid regex at offset 3: missing closing parenthesis");
        EXPECT_ERR(search(&b, (struct search_spec) { .text = "" }, &s, &err), ERR_INVALID, err);
        EXPECT_ERR(search(&b, (struct search_spec) { .text = "a\nb" }, &s, &err), ERR_INVALID, err);
        memset(text, 'x', sizeof(text));
        text[SEARCH_PATTERN_MAX] = '\0';
        EXPECT_OK(search(&b, (struct search_spec) { .text = text }, &s, &err), err);
        text[SEARCH_PATTERN_MAX] = 'x';
        text[SEARCH_PATTERN_MAX + 1] = '\0';
        EXPECT_ERR(search(&b, (struct search_spec) { .text = text }, &s, &err), ERR_INVALID, err);
        EXPECT_ERR(
                search(&b, (struct search_spec) { .path = at(&b, "none"), .text = "x" }, &s, &err),
                ERR_NOT_FOUND, err);
}

/* An expression with exponentially many ways gives up on the line and is counted. */
TEST(search_with_a_bad_pattern_ends)
{
        _cleanup_bed_ struct bed b = bed_new();
        struct search_spec spec = { .text = "^(a+)+$", .is_regex = true };
        struct seen s = { 0 };
        struct error err = {};

        put(&b, "in/bad", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\naaa\n");
        EXPECT_OK(search(&b, spec, &s, &err), err);
        EXPECT_INT(s.n, 1);
        EXPECT_STR(s.lines[0], "bad:2:1:aaa");
        EXPECT_INT(s.stats.n_skipped, 1);
        seen_done(&s);
}

TEST(search_depth_has_a_ceiling)
{
        _cleanup_bed_ struct bed b = bed_fast();
        struct seen s = { 0 };
        struct error err = {};
        int fd = open(at(&b, "in"), O_DIRECTORY | O_CLOEXEC);

        /* WALK_DEPTH_MAX directories are open at once, the top one included. */
        for (int i = 0; i < WALK_DEPTH_MAX; i++) {
                int next;

                EXPECT_INT(mkdirat(fd, "d", 0755), 0);
                next = openat(fd, "d", O_DIRECTORY | O_CLOEXEC);
                (void) close(fd);
                fd = next;
        }
        (void) close(fd);
        EXPECT_OK(search(&b, (struct search_spec) { .name = "d" }, &s, &err), err);
        EXPECT_INT(s.n, WALK_DEPTH_MAX);
        EXPECT_INT(s.stats.n_skipped, 1);
        seen_done(&s);
}

TEST(search_stays_below_the_root)
{
        _cleanup_bed_ struct bed b = small_tree();
        struct seen s = { 0 };
        const struct search_cb cb = { on_hit, is_cancelled, &s };
        struct search_spec spec = { .path = b.dir, .text = "three", .limit = 10 };
        struct search_stats st;
        struct error err = {};

        EXPECT_ERR(fs_search(b.in, &spec, &cb, &st, &err), ERR_FORBIDDEN, err);
}
