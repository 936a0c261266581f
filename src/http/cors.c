#include "http/cors.h"

#include <string.h>

#include "base/str.h"

static bool has_any_origin(const struct cors *c)
{
        for (const char *const *o = c->origins; o && *o; o++)
                if (strcmp(*o, "*") == 0)
                        return true;
        return false;
}

bool cors_allows(const struct cors *c, const char *origin)
{
        if (!origin)
                return false;
        for (const char *const *o = c->origins; o && *o; o++)
                if (strcmp(*o, "*") == 0 || strcmp(*o, origin) == 0)
                        return true;
        return false;
}

static void put_line(struct buf *out, const char *name, const char *value)
{
        buf_puts(out, name);
        buf_put(out, ": ", 2);
        buf_puts(out, value);
        buf_put(out, "\r\n", 2);
}

/* Characters of an RFC 9110 token, plus what separates tokens in a list. */
static bool is_token_list(const char *s)
{
        static const char allowed[] =
                "!#$%&'*+-.^_`|~, \t"
                "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

        return *s && s[strspn(s, allowed)] == '\0';
}

static bool is_header_text(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        return false;
        return true;
}

static void put_origin(const struct cors *c, const char *origin, struct buf *out)
{
        if (!c->credentials && has_any_origin(c))
                put_line(out, "access-control-allow-origin", "*");
        else if (cors_allows(c, origin) && is_header_text(origin))
                put_line(out, "access-control-allow-origin", origin);
}

static void put_list(const struct cors *c, const char *name, const char *allowed, const char *asked,
                     struct buf *out)
{
        bool is_any = !allowed || strcmp(allowed, "*") == 0;

        if (!is_any)
                put_line(out, name, allowed);
        else if (!c->credentials)
                put_line(out, name, "*");
        else if (asked && is_token_list(asked))
                put_line(out, name, asked);
}

void cors_put(const struct cors *c, const char *origin, bool is_preflight, const char *ask_method,
              const char *ask_headers, struct buf *out)
{
        put_origin(c, origin, out);
        if (c->credentials)
                put_line(out, "access-control-allow-credentials", "true");
        if (!is_preflight)
                return;
        put_list(c, "access-control-allow-methods", c->methods, ask_method, out);
        put_list(c, "access-control-allow-headers", c->headers, ask_headers, out);
}
