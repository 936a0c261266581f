/* Server-sent events: whole, or byte by byte, they say the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool on_event(void *arg, const struct client_event *e)
{
        struct buf *out = arg;

        buf_puts(out, e->name);
        buf_putc(out, '|');
        buf_puts(out, e->id);
        buf_putc(out, '|');
        buf_put(out, e->data.at, e->data.len);
        buf_putc(out, '\n');
        return true;
}

static void feed(const uint8_t *data, size_t size, size_t step, struct buf *out)
{
        struct events e = { 0 };

        for (size_t at = 0; at < size; at += step)
                (void) events_feed(&e, (const char *) data + at,
                                   step < size - at ? step : size - at, on_event, out, NULL);
        events_done(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct buf whole = { 0 }, split = { 0 };

        feed(data, size, size ? size : 1, &whole);
        feed(data, size, 1, &split);
        if (whole.len != split.len || (whole.len && memcmp(whole.data, split.data, whole.len)))
                abort();
        buf_done(&whole);
        buf_done(&split);
        return 0;
}
