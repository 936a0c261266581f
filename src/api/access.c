#include "api/access.h"

#include <string.h>

#include "base/log.h"
#include "base/rand.h"
#include "http/req.h"

enum { URI_MAX = 512, FIELDS_MAX = 40 };

/* Headers that are, or may hold, a credential. */
static bool is_secret(const char *name)
{
        static const char *const names[] = { "authorization", "proxy-authorization", "cookie",
                                             "x-api-key" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

static void add_headers(struct req *r, struct log_field *f, size_t n)
{
        const char *name, *value;

        for (size_t i = 0; n < FIELDS_MAX - 1 && req_header_at(r, i, &name, &value); i++)
                f[n++] = (struct log_field) { name, is_secret(name) ? "[redacted]" : value, 0 };
}

void access_log(const struct access *a, struct req *r, int status, int64_t took_us, uint64_t bytes)
{
        struct slice path = req_path(r), method = req_method(r);
        char uri[URI_MAX], verb[40];
        struct log_field f[FIELDS_MAX + 1] = {
                LOG_S("method", verb),
                LOG_S("uri", uri), /* the path alone: a query may carry a token */
                LOG_N("status", status),
                LOG_N("latency_us", took_us),
                LOG_N("bytes", bytes),
                LOG_S("request_id", req_id(r)),
                LOG_S("token", req_token_name(r)),
        };

        if (!a->is_on || !log_wants(LOG_INFO))
                return;
        path.len = path.len < URI_MAX ? path.len : URI_MAX - 1;
        memcpy(uri, path.at, path.len);
        uri[path.len] = '\0';
        memcpy(verb, method.at, method.len < 39 ? method.len : 39);
        verb[method.len < 39 ? method.len : 39] = '\0';
        if (a->with_headers)
                add_headers(r, f, 7);
        log_fields(status >= 500 ? LOG_ERROR : LOG_INFO, "sandbox_agent::http", "request", f);
}

void access_random_token(char ret[static 49])
{
        rand_hex(ret, 48);
}
