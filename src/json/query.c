#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "json/bind.h"
#include "json/field.h"
#include "json/lex.h"

enum { KEY_MAX = 256 }; /* decoded names longer than this are nobody's */

typedef int query_fn(const struct field *f, struct slice s, void *slot, struct error *err);

static bool next_pair(struct slice *rest, struct slice *ret_key, struct slice *ret_value)
{
        struct slice pair;

        if (!slice_cut(rest, '&', &pair))
                return false;
        *ret_value = (struct slice) { "", 0 };
        (void) slice_cut(&pair, '=', ret_key);
        if (pair.at)
                *ret_value = pair;
        return true;
}

static bool key_is(struct slice key, const char *name)
{
        char text[KEY_MAX];
        size_t len;

        if (key.len >= sizeof(text) || !percent_decode(key.at, key.len, true, text, &len))
                return false;
        return slice_eq((struct slice) { text, len }, name);
}

/* The next value of this name; *rest moves on. */
static bool next_value(struct slice *rest, const char *name, struct slice *ret)
{
        struct slice key;

        while (next_pair(rest, &key, ret))
                if (key_is(key, name))
                        return true;
        return false;
}

/* Decoded, good UTF-8 and NUL-terminated in the arena. */
static int decode(struct arena *a, const char *name, struct slice *s, struct error *err)
{
        char *text = arena_try(a, s->len + 1);

        if (!text)
                return error_set(err, ERR_TOO_BIG, 0, "%s: too long", name);
        if (!percent_decode(s->at, s->len, true, text, &s->len))
                return error_set(err, ERR_INVALID, 0, "%s: broken percent escape", name);
        if (utf8_check(text, s->len) < s->len)
                return error_set(err, ERR_INVALID, 0, "%s: not UTF-8", name);
        s->at = text;
        return 0;
}

static int set_str(const struct field *f, struct slice s, void *slot, struct error *err)
{
        char why[FIELD_WHY_MAX];

        if (!field_text_ok(s, f->type == F_STR ? f->max : 0, why))
                return error_set(err, ERR_INVALID, 0, "%s: %s", f->name, why);
        *(const char **) slot = s.at;
        return 0;
}

static int bad_integer(struct slice s, bool may_be_negative, struct error *err)
{
        const char *why = "number too large to fit in target type";

        if (!s.len)
                why = "cannot parse integer from empty string";
        for (size_t i = may_be_negative && s.len > 1 && s.at[0] == '-'; i < s.len; i++)
                if (s.at[i] < '0' || s.at[i] > '9')
                        why = "invalid digit found in string";
        return error_set(err, ERR_INVALID, 0, "%s", why);
}

static int set_int(const struct field *f, struct slice s, void *slot, struct error *err)
{
        return str_to_i64(s.at, s.len, slot) ? 0 : bad_integer(s, true, err);
}

static int set_uint(const struct field *f, struct slice s, void *slot, struct error *err)
{
        return str_to_u64(s.at, s.len, slot) ? 0 : bad_integer(s, false, err);
}

static int set_num(const struct field *f, struct slice s, void *slot, struct error *err)
{
        const char *bad, *end = s.at + s.len;
        double d;

        if (lex_number(s.at, end, &bad) != end || !isfinite(d = strtod(s.at, NULL)))
                return error_set(err, ERR_INVALID, 0, "invalid float literal");
        *(double *) slot = d;
        return 0;
}

static int set_bool(const struct field *f, struct slice s, void *slot, struct error *err)
{
        if (!slice_eq(s, "true") && !slice_eq(s, "false"))
                return error_set(err, ERR_INVALID, 0, "provided string was not `true` or `false`");
        *(bool *) slot = slice_eq(s, "true");
        return 0;
}

static int set_enum(const struct field *f, struct slice s, void *slot, struct error *err)
{
        char why[FIELD_WHY_MAX];

        return field_variant(f, s, slot, why) ? 0 : error_set(err, ERR_INVALID, 0, "%s", why);
}

/* What a query string can carry; the other shapes have no setter. */
static query_fn *const setters[F_ANY + 1] = {
        [F_STR] = set_str, [F_INT] = set_int,   [F_UINT] = set_uint,
        [F_NUM] = set_num, [F_BOOL] = set_bool, [F_ENUM] = set_enum,
};

/* Every value of the name, in order. */
static int bind_list(struct arena *a, struct slice query, const struct field *f, struct strv *ret,
                     struct error *err)
{
        struct slice rest = query, value = { "", 0 };
        size_t n = 0;

        while (next_value(&rest, f->name, &value))
                n++;
        if (n > f->max)
                return error_set(err, ERR_INVALID, 0, "%s: at most %u items, got %zu", f->name,
                                 f->max, n);
        ret->at = n ? arena_try(a, n * sizeof(*ret->at)) : NULL;
        if (n && !ret->at)
                return error_set(err, ERR_TOO_BIG, 0, "%s: too long", f->name);
        for (rest = query, ret->n = 0; ret->n < n; ret->n++) {
                (void) next_value(&rest, f->name, &value);
                if (decode(a, f->name, &value, err) < 0 ||
                    set_str(f, value, &ret->at[ret->n], err) < 0)
                        return -1;
        }
        return 0;
}

int query_bind(struct arena *a, struct slice query, const struct field *table, void *ret,
               struct error *err)
{
        for (const struct field *f = table; f->name; f++) {
                struct slice rest = query, value;
                void *slot = (char *) ret + f->offset;

                if (!next_value(&rest, f->name, &value)) {
                        if (f->flags & F_REQUIRED)
                                return error_set(err, ERR_INVALID, 0, "missing field `%s`",
                                                 f->name);
                        continue;
                }
                if (f->type == F_STRV) {
                        if (bind_list(a, query, f, slot, err) < 0)
                                return -1;
                } else {
                        assert(setters[f->type]);
                        if (decode(a, f->name, &value, err) < 0 ||
                            setters[f->type](f, value, slot, err) < 0)
                                return -1;
                }
                field_mark(f, ret);
        }
        return 0;
}

const char *query_get(struct arena *a, struct slice query, const char *key)
{
        struct slice value;

        if (!next_value(&query, key, &value) || decode(a, key, &value, NULL) < 0)
                return NULL;
        return memchr(value.at, '\0', value.len) ? NULL : value.at;
}
