/* Entity tags, ranges and dates from a client's headers. The first line is our tag, the second a
 * size, the rest the header. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "http/condition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_tags(const char *list, const char *etag)
{
        bool is_bad, is_bad_too;
        bool is_strong = etag_list_has(list, etag, false, &is_bad);
        bool is_weak = etag_list_has(list, etag, true, &is_bad_too);

        assert(is_bad == is_bad_too);
        assert(!is_strong || is_weak); /* whoever is the same is alike */
        assert(!is_bad || !is_weak);
}

static void try_range(const char *text, uint64_t size)
{
        struct range r;
        int n = range_parse(text, size, &r);

        assert(r.is_part == (n == 1));
        if (n == 1)
                assert(r.len && r.from < size && r.len <= size - r.from);
        else
                assert(r.from == 0 && r.len == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
        struct slice rest = { (const char *) data, len }, etag = { "", 0 }, digits = { "", 0 };
        _cleanup_free_ char *tag = NULL, *text = NULL;
        uint64_t size = 0;
        int64_t sec;

        (void) slice_cut(&rest, '\n', &etag);
        (void) slice_cut(&rest, '\n', &digits);
        (void) str_to_u64(digits.at, digits.len, &size);
        tag = xstrndup(etag.at, etag.len);
        text = rest.at ? xstrndup(rest.at, rest.len) : xstrdup("");
        try_tags(text, tag);
        try_range(text, size);
        (void) http_date_parse(text, &sec);
        return 0;
}
