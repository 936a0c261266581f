/* From a parsed head to a handler: the checks that every request passes, in one order.
 *
 *   head:     HTTP rules beyond the parser → target → preflight → Host/Origin → route → auth →
 * method → scope → role → headers of SSE and WebSocket rows → body limit → 100 Continue complete:
 * query table → JSON body → body table → handler
 *
 * A failure at the head is answered at the end of a small body, so that the connection can be kept.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "http/conn.h"
#include "http/cors.h"
#include "http/req.h"
#include "json/json.h"

enum { WS_KEY_LEN = 24 };

/* ---- head ---- */

static size_t count_header(struct req *r, const char *name)
{
        size_t n = 0;

        for (size_t i = 0; i < r->n_headers; i++)
                n += slice_eq(r->headers[i].name, name);
        return n;
}

/* What the parser lets pass and we do not: everything that two servers could read differently. */
static int check_framing(struct req *r, struct error *err)
{
        const char *te = req_header(r, "transfer-encoding");
        size_t n_host = count_header(r, "host");

        for (size_t i = 0; i < r->n_headers; i++)
                if (strpbrk(r->headers[i].value.at, "\r\n"))
                        return error_set(err, ERR_INVALID, 0,
                                         "a header value is folded over lines");
        if (te && (count_header(r, "transfer-encoding") > 1 || strcasecmp(te, "chunked") != 0))
                return error_set(err, ERR_INVALID, 0, "transfer-encoding must be 'chunked', once");
        if (te && (count_header(r, "content-length") || r->is_http10))
                return error_set(err, ERR_INVALID, 0,
                                 "transfer-encoding does not go with content-length or HTTP/1.0");
        if (count_header(r, "content-length") > 1)
                return error_set(err, ERR_INVALID, 0, "more than one content-length");
        if (n_host > 1 || (n_host == 0 && !r->is_http10))
                return error_set(err, ERR_INVALID, 0, "one Host header is needed");
        return 0;
}

static int check_version(struct req *r, struct error *err)
{
        const llhttp_t *p = &r->conn->parser;

        if (p->http_major == 1 && p->http_minor <= 1)
                return 0;
        return error_set(err, ERR_HTTP_VERSION, 0, "this is not HTTP/1.0 or HTTP/1.1");
}

/* "name", "name:port", "[v6]:port". What stands in front of the port is for the policy to judge. */
static bool is_host(struct slice h)
{
        const char *end = h.len && h.at[0] == '[' ? memchr(h.at, ']', h.len) : NULL;
        size_t i = end ? (size_t) (end - h.at) + 1 : 0;
        const char *colon = memchr(h.at + i, ':', h.len - i);
        size_t name = colon ? (size_t) (colon - h.at) : h.len;

        if (h.len && h.at[0] == '[' && (!end || name != i))
                return false;
        for (size_t k = 0; k < name; k++)
                if (strchr("/?#@\\ \t,", h.at[k]))
                        return false;
        for (size_t k = name + 1; k < h.len; k++)
                if (h.at[k] < '0' || h.at[k] > '9')
                        return false;
        return true;
}

/* "/path?query", "http://host/path?query" (then its host counts), or "*". */
static int split_target(struct req *r, struct error *err)
{
        struct slice t = r->target;
        const char *host = req_header(r, "host"), *p;

        r->host = host ? SLICE(host) : (struct slice) { "", 0 };
        for (size_t skip = 0, i = 0; i < 2; i++) {
                skip = i ? 8 : 7;
                if (t.len < skip || strncasecmp(t.at, i ? "https://" : "http://", skip) != 0)
                        continue;
                t.at += skip;
                t.len -= skip;
                r->host.at = t.at;
                r->host.len = strcspn(t.at, "/?");
                t.at += r->host.len;
                t.len -= r->host.len;
                if (!t.len || t.at[0] == '?')
                        return error_set(err, ERR_INVALID, 0, "the request target has no path");
                break;
        }
        if (!t.len || (t.at[0] != '/' && !(t.len == 1 && t.at[0] == '*')))
                return error_set(err, ERR_INVALID, 0,
                                 "the request target must be a path or a http:// address");
        if (!is_host(r->host))
                return error_set(err, ERR_INVALID, 0, "the host '%.*s' is malformed",
                                 (int) MIN(r->host.len, 100u), r->host.at);
        p = memchr(t.at, '?', t.len);
        r->path = (struct slice) { t.at, p ? (size_t) (p - t.at) : t.len };
        r->query = p ? (struct slice) { p + 1, t.len - r->path.len - 1 } : (struct slice) { "", 0 };
        return 0;
}

/* A row that answers everything may also be asked to leave HTTP. */
static bool is_upgrade(struct req *r)
{
        return r->match.row && route_is_any(r->match.row) && req_header(r, "upgrade");
}

static unsigned scope_needed(struct req *r)
{
        const struct route *row = r->match.row;
        bool reads = strcmp(r->method, "GET") == 0 || r->is_head || (row->flags & R_READ);

        if (row->flags & R_ADMIN)
                return SCOPE_ADMIN;
        /* A WebSocket carries input: it writes, although it begins with GET. */
        return reads && !(row->flags & R_WS) && !is_upgrade(r) ? SCOPE_READ : SCOPE_WRITE;
}

static int check_auth(struct req *r, struct error *err)
{
        const struct http_policy *p = &r->srv->spec.policy;
        const struct route *row = r->match.row;
        bool is_ws = is_upgrade(r) || (row && (row->flags & R_WS) && req_header(r, "upgrade"));

        r->scopes = SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN;
        if (!p->authenticate || !r->match.needs_auth || (row && (row->flags & R_OPEN)))
                return 0;
        if (!p->authenticate(p->arg, r, is_ws, &r->token_name, &r->scopes))
                return error_set(err, ERR_TOKEN, 0, "missing or invalid bearer token");
        return 0;
}

static int check_scope(struct req *r, struct error *err)
{
        static const char *const names[] = {
                [SCOPE_READ] = "read", [SCOPE_WRITE] = "write", [SCOPE_ADMIN] = "admin"
        };
        unsigned need = scope_needed(r);

        if (r->scopes & (need | SCOPE_ADMIN))
                return 0;
        return error_set(err, ERR_FORBIDDEN, 0, "token '%s' lacks the scope '%s'", r->token_name,
                         names[need]);
}

static int find_route(struct req *r, struct error *err)
{
        router_find(r->srv->spec.router, SLICE(r->method), r->path, &r->match);
        if (r->match.is_host && r->srv->spec.is_guest)
                r->match = (struct route_match) { 0 };
        if (!r->match.allow)
                return error_set(err, ERR_NO_ENDPOINT, 0, "endpoint not found");
        if (!r->match.row)
                reply_header(r, "allow", r->match.allow);
        if (check_auth(r, err) < 0)
                return -1;
        if (!r->match.row)
                return error_set(err, ERR_METHOD, 0, "method %s is not offered here; allowed: %s",
                                 r->method, r->match.allow);
        return check_scope(r, err);
}

static bool accepts(const char *accept, const char *type)
{
        size_t major = strcspn(type, "/");
        struct slice rest = SLICE(accept), item, name;

        while (slice_cut(&rest, ',', &item)) {
                (void) slice_cut(&item, ';', &name);
                name = slice_trim(name);
                if (slice_ieq(name, type) || slice_eq(name, "*/*"))
                        return true;
                if (name.len == major + 2 && strncasecmp(name.at, type, major + 1) == 0 &&
                    name.at[major + 1] == '*')
                        return true;
        }
        return false;
}

static int check_sse(struct req *r, struct error *err)
{
        const char *accept = req_header(r, "accept");

        if (accept && !accepts(accept, "text/event-stream"))
                return error_set(err, ERR_NOT_ACCEPTABLE, 0, "accept must allow text/event-stream");
        return 0;
}

static int check_ws(struct req *r, struct error *err)
{
        const char *connection = req_header(r, "connection"), *upgrade = req_header(r, "upgrade");
        const char *version = req_header(r, "sec-websocket-version"),
                   *key = req_header(r, "sec-websocket-key");

        if (r->is_http10)
                return error_set(err, ERR_INVALID, 0, "a WebSocket needs HTTP/1.1");
        if (!connection || !slice_list_has(SLICE(connection), "upgrade"))
                return error_set(err, ERR_INVALID, 0,
                                 "Connection header did not include 'upgrade'");
        if (!upgrade || !slice_list_has(SLICE(upgrade), "websocket"))
                return error_set(err, ERR_INVALID, 0, "Upgrade header did not include 'websocket'");
        if (!version || strcmp(version, "13") != 0) {
                reply_header(r, "sec-websocket-version", "13");
                return error_set(err, ERR_UPGRADE, 0, "only WebSocket version 13 is spoken here");
        }
        if (!key || strlen(key) != WS_KEY_LEN)
                return error_set(err, ERR_INVALID, 0,
                                 "Sec-WebSocket-Key must be %d characters of base64", WS_KEY_LEN);
        return 0;
}

static int check_length(struct req *r, struct error *err)
{
        const struct route *row = r->match.row;

        r->max_body = row->max_body ? row->max_body : r->srv->spec.limits.max_body_bytes;
        if (!(row->flags & R_STREAM_BODY) && r->content_length > 0 &&
            (uint64_t) r->content_length > r->max_body)
                return error_set(err, ERR_TOO_BIG, 0,
                                 "the request body is over the limit of %zu bytes", r->max_body);
        return 0;
}

static int check_expect(struct req *r, struct error *err)
{
        const char *expect = req_header(r, "expect");

        if (!expect || r->is_http10)
                return 0;
        if (strcasecmp(expect, "100-continue") != 0)
                return error_set(err, ERR_INVALID, 0, "expectation '%.40s' is not known", expect);
        r->wants_continue = true;
        return 0;
}

/* The browser's own question before a request; it has no token. */
static bool is_cors_question(struct req *r)
{
        const struct cors *c = r->srv->spec.policy.cors;

        return c && c->origins && c->origins[0] && req_header(r, "origin") &&
               req_header(r, "access-control-request-method");
}

/* OPTIONS is answered for every path, known or not, unless a row takes it. */
static bool is_preflight(struct req *r)
{
        struct route_match m;

        if (strcmp(r->method, "OPTIONS") != 0)
                return false;
        router_find(r->srv->spec.router, SLICE(r->method), r->path, &m);
        return !m.row || is_cors_question(r);
}

static int decode_params(struct req *r, struct error *err)
{
        for (size_t i = 0; i < r->match.n_params; i++) {
                struct slice raw = r->match.params[i];
                char *text = arena_alloc(&r->arena, raw.len + 1);
                size_t len;

                if (!percent_decode(raw.at, raw.len, false, text, &len) ||
                    memchr(text, '\0', len) || utf8_check(text, len) != len)
                        return error_set(err, ERR_INVALID, 0,
                                         "the path is not valid percent-encoded UTF-8");
                r->params[i] = text;
        }
        return 0;
}

/* -1 = err; 0 = go on; 1 = answered or to be answered as a preflight. */
static int check_head(struct req *r, struct error *err)
{
        const struct http_policy *p = &r->srv->spec.policy;

        if (check_version(r, err) < 0 || check_framing(r, err) < 0 || check_expect(r, err) < 0)
                return -1;
        if (split_target(r, err) < 0)
                return -1;
        if (is_preflight(r))
                return 0;
        if (p->admit && p->admit(p->arg, r, err) < 0)
                return -1;
        if (find_route(r, err) < 0 || decode_params(r, err) < 0)
                return -1;
        if ((r->match.row->flags & R_SSE) && check_sse(r, err) < 0)
                return -1;
        if ((r->match.row->flags & R_WS) && check_ws(r, err) < 0)
                return -1;
        return check_length(r, err);
}

/* Errors of framing leave the stream of bytes in doubt: answer now and close. */
static bool must_close(const struct req *r)
{
        return !r->path.at || (r->has_body && (r->wants_continue || r->content_length < 0 ||
                                               r->content_length > HTTP_DISCARD_MAX));
}

static void run_handler(struct req *r)
{
        struct error err = { 0 };

        (void) req_ref(r);
        if (r->match.row->fn(r, &err) < 0 && !r->has_begun)
                (void) reply_error(r, &err);
        if (!r->has_begun && !r->holds && r->conn) {
                (void) error_set(&err, ERR_SYSTEM, 0, "the handler gave no answer");
                (void) reply_error(r, &err);
        }
        req_unref(r);
}

static int bind_query(struct req *r, struct error *err)
{
        const struct route *row = r->match.row;

        if (!row->query)
                return 0;
        r->query_struct = arena_zalloc(&r->arena, row->query_size);
        return query_bind(&r->arena, r->query, row->query, r->query_struct, err);
}

void dispatch_head(struct req *r)
{
        struct error err = { 0 };
        bool is_bad = check_head(r, &err) < 0;

        if (!is_bad && r->match.row && (r->match.row->flags & R_STREAM_BODY)) {
                is_bad = bind_query(r, &err) < 0;
                if (!is_bad) {
                        r->is_streaming = true;
                        if (r->wants_continue && r->has_body)
                                reply_continue(r);
                        run_handler(r);
                        return;
                }
        }
        if (!is_bad) {
                if (!r->match.row)
                        r->max_body = HTTP_DISCARD_MAX; /* preflight */
                if (r->wants_continue && r->has_body)
                        reply_continue(r);
                return;
        }
        if (must_close(r)) {
                r->keep_alive = false;
                (void) reply_error(r, &err);
                return;
        }
        r->is_discarding = true;
        r->early = NEW(struct error);
        *r->early = err;
}

/* ---- complete ---- */

static bool is_json_type(const char *type)
{
        struct slice rest = SLICE(type), name;

        (void) slice_cut(&rest, ';', &name);
        name = slice_trim(name);
        if (slice_ieq(name, "application/json"))
                return true;
        return name.len > 17 && strncasecmp(name.at, "application/", 12) == 0 &&
               strncasecmp(name.at + name.len - 5, "+json", 5) == 0;
}

static int bind_body(struct req *r, struct error *err)
{
        const struct route *row = r->match.row;
        const char *type = req_header(r, "content-type");
        struct slice raw = req_raw(r);

        if (!row->body)
                return 0;
        if (!type || !is_json_type(type))
                return error_set(err, ERR_MEDIA_TYPE, 0,
                                 "expected request with `Content-Type: application/json`");
        if (json_parse(&r->arena, raw.at, raw.len, &r->json, err) < 0)
                return error_wrap(err, "failed to parse the request body as JSON");
        r->body_struct = arena_zalloc(&r->arena, row->body_size ? row->body_size : 1);
        if (json_bind(&r->arena, r->json, row->body, r->body_struct, err) < 0)
                return error_wrap(err, "failed to deserialize the JSON body into the target type");
        return 0;
}

static void reply_preflight(struct req *r)
{
        router_find(r->srv->spec.router, SLICE(r->method), r->path, &r->match);
        if (r->match.allow)
                reply_header(r, "allow", r->match.allow);
        (void) reply_empty(r, 200);
}

void dispatch_complete(struct req *r)
{
        struct error err = { 0 };

        if (r->early) {
                (void) reply_error(r, r->early);
        } else if (is_preflight(r)) {
                reply_preflight(r);
        } else if (bind_query(r, &err) < 0) {
                (void) error_wrap(&err, "failed to deserialize query string");
                (void) reply_error(r, &err);
        } else if (bind_body(r, &err) < 0) {
                (void) reply_error(r, &err);
        } else {
                run_handler(r);
        }
}
