/* JSON object (or query string) → struct, by table. The same rows print the schema and the CLI
 * help.
 *
 * One row is one member. Unknown members are ignored. Presence can be asked for: give the row a
 * has_offset (a bool in the struct). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct jval;
struct jw;

enum field_type {
        F_STR = 1, /* const char *; an embedded NUL is refused */
        F_INT,     /* int64_t */
        F_UINT,    /* uint64_t */
        F_NUM,     /* double */
        F_BOOL,    /* bool */
        F_ENUM,    /* int: index into .names */
        F_OBJ,     /* struct of .sub, embedded at offset */
        F_STRV,    /* struct strv: array of strings */
        F_OBJV,    /* struct objv: array of structs of .sub (size .sub_size) */
        F_MAP,     /* struct pairs: object with string values */
        F_ANY,     /* const struct jval *: any JSON */
};
enum { F_REQUIRED = 1u << 0, F_SECRET = 1u << 1 /* never logged, never echoed */ };

struct strv {
        const char **at;
        size_t n;
};
struct objv {
        void *at;
        size_t n;
};
struct pair {
        const char *key, *value;
};
struct pairs {
        struct pair *at;
        size_t n;
};

struct field {
        const char *name; /* NULL ends the table */
        enum field_type type;
        int flags;
        size_t offset;
        uint32_t max;             /* F_STR: bytes; F_STRV, F_OBJV, F_MAP: items; else 0 */
        const struct field *sub;  /* F_OBJ, F_OBJV */
        size_t sub_size;          /* F_OBJV */
        const char *const *names; /* F_ENUM: NULL-terminated */
        size_t has_offset;        /* bool, set when the member was there; 0 = nobody asks */
        const char *doc;
};

/* ret is zeroed memory of the right struct, filled in place (on failure, in part). Arrays live in
 * the arena; strings and F_ANY point into obj. Failures are ERR_SHAPE and name the path:
 * "sources[0]: missing field `source`", "from: invalid type: integer `1`, expected a string"; a
 * text with a NUL, or longer than its row allows, is ERR_INVALID. A null for an optional member
 * counts as absent. */
int json_bind(struct arena *a, const struct jval *obj, const struct field *table, void *ret,
              struct error *err);

/* For F_ANY, whose owner wants one type after all: ERR_SHAPE in the same words, always -1. */
int json_bad_type(const struct jval *v, const char *name, const char *expected, struct error *err);

/* The same from a query string ("a=1&b=true"): scalars and F_STRV (repeated) only. Failures are
 * ERR_INVALID: "missing field `path`", "provided string was not `true` or `false`". The first of
 * equal keys counts for scalars. */
int query_bind(struct arena *a, struct slice query, const struct field *table, void *ret,
               struct error *err);

/* Value of one key, decoded into the arena; NULL when absent or broken. */
const char *query_get(struct arena *a, struct slice query, const char *key);

/* JSON Schema of a table ({"type":"object","properties":…}) for OpenAPI. */
void schema_write(struct jw *w, const char *key, const struct field *table);
/* The same for one member. */
void schema_write_field(struct jw *w, const char *key, const struct field *f);
/* For a self-check test: NULL, or what is wrong with a row (no max, no sub, no doc), good until the
 * next call. */
const char *field_table_fault(const struct field *table);
