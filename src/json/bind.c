#include "json/bind.h"

#include <stdarg.h>
#include <stdio.h>

#include "json/field.h"
#include "json/json.h"

/* Where in the document we are, as a chain on the stack: it becomes text only when something fails.
 */
struct place {
        const struct place *up;
        struct slice name; /* a member, or … */
        size_t index;      /* … an item, if name.at is NULL */
};

struct binder {
        struct arena *arena;
        struct error *err;
};

/* slot is the member of the struct, of the type that bind.h gives for f->type. */
typedef int bind_fn(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot);

static size_t place_text(const struct place *at, char *ret, size_t size)
{
        size_t n = at->up ? place_text(at->up, ret, size) : 0;
        int k = 0;

        if (n + 1 >= size || (!at->up && !at->name.at))
                return n;
        if (at->name.at)
                k = snprintf(ret + n, size - n, "%s%.*s", n ? "." : "", field_clip(at->name),
                             at->name.at);
        else
                k = snprintf(ret + n, size - n, "[%zu]", at->index);
        return k < 0 || (size_t) k >= size - n ? size - 1 : n + (size_t) k;
}

static int fail(const struct binder *b, enum err_kind kind, const struct place *at,
                const char *what)
{
        char where[128] = "";
        bool has_place = place_text(at, where, sizeof(where)) > 0;

        return error_set(b->err, kind, 0, "%s%s%s", where, has_place ? ": " : "", what);
}

static int bad(const struct binder *b, const struct place *at, const char *fmt, ...) _printf_(3, 4);
static int bad(const struct binder *b, const struct place *at, const char *fmt, ...)
{
        char what[FIELD_WHY_MAX];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(what, sizeof(what), fmt, ap);
        va_end(ap);
        return fail(b, ERR_SHAPE, at, what);
}

/* The shape is right, but no text can be like this: the same kind as in a query string. */
static int check_text(const struct binder *b, const struct place *at, struct slice text,
                      uint32_t max)
{
        char why[FIELD_WHY_MAX];

        return field_text_ok(text, max, why) ? 0 : fail(b, ERR_INVALID, at, why);
}

static bool is_float(const struct jval *v)
{
        for (size_t i = 0; v->type == J_NUM && i < v->text.len; i++)
                if (strchr(".eE", v->text.at[i]))
                        return true;
        return false;
}

/* A value the way an error shows it: integer `1`, string "x", map. */
static void value_text(const struct jval *v, bool is_secret, char ret[static FIELD_WHY_MAX])
{
        static const char *const nouns[] = {
                [J_NULL] = "null",   [J_FALSE] = "boolean", [J_TRUE] = "boolean",
                [J_NUM] = "integer", [J_STR] = "string",    [J_ARR] = "sequence",
                [J_OBJ] = "map",
        };
        const char *noun = is_float(v) ? "floating point" : nouns[v->type];
        const char *quote = v->type == J_STR ? "\"" : "`";
        struct slice text = v->text;

        if (v->type == J_FALSE || v->type == J_TRUE)
                text = SLICE(v->type == J_TRUE ? "true" : "false");
        if (!text.at || is_secret)
                (void) snprintf(ret, FIELD_WHY_MAX, "%s", noun);
        else
                (void) snprintf(ret, FIELD_WHY_MAX, "%s %s%.*s%s", noun, quote, field_clip(text),
                                text.at, quote);
}

static int bad_type(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, const char *expected)
{
        char text[FIELD_WHY_MAX];

        value_text(v, f && f->flags & F_SECRET, text);
        return bad(b, at, "invalid type: %s, expected %s", text, expected);
}

int json_bad_type(const struct jval *v, const char *name, const char *expected, struct error *err)
{
        const struct binder b = { .err = err };
        const struct place top = { 0 }, at = { .up = &top, .name = SLICE(name) };

        return bad_type(&b, &at, NULL, v, expected);
}

/* A number that is not of the wanted kind, or something else entirely. */
static int bad_number(const struct binder *b, const struct place *at, const struct field *f,
                      const struct jval *v, const char *expected)
{
        char text[FIELD_WHY_MAX];

        if (v->type != J_NUM || (is_float(v) && f->type != F_NUM))
                return bad_type(b, at, f, v, expected);
        value_text(v, f->flags & F_SECRET, text);
        return bad(b, at, "invalid value: %s, expected %s", text, expected);
}

static void *take(const struct binder *b, size_t n, size_t size)
{
        size_t bytes;
        void *p;

        if (__builtin_mul_overflow(n, size, &bytes) || !(p = arena_try(b->arena, bytes))) {
                error_set(b->err, ERR_TOO_BIG, 0, "JSON needs more than %zu bytes of memory",
                          b->arena->max_bytes);
                return NULL;
        }
        return memset(p, 0, bytes);
}

static int bind_text(const struct binder *b, const struct place *at, const struct field *f,
                     const struct jval *v, uint32_t max, const char **ret)
{
        if (v->type != J_STR)
                return bad_type(b, at, f, v, "a string");
        if (check_text(b, at, v->text, max) < 0)
                return -1;
        *ret = v->text.at;
        return 0;
}

static int bind_str(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot)
{
        return bind_text(b, at, f, v, f->max, slot);
}

static int bind_int(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot)
{
        return json_i64(v, slot) ? 0 : bad_number(b, at, f, v, "i64");
}

static int bind_uint(const struct binder *b, const struct place *at, const struct field *f,
                     const struct jval *v, void *slot)
{
        return json_u64(v, slot) ? 0 : bad_number(b, at, f, v, "u64");
}

static int bind_num(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot)
{
        return json_f64(v, slot) ? 0 : bad_number(b, at, f, v, "f64");
}

static int bind_bool(const struct binder *b, const struct place *at, const struct field *f,
                     const struct jval *v, void *slot)
{
        if (v->type != J_TRUE && v->type != J_FALSE)
                return bad_type(b, at, f, v, "a boolean");
        *(bool *) slot = v->type == J_TRUE;
        return 0;
}

static int bind_enum(const struct binder *b, const struct place *at, const struct field *f,
                     const struct jval *v, void *slot)
{
        char why[FIELD_WHY_MAX];

        if (v->type != J_STR)
                return bad_type(b, at, f, v, "a string");
        return field_variant(f, v->text, slot, why) ? 0 : bad(b, at, "%s", why);
}

static int bind_any(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot)
{
        *(const struct jval **) slot = v;
        return 0;
}

static int check_items(const struct binder *b, const struct place *at, const struct field *f,
                       const struct jval *v, enum jtype type)
{
        if (v->type != type)
                return bad_type(b, at, f, v, type == J_ARR ? "a sequence" : "a map");
        if (v->n > f->max)
                return bad(b, at, "at most %u items, got %u", f->max, v->n);
        return 0;
}

static int bind_strv(const struct binder *b, const struct place *at, const struct field *f,
                     const struct jval *v, void *slot)
{
        struct strv *ret = slot;

        if (check_items(b, at, f, v, J_ARR) < 0 || !(ret->at = take(b, v->n, sizeof(*ret->at))))
                return -1;
        for (ret->n = 0; ret->n < v->n; ret->n++) {
                struct place item = { .up = at, .index = ret->n };

                if (bind_text(b, &item, f, &v->kids[ret->n], 0, &ret->at[ret->n]) < 0)
                        return -1;
        }
        return 0;
}

static bool is_overruled(const struct jval *obj, size_t i)
{
        for (size_t j = i + 1; j < obj->n; j++)
                if (obj->kids[j].key.len == obj->kids[i].key.len &&
                    memcmp(obj->kids[j].key.at, obj->kids[i].key.at, obj->kids[i].key.len) == 0)
                        return true;
        return false;
}

static int bind_map(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot)
{
        struct pairs *ret = slot;

        if (check_items(b, at, f, v, J_OBJ) < 0 || !(ret->at = take(b, v->n, sizeof(*ret->at))))
                return -1;
        for (size_t i = 0; i < v->n; i++) {
                const struct jval *kid = &v->kids[i];
                struct place item = { .up = at, .name = kid->key };
                struct pair *p = &ret->at[ret->n];

                if (is_overruled(v, i))
                        continue;
                if (check_text(b, &item, kid->key, 0) < 0 ||
                    bind_text(b, &item, f, kid, 0, &p->value) < 0)
                        return -1;
                p->key = kid->key.at;
                ret->n++;
        }
        return 0;
}

static int bind_table(const struct binder *b, const struct place *at, const struct jval *obj,
                      const struct field *table, void *ret);

static int bind_obj(const struct binder *b, const struct place *at, const struct field *f,
                    const struct jval *v, void *slot)
{
        return bind_table(b, at, v, f->sub, slot);
}

static int bind_objv(const struct binder *b, const struct place *at, const struct field *f,
                     const struct jval *v, void *slot)
{
        struct objv *ret = slot;

        if (check_items(b, at, f, v, J_ARR) < 0 || !(ret->at = take(b, v->n, f->sub_size)))
                return -1;
        for (ret->n = 0; ret->n < v->n; ret->n++) {
                struct place item = { .up = at, .index = ret->n };

                if (bind_table(b, &item, &v->kids[ret->n], f->sub,
                               (char *) ret->at + ret->n * f->sub_size) < 0)
                        return -1;
        }
        return 0;
}

static bind_fn *const binders[] = {
        [F_STR] = bind_str,   [F_INT] = bind_int,   [F_UINT] = bind_uint, [F_NUM] = bind_num,
        [F_BOOL] = bind_bool, [F_ENUM] = bind_enum, [F_OBJ] = bind_obj,   [F_STRV] = bind_strv,
        [F_OBJV] = bind_objv, [F_MAP] = bind_map,   [F_ANY] = bind_any,
};

static int bind_table(const struct binder *b, const struct place *at, const struct jval *obj,
                      const struct field *table, void *ret)
{
        if (obj->type != J_OBJ)
                return bad_type(b, at, NULL, obj, "an object");
        for (const struct field *f = table; f->name; f++) {
                const struct jval *v = json_get(obj, f->name);
                struct place member = { .up = at, .name = SLICE(f->name) };

                if (!v && f->flags & F_REQUIRED)
                        return bad(b, at, "missing field `%s`", f->name);
                if (!v || (v->type == J_NULL && !(f->flags & F_REQUIRED)))
                        continue;
                if (binders[f->type](b, &member, f, v, (char *) ret + f->offset) < 0)
                        return -1;
                field_mark(f, ret);
        }
        return 0;
}

int json_bind(struct arena *a, const struct jval *obj, const struct field *table, void *ret,
              struct error *err)
{
        struct binder b = { .arena = a, .err = err };
        struct place top = { 0 };

        return bind_table(&b, &top, obj, table, ret);
}
