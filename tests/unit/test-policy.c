/* Who may come in: tokens with scopes and expiry, the ways to show one, Host and Origin. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/policy.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/option.h"
#include "http/conn.h"
#include "http/cors.h"
#include "http/req.h"
#include "http/server.h"
#include "test.h"

enum { ALL = SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN };

/* A request that has only what a policy looks at. */
struct visit {
        struct req req;
        struct header headers[8];
};

static struct req *visit(struct visit *v, const char *method, const char *host)
{
        *v = (struct visit) { .req.headers = v->headers };
        arena_init(&v->req.arena, 0);
        (void) snprintf(v->req.method, sizeof(v->req.method), "%s", method);
        if (host) {
                v->req.host = SLICE(host);
                v->headers[v->req.n_headers++] = (struct header) { SLICE("host"), SLICE(host) };
        }
        return &v->req;
}

static void with(struct visit *v, const char *name, const char *value)
{
        v->headers[v->req.n_headers++] = (struct header) { SLICE(name), SLICE(value) };
}

/* The scopes that a credential gets, 0 for none. */
static unsigned scopes_of(struct policy *p, const char *authorization, const char *query,
                          bool is_ws)
{
        struct visit v;
        const char *name = "";
        unsigned scopes = 0;
        bool ok;

        (void) visit(&v, "GET", "localhost");
        if (authorization)
                with(&v, "authorization", authorization);
        if (query)
                v.req.query = SLICE(query);
        ok = policy_authenticate(p, &v.req, is_ws, &name, &scopes);
        arena_done(&v.req.arena);
        EXPECT(ok || !scopes);
        EXPECT(!ok || name[0]);
        return scopes;
}

/* "s3cret": Basic is base64 of "user:password". */
TEST(policy_takes_a_token_in_every_documented_way)
{
        struct policy *p = policy_new();

        EXPECT(policy_is_open(p));
        policy_add_token(p, "main", "s3cret", 6);
        EXPECT(!policy_is_open(p));
        EXPECT_INT(scopes_of(p, "Bearer s3cret", NULL, false), ALL);
        EXPECT_INT(scopes_of(p, "bearer s3cret", NULL, false), ALL);
        EXPECT_INT(scopes_of(p, "Token s3cret", NULL, false), ALL);
        EXPECT_INT(scopes_of(p, "Basic b3BlbmNvZGU6czNjcmV0", NULL, false), ALL);
        EXPECT_INT(scopes_of(p, "Basic OnMzY3JldA==", NULL, false), ALL); /* no user name */
        EXPECT_INT(scopes_of(p, NULL, "access_token=s3cret", true), ALL);
        EXPECT_INT(scopes_of(p, NULL, "a=b&access_token=s3cre%74", true), ALL);
        policy_free(p);
}

TEST(policy_refuses_everything_else)
{
        static const char *const bad[] = {
                "Bearer ",
                "Bearer s3cre",
                "Bearer s3crets",
                "Bearer  s3cret",
                "Bearer s3cret ",
                "Bearer S3CRET",
                "s3cret",
                "Basic s3cret",
                "Basic czNjcmV0",
                "Basic",
                "Basic ====",
                "Basic !!!!",
                "Digest s3cret",
                "Basic czNjcmV0OnVzZXI=",
                "", /* "s3cret:user" */
        };
        struct policy *p = policy_new();

        policy_add_token(p, "main", "s3cret", 6);
        EXPECT_INT(scopes_of(p, NULL, NULL, false), 0);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                if (scopes_of(p, bad[i], NULL, false))
                        test_fail(TEST_AT, "'%s' was let in", bad[i]);
        EXPECT_INT(scopes_of(p, NULL, "access_token=s3cret", false), 0); /* WebSockets only */
        EXPECT_INT(scopes_of(p, NULL, "access_token=", true), 0);
        EXPECT_INT(scopes_of(p, "Bearer wrong", "access_token=s3cret", true), 0);
        policy_free(p);
}

TEST(policy_refuses_a_credential_over_the_limit_in_size)
{
        struct policy *p = policy_new();
        char *text = malloc(8000);

        memset(text, 'x', 8000);
        memcpy(text, "Bearer ", 7);
        text[7 + 4096] = '\0';
        policy_add_token(p, "long", text + 7, 4096);
        EXPECT_INT(scopes_of(p, text, NULL, false), ALL);
        text[7 + 4096] = 'x';
        text[7 + 4097] = '\0';
        policy_add_token(p, "longer", text + 7, 4097);
        EXPECT_INT(scopes_of(p, text, NULL, false), 0);
        free(text);
        policy_free(p);
}

/* ---- token files ---- */

static int add_file(struct policy *p, const char *text, struct error *err)
{
        char path[] = "/tmp/sa-unit-XXXXXX";
        int fd = mkstemp(path), n;

        EXPECT(fd >= 0);
        EXPECT_INT(write(fd, text, strlen(text)), strlen(text));
        (void) close(fd);
        n = policy_add_file(p, path, err);
        (void) unlink(path);
        return n;
}

TEST(policy_file_gives_scopes_and_each_includes_the_lower_ones)
{
        struct policy *p = policy_new();
        struct error err = { 0 };

        EXPECT_OK(add_file(p,
                           "{\"tokens\":[{\"name\":\"r\",\"token\":\"rrr\",\"scopes\":[\"read\"]},"
                           "{\"name\":\"w\",\"token\":\"www\",\"scopes\":[\"write\"]},"
                           "{\"name\":\"a\",\"token\":\"aaa\",\"scopes\":[\"admin\"]}]}",
                           &err),
                  err);
        EXPECT_INT(scopes_of(p, "Bearer rrr", NULL, false), SCOPE_READ);
        EXPECT_INT(scopes_of(p, "Bearer www", NULL, false), SCOPE_READ | SCOPE_WRITE);
        EXPECT_INT(scopes_of(p, "Bearer aaa", NULL, false), ALL);
        policy_free(p);
}

TEST(policy_token_counts_until_it_expires)
{
        char soon[CLOCK_TEXT_MAX], past[CLOCK_TEXT_MAX], text[400];
        struct policy *p = policy_new();
        struct error err = { 0 };

        clock_rfc3339(clock_real_us() + 60 * 1000000, soon);
        clock_rfc3339(clock_real_us() - 1, past);
        (void) snprintf(text, sizeof(text),
                        "{\"tokens\":[{\"name\":\"a\",\"token\":\"new\",\"scopes\":[\"read\"],"
                        "\"expires\":\"%s\"},{\"name\":\"b\",\"token\":\"old\",\"scopes\":"
                        "[\"admin\"],\"expires\":\"%s\"}]}",
                        soon, past);
        EXPECT_OK(add_file(p, text, &err), err);
        EXPECT_INT(scopes_of(p, "Bearer new", NULL, false), SCOPE_READ);
        EXPECT_INT(scopes_of(p, "Bearer old", NULL, false), 0);
        policy_free(p);
}

TEST(policy_file_that_is_wrong_is_refused_with_its_reason)
{
        static const struct {
                const char *text, *reason;
        } cases[] = {
                { "", "" },
                { "[]", "" },
                { "{\"tokens\":[]}", "names no token" },
                { "{\"tokens\":[{\"name\":\"a\",\"scopes\":[\"read\"]}]}", "token" },
                { "{\"tokens\":[{\"name\":\"a\",\"token\":\"\",\"scopes\":[\"read\"]}]}", "empty" },
                { "{\"tokens\":[{\"name\":\"a\",\"token\":\"t\",\"scopes\":[\"root\"]}]}",
                  "scope 'root'" },
                { "{\"tokens\":[{\"name\":\"a\",\"token\":\"t\",\"scopes\":[\"read\"],\"expires\":"
                  "\"soon\"}]}",
                  "'soon' is not an RFC 3339 time" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct policy *p = policy_new();
                struct error err = { 0 };

                EXPECT_INT(add_file(p, cases[i].text, &err), -1);
                EXPECT(strstr(err.msg, "token file '/tmp/"));
                if (!strstr(err.msg, cases[i].reason))
                        test_fail(TEST_AT, "'%s' does not say '%s'", err.msg, cases[i].reason);
                policy_free(p);
        }
}

/* ---- Host and Origin ---- */

static const char *const allowed_names[] = { "box.example" };
static const char *const cors_origins[] = { "http://friend.example", NULL };
static const struct option_list allowed = { (const char **) allowed_names, 1 };
static const struct cors cors = { .origins = cors_origins };

static bool admits(struct policy *p, const char *method, const char *host, const char *origin,
                   bool is_upgrade)
{
        struct error err = { 0 };
        struct visit v;
        int n;

        (void) visit(&v, method, host);
        if (origin)
                with(&v, "origin", origin);
        if (is_upgrade)
                with(&v, "upgrade", "websocket");
        n = policy_admit(p, &v.req, &err);
        EXPECT(n == 0 || err.kind == ERR_FORBIDDEN);
        return n == 0;
}

TEST(policy_guard_admits_our_own_names_only)
{
        static const char *const ours[] = {
                "localhost",   "localhost:2468", "127.0.0.1:1", "[::1]:2468",    "LocalHost",
                "box.example", "BOX.example:80", "a.localhost", "sandbox-agent", "10.1.2.3:2468",
        };
        static const char *const others[] = {
                "evil.example",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "",
                "evil.example:2468",
                "10.1.2.4",
                "[::2]",
                "[::1",
                ".localhost",
                "xbox.example",
                ":2468",
        };
        struct policy *p = policy_new();

        EXPECT(admits(p, "POST", "evil.example", "http://evil.example", false)); /* not guarded */
        policy_guard_loopback(p, "10.1.2.3", &allowed, &cors);
        for (size_t i = 0; i < ARRAY_LEN(ours); i++)
                if (!admits(p, "GET", ours[i], NULL, false))
                        test_fail(TEST_AT, "'%s' was refused", ours[i]);
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                if (admits(p, "GET", others[i], NULL, false))
                        test_fail(TEST_AT, "'%s' was let in", others[i]);
        EXPECT(admits(p, "GET", NULL, NULL, false)); /* HTTP/1.0 */
        policy_free(p);
}

TEST(policy_guard_keeps_foreign_origins_from_changing_things)
{
        static const char *const foreign[] = {
                "http://evil.example",
                "null",
                "",
                "localhost:2468",
                "http://localhost:9",
                "http://friend.example.evil",
                "http://localhost:2468.evil",
        };
        struct policy *p = policy_new();

        policy_guard_loopback(p, "127.0.0.1", &allowed, &cors);
        for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
                EXPECT(!admits(p, "POST", "localhost:2468", foreign[i], false));
                EXPECT(!admits(p, "DELETE", "localhost:2468", foreign[i], false));
                EXPECT(!admits(p, "GET", "localhost:2468", foreign[i], true)); /* WebSocket */
                EXPECT(admits(p, "GET", "localhost:2468", foreign[i], false));
        }
        EXPECT(admits(p, "POST", "localhost:2468", NULL, false));
        EXPECT(admits(p, "POST", "localhost:2468", "http://localhost:2468", false));
        EXPECT(admits(p, "POST", "localhost:2468", "http://LOCALHOST:2468", false));
        EXPECT(admits(p, "POST", "localhost:2468", "http://friend.example", false));
        policy_free(p);
}
