#include "client/events.h"

#include <stdio.h>

#include "base/macro.h"
#include "test.h"

struct heard {
        struct buf text; /* "name/id/data;" */
        int left;        /* events until it has enough; 0 = never */
};

static bool on_event(void *arg, const struct client_event *e)
{
        struct heard *h = arg;

        buf_printf(&h->text, "%s/%s/%.*s;", e->name, e->id, (int) e->data.len, e->data.at);
        return !h->left || --h->left;
}

static const struct {
        const char *in, *heard;
} rows[] = {
        { "data: a\n\n", "//a;" },
        { "event: log\nid: 7\ndata: {\"x\":1}\n\n", "log/7/{\"x\":1};" },
        { "data:a\ndata:  b\ndata\n\n", "//a\n b\n;" },
        { ": heartbeat\n\ndata: a\n\n: x\n\n", "//a;" },
        { "event: log\r\ndata: a\r\n\r\ndata: b\r\n\r\n", "log//a;//b;" },
        { "event: lonely\n\ndata: a\n\n", "//a;" },
        { "data: a\nretry: 5\nwhat: b\n\n", "//a;" },
        { "data: cut\n", "" },
        { "data: x: y\n\n", "//x: y;" },
};

TEST(events_are_the_same_for_every_split)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (size_t step = 1; step <= strlen(rows[i].in); step++) {
                        _cleanup_(events_done) struct events e = {};
                        struct heard h = {};
                        struct error err = {};

                        buf_puts(&h.text, "");
                        for (size_t at = 0; at < strlen(rows[i].in); at += step)
                                EXPECT_OK(events_feed(&e, rows[i].in + at,
                                                      MIN(step, strlen(rows[i].in) - at), on_event,
                                                      &h, &err),
                                          err);
                        EXPECT_STR(h.text.data, rows[i].heard);
                        buf_done(&h.text);
                }
}

TEST(events_stop_when_the_reader_has_enough)
{
        static const char in[] = "data: a\n\ndata: b\n\ndata: c\n\n";
        _cleanup_(events_done) struct events e = {};
        struct heard h = { .left = 2 };
        struct error err = {};

        EXPECT_OK(events_feed(&e, in, strlen(in), on_event, &h, &err), err);
        EXPECT(e.is_over);
        EXPECT_OK(events_feed(&e, in, strlen(in), on_event, &h, &err), err);
        EXPECT_STR(h.text.data, "//a;//b;");
        buf_done(&h.text);
}

TEST(events_limit_the_data)
{
        _cleanup_(events_done) struct events e = {};
        _cleanup_(buf_done) struct buf line = {};
        struct heard h = {};
        struct error err = {};
        size_t n = 1024 * 1024;
        int r = 0;

        buf_puts(&line, "data: ");
        memset(buf_room(&line, n), 'x', n);
        buf_grew(&line, n);
        buf_putc(&line, '\n');
        for (int i = 0; i < 64 && r == 0; i++)
                r = events_feed(&e, line.data, line.len, on_event, &h, &err);
        EXPECT_ERR(r, ERR_TOO_BIG, err);
        EXPECT(e.data.len < EVENT_DATA_MAX);
}
