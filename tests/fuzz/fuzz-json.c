/* What is parsed can be written, parsed again and written to the same text. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "json/json.h"
#include "json/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CEILING_BYTES = 8 << 20 };

static void check(bool ok)
{
        if (!ok)
                abort();
}

/* Reads every getter, so that a bad pointer shows. */
static void walk(const struct jval *v)
{
        uint64_t u;
        int64_t i;
        double d;

        (void) json_i64(v, &i);
        (void) json_u64(v, &u);
        (void) json_f64(v, &d);
        if (json_str(v))
                check(v->text.at[v->text.len] == '\0' &&
                      utf8_check(v->text.at, v->text.len) == v->text.len);
        for (uint32_t k = 0; k < v->n; k++) {
                if (v->type == J_OBJ && !memchr(v->kids[k].key.at, '\0', v->kids[k].key.len))
                        check(json_get(v, v->kids[k].key.at) >= &v->kids[k]);
                walk(&v->kids[k]);
        }
}

static int rewrite(const char *text, size_t len, struct buf *out, struct error *err)
{
        struct jw w = { .out = out };
        const struct jval *v = NULL;
        struct arena a;
        int r;

        arena_init(&a, CEILING_BYTES);
        r = json_parse(&a, text, len, &v, err);
        if (r == 0) {
                walk(v);
                jw_val(&w, NULL, v);
        }
        arena_done(&a);
        return r;
}

/* Any bytes at all become a string that the parser takes. */
static void check_any_bytes(const char *data, size_t size)
{
        struct buf out = { 0 }, again = { 0 };
        struct jw w = { .out = &out };
        struct error err = { 0 };

        jw_strn(&w, NULL, data, size);
        check(rewrite(out.data, out.len, &again, &err) == 0);
        check(again.len == out.len && memcmp(again.data, out.data, out.len) == 0);
        buf_done(&out);
        buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct buf once = { 0 }, twice = { 0 };
        struct error err = { 0 };

        if (rewrite((const char *) data, size, &once, &err) == 0) {
                check(once.len <= size * 6);
                check(rewrite(once.data, once.len, &twice, &err) == 0);
                check(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
        } else {
                check(err.kind == ERR_INVALID || err.kind == ERR_TOO_BIG);
        }
        check_any_bytes((const char *) data, size);
        buf_done(&once);
        buf_done(&twice);
        return 0;
}
