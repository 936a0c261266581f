#include "http/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/map.h"

enum { METHODS_PER_PATH = 8 };

#define ANY_ALLOW "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS" /* of a row "*", for people to read */

/* One path with its methods. */
struct entry {
        const char *path;
        const struct route *rows[METHODS_PER_PATH];
        const struct route *any; /* of them: "*" */
        size_t n_rows;
        char *allow;
        bool needs_auth, is_host;
};

/* Literal paths are found by hash; patterns are few and tried in table order. */
struct router {
        struct entry **entries;
        const struct route **rows; /* in table order, for listings */
        size_t n_entries, n_rows;
        struct map literal;
        struct entry **patterns;
        size_t n_patterns;
};

static void broken(const struct route *row, const char *why)
{
        (void) fprintf(stderr, "route table: %s %s: %s\n", row->method, row->path, why);
        abort();
}

static struct entry *entry_of(struct router *r, const char *path)
{
        struct entry *e;

        for (size_t i = 0; i < r->n_entries; i++)
                if (strcmp(r->entries[i]->path, path) == 0)
                        return r->entries[i];
        e = NEW(struct entry);
        e->path = path;
        r->entries = xrealloc(r->entries, (r->n_entries + 1) * sizeof(*r->entries));
        r->entries[r->n_entries++] = e;
        if (!strchr(path, '{')) {
                (void) map_set(&r->literal, path, e);
        } else {
                r->patterns = xrealloc(r->patterns, (r->n_patterns + 1) * sizeof(*r->patterns));
                r->patterns[r->n_patterns++] = e;
        }
        return e;
}

static void add_allow(struct entry *e, const char *method)
{
        struct buf b = { 0 };

        if (e->any || method[0] == '*') {
                free(e->allow);
                e->allow = xstrdup(ANY_ALLOW);
                return;
        }
        if (e->allow)
                buf_printf(&b, "%s,", e->allow);
        buf_puts(&b, method);
        if (strcmp(method, "GET") == 0)
                buf_puts(&b, ",HEAD");
        free(e->allow);
        e->allow = buf_take(&b);
}

/* "/v1/{a}/x" and "/v1/{b}/x" are the same paths; the second would never be found. */
static bool same_shape(const char *a, const char *b)
{
        while (*a && *a == *b) {
                if (*a == '{') {
                        a = strchr(a, '}');
                        b = strchr(b, '}');
                }
                a++;
                b++;
        }
        return !*a && !*b;
}

static void check_path(const struct router *r, const struct route *row)
{
        size_t n = 0;

        for (const char *p = row->path; (p = strchr(p, '{')); n++) {
                const char *end = strchr(p, '}');

                if (!end || end - p < 2 || p[-1] != '/' || (end[1] && end[1] != '/'))
                        broken(row, "a parameter is a whole segment '{name}'");
                if (end[-1] == '*' && (end - p < 3 || end[1]))
                        broken(row, "'{name*}' must be the last segment");
                p = end;
        }
        if (n > ROUTE_PARAMS_MAX)
                broken(row, "too many parameters");
        for (size_t i = 0; i < r->n_entries; i++)
                if (strcmp(r->entries[i]->path, row->path) != 0 &&
                    same_shape(r->entries[i]->path, row->path))
                        broken(row, "another row has this path with other names");
}

static void add_row(struct router *r, const struct route *row)
{
        struct entry *e;

        if (row->path[0] != '/' || !row->fn || !row->doc)
                broken(row, "a row needs a path, a function and a doc");
        check_path(r, row);
        e = entry_of(r, row->path);
        if (e->n_rows == METHODS_PER_PATH)
                broken(row, "too many methods");
        for (size_t i = 0; i < e->n_rows; i++)
                if (strcmp(e->rows[i]->method, row->method) == 0)
                        broken(row, "this row is there twice");
        e->rows[e->n_rows++] = row;
        if (route_is_any(row))
                e->any = row;
        e->needs_auth |= !(row->flags & R_OPEN);
        e->is_host |= (row->flags & R_HOST) != 0;
        add_allow(e, row->method);
        r->rows = xrealloc(r->rows, (r->n_rows + 1) * sizeof(*r->rows));
        r->rows[r->n_rows++] = row;
}

struct router *router_new(const struct route *const *tables)
{
        struct router *r = NEW(struct router);

        for (; *tables; tables++)
                for (const struct route *row = *tables; row->method; row++)
                        add_row(r, row);
        return r;
}

struct router *router_free(struct router *r)
{
        if (!r)
                return NULL;
        for (size_t i = 0; i < r->n_entries; i++) {
                free(r->entries[i]->allow);
                free(r->entries[i]);
        }
        map_done(&r->literal);
        free(r->entries);
        free(r->patterns);
        free(r->rows);
        free(r);
        return NULL;
}

/* Segment by segment; a parameter takes one non-empty segment, a last "{x*}" the rest. */
static bool matches(const char *pattern, struct slice path, struct route_match *m)
{
        struct slice pat = { pattern + 1, strlen(pattern) - 1 },
                     rest = { path.at + 1, path.len - 1 };
        struct slice want, got;

        m->n_params = 0;
        while (slice_cut(&pat, '/', &want)) {
                bool is_param = want.len > 2 && want.at[0] == '{';

                if (is_param && want.at[want.len - 2] == '*') {
                        m->params[m->n_params++] = rest.at ? rest : (struct slice) { "", 0 };
                        return rest.at != NULL;
                }
                if (!slice_cut(&rest, '/', &got))
                        return false;
                if (is_param) {
                        if (!got.len || m->n_params == ROUTE_PARAMS_MAX)
                                return false;
                        m->params[m->n_params++] = got;
                } else if (want.len != got.len || memcmp(want.at, got.at, got.len) != 0) {
                        return false;
                }
        }
        return !rest.at;
}

static const struct entry *find_entry(const struct router *r, struct slice path,
                                      struct route_match *m)
{
        const struct entry *e = map_getn(&r->literal, path.at, path.len);

        if (e || !path.len || path.at[0] != '/')
                return e;
        for (size_t i = 0; i < r->n_patterns; i++)
                if (matches(r->patterns[i]->path, path, m))
                        return r->patterns[i];
        m->n_params = 0; /* of the last try */
        return NULL;
}

void router_find(const struct router *r, struct slice method, struct slice path,
                 struct route_match *ret)
{
        const struct entry *e;

        *ret = (struct route_match) { 0 };
        e = find_entry(r, path, ret);
        if (!e)
                return;
        ret->allow = e->allow;
        ret->needs_auth = e->needs_auth;
        ret->is_host = e->is_host;
        if (slice_eq(method, "HEAD"))
                method = SLICE("GET");
        for (size_t i = 0; i < e->n_rows; i++)
                if (slice_eq(method, e->rows[i]->method))
                        ret->row = e->rows[i];
        if (!ret->row)
                ret->row = e->any;
}

const struct route *router_row(const struct router *r, size_t i)
{
        return i < r->n_rows ? r->rows[i] : NULL;
}

struct slice route_param_name(const struct route *row, size_t i)
{
        const char *p = row->path, *end;

        for (;; i--) {
                p = strchr(p, '{');
                if (!p)
                        return (struct slice) { 0 };
                end = strchr(p, '}');
                if (i == 0)
                        break;
                p = end;
        }
        if (end[-1] == '*')
                end--;
        return (struct slice) { p + 1, (size_t) (end - p - 1) };
}
