/* Patterns: the matcher never reads past an end, and agrees with a matcher that tries every way.
 *
 * Input: the pattern, a line feed, the path. */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fs/glob.h"
#include "fs/search.h"

enum { SLOW_MAX = 12 }; /* bytes of both, where every way is few enough */

/* Stars and plain bytes only. */
static bool is_plain(const char *s)
{
        return !strpbrk(s, "[\\?");
}

static bool is_deep(const char *start, const char *p, size_t n)
{
        return n >= 2 && (p == start || p[-1] == '/') && (!p[n] || p[n] == '/');
}

static bool slow_match(const char *start, const char *p, const char *t)
{
        size_t n = strspn(p, "*");
        bool crosses = is_deep(start, p, n);

        if (!n)
                return *p ? *p == *t && slow_match(start, p + 1, t + 1) : !*t;
        if (crosses && p[n] == '/' && slow_match(start, p + n + 1, t))
                return true;
        for (;; t++) {
                if (slow_match(start, p + n, t))
                        return true;
                if (!*t || (*t == '/' && !crosses))
                        return false;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *nl = memchr(data, '\n', size);
        size_t n = nl ? (size_t) (nl - data) : size;
        /* Exact sizes, so that a read past the end is seen. */
        _cleanup_free_ char *pattern = xstrndup((const char *) data, n);
        _cleanup_free_ char *path =
                xstrndup(nl ? (const char *) nl + 1 : "", nl ? size - n - 1 : 0);
        _cleanup_(globs_done) struct globs g = { .flags = WILD_UTF8 | WILD_FOLD };
        bool fits = wild_match(pattern, path, 0);

        if (is_plain(pattern) && strlen(pattern) <= SLOW_MAX && strlen(path) <= SLOW_MAX)
                assert(fits == slow_match(pattern, pattern, path));
        (void) glob_match(pattern, path);
        if (globs_add(&g, pattern, NULL) == 0)
                (void) globs_want(&g, path, true);
        assert(g.n <= GLOB_VARIANTS_MAX);
        return 0;
}
