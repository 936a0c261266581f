#include "http/static.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/chunk.h"
#include "http/client.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/socket.h"
#include "test.h"

/* gzip of "hello hello hello\n", made with gzip -9n */
static const uint8_t hello_gz[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
        0x57, 0xc8, 0x40, 0x90, 0x5c, 0x00, 0x3b, 0x7c, 0x8a, 0xdf, 0x12, 0x00, 0x00, 0x00,
};
static const char hello[] = "hello hello hello\n";

#define FILE_ROW(path, type, etag, fixed)                                                          \
        {                                                                                          \
                path, type, hello_gz, sizeof(hello_gz), sizeof(hello) - 1, etag, fixed             \
        }

static const struct asset files[] = {
        FILE_ROW("assets/app-Bx3kQ_9a.js", "text/javascript; charset=utf-8", "W/\"aa\"", 1),
        FILE_ROW("index.html", "text/html; charset=utf-8", "W/\"bb\"", 0),
        FILE_ROW("style.css", "text/css; charset=utf-8", "W/\"cc\"", 0),
        { 0 },
};

TEST(static_find_falls_back_to_the_page)
{
        EXPECT_STR(static_find(files, "style.css")->path, "style.css");
        EXPECT_STR(static_find(files, "")->path, "index.html");
        EXPECT_STR(static_find(files, "sessions/42")->path, "index.html");
        EXPECT(!static_find(files, "missing.js"));
        EXPECT(!static_find(files, "../style.css"));
        EXPECT(!static_find(files, "Style.css"));
}

TEST(static_takes_gzip_reads_the_weights)
{
        static const struct {
                const char *text;
                bool want;
        } rows[] = {
                { NULL, false },        { "", false },
                { "gzip", true },       { "deflate, GZIP, br", true },
                { "gzip;q=0", false },  { "gzip; q=0.000", false },
                { "gzip;q=0.1", true }, { "*", true },
                { "*;q=0", false },     { "*;q=0, gzip", true },
                { "identity", false },  { "gzip;q=0, *", false },
                { "x-gzip", true },     { "gzipped", false },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                EXPECT_INT(static_takes_gzip(rows[i].text), rows[i].want);
}

TEST(static_etag_compares_weakly)
{
        EXPECT(static_etag_matches("W/\"aa\"", "W/\"aa\""));
        EXPECT(static_etag_matches("\"aa\"", "W/\"aa\""));
        EXPECT(static_etag_matches("\"x\", W/\"aa\"", "W/\"aa\""));
        EXPECT(static_etag_matches("*", "W/\"aa\""));
        EXPECT(!static_etag_matches("\"aaa\"", "W/\"aa\""));
        EXPECT(!static_etag_matches("aa", "W/\"aa\""));
        EXPECT(!static_etag_matches("", "W/\"aa\""));
        EXPECT(!static_etag_matches(NULL, "W/\"aa\""));
}

TEST(static_inflate_notices_damage)
{
        struct asset bad = files[0];
        struct error err = { 0 };
        struct chunk *c;

        EXPECT_OK(static_inflate(&files[0], &c, &err), err);
        EXPECT_INT(c->len, strlen(hello));
        EXPECT_MEM(c->data, hello, c->len);
        chunk_unref(c);
        bad.raw_len--;
        EXPECT_ERR(static_inflate(&bad, &c, &err), ERR_SYSTEM, err);
        bad = files[0];
        bad.gz_len -= 3;
        EXPECT_ERR(static_inflate(&bad, &c, &err), ERR_SYSTEM, err);
}

/* ---- through the server ---- */

static int serve(struct req *r, struct error *err)
{
        return static_serve(r, files, req_param(r, "path"), err);
}

static int serve_root(struct req *r, struct error *err)
{
        return static_serve(r, files, "", err);
}

static const struct route rows[] = {
        { "GET", "/ui", serve_root, R_OPEN | R_HIDDEN, .doc = "A file." },
        { "GET", "/ui/{path*}", serve, R_OPEN | R_HIDDEN, .doc = "A file." },
        { 0 },
};

struct site {
        struct loop *loop;
        struct router *router;
        struct http_server *server;
};

static void site_open(struct site *s)
{
        const struct route *const tables[] = { rows, NULL };
        struct listen_spec where = { .host = "127.0.0.1", .fd = -1, .backlog = 8 };
        struct error err = { 0 };

        s->loop = loop_new();
        s->router = router_new(tables);
        s->server = http_server_new(
                s->loop,
                &(struct http_server_spec) { .router = s->router, .limits = http_limits_default });
        EXPECT_OK(http_server_listen(s->server, &where, &err), err);
}

static void site_close(struct site *s)
{
        http_server_free(s->server);
        loop_free(s->loop);
        router_free(s->router);
}

/* One request whose answer is kept with its headers. */
struct got {
        struct http_call *call;
        int status;
        struct buf body;
        char etag[32], cache[64], encoding[16], policy[256], length[16];
        bool is_over, has_failed;
};

static void copy_header(struct got *g, const char *name, char *to, size_t size)
{
        (void) snprintf(to, size, "%s", http_call_header(g->call, name) ?: "");
}

static void got_head(void *arg, int status)
{
        struct got *g = arg;

        g->status = status;
        copy_header(g, "etag", g->etag, sizeof(g->etag));
        copy_header(g, "cache-control", g->cache, sizeof(g->cache));
        copy_header(g, "content-encoding", g->encoding, sizeof(g->encoding));
        copy_header(g, "content-security-policy", g->policy, sizeof(g->policy));
        copy_header(g, "content-length", g->length, sizeof(g->length));
}

static void got_data(void *arg, const char *data, size_t len)
{
        buf_put(&((struct got *) arg)->body, data, len);
}

static void got_end(void *arg, const struct error *why)
{
        struct got *g = arg;

        g->has_failed = why;
        g->is_over = true;
}

static const struct http_call_cb got_events = { got_head, got_data, NULL, got_end };

static void get(struct site *s, const char *method, const char *path, const char *header,
                struct got *g)
{
        const char *const headers[] = { header, NULL };
        struct error err = { 0 };
        char url[128];

        *g = (struct got) { 0 };
        buf_puts(&g->body, "");
        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", http_server_port(s->server),
                        path);
        EXPECT_OK(http_call_new(s->loop,
                                &(struct http_call_spec) {
                                        .method = method, .url = url, .headers = headers },
                                &got_events, g, &g->call, &err),
                  err);
        EXPECT(loop_run_until(s->loop, &g->is_over, 10000));
        EXPECT(!g->has_failed);
        http_call_free(g->call);
}

TEST(static_serves_plain_and_compressed)
{
        struct site s;
        struct got g;

        site_open(&s);
        get(&s, "GET", "/ui/style.css", NULL, &g);
        EXPECT_INT(g.status, 200);
        EXPECT_STR(g.body.data, hello);
        EXPECT_STR(g.encoding, "");
        EXPECT_STR(g.etag, "W/\"cc\"");
        EXPECT_STR(g.cache, "no-cache");
        EXPECT_STR(g.policy, "");
        buf_done(&g.body);
        get(&s, "GET", "/ui/assets/app-Bx3kQ_9a.js", "Accept-Encoding: gzip, deflate", &g);
        EXPECT_STR(g.encoding, "gzip");
        EXPECT_STR(g.cache, "public, max-age=31536000, immutable");
        EXPECT_INT(g.body.len, sizeof(hello_gz));
        EXPECT_MEM(g.body.data, hello_gz, sizeof(hello_gz));
        buf_done(&g.body);
        site_close(&s);
}

TEST(static_answers_the_page_with_a_policy_and_misses_with_nothing)
{
        struct site s;
        struct got g;

        site_open(&s);
        get(&s, "GET", "/ui", NULL, &g);
        EXPECT_INT(g.status, 200);
        EXPECT(str_starts(g.policy,
                          "default-src 'self'; connect-src 'self' ws: wss: http: https:;"));
        buf_done(&g.body);
        get(&s, "GET", "/ui/some/view", NULL, &g);
        EXPECT_INT(g.status, 200);
        EXPECT_STR(g.etag, "W/\"bb\"");
        buf_done(&g.body);
        get(&s, "GET", "/ui/missing.png", NULL, &g);
        EXPECT_INT(g.status, 404);
        EXPECT_STR(g.body.data, "");
        buf_done(&g.body);
        site_close(&s);
}

TEST(static_answers_304_and_head)
{
        struct site s;
        struct got g;

        site_open(&s);
        get(&s, "GET", "/ui/style.css", "If-None-Match: W/\"cc\"", &g);
        EXPECT_INT(g.status, 304);
        EXPECT_STR(g.etag, "W/\"cc\"");
        EXPECT_STR(g.body.data, "");
        buf_done(&g.body);
        get(&s, "HEAD", "/ui/style.css", NULL, &g);
        EXPECT_INT(g.status, 200);
        EXPECT_STR(g.length, "18");
        EXPECT_STR(g.body.data, "");
        buf_done(&g.body);
        site_close(&s);
}
