/* The form parser: the same parts and the same verdict however the body is split.
 *
 * Input: the content type up to the first line feed, then the body. */
#include <assert.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"
#include "http/multipart.h"

enum { PARTS_MAX = 20, PART_BYTES_MAX = 2000 };

struct heard {
        struct buf log;
        size_t n_parts, part_bytes;
        bool in_part;
};

static int on_part(void *arg, const struct multipart_part *p, struct error *err)
{
        struct heard *h = arg;

        assert(!h->in_part && p->name && utf8_check(p->name, strlen(p->name)) == strlen(p->name));
        h->in_part = true;
        h->part_bytes = 0;
        assert(++h->n_parts <= PARTS_MAX);
        buf_printf(&h->log, "[%s|%s|%s]", p->name, p->filename ?: "-", p->type ?: "-");
        return 0;
}

static int on_data(void *arg, const char *data, size_t len, struct error *err)
{
        struct heard *h = arg;

        assert(h->in_part && len);
        h->part_bytes += len;
        assert(h->part_bytes <= PART_BYTES_MAX);
        buf_put(&h->log, data, len);
        return 0;
}

static int on_part_end(void *arg, struct error *err)
{
        struct heard *h = arg;

        assert(h->in_part);
        h->in_part = false;
        buf_putc(&h->log, ';');
        return 0;
}

static int run(const char *type, const char *body, size_t len, size_t step, struct heard *h)
{
        static const struct multipart_cb events = { on_part, on_data, on_part_end };
        static const struct multipart_limits limits = { .max_parts = PARTS_MAX,
                                                        .max_part_bytes = PART_BYTES_MAX };
        struct multipart *m;
        struct error err = { 0 };
        int r = 0;

        if (multipart_new(type, &limits, &events, h, &m, &err) < 0)
                return -2;
        for (size_t at = 0; at < len && r == 0; at += step)
                r = multipart_feed(m, body + at, MIN(step, len - at), &err);
        if (r == 0)
                r = multipart_finish(m, &err);
        assert(r == 0 || err.kind != ERR_OK);
        assert(r != 0 || !h->in_part);
        multipart_free(m);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *) data, *lf = size ? memchr(text, '\n', size) : NULL;
        struct heard whole = { 0 };
        char *type;
        size_t len;
        int r;

        if (!lf)
                return 0;
        type = xstrndup(text, (size_t) (lf - text));
        len = size - (size_t) (lf + 1 - text);
        r = run(type, lf + 1, len, size, &whole);
        for (size_t step = 1; step <= 7; step += 2) {
                struct heard pieces = { 0 };

                assert(run(type, lf + 1, len, step, &pieces) == r);
                /* A failing piece may have delivered less: ceilings are checked per piece. */
                if (r == 0) {
                        assert(pieces.log.len == whole.log.len);
                        assert(!whole.log.len ||
                               memcmp(pieces.log.data, whole.log.data, whole.log.len) == 0);
                }
                buf_done(&pieces.log);
        }
        buf_done(&whole.log);
        free(type);
        return 0;
}
