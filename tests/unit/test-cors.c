#include "http/cors.h"

#include "base/macro.h"
#include "test.h"

static const char *const two_origins[] = { "http://a.example", "https://b.example", NULL };
static const char *const any_origin[] = { "*", NULL };

#define ORIGIN(o)  "access-control-allow-origin: " o "\r\n"
#define CREDS      "access-control-allow-credentials: true\r\n"
#define METHODS(m) "access-control-allow-methods: " m "\r\n"
#define HEADERS(h) "access-control-allow-headers: " h "\r\n"

static const struct {
        const char *name;
        struct cors cors;
        const char *origin, *ask_method, *ask_headers;
        const char *actual, *preflight;
} rows[] = {
        { "no flags", { 0 }, "http://a.example", "GET", "x-foo", "", METHODS("*") HEADERS("*") },
        { "no flags, no origin", { 0 }, NULL, NULL, NULL, "", METHODS("*") HEADERS("*") },
        { "listed origin",
          { .origins = two_origins },
          "https://b.example",
          "GET",
          NULL,
          ORIGIN("https://b.example"),
          ORIGIN("https://b.example") METHODS("*") HEADERS("*") },
        { "foreign origin",
          { .origins = two_origins },
          "https://c.example",
          "GET",
          NULL,
          "",
          METHODS("*") HEADERS("*") },
        { "origin that begins like a listed one",
          { .origins = two_origins },
          "http://a.example.evil",
          NULL,
          NULL,
          "",
          METHODS("*") HEADERS("*") },
        { "lists",
          { .methods = "GET,POST", .headers = "x-foo,content-type" },
          NULL,
          "PUT",
          "x-bar",
          "",
          METHODS("GET,POST") HEADERS("x-foo,content-type") },
        { "any origin",
          { .origins = any_origin },
          "http://a.example",
          "GET",
          NULL,
          ORIGIN("*"),
          ORIGIN("*") METHODS("*") HEADERS("*") },
        { "any origin, none sent",
          { .origins = any_origin },
          NULL,
          "GET",
          NULL,
          ORIGIN("*"),
          ORIGIN("*") METHODS("*") HEADERS("*") },
        { "credentials with lists",
          { .methods = "GET", .headers = "x-foo", .credentials = true },
          "http://c.example",
          "GET",
          "x-foo",
          CREDS,
          CREDS METHODS("GET") HEADERS("x-foo") },
        { "credentials repeat what is asked",
          { .origins = two_origins, .methods = "*", .headers = "*", .credentials = true },
          "http://a.example",
          "DELETE",
          "authorization, x-foo",
          ORIGIN("http://a.example") CREDS,
          ORIGIN("http://a.example") CREDS METHODS("DELETE") HEADERS("authorization, x-foo") },
        { "credentials, nothing asked", { .credentials = true }, NULL, NULL, NULL, CREDS, CREDS },
        { "credentials, any origin",
          { .origins = any_origin, .credentials = true },
          "http://z.example",
          "PUT",
          NULL,
          ORIGIN("http://z.example") CREDS,
          ORIGIN("http://z.example") CREDS METHODS("PUT") },
        { "credentials, any origin, none sent",
          { .origins = any_origin, .credentials = true },
          NULL,
          "PUT",
          NULL,
          CREDS,
          CREDS METHODS("PUT") },
        { "what is asked must be tokens",
          { .credentials = true },
          NULL,
          "GET\r\nx: y",
          "a\x01"
          "b",
          CREDS,
          CREDS },
        { "a reflected origin cannot end the line",
          { .origins = any_origin, .credentials = true },
          "http://a\r\nx: y",
          NULL,
          NULL,
          CREDS,
          CREDS },
};

TEST(cors_headers_follow_the_table)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _cleanup_(buf_done) struct buf actual = { 0 }, preflight = { 0 };

                buf_puts(&actual, "");
                buf_puts(&preflight, "");
                cors_put(&rows[i].cors, rows[i].origin, false, NULL, NULL, &actual);
                cors_put(&rows[i].cors, rows[i].origin, true, rows[i].ask_method,
                         rows[i].ask_headers, &preflight);
                EXPECT_STR(actual.data, rows[i].actual);
                EXPECT_STR(preflight.data, rows[i].preflight);
        }
}

TEST(cors_allows_listed_origins_only)
{
        struct cors none = { 0 }, two = { .origins = two_origins }, any = { .origins = any_origin };

        EXPECT(!cors_allows(&none, "http://a.example"));
        EXPECT(cors_allows(&two, "http://a.example"));
        EXPECT(!cors_allows(&two, "HTTP://A.example"));
        EXPECT(!cors_allows(&two, NULL));
        EXPECT(!cors_allows(&two, ""));
        EXPECT(cors_allows(&any, "null"));
        EXPECT(!cors_allows(&any, NULL));
}
