/* multipart/form-data (RFC 7578) as a stream: fed in any splits, it holds no more than one part's
 * header block in memory. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct multipart;

enum {
        MULTIPART_PARTS_MAX = 1024,
        MULTIPART_HEAD_MAX = 8 * 1024, /* header block of one part */
        MULTIPART_PREAMBLE_MAX = 1024, /* bytes before the first boundary */
        MULTIPART_BOUNDARY_MAX = 70,   /* RFC 2046 section 5.1.1 */
};

/* All borrowed, gone after the call. */
struct multipart_part {
        const char *name;     /* never NULL, valid UTF-8 */
        const char *filename; /* NULL when absent; as the client sent it: check it before use */
        const char *type;     /* NULL when absent */
};

/* A callback that returns -1 with err ends the parsing; multipart_feed() returns that error. None
 * may free the parser. For every part: on_part, any number of on_data, on_part_end. */
struct multipart_cb {
        int (*on_part)(void *arg, const struct multipart_part *, struct error *err);
        int (*on_data)(void *arg, const char *data, size_t len, struct error *err);
        int (*on_part_end)(void *arg, struct error *err);
};

struct multipart_limits {
        uint32_t max_parts;      /* 0 = MULTIPART_PARTS_MAX */
        uint64_t max_part_bytes; /* 0 = the caller counts */
};

/* ERR_MEDIA_TYPE unless content_type is multipart/form-data with a sane boundary. content_type may
 * be NULL. */
int multipart_new(const char *content_type, const struct multipart_limits *,
                  const struct multipart_cb *, void *arg, struct multipart **ret,
                  struct error *err);
/* -1 with ERR_INVALID, ERR_TOO_BIG or a callback's error; then every further call fails the same.
 */
int multipart_feed(struct multipart *m, const char *data, size_t len, struct error *err);
/* The body is over: -1 with ERR_INVALID if it ended before the closing boundary. */
int multipart_finish(struct multipart *m, struct error *err);
struct multipart *multipart_free(struct multipart *m); /* NULL is fine */
