#include "api/terminal.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "json/bind.h"
#include "json/json.h"

static const char *const type_names[] = {
        [TERM_INPUT] = "input", [TERM_RESIZE] = "resize", [TERM_CLOSE] = "close", NULL
};

/* ---- places in the text ---- */

/* Past the string that begins at p. The text is known to be good JSON. */
static const char *skip_string(const char *p)
{
        for (p++; *p != '"'; p++)
                p += *p == '\\';
        return p + 1;
}

/* Past the value that begins at p (or stands behind blanks there): up to the comma or the bracket
 * that ends it on its own level. */
static const char *skip_value(const char *p, const char *end)
{
        for (int depth = 0; p < end;) {
                if (depth == 0 && strchr(",]}", *p))
                        break;
                depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
                p = *p == '"' ? skip_string(p) : p + 1;
        }
        return p;
}

static const char *skip_blanks(const char *p, const char *end)
{
        while (p < end && strchr(" \t\r\n", *p))
                p++;
        return p;
}

/* Behind the value of the last member "type" of the object, or the end of the text. */
static const char *type_end(const char *p, const char *end)
{
        static const char name[] = "\"type\"";
        const char *found = end;

        p = skip_blanks(p, end) + 1; /* the brace */
        while ((p = skip_blanks(p, end)) < end && *p == '"') {
                bool is_type = strncmp(p, name, sizeof(name) - 1) == 0;

                p = skip_blanks(skip_string(p), end) + 1; /* the colon */
                p = skip_value(p, end);
                if (is_type)
                        for (found = p; strchr(" \t\r\n", found[-1]);)
                                found--;
                p++; /* the comma or the brace */
        }
        return found;
}

static int bad_at(const char *text, const char *at, const char *what, struct error *err)
{
        size_t line = 1;
        const char *begin = text;

        for (const char *p = text; p < at; p++)
                if (*p == '\n') {
                        line++;
                        begin = p + 1;
                }
        return error_set(err, ERR_INVALID, 0, "%s at line %zu column %zu", what, line,
                         (size_t) (at - begin));
}

/* ---- the type ---- */

struct head {
        int type;
};
static const struct field head_fields[] = {
        { "type", F_ENUM, F_REQUIRED, offsetof(struct head, type), .names = type_names,
          .doc = "what it is" },
        { 0 },
};

static int parse_type(struct arena *a, const struct jval *v, const char *text, size_t len,
                      enum terminal_frame_type *ret, struct error *err)
{
        struct head head = { 0 };
        struct error why = { 0 };
        const char *what = why.msg, *end = text + len;

        if (json_bind(a, v, head_fields, &head, &why) < 0) {
                if (str_starts(what, "type: "))
                        what += strlen("type: ");
                return bad_at(text, v->type == J_OBJ ? type_end(text, end) : end, what, err);
        }
        *ret = (enum terminal_frame_type) head.type;
        return 0;
}

/* ---- the members ---- */

/* Errors of the binder mean a wrong body elsewhere; here everything is one kind. */
static int as_invalid(struct error *err)
{
        if (err && err->kind == ERR_SHAPE)
                err->kind = ERR_INVALID;
        return -1;
}

static int bind(struct arena *a, const struct jval *v, const struct field *table, void *ret,
                struct error *err)
{
        return json_bind(a, v, table, ret, err) < 0 ? as_invalid(err) : 0;
}

struct input {
        const struct jval *data;
        const char *encoding;
};
static const struct field input_fields[] = {
        { "data", F_ANY, F_REQUIRED, offsetof(struct input, data), .doc = "what was typed" },
        { "encoding", F_STR, 0, offsetof(struct input, encoding), 256, .doc = "of data" },
        { 0 },
};

static int parse_input(struct arena *a, const struct jval *v, struct terminal_frame *ret,
                       struct error *err)
{
        struct input in = { 0 };

        if (bind(a, v, input_fields, &in, err) < 0)
                return -1;
        if (in.data->type != J_STR) {
                (void) json_bad_type(in.data, "data", "a string", err);
                return as_invalid(err);
        }
        ret->data = in.data->text;
        ret->encoding = in.encoding;
        return 0;
}

struct size {
        uint64_t cols, rows;
};
static const struct field size_fields[] = {
        { "cols", F_UINT, F_REQUIRED, offsetof(struct size, cols), .doc = "width" },
        { "rows", F_UINT, F_REQUIRED, offsetof(struct size, rows), .doc = "height" },
        { 0 },
};

static int parse_resize(struct arena *a, const struct jval *v, struct terminal_frame *ret,
                        struct error *err)
{
        struct size s = { 0 };

        if (bind(a, v, size_fields, &s, err) < 0)
                return -1;
        if (s.cols > UINT16_MAX || s.rows > UINT16_MAX)
                return error_set(err, ERR_INVALID, 0,
                                 "%s: invalid value: integer `%llu`, expected u16",
                                 s.cols > UINT16_MAX ? "cols" : "rows",
                                 (unsigned long long) (s.cols > UINT16_MAX ? s.cols : s.rows));
        ret->cols = (uint16_t) s.cols;
        ret->rows = (uint16_t) s.rows;
        return 0;
}

int terminal_frame_parse(struct arena *a, const char *text, size_t len, struct terminal_frame *ret,
                         struct error *err)
{
        struct terminal_frame f = { 0 };
        const struct jval *v;

        if (json_parse(a, text, len, &v, err) < 0)
                return -1;
        if (parse_type(a, v, text, len, &f.type, err) < 0)
                return -1;
        if (f.type == TERM_INPUT && parse_input(a, v, &f, err) < 0)
                return -1;
        if (f.type == TERM_RESIZE && parse_resize(a, v, &f, err) < 0)
                return -1;
        *ret = f;
        return 0;
}

int terminal_history_parse(const char *text, uint64_t *ret_bytes, struct error *err)
{
        if (strcmp(text, "all") == 0) {
                *ret_bytes = UINT64_MAX;
                return 0;
        }
        if (!str_to_u64(text, strlen(text), ret_bytes))
                return error_set(err, ERR_INVALID, 0, "history must be `all` or a number of bytes");
        return 0;
}
