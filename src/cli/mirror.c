#include "cli/mirror.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/secret.h"
#include "base/str.h"
#include "client/client.h"
#include "http/route.h"
#include "json/json.h"
#include "json/write.h"

/* ---- fields → option rows ---- */

/* How a field is typed on the command line. Numbers and structures travel as JSON text. */
static const struct {
        enum option_type type;
        const char *arg;
} faces[] = {
        [F_STR] = { OPT_STR, "TEXT" },    [F_INT] = { OPT_STR, "NUMBER" },
        [F_UINT] = { OPT_STR, "NUMBER" }, [F_NUM] = { OPT_STR, "NUMBER" },
        [F_BOOL] = { OPT_BOOL, NULL },    [F_ENUM] = { OPT_ENUM, "NAME" },
        [F_OBJ] = { OPT_STR, "JSON" },    [F_STRV] = { OPT_LIST, "TEXT" },
        [F_OBJV] = { OPT_STR, "JSON" },   [F_MAP] = { OPT_LIST, "KEY=VALUE" },
        [F_ANY] = { OPT_STR, "JSON" },
};

static const char text_arg[] = "TEXT";

/* Members of any type that people write as text: no quotes around them. */
static bool is_text(const struct route *row, const struct field *f)
{
        return f->type == F_ANY && strcmp(row->cli, "processes input") == 0 &&
               strcmp(f->name, "data") == 0;
}

/* maxBytes → max-bytes, show_cursor → show-cursor */
static const char *flag_name(struct arena *a, const char *field)
{
        char *name = arena_zalloc(a, 2 * strlen(field) + 1), *at = name;

        for (; *field; field++) {
                if (isupper((unsigned char) *field) && at > name && at[-1] != '-')
                        *at++ = '-';
                *at++ = *field == '_' ? '-' : (char) tolower((unsigned char) *field);
        }
        return name;
}

struct rows {
        struct arena *a;
        struct option *options;
        struct mirror_field *fields;
        size_t n, cap;
};

static void rows_add(struct rows *r, struct option o, enum mirror_place place,
                     const struct field *f)
{
        const struct option_set so_far = { r->options, r->n, NULL };

        if (r->n == r->cap || option_find(&so_far, o.name, strlen(o.name)))
                return; /* a body field called like a query field goes by --json */
        o.offset = r->n * sizeof(struct mirror_slot);
        o.has_offset = o.offset + offsetof(struct mirror_slot, has);
        r->fields[r->n] = (struct mirror_field) { place, f };
        r->options[r->n++] = o;
}

static void rows_add_fields(struct rows *r, const struct route *row, const struct field *table,
                            enum mirror_place place)
{
        for (const struct field *f = table; f && f->name; f++) {
                bool is_needed = place == IN_QUERY && (f->flags & F_REQUIRED);
                struct option o = {
                        .name = flag_name(r->a, f->name),
                        .type = f->type == F_STR && (f->flags & F_SECRET) ? OPT_SECRET
                                                                          : faces[f->type].type,
                        .arg = is_text(row, f) ? text_arg : faces[f->type].arg,
                        .names = f->names,
                        .doc = f->doc,
                        .flags = OPT_NO_FILE | (is_needed ? OPT_REQUIRED : 0u),
                };

                rows_add(r, o, place, f);
        }
}

/* Answers that wrap the output of programs: what --raw does to them. */
static const struct {
        const char *cli, *doc;
} raw_rows[] = {
        { "processes logs", "the output itself, each stream where it belongs" },
        { "processes run", "its output and its messages as they are, and its exit status" },
};

static void rows_add_raw(struct rows *r, const struct route *row)
{
        for (size_t i = 0; i < ARRAY_LEN(raw_rows); i++)
                if (strcmp(row->cli, raw_rows[i].cli) == 0)
                        rows_add(r,
                                 (struct option) { "raw", .type = OPT_BOOL, .flags = OPT_NO_FILE,
                                                   .doc = raw_rows[i].doc },
                                 IN_CALL, NULL);
}

static void rows_add_call(struct rows *r, const struct route *row)
{
        const struct option json = { "json", .type = OPT_STR, .arg = "JSON", .flags = OPT_NO_FILE,
                                     .doc = "the whole body" };
        const struct option json_file = { "json-file", .type = OPT_STR, .arg = "FILE",
                                          .flags = OPT_NO_FILE,
                                          .doc = "file with the whole body, '-' for stdin" };
        const struct option file = { "file", .type = OPT_STR, .arg = "FILE", .flags = OPT_NO_FILE,
                                     .doc = "file to send; stdin when absent or '-'" };
        const struct option output = { "output",
                                       'o',
                                       OPT_STR,
                                       .arg = "FILE",
                                       .flags = OPT_NO_FILE,
                                       .doc = "file to write the answer to, '-' for stdout" };
        const struct option last = { "last-event-id", .type = OPT_STR, .arg = "N",
                                     .flags = OPT_NO_FILE, .doc = "go on behind this event" };

        rows_add(r,
                 (struct option) { "endpoint", 'e', OPT_STR, .env = "SANDBOX_AGENT_ENDPOINT",
                                   .preset = CLIENT_ENDPOINT, .arg = "URL",
                                   .doc = "server to talk to: http://…, https://… or unix:/path" },
                 IN_CALL, NULL);
        if (row->body) {
                rows_add(r, json, IN_CALL, NULL);
                rows_add(r, json_file, IN_CALL, NULL);
        }
        if (row->flags & (R_STREAM_BODY | R_RAW_BODY))
                rows_add(r, file, IN_CALL, NULL);
        if (row->flags & R_SSE)
                rows_add(r, last, IN_CALL, NULL);
        else if (strcmp(row->method, "GET") == 0)
                rows_add(r, output, IN_CALL, NULL);
        rows_add_raw(r, row);
}

/* ---- fields that may be words ---- */

static const struct {
        const char *fields[MIRROR_WORDS_MAX]; /* all must be there; the second may be NULL */
        bool is_list;
} word_rules[] = {
        { { "command", "args" }, true },
        { { "from", "to" }, false },
        { { "path" }, false },
};

/* The option behind a field of this name; -1 without one. */
static int field_index(const struct mirror *m, const char *name)
{
        for (size_t i = 0; i < m->n; i++)
                if (m->fields[i].field && strcmp(m->fields[i].field->name, name) == 0)
                        return (int) i;
        return -1;
}

static bool words_take(struct mirror *m, size_t rule)
{
        m->n_words = 0;
        for (size_t k = 0; k < MIRROR_WORDS_MAX && word_rules[rule].fields[k]; k++) {
                int i = field_index(m, word_rules[rule].fields[k]);
                enum field_type type =
                        k == 1 && word_rules[rule].is_list ? (enum field_type) F_STRV : F_STR;

                if (i < 0 || m->fields[i].field->type != type)
                        return false;
                m->words[m->n_words++] = (size_t) i;
        }
        m->is_list = word_rules[rule].is_list;
        return true;
}

static void words_find(struct mirror *m)
{
        for (size_t i = 0; m->n_params == 0 && i < ARRAY_LEN(word_rules); i++)
                if (words_take(m, i))
                        return;
        m->n_words = 0;
}

static bool word_is_needed(const struct mirror *m, unsigned k)
{
        return m->fields[m->words[k]].field->flags & F_REQUIRED;
}

/* "<FROM> <TO>", "[PATH]", "[--] <COMMAND> [ARGS]..." */
static const char *words_text(struct arena *a, const struct mirror *m)
{
        _cleanup_(buf_done) struct buf b = {};

        if (m->is_list)
                buf_puts(&b, "[--] ");
        for (unsigned k = 0; k < m->n_words; k++) {
                bool is_needed = word_is_needed(m, k);

                buf_printf(&b, "%s%c", k ? " " : "", is_needed ? '<' : '[');
                for (const char *p = m->fields[m->words[k]].field->name; *p; p++)
                        buf_putc(&b, (char) toupper((unsigned char) *p));
                buf_putc(&b, is_needed ? '>' : ']');
        }
        if (m->is_list)
                buf_puts(&b, "...");
        return arena_strndup(a, b.data, b.len);
}

static size_t fields_count(const struct field *table)
{
        size_t n = 0;

        while (table && table[n].name)
                n++;
        return n;
}

/* "<ID> <NAME>" of /v1/things/{id}/parts/{name} */
static const char *params_text(struct arena *a, const struct route *row, unsigned *ret_n)
{
        char *text = arena_zalloc(a, 2 * strlen(row->path) + 1), *at = text;

        for (unsigned i = *ret_n = 0; i < ROUTE_PARAMS_MAX; i++) {
                struct slice name = route_param_name(row, i);

                if (name.len == 0)
                        break;
                if (i)
                        *at++ = ' ';
                *at++ = '<';
                for (size_t k = 0; k < name.len; k++)
                        *at++ = (char) toupper((unsigned char) name.at[k]);
                *at++ = '>';
                (*ret_n)++;
        }
        return *ret_n ? text : NULL;
}

/* The first sentence, without its full stop. */
static const char *summary_text(struct arena *a, const char *doc)
{
        const char *end = doc ? strstr(doc, ". ") : NULL;
        size_t len = end ? (size_t) (end - doc) : strlen(doc ?: "");

        if (len && doc[len - 1] == '.')
                len--;
        return arena_strndup(a, doc ?: "", len);
}

const struct command *mirror_command(struct arena *a, const struct route *row,
                                     int (*run)(const void *, const struct command_ctx *,
                                                struct error *))
{
        size_t cap = 8 + fields_count(row->query) + fields_count(row->body);
        struct rows r = {
                .a = a,
                .options = arena_zalloc(a, cap * sizeof(struct option)),
                .fields = arena_zalloc(a, cap * sizeof(struct mirror_field)),
                .cap = cap,
        };
        struct command *c;
        struct mirror *m;
        const char *args;

        if (row->flags & R_WS)
                return NULL;
        rows_add_call(&r, row);
        rows_add_fields(&r, row, row->query, IN_QUERY);
        rows_add_fields(&r, row, row->body, IN_BODY);
        m = ARENA_NEW(a, struct mirror);
        *m = (struct mirror) { row, r.fields, r.n };
        args = params_text(a, row, &m->n_params);
        words_find(m);
        for (unsigned k = 0; k < m->n_words; k++) /* a word will do: mirror_plan() looks */
                r.options[m->words[k]].flags &= ~(unsigned) OPT_REQUIRED;
        c = ARENA_NEW(a, struct command);
        *c = (struct command) {
                .name = arena_printf(a, "api %s", row->cli),
                .summary = summary_text(a, row->doc),
                .doc = arena_printf(a, "%s %s", row->method, row->path),
                .options = r.options,
                .options_size = r.n,
                .values_size = r.n * sizeof(struct mirror_slot),
                .run = run,
                .extra = m,
        };
        c->args = m->n_words ? words_text(a, m) : args;
        c->args_min = m->n_params;
        c->args_max = m->is_list ? UINT_MAX : m->n_params + m->n_words;
        return c;
}

/* ---- values → one call ---- */

const struct mirror_slot *mirror_slot(const struct command *c, const struct mirror_slot *slots,
                                      const char *name)
{
        const struct mirror *m = c->extra;
        const struct option_set set = { c->options, c->options_size, NULL };
        const struct option *row = option_find(&set, name, strlen(name));

        return row && m->fields[row - c->options].place == IN_CALL ? &slots[row - c->options]
                                                                   : NULL;
}

/* Braces of the path are filled with the words; a {rest*} keeps its slashes. */
static void plan_path(const struct route *row, const char *const *args, struct buf *out)
{
        const char *at = row->path;

        for (size_t i = 0; *at;) {
                size_t len = strcspn(at, "{");
                const char *end = strchr(at + len, '}');

                buf_put(out, at, len);
                if (!end)
                        return;
                client_encode(out, args[i++], end[-1] == '*' ? "/" : "");
                at = end + 1;
        }
}

static int value_bad(const struct option *o, const char *text, const char *why, struct error *err)
{
        return error_set(err, ERR_USAGE, 0, "invalid value '%.64s' for '--%s <%s>': %s", text,
                         o->name, o->arg, why);
}

static void plan_query_field(const struct field *f, const struct mirror_slot *s,
                             const struct option *o, struct buf *out)
{
        switch (o->type) {
        case OPT_BOOL: client_query_add(out, f->name, s->on ? "true" : "false"); break;
        case OPT_ENUM: client_query_add(out, f->name, f->names[s->index]); break;
        case OPT_SECRET: client_query_add(out, f->name, secret_reveal(s->secret, NULL)); break;
        case OPT_LIST:
                for (size_t i = 0; i < s->list.n; i++)
                        client_query_add(out, f->name, s->list.at[i]);
                break;
        case OPT_STR:
        case OPT_UINT:
        case OPT_MS: client_query_add(out, f->name, s->str); break;
        }
}

static int body_json(struct jw *w, struct arena *a, const struct field *f, const char *text,
                     const struct option *o, struct error *err)
{
        bool is_number = f->type == F_INT || f->type == F_UINT || f->type == F_NUM;
        const struct jval *v;

        if (json_parse(a, text, strlen(text), &v, err) < 0)
                return value_bad(o, text, is_number ? "expected a number" : "expected JSON", err);
        if (is_number && v->type != J_NUM)
                return value_bad(o, text, "expected a number", err);
        jw_val(w, f->name, v);
        return 0;
}

static int body_map(struct jw *w, struct arena *a, const struct field *f,
                    const struct option_list *l, const struct option *o, struct error *err)
{
        jw_obj(w, f->name);
        for (size_t i = 0; i < l->n; i++) {
                const char *eq = strchr(l->at[i], '=');

                if (!eq)
                        return value_bad(o, l->at[i], "expected KEY=VALUE", err);
                jw_str(w, arena_strndup(a, l->at[i], (size_t) (eq - l->at[i])), eq + 1);
        }
        jw_end(w);
        return 0;
}

static int body_field(struct jw *w, struct arena *a, const struct field *f,
                      const struct mirror_slot *s, const struct option *o, struct error *err)
{
        switch (f->type) {
        case F_STR:
                jw_str(w, f->name, o->type == OPT_SECRET ? secret_reveal(s->secret, NULL) : s->str);
                return 0;
        case F_BOOL: jw_bool(w, f->name, s->on); return 0;
        case F_ENUM: jw_str(w, f->name, f->names[s->index]); return 0;
        case F_MAP: return body_map(w, a, f, &s->list, o, err);
        case F_STRV:
                jw_arr(w, f->name);
                for (size_t i = 0; i < s->list.n; i++)
                        jw_str(w, NULL, s->list.at[i]);
                jw_end(w);
                return 0;
        case F_ANY:
                if (o->arg == text_arg) {
                        jw_str(w, f->name, s->str);
                        return 0;
                }
                return body_json(w, a, f, s->str, o, err);
        case F_INT:
        case F_UINT:
        case F_NUM:
        case F_OBJ:
        case F_OBJV: return body_json(w, a, f, s->str, o, err);
        }
        return 0;
}

/* The object made of the body flags; *ret_n tells how many were given. */
static int plan_body(const struct command_ctx *ctx, const struct mirror_slot *slots,
                     struct buf *out, size_t *ret_n, struct error *err)
{
        _cleanup_(arena_done) struct arena a = {};
        const struct mirror *m = ctx->self->extra;
        struct jw w = { .out = out };

        jw_obj(&w, NULL);
        for (size_t i = *ret_n = 0; i < m->n; i++) {
                if (m->fields[i].place != IN_BODY || !slots[i].has)
                        continue;
                (*ret_n)++;
                if (body_field(&w, &a, m->fields[i].field, &slots[i], &ctx->self->options[i], err) <
                    0)
                        return -1;
        }
        jw_end(&w);
        return 0;
}

static bool needs_body(const struct route *row)
{
        for (const struct field *f = row->body; f && f->name; f++)
                if (f->flags & F_REQUIRED)
                        return true;
        return false;
}

static bool is_set(const struct mirror_slot *s)
{
        return s && s->str;
}

/* The body comes from one place only. */
static int check_body(const struct command_ctx *ctx, const struct mirror_slot *slots,
                      size_t n_flags, struct mirror_call *ret, struct error *err)
{
        const struct mirror *m = ctx->self->extra;
        bool has_text = is_set(mirror_slot(ctx->self, slots, "json"));
        bool has_file = is_set(mirror_slot(ctx->self, slots, "json-file"));

        if (has_text && has_file)
                return error_set(err, ERR_INVALID, 0,
                                 "provide either --json or --json-file, not both");
        if ((has_text || has_file) && n_flags)
                return error_set(err, ERR_USAGE, 0,
                                 "provide the body either as JSON or by its flags, not both");
        if (!has_text && !has_file && !n_flags && needs_body(m->row))
                return error_set(err, ERR_INVALID, 0,
                                 "missing payload: provide --json or --json-file");
        ret->has_body =
                has_text || has_file || n_flags || !(m->row->flags & (R_STREAM_BODY | R_RAW_BODY));
        return 0;
}

/* Words of fields into the slots of their flags. */
static int fill_words(const struct command_ctx *ctx, struct mirror_slot *slots, struct error *err)
{
        const struct mirror *m = ctx->self->extra;

        for (size_t k = 0, i = m->n_params; i < ctx->args_size; k++, i++) {
                struct mirror_slot *s = &slots[m->words[k]];

                if (s->has)
                        return error_set(err, ERR_USAGE, 0, "'%.64s' and --%s: provide it once",
                                         ctx->args[i], ctx->self->options[m->words[k]].name);
                s->has = true;
                if (k == 0 || !m->is_list) {
                        s->str = ctx->args[i];
                        continue;
                }
                /* Only read: the list's type is for those who make one. */
                s->list =
                        (struct option_list) { (const char **) &ctx->args[i], ctx->args_size - i };
                return 0;
        }
        return 0;
}

static int check_words(const struct command_ctx *ctx, const struct mirror_slot *slots,
                       struct error *err)
{
        const struct mirror *m = ctx->self->extra;

        if (is_set(mirror_slot(ctx->self, slots, "json")) ||
            is_set(mirror_slot(ctx->self, slots, "json-file")))
                return 0;
        for (unsigned k = 0; k < m->n_words; k++)
                if (word_is_needed(m, k) && !slots[m->words[k]].has)
                        return error_set(err, ERR_USAGE, 0,
                                         "the following required arguments were not provided: %s",
                                         ctx->self->args);
        return 0;
}

int mirror_plan(const struct command_ctx *ctx, const struct mirror_slot *given,
                struct mirror_call *ret, struct error *err)
{
        _cleanup_(arena_done) struct arena a = {};
        const struct mirror *m = ctx->self->extra;
        struct mirror_slot *slots = arena_zalloc(&a, m->n * sizeof(*slots));
        size_t n_flags = 0;

        memcpy(slots, given, m->n * sizeof(*slots));
        if (fill_words(ctx, slots, err) < 0 || check_words(ctx, slots, err) < 0)
                return -1;
        plan_path(m->row, ctx->args, &ret->path);
        for (size_t i = 0; i < m->n; i++)
                if (m->fields[i].place == IN_QUERY && slots[i].has)
                        plan_query_field(m->fields[i].field, &slots[i], &ctx->self->options[i],
                                         &ret->query);
        if (!m->row->body)
                return 0;
        if (plan_body(ctx, slots, &ret->body, &n_flags, err) < 0)
                return -1;
        return check_body(ctx, slots, n_flags, ret, err);
}

void mirror_call_done(struct mirror_call *c)
{
        buf_done(&c->path);
        buf_done(&c->query);
        buf_done(&c->body);
}
