/* The answer to one request of ours, as bytes arrive: head, body, end. Pure and fuzzed; client.c
 * joins it to a stream. */
#pragma once
#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

enum { RESPONSE_HEAD_MAX = 64 * 1024 };

/* Either may call response_stop(), none may call response_done(). */
struct response_cb {
        void (*on_head)(void *arg, int status); /* once; interim answers (1xx) are skipped */
        void (*on_data)(void *arg, const char *data, size_t len);
};

struct response {
        llhttp_t parser;
        const struct response_cb *cb;
        void *arg;
        struct buf headers; /* name NUL value NUL …, names in lower case */
        size_t value_at;    /* where the value under way begins in `headers` */
        size_t head_bytes, max_head_bytes;
        struct error fault; /* set inside a parser callback */
        bool is_head;       /* the request was a HEAD: no body whatever the headers say */
        bool has_head, is_interim, is_complete, is_stopped;
};

/* The struct must not move afterwards. max_head_bytes 0 = RESPONSE_HEAD_MAX. */
void response_init(struct response *r, bool is_head, size_t max_head_bytes,
                   const struct response_cb *, void *arg);
void response_done(struct response *r);
/* 1 = complete (further bytes are ignored), 0 = more is to come, -1 = not an HTTP answer
 * (ERR_UPSTREAM) or over the ceiling (ERR_HEAD_TOO_BIG). */
int response_feed(struct response *r, const char *data, size_t len, struct error *err);
/* The other side closed: 0, or -1 with ERR_UPSTREAM when something is missing. */
int response_finish(struct response *r, struct error *err);
/* No callback comes any more. */
void response_stop(struct response *r);
/* The first header of that name, or NULL. */
const char *response_header(const struct response *r, const char *lower_name);
