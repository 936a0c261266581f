#include "http/ws.h"

#include "base/alloc.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/stream.h"
#include "test.h"

static const uint8_t key[4] = { 0x37, 0xfa, 0x21, 0x3d };

/* ---- codec ---- */

/* What the decoder said, as text: "text:hello ping:x close:1000 ". */
struct heard {
        struct buf text;
        size_t n_messages, n_bytes;
        bool keeps_text;
};

static void put_bytes(struct heard *h, const char *what, const char *data, size_t len)
{
        if (!h->keeps_text)
                return;
        buf_printf(&h->text, "%s:", what);
        buf_put(&h->text, data, len);
        buf_putc(&h->text, ' ');
}

static void on_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct heard *h = arg;

        h->n_messages++;
        h->n_bytes += len;
        put_bytes(h, op == WS_TEXT ? "text" : "binary", data, len);
}

static void on_control(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct heard *h = arg;

        if (op == WS_CLOSE)
                buf_printf(&h->text, "close:%d ", ws_close_code(data, len));
        else
                put_bytes(h, op == WS_PING ? "ping" : "pong", data, len);
}

static const struct ws_events events = { on_message, on_control };

/* A frame with any first byte, masked unless told otherwise. */
static void put_raw(struct buf *out, unsigned first, const void *data, size_t len, bool is_masked)
{
        size_t at = out->len;

        ws_encode(out, WS_TEXT, data, len, is_masked ? key : NULL);
        out->data[at] = (char) first;
}

static int decode_split(const struct buf *in, size_t step, size_t max, struct heard *h)
{
        struct ws_decoder d = { .expect_mask = true, .max_message = max };
        int code = 0;

        for (size_t at = 0; at < in->len && !code; at += step)
                code = ws_decode(&d, in->data + at, MIN(step, in->len - at), &events, h);
        ws_decoder_done(&d);
        return code;
}

struct frame {
        unsigned first;
        const char *data;
        size_t len;
        bool is_naked;
};
#define F(first, text)                                                                             \
        {                                                                                          \
                first, text, sizeof(text) - 1, false                                               \
        }

static const struct {
        const char *name;
        struct frame frames[6]; /* data NULL ends */
        int code;
        const char *heard;
} rows[] = {
        { "text", { F(0x81, "hello") }, 0, "text:hello " },
        { "empty text", { F(0x81, "") }, 0, "text: " },
        { "binary", { F(0x82, "\xff\xfe") }, 0, "binary:\xff\xfe " },
        { "fragments with a ping in between",
          { F(0x01, "hel"), F(0x89, "x"), F(0x00, "l"), F(0x80, "o"), F(0x81, "next") },
          0,
          "ping:x text:hello text:next " },
        { "empty fragments", { F(0x01, ""), F(0x00, ""), F(0x80, "") }, 0, "text: " },
        { "a character across fragments",
          { F(0x01, "\xc3"), F(0x80, "\xa9") },
          0,
          "text:\xc3\xa9 " },
        { "pong", { F(0x8a, "") }, 0, "pong: " },
        { "close without code", { F(0x88, ""), F(0x81, "late") }, 0, "close:1005 " },
        { "close with code and reason",
          { F(0x88, "\x03\xe8"
                    "bye") },
          0,
          "close:1000 " },
        { "close 4999", { F(0x88, "\x13\x87") }, 0, "close:4999 " },
        { "unmasked", { { 0x81, "hello", 5, true } }, WS_PROTOCOL, "" },
        { "rsv1", { F(0xc1, "a") }, WS_PROTOCOL, "" },
        { "rsv2", { F(0xa1, "a") }, WS_PROTOCOL, "" },
        { "rsv3", { F(0x91, "a") }, WS_PROTOCOL, "" },
        { "opcode 3", { F(0x83, "a") }, WS_PROTOCOL, "" },
        { "opcode 7", { F(0x87, "a") }, WS_PROTOCOL, "" },
        { "opcode 11", { F(0x8b, "a") }, WS_PROTOCOL, "" },
        { "opcode 15", { F(0x8f, "a") }, WS_PROTOCOL, "" },
        { "continuation of nothing", { F(0x80, "a") }, WS_PROTOCOL, "" },
        { "new message inside another", { F(0x01, "a"), F(0x81, "b") }, WS_PROTOCOL, "" },
        { "fragmented ping", { F(0x09, "a") }, WS_PROTOCOL, "" },
        { "fragmented close", { F(0x08, "") }, WS_PROTOCOL, "" },
        { "bad utf-8", { F(0x81, "a\xff") }, WS_BAD_DATA, "" },
        { "utf-8 cut off", { F(0x81, "a\xc3") }, WS_BAD_DATA, "" },
        { "surrogate", { F(0x81, "\xed\xa0\x80") }, WS_BAD_DATA, "" },
        { "bad utf-8 in a fragment", { F(0x01, "a"), F(0x80, "\xfe") }, WS_BAD_DATA, "" },
        { "bad utf-8 in a close reason", { F(0x88, "\x03\xe8\xff") }, WS_BAD_DATA, "" },
        { "close of one byte", { F(0x88, "\x03") }, WS_PROTOCOL, "" },
        { "close 999", { F(0x88, "\x03\xe7") }, WS_PROTOCOL, "" },
        { "close 1004", { F(0x88, "\x03\xec") }, WS_PROTOCOL, "" },
        { "close 1005", { F(0x88, "\x03\xed") }, WS_PROTOCOL, "" },
        { "close 1006", { F(0x88, "\x03\xee") }, WS_PROTOCOL, "" },
        { "close 1015", { F(0x88, "\x03\xf7") }, WS_PROTOCOL, "" },
        { "close 2999", { F(0x88, "\x0b\xb7") }, WS_PROTOCOL, "" },
        { "close 5000", { F(0x88, "\x13\x88") }, WS_PROTOCOL, "" },
};

static void run_row(size_t i, size_t step)
{
        _cleanup_(buf_done) struct buf in = { 0 };
        struct heard h = { .keeps_text = true };

        buf_puts(&h.text, "");
        for (const struct frame *f = rows[i].frames; f->data; f++)
                put_raw(&in, f->first, f->data, f->len, !f->is_naked);
        EXPECT_INT(decode_split(&in, step, 64, &h), rows[i].code);
        EXPECT_STR(h.text.data, rows[i].heard);
        buf_done(&h.text);
}

TEST(ws_decoder_gives_the_same_verdict_for_every_split)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (size_t step = 1; step <= 40; step++)
                        run_row(i, step);
}

static int decode_one(unsigned first, size_t len, size_t max, size_t *ret_messages)
{
        _cleanup_(buf_done) struct buf in = { 0 };
        _cleanup_free_ char *data = xcalloc(1, len + 1);
        struct heard h = { 0 };
        int code;

        memset(data, 'a', len);
        put_raw(&in, first, data, len, true);
        code = decode_split(&in, 1000, max, &h);
        *ret_messages = h.n_messages;
        return code;
}

TEST(ws_decoder_limits_message_size)
{
        size_t n;

        EXPECT_INT(decode_one(0x81, 69999, 70000, &n), 0);
        EXPECT_INT(decode_one(0x81, 70000, 70000, &n), 0);
        EXPECT_INT(n, 1);
        EXPECT_INT(decode_one(0x81, 70001, 70000, &n), WS_TOO_BIG);
        EXPECT_INT(n, 0);
}

TEST(ws_decoder_limits_the_sum_of_fragments)
{
        _cleanup_(buf_done) struct buf in = { 0 };
        struct heard h = { 0 };

        put_raw(&in, 0x01, "12345", 5, true);
        put_raw(&in, 0x00, "12345", 5, true);
        put_raw(&in, 0x80, "", 0, true);
        EXPECT_INT(decode_split(&in, 7, 10, &h), 0);
        EXPECT_INT(h.n_bytes, 10);
        EXPECT_INT(decode_split(&in, 7, 9, &h), WS_TOO_BIG);
}

TEST(ws_decoder_limits_control_frames_to_125_bytes)
{
        size_t n;

        EXPECT_INT(decode_one(0x89, 125, 1000, &n), 0);
        EXPECT_INT(decode_one(0x89, 126, 1000, &n), WS_PROTOCOL);
        EXPECT_INT(decode_one(0x8a, 200, 1000, &n), WS_PROTOCOL);
}

TEST(ws_decoder_does_not_believe_a_claimed_length)
{
        static const uint8_t huge[] = { 0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff,
                                        0xff, 0xff, 0xff, 1,    2,    3,    4 };
        static const uint8_t negative[] = { 0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4 };
        static const uint8_t padded[] = { 0x82, 0xfe, 0, 125, 1, 2, 3, 4 };
        static const uint8_t padded64[] = { 0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4 };
        struct heard h = { 0 };

        EXPECT_INT(
                decode_split(&(struct buf) { (char *) huge, sizeof(huge) }, 99, SIZE_MAX / 4, &h),
                WS_TOO_BIG);
        EXPECT_INT(decode_split(&(struct buf) { (char *) negative, sizeof(negative) }, 99,
                                SIZE_MAX / 4, &h),
                   WS_PROTOCOL);
        EXPECT_INT(decode_split(&(struct buf) { (char *) padded, sizeof(padded) }, 99, 1000, &h),
                   WS_PROTOCOL);
        EXPECT_INT(decode_split(&(struct buf) { (char *) padded64, sizeof(padded64) }, 99, 1000000,
                                &h),
                   WS_PROTOCOL);
}

TEST(ws_decoder_takes_100000_frames_in_one_read)
{
        _cleanup_(buf_done) struct buf in = { 0 };
        struct heard h = { 0 };

        for (int i = 0; i < 100000; i++)
                ws_encode(&in, WS_BINARY, "x", 1, key);
        EXPECT_INT(decode_split(&in, in.len, 64, &h), 0);
        EXPECT_INT(h.n_messages, 100000);
        EXPECT_INT(h.n_bytes, 100000);
}

TEST(ws_decoder_unmasks_at_every_offset_and_length)
{
        char data[64];

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (char) ('0' + i % 70);
        for (size_t len = 0; len <= sizeof(data); len++)
                for (size_t step = 1; step <= 17; step++) {
                        _cleanup_(buf_done) struct buf in = { 0 };
                        struct heard h = { .keeps_text = true };

                        ws_encode(&in, WS_BINARY, data, len, key);
                        EXPECT_INT(decode_split(&in, step, 64, &h), 0);
                        EXPECT_INT(h.text.len, len + strlen("binary: "));
                        EXPECT_MEM(h.text.data + strlen("binary:"), data, len);
                        buf_done(&h.text);
                }
}

static const char *borrowed;

static void note_pointer(void *arg, enum ws_op op, const char *data, size_t len)
{
        borrowed = data;
}

TEST(ws_decoder_hands_unmasked_messages_on_without_a_copy)
{
        static const struct ws_events pointer_events = { note_pointer, on_control };
        struct ws_decoder d = { .max_message = 64 };
        _cleanup_(buf_done) struct buf in = { 0 };

        ws_encode(&in, WS_TEXT, "hello", 5, NULL);
        EXPECT_INT(ws_decode(&d, in.data, in.len, &pointer_events, NULL), 0);
        EXPECT(borrowed == in.data + 2);
        EXPECT_INT(d.msg.cap, 0);
        ws_decoder_done(&d);
}

TEST(ws_decoder_gives_back_the_memory_of_a_large_message)
{
        struct ws_decoder d = { .expect_mask = true, .max_message = 1000000 };
        _cleanup_(buf_done) struct buf in = { 0 };
        _cleanup_free_ char *data = xcalloc(1, 500000);
        struct heard h = { 0 };

        ws_encode(&in, WS_BINARY, data, 500000, key);
        EXPECT_INT(ws_decode(&d, in.data, in.len, &events, &h), 0);
        EXPECT_INT(h.n_bytes, 500000);
        EXPECT_INT(d.msg.cap, 0);
        ws_decoder_done(&d);
}

TEST(ws_encoder_picks_the_shortest_length_form)
{
        static const struct {
                size_t len, head;
        } heads[] = {
                { 0, 2 }, { 125, 2 }, { 126, 4 }, { 65535, 4 }, { 65536, 10 }, { 1 << 20, 10 }
        };
        uint8_t head[WS_HEAD_MAX];

        for (size_t i = 0; i < ARRAY_LEN(heads); i++)
                EXPECT_INT(ws_encode_head(head, WS_BINARY, heads[i].len, false), heads[i].head);
        EXPECT_INT(ws_encode_head(head, WS_TEXT, 256, true), 4);
        EXPECT_MEM(head, "\x81\xfe\x01\x00", 4);
}

TEST(ws_accept_key_matches_the_rfc_example)
{
        char accept[29];

        ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
        EXPECT_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* ---- connection, over an in-memory pair ---- */

struct peer {
        struct loop *loop;
        struct stream *ends[2]; /* 0 is given to the ws */
        struct ws *ws;
        struct buf seen;  /* bytes from the server */
        struct buf heard; /* messages at the server */
        int end_code, n_ends;
        bool is_over, saw_eof, frees_on_message, wants_room, has_room;
};

static void peer_data(void *arg, const char *data, size_t len)
{
        buf_put(&((struct peer *) arg)->seen, data, len);
}

static void peer_end(void *arg, const struct error *why)
{
        ((struct peer *) arg)->saw_eof = true;
}

static const struct stream_sink peer_sink = { .on_data = peer_data, .on_end = peer_end };

static void ws_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct peer *p = arg;

        buf_put(&p->heard, data, len);
        buf_putc(&p->heard, ';');
        if (p->frees_on_message) {
                p->ws = ws_free(p->ws);
                p->is_over = true;
        }
}

static void ws_room(void *arg)
{
        ((struct peer *) arg)->has_room = true;
}

static void ws_end(void *arg, int code)
{
        struct peer *p = arg;

        p->end_code = code;
        p->n_ends++;
        p->is_over = true;
}

static const struct ws_cb ws_events = { ws_message, ws_room, ws_end };
static const struct ws_times quick = { .ping_ms = 1, .pong_ms = 1, .close_ms = 1 };
static const struct ws_times slow = { .ping_ms = 60000, .pong_ms = 60000, .close_ms = 60000 };

static void peer_open(struct peer *p, const struct ws_times *times, struct slice early)
{
        *p = (struct peer) { .loop = loop_new() };
        stream_pair(p->loop, p->ends);
        stream_set_sink(p->ends[1], &peer_sink, p);
        p->ws = ws_attach(p->ends[0], early, &ws_events, p, 1000, times);
        buf_puts(&p->heard, "");
}

static void peer_close(struct peer *p)
{
        ws_free(p->ws);
        stream_free(p->ends[1]);
        loop_free(p->loop);
        buf_done(&p->seen);
        buf_done(&p->heard);
}

static void peer_send(struct peer *p, unsigned first, const void *data, size_t len)
{
        _cleanup_(buf_done) struct buf out = { 0 };

        put_raw(&out, first, data, len, true);
        EXPECT(stream_write_bytes(p->ends[1], out.data, out.len, NULL) >= 0);
}

/* Runs the loop until the server side said `len` bytes. */
static void peer_wait(struct peer *p, size_t len)
{
        bool never = false;

        for (int i = 0; i < 1000 && p->seen.len < len; i++)
                (void) loop_run_until(p->loop, &never, 0);
        EXPECT_INT(p->seen.len, len);
}

/* What was sent still arrives; then the peer is gone. */
static void peer_leave(struct peer *p)
{
        bool never = false;

        stream_finish(p->ends[1]);
        for (int i = 0; i < 10; i++)
                (void) loop_run_until(p->loop, &never, 0);
        p->ends[1] = stream_free(p->ends[1]);
}

static void peer_wait_end(struct peer *p)
{
        EXPECT(loop_run_until(p->loop, &p->is_over, 10000));
}

TEST(ws_connection_answers_pings_and_delivers_messages)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        peer_send(&p, 0x01, "he", 2);
        peer_send(&p, 0x89, "abc", 3);
        peer_send(&p, 0x80, "llo", 3);
        peer_wait(&p, 5);
        EXPECT_MEM(p.seen.data,
                   "\x8a\x03"
                   "abc",
                   5);
        EXPECT_STR(p.heard.data, "hello;");
        EXPECT_INT(ws_send(p.ws, WS_TEXT, "hi", 2), 1);
        peer_wait(&p, 9);
        EXPECT_MEM(p.seen.data + 5, "\x81\x02hi", 4);
        peer_close(&p);
}

TEST(ws_connection_reads_early_bytes_first_and_not_before_it_returns)
{
        _cleanup_(buf_done) struct buf early = { 0 };
        struct peer p;

        ws_encode(&early, WS_TEXT, "first", 5, key);
        peer_open(&p, &slow, (struct slice) { early.data, early.len });
        EXPECT_STR(p.heard.data, "");
        peer_send(&p, 0x81, "second", 6);
        peer_send(&p, 0x89, "", 0);
        peer_wait(&p, 2);
        EXPECT_STR(p.heard.data, "first;second;");
        peer_close(&p);
}

TEST(ws_connection_echoes_the_close_code)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        peer_send(&p, 0x88,
                  "\x0f\xa0"
                  "done",
                  6);
        peer_wait(&p, 4);
        EXPECT_MEM(p.seen.data, "\x88\x02\x0f\xa0", 4);
        EXPECT_INT(ws_send(p.ws, WS_TEXT, "x", 1), -1);
        peer_leave(&p);
        peer_wait_end(&p);
        EXPECT_INT(p.end_code, 4000);
        EXPECT_INT(p.n_ends, 1);
        peer_close(&p);
}

TEST(ws_connection_closes_with_1002_on_a_violation)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        peer_send(&p, 0xc1, "x", 1);
        peer_send(&p, 0x81, "never heard", 11);
        peer_wait(&p, 4);
        EXPECT_MEM(p.seen.data, "\x88\x02\x03\xea", 4);
        EXPECT_STR(p.heard.data, "");
        peer_leave(&p);
        peer_wait_end(&p);
        EXPECT_INT(p.end_code, WS_PROTOCOL);
        peer_close(&p);
}

TEST(ws_connection_close_handshake_from_our_side)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        ws_close(p.ws, WS_GOING_AWAY, "bye");
        ws_close(p.ws, WS_NORMAL, "twice is once");
        peer_send(&p, 0x81, "dropped", 7);
        peer_wait(&p, 7);
        EXPECT_MEM(p.seen.data,
                   "\x88\x05\x03\xe9"
                   "bye",
                   7);
        peer_send(&p, 0x88, "\x03\xe9", 2);
        peer_wait(&p, 7);
        EXPECT_STR(p.heard.data, "");
        peer_leave(&p);
        peer_wait_end(&p);
        EXPECT_INT(p.end_code, WS_GOING_AWAY);
        EXPECT_INT(p.n_ends, 1);
        peer_close(&p);
}

TEST(ws_connection_close_without_status_is_an_empty_frame)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        ws_close(p.ws, WS_NO_STATUS, "not sent");
        peer_wait(&p, 2);
        EXPECT_MEM(p.seen.data, "\x88\x00", 2);
        peer_close(&p);
}

TEST(ws_connection_cuts_a_long_reason_between_characters)
{
        char reason[201] = "";
        struct peer p;

        for (size_t i = 0; i < 200; i += 2)
                memcpy(reason + i, "\xc3\xa9", 3);
        peer_open(&p, &slow, (struct slice) { 0 });
        ws_close(p.ws, WS_NORMAL, reason);
        peer_wait(&p, 2 + 2 + 122);
        EXPECT_INT((uint8_t) p.seen.data[1], 124);
        peer_close(&p);
}

TEST(ws_connection_gives_up_a_close_that_nobody_answers)
{
        struct peer p;

        peer_open(&p, &quick, (struct slice) { 0 });
        ws_close(p.ws, WS_NORMAL, NULL);
        peer_wait_end(&p);
        EXPECT_INT(p.end_code, WS_BROKEN);
        peer_close(&p);
}

TEST(ws_connection_ends_when_a_ping_stays_unanswered)
{
        struct peer p;

        peer_open(&p, &quick, (struct slice) { 0 });
        peer_wait_end(&p);
        EXPECT_INT(p.end_code, WS_BROKEN);
        EXPECT(p.seen.len >= 2);
        EXPECT_MEM(p.seen.data, "\x89\x00", 2);
        peer_close(&p);
}

TEST(ws_connection_reports_1006_when_the_peer_vanishes)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        peer_leave(&p);
        peer_wait_end(&p);
        EXPECT_INT(p.end_code, WS_BROKEN);
        EXPECT_INT(p.n_ends, 1);
        peer_close(&p);
}

TEST(ws_connection_may_be_freed_inside_a_message)
{
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        p.frees_on_message = true;
        for (int i = 0; i < 3; i++)
                peer_send(&p, 0x81, "one", 3);
        peer_wait_end(&p);
        EXPECT_STR(p.heard.data, "one;");
        EXPECT_INT(p.n_ends, 0);
        peer_close(&p);
}

TEST(ws_connection_says_full_and_then_room)
{
        char block[4096] = { 0 };
        struct peer p;
        int r = 1, n = 0;

        peer_open(&p, &slow, (struct slice) { 0 });
        stream_pause(p.ends[1], true);
        for (; r == 1 && n < 1000; n++)
                r = ws_send(p.ws, WS_BINARY, block, sizeof(block));
        EXPECT_INT(r, 0);
        EXPECT(!p.has_room);
        stream_pause(p.ends[1], false);
        EXPECT(loop_run_until(p.loop, &p.has_room, 10000));
        EXPECT_INT(p.seen.len, (size_t) n * (sizeof(block) + 4));
        peer_close(&p);
}

TEST(ws_connection_stops_reading_from_a_ping_flood)
{
        char payload[125] = { 0 };
        bool never = false;
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        stream_pause(p.ends[1], true); /* it sends, but never reads */
        for (int i = 0; i < 20000; i++)
                peer_send(&p, 0x89, payload, sizeof(payload));
        for (int i = 0; i < 10; i++)
                (void) loop_run_until(p.loop, &never, 0);
        EXPECT(p.ends[0]->queued_bytes < STREAM_HIGH_BYTES + STREAM_READ_BYTES);
        EXPECT(p.ends[1]->queued_bytes > 0);
        peer_close(&p);
}

TEST(ws_send_chunk_shares_the_bytes)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy("shared", 6);
        struct peer p;

        peer_open(&p, &slow, (struct slice) { 0 });
        EXPECT_INT(ws_send_chunk(p.ws, WS_BINARY, c), 1);
        EXPECT(c->refs > 1);
        peer_wait(&p, 8);
        EXPECT_MEM(p.seen.data, "\x82\x06shared", 8);
        peer_close(&p);
}

/* ---- through the server: a raw client that shakes hands by itself ---- */

struct site {
        struct loop *loop;
        struct router *router;
        struct http_server *server;
        struct ws *ws;
        struct stream *client;
        struct buf seen;
        size_t want; /* bytes that complete the wait */
        int end_code;
        bool has_want, is_over, is_drained, has_client;
};

static void echo_message(void *arg, enum ws_op op, const char *data, size_t len)
{
        struct site *s = arg;

        EXPECT(ws_send(s->ws, op, data, len) >= 0);
}

static void echo_end(void *arg, int code)
{
        struct site *s = arg;

        s->end_code = code;
        s->is_over = true;
        s->ws = ws_free(s->ws);
}

static const struct ws_cb echo_events = { echo_message, NULL, echo_end };

static int open_echo(struct req *r, struct error *err)
{
        struct site *s = req_app(r);

        return ws_accept(r, &echo_events, s, 1000, &s->ws, err);
}

static const struct route site_rows[] = {
        { "GET", "/ws", open_echo, R_WS | R_OPEN, .doc = "Echo." }, { 0 }
};

static void client_data(void *arg, const char *data, size_t len)
{
        struct site *s = arg;

        buf_put(&s->seen, data, len);
        s->has_want = s->seen.len >= s->want;
}

static const struct stream_sink client_sink = { .on_data = client_data };

static void client_connected(void *arg, int fd, const struct error *why)
{
        struct site *s = arg;
        struct error err = { 0 };

        EXPECT(fd >= 0);
        EXPECT_OK(stream_open_fd(s->loop, fd, &client_sink, s, &s->client, &err), err);
        s->has_client = true;
}

static void site_open(struct site *s)
{
        const struct route *const tables[] = { site_rows, NULL };
        struct listen_spec where = { .host = "127.0.0.1", .fd = -1, .backlog = 8 };
        struct error err = { 0 };

        *s = (struct site) { .loop = loop_new(), .router = router_new(tables) };
        s->server = http_server_new(
                s->loop, &(struct http_server_spec) {
                                 .router = s->router, .limits = http_limits_default, .app = s });
        EXPECT_OK(http_server_listen(s->server, &where, &err), err);
        (void) dial_tcp(s->loop, "127.0.0.1", http_server_port(s->server), 5000, client_connected,
                        s);
        EXPECT(loop_run_until(s->loop, &s->has_client, 10000));
}

static void site_close(struct site *s)
{
        ws_free(s->ws);
        stream_free(s->client);
        http_server_free(s->server);
        loop_free(s->loop);
        router_free(s->router);
        buf_done(&s->seen);
}

static void site_wait(struct site *s, size_t want)
{
        s->want = want;
        s->has_want = s->seen.len >= want;
        EXPECT(loop_run_until(s->loop, &s->has_want, 10000));
}

/* Sends the handshake with a first message right behind it; leaves only the frames in `seen`. */
static void site_shake(struct site *s)
{
        static const char head[] = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                                   "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        _cleanup_(buf_done) struct buf out = { 0 };
        const char *end;

        buf_puts(&out, head);
        ws_encode(&out, WS_TEXT, "early", 5, key);
        EXPECT(stream_write_bytes(s->client, out.data, out.len, NULL) >= 0);
        site_wait(s, 1);
        while (!(end = strstr(s->seen.data, "\r\n\r\n")))
                site_wait(s, s->seen.len + 1);
        EXPECT(str_starts(s->seen.data, "HTTP/1.1 101 "));
        EXPECT(strstr(s->seen.data, "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        buf_drop(&s->seen, (size_t) (end + 4 - s->seen.data));
        site_wait(s, 7);
        EXPECT_MEM(s->seen.data,
                   "\x81\x05"
                   "early",
                   7);
        buf_clear(&s->seen);
}

TEST(ws_server_shakes_hands_and_echoes)
{
        _cleanup_(buf_done) struct buf out = { 0 };
        struct site s;

        site_open(&s);
        site_shake(&s);
        ws_encode(&out, WS_BINARY, "abc", 3, key);
        ws_encode(&out, WS_CLOSE, "\x03\xe8", 2, key);
        EXPECT(stream_write_bytes(s.client, out.data, out.len, NULL) >= 0);
        site_wait(&s, 9);
        EXPECT_MEM(s.seen.data,
                   "\x82\x03"
                   "abc"
                   "\x88\x02\x03\xe8",
                   9);
        s.client = stream_free(s.client);
        EXPECT(loop_run_until(s.loop, &s.is_over, 10000));
        EXPECT_INT(s.end_code, WS_NORMAL);
        site_close(&s);
}

static void site_drained(void *arg)
{
        ((struct site *) arg)->is_drained = true;
}

TEST(ws_server_says_1001_when_it_drains)
{
        _cleanup_(buf_done) struct buf out = { 0 };
        struct site s;

        site_open(&s);
        site_shake(&s);
        http_server_drain(s.server, site_drained, &s);
        site_wait(&s, 4);
        EXPECT_INT((uint8_t) s.seen.data[0], 0x88);
        EXPECT_MEM(s.seen.data + 2, "\x03\xe9", 2);
        EXPECT(!s.is_drained);
        ws_encode(&out, WS_CLOSE, "\x03\xe9", 2, key);
        EXPECT(stream_write_bytes(s.client, out.data, out.len, NULL) >= 0);
        stream_finish(s.client);
        EXPECT(loop_run_until(s.loop, &s.is_over, 10000));
        EXPECT_INT(s.end_code, WS_GOING_AWAY);
        EXPECT(loop_run_until(s.loop, &s.is_drained, 10000));
        site_close(&s);
}
