/* Unified diffs: the text before the first NUL is what the diff behind it is applied to. Names that
 * come out stay below, hunks lie inside of the diff, and a diff that was taken once is taken again
 * with the same result. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/str.h"
#include "fs/edit.h"

static void check_path(const char *p)
{
        assert(!p || path_check_relative(p, strlen(p), NULL) == 0);
}

static void check_file(const struct diff_file *f, struct slice diff, struct slice text)
{
        struct buf one = { .max_bytes = 1 << 20 }, two = { .max_bytes = 1 << 20 };
        struct error err = { 0 };
        unsigned n = 0, m = 0;

        assert(f->old_path || f->new_path);
        check_path(f->old_path);
        check_path(f->new_path);
        assert(!f->hunks.len ||
               (f->hunks.at >= diff.at && f->hunks.at + f->hunks.len <= diff.at + diff.len));
        if (diff_apply(f, text, &one, &n, &err) == 0) {
                assert(diff_apply(f, text, &two, &m, &err) == 0 && n == m && one.len == two.len);
                assert(!one.len || memcmp(one.data, two.data, one.len) == 0);
                assert(one.len <= text.len + f->hunks.len);
        } else {
                /* diff_parse() has counted the lines: only the text can be wrong. */
                assert(err.kind == ERR_CONFLICT || err.kind == ERR_TOO_BIG);
        }
        buf_done(&one);
        buf_done(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *at = (const char *) data, *nul = size ? memchr(at, '\0', size) : NULL;
        size_t n = nul ? (size_t) (nul - at) : 0, skip = nul ? n + 1 : 0;
        struct slice text = { at, n }, diff = { at + skip, size - skip };
        struct error err = { 0 };
        struct diff d = { 0 };

        if (diff_parse(diff, &d, &err) < 0) {
                assert(err.kind == ERR_INVALID || err.kind == ERR_UNSUPPORTED ||
                       err.kind == ERR_TOO_BIG);
                return 0;
        }
        assert(d.n_files);
        for (size_t i = 0; i < d.n_files; i++)
                check_file(&d.files[i], diff, text);
        diff_done(&d);
        return 0;
}
