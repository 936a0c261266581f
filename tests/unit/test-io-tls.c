/* TLS on both sides, over a pair in memory and over sockets, with a certificate made here. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/tls.h"
#include "test.h"

enum { PATIENCE_MS = 10000, BLOCK = 60000 };

/* ---- a certificate for "localhost" ---- */

struct identity {
        char cert[64], key[64];
};

static void write_identity(struct identity *id, X509 *x, EVP_PKEY *key)
{
        FILE *f;

        (void) snprintf(id->cert, sizeof(id->cert), "/tmp/sa-unit-cert-XXXXXX");
        (void) snprintf(id->key, sizeof(id->key), "/tmp/sa-unit-key-XXXXXX");
        f = fdopen(mkstemp(id->cert), "w");
        EXPECT(f && PEM_write_X509(f, x) == 1);
        (void) fclose(f);
        f = fdopen(mkstemp(id->key), "w");
        EXPECT(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
        (void) fclose(f);
}

static void make_identity(struct identity *id)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *x = X509_new();
        X509_NAME *name = X509_get_subject_name(x);
        X509_EXTENSION *alt =
                X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");

        (void) X509_set_version(x, X509_VERSION_3);
        (void) ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
        (void) X509_gmtime_adj(X509_getm_notBefore(x), -60);
        (void) X509_gmtime_adj(X509_getm_notAfter(x), 3600);
        (void) X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                          (const unsigned char *) "localhost", -1, -1, 0);
        (void) X509_set_issuer_name(x, name);
        (void) X509_set_pubkey(x, key);
        EXPECT(alt && X509_add_ext(x, alt, -1) == 1);
        EXPECT(X509_sign(x, key, EVP_sha256()) > 0);
        write_identity(id, x, key);
        X509_EXTENSION_free(alt);
        X509_free(x);
        EVP_PKEY_free(key);
}

/* ---- two ends ---- */

struct end {
        struct stream *s;
        struct buf got;
        unsigned eofs, rooms, ends, depth, deepest;
        struct error why;
        bool is_over, has_got, has_room, has_eof;
        bool pokes;  /* unpauses inside on_data */
        bool pauses; /* pauses inside on_data */
        bool frees;
};

static void on_data(void *arg, const char *data, size_t len)
{
        struct end *e = arg;

        e->depth++;
        e->deepest = MAX(e->deepest, e->depth);
        buf_put(&e->got, data, len);
        e->has_got = true;
        if (e->pokes)
                stream_pause(e->s, false);
        if (e->pauses)
                stream_pause(e->s, true);
        if (e->frees)
                e->s = stream_free(e->s);
        e->depth--;
}

static void on_eof(void *arg)
{
        struct end *e = arg;

        e->eofs++;
        e->has_eof = true;
}

static void on_room(void *arg)
{
        struct end *e = arg;

        e->rooms++;
        e->has_room = true;
}

static void on_end(void *arg, const struct error *why)
{
        struct end *e = arg;

        e->ends++;
        e->is_over = true;
        if (why)
                e->why = *why;
}

static const struct stream_sink sink = { on_data, on_eof, on_room, on_end };

struct bed {
        struct loop *loop;
        struct identity id;
        struct tls *server_tls, *client_tls;
        struct end server, client;
};

static void wrap(struct bed *b, struct stream *inner[2], const char *host)
{
        struct error err = { 0 };

        EXPECT_OK(tls_wrap(b->server_tls, inner[0], NULL, &sink, &b->server, &b->server.s, &err),
                  err);
        EXPECT_OK(tls_wrap(b->client_tls, inner[1], host, &sink, &b->client, &b->client.s, &err),
                  err);
}

static void bed_make(struct bed *b)
{
        struct error err = { 0 };

        *b = (struct bed) { .loop = loop_new() };
        make_identity(&b->id);
        EXPECT_OK(tls_server_new(b->id.cert, b->id.key, &b->server_tls, &err), err);
        EXPECT_OK(tls_client_new(b->id.cert, &b->client_tls, &err), err);
}

static void bed_open(struct bed *b, const char *host)
{
        struct stream *inner[2];

        bed_make(b);
        stream_pair(b->loop, inner);
        wrap(b, inner, host);
}

static void bed_open_sockets(struct bed *b)
{
        struct stream *inner[2];
        struct error err = { 0 };
        int fd[2];

        bed_make(b);
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        for (int i = 0; i < 2; i++)
                EXPECT_OK(stream_open_fd(b->loop, fd[i], NULL, NULL, &inner[i], &err), err);
        wrap(b, inner, "localhost");
}

static void bed_close(struct bed *b)
{
        stream_free(b->server.s);
        stream_free(b->client.s);
        buf_done(&b->server.got);
        buf_done(&b->client.got);
        loop_free(b->loop);
        tls_ctx_free(b->server_tls);
        tls_ctx_free(b->client_tls);
        (void) unlink(b->id.cert);
        (void) unlink(b->id.key);
}

static void turns(struct bed *b, int n)
{
        static const bool never;

        while (n--)
                (void) loop_run_until(b->loop, &never, 0);
}

static void wait_bytes(struct bed *b, const struct end *e, size_t n)
{
        for (int i = 0; i < 100000 && e->got.len < n; i++)
                turns(b, 1);
        EXPECT(e->got.len >= n);
}

/* Each block has its own letter, so that a wrong order shows. */
static int write_block(struct stream *s, int i)
{
        char block[BLOCK];

        memset(block, 'a' + i % 26, sizeof(block));
        return stream_write_bytes(s, block, sizeof(block), NULL);
}

static void expect_blocks(const struct buf *got, int n)
{
        EXPECT_INT(got->len, (size_t) n * BLOCK);
        for (size_t i = 0; i < got->len; i++)
                if (got->data[i] != (char) ('a' + (int) (i / BLOCK) % 26))
                        test_fail(TEST_AT, "byte %zu is out of order", i);
}

TEST(tls_carries_both_ways_what_was_written_before_the_handshake_too)
{
        struct bed b;

        bed_open(&b, "localhost");
        EXPECT_INT(stream_write_bytes(b.client.s, "hello ", 6, NULL), 1);
        EXPECT_INT(stream_write_bytes(b.client.s, "server", 6, NULL), 1);
        EXPECT_INT(stream_write_bytes(b.server.s, "hello client", 12, NULL), 1);
        wait_bytes(&b, &b.server, 12);
        wait_bytes(&b, &b.client, 12);
        EXPECT_STR(b.server.got.data, "hello server");
        EXPECT_STR(b.client.got.data, "hello client");
        bed_close(&b);
}

TEST(tls_finish_sends_the_rest_and_is_an_eof_for_the_other_side)
{
        struct bed b;

        bed_open(&b, "localhost");
        (void) stream_write_bytes(b.client.s, "last words", 10, NULL);
        stream_finish(b.client.s);
        EXPECT_INT(stream_write_bytes(b.client.s, "x", 1, NULL), -1);
        EXPECT(loop_run_until(b.loop, &b.server.has_eof, PATIENCE_MS));
        EXPECT_STR(b.server.got.data, "last words");
        EXPECT_INT(b.server.eofs, 1);
        EXPECT_INT(stream_write_bytes(b.server.s, "answer", 6, NULL), 1); /* reading goes on */
        EXPECT(loop_run_until(b.loop, &b.client.has_got, PATIENCE_MS));
        EXPECT_STR(b.client.got.data, "answer");
        EXPECT_INT(b.client.ends + b.server.ends, 0);
        bed_close(&b);
}

/* n blocks, as write_block() makes them. */
static int make_file(int n)
{
        int fd = memfd_create("unit", MFD_CLOEXEC);
        char block[BLOCK];

        EXPECT(fd >= 0);
        for (int i = 0; i < n; i++) {
                memset(block, 'a' + i % 26, sizeof(block));
                EXPECT_INT(write(fd, block, sizeof(block)), sizeof(block));
        }
        return fd;
}

TEST(tls_sends_a_file_in_its_place_also_before_the_handshake)
{
        struct bed b;
        size_t whole = (size_t) 60 * BLOCK;

        bed_open_sockets(&b);
        EXPECT(write_block(b.server.s, 0) >= 0);
        EXPECT_INT(stream_write_file(b.server.s, make_file(60), BLOCK, 58 * BLOCK, NULL), 0);
        EXPECT_INT(stream_queued(b.server.s), 58 * BLOCK); /* the block waits for its key */
        EXPECT_INT(write_block(b.server.s, 59), 0);
        stream_finish(b.server.s);
        EXPECT_INT(write_block(b.server.s, 60), -1);
        wait_bytes(&b, &b.client, whole / 2);
        EXPECT(stream_sent(b.server.s) > 0);
        EXPECT(loop_run_until(b.loop, &b.client.has_eof, PATIENCE_MS));
        expect_blocks(&b.client.got, 60);
        EXPECT_INT(b.client.ends + b.server.ends, 0);
        bed_close(&b);
}

TEST(tls_file_waits_for_a_reader_that_pauses_and_goes_on_with_it)
{
        struct bed b;
        size_t whole = (size_t) 100 * BLOCK;

        bed_open_sockets(&b);
        b.client.pauses = true;
        EXPECT_INT(stream_write_file(b.server.s, make_file(100), 0, whole, NULL), 0);
        EXPECT(loop_run_until(b.loop, &b.client.has_got, PATIENCE_MS));
        turns(&b, 500);
        EXPECT(stream_queued(b.server.s) > whole / 2);
        EXPECT(stream_queued(b.server.s->carrier) < 1024 * 1024);
        EXPECT_INT(b.server.rooms, 0);
        b.client.pauses = false;
        stream_pause(b.client.s, false);
        wait_bytes(&b, &b.client, whole);
        expect_blocks(&b.client.got, 100);
        EXPECT_INT(b.server.rooms, 1);
        EXPECT_INT(stream_write_bytes(b.server.s, "on", 2, NULL), 1);
        wait_bytes(&b, &b.client, whole + 2);
        bed_close(&b);
}

TEST(tls_file_that_is_shorter_than_promised_breaks_the_stream)
{
        struct bed b;

        bed_open_sockets(&b);
        EXPECT_INT(stream_write_file(b.server.s, make_file(3), 0, 3 * BLOCK + 1, NULL), 1);
        EXPECT(loop_run_until(b.loop, &b.server.is_over, PATIENCE_MS));
        EXPECT(strstr(b.server.why.msg, "shorter"));
        wait_bytes(&b, &b.client, (size_t) 3 * BLOCK);
        bed_close(&b);
}

TEST(tls_stream_freed_while_its_file_is_being_read_leaves_nothing_behind)
{
        struct bed b;

        bed_open_sockets(&b);
        EXPECT_INT(stream_write_file(b.server.s, make_file(50), 0, 50 * BLOCK, NULL), 0);
        b.server.s = stream_free(b.server.s);
        EXPECT(loop_run_until(b.loop, &b.client.is_over, PATIENCE_MS));
        bed_close(&b);
}

TEST(tls_client_refuses_another_name)
{
        struct bed b;

        bed_open(&b, "example.org");
        EXPECT(loop_run_until(b.loop, &b.client.is_over, PATIENCE_MS));
        EXPECT_INT(b.client.why.kind, ERR_UPSTREAM);
        EXPECT(strstr(b.client.why.msg, "certificate verify failed"));
        EXPECT_INT(b.client.ends, 1);
        EXPECT_INT(stream_write_bytes(b.client.s, "x", 1, NULL), -1);
        bed_close(&b);
}

/* The side that refuses says so before it closes. */
TEST(tls_alert_reaches_the_other_side)
{
        struct bed b;
        struct stream *inner[2];
        struct error err = { 0 };
        int fd[2];

        bed_make(&b);
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        for (int i = 0; i < 2; i++)
                EXPECT_OK(stream_open_fd(b.loop, fd[i], NULL, NULL, &inner[i], &err), err);
        wrap(&b, inner, "example.org");
        EXPECT(loop_run_until(b.loop, &b.server.is_over, PATIENCE_MS));
        EXPECT(strstr(b.server.why.msg, "alert"));
        bed_close(&b);
}

TEST(tls_garbage_instead_of_a_handshake_is_an_error)
{
        struct stream *inner[2];
        struct error err = { 0 };
        struct bed b;

        bed_make(&b);
        stream_pair(b.loop, inner);
        EXPECT_OK(tls_wrap(b.server_tls, inner[0], NULL, &sink, &b.server, &b.server.s, &err), err);
        (void) stream_write_bytes(inner[1], "GET / HTTP/1.1\r\n\r\n", 18, NULL);
        EXPECT(loop_run_until(b.loop, &b.server.is_over, PATIENCE_MS));
        EXPECT_INT(b.server.ends, 1);
        EXPECT(strstr(b.server.why.msg, "tls handshake"));
        stream_free(inner[1]);
        bed_close(&b);
}

TEST(tls_says_full_before_the_handshake_and_room_after_it)
{
        struct bed b;
        int n = 1;

        bed_open(&b, "localhost");
        while (write_block(b.client.s, n - 1) == 1)
                n++;
        EXPECT_INT(n, STREAM_HIGH_BYTES / BLOCK + 1);
        EXPECT_INT(b.client.rooms, 0);
        EXPECT(loop_run_until(b.loop, &b.client.has_room, PATIENCE_MS));
        wait_bytes(&b, &b.server, (size_t) n * BLOCK);
        expect_blocks(&b.server.got, n);
        EXPECT(!b.client.s->is_full);
        bed_close(&b);
}

TEST(tls_has_back_pressure_over_sockets)
{
        struct bed b;
        int n = 0;

        bed_open_sockets(&b);
        (void) stream_write_bytes(b.server.s, "!", 1, NULL);
        EXPECT(loop_run_until(b.loop, &b.client.has_got, PATIENCE_MS)); /* hands are shaken */
        stream_pause(b.server.s, true);
        while (n < 100 && write_block(b.client.s, n++) == 1)
                turns(&b, 1);
        EXPECT(n < 100);
        turns(&b, 3);
        EXPECT_INT(b.client.rooms, 0);
        EXPECT_INT(b.server.got.len, 0);
        EXPECT(stream_queued(b.client.s) > 0);
        stream_pause(b.server.s, false);
        EXPECT(loop_run_until(b.loop, &b.client.has_room, PATIENCE_MS));
        wait_bytes(&b, &b.server, (size_t) n * BLOCK);
        expect_blocks(&b.server.got, n);
        EXPECT_INT(stream_queued(b.client.s), 0);
        bed_close(&b);
}

/* An HTTP connection does this after every answer. */
TEST(tls_unpaused_inside_on_data_neither_nests_nor_reorders)
{
        enum { N = 12 };
        struct bed b;

        bed_open(&b, "localhost");
        b.server.pokes = true;
        for (int i = 0; i < N; i++)
                (void) write_block(b.client.s, i);
        wait_bytes(&b, &b.server, (size_t) N * BLOCK);
        EXPECT_INT(b.server.deepest, 1);
        expect_blocks(&b.server.got, N);
        bed_close(&b);
}

TEST(tls_paused_inside_on_data_keeps_the_rest_for_later)
{
        struct bed b;

        bed_open(&b, "localhost");
        b.server.pauses = true;
        (void) write_block(b.client.s, 0);
        EXPECT(loop_run_until(b.loop, &b.server.has_got, PATIENCE_MS));
        turns(&b, 3);
        EXPECT(b.server.got.len <= 16384);
        while (b.server.got.len < BLOCK) {
                size_t was = b.server.got.len;

                stream_pause(b.server.s, false);
                EXPECT_INT(b.server.got.len, was); /* never from inside the call */
                turns(&b, 2);
                EXPECT(b.server.got.len > was);
        }
        expect_blocks(&b.server.got, 1);
        bed_close(&b);
}

TEST(tls_freed_inside_on_data_calls_nobody_any_more)
{
        struct bed b;

        bed_open(&b, "localhost");
        b.server.frees = true;
        for (int i = 0; i < 4; i++)
                (void) write_block(b.client.s, i);
        EXPECT(loop_run_until(b.loop, &b.server.has_got, PATIENCE_MS));
        turns(&b, 3);
        EXPECT(b.server.got.len <= 16384);
        EXPECT_INT(b.server.ends + b.server.eofs + b.server.rooms, 0);
        EXPECT_INT(b.client.eofs, 1);
        bed_close(&b);
}

TEST(tls_identity_that_cannot_be_used_is_refused_with_its_reason)
{
        struct identity a, z;
        struct error err = { 0 };
        struct tls *t;

        make_identity(&a);
        make_identity(&z);
        EXPECT_ERR(tls_server_new("/nowhere", a.key, &t, &err), ERR_UPSTREAM, err);
        EXPECT(strstr(err.msg, "'/nowhere'"));
        EXPECT_ERR(tls_server_new(a.cert, a.cert, &t, &err), ERR_UPSTREAM, err);
        EXPECT_ERR(tls_server_new(a.cert, z.key, &t, &err), ERR_UPSTREAM, err);
        EXPECT_ERR(tls_client_new("/nowhere", &t, &err), ERR_UPSTREAM, err);
        (void) unlink(a.cert);
        (void) unlink(a.key);
        (void) unlink(z.cert);
        (void) unlink(z.key);
}
