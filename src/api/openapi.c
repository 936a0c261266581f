/* OpenAPI 3.1, printed from the route rows: what is served is what is routed. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/command.h"
#include "base/fd.h"
#include "http/req.h"
#include "http/route.h"
#include "json/json.h"
#include "json/pretty.h"
#include "json/write.h"

/* "/v1/ui/{path*}" → "/v1/ui/{path}" */
static char *public_path(const char *path)
{
        char *out = xstrdup(path), *star = strchr(out, '*');

        if (star)
                memmove(star, star + 1, strlen(star));
        return out;
}

static void put_tag(struct jw *w, const char *path)
{
        const char *at = strncmp(path, "/v1/", 4) == 0 ? path + 4 : path + 1;
        size_t len = strcspn(at, "/.");

        jw_arr(w, "tags");
        jw_strn(w, NULL, len ? at : "server", len ? len : 6);
        jw_end(w);
}

static void put_operation_id(struct jw *w, const struct route *row, const char *verb)
{
        struct buf b = { 0 };
        bool is_up = true;

        buf_puts(&b, verb);
        for (const char *p = row->path; *p; p++) {
                if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                      (*p >= '0' && *p <= '9'))) {
                        is_up = true;
                        continue;
                }
                buf_putc(&b, is_up && *p >= 'a' && *p <= 'z' ? (char) (*p & ~0x20) : *p);
                is_up = false;
        }
        jw_strn(w, "operationId", b.data, b.len);
        buf_done(&b);
}

static void put_parameter(struct jw *w, struct slice name, const char *in, bool is_required,
                          const char *doc)
{
        jw_obj(w, NULL);
        jw_strn(w, "name", name.at, name.len);
        jw_str(w, "in", in);
        jw_bool(w, "required", is_required);
        if (doc)
                jw_str(w, "description", doc);
}

static void put_parameters(struct jw *w, const struct route *row)
{
        jw_arr(w, "parameters");
        for (size_t i = 0; route_param_name(row, i).at; i++) {
                put_parameter(w, route_param_name(row, i), "path", true, NULL);
                jw_obj(w, "schema");
                jw_str(w, "type", "string");
                jw_end(w);
                jw_end(w);
        }
        for (const struct field *f = row->query; f && f->name; f++) {
                put_parameter(w, SLICE(f->name), "query", f->flags & F_REQUIRED, f->doc);
                schema_write_field(w, "schema", f);
                jw_end(w);
        }
        jw_end(w);
}

static void put_content(struct jw *w, const char *type, const struct field *table)
{
        jw_obj(w, "content");
        jw_obj(w, type);
        if (table)
                schema_write(w, "schema", table);
        jw_end(w);
        jw_end(w);
}

static void put_body(struct jw *w, const struct route *row)
{
        if (!row->body && !(row->flags & (R_RAW_BODY | R_STREAM_BODY)))
                return;
        jw_obj(w, "requestBody");
        jw_bool(w, "required", row->body != NULL);
        put_content(w, row->body ? "application/json" : "application/octet-stream", row->body);
        jw_end(w);
}

static void put_success(struct jw *w, const struct route *row)
{
        if (row->flags & R_WS) {
                jw_obj(w, "101");
                jw_str(w, "description", "WebSocket");
        } else {
                jw_obj(w, "200");
                jw_str(w, "description", "success");
                if (row->flags & R_SSE)
                        put_content(w, "text/event-stream", NULL);
                else if (row->reply)
                        put_content(w, "application/json", row->reply);
        }
        jw_end(w);
}

static void put_responses(struct jw *w, const struct route *row)
{
        jw_obj(w, "responses");
        put_success(w, row);
        jw_obj(w, "default");
        jw_str(w, "$ref", "#/components/responses/Problem");
        jw_end(w);
        jw_end(w);
}

static void put_operation(struct jw *w, const struct route *row, const char *verb)
{
        jw_obj(w, verb);
        put_operation_id(w, row, verb);
        put_tag(w, row->path);
        jw_str(w, "summary", row->doc);
        put_parameters(w, row);
        if (!route_is_any(row) || strchr(verb, 'p')) /* post, put and patch have one */
                put_body(w, row);
        put_responses(w, row);
        if (row->flags & R_OPEN) {
                jw_arr(w, "security");
                jw_end(w);
        }
        if (row->flags & R_WS)
                jw_bool(w, "x-websocket", true);
        if (route_is_any(row))
                jw_bool(w, "x-any-method", true);
        if (row->cli)
                jw_str(w, "x-cli", row->cli);
        jw_end(w);
}

static bool has_row(const struct router *r, const char *path, const char *verb)
{
        const struct route *row;

        for (size_t i = 0; (row = router_row(r, i)); i++)
                if (strcmp(row->path, path) == 0 && strcasecmp(row->method, verb) == 0)
                        return true;
        return false;
}

/* A row "*" is shown as the methods that people use, where the path has no row of its own. */
static void put_row(struct jw *w, const struct router *r, const struct route *row)
{
        static const char *const any[] = { "get", "post", "put", "patch", "delete" };
        struct buf verb = { 0 };

        for (size_t i = 0; route_is_any(row) && i < ARRAY_LEN(any); i++)
                if (!has_row(r, row->path, any[i]))
                        put_operation(w, row, any[i]);
        if (route_is_any(row))
                return;
        for (const char *p = row->method; *p; p++)
                buf_putc(&verb, (char) (*p | 0x20));
        put_operation(w, row, verb.data ?: "");
        buf_done(&verb);
}

/* Rows of one path stand together, at the place of the first. */
static void put_paths(struct jw *w, const struct router *r)
{
        const struct route *row, *other;

        jw_obj(w, "paths");
        for (size_t i = 0; (row = router_row(r, i)); i++) {
                _cleanup_free_ char *path = public_path(row->path);
                bool is_seen = row->flags & R_HIDDEN;

                for (size_t k = 0; k < i && !is_seen; k++)
                        is_seen = strcmp(router_row(r, k)->path, row->path) == 0;
                if (is_seen)
                        continue;
                jw_obj(w, path);
                for (size_t k = i; (other = router_row(r, k)); k++)
                        if (strcmp(other->path, row->path) == 0)
                                put_row(w, r, other);
                jw_end(w);
        }
        jw_end(w);
}

/* RFC 9457, with the members that some types add. */
struct problem {
        const char *type, *title, *detail;
        uint64_t status;
};
static const struct field problem_fields[] = {
        { "type", F_STR, F_REQUIRED, offsetof(struct problem, type), 200,
          .doc = "urn:sandbox-agent:error:…" },
        { "title", F_STR, F_REQUIRED, offsetof(struct problem, title), 100,
          .doc = "the same for all of a type" },
        { "status", F_UINT, F_REQUIRED, offsetof(struct problem, status),
          .doc = "the HTTP status again" },
        { "detail", F_STR, F_REQUIRED, offsetof(struct problem, detail), 1000,
          .doc = "what was tried, on what, why not" },
        { 0 },
};

static void put_components(struct jw *w)
{
        jw_obj(w, "components");
        jw_obj(w, "schemas");
        schema_write(w, "Problem", problem_fields);
        jw_end(w);
        jw_obj(w, "responses");
        jw_obj(w, "Problem");
        jw_str(w, "description", "failure");
        jw_obj(w, "content");
        jw_obj(w, "application/problem+json");
        jw_obj(w, "schema");
        jw_str(w, "$ref", "#/components/schemas/Problem");
        for (int i = 0; i < 5; i++)
                jw_end(w);
        jw_obj(w, "securitySchemes");
        jw_obj(w, "token");
        jw_str(w, "type", "http");
        jw_str(w, "scheme", "bearer");
        for (int i = 0; i < 3; i++)
                jw_end(w);
}

char *openapi_text(const struct router *r, size_t *ret_len)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "openapi", "3.1.0");
        jw_obj(&w, "info");
        jw_str(&w, "title", "Sandbox Agent");
        jw_str(&w, "version", SA_VERSION);
        jw_str(&w, "description",
               "Runs coding agents in sandboxes and controls them from outside.");
        jw_end(&w);
        jw_arr(&w, "security");
        jw_obj(&w, NULL);
        jw_arr(&w, "token");
        for (int i = 0; i < 3; i++)
                jw_end(&w);
        put_paths(&w, r);
        put_components(&w);
        jw_end(&w);
        *ret_len = b.len;
        return buf_take(&b);
}

static int get_openapi(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        size_t len;
        _cleanup_free_ char *text = openapi_text(api->router, &len);

        return reply_json(r, 200, text, len);
}

const struct route api_openapi[] = {
        { "GET", "/openapi.json", get_openapi, .cli = "openapi",
          .doc = "This description of the API." },
        { 0 },
};

/* docs/openapi.json is this, printed for people, so that a change of the API shows as a diff. */
static int print_openapi(const void *values, const struct command_ctx *ctx, struct error *err)
{
        struct router *router = router_new(api_tables);
        const struct jval *doc;
        struct buf out = { 0 };
        struct arena a;
        size_t len;
        _cleanup_free_ char *text = openapi_text(router, &len);
        int n;

        arena_init(&a, 0);
        n = json_parse(&a, text, len, &doc, err);
        if (n == 0) {
                pretty_write(&out, doc);
                n = fd_write_all(STDOUT_FILENO, out.data, out.len, err);
        }
        buf_done(&out);
        arena_done(&a);
        router_free(router);
        return n;
}

const struct command api_docs_command = {
        .name = "docs openapi",
        .summary = "Print docs/openapi.json",
        .flags = CMD_HIDDEN,
        .run = print_openapi,
};
