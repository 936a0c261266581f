#include "api/policy.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/option.h"
#include "base/secret.h"
#include "http/cors.h"
#include "http/req.h"
#include "http/server.h"
#include "io/socket.h"
#include "json/bind.h"
#include "json/json.h"

enum { CREDENTIAL_MAX = 4096 };

struct token {
        char *name;
        struct secret *text;
        unsigned scopes;
        int64_t expires_us; /* real time; 0 = never */
};

struct policy {
        struct token *tokens;
        size_t n_tokens;
        bool is_guarded;
        const char *bind_host;
        const struct option_list *allowed;
        const struct cors *cors;
};

struct policy *policy_new(void)
{
        return NEW(struct policy);
}

struct policy *policy_free(struct policy *p)
{
        if (!p)
                return NULL;
        for (size_t i = 0; i < p->n_tokens; i++) {
                free(p->tokens[i].name);
                secret_free(p->tokens[i].text);
        }
        free(p->tokens);
        free(p);
        return NULL;
}

static void add(struct policy *p, const char *name, struct secret *text, unsigned scopes,
                int64_t expires_us)
{
        p->tokens = xrealloc(p->tokens, (p->n_tokens + 1) * sizeof(*p->tokens));
        p->tokens[p->n_tokens++] = (struct token) { xstrdup(name), text, scopes, expires_us };
}

void policy_add_token(struct policy *p, const char *name, const char *text, size_t len)
{
        add(p, name, secret_new(text, len), SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN, 0);
}

/* ---- the token file ---- */

struct token_row {
        const char *name, *token, *expires;
        struct strv scopes;
};
struct token_file {
        struct objv tokens;
};
static const struct field token_fields[] = {
        { "name", F_STR, F_REQUIRED, offsetof(struct token_row, name), 64,
          .doc = "shown in the log" },
        { "token", F_STR, F_REQUIRED | F_SECRET, offsetof(struct token_row, token), CREDENTIAL_MAX,
          .doc = "the credential" },
        { "scopes", F_STRV, F_REQUIRED, offsetof(struct token_row, scopes), 3,
          .doc = "read, write, admin" },
        { "expires", F_STR, 0, offsetof(struct token_row, expires), 40,
          .doc = "RFC 3339; never when absent" },
        { 0 },
};
static const struct field file_fields[] = {
        { "tokens", F_OBJV, F_REQUIRED, offsetof(struct token_file, tokens), POLICY_TOKENS_MAX,
          .sub = token_fields, .sub_size = sizeof(struct token_row), .doc = "the tokens" },
        { 0 },
};

static const struct {
        const char *name;
        unsigned bits;
} scope_names[] = {
        { "read", SCOPE_READ },
        { "write", SCOPE_READ | SCOPE_WRITE },
        { "admin", SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN },
};

static int scope_bits(const struct strv *names, unsigned *ret, struct error *err)
{
        *ret = 0;
        for (size_t i = 0; i < names->n; i++) {
                size_t k = 0;

                while (k < ARRAY_LEN(scope_names) && strcmp(scope_names[k].name, names->at[i]) != 0)
                        k++;
                if (k == ARRAY_LEN(scope_names))
                        return error_set(err, ERR_INVALID, 0,
                                         "scope '%s' is not read, write or admin", names->at[i]);
                *ret |= scope_names[k].bits;
        }
        return 0;
}

static int add_row(struct policy *p, const struct token_row *row, struct error *err)
{
        unsigned scopes;
        int64_t expires_us = 0;

        if (!row->token[0])
                return error_set(err, ERR_INVALID, 0, "token '%s' is empty", row->name);
        if (scope_bits(&row->scopes, &scopes, err) < 0)
                return error_wrap(err, "token '%s'", row->name);
        if (row->expires && !clock_parse_rfc3339(row->expires, &expires_us))
                return error_set(err, ERR_INVALID, 0, "token '%s': '%s' is not an RFC 3339 time",
                                 row->name, row->expires);
        add(p, row->name, secret_new(row->token, strlen(row->token)), scopes, expires_us);
        return 0;
}

static int add_text(struct policy *p, struct arena *a, const struct buf *text, struct error *err)
{
        struct token_file file = { 0 };
        const struct token_row *rows;
        const struct jval *doc;

        if (json_parse(a, text->data ?: "", text->len, &doc, err) < 0)
                return -1;
        if (json_bind(a, doc, file_fields, &file, err) < 0)
                return -1;
        rows = file.tokens.at;
        for (size_t i = 0; i < file.tokens.n; i++)
                if (add_row(p, &rows[i], err) < 0)
                        return -1;
        if (!file.tokens.n)
                return error_set(err, ERR_INVALID, 0, "it names no token");
        return 0;
}

int policy_add_file(struct policy *p, const char *path, struct error *err)
{
        struct buf text = { .max_bytes = POLICY_FILE_MAX };
        struct arena a;
        int n;

        arena_init(&a, 0);
        n = file_read(path, &text, err);
        if (n == 0) {
                n = add_text(p, &a, &text, err);
                if (n < 0)
                        (void) error_wrap(err, "token file '%s'", path);
        }
        if (text.data)
                explicit_bzero(text.data, text.len);
        buf_done(&text);
        arena_done(&a);
        return n;
}

bool policy_is_open(const struct policy *p)
{
        return p->n_tokens == 0;
}

/* ---- credentials ---- */

static struct slice basic_password(struct arena *a, const char *b64)
{
        size_t len = strlen(b64);
        unsigned char *out;
        char *colon;
        int n;

        if (!len || len > CREDENTIAL_MAX || len % 4)
                return (struct slice) { 0 };
        out = arena_alloc(a, len + 1);
        n = EVP_DecodeBlock(out, (const unsigned char *) b64, (int) len);
        if (n < 0)
                return (struct slice) { 0 };
        n -= (b64[len - 1] == '=') + (b64[len - 2] == '=');
        out[n] = '\0';
        colon = memchr(out, ':', (size_t) n);
        if (!colon)
                return (struct slice) { 0 };
        return (struct slice) { colon + 1, (size_t) ((char *) out + n - colon - 1) };
}

static struct slice credential(struct req *r, bool is_ws)
{
        const char *auth = req_header(r, "authorization");
        const char *query;

        if (auth && strncasecmp(auth, "bearer ", 7) == 0)
                return SLICE(auth + 7);
        if (auth && strncasecmp(auth, "token ", 6) == 0)
                return SLICE(auth + 6);
        if (auth && strncasecmp(auth, "basic ", 6) == 0)
                return basic_password(req_arena(r), auth + 6);
        /* Browsers cannot set headers on WebSockets; anywhere else the address would leak it. */
        query = is_ws ? query_get(req_arena(r), req_query_text(r), "access_token") : NULL;
        return query ? SLICE(query) : (struct slice) { 0 };
}

bool policy_authenticate(void *arg, struct req *r, bool is_ws, const char **ret_name,
                         unsigned *ret_scopes)
{
        const struct policy *p = arg;
        struct slice given = credential(r, is_ws);
        const struct token *found = NULL;

        if (!p->n_tokens)
                return true;
        if (!given.at || given.len > CREDENTIAL_MAX)
                return false;
        /* All are compared: time tells neither which one matched nor how far. */
        for (size_t i = 0; i < p->n_tokens; i++)
                if (secret_matches(p->tokens[i].text, given.at, given.len))
                        found = &p->tokens[i];
        if (!found || (found->expires_us && found->expires_us <= clock_real_us()))
                return false;
        *ret_name = found->name;
        *ret_scopes = found->scopes;
        return true;
}

/* ---- Host and Origin ---- */

void policy_guard_loopback(struct policy *p, const char *bind_host,
                           const struct option_list *allowed, const struct cors *cors)
{
        p->is_guarded = true;
        p->bind_host = bind_host;
        p->allowed = allowed;
        p->cors = cors;
}

/* "name:port", "[::1]:port" → name. */
static struct slice host_name(struct slice host)
{
        const char *colon;

        if (host.len && host.at[0] == '[') {
                const char *end = memchr(host.at, ']', host.len);

                return end ? (struct slice) { host.at + 1, (size_t) (end - host.at - 1) } : host;
        }
        colon = memchr(host.at, ':', host.len);
        return colon ? (struct slice) { host.at, (size_t) (colon - host.at) } : host;
}

static bool is_our_name(const struct policy *p, struct slice name)
{
        char text[256];

        if (name.len >= sizeof(text))
                return false;
        memcpy(text, name.at, name.len);
        text[name.len] = '\0';
        if (socket_host_is_loopback(text) || strcasecmp(text, p->bind_host) == 0)
                return true;
        /* The SDK's name for a server that it reaches by its own fetch; nobody can register it. */
        if (strcasecmp(text, "sandbox-agent") == 0 ||
            (name.len > 10 && str_ends(text, ".localhost")))
                return true;
        for (size_t i = 0; i < p->allowed->n; i++)
                if (strcasecmp(text, p->allowed->at[i]) == 0)
                        return true;
        return false;
}

static bool is_own_origin(const char *origin, struct slice host)
{
        const char *at = strstr(origin, "://");

        return at && strlen(at + 3) == host.len && strncasecmp(at + 3, host.at, host.len) == 0;
}

static bool may_change(struct req *r)
{
        struct slice m = req_method(r);

        return !(slice_eq(m, "GET") || slice_eq(m, "HEAD")) || req_header(r, "upgrade");
}

int policy_admit(void *arg, struct req *r, struct error *err)
{
        const struct policy *p = arg;
        const char *origin = req_header(r, "origin");
        struct slice host = req_host(r);

        if (!p->is_guarded)
                return 0;
        /* HTTP/1.0 may come without a host; no browser speaks it. */
        if ((host.len || req_header(r, "host")) && !is_our_name(p, host_name(host)))
                return error_set(err, ERR_FORBIDDEN, 0,
                                 "host '%.*s' is not a name of this server (--allowed-host)",
                                 (int) MIN(host.len, 100u), host.at);
        if (!origin || !may_change(r) || is_own_origin(origin, host) ||
            cors_allows(p->cors, origin))
                return 0;
        return error_set(err, ERR_FORBIDDEN, 0,
                         "origin '%.100s' may not do this (--cors-allow-origin)", origin);
}
