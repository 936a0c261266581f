#include "client/events.h"

#include <string.h>

#include "base/macro.h"

static void dispatch(struct events *e)
{
        const struct client_event event = {
                .name = e->name.data ?: "",
                .id = e->id.data ?: "",
                .data = { e->data.data ?: "", e->data.len },
        };

        if (e->has_data)
                e->is_over = !e->fn(e->arg, &event);
        buf_clear(&e->name);
        buf_clear(&e->id);
        buf_clear(&e->data);
        e->has_data = false;
}

static void set(struct buf *b, struct slice value)
{
        buf_clear(b);
        buf_put(b, value.at, value.len);
}

static void add_data(struct events *e, struct slice value)
{
        if (e->data.len + value.len >= EVENT_DATA_MAX) {
                e->is_over = true;
                (void) error_set(e->err, ERR_TOO_BIG, 0, "an event has more than %d bytes",
                                 EVENT_DATA_MAX);
                return;
        }
        if (e->has_data)
                buf_putc(&e->data, '\n');
        e->has_data = true;
        buf_put(&e->data, value.at, value.len);
}

static void on_line(void *arg, const char *line, size_t len)
{
        struct events *e = arg;
        struct slice value = { line, len }, name = { line, 0 };

        if (e->is_over)
                return;
        if (!len) {
                dispatch(e);
                return;
        }
        (void) slice_cut(&value, ':', &name);
        if (!value.len)
                value = (struct slice) { "", 0 };
        if (*value.at == ' ')
                value = (struct slice) { value.at + 1, value.len - 1 };
        if (slice_eq(name, "data"))
                add_data(e, value);
        else if (slice_eq(name, "event"))
                set(&e->name, value);
        else if (slice_eq(name, "id"))
                set(&e->id, value);
}

int events_feed(struct events *e, const char *data, size_t len,
                bool (*fn)(void *arg, const struct client_event *e), void *arg, struct error *err)
{
        struct error why = { 0 };

        e->fn = fn;
        e->arg = arg;
        e->err = &why;
        e->lines.max_bytes = EVENT_DATA_MAX;
        if (line_feed(&e->lines, data, len, on_line, e, &why) < 0)
                e->is_over = true;
        e->err = NULL;
        if (why.kind == ERR_OK)
                return 0;
        if (err)
                *err = why;
        return -1;
}

void events_done(struct events *e)
{
        line_done(&e->lines);
        buf_done(&e->name);
        buf_done(&e->id);
        buf_done(&e->data);
}
