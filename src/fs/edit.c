/* Exact replacement of text. */
#include "fs/edit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "fs/file.h"
#include "fs/root.h"

enum { SHOWN_BYTES = 40, SHOWN_LINES = 10 };

void edit_results_done(struct edit_results *r)
{
        for (size_t i = 0; i < r->n; i++) {
                free(r->at[i].path);
                free(r->at[i].from);
        }
        free(r->at);
        *r = (struct edit_results) { 0 };
}

static size_t count_lines(const char *from, const char *to)
{
        size_t n = 0;

        while (from < to && (from = memchr(from, '\n', (size_t) (to - from)))) {
                from++;
                n++;
        }
        return n;
}

/* " (lines 4, 9, 12)" */
static void list_lines(struct slice text, struct slice old, struct buf *out)
{
        const char *at = text.at, *end = text.at + text.len, *from = text.at, *hit;
        size_t line = 1, n = 0;

        while ((hit = memmem(at, (size_t) (end - at), old.at, old.len))) {
                line += count_lines(from, hit);
                from = hit;
                at = hit + old.len;
                if (n++ == SHOWN_LINES) {
                        buf_puts(out, ", …");
                        break;
                }
                buf_printf(out, "%s%zu", n == 1 ? " (lines " : ", ", line);
        }
        if (n)
                buf_puts(out, ")");
}

static int64_t count_conflict(struct slice text, struct slice old, uint64_t n, uint64_t expected,
                              struct error *err)
{
        struct slice rest = old, first = old;
        struct buf lines = { 0 };
        const char *dots = "";

        (void) slice_cut(&rest, '\n', &first);
        if (first.len > SHOWN_BYTES)
                first.len = SHOWN_BYTES;
        while (first.len < old.len && first.len && (old.at[first.len] & 0xc0) == 0x80)
                first.len--; /* not in the middle of a character */
        if (first.len < old.len)
                dots = "…";
        list_lines(text, old, &lines);
        buf_puts(&lines, "");
        if (expected)
                (void) error_set(err, ERR_CONFLICT, 0,
                                 "expected %llu occurrence%s of '%.*s%s', found %llu%s",
                                 (unsigned long long) expected, expected == 1 ? "" : "s",
                                 (int) first.len, first.at, dots, (unsigned long long) n,
                                 lines.data);
        else
                (void) error_set(err, ERR_CONFLICT, 0, "there is no '%.*s%s'", (int) first.len,
                                 first.at, dots);
        buf_done(&lines);
        return -1;
}

int64_t edit_replace(struct slice text, struct slice old, struct slice new, uint64_t expected,
                     struct buf *ret, struct error *err)
{
        const char *at, *end, *hit;
        uint64_t n = 0;

        if (!text.len)
                text.at = ""; /* an empty text may have no address */
        at = text.at;
        end = at + text.len;
        if (!old.len)
                return error_set(err, ERR_INVALID, 0, "the text to replace must not be empty");
        while ((hit = memmem(at, (size_t) (end - at), old.at, old.len))) {
                at = hit + old.len;
                n++;
        }
        if (expected ? n != expected : !n)
                return count_conflict(text, old, n, expected, err);
        at = text.at;
        while ((hit = memmem(at, (size_t) (end - at), old.at, old.len))) {
                if (buf_add(ret, at, (size_t) (hit - at), err) < 0 ||
                    buf_add(ret, new.at, new.len, err) < 0)
                        return -1;
                at = hit + old.len;
        }
        if (buf_add(ret, at, (size_t) (end - at), err) < 0)
                return -1;
        return (int64_t) n;
}

/* ---- on a file ---- */

static int read_text(const struct fsroot *r, const char *path, struct buf *ret,
                     char ret_etag[static 64], struct error *err)
{
        struct fs_reader in = { .fd = -1 };
        int result;

        if (fs_reader_open(r, path, &in, err) < 0)
                return -1;
        fs_etag(&in.info, ret_etag);
        if (in.is_virtual)
                result = error_set(err, ERR_INVALID, 0, "'%s' is a file of the kernel", path);
        else
                result = fd_read_all(in.fd, ret, err);
        (void) close(in.fd);
        return result < 0 ? error_wrap(err, "read '%s'", path) : 0;
}

static int write_text(const struct fsroot *r, const char *path, const char *etag,
                      const struct buf *text, struct error *err)
{
        const struct fs_write_opts opts = { .match = etag, .size_hint = text->len };
        struct fs_writer *w = NULL;
        int result = 0;

        if (fs_writer_open(r, path, &opts, &w, err) < 0 ||
            fs_writer_write(w, text->data, text->len, err) < 0 ||
            fs_writer_commit(w, NULL, err) < 0)
                result = -1;
        fs_writer_free(w);
        if (result < 0 && err && err->kind == ERR_PRECONDITION)
                return error_set(err, ERR_CONFLICT, 0, "'%s' was changed meanwhile", path);
        return result;
}

int fs_edit_replace(const struct fsroot *r, const char *path, struct slice old, struct slice new,
                    uint64_t expected, bool is_dry_run, struct edit_results *ret, struct error *err)
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = EDIT_FILE_MAX };
        _cleanup_(buf_done) struct buf out = { .max_bytes = EDIT_FILE_MAX };
        char etag[64];
        int64_t n;

        if (read_text(r, path, &text, etag, err) < 0)
                return -1;
        n = edit_replace((struct slice) { text.data, text.len }, old, new, expected, &out, err);
        if (n < 0)
                return error_wrap(err, "edit '%s'", path);
        if (!is_dry_run && write_text(r, path, etag, &out, err) < 0)
                return -1;
        ret->at = NEW(struct edit_result);
        ret->n = 1;
        *ret->at = (struct edit_result) { xstrdup(path), NULL, (uint64_t) n, "modified" };
        return 0;
}
