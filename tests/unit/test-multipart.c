#include "http/multipart.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "test.h"

/* What the parser said, as text: "[name|filename|type]data;". */
struct heard {
        struct buf text;
        bool refuses;
};

static int on_part(void *arg, const struct multipart_part *p, struct error *err)
{
        struct heard *h = arg;

        if (h->refuses)
                return error_set(err, ERR_FORBIDDEN, 0, "not this one");
        buf_printf(&h->text, "[%s|%s|%s]", p->name, p->filename ?: "-", p->type ?: "-");
        return 0;
}

static int on_data(void *arg, const char *data, size_t len, struct error *err)
{
        buf_put(&((struct heard *) arg)->text, data, len);
        return 0;
}

static int on_part_end(void *arg, struct error *err)
{
        buf_putc(&((struct heard *) arg)->text, ';');
        return 0;
}

static const struct multipart_cb events = { on_part, on_data, on_part_end };

static int parse(const char *type, const struct multipart_limits *limits, const char *body,
                 size_t len, size_t step, struct heard *h, struct error *err)
{
        struct multipart *m;
        int r;

        buf_clear(&h->text);
        buf_puts(&h->text, "");
        if (multipart_new(type, limits, &events, h, &m, err) < 0)
                return -1;
        r = 0;
        for (size_t at = 0; at < len && r == 0; at += step)
                r = multipart_feed(m, body + at, MIN(step, len - at), err);
        if (r == 0)
                r = multipart_finish(m, err);
        multipart_free(m);
        return r;
}

#define TYPE    "multipart/form-data; boundary=XyZ"
#define PART(n) "--XyZ\r\nContent-Disposition: form-data; name=\"" n "\"\r\n\r\n"
#define END     "--XyZ--\r\n"

static const struct {
        const char *name, *body, *heard;
        enum err_kind kind;
} rows[] = {
        { "one field", PART("a") "hello\r\n" END, "[a|-|-]hello;", ERR_OK },
        { "two fields", PART("a") "1\r\n" PART("b") "2\r\n" END, "[a|-|-]1;[b|-|-]2;", ERR_OK },
        { "empty field", PART("a") "\r\n" END, "[a|-|-];", ERR_OK },
        { "empty field without a line end", PART("a") END, "[a|-|-];", ERR_OK },
        { "no part", END, "", ERR_OK },
        { "end without a line end", PART("a") "x\r\n--XyZ--", "[a|-|-]x;", ERR_OK },
        { "preamble and epilogue", "hi\r\n" PART("a") "x\r\n" END "--XyZ\r\nbye", "[a|-|-]x;",
          ERR_OK },
        { "blanks behind the boundary",
          "--XyZ \t\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" END, "[a|-|-]x;",
          ERR_OK },
        { "file",
          "--XyZ\r\ncontent-TYPE: text/plain\r\nX-Other: y\r\ncontent-disposition: form-data; "
          "name=\"f\"; "
          "filename=\"a b.txt\"\r\n\r\nline\r\nline\r\n\r\n" END,
          "[f|a b.txt|text/plain]line\r\nline\r\n;", ERR_OK },
        { "quotes",
          "--XyZ\r\nContent-Disposition: form-data; name=\"a\\\"b\"; "
          "filename=\"C:\\x\\\\y;=z\"\r\n\r\n\r\n" END,
          "[a\"b|C:\\x\\y;=z|-];", ERR_OK },
        { "unquoted",
          "--XyZ\r\nContent-Disposition: form-data ; NAME = a ; x ; filename=b\r\n\r\n\r\n" END,
          "[a|b|-];", ERR_OK },
        { "almost a boundary", PART("a") "\r\n--Xy\r\r\n--XyW\r\n-\r\n\r\n\r\n" END,
          "[a|-|-]\r\n--Xy\r\r\n--XyW\r\n-\r\n\r\n;", ERR_OK },
        { "data that begins like a boundary", PART("a") "--Xy\r\n" END, "[a|-|-]--Xy;", ERR_OK },
        { "dashes", PART("a") "----XyZ\r\n" END, "[a|-|-]----XyZ;", ERR_OK },
        { "empty body", "", "", ERR_INVALID },
        { "cut in the data", PART("a") "hel", "[a|-|-]hel", ERR_INVALID },
        { "cut in the end", PART("a") "x\r\n--XyZ-", "[a|-|-]x;", ERR_INVALID },
        { "junk behind a boundary", PART("a") "x\r\n--XyZa\r\n" END, "[a|-|-]x;", ERR_INVALID },
        { "no disposition", "--XyZ\r\nContent-Type: a/b\r\n\r\nx\r\n" END, "", ERR_INVALID },
        { "no headers", "--XyZ\r\n\r\nx\r\n" END, "", ERR_INVALID },
        { "no name", "--XyZ\r\nContent-Disposition: form-data; filename=x\r\n\r\nx\r\n" END, "",
          ERR_INVALID },
        { "name twice", "--XyZ\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nx\r\n" END,
          "", ERR_INVALID },
        { "other disposition", "--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n" END,
          "", ERR_INVALID },
        { "open quote", "--XyZ\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n" END, "",
          ERR_INVALID },
        { "header without colon", "--XyZ\r\nContent-Disposition form-data\r\n\r\nx\r\n" END, "",
          ERR_INVALID },
        { "bare line feed in a header",
          "--XyZ\r\nA: b\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" END, "",
          ERR_INVALID },
        { "bad utf-8", "--XyZ\r\nContent-Disposition: form-data; name=\xff\r\n\r\nx\r\n" END, "",
          ERR_INVALID },
        { "base64",
          "--XyZ\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: form-data; "
          "name=a\r\n\r\nx\r\n" END,
          "", ERR_UNSUPPORTED },
};

static void run_row(size_t i, size_t step, struct heard *h)
{
        struct error err = { 0 };
        int r = parse(TYPE, NULL, rows[i].body, strlen(rows[i].body), step, h, &err);

        if (rows[i].kind == ERR_OK)
                EXPECT_OK(r, err);
        else
                EXPECT_ERR(r, rows[i].kind, err);
        EXPECT_STR(h->text.data, rows[i].heard);
}

TEST(multipart_says_the_same_for_every_split)
{
        struct heard h = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (size_t step = 1; step <= 60; step++)
                        run_row(i, step, &h);
        buf_done(&h.text);
}

TEST(multipart_reads_the_boundary_from_the_content_type)
{
        static const struct {
                const char *type;
                bool is_good;
        } types[] = {
                { "multipart/form-data; boundary=XyZ", true },
                { "Multipart/Form-Data;charset=utf-8;Boundary=\"XyZ\"", true },
                { "multipart/form-data; boundary=XyZ; charset=utf-8", true },
                { NULL, false },
                { "", false },
                { "application/json", false },
                { "multipart/mixed; boundary=XyZ", false },
                { "multipart/form-data", false },
                { "multipart/form-data; boundary=", false },
                { "multipart/form-data; boundary=\"XyZ", false },
                { "multipart/form-data; boundary=\"X yZ \"", false },
                { "multipart/form-data; boundary=X@Z", false },
        };
        struct heard h = { 0 };
        struct error err = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
                int r = parse(types[i].type, NULL, END, strlen(END), 100, &h, &err);

                if (types[i].is_good)
                        EXPECT_OK(r, err);
                else
                        EXPECT_ERR(r, ERR_MEDIA_TYPE, err);
        }
        buf_done(&h.text);
}

TEST(multipart_limits_the_boundary_to_70_characters)
{
        char type[160], body[160];
        struct heard h = { 0 };
        struct error err = { 0 };

        for (int n = 69; n <= 71; n++) {
                int r;

                (void) snprintf(type, sizeof(type), "multipart/form-data; boundary=%0*d", n, 1);
                (void) snprintf(body, sizeof(body), "--%0*d--", n, 1);
                r = parse(type, NULL, body, strlen(body), 7, &h, &err);
                if (n <= MULTIPART_BOUNDARY_MAX)
                        EXPECT_OK(r, err);
                else
                        EXPECT_ERR(r, ERR_MEDIA_TYPE, err);
        }
        buf_done(&h.text);
}

TEST(multipart_limits_parts)
{
        static const char body[] = PART("a") "\r\n" PART("b") "\r\n" PART("c") "\r\n" END;
        struct multipart_limits limits = { .max_parts = 3 };
        struct heard h = { 0 };
        struct error err = { 0 };

        EXPECT_OK(parse(TYPE, &limits, body, strlen(body), 9, &h, &err), err);
        limits.max_parts = 2;
        EXPECT_ERR(parse(TYPE, &limits, body, strlen(body), 9, &h, &err), ERR_TOO_BIG, err);
        EXPECT_STR(h.text.data, "[a|-|-];[b|-|-];");
        buf_done(&h.text);
}

TEST(multipart_limits_bytes_of_a_part)
{
        static const char body[] = PART("a") "12345678\r\n" PART("b") "1234\r\n" END;
        struct multipart_limits limits = { .max_part_bytes = 8 };
        struct heard h = { 0 };
        struct error err = { 0 };

        EXPECT_OK(parse(TYPE, &limits, body, strlen(body), 3, &h, &err), err);
        limits.max_part_bytes = 7;
        EXPECT_ERR(parse(TYPE, &limits, body, strlen(body), 3, &h, &err), ERR_TOO_BIG, err);
        buf_done(&h.text);
}

TEST(multipart_limits_headers_and_preamble)
{
        static const char start[] = "--XyZ\r\nContent-Disposition: form-data; name=a\r\nX: ";
        size_t fixed = strlen(start) - strlen("--XyZ\r\n") + strlen("\r\n\r\n");
        struct heard h = { 0 };
        struct error err = { 0 };

        for (int over = -1; over <= 1; over++) {
                _cleanup_(buf_done) struct buf head = { 0 }, preamble = { 0 };
                int r;

                buf_puts(&head, start);
                for (size_t i = 0; i < MULTIPART_HEAD_MAX - fixed + (size_t) over; i++)
                        buf_putc(&head, 'x');
                buf_puts(&head, "\r\n\r\ny\r\n" END);
                r = parse(TYPE, NULL, head.data, head.len, 1000, &h, &err);
                if (over <= 0)
                        EXPECT_OK(r, err);
                else
                        EXPECT_ERR(r, ERR_TOO_BIG, err);

                for (int i = 0; i < MULTIPART_PREAMBLE_MAX + over; i++)
                        buf_putc(&preamble, 'x');
                buf_puts(&preamble, "\r\n" END);
                r = parse(TYPE, NULL, preamble.data, preamble.len, 1000, &h, &err);
                if (over <= 0)
                        EXPECT_OK(r, err);
                else
                        EXPECT_ERR(r, ERR_TOO_BIG, err);
        }
        buf_done(&h.text);
}

TEST(multipart_passes_a_callback_error_on_and_stays_failed)
{
        static const char body[] = PART("a") "x\r\n" END;
        struct heard h = { .refuses = true };
        struct error err = { 0 };
        struct multipart *m;

        EXPECT_OK(multipart_new(TYPE, NULL, &events, &h, &m, &err), err);
        EXPECT_ERR(multipart_feed(m, body, strlen(body), &err), ERR_FORBIDDEN, err);
        err.kind = ERR_OK;
        EXPECT_ERR(multipart_feed(m, "", 0, &err), ERR_FORBIDDEN, err);
        EXPECT_ERR(multipart_finish(m, &err), ERR_FORBIDDEN, err);
        multipart_free(m);
        buf_done(&h.text);
}
