#include "json/bind.h"
#include "json/write.h"

static void put_object(struct jw *w, const struct field *table);

/* What JSON Schema says about each type; `format` is OpenAPI's registry of numbers. */
static const struct {
        const char *type, *format, *limit;
} shapes[] = {
        [F_STR] = { "string", NULL, "maxLength" },
        [F_INT] = { "integer", "int64", NULL },
        [F_UINT] = { "integer", "uint64", NULL },
        [F_NUM] = { "number", "double", NULL },
        [F_BOOL] = { "boolean", NULL, NULL },
        [F_ENUM] = { "string", NULL, NULL },
        [F_OBJ] = { "object", NULL, NULL },
        [F_STRV] = { "array", NULL, "maxItems" },
        [F_OBJV] = { "array", NULL, "maxItems" },
        [F_MAP] = { "object", NULL, "maxProperties" },
        [F_ANY] = { NULL, NULL, NULL },
};

/* The members that only some types have. */
static void put_content(struct jw *w, const struct field *f)
{
        if (f->type == F_UINT)
                jw_u64(w, "minimum", 0);
        if (f->type == F_OBJ)
                put_object(w, f->sub);
        if (f->type == F_ENUM) {
                jw_arr(w, "enum");
                for (const char *const *name = f->names; *name; name++)
                        jw_str(w, NULL, *name);
                jw_end(w);
        }
        if (f->type == F_STRV || f->type == F_MAP) {
                jw_obj(w, f->type == F_MAP ? "additionalProperties" : "items");
                jw_str(w, "type", "string");
                jw_end(w);
        }
        if (f->type == F_OBJV)
                schema_write(w, "items", f->sub);
}

void schema_write_field(struct jw *w, const char *key, const struct field *f)
{
        jw_obj(w, key);
        if (shapes[f->type].type)
                jw_str(w, "type", shapes[f->type].type);
        if (shapes[f->type].format)
                jw_str(w, "format", shapes[f->type].format);
        put_content(w, f);
        if (shapes[f->type].limit)
                jw_u64(w, shapes[f->type].limit, f->max);
        if (f->flags & F_SECRET)
                jw_bool(w, "writeOnly", true);
        if (f->doc)
                jw_str(w, "description", f->doc);
        jw_end(w);
}

static void put_object(struct jw *w, const struct field *table)
{
        bool has_required = false;

        jw_obj(w, "properties");
        for (const struct field *f = table; f->name; f++) {
                schema_write_field(w, f->name, f);
                has_required |= (f->flags & F_REQUIRED) != 0;
        }
        jw_end(w);
        if (!has_required)
                return;
        jw_arr(w, "required");
        for (const struct field *f = table; f->name; f++)
                if (f->flags & F_REQUIRED)
                        jw_str(w, NULL, f->name);
        jw_end(w);
}

void schema_write(struct jw *w, const char *key, const struct field *table)
{
        jw_obj(w, key);
        jw_str(w, "type", "object");
        put_object(w, table);
        jw_end(w);
}
