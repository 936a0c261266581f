#include "fs/scan.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fs/match.h"

enum {
        LINES_BETWEEN_LOOKS = 4096, /* is the search still wanted? */
        CONTEXT_BYTES = 200,        /* shown before a hit that lies far to the right */
};

void scan_done(struct scan *s)
{
        free(s->block);
        s->block = NULL;
}

static uint64_t count_lines(const char *at, const char *end)
{
        uint64_t n = 0;

        while ((at = memchr(at, '\n', (size_t) (end - at)))) {
                n++;
                at++;
        }
        return n;
}

static bool is_inside_char(char c)
{
        return ((unsigned char) c & 0xc0) == 0x80;
}

/* The part of a long line that is shown: it holds the hit and no half characters. */
static void cut_text(struct slice line, struct span found, struct search_hit *hit)
{
        size_t from = 0, len = line.len;

        if (len > SEARCH_LINE_MAX) {
                if (found.end > SEARCH_LINE_MAX && found.at > CONTEXT_BYTES)
                        from = found.at - CONTEXT_BYTES;
                while (from < found.at && is_inside_char(line.at[from]))
                        from++;
                len = MIN(line.len - from, (size_t) SEARCH_LINE_MAX);
                while (from + len < line.len && len > SEARCH_LINE_MAX - 4 &&
                       is_inside_char(line.at[from + len]))
                        len--;
        }
        hit->text = (struct slice) { line.at + from, len };
        hit->text_column += from;
        hit->is_cut = len < line.len;
}

static struct slice without_cr(struct slice line)
{
        if (line.len && line.at[line.len - 1] == '\r')
                line.len--;
        return line;
}

/* `gone`: bytes of the line that were in earlier blocks. */
static int tell(struct scan *s, struct slice line, struct span found, uint64_t gone,
                struct error *err)
{
        struct search_hit hit = {
                .path = s->path,
                .line = s->line,
                .column = gone + found.at + 1,
                .text_column = gone + 1,
        };

        cut_text(without_cr(line), found, &hit);
        hit.is_cut |= gone > 0;
        return s->on_hit(s->arg, &hit, err);
}

/* ---- many lines at once ---- */

static struct slice line_around(struct slice text, size_t at)
{
        const char *start = memrchr(text.at, '\n', at);
        const char *end = memchr(text.at + at, '\n', text.len - at);

        start = start ? start + 1 : text.at;
        end = end ? end : text.at + text.len;
        return (struct slice) { start, (size_t) (end - start) };
}

static void advance(struct slice *text, const char *to)
{
        const char *end = text->at + text->len;

        *text = to < end ? (struct slice) { to, (size_t) (end - to) } : (struct slice) { end, 0 };
}

static int scan_block(struct scan *s, struct slice text, bool is_utf8, struct error *err)
{
        uint64_t gone = s->column;
        struct span found;
        int r = 1;

        while (text.len && r > 0 && matcher_find(s->matcher, text, is_utf8, &found) > 0) {
                struct slice line = line_around(text, found.at);
                size_t before = (size_t) (line.at - text.at);

                if (before) {
                        s->line += count_lines(text.at, line.at);
                        gone = 0;
                }
                r = tell(s, line, (struct span) { found.at - before, found.end - before }, gone,
                         err);
                s->line++;
                gone = 0;
                advance(&text, line.at + line.len + 1);
        }
        if (r > 0)
                s->line += count_lines(text.at, text.at + text.len);
        return r;
}

/* ---- line by line ---- */

static int scan_line(struct scan *s, struct slice line, bool is_utf8, uint64_t gone,
                     struct error *err)
{
        struct span found;
        int r;

        is_utf8 = is_utf8 || utf8_check(line.at, line.len) == line.len;
        r = matcher_find(s->matcher, without_cr(line), is_utf8, &found);
        if (r > 0)
                return tell(s, line, found, gone, err);
        if (r < 0) {
                s->was_too_hard = true;
                if (s->is_cancelled(s->arg))
                        return error_set(err, ERR_UPSTREAM, 0, "the search was cancelled");
        }
        return 1;
}

static int scan_lines(struct scan *s, struct slice text, bool is_utf8, struct error *err)
{
        uint64_t gone = s->column;
        int r = 1;

        for (unsigned n = 1; text.len && r > 0; n++) {
                const char *nl = memchr(text.at, '\n', text.len);
                size_t len = nl ? (size_t) (nl - text.at) : text.len;

                if (n % LINES_BETWEEN_LOOKS == 0 && s->is_cancelled(s->arg))
                        return error_set(err, ERR_UPSTREAM, 0, "the search was cancelled");
                r = scan_line(s, (struct slice) { text.at, len }, is_utf8, gone, err);
                s->line++;
                gone = 0;
                advance(&text, text.at + len + 1);
        }
        return r;
}

/* Whole lines, the last one with or without its end. */
static int scan_whole(struct scan *s, struct slice text, struct error *err)
{
        bool is_bytewise = matcher_is_bytewise(s->matcher);
        bool is_utf8 = is_bytewise || utf8_check(text.at, text.len) == text.len;
        int r;

        if (is_utf8 && matcher_takes_blocks(s->matcher))
                r = scan_block(s, text, is_utf8, err);
        else
                r = scan_lines(s, text, is_utf8, err);
        s->column = 0;
        return r;
}

/* A block without any line end: a piece of a long line. *ret_keep bytes of it are looked at once
 * more, together with what follows. */
static int scan_piece(struct scan *s, struct slice piece, size_t *ret_keep, struct error *err)
{
        size_t good = utf8_check(piece.at, piece.len), keep = MIN(piece.len, SEARCH_PATTERN_MAX);
        bool is_utf8 = piece.len - good < 4; /* the last character may be cut */
        struct slice subject = { piece.at, is_utf8 ? good : piece.len };
        struct span found;
        int r = matcher_find(s->matcher, subject, is_utf8, &found);

        *ret_keep = 0;
        if (r > 0) {
                s->is_told = true;
                return tell(s, subject, found, s->column, err);
        }
        s->was_too_hard |= r < 0;
        while (keep < piece.len && is_inside_char(piece.at[piece.len - keep]) && is_utf8)
                keep++;
        s->column += piece.len - keep;
        *ret_keep = keep;
        return 1;
}

/* ---- the blocks of a file ---- */

/* Drops what is left of a line that had its hit. */
static struct slice skip_told(struct scan *s, struct slice text)
{
        const char *nl;

        if (!s->is_told)
                return text;
        nl = memchr(text.at, '\n', text.len);
        if (!nl)
                return (struct slice) { text.at + text.len, 0 };
        s->is_told = false;
        s->column = 0;
        s->line++;
        advance(&text, nl + 1);
        return text;
}

static int scan_block_of(struct scan *s, size_t len, bool is_last, size_t *ret_keep,
                         struct error *err)
{
        struct slice text = skip_told(s, (struct slice) { s->block, len });
        const char *nl = is_last ? NULL : memrchr(text.at, '\n', text.len);

        *ret_keep = 0;
        if (!text.len)
                return 1;
        if (is_last)
                return scan_whole(s, text, err);
        if (!nl)
                return scan_piece(s, text, ret_keep, err);
        *ret_keep = (size_t) (text.at + text.len - nl) - 1;
        return scan_whole(s, (struct slice) { text.at, text.len - *ret_keep }, err);
}

/* Fills the block behind its first `len` bytes. left: what the file should still have; asking for
 * the end of a file costs as much as reading a small one. Returns the new length, or -1. */
static ssize_t fill(struct scan *s, int fd, size_t len, uint64_t left, bool *ret_last)
{
        *ret_last = false;
        while (len < SEARCH_BLOCK_BYTES && left) {
                ssize_t n = read(fd, s->block + len, SEARCH_BLOCK_BYTES - len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        return -1;
                if (n <= 0) {
                        left = 0;
                        break;
                }
                len += (size_t) n;
                left -= MIN(left, (uint64_t) n);
        }
        *ret_last = !left;
        return (ssize_t) len;
}

static int scan_blocks(struct scan *s, int fd, uint64_t left, struct error *err)
{
        size_t keep = 0;
        bool is_last = false;

        for (bool is_first = true; !is_last; is_first = false) {
                ssize_t len = fill(s, fd, keep, left, &is_last);
                int r;

                if (len < 0)
                        return SCAN_SKIPPED;
                if (is_first && memchr(s->block, '\0', MIN((size_t) len, SEARCH_BINARY_BYTES)))
                        return SCAN_SKIPPED;
                left -= MIN(left, (uint64_t) len - keep);
                r = scan_block_of(s, (size_t) len, is_last, &keep, err);
                if (r <= 0)
                        return r < 0 ? -1 : SCAN_STOPPED;
                memmove(s->block, s->block + len - keep, keep);
                if (!is_last && s->is_cancelled(s->arg))
                        return error_set(err, ERR_UPSTREAM, 0, "the search was cancelled");
        }
        return s->was_too_hard ? SCAN_SKIPPED : SCAN_DONE;
}

int scan_fd(struct scan *s, int fd, const char *path, bool is_any_size, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > SEARCH_FILE_MAX)
                return SCAN_SKIPPED;
        if (!st.st_size && !is_any_size)
                return SCAN_DONE;
        if (!s->block)
                s->block = xmalloc(SEARCH_BLOCK_BYTES);
        s->path = path;
        s->line = 1;
        s->column = 0;
        s->is_told = s->was_too_hard = false;
        return scan_blocks(s, fd, is_any_size ? SEARCH_FILE_MAX : (uint64_t) st.st_size, err);
}
