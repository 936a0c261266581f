#include "http/multipart.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"

enum state {
        ST_PREAMBLE, /* before the first boundary: thrown away */
        ST_AFTER,    /* right behind a boundary: "--" ends, a line end begins a part */
        ST_PADDING,  /* blanks between a boundary and its line end */
        ST_LF,       /* the \n of that line end */
        ST_DASH,     /* the second '-' of the closing boundary */
        ST_HEAD,
        ST_DATA,
        ST_EPILOGUE, /* after the closing boundary: thrown away */
        ST_FAILED,
};

/* The delimiter is \r\n--boundary. \r stands only at its start, so a match that breaks off after k
 * bytes can only begin again at the byte that broke it: no bytes need to be held back, the k bytes
 * are the delimiter's own. */
struct multipart {
        const struct multipart_cb *cb;
        void *arg;
        struct multipart_limits limits;
        enum state state;
        char delim[MULTIPART_BOUNDARY_MAX + 5];
        size_t delim_len, matched;
        struct buf head;
        uint32_t n_parts;
        uint64_t part_bytes;
        size_t preamble_bytes;
        bool is_assumed; /* the line end of the match under way was not sent */
        struct error why;
};

static void assume_line_end(struct multipart *m)
{
        m->matched = 2;
        m->is_assumed = true;
}

/* ---- parameters of a header value: ; name=token; name="quoted" ---- */

/* Cuts a quoted string (after its opening quote). Only \" and \\ are escapes: browsers send a
 * backslash in a file name as it is. */
static bool cut_quoted(struct slice *rest, struct buf *ret)
{
        while (rest->len) {
                char c = *rest->at++;

                rest->len--;
                if (c == '"')
                        return true;
                if (c == '\\' && rest->len && (*rest->at == '"' || *rest->at == '\\')) {
                        c = *rest->at++;
                        rest->len--;
                }
                buf_putc(ret, c);
        }
        return false;
}

static void cut_token(struct slice *rest, struct buf *ret)
{
        struct slice token = { rest->at, 0 };

        while (token.len < rest->len && rest->at[token.len] != ';')
                token.len++;
        rest->at += token.len;
        rest->len -= token.len;
        token = slice_trim(token);
        buf_put(ret, token.at, token.len);
}

static bool cut_value(struct slice *rest, struct buf *ret)
{
        *rest = slice_trim(*rest);
        if (!rest->len || *rest->at != '"') {
                cut_token(rest, ret);
                return true;
        }
        rest->at++;
        rest->len--;
        if (!cut_quoted(rest, ret))
                return false;
        *rest = slice_trim(*rest);
        return !rest->len || *rest->at == ';';
}

/* Words without a value may stand before a name: "; word; name=value". */
static struct slice behind_last(struct slice s, char sep)
{
        const char *p = memrchr(s.at, sep, s.len);

        return p ? (struct slice) { p + 1, s.len - (size_t) (p + 1 - s.at) } : s;
}

struct param {
        const char *name;
        char *value; /* out: new memory, or NULL */
};

static int keep_param(struct slice key, struct buf *value, struct param *want, struct error *err)
{
        for (; want->name; want++) {
                if (!slice_ieq(key, want->name))
                        continue;
                if (want->value)
                        return error_set(err, ERR_INVALID, 0, "parameter '%s' is there twice",
                                         want->name);
                want->value = buf_take(value);
                return 0;
        }
        return 0;
}

/* Reads the wanted parameters from behind the first ';' of a header value. */
static int read_params(struct slice rest, struct param *want, struct error *err)
{
        struct slice first, key;

        (void) slice_cut(&rest, ';', &first);
        while (rest.at && rest.len) {
                _cleanup_(buf_done) struct buf value = { 0 };

                if (!memchr(rest.at, '=', rest.len))
                        return 0; /* trailing blanks, or a word that we do not know */
                (void) slice_cut(&rest, '=', &key);
                key = behind_last(key, ';');
                if (!cut_value(&rest, &value))
                        return error_set(err, ERR_INVALID, 0, "a quoted parameter does not end");
                if (keep_param(slice_trim(key), &value, want, err) < 0)
                        return -1;
                if (rest.len) /* the ';' */
                        rest.at++, rest.len--;
        }
        return 0;
}

/* ---- boundary ---- */

static bool boundary_ok(const char *s)
{
        static const char allowed[] =
                "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                "'()+_,-./:=? ";
        size_t n = strlen(s);

        return n >= 1 && n <= MULTIPART_BOUNDARY_MAX && strspn(s, allowed) == n && s[n - 1] != ' ';
}

static int read_boundary(struct multipart *m, const char *content_type, struct error *err)
{
        struct param want[] = { { "boundary", NULL }, { NULL, NULL } };
        struct slice rest = SLICE(content_type ? content_type : ""), type = { 0 };
        _cleanup_free_ char *boundary = NULL;
        struct slice all = rest;

        (void) slice_cut(&rest, ';', &type);
        if (!slice_ieq(slice_trim(type), "multipart/form-data"))
                return error_set(err, ERR_MEDIA_TYPE, 0,
                                 "content-type must be multipart/form-data");
        if (read_params(all, want, err) < 0) {
                free(want[0].value);
                return error_set(err, ERR_MEDIA_TYPE, 0,
                                 "content-type has a bad boundary parameter");
        }
        boundary = want[0].value;
        if (!boundary || !boundary_ok(boundary))
                return error_set(err, ERR_MEDIA_TYPE, 0,
                                 "content-type must have a boundary of 1 to %d characters",
                                 MULTIPART_BOUNDARY_MAX);
        memcpy(m->delim, "\r\n--", 4);
        memcpy(m->delim + 4, boundary, strlen(boundary) + 1);
        m->delim_len = 4 + strlen(boundary);
        return 0;
}

int multipart_new(const char *content_type, const struct multipart_limits *limits,
                  const struct multipart_cb *cb, void *arg, struct multipart **ret,
                  struct error *err)
{
        struct multipart *m = NEW(struct multipart);

        m->cb = cb;
        m->arg = arg;
        if (limits)
                m->limits = *limits;
        if (!m->limits.max_parts)
                m->limits.max_parts = MULTIPART_PARTS_MAX;
        m->head.max_bytes = MULTIPART_HEAD_MAX;
        assume_line_end(m); /* the first boundary needs none before it */
        if (read_boundary(m, content_type, err) < 0) {
                multipart_free(m);
                return -1;
        }
        *ret = m;
        return 0;
}

struct multipart *multipart_free(struct multipart *m)
{
        if (m) {
                buf_done(&m->head);
                free(m);
        }
        return NULL;
}

/* ---- the header block of a part ---- */

struct part_head {
        struct param disposition[3];
        char *type;
        bool is_form_data;
};

static void part_head_done(struct part_head *h)
{
        free(h->disposition[0].value);
        free(h->disposition[1].value);
        free(h->type);
}

static int read_disposition(struct part_head *h, struct slice value, struct error *err)
{
        struct slice rest = value, kind;

        (void) slice_cut(&rest, ';', &kind);
        if (!slice_ieq(slice_trim(kind), "form-data"))
                return error_set(err, ERR_INVALID, 0, "content-disposition must be form-data");
        h->is_form_data = true;
        return read_params(value, h->disposition, err);
}

/* RFC 7578 section 4.7 retired transfer encodings; one that changes bytes must not pass unnoticed.
 */
static int check_encoding(struct slice value, struct error *err)
{
        if (slice_ieq(value, "binary") || slice_ieq(value, "8bit") || slice_ieq(value, "7bit"))
                return 0;
        return error_set(err, ERR_UNSUPPORTED, 0,
                         "content-transfer-encoding '%.*s' is not supported",
                         (int) MIN(value.len, 40u), value.at);
}

static int read_header(struct part_head *h, struct slice line, struct error *err)
{
        struct slice value = line, name;

        (void) slice_cut(&value, ':', &name);
        if (!value.at || !name.len)
                return error_set(err, ERR_INVALID, 0, "a header line has no colon");
        value = slice_trim(value);
        if (slice_ieq(name, "content-disposition") && !h->is_form_data)
                return read_disposition(h, value, err);
        if (slice_ieq(name, "content-transfer-encoding"))
                return check_encoding(value, err);
        if (slice_ieq(name, "content-type") && !h->type)
                h->type = xstrndup(value.at, value.len);
        return 0;
}

static int read_head(struct part_head *h, struct slice block, struct error *err)
{
        struct slice line;

        if (memchr(block.at, '\0', block.len) || utf8_check(block.at, block.len) != block.len)
                return error_set(err, ERR_INVALID, 0, "the headers must be valid UTF-8");
        while (slice_cut(&block, '\n', &line)) {
                if (!line.len)
                        continue;
                if (line.at[line.len - 1] != '\r')
                        return error_set(err, ERR_INVALID, 0, "a header line must end with CR LF");
                line.len--;
                if (line.len && read_header(h, line, err) < 0)
                        return -1;
        }
        if (!h->disposition[0].value)
                return error_set(err, ERR_INVALID, 0, "content-disposition with a name is missing");
        return 0;
}

static int begin_part(struct multipart *m, struct error *err)
{
        _cleanup_(part_head_done) struct part_head h = {
                .disposition = { { "name", NULL }, { "filename", NULL }, { NULL, NULL } },
        };
        struct multipart_part part;

        if (m->n_parts == m->limits.max_parts)
                return error_set(err, ERR_TOO_BIG, 0, "form has more than %u parts",
                                 m->limits.max_parts);
        m->n_parts++;
        if (read_head(&h, (struct slice) { m->head.data, m->head.len }, err) < 0)
                return error_wrap(err, "form part %u", m->n_parts);
        buf_clear(&m->head);
        part = (struct multipart_part) { h.disposition[0].value, h.disposition[1].value, h.type };
        m->part_bytes = 0;
        m->state = ST_DATA;
        assume_line_end(m); /* the blank line's own end may be the delimiter's */
        return m->cb->on_part(m->arg, &part, err);
}

/* ---- the bytes ---- */

static int give(struct multipart *m, const char *data, size_t len, struct error *err)
{
        if (!len)
                return 0;
        if (m->state == ST_PREAMBLE) {
                m->preamble_bytes += len;
                if (m->preamble_bytes > MULTIPART_PREAMBLE_MAX)
                        return error_set(err, ERR_TOO_BIG, 0,
                                         "form has no boundary in its first %d bytes",
                                         MULTIPART_PREAMBLE_MAX);
                return 0;
        }
        m->part_bytes += len;
        if (m->limits.max_part_bytes && m->part_bytes > m->limits.max_part_bytes)
                return error_set(err, ERR_TOO_BIG, 0, "form part %u has more than %llu bytes",
                                 m->n_parts, (unsigned long long) m->limits.max_part_bytes);
        return m->cb->on_data(m->arg, data, len, err);
}

static int boundary_seen(struct multipart *m, struct error *err)
{
        bool had_part = m->state == ST_DATA;

        m->matched = 0;
        m->is_assumed = false;
        m->state = ST_AFTER;
        return had_part ? m->cb->on_part_end(m->arg, err) : 0;
}

/* A match that broke off: the bytes it covered were data. */
static int unmatch(struct multipart *m, struct error *err)
{
        size_t skip = m->is_assumed ? 2 : 0, n = m->matched;

        m->matched = 0;
        m->is_assumed = false;
        return give(m, m->delim + skip, n - skip, err);
}

static int scan_data(struct multipart *m, struct slice *in, struct error *err)
{
        while (in->len) {
                const char *cr;
                size_t n;

                if (*in->at == m->delim[m->matched]) {
                        in->at++, in->len--;
                        if (++m->matched == m->delim_len)
                                return boundary_seen(m, err);
                        continue;
                }
                if (m->matched) {
                        if (unmatch(m, err) < 0)
                                return -1;
                        continue;
                }
                cr = memchr(in->at, '\r', in->len);
                n = cr ? (size_t) (cr - in->at) : in->len;
                if (give(m, in->at, n, err) < 0)
                        return -1;
                in->at += n;
                in->len -= n;
        }
        return 0;
}

static bool head_is_whole(const struct buf *head)
{
        return head->len == 2
                       ? memcmp(head->data, "\r\n", 2) == 0
                       : head->len >= 4 && memcmp(head->data + head->len - 4, "\r\n\r\n", 4) == 0;
}

static int scan_head(struct multipart *m, struct slice *in, struct error *err)
{
        while (in->len) {
                const char *lf = memchr(in->at, '\n', in->len);
                size_t n = lf ? (size_t) (lf - in->at) + 1 : in->len;

                if (buf_add(&m->head, in->at, n, err) < 0)
                        return error_wrap(err, "headers of form part %u", m->n_parts + 1);
                in->at += n;
                in->len -= n;
                if (lf && head_is_whole(&m->head))
                        return begin_part(m, err);
        }
        return 0;
}

/* What may follow a boundary, one byte at a time. */
static int scan_line_end(struct multipart *m, char c, struct error *err)
{
        static const struct {
                enum state from;
                char byte;
                enum state to;
        } steps[] = {
                { ST_AFTER, '-', ST_DASH },      { ST_AFTER, ' ', ST_PADDING },
                { ST_AFTER, '\t', ST_PADDING },  { ST_AFTER, '\r', ST_LF },
                { ST_PADDING, ' ', ST_PADDING }, { ST_PADDING, '\t', ST_PADDING },
                { ST_PADDING, '\r', ST_LF },     { ST_LF, '\n', ST_HEAD },
                { ST_DASH, '-', ST_EPILOGUE },
        };

        for (size_t i = 0; i < ARRAY_LEN(steps); i++)
                if (steps[i].from == m->state && steps[i].byte == c) {
                        m->state = steps[i].to;
                        return 0;
                }
        return error_set(err, ERR_INVALID, 0,
                         "form boundary is followed by something else than a line end");
}

static int step(struct multipart *m, struct slice *in, struct error *err)
{
        switch (m->state) {
        case ST_PREAMBLE:
        case ST_DATA: return scan_data(m, in, err);
        case ST_HEAD: return scan_head(m, in, err);
        case ST_AFTER:
        case ST_PADDING:
        case ST_LF:
        case ST_DASH: in->len--; return scan_line_end(m, *in->at++, err);
        case ST_EPILOGUE: in->len = 0; return 0;
        case ST_FAILED: break;
        }
        return -1;
}

static int fail(const struct multipart *m, struct error *err)
{
        if (err)
                *err = m->why;
        return -1;
}

int multipart_feed(struct multipart *m, const char *data, size_t len, struct error *err)
{
        struct slice in = { data, len };

        while (in.len && m->state != ST_FAILED)
                if (step(m, &in, &m->why) < 0)
                        m->state = ST_FAILED;
        return m->state == ST_FAILED ? fail(m, err) : 0;
}

int multipart_finish(struct multipart *m, struct error *err)
{
        if (m->state == ST_EPILOGUE)
                return 0;
        if (m->state == ST_FAILED)
                return fail(m, err);
        return error_set(err, ERR_INVALID, 0, "form ended before its closing boundary");
}
