/* Entity tags, conditions and ranges (RFC 9110, sections 8.8, 13 and 14). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct req;

enum { ETAG_BYTES = 64, CONDITION_TAGS_MAX = 64 };

/* What a handler knows about the thing asked for. */
struct entity {
        bool exists;
        const char *etag;     /* with its quotes; NULL = has none */
        int64_t modified_sec; /* Unix seconds */
        uint64_t size;
};

/* If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since, in the order of the RFC. 0 = go
 * on, 304 = GET/HEAD: not modified, -1 = ERR_PRECONDITION. A list of tags that makes no sense is
 * ERR_INVALID; a date that is none counts as absent, as the RFC wants it. */
int condition_check(struct req *r, const struct entity *e, struct error *err);

struct range {
        uint64_t from, len;
        bool is_part; /* answer 206 with content-range */
};
/* Range and If-Range of a GET. Several ranges, another unit or a syntax error count as none (the
 * whole is sent). -1 with ERR_RANGE when it starts beyond the end: then content-range is set on the
 * reply. */
int range_pick(struct req *r, const struct entity *e, struct range *ret, struct error *err);

/* ---- the pure parts ---- */
/* "*" has every tag. etag may be NULL: then only that is true. Over CONDITION_TAGS_MAX is bad. */
bool etag_list_has(const char *list, const char *etag, bool is_weak_ok, bool *ret_is_bad);
int range_parse(const char *text, uint64_t size, struct range *ret); /* 0 none, 1 part, -1 beyond */
/* All three forms of section 5.6.7. */
bool http_date_parse(const char *text, int64_t *ret_sec);
