#include "http/url.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

void url_done(struct url *u)
{
        free(u->host);
        free(u->unix_path);
        free(u->target);
        free(u->authority);
        free(u->label);
        *u = (struct url) { 0 };
}

static int bad(const char *why, struct error *err)
{
        return error_set(err, ERR_INVALID, 0, "the address %s", why);
}

/* What could end the request line early has no place in an address. */
static int check_text(const char *text, struct error *err)
{
        size_t n = strlen(text);

        if (n > URL_BYTES_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "the address has more than %d bytes",
                                 URL_BYTES_MAX);
        for (size_t i = 0; i < n; i++)
                if ((unsigned char) text[i] <= 0x20 || text[i] == 0x7f)
                        return bad("contains a blank or a control character", err);
        if (strchr(text, '#'))
                return bad("has a fragment", err);
        return 0;
}

static void set_target(struct url *u, const char *text)
{
        u->target = *text == '/' ? xstrdup(text) : xasprintf("/%s", text);
}

/* "host", "host:port", "[v6]", "[v6]:port" */
static int split_host(struct url *u, struct slice at, struct error *err)
{
        const char *close = at.len && *at.at == '[' ? memchr(at.at, ']', at.len) : NULL;
        struct slice host = at, port = { 0 };
        uint64_t n;

        if (close) {
                host = (struct slice) { at.at + 1, (size_t) (close - at.at - 1) };
                port = (struct slice) { close + 1, at.len - host.len - 2 };
                if (port.len && *port.at != ':')
                        return bad("has something between ']' and the path", err);
        } else {
                const char *colon = memchr(at.at, ':', at.len);

                if (colon) {
                        host.len = (size_t) (colon - at.at);
                        port = (struct slice) { colon, at.len - host.len };
                }
        }
        if (!host.len)
                return bad("has no host", err);
        if (port.len && (!str_to_u64(port.at + 1, port.len - 1, &n) || n < 1 || n > UINT16_MAX))
                return bad("has a port that is not a number from 1 to 65535", err);
        if (port.len)
                u->port = (uint16_t) n;
        u->host = xstrndup(host.at, host.len);
        u->authority = xstrndup(at.at, at.len);
        return 0;
}

static int parse_http(struct url *u, const char *rest, struct error *err)
{
        struct slice at = { rest, strcspn(rest, "/?") };

        if (memchr(at.at, '@', at.len))
                return bad("has a user name; send credentials as a header", err);
        u->port = u->is_tls ? 443 : 80;
        set_target(u, rest + at.len);
        if (split_host(u, at, err) < 0)
                return -1;
        u->label = xasprintf("%s://%s%.*s", u->is_tls ? "https" : "http", u->authority,
                             (int) strcspn(u->target, "?"), u->target);
        return 0;
}

static int parse_unix(struct url *u, const char *rest, struct error *err)
{
        const char *cut = strstr(rest, ":/");

        if (*rest != '/' || !cut)
                return bad("must be unix:/path/to.sock:/request/path", err);
        u->unix_path = xstrndup(rest, (size_t) (cut - rest));
        u->authority = xstrdup("localhost");
        set_target(u, cut + 1);
        u->label =
                xasprintf("unix:%s:%.*s", u->unix_path, (int) strcspn(u->target, "?"), u->target);
        return 0;
}

static int parse(struct url *u, const char *text, struct error *err)
{
        if (check_text(text, err) < 0)
                return -1;
        u->is_tls = str_starts(text, "https://");
        if (u->is_tls || str_starts(text, "http://"))
                return parse_http(u, strstr(text, "://") + 3, err);
        if (str_starts(text, "unix:"))
                return parse_unix(u, text + strlen("unix:"), err);
        return bad("must begin with http://, https:// or unix:", err);
}

int url_parse(const char *text, struct url *ret, struct error *err)
{
        struct url u = { 0 };

        if (parse(&u, text, err) < 0) {
                url_done(&u);
                return -1;
        }
        *ret = u;
        return 0;
}
