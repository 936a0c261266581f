/* Query strings and JSON bodies into one struct: whatever comes, strings are whole and within their
 * limits, and errors have a kind and a text. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "json/bind.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct params {
        const char *path;
        bool deep, has_path;
        int64_t from;
        uint64_t tail;
        double ratio;
        int stream;
        struct strv tag;
};
struct body {
        struct params params; /* the same rows, nested */
        struct objv list;
        struct pairs env;
        const struct jval *any;
};

enum { PATH_MAX_BYTES = 12, TAGS_MAX = 3 };

static const char *const streams[] = { "stdout", "stderr", "pty", NULL };
static const struct field param_fields[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct params, path), PATH_MAX_BYTES,
          .has_offset = offsetof(struct params, has_path) },
        { "deep", F_BOOL, 0, offsetof(struct params, deep) },
        { "from", F_INT, F_SECRET, offsetof(struct params, from) },
        { "tail", F_UINT, 0, offsetof(struct params, tail) },
        { "ratio", F_NUM, 0, offsetof(struct params, ratio) },
        { "stream", F_ENUM, 0, offsetof(struct params, stream), .names = streams },
        { "tag", F_STRV, 0, offsetof(struct params, tag), TAGS_MAX },
        {},
};
static const struct field body_fields[] = {
        { "params", F_OBJ, 0, offsetof(struct body, params), .sub = param_fields },
        { "list", F_OBJV, 0, offsetof(struct body, list), 3, .sub = param_fields,
          .sub_size = sizeof(struct params) },
        { "env", F_MAP, 0, offsetof(struct body, env), 4 },
        { "any", F_ANY, F_REQUIRED, offsetof(struct body, any) },
        {},
};

static void check(bool ok)
{
        if (!ok)
                abort();
}

static void check_params(const struct params *p)
{
        check(p->has_path && p->path && strlen(p->path) <= PATH_MAX_BYTES);
        check(utf8_check(p->path, strlen(p->path)) == strlen(p->path));
        check(p->stream >= 0 && p->stream < 3);
        check(p->tag.n <= TAGS_MAX);
        for (size_t i = 0; i < p->tag.n; i++)
                check(utf8_check(p->tag.at[i], strlen(p->tag.at[i])) == strlen(p->tag.at[i]));
}

static void check_body(const struct body *b)
{
        const struct params *list = b->list.at;

        check(b->any && b->list.n <= 3 && b->env.n <= 4);
        if (b->params.has_path)
                check_params(&b->params);
        for (size_t i = 0; i < b->list.n; i++)
                check_params(&list[i]);
        for (size_t i = 0; i < b->env.n; i++)
                for (size_t k = 0; k < i; k++)
                        check(strcmp(b->env.at[i].key, b->env.at[k].key) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice text = { (const char *) data, size };
        const struct jval *v = NULL;
        struct params p = { 0 };
        struct body b = { 0 };
        struct error err = { 0 };
        const char *path;
        struct arena a;

        arena_init(&a, 4 << 20);
        if (query_bind(&a, text, param_fields, &p, &err) == 0) {
                check_params(&p);
                path = query_get(&a, text, "path");
                check(path && strcmp(path, p.path) == 0);
        } else {
                check(err.kind == ERR_INVALID && err.msg[0]);
        }
        if (json_parse(&a, text.at, text.len, &v, &err) == 0) {
                if (json_bind(&a, v, body_fields, &b, &err) == 0)
                        check_body(&b);
                else
                        check((err.kind == ERR_SHAPE || err.kind == ERR_INVALID) && err.msg[0]);
        }
        arena_done(&a);
        return 0;
}
