/* TLS as a stream over a stream: OpenSSL works on memory BIOs, the inner stream carries the bytes.
 */
#include "io/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/chunkq.h"
#include "io/loop.h"
#include "io/stream_impl.h"

enum { RECORD_BYTES = 16 * 1024 };

struct tls {
        SSL_CTX *ctx;
        bool is_server;
};

struct tls_stream {
        struct stream s;
        struct stream *inner;
        SSL *ssl;
        BIO *in, *out;      /* owned by ssl */
        struct chunkq held; /* written before the handshake was done */
        struct error *why;
        struct task pump; /* what was read while paused; never from inside stream_pause() */
        struct task end;
        bool is_ready, is_finishing, saw_eof;
};

static struct tls_stream *of(struct stream *s)
{
        return CONTAINER_OF(s, struct tls_stream, s);
}

static int tls_error(struct error *err, const char *doing)
{
        char text[160] = "unknown reason";
        unsigned long code = ERR_get_error();

        if (code)
                ERR_error_string_n(code, text, sizeof(text));
        ERR_clear_error();
        return error_set(err, ERR_UPSTREAM, 0, "%s: %s", doing, text);
}

static void end(struct tls_stream *t, const struct error *why)
{
        if (t->s.has_ended)
                return;
        t->s.has_ended = true;
        (void) stream_files_drop(&t->s, -1);
        if (why) {
                t->why = NEW(struct error);
                *t->why = *why;
        }
        if (why)
                stream_finish(t->inner); /* an alert may be queued: the peer wants to know */
        else
                stream_close(t->inner);
        loop_defer(t->s.loop, &t->end);
}

static void run_end(struct task *task)
{
        struct tls_stream *t = CONTAINER_OF(task, struct tls_stream, end);
        _cleanup_free_ struct error *why = TAKE_PTR(t->why);

        if (t->s.sink && t->s.sink->on_end)
                t->s.sink->on_end(t->s.arg, why);
}

/* Moves what OpenSSL produced to the inner stream. */
static void push_out(struct tls_stream *t)
{
        size_t n = BIO_ctrl_pending(t->out);

        if (n) {
                _cleanup_(chunk_unrefp) struct chunk *c = chunk_new(n);

                (void) BIO_read(t->out, chunk_bytes(c), (int) n);
                t->inner->high_bytes = t->s.high_bytes;
                (void) stream_write(t->inner, c, NULL);
        }
        t->s.queued_bytes = t->inner->queued_bytes;
        if (t->inner->is_full)
                t->s.is_full = true;
}

static int encrypt(struct tls_stream *t, const char *data, size_t len, struct error *err)
{
        ERR_clear_error(); /* SSL_get_error() looks at what others left there */
        for (size_t at = 0; at < len;) {
                int n = SSL_write(t->ssl, data + at, (int) MIN(len - at, (size_t) RECORD_BYTES));

                if (n <= 0)
                        return tls_error(err, "tls write");
                at += (size_t) n;
        }
        push_out(t);
        return 0;
}

static void tell_room(struct tls_stream *t)
{
        t->s.queued_bytes = t->inner->queued_bytes;
        if (!t->inner->is_full)
                stream_has_room(&t->s);
}

static int send_held(struct tls_stream *t, struct error *err)
{
        struct iovec part;

        while (chunkq_iov(&t->held, &part, 1)) {
                if (encrypt(t, part.iov_base, part.iov_len, err) < 0)
                        return -1;
                chunkq_drop(&t->held, part.iov_len);
        }
        chunkq_done(&t->held);
        return 0;
}

static void do_finish(struct tls_stream *t)
{
        ERR_clear_error();
        (void) SSL_shutdown(t->ssl);
        push_out(t);
        stream_finish(t->inner);
}

/* Returns false when the stream ended. */
static bool handshake(struct tls_stream *t)
{
        struct error err;
        int r;

        ERR_clear_error();
        r = SSL_do_handshake(t->ssl);
        push_out(t);
        if (r != 1 && SSL_get_error(t->ssl, r) == SSL_ERROR_WANT_READ)
                return false;
        if (r != 1)
                (void) tls_error(&err, "tls handshake");
        if (r != 1 || send_held(t, &err) < 0) {
                end(t, &err);
                return false;
        }
        t->is_ready = true;
        if (t->is_finishing)
                do_finish(t);
        else if (t->s.is_full)
                tell_room(t);
        return true;
}

static void eof(struct tls_stream *t)
{
        if (t->saw_eof)
                return;
        t->saw_eof = true;
        if (t->s.sink && t->s.sink->on_eof)
                t->s.sink->on_eof(t->s.arg);
        else
                end(t, NULL);
}

static void decrypt(struct tls_stream *t)
{
        char buf[RECORD_BYTES];
        struct error err;

        while (!t->s.has_ended && !t->s.is_paused && t->s.sink) {
                int n, why;

                ERR_clear_error();
                n = SSL_read(t->ssl, buf, sizeof(buf));
                if (n > 0) {
                        if (t->s.sink->on_data)
                                t->s.sink->on_data(t->s.arg, buf, (size_t) n);
                        continue;
                }
                why = SSL_get_error(t->ssl, n);
                if (why == SSL_ERROR_ZERO_RETURN) {
                        eof(t);
                } else if (why != SSL_ERROR_WANT_READ) {
                        (void) tls_error(&err, "tls read");
                        push_out(t);
                        end(t, &err);
                }
                break;
        }
        if (!t->s.has_ended)
                push_out(t); /* alerts, key updates */
}

static void inner_data(void *arg, const char *data, size_t len)
{
        struct tls_stream *t = arg;

        if (t->s.has_ended)
                return; /* only the alert is still on its way out */
        (void) BIO_write(t->in, data, (int) len);
        if (!t->is_ready && !handshake(t))
                return;
        decrypt(t);
}

/* EOF without a close alert is a cut, but every HTTP client does it; framing above notices. */
static void inner_eof(void *arg)
{
        struct tls_stream *t = arg;

        if (t->is_ready && !t->s.has_ended)
                eof(t);
        else
                end(t, NULL);
}

static void run_pump(struct task *task)
{
        struct tls_stream *t = CONTAINER_OF(task, struct tls_stream, pump);

        if (!t->s.has_ended && t->is_ready)
                decrypt(t);
}

static void inner_room(void *arg)
{
        struct tls_stream *t = arg;

        if (!t->s.has_ended && t->is_ready)
                tell_room(t);
}

static void inner_end(void *arg, const struct error *why)
{
        end(arg, why);
}

static const struct stream_sink inner_sink = {
        .on_data = inner_data,
        .on_eof = inner_eof,
        .on_room = inner_room,
        .on_end = inner_end,
};

static int tls_write(struct stream *s, struct chunk *c, struct error *err)
{
        struct tls_stream *t = of(s);

        if (t->is_finishing)
                return error_set(err, ERR_UPSTREAM, 0, "write after the end");
        if (!t->is_ready) {
                chunkq_push(&t->held, c);
                s->is_full = t->held.bytes > s->high_bytes;
                return !s->is_full;
        }
        if (encrypt(t, c->data, c->len, err) < 0)
                return -1;
        return !s->is_full;
}

static void tls_pause(struct stream *s, bool on)
{
        struct tls_stream *t = of(s);

        stream_pause(t->inner, on);
        if (!on && t->is_ready && SSL_pending(t->ssl) + BIO_ctrl_pending(t->in) > 0)
                loop_defer(s->loop, &t->pump);
}

static void tls_finish(struct stream *s)
{
        struct tls_stream *t = of(s);

        if (t->is_finishing)
                return;
        t->is_finishing = true;
        if (t->is_ready)
                do_finish(t);
}

static void tls_close(struct stream *s)
{
        end(of(s), NULL);
}

static void tls_fail(struct stream *s, const struct error *why)
{
        end(of(s), why);
}

static void tls_stream_free(struct stream *s)
{
        struct tls_stream *t = of(s);

        s->has_ended = true;
        (void) stream_files_drop(s, -1);
        s->carrier = NULL;
        t->inner = stream_free(t->inner);
        chunkq_done(&t->held);
        SSL_free(t->ssl);
        task_cancel(&t->pump);
        task_cancel(&t->end);
        free(t->why);
        loop_free_later(s->loop, t);
}

static const struct stream_ops tls_ops = {
        .name = "tls",
        .write = tls_write,
        .pause = tls_pause,
        .finish = tls_finish,
        .close = tls_close,
        .free = tls_stream_free,
        .fail = tls_fail,
};

static int set_side(struct tls *ctx, struct tls_stream *t, const char *host, struct error *err)
{
        if (ctx->is_server) {
                SSL_set_accept_state(t->ssl);
                return 0;
        }
        SSL_set_connect_state(t->ssl);
        if (host &&
            (SSL_set_tlsext_host_name(t->ssl, host) != 1 || SSL_set1_host(t->ssl, host) != 1))
                return tls_error(err, "tls host name");
        return 0;
}

int tls_wrap(struct tls *ctx, struct stream *inner, const char *host,
             const struct stream_sink *sink, void *arg, struct stream **ret, struct error *err)
{
        struct tls_stream *t = NEW(struct tls_stream);

        t->s = (struct stream) { .ops = &tls_ops,
                                 .sink = sink,
                                 .arg = arg,
                                 .loop = inner->loop,
                                 .high_bytes = STREAM_HIGH_BYTES };
        t->s.carrier = t->inner = inner;
        t->ssl = SSL_new(ctx->ctx);
        t->in = BIO_new(BIO_s_mem());
        t->out = BIO_new(BIO_s_mem());
        if (!t->ssl || !t->in || !t->out)
                abort(); /* small allocations */
        task_init(&t->pump, run_pump);
        task_init(&t->end, run_end);
        BIO_set_mem_eof_return(t->in, -1);
        SSL_set_bio(t->ssl, t->in, t->out);
        if (set_side(ctx, t, host, err) < 0) {
                tls_stream_free(&t->s);
                return -1;
        }
        stream_set_sink(inner, &inner_sink, t);
        if (!ctx->is_server)
                (void) handshake(t);
        *ret = &t->s;
        return 0;
}

/* A key with a passphrase fails; the default would ask on the terminal and wait. */
static int no_password(char *ret, int size, int is_writing, void *arg)
{
        return 0;
}

static struct tls *ctx_new(const SSL_METHOD *method, bool is_server)
{
        struct tls *t = NEW(struct tls);

        t->ctx = SSL_CTX_new(method);
        if (!t->ctx)
                abort();
        t->is_server = is_server;
        (void) SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_default_passwd_cb(t->ctx, no_password);
        (void) SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
        (void) SSL_CTX_set_mode(t->ctx,
                                SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        return t;
}

int tls_server_new(const char *cert_path, const char *key_path, struct tls **ret, struct error *err)
{
        struct tls *t = ctx_new(TLS_server_method(), true);

        if (SSL_CTX_use_certificate_chain_file(t->ctx, cert_path) != 1)
                (void) tls_error(err, "read certificate");
        else if (SSL_CTX_use_PrivateKey_file(t->ctx, key_path, SSL_FILETYPE_PEM) != 1)
                (void) tls_error(err, "read private key");
        else if (SSL_CTX_check_private_key(t->ctx) != 1)
                (void) tls_error(err, "match private key and certificate");
        else {
                *ret = t;
                return 0;
        }
        tls_ctx_free(t);
        return error_wrap(err, "set up TLS with '%s' and '%s'", cert_path, key_path);
}

int tls_client_new(const char *ca_path, struct tls **ret, struct error *err)
{
        struct tls *t = ctx_new(TLS_client_method(), false);
        int ok = ca_path ? SSL_CTX_load_verify_locations(t->ctx, ca_path, NULL)
                         : SSL_CTX_set_default_verify_paths(t->ctx);

        if (ok != 1) {
                tls_ctx_free(t);
                (void) tls_error(err, "load certificates");
                return error_wrap(err, "set up TLS with '%s'",
                                  ca_path ? ca_path : "the system's certificates");
        }
        SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
        *ret = t;
        return 0;
}

struct tls *tls_ctx_free(struct tls *t)
{
        if (t) {
                SSL_CTX_free(t->ctx);
                free(t);
        }
        return NULL;
}
