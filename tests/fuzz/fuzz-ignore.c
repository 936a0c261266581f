/* .gitignore files: no rule breaks the reader; rules do not see what lies outside; a last rule that
 * takes everything back does so.
 *
 * Input: the path's last part, a line feed, the file. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "fs/search.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *nl = memchr(data, '\n', size);
        size_t n = nl ? (size_t) (nl - data) : size;
        _cleanup_free_ char *name = xstrndup((const char *) data, n);
        _cleanup_free_ char *inside = xasprintf("/r/%s", name);
        _cleanup_free_ char *outside = xasprintf("/other/%s", name);
        size_t len = nl ? size - n - 1 : 0;
        char *text = xmalloc(len ? len : 1); /* exact, so that a read past the end is seen */
        struct buf all = { 0 };
        struct ignore *i;

        if (len)
                memcpy(text, nl + 1, len);
        i = ignore_push(NULL, "/r", (struct slice) { text, len });
        (void) ignore_has(i, inside, false);
        (void) ignore_has(i, inside, true);
        assert(!ignore_has(i, outside, true));
        buf_put(&all, text, len);
        buf_puts(&all, "\n!**\n");
        i = ignore_push(i, "/r", (struct slice) { all.data, all.len });
        assert(!ignore_has(i, inside, true));
        assert(ignore_pop(ignore_pop(i)) == NULL);
        buf_done(&all);
        free(text);
        return 0;
}
