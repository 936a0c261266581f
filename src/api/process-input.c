/* What clients send to a process: input, and the size of its window. */
#include <string.h>

#include "api/processes.h"
#include "base/base64.h"
#include "base/buf.h"
#include "http/req.h"
#include "json/json.h"
#include "json/write.h"

#define SHAPE "failed to deserialize the JSON body into the target type"

int process_check_u16(const char *name, uint64_t v, struct error *err)
{
        if (v <= UINT16_MAX)
                return 0;
        return error_set(err, ERR_SHAPE, 0,
                         SHAPE ": %s: invalid value: integer `%llu`, expected u16", name,
                         (unsigned long long) v);
}

const struct field process_input_fields[] = {
        { "data", F_ANY, 0, offsetof(struct input_body, data),
          .doc = "text; needed unless eof is set" },
        { "encoding", F_STR, 0, offsetof(struct input_body, encoding), 256,
          .doc = "base64 (when absent), utf8 or text" },
        { "eof", F_BOOL, 0, offsetof(struct input_body, eof),
          .doc = "behind the data its input ends" },
        { 0 },
};

int process_input_decode(const char *encoding, const char *fallback, struct slice data,
                         struct buf *hold, struct slice *ret, struct error *err)
{
        const char *e = encoding ? encoding : fallback;

        *ret = (struct slice) { "", 0 };
        if (strcmp(e, "utf8") == 0 || strcmp(e, "text") == 0) {
                *ret = data;
                return 0;
        }
        if (strcmp(e, "base64") != 0)
                return error_set(err, ERR_INVALID, 0,
                                 "encoding must be one of: base64, utf8, text");
        if (base64_decode(data, hold, NULL, err) < 0)
                return error_wrap(err, "invalid base64 input");
        *ret = (struct slice) { hold->data, hold->len };
        return 0;
}

static int input_text(const struct input_body *b, struct slice *ret, struct error *err)
{
        *ret = (struct slice) { "", 0 };
        if (!b->data && b->eof)
                return 0;
        if (b->data && b->data->type == J_STR) {
                *ret = b->data->text;
                return 0;
        }
        if (b->data) {
                (void) json_bad_type(b->data, "data", "a string", err);
                return error_wrap(err, SHAPE);
        }
        return error_set(err, ERR_SHAPE, 0, SHAPE ": missing field `data`");
}

/* All that can be wrong with the body is said before the process is looked for. */
static int input_take(struct req *r, struct buf *hold, struct slice *ret, struct error *err)
{
        const struct input_body *b = req_body(r);
        uint64_t max = processes_config(req_processes(r))->max_input_bytes;
        struct slice text;

        if (input_text(b, &text, err) < 0 ||
            process_input_decode(b->encoding, "base64", text, hold, ret, err) < 0)
                return -1;
        if (ret->len > max)
                return error_set(err, ERR_TOO_BIG, 0,
                                 "input payload exceeds maxInputBytesPerRequest (%llu)",
                                 (unsigned long long) max);
        return 0;
}

static int reply_written(struct req *r, uint64_t n)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_u64(&w, "bytesWritten", n);
        jw_end(&w);
        return reply_taken(r, &b);
}

int process_input_post(struct req *r, struct error *err)
{
        const struct input_body *b = req_body(r);
        _cleanup_(buf_done) struct buf hold = { 0 };
        struct slice bytes;
        struct process *p;

        if (input_take(r, &hold, &bytes, err) < 0 || req_process(r, &p, err) < 0 ||
            process_input(p, bytes.at, bytes.len, err) < 0)
                return -1;
        if (b->eof && process_close_input(p, err) < 0)
                return -1;
        return reply_written(r, bytes.len);
}

const struct field process_resize_fields[] = {
        { "cols", F_UINT, F_REQUIRED, offsetof(struct resize_body, cols), .doc = "width" },
        { "rows", F_UINT, F_REQUIRED, offsetof(struct resize_body, rows), .doc = "height" },
        { 0 },
};

int process_resize_post(struct req *r, struct error *err)
{
        const struct resize_body *b = req_body(r);
        struct buf out = { 0 };
        struct jw w = { .out = &out };
        struct process *p;

        if (process_check_u16("cols", b->cols, err) < 0 ||
            process_check_u16("rows", b->rows, err) < 0 || req_process(r, &p, err) < 0 ||
            process_resize(p, (uint16_t) b->cols, (uint16_t) b->rows, err) < 0)
                return -1;
        jw_obj(&w, NULL);
        jw_u64(&w, "cols", b->cols);
        jw_u64(&w, "rows", b->rows);
        jw_end(&w);
        return reply_taken(r, &out);
}

struct input_reply {
        uint64_t bytes_written;
};
const struct field process_input_reply[] = {
        { "bytesWritten", F_UINT, F_REQUIRED, offsetof(struct input_reply, bytes_written),
          .doc = "after decoding" },
        { 0 },
};
