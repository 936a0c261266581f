#include "json/pretty.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/macro.h"
#include "json/json.h"
#include "json/write.h"

static void value_write(struct buf *out, const struct jval *v, int depth);

static void line_begin(struct buf *out, int depth)
{
        buf_printf(out, "\n%*s", 2 * depth, "");
}

static void string_write(struct buf *out, struct slice text)
{
        struct jw w = { .out = out };

        jw_strn(&w, NULL, text.at, text.len);
}

static int key_compare(struct slice a, struct slice b)
{
        int r = memcmp(a.at, b.at, MIN(a.len, b.len));

        return r ? r : (a.len > b.len) - (a.len < b.len);
}

/* By name, and of equal names by place: members stand in one array. */
static int member_compare(const void *a, const void *b)
{
        const struct jval *x = *(const struct jval *const *) a,
                          *y = *(const struct jval *const *) b;
        int r = key_compare(x->key, y->key);

        return r ? r : (x > y) - (x < y);
}

static void object_write(struct buf *out, const struct jval *v, int depth)
{
        _cleanup_free_ const struct jval **sorted = xcalloc(v->n, sizeof(void *));
        bool is_first = true;

        for (uint32_t i = 0; i < v->n; i++)
                sorted[i] = &v->kids[i];
        qsort(sorted, v->n, sizeof(void *), member_compare);
        buf_putc(out, '{');
        for (uint32_t i = 0; i < v->n; i++) {
                if (i + 1 < v->n && key_compare(sorted[i]->key, sorted[i + 1]->key) == 0)
                        continue;
                if (!is_first)
                        buf_putc(out, ',');
                is_first = false;
                line_begin(out, depth + 1);
                string_write(out, sorted[i]->key);
                buf_puts(out, ": ");
                value_write(out, sorted[i], depth + 1);
        }
        line_begin(out, depth);
        buf_putc(out, '}');
}

static void array_write(struct buf *out, const struct jval *v, int depth)
{
        buf_putc(out, '[');
        for (uint32_t i = 0; i < v->n; i++) {
                if (i)
                        buf_putc(out, ',');
                line_begin(out, depth + 1);
                value_write(out, &v->kids[i], depth + 1);
        }
        line_begin(out, depth);
        buf_putc(out, ']');
}

static void value_write(struct buf *out, const struct jval *v, int depth)
{
        switch (v->type) {
        case J_NULL: buf_puts(out, "null"); break;
        case J_FALSE: buf_puts(out, "false"); break;
        case J_TRUE: buf_puts(out, "true"); break;
        case J_NUM: buf_put(out, v->text.at, v->text.len); break;
        case J_STR: string_write(out, v->text); break;
        case J_ARR:
                if (v->n)
                        array_write(out, v, depth);
                else
                        buf_puts(out, "[]");
                break;
        case J_OBJ:
                if (v->n)
                        object_write(out, v, depth);
                else
                        buf_puts(out, "{}");
                break;
        }
}

void pretty_write(struct buf *out, const struct jval *v)
{
        value_write(out, v, 0);
        buf_putc(out, '\n');
}
