/* Base64: what is accepted encodes to exactly the same text again, what is refused leaves the
 * buffer alone and names an offset inside the text, and any bytes survive the way there and back.
 */
#include <assert.h>
#include <stdint.h>

#include "base/base64.h"
#include "base/buf.h"

static void check_text(struct slice text)
{
        struct error err = { 0 };
        struct buf out = { 0 }, again = { 0 };
        size_t bad = 0;

        if (base64_decode(text, &out, &bad, &err) < 0) {
                assert(err.kind == ERR_INVALID && err.msg[0] && bad <= text.len && !out.len);
        } else {
                base64_put(&again, out.data, out.len);
                assert(again.len == text.len);
                assert(!text.len || memcmp(again.data, text.at, text.len) == 0);
        }
        buf_done(&out);
        buf_done(&again);
}

static void check_bytes(const uint8_t *data, size_t size)
{
        struct error err = { 0 };
        struct buf text = { 0 }, back = { 0 };

        base64_put(&text, data, size);
        assert(text.len == base64_len(size));
        assert(base64_decode((struct slice) { text.data, text.len }, &back, NULL, &err) == 0);
        assert(back.len == size && (!size || memcmp(back.data, data, size) == 0));
        buf_done(&text);
        buf_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        check_text((struct slice) { (const char *) data, size });
        check_bytes(data, size);
        return 0;
}
