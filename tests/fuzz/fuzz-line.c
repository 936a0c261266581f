/* The line framer: however the bytes are split, the lines are those of a plain search for line
 * feeds, and the ceiling holds.
 *
 * Input: one byte (the ceiling), one byte (size of the pieces), then the text. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "io/line.h"

enum { CEILING_MAX = 64 };

struct seen {
        struct buf log;
        size_t max_bytes;
};

static void take(void *arg, const char *line, size_t len)
{
        struct seen *s = arg;

        assert(len <= s->max_bytes);
        assert(!memchr(line, '\n', len));
        buf_put(&s->log, line, len);
        buf_putc(&s->log, '\n');
}

/* False where the framer must refuse. */
static bool by_hand(const char *text, size_t len, struct seen *s)
{
        const char *nl;

        while ((nl = memchr(text, '\n', len))) {
                size_t n = (size_t) (nl - text);

                if (n > s->max_bytes)
                        return false;
                take(s, text, n && text[n - 1] == '\r' ? n - 1 : n);
                text += n + 1;
                len -= n + 1;
        }
        return len <= s->max_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct seen want = { 0 }, seen = { 0 };
        struct line_framer f = { 0 };
        size_t step;
        bool is_good, is_taken = true;

        if (size < 2)
                return 0;
        f.max_bytes = want.max_bytes = seen.max_bytes = data[0] % CEILING_MAX;
        step = (size_t) data[1] + 1;
        is_good = by_hand((const char *) data + 2, size - 2, &want);
        for (size_t at = 2; at < size && is_taken; at += step)
                is_taken = line_feed(&f, (const char *) data + at, MIN(step, size - at), take,
                                     &seen, NULL) >= 0;
        assert(is_good == is_taken);
        assert(want.log.len == seen.log.len);
        assert(!want.log.len || memcmp(want.log.data, seen.log.data, want.log.len) == 0);
        line_done(&f);
        buf_done(&want.log);
        buf_done(&seen.log);
        return 0;
}
