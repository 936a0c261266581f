#include <endian.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "http/ws.h"

enum { BIT_FIN = 0x80, BITS_RSV = 0x70, BITS_OP = 0x0f, BIT_MASK = 0x80, BITS_LEN = 0x7f };
enum { LEN_16 = 126, LEN_64 = 127 };
/* A message buffer larger than this is given back after the message, so that an idle connection
 * stays small. */
enum { KEEP_BYTES = 4096 };

static bool op_is_control(unsigned op)
{
        return op & 0x8;
}

static bool op_is_known(unsigned op)
{
        return op <= WS_BINARY || (op >= WS_CLOSE && op <= WS_PONG);
}

/* dst = src ^ key, where the first byte meets key[pos % 4]. dst may be src. */
static void unmask(char *dst, const char *src, size_t len, const uint8_t key[static 4],
                   uint64_t pos)
{
        uint8_t turned[8];
        uint64_t k, w;
        size_t i = 0;

        for (size_t j = 0; j < 8; j++)
                turned[j] = key[(pos + j) % 4];
        memcpy(&k, turned, 8);
        for (; len - i >= 8; i += 8) {
                memcpy(&w, src + i, 8);
                w ^= k;
                memcpy(dst + i, &w, 8);
        }
        for (; i < len; i++)
                dst[i] = (char) (src[i] ^ turned[i % 8]);
}

bool ws_close_code_ok(unsigned code)
{
        if (code >= 3000 && code <= 4999)
                return true;
        return code >= 1000 && code <= 1014 && code != 1004 && code != WS_NO_STATUS &&
               code != WS_BROKEN;
}

int ws_close_code(const char *data, size_t len)
{
        if (len < 2)
                return WS_NO_STATUS;
        return (uint8_t) data[0] << 8 | (uint8_t) data[1];
}

/* Bytes that the head needs, as far as the bytes seen can tell. */
static size_t head_want(const struct ws_decoder *d)
{
        size_t want = 2;

        if (d->head_len < 2)
                return want;
        if ((d->head[1] & BITS_LEN) == LEN_16)
                want += 2;
        if ((d->head[1] & BITS_LEN) == LEN_64)
                want += 8;
        return d->head[1] & BIT_MASK ? want + 4 : want;
}

/* The first two bytes say all that can be wrong with a frame except its length. */
static int head_check(const struct ws_decoder *d)
{
        unsigned b0 = d->head[0], b1 = d->head[1], op = b0 & BITS_OP;

        if ((b0 & BITS_RSV) || !op_is_known(op))
                return WS_PROTOCOL;
        if (!!(b1 & BIT_MASK) != d->expect_mask)
                return WS_PROTOCOL;
        if (op_is_control(op))
                return (b0 & BIT_FIN) && (b1 & BITS_LEN) <= WS_CONTROL_MAX ? 0 : WS_PROTOCOL;
        /* A continuation needs a message under way; a new message needs none. */
        return (op == WS_CONT) == (d->msg_op != WS_CONT) ? 0 : WS_PROTOCOL;
}

static uint64_t read_be(const uint8_t *p, size_t n)
{
        uint64_t v = 0;

        for (size_t i = 0; i < n; i++)
                v = v << 8 | p[i];
        return v;
}

/* RFC 6455 section 5.2: the shortest form is a must, the highest bit of the long form is zero. */
static int head_length(const struct ws_decoder *d, uint64_t *ret)
{
        uint64_t len = d->head[1] & BITS_LEN;

        if (len == LEN_16) {
                len = read_be(d->head + 2, 2);
                if (len < LEN_16)
                        return WS_PROTOCOL;
        } else if (len == LEN_64) {
                len = read_be(d->head + 2, 8);
                if (len <= UINT16_MAX || len > INT64_MAX)
                        return WS_PROTOCOL;
        }
        *ret = len;
        return 0;
}

static int head_finish(struct ws_decoder *d)
{
        uint64_t len;
        int code = head_length(d, &len);

        if (code)
                return code;
        d->op = d->head[0] & BITS_OP;
        d->is_fin = d->head[0] & BIT_FIN;
        if (!op_is_control(d->op)) {
                if (len > d->max_message || d->msg.len > d->max_message - len)
                        return WS_TOO_BIG;
                if (d->op != WS_CONT)
                        d->msg_op = d->op;
        }
        if (d->expect_mask)
                memcpy(d->key, d->head + d->head_len - 4, 4);
        d->left = len;
        d->mask_pos = 0;
        d->control_len = 0;
        d->head_len = 0;
        d->in_payload = true;
        return 0;
}

/* Takes head bytes from the front of *in. */
static int head_feed(struct ws_decoder *d, struct slice *in)
{
        size_t want;

        while (d->head_len < (want = head_want(d))) {
                size_t n = MIN(want - d->head_len, in->len);

                if (!n)
                        return 0;
                memcpy(d->head + d->head_len, in->at, n);
                d->head_len = (uint8_t) (d->head_len + n);
                in->at += n;
                in->len -= n;
                if (d->head_len == 2) {
                        int code = head_check(d);

                        if (code)
                                return code;
                }
        }
        return head_finish(d);
}

static int message_finish(struct ws_decoder *d, struct slice data, const struct ws_events *ev,
                          void *arg)
{
        enum ws_op op = d->msg_op;

        d->msg_op = WS_CONT;
        if (op == WS_TEXT && utf8_check(data.at, data.len) != data.len)
                return WS_BAD_DATA;
        ev->on_message(arg, op, data.at, data.len);
        if (d->msg.cap > KEEP_BYTES)
                buf_done(&d->msg);
        else
                buf_clear(&d->msg);
        return 0;
}

static int close_check(const char *data, size_t len)
{
        if (len == 0)
                return 0;
        if (len == 1 || !ws_close_code_ok((unsigned) ws_close_code(data, len)))
                return WS_PROTOCOL;
        return utf8_check(data + 2, len - 2) == len - 2 ? 0 : WS_BAD_DATA;
}

static int control_finish(struct ws_decoder *d, const struct ws_events *ev, void *arg)
{
        int code = d->op == WS_CLOSE ? close_check(d->control, d->control_len) : 0;

        if (code)
                return code;
        if (d->op == WS_CLOSE)
                d->is_dead = true; /* nothing that follows a close frame has a meaning */
        ev->on_control(arg, d->op, d->control, d->control_len);
        return 0;
}

static int frame_finish(struct ws_decoder *d, const struct ws_events *ev, void *arg)
{
        d->in_payload = false;
        if (op_is_control(d->op))
                return control_finish(d, ev, arg);
        if (!d->is_fin)
                return 0;
        return message_finish(d, (struct slice) { d->msg.len ? d->msg.data : "", d->msg.len }, ev,
                              arg);
}

/* Takes payload bytes from the front of *in. Memory follows the bytes that came, never the length
 * that the head claims. */
static int payload_feed(struct ws_decoder *d, struct slice *in, const struct ws_events *ev,
                        void *arg)
{
        struct slice part = { in->at, (size_t) MIN(d->left, in->len) };
        bool is_whole = part.len == d->left && d->mask_pos == 0;
        char *to;

        in->at += part.len;
        in->len -= part.len;
        /* An unmasked message in one frame in one read goes out without a copy. */
        if (is_whole && d->is_fin && !d->expect_mask && !d->msg.len && !op_is_control(d->op)) {
                d->in_payload = false;
                return message_finish(d, part, ev, arg);
        }
        to = op_is_control(d->op) ? d->control + d->control_len : buf_room(&d->msg, part.len);
        if (d->expect_mask)
                unmask(to, part.at, part.len, d->key, d->mask_pos);
        else if (part.len)
                memcpy(to, part.at, part.len);
        if (op_is_control(d->op))
                d->control_len = (uint8_t) (d->control_len + part.len);
        else
                buf_grew(&d->msg, part.len);
        d->mask_pos += part.len;
        d->left -= part.len;
        return d->left ? 0 : frame_finish(d, ev, arg);
}

int ws_decode(struct ws_decoder *d, const char *data, size_t len, const struct ws_events *ev,
              void *arg)
{
        struct slice in = { data, len };
        int code = 0;

        while (!d->is_dead && !code && (in.len || (d->in_payload && !d->left)))
                code = d->in_payload ? payload_feed(d, &in, ev, arg) : head_feed(d, &in);
        if (!code)
                return 0;
        d->is_dead = true;
        return code;
}

void ws_decoder_done(struct ws_decoder *d)
{
        buf_done(&d->msg);
        d->is_dead = true;
}

size_t ws_encode_head(uint8_t ret[static WS_HEAD_MAX], enum ws_op op, size_t len, bool is_masked)
{
        uint8_t mask = is_masked ? BIT_MASK : 0;
        uint16_t be16 = htobe16((uint16_t) len);
        uint64_t be64 = htobe64(len);

        ret[0] = (uint8_t) (BIT_FIN | op);
        if (len < LEN_16) {
                ret[1] = (uint8_t) (mask | len);
                return 2;
        }
        if (len <= UINT16_MAX) {
                ret[1] = mask | LEN_16;
                memcpy(ret + 2, &be16, 2);
                return 4;
        }
        ret[1] = mask | LEN_64;
        memcpy(ret + 2, &be64, 8);
        return 10;
}

void ws_encode(struct buf *out, enum ws_op op, const void *data, size_t len, const uint8_t *mask)
{
        uint8_t head[WS_HEAD_MAX];

        buf_put(out, head, ws_encode_head(head, op, len, mask));
        if (!mask) {
                buf_put(out, data, len);
                return;
        }
        buf_put(out, mask, 4);
        unmask(buf_room(out, len), data, len, mask, 0);
        buf_grew(out, len);
}

void ws_accept_key(const char *key, char ret[static 29])
{
        static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        _cleanup_free_ char *text = xasprintf("%s%s", key, guid);
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned n = 0;

        /* SHA-1 is what the protocol asks for; nothing secret depends on it. */
        if (EVP_Digest(text, strlen(text), digest, &n, EVP_sha1(), NULL) != 1)
                abort();
        (void) EVP_EncodeBlock((unsigned char *) ret, digest, (int) n);
}
