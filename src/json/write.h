/* Writes compact JSON into a buf. The writer places commas; the caller opens and closes.
 *
 *         struct jw w = { .out = &buf };
 *         jw_obj(&w, NULL);  jw_str(&w, "status", "ok");  jw_end(&w);      → {"status":"ok"}
 *
 * key is NULL inside arrays and at the top. At most JSON_DEPTH_MAX levels may be open. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct jval;
struct jw {
        struct buf *out;
        uint64_t is_array[2]; /* one bit per level: which bracket jw_end() writes */
        unsigned depth;
        bool needs_comma;
};

void jw_obj(struct jw *w, const char *key);
void jw_arr(struct jw *w, const char *key);
void jw_end(struct jw *w);
void jw_str(struct jw *w, const char *key, const char *s); /* NULL writes null */
/* Broken UTF-8 becomes U+FFFD. */
void jw_strn(struct jw *w, const char *key, const char *s, size_t len);
void jw_i64(struct jw *w, const char *key, int64_t v);
void jw_u64(struct jw *w, const char *key, uint64_t v);
/* The fewest digits that read back; NaN and the infinities become null. */
void jw_f64(struct jw *w, const char *key, double v);
void jw_bool(struct jw *w, const char *key, bool v);
void jw_null(struct jw *w, const char *key);
void jw_val(struct jw *w, const char *key, const struct jval *v); /* numbers as they were written */
void jw_raw(struct jw *w, const char *key, const char *json, size_t len); /* already JSON */
