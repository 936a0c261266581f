/* Answers to our own requests, and the addresses we send them to: no input breaks the parser, and
 * the verdict does not depend on how the bytes are split.
 *
 * Input: one byte (bit 0: HEAD, rest: size of the pieces), then the answer. */
#include <assert.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/str.h"
#include "http/response.h"
#include "http/url.h"

enum { HEAD_MAX = 2048 };

struct heard {
        struct response r;
        struct buf body;
        int n_heads;
};

static void on_head(void *arg, int status)
{
        struct heard *h = arg;

        assert(++h->n_heads == 1 && status >= 200);
        assert(h->r.headers.len <= HEAD_MAX);
        (void) response_header(&h->r, "content-type");
}

static void on_data(void *arg, const char *data, size_t len)
{
        struct heard *h = arg;

        assert(h->n_heads == 1 && !h->r.is_head);
        buf_put(&h->body, data, len);
}

static int run(const char *data, size_t len, size_t step, bool is_head, struct heard *h)
{
        static const struct response_cb events = { on_head, on_data };
        struct error err = { 0 };
        int r = 0;

        response_init(&h->r, is_head, HEAD_MAX, &events, h);
        for (size_t at = 0; at < len && r == 0; at += step)
                r = response_feed(&h->r, data + at, MIN(step, len - at), &err);
        if (r == 0)
                r = response_finish(&h->r, &err);
        assert(r >= 0 || err.kind == ERR_UPSTREAM || err.kind == ERR_HEAD_TOO_BIG);
        assert(r < 0 || h->n_heads == 1);
        response_done(&h->r);
        return r;
}

static void check_url(const char *data, size_t len)
{
        char *text = xstrndup(data, len);
        struct error err = { 0 };
        struct url u;

        if (url_parse(text, &u, &err) == 0) {
                assert(u.target[0] == '/' && !strpbrk(u.target, " \r\n"));
                assert(!strpbrk(u.authority, " \r\n/?@"));
                assert((u.host && u.host[0] && u.port) || u.unix_path);
                url_done(&u);
        }
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct heard whole = { 0 }, pieces = { 0 };
        const char *in = (const char *) data + 1;
        bool is_head;
        int r;

        if (size < 2)
                return 0;
        is_head = data[0] & 1;
        r = run(in, size - 1, size, is_head, &whole);
        assert(r == run(in, size - 1, 1 + data[0] / 2, is_head, &pieces));
        assert(r < 0 || whole.body.len == pieces.body.len);
        assert(r < 0 || !whole.body.len ||
               memcmp(whole.body.data, pieces.body.data, whole.body.len) == 0);
        buf_done(&whole.body);
        buf_done(&pieces.body);
        check_url(in, size - 1);
        return 0;
}
