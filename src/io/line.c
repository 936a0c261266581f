#include "io/line.h"

#include <string.h>

void line_done(struct line_framer *f)
{
        buf_done(&f->held);
}

static size_t trim_cr(const char *line, size_t len)
{
        return len && line[len - 1] == '\r' ? len - 1 : len;
}

static int too_long(struct line_framer *f, struct error *err)
{
        buf_done(&f->held);
        return error_set(err, ERR_TOO_BIG, 0, "a line is longer than %zu bytes", f->max_bytes);
}

int line_feed(struct line_framer *f, const char *data, size_t len,
              void (*fn)(void *arg, const char *line, size_t len), void *arg, struct error *err)
{
        int n = 0;

        while (len) {
                const char *nl = memchr(data, '\n', len);
                size_t part = nl ? (size_t) (nl - data) : len;

                if (part > f->max_bytes || f->held.len > f->max_bytes - part)
                        return too_long(f, err);
                if (!nl) {
                        buf_put(&f->held, data, part);
                        break;
                }
                n++;
                if (f->held.len) {
                        buf_put(&f->held, data, part);
                        fn(arg, f->held.data, trim_cr(f->held.data, f->held.len));
                        buf_clear(&f->held);
                } else {
                        fn(arg, data, trim_cr(data, part));
                }
                data = nl + 1;
                len -= part + 1;
        }
        return n;
}
