#include "http/response.h"

#include <string.h>

#include "base/str.h"

static struct response *of(llhttp_t *p)
{
        return p->data;
}

static int count(struct response *r, size_t len)
{
        r->head_bytes += len;
        if (r->head_bytes <= r->max_head_bytes)
                return 0;
        (void) error_set(&r->fault, ERR_HEAD_TOO_BIG, 0,
                         "the headers of the answer have more than %zu bytes", r->max_head_bytes);
        return HPE_USER;
}

static int on_status(llhttp_t *p, const char *at, size_t len)
{
        return count(of(p), len);
}

/* Trailers come through the same callbacks after the head; nobody asks for them. */
static int on_field(llhttp_t *p, const char *at, size_t len)
{
        struct response *r = of(p);

        if (r->has_head)
                return 0;
        if (count(r, len))
                return HPE_USER;
        for (size_t i = 0; i < len; i++)
                buf_putc(&r->headers, (char) (at[i] >= 'A' && at[i] <= 'Z' ? at[i] | 0x20 : at[i]));
        return 0;
}

static int on_field_complete(llhttp_t *p)
{
        struct response *r = of(p);

        if (r->has_head)
                return 0;
        buf_putc(&r->headers, '\0');
        r->value_at = r->headers.len;
        return count(r, 4); /* colon, blank, line end */
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
        struct response *r = of(p);

        if (r->has_head)
                return 0;
        if (count(r, len))
                return HPE_USER;
        buf_put(&r->headers, at, len);
        return 0;
}

static int on_value_complete(llhttp_t *p)
{
        struct response *r = of(p);
        struct slice value;

        if (r->has_head)
                return 0;
        value = (struct slice) { r->headers.data + r->value_at, r->headers.len - r->value_at };
        r->headers.len = r->value_at + slice_trim(value).len; /* blanks in front are gone already */
        buf_putc(&r->headers, '\0');
        return 0;
}

static int on_head(llhttp_t *p)
{
        struct response *r = of(p);

        if (p->status_code < 100 || p->status_code == 101) {
                (void) error_set(&r->fault, ERR_UPSTREAM, 0, "unexpected status %d",
                                 p->status_code);
                return -1;
        }
        r->is_interim = p->status_code < 200;
        if (r->is_interim) {
                buf_clear(&r->headers);
                return 1; /* never a body, whatever its headers say */
        }
        r->has_head = true;
        r->cb->on_head(r->arg, p->status_code);
        if (r->is_stopped)
                return -1;
        return r->is_head ? 1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
        struct response *r = of(p);

        r->cb->on_data(r->arg, at, len);
        return r->is_stopped ? -1 : 0;
}

static int on_complete(llhttp_t *p)
{
        struct response *r = of(p);

        if (r->is_interim) {
                r->is_interim = false;
                return 0;
        }
        r->is_complete = true;
        return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
        .on_status = on_status,
        .on_header_field = on_field,
        .on_header_field_complete = on_field_complete,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_complete,
        .on_headers_complete = on_head,
        .on_body = on_body,
        .on_message_complete = on_complete,
};

void response_init(struct response *r, bool is_head, size_t max_head_bytes,
                   const struct response_cb *cb, void *arg)
{
        *r = (struct response) {
                .cb = cb,
                .arg = arg,
                .is_head = is_head,
                .max_head_bytes = max_head_bytes ? max_head_bytes : RESPONSE_HEAD_MAX,
        };
        llhttp_init(&r->parser, HTTP_RESPONSE, &settings);
        r->parser.data = r;
}

void response_done(struct response *r)
{
        response_stop(r);
        buf_done(&r->headers);
}

void response_stop(struct response *r)
{
        r->is_stopped = true;
}

int response_feed(struct response *r, const char *data, size_t len, struct error *err)
{
        llhttp_errno_t e;

        if (r->is_complete || r->is_stopped)
                return r->is_complete;
        e = llhttp_execute(&r->parser, data, len);
        if (r->is_complete)
                return 1;
        if (e == HPE_OK)
                return 0;
        if (r->fault.kind) {
                if (err)
                        *err = r->fault;
                return -1;
        }
        return error_set(err, ERR_UPSTREAM, 0, "not a valid HTTP answer: %s",
                         llhttp_get_error_reason(&r->parser) ?: llhttp_errno_name(e));
}

int response_finish(struct response *r, struct error *err)
{
        if (r->is_complete)
                return 0;
        /* A body without a stated length ends with the connection; the parser knows. */
        if (!r->is_stopped && r->has_head)
                (void) llhttp_finish(&r->parser);
        if (r->is_complete)
                return 0;
        return error_set(err, ERR_UPSTREAM, 0, "the connection was closed before the answer %s",
                         r->has_head ? "was complete" : "came");
}

const char *response_header(const struct response *r, const char *lower_name)
{
        const char *at = r->headers.len ? r->headers.data : "", *end = at + r->headers.len;

        while (at < end) {
                const char *value = at + strlen(at) + 1;

                if (strcmp(at, lower_name) == 0)
                        return value;
                at = value + strlen(value) + 1;
        }
        return NULL;
}
