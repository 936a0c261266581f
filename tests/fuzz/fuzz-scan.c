/* The envelope scan against the tree: whatever object the tree takes, the scan takes, and both find
 * the same members. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "json/json.h"
#include "json/scan.h"
#include "json/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
        if (!ok)
                abort();
}

static struct buf text_of(const struct jval *v)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_val(&w, NULL, v);
        return b;
}

/* raw is JSON text and means the member `key` of obj. */
static void check_member(struct arena *a, const struct jval *obj, const char *key, struct slice raw)
{
        const struct jval *want = json_get(obj, key), *seen = NULL;

        check(!want == !raw.len);
        if (!want)
                return;
        check(json_parse(a, raw.at, raw.len, &seen, NULL) == 0);
        struct buf x = text_of(want), y = text_of(seen);
        check(x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
        buf_done(&x);
        buf_done(&y);
}

/* raw stands inside quotes and means the string v, or is absent because v is no string. */
static void check_string(struct arena *a, const struct jval *v, struct slice raw)
{
        const char *seen = jscan_text(a, raw), *want = json_str(v);

        if (!want || memchr(want, '\0', v->text.len)) {
                check(!want ? raw.len == 0 : !seen);
                return;
        }
        check(seen && strcmp(seen, want) == 0 && jscan_eq(raw, want));
}

static void compare(struct arena *a, const struct jval *v, const struct jscan *s)
{
        const struct jval *in_params = json_get(json_get(v, "params"), "sessionId");
        const struct jval *in_result = json_get(json_get(v, "result"), "sessionId");
        bool is_in_params = json_str(in_params) && in_params->text.len;

        check_member(a, v, "id", s->id);
        check_member(a, v, "params", s->params);
        check_member(a, v, "result", s->result);
        check_member(a, v, "error", s->error);
        check_string(a, json_get(v, "method"), s->method);
        check_string(a, is_in_params ? in_params : in_result, s->session_id);
}

static void check_inside(const char *text, size_t size, struct slice s)
{
        check(!s.len || (s.at >= text && s.at + s.len <= text + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *) data;
        const struct jval *v = NULL;
        struct error err = { 0 };
        struct jscan s = { 0 };
        struct arena a;
        int scanned = json_scan(text, size, &s, &err);

        arena_init(&a, 8 << 20);
        check(scanned == 0 || err.kind == ERR_INVALID);
        if (json_parse(&a, text, size, &v, NULL) == 0) {
                check((scanned == 0) == (v->type == J_OBJ));
                if (scanned == 0)
                        compare(&a, v, &s);
        }
        check_inside(text, size, s.id);
        check_inside(text, size, s.method);
        check_inside(text, size, s.params);
        check_inside(text, size, s.result);
        check_inside(text, size, s.error);
        check_inside(text, size, s.session_id);
        arena_done(&a);
        return 0;
}
