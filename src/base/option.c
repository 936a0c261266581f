#include "base/option.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/secret.h"
#include "base/str.h"

/* Room for one more item behind n: the memory doubles, so many items cost no more than few. */
static void *grow(struct arena *a, void *items, size_t n, size_t size)
{
        bool is_full = (n & (n - 1)) == 0; /* 0, 1, 2, 4, 8 … */

        return is_full ? arena_grow(a, items, n * size, MAX(2 * n, (size_t) 1) * size) : items;
}

/* ---- one value ---- */

typedef int assign_fn(struct arena *a, const struct option *row, void *at, const char *text,
                      const char *where, struct error *err);

/* The reason why a text does not fit. A secret is never repeated. */
static int refuse(const struct option *row, const char *text, const char *where, const char *why,
                  struct error *err)
{
        if (row->type == OPT_SECRET)
                return error_set(err, ERR_USAGE, 0, "invalid value for %s: %s", where, why);
        return error_set(err, ERR_USAGE, 0, "invalid value '%.64s' for %s: %s", text, where, why);
}

static int assign_str(struct arena *a, const struct option *row, void *at, const char *text,
                      const char *where, struct error *err)
{
        *(const char **) at = arena_strdup(a, text);
        return 0;
}

static int assign_secret(struct arena *a, const struct option *row, void *at, const char *text,
                         const char *where, struct error *err)
{
        struct secret **s = at;

        if (!*text)
                return refuse(row, text, where, "it must not be empty", err);
        secret_free(*s);
        *s = secret_new(text, strlen(text));
        return 0;
}

static int assign_bool(struct arena *a, const struct option *row, void *at, const char *text,
                       const char *where, struct error *err)
{
        static const char *const words[] = { "false", "true", "0", "1", "no", "yes", "off", "on" };

        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (strcasecmp(text, words[i]) == 0) {
                        *(bool *) at = i % 2;
                        return 0;
                }
        return refuse(row, text, where, "expected true or false", err);
}

static int assign_range(const struct option *row, uint64_t v, void *at, const char *text,
                        const char *where, struct error *err)
{
        char why[96];

        if (v >= row->min && (row->max == 0 || v <= row->max)) {
                *(uint64_t *) at = v;
                return 0;
        }
        if (row->max)
                (void) snprintf(why, sizeof(why), "%llu is not in %llu..%llu",
                                (unsigned long long) v, (unsigned long long) row->min,
                                (unsigned long long) row->max);
        else
                (void) snprintf(why, sizeof(why), "%llu is less than %llu", (unsigned long long) v,
                                (unsigned long long) row->min);
        return refuse(row, text, where, why, err);
}

static int assign_uint(struct arena *a, const struct option *row, void *at, const char *text,
                       const char *where, struct error *err)
{
        uint64_t v;

        if (!str_to_u64(text, strlen(text), &v))
                return refuse(row, text, where, "expected a whole number", err);
        return assign_range(row, v, at, text, where, err);
}

static int assign_ms(struct arena *a, const struct option *row, void *at, const char *text,
                     const char *where, struct error *err)
{
        static const struct {
                const char *suffix;
                uint64_t ms;
        } units[] = {
                { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 60 * 60 * 1000 }, { "", 1 }
        };
        size_t digits = strspn(text, "0123456789");
        uint64_t v;

        for (size_t i = 0; i < ARRAY_LEN(units); i++) {
                if (strcmp(text + digits, units[i].suffix) != 0)
                        continue;
                if (!str_to_u64(text, digits, &v) || __builtin_mul_overflow(v, units[i].ms, &v))
                        break;
                return assign_range(row, v, at, text, where, err);
        }
        return refuse(row, text, where, "expected a duration such as 250ms, 5s, 2m or 1h", err);
}

static int assign_enum(struct arena *a, const struct option *row, void *at, const char *text,
                       const char *where, struct error *err)
{
        _cleanup_(buf_done) struct buf why = {};

        buf_puts(&why, "expected ");
        for (int i = 0; row->names[i]; i++) {
                if (strcmp(row->names[i], text) == 0) {
                        *(int *) at = i;
                        return 0;
                }
                buf_printf(&why, "%s%s",
                           i == 0              ? ""
                           : row->names[i + 1] ? ", "
                                               : " or ",
                           row->names[i]);
        }
        return refuse(row, text, where, why.data, err);
}

static int assign_list(struct arena *a, const struct option *row, void *at, const char *text,
                       const char *where, struct error *err)
{
        struct option_list *l = at;

        l->at = grow(a, l->at, l->n, sizeof(*l->at));
        l->at[l->n++] = arena_strdup(a, text);
        return 0;
}

static assign_fn *const assign[] = {
        [OPT_STR] = assign_str,   [OPT_SECRET] = assign_secret, [OPT_BOOL] = assign_bool,
        [OPT_UINT] = assign_uint, [OPT_ENUM] = assign_enum,     [OPT_LIST] = assign_list,
        [OPT_MS] = assign_ms,
};

int option_assign(struct arena *a, const struct option *row, void *values, const char *text,
                  const char *where, struct error *err)
{
        if (assign[row->type](a, row, (char *) values + row->offset, text, where, err) < 0)
                return -1;
        if (row->has_offset)
                *((bool *) values + row->has_offset) = true;
        return 0;
}

/* A stronger layer begins: what weaker ones collected goes. */
static void list_reset(const struct option *row, void *values)
{
        if (row->type == OPT_LIST)
                *(struct option_list *) ((char *) values + row->offset) = (struct option_list) {};
}

const struct option *option_find(const struct option_set *set, const char *name, size_t len)
{
        for (size_t i = 0; i < set->rows_size; i++)
                if (strlen(set->rows[i].name) == len && memcmp(set->rows[i].name, name, len) == 0)
                        return &set->rows[i];
        return NULL;
}

/* Commas between the items of a list; empty items are dropped. */
static int assign_items(struct arena *a, const struct option *row, void *values, const char *text,
                        const char *where, struct error *err)
{
        struct slice rest = SLICE(text), item;

        if (row->type != OPT_LIST)
                return option_assign(a, row, values, text, where, err);
        list_reset(row, values);
        while (slice_cut(&rest, ',', &item)) {
                item = slice_trim(item);
                if (item.len && option_assign(a, row, values, arena_strndup(a, item.at, item.len),
                                              where, err) < 0)
                        return -1;
        }
        return 0;
}

/* ---- defaults and environment ---- */

int options_preset(struct arena *a, const struct option_set *set, struct error *err)
{
        for (size_t i = 0; i < set->rows_size; i++) {
                const struct option *row = &set->rows[i];

                if (!row->preset)
                        continue;
                if (assign_items(a, row, set->values, row->preset, "the default", err) < 0)
                        return error_wrap(err, "option '%s'", row->name);
                if (row->has_offset)
                        *((bool *) set->values + row->has_offset) = false;
        }
        return 0;
}

/* Overwrites the variable where it stands, so /proc/<pid>/environ does not show it either. */
static void env_wipe(const char *name, char *text)
{
        explicit_bzero(text, strlen(text));
        (void) unsetenv(name);
}

int options_from_env(struct arena *a, const struct option_set *set, struct error *err)
{
        for (size_t i = 0; i < set->rows_size; i++) {
                const struct option *row = &set->rows[i];
                char *text = row->env ? getenv(row->env) : NULL;

                if (!text || !*text)
                        continue;
                if (assign_items(a, row, set->values, text, row->env, err) < 0)
                        return -1;
                if (row->type == OPT_SECRET)
                        env_wipe(row->env, text);
        }
        return 0;
}

/* ---- file ---- */

/* Cuts one line; false at the end of the text. */
static char *line_cut(char **rest)
{
        char *line = *rest, *end;

        if (!*line)
                return NULL;
        end = strchrnul(line, '\n');
        *rest = *end ? end + 1 : end;
        *end = '\0';
        if (end > line && end[-1] == '\r')
                end[-1] = '\0';
        return line;
}

static void file_add(struct arena *a, struct option_file *f, const char *name, const char *value,
                     unsigned line)
{
        f->lines = grow(a, f->lines, f->n, sizeof(*f->lines));
        f->lines[f->n++] = (struct option_line) { name, value, line };
}

int option_file_parse(struct arena *a, const char *path, char *text, struct option_file *ret,
                      struct error *err)
{
        struct option_file f = { .path = arena_strdup(a, path) };
        char *line;

        for (unsigned nr = 1; (line = line_cut(&text)); nr++) {
                struct slice all = slice_trim(SLICE(line)), rest = all, name;

                if (all.len == 0 || all.at[0] == '#')
                        continue;
                if (!memchr(all.at, '=', all.len))
                        return error_set(err, ERR_USAGE, 0, "%s:%u: expected 'name = value'", path,
                                         nr);
                (void) slice_cut(&rest, '=', &name);
                name = slice_trim(name);
                rest = slice_trim(rest);
                file_add(a, &f, arena_strndup(a, name.at, name.len),
                         arena_strndup(a, rest.at, rest.len), nr);
        }
        *ret = f;
        return 0;
}

static void buf_wipe(struct buf *b)
{
        if (b->data)
                explicit_bzero(b->data, b->cap);
        buf_done(b);
}

int option_file_read(struct arena *a, const char *path, struct option_file *ret, struct error *err)
{
        _cleanup_(buf_wipe) struct buf text = { .max_bytes = OPTION_FILE_MAX };

        if (file_read(path, &text, err) < 0)
                return error_wrap(err, "configuration");
        buf_putc(&text, '\n'); /* the last line may lack its end, an empty file everything */
        if (strlen(text.data) != text.len)
                return error_set(err, ERR_USAGE, 0, "%s: not a text file: it holds a NUL byte",
                                 path);
        return option_file_parse(a, path, text.data, ret, err);
}

/* The row that a name in a file means, or NULL. */
static const struct option *file_row(const struct option_set *set, const char *name)
{
        const struct option *row = option_find(set, name, strlen(name));

        return row && !(row->flags & OPT_NO_FILE) ? row : NULL;
}

int option_file_check(const struct option_file *f, const struct option_set *sets, size_t n,
                      struct error *err)
{
        for (size_t i = 0; i < f->n; i++) {
                bool is_known = false;

                for (size_t k = 0; k < n && !is_known; k++)
                        is_known = file_row(&sets[k], f->lines[i].name) != NULL;
                if (!is_known)
                        return error_set(err, ERR_USAGE, 0, "%s:%u: unknown option '%.64s'",
                                         f->path, f->lines[i].line, f->lines[i].name);
        }
        return 0;
}

static int line_apply(struct arena *a, const struct option_line *l, const struct option *row,
                      void *values, struct error *err)
{
        char where[96];

        (void) snprintf(where, sizeof(where), "'%s'", row->name);
        return option_assign(a, row, values, l->value, where, err);
}

int option_file_apply(struct arena *a, const struct option_file *f, const struct option_set *set,
                      struct error *err)
{
        const struct option *row;

        for (size_t i = 0; i < f->n; i++)
                if ((row = file_row(set, f->lines[i].name)))
                        list_reset(row, set->values);
        for (size_t i = 0; i < f->n; i++)
                if ((row = file_row(set, f->lines[i].name)) &&
                    line_apply(a, &f->lines[i], row, set->values, err) < 0)
                        return error_wrap(err, "%s:%u", f->path, f->lines[i].line);
        return 0;
}

void option_file_wipe(struct option_file *f)
{
        for (size_t i = 0; i < f->n; i++)
                explicit_bzero((char *) f->lines[i].value, strlen(f->lines[i].value));
        *f = (struct option_file) {};
}

/* ---- flags ---- */

/* "'--port <PORT>'", as messages and help show it. */
static void flag_text(const struct option *row, char *ret, size_t size)
{
        (void) snprintf(ret, size, row->arg ? "'--%s <%s>'" : "'--%s'", row->name, row->arg);
}

static void scan_add(struct option_scan *s, const struct option *row, void *values, char *text)
{
        s->given = grow(s->arena, s->given, s->n, sizeof(*s->given));
        s->given[s->n++] = (struct option_given) { row, values, text };
}

/* A following argument serves as a value unless it looks like a flag; "-" and "-5" are values. */
static bool is_value(const char *arg)
{
        return arg[0] != '-' || arg[1] == '\0' || (arg[1] >= '0' && arg[1] <= '9');
}

/* `inline_value` is what stood in the same argument, or NULL. */
static int scan_take(struct option_scan *s, const struct option *row, void *values,
                     char *inline_value, struct error *err)
{
        char where[96];

        if (inline_value || row->type == OPT_BOOL) {
                scan_add(s, row, values, inline_value);
                return 1;
        }
        flag_text(row, where, sizeof(where));
        if (s->at >= s->argc || !is_value(s->argv[s->at]))
                return error_set(err, ERR_USAGE, 0,
                                 "a value is required for %s but none was supplied", where);
        scan_add(s, row, values, s->argv[s->at++]);
        return 1;
}

static int scan_unknown(const char *flag, size_t len, struct error *err)
{
        return error_set(err, ERR_USAGE, 0, "unexpected argument '%.*s' found",
                         (int) MIN(len, (size_t) 64), flag);
}

static int scan_long(struct option_scan *s, char *arg, const struct option_set *sets, size_t n,
                     struct error *err)
{
        char *eq = strchrnul(arg, '=');

        for (size_t i = 0; i < n; i++) {
                const struct option *row = option_find(&sets[i], arg + 2, (size_t) (eq - arg) - 2);

                if (row)
                        return scan_take(s, row, sets[i].values, *eq ? eq + 1 : NULL, err);
        }
        return scan_unknown(arg, (size_t) (eq - arg), err);
}

static const struct option *find_letter(const struct option_set *sets, size_t n, char letter,
                                        void **ret_values)
{
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < sets[i].rows_size; k++)
                        if (sets[i].rows[k].letter == letter) {
                                *ret_values = sets[i].values;
                                return &sets[i].rows[k];
                        }
        return NULL;
}

/* -n, -p 1, -p1, -p=1, and several letters in one: -nCp1. */
static int scan_letters(struct option_scan *s, char *arg, const struct option_set *sets, size_t n,
                        struct error *err)
{
        for (char *at = arg + 1; *at; at++) {
                void *values = NULL;
                const struct option *row = find_letter(sets, n, *at, &values);

                if (!row)
                        return scan_unknown((char[]) { '-', *at, '\0' }, 2, err);
                if (row->type != OPT_BOOL)
                        return scan_take(s, row, values,
                                         at[1] == '=' ? at + 2
                                         : at[1]      ? at + 1
                                                      : NULL,
                                         err);
                scan_add(s, row, values, NULL);
        }
        return 1;
}

int option_scan_next(struct option_scan *s, const struct option_set *sets, size_t n,
                     struct error *err)
{
        char *arg;

        if (s->is_plain || s->at >= s->argc)
                return 0;
        arg = s->argv[s->at];
        if (strcmp(arg, "--") == 0) {
                s->at++;
                s->is_plain = true;
                return 0;
        }
        if (arg[0] != '-' || arg[1] == '\0')
                return 0;
        s->at++;
        return arg[1] == '-' ? scan_long(s, arg, sets, n, err) : scan_letters(s, arg, sets, n, err);
}

/* Behind the last use only: a flag given twice shares no text, but an error may still quote one. */
static void scan_wipe(struct option_scan *s)
{
        for (size_t i = 0; i < s->n; i++)
                if (s->given[i].row->type == OPT_SECRET && s->given[i].text)
                        memset(s->given[i].text, '*', strlen(s->given[i].text));
}

static int scan_assign(struct option_scan *s, struct error *err)
{
        char where[96];

        for (size_t i = 0; i < s->n; i++)
                list_reset(s->given[i].row, s->given[i].values);
        for (size_t i = 0; i < s->n; i++) {
                const struct option_given *g = &s->given[i];

                flag_text(g->row, where, sizeof(where));
                if (option_assign(s->arena, g->row, g->values, g->text ?: "true", where, err) < 0)
                        return -1;
        }
        return 0;
}

int option_scan_apply(struct option_scan *s, struct error *err)
{
        int r = scan_assign(s, err);

        scan_wipe(s);
        return r;
}

/* ---- at the end ---- */

static bool is_unset(const struct option *row, const char *at)
{
        switch (row->type) {
        case OPT_STR:
        case OPT_SECRET: return *(void *const *) at == NULL;
        case OPT_LIST: return ((const struct option_list *) at)->n == 0;
        case OPT_BOOL:
        case OPT_UINT:
        case OPT_ENUM:
        case OPT_MS: return false; /* zero is a value */
        }
        return false;
}

int options_check(const struct option_set *set, struct error *err)
{
        char where[96];

        for (size_t i = 0; i < set->rows_size; i++) {
                const struct option *row = &set->rows[i];

                if (!(row->flags & OPT_REQUIRED) ||
                    !is_unset(row, (char *) set->values + row->offset))
                        continue;
                flag_text(row, where, sizeof(where));
                return error_set(err, ERR_USAGE, 0, "the required argument %s was not provided",
                                 where);
        }
        return 0;
}

void options_done(const struct option_set *set)
{
        for (size_t i = 0; i < set->rows_size; i++) {
                struct secret **s = (void *) ((char *) set->values + set->rows[i].offset);

                if (set->rows[i].type == OPT_SECRET)
                        *s = secret_free(*s);
        }
}
