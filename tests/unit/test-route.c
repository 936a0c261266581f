#include <stdio.h>

#include "api/api.h"
#include "http/route.h"
#include "test.h"

static int nothing(struct req *r, struct error *err)
{
        return 0;
}

static const struct route rows[] = {
        { "GET", "/v1/things", nothing, .doc = "list" },
        { "POST", "/v1/things", nothing, .doc = "add" },
        { "GET", "/v1/things/{id}", nothing, .doc = "one" },
        { "DELETE", "/v1/things/{id}", nothing, .doc = "away" },
        { "GET", "/v1/things/special", nothing, .doc = "literal beside a pattern" },
        { "GET", "/v1/things/{id}/parts/{part}", nothing, .doc = "two" },
        { "GET", "/open", nothing, R_OPEN, .doc = "open" },
        { "PUT", "/open", nothing, .doc = "not open" },
        { "GET", "/host", nothing, R_HOST, .doc = "of the host" },
        { "GET", "/files/{path*}", nothing, R_OPEN, .doc = "the rest" },
        { "*", "/any/{rest*}", nothing, .doc = "whatever" },
        { "*", "/mixed", nothing, .doc = "whatever else" },
        { "GET", "/mixed", nothing, .doc = "its own" },
        { "GET", "/{a}/{b}/{c}/{d}/{e}/{f}", nothing, .doc = "as many as there can be" },
        { 0 },
};

static struct router *make(void)
{
        static const struct route *const tables[] = { rows, NULL };

        return router_new(tables);
}

static struct route_match find(const struct router *r, const char *method, const char *path)
{
        struct route_match m;

        router_find(r, SLICE(method), SLICE(path), &m);
        return m;
}

static void expect_doc(const struct router *r, const char *method, const char *path,
                       const char *want)
{
        struct route_match m = find(r, method, path);

        EXPECT_STR(m.row ? m.row->doc : "none", want);
}

TEST(router_prefers_the_literal_path)
{
        struct router *r = make();

        expect_doc(r, "GET", "/v1/things", "list");
        expect_doc(r, "GET", "/v1/things/special", "literal beside a pattern");
        expect_doc(r, "GET", "/v1/things/other", "one");
        expect_doc(r, "DELETE", "/v1/things/special",
                   "none"); /* the literal path has no such method */
        expect_doc(r, "GET", "/v1/things/a/parts/b", "two");
        router_free(r);
}

TEST(router_keeps_paths_as_sent)
{
        static const char *const unknown[] = {
                "",
                "/",
                "v1/things",
                "/v1/things/",
                "/v1//things",
                "/v1/Things",
                "/v1%2Fthings",
                "/v1/things/a/",
                "/v1/things//parts/b",
                "*",
                "/v1/things/a/parts",
                "/v1/../v1/things",
        };
        struct router *r = make();

        for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
                struct route_match m = find(r, "GET", unknown[i]);

                if (m.row || m.allow)
                        test_fail(TEST_AT, "'%s' was found", unknown[i]);
                EXPECT_INT(m.n_params, 0);
        }
        router_free(r);
}

TEST(router_gives_parameters_in_order_with_their_names)
{
        struct router *r = make();
        struct route_match m = find(r, "GET", "/v1/things/a%20b/parts/7");

        EXPECT_INT(m.n_params, 2);
        EXPECT(slice_eq(m.params[0], "a%20b"));
        EXPECT(slice_eq(m.params[1], "7"));
        EXPECT(slice_eq(route_param_name(m.row, 0), "id"));
        EXPECT(slice_eq(route_param_name(m.row, 1), "part"));
        EXPECT_INT(route_param_name(m.row, 2).len, 0);
        m = find(r, "GET", "/1/2/3/4/5/6");
        EXPECT_INT(m.n_params, ROUTE_PARAMS_MAX);
        EXPECT(slice_eq(m.params[5], "6"));
        EXPECT(slice_eq(route_param_name(m.row, 5), "f"));
        EXPECT(!find(r, "GET", "/1/2/3/4/5/6/7").row);
        router_free(r);
}

TEST(router_wildcard_takes_the_rest_with_its_slashes)
{
        struct router *r = make();
        struct route_match m = find(r, "GET", "/files/a/b//c");

        EXPECT_INT(m.n_params, 1);
        EXPECT(slice_eq(m.params[0], "a/b//c"));
        EXPECT(slice_eq(route_param_name(m.row, 0), "path"));
        m = find(r, "GET", "/files/");
        EXPECT(m.row && slice_eq(m.params[0], ""));
        EXPECT(!find(r, "GET", "/files").row);
        router_free(r);
}

TEST(router_answers_head_with_get_and_lists_methods_in_table_order)
{
        struct router *r = make();

        expect_doc(r, "HEAD", "/v1/things", "list");
        EXPECT_STR(find(r, "GET", "/v1/things").allow, "GET,HEAD,POST");
        EXPECT_STR(find(r, "BREW", "/v1/things/x").allow, "GET,HEAD,DELETE");
        expect_doc(r, "BREW", "/v1/things/x", "none");
        expect_doc(r, "get", "/v1/things", "none");
        EXPECT(!find(r, "GET", "/nowhere").allow);
        router_free(r);
}

TEST(router_row_of_any_method_answers_what_no_other_does)
{
        static const char *const methods[] = { "GET",    "HEAD",    "POST",     "PUT", "PATCH",
                                               "DELETE", "OPTIONS", "PROPFIND", "get", "*" };
        struct router *r = make();

        for (size_t i = 0; i < ARRAY_LEN(methods); i++)
                expect_doc(r, methods[i], "/any/a/b", "whatever");
        EXPECT_STR(find(r, "GET", "/any/").allow, "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS");
        expect_doc(r, "GET", "/any", "none");
        expect_doc(r, "GET", "/mixed", "its own");
        expect_doc(r, "HEAD", "/mixed", "its own");
        expect_doc(r, "POST", "/mixed", "whatever else");
        EXPECT_STR(find(r, "GET", "/mixed").allow, "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS");
        EXPECT(route_is_any(find(r, "PUT", "/mixed").row));
        EXPECT(!route_is_any(find(r, "GET", "/mixed").row));
        router_free(r);
}

TEST(router_says_for_a_path_whether_it_is_protected_and_whose_it_is)
{
        struct router *r = make();

        EXPECT(find(r, "GET", "/v1/things").needs_auth);
        EXPECT(find(r, "BREW", "/v1/things").needs_auth);
        EXPECT(!find(r, "GET", "/files/x").needs_auth);
        EXPECT(find(r, "GET", "/open").needs_auth); /* one of its rows is; the row itself decides */
        EXPECT(!find(r, "GET", "/nowhere").needs_auth);
        EXPECT(find(r, "BREW", "/host").is_host);
        EXPECT(!find(r, "GET", "/open").is_host);
        router_free(r);
}

TEST(router_walks_its_rows_in_table_order)
{
        struct router *r = make();
        size_t n = 0;

        for (; router_row(r, n); n++)
                EXPECT(router_row(r, n) == &rows[n]);
        EXPECT_INT(n, ARRAY_LEN(rows) - 1);
        router_free(r);
}

/* ---- the product's own rows ---- */

static void expect_sound(const struct route *row, const struct field *table, size_t size,
                         const char *what)
{
        const char *fault = table ? field_table_fault(table) : NULL;

        if (fault)
                test_fail(TEST_AT, "%s %s: %s: %s", row->method, row->path, what, fault);
        if (table && table[0].name && !size)
                test_fail(TEST_AT, "%s %s: %s has no size", row->method, row->path, what);
}

TEST(all_rows_of_the_api_are_sound)
{
        struct router *r = router_new(api_tables);
        const struct route *row;
        size_t n = 0;

        for (; (row = router_row(r, n)); n++) {
                expect_sound(row, row->body, row->body_size, "body");
                expect_sound(row, row->query, row->query_size, "query");
                expect_sound(row, row->reply, 1, "reply");
                EXPECT(row->doc[0]);
        }
        EXPECT(n > 0);
        router_free(r);
}

/* A row is open on purpose only: this is the list. */
TEST(only_the_page_and_the_root_are_open)
{
        struct router *r = router_new(api_tables);
        const struct route *row;

        for (size_t i = 0; (row = router_row(r, i)); i++)
                if ((row->flags & R_OPEN) && strcmp(row->path, "/") != 0 &&
                    strncmp(row->path, "/ui", 3) != 0)
                        test_fail(TEST_AT, "%s %s is open", row->method, row->path);
        router_free(r);
}
