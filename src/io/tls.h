/* TLS over any stream (OpenSSL, TLS 1.2 and later). */
#pragma once
#include "io/stream.h"

struct tls;

/* Server side: PEM certificate chain and key. */
int tls_server_new(const char *cert_path, const char *key_path, struct tls **ret,
                   struct error *err);
/* Client side: verifies the peer against ca_path (NULL = the system's) and the name. */
int tls_client_new(const char *ca_path, struct tls **ret, struct error *err);
struct tls *tls_ctx_free(struct tls *t);

/* Wraps `inner`, which it owns from then on (also on failure). host is for SNI and verification on
 * the client side, NULL on the server side. */
int tls_wrap(struct tls *t, struct stream *inner, const char *host, const struct stream_sink *,
             void *arg, struct stream **ret, struct error *err);
