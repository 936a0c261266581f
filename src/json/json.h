/* JSON values in an arena. Numbers keep their text, so what passes through is never damaged;
 * strings are decoded, checked UTF-8; object members keep their order, and of two equal keys the
 * last counts.
 *
 * Strict: RFC 8259 grammar, no lone surrogates, no trailing bytes, depth at most JSON_DEPTH_MAX. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum { JSON_DEPTH_MAX = 128 };

enum jtype { J_NULL, J_FALSE, J_TRUE, J_NUM, J_STR, J_ARR, J_OBJ };

struct jval {
        enum jtype type;
        uint32_t n;              /* J_ARR, J_OBJ: items */
        struct slice text;       /* J_NUM: as written; J_STR: decoded, may hold NUL. NUL follows */
        struct slice key;        /* as a member of an object: decoded name */
        const struct jval *kids; /* J_ARR, J_OBJ: n values, contiguous */
};

/* Everything lives in the arena; `text` need not. On failure ERR_INVALID with
 * "<what> at line L column C", or ERR_TOO_BIG when the arena's ceiling is reached. */
int json_parse(struct arena *a, const char *text, size_t len, const struct jval **ret,
               struct error *err);

/* NULL: not there, or no object. v may be NULL in all of these. */
const struct jval *json_get(const struct jval *obj, const char *key);
const char *json_str(const struct jval *v);        /* NULL unless a string */
bool json_i64(const struct jval *v, int64_t *ret); /* exact integers only, no 1.0 or 1e3 */
bool json_u64(const struct jval *v, uint64_t *ret);
bool json_f64(const struct jval *v, double *ret); /* false when it overflows */
/* "null", "boolean", "number", "string", "array", "object" */
const char *json_type_name(enum jtype t);
