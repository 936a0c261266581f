#include "json/field.h"

#include <stdio.h>

#include "base/macro.h"

enum { SHOWN_BYTES = 60, NEST_MAX = 16 };

int field_clip(struct slice s)
{
        size_t n = MIN(s.len, (size_t) SHOWN_BYTES);

        while (n && n < s.len && ((unsigned char) s.at[n] & 0xc0) == 0x80)
                n--;
        return (int) n;
}

bool field_text_ok(struct slice s, uint32_t max, char why[static FIELD_WHY_MAX])
{
        if (s.len && memchr(s.at, '\0', s.len)) {
                (void) snprintf(why, FIELD_WHY_MAX, "a NUL byte is not allowed");
                return false;
        }
        if (max && s.len > max) {
                (void) snprintf(why, FIELD_WHY_MAX, "at most %u bytes, got %zu", max, s.len);
                return false;
        }
        return true;
}

/* "expected `a`", "expected `a` or `b`", "expected one of `a`, `b`, `c`" */
static void expected_names(const char *const *names, char *at, size_t left)
{
        size_t n = 0;
        const char *sep = "";

        while (names[n])
                n++;
        for (size_t i = 0; i < n; i++) {
                int k = snprintf(at, left, "%s`%s`", i ? sep : n > 2 ? "one of " : "", names[i]);

                if (k < 0 || (size_t) k >= left)
                        return;
                at += k;
                left -= (size_t) k;
                sep = n > 2 ? ", " : " or ";
        }
}

bool field_variant(const struct field *f, struct slice s, int *ret, char why[static FIELD_WHY_MAX])
{
        int n;

        for (int i = 0; f->names[i]; i++)
                if (slice_eq(s, f->names[i])) {
                        *ret = i;
                        return true;
                }
        n = f->flags & F_SECRET ? snprintf(why, FIELD_WHY_MAX, "unknown variant, expected ")
                                : snprintf(why, FIELD_WHY_MAX, "unknown variant `%.*s`, expected ",
                                           field_clip(s), s.at);
        expected_names(f->names, why + n, FIELD_WHY_MAX - (size_t) n);
        return false;
}

void field_mark(const struct field *f, void *ret)
{
        if (f->has_offset)
                *(bool *) ((char *) ret + f->has_offset) = true;
}

/* Why a row cannot work, or NULL. */
static const char *row_fault(const struct field *f)
{
        bool is_sized =
                f->type == F_STR || f->type == F_STRV || f->type == F_OBJV || f->type == F_MAP;

        if (!f->name[0])
                return "no name";
        if (f->type < F_STR || f->type > F_ANY)
                return "no type";
        if (!f->doc || !f->doc[0])
                return "no doc";
        if (is_sized && !f->max)
                return "no max";
        if ((f->type == F_OBJ || f->type == F_OBJV) && !f->sub)
                return "no sub";
        if (f->type == F_OBJV && !f->sub_size)
                return "no sub_size";
        if (f->type == F_ENUM && (!f->names || !f->names[0]))
                return "no names";
        return NULL;
}

static bool is_repeated(const struct field *table, const struct field *f)
{
        for (; table < f; table++)
                if (strcmp(table->name, f->name) == 0)
                        return true;
        return false;
}

static const char *table_fault(const struct field *table, unsigned depth, const char **ret_row)
{
        const char *why = NULL;

        for (const struct field *f = table; f->name && !why; f++) {
                *ret_row = f->name;
                why = row_fault(f);
                if (!why && is_repeated(table, f))
                        why = "name used twice";
                if (!why && f->sub && depth == NEST_MAX)
                        why = "nested too deep";
                if (!why && f->sub)
                        why = table_fault(f->sub, depth + 1, ret_row);
        }
        return why;
}

const char *field_table_fault(const struct field *table)
{
        static _Thread_local char text[128];
        const char *row = "", *why = table_fault(table, 0, &row);

        if (!why)
                return NULL;
        (void) snprintf(text, sizeof(text), "%s: %s", row, why);
        return text;
}
