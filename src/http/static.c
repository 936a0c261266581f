#include "http/static.h"

#include <string.h>
#include <zlib.h>

#include "base/chunk.h"
#include "base/str.h"
#include "http/req.h"

/* The page talks to the server it came from, and to others that the user names; it loads nothing
 * from elsewhere and cannot be framed. */
static const char page_policy[] = "default-src 'self'; connect-src 'self' ws: wss: http: https:; "
                                  "img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
                                  "frame-ancestors 'none'; base-uri 'none'";

static const struct asset *find_exact(const struct asset *assets, const char *path)
{
        for (; assets->path; assets++)
                if (strcmp(assets->path, path) == 0)
                        return assets;
        return NULL;
}

const struct asset *static_find(const struct asset *assets, const char *path)
{
        const struct asset *a = find_exact(assets, path);

        if (a || strchr(path, '.'))
                return a;
        return find_exact(assets, "index.html");
}

/* Is the weight of a list item zero ("q=0", "q=0.000")? */
static bool is_refused(struct slice params)
{
        struct slice item;

        while (slice_cut(&params, ';', &item)) {
                item = slice_trim(item);
                if (item.len < 3 || (item.at[0] | 0x20) != 'q' || item.at[1] != '=')
                        continue;
                for (size_t i = 2; i < item.len; i++)
                        if (item.at[i] != '0' && item.at[i] != '.')
                                return false;
                return true;
        }
        return false;
}

bool static_takes_gzip(const char *accept_encoding)
{
        struct slice list = { accept_encoding, accept_encoding ? strlen(accept_encoding) : 0 };
        struct slice params, name;
        bool takes_any = false;

        while (slice_cut(&list, ',', &params)) {
                (void) slice_cut(&params, ';', &name);
                name = slice_trim(name);
                if (slice_ieq(name, "gzip") || slice_ieq(name, "x-gzip"))
                        return !is_refused(params);
                if (slice_eq(name, "*"))
                        takes_any = !is_refused(params);
        }
        return takes_any;
}

static struct slice opaque_tag(struct slice tag)
{
        if (tag.len >= 2 && tag.at[0] == 'W' && tag.at[1] == '/')
                return (struct slice) { tag.at + 2, tag.len - 2 };
        return tag;
}

bool static_etag_matches(const char *if_none_match, const char *etag)
{
        struct slice list = { if_none_match, if_none_match ? strlen(if_none_match) : 0 }, item;
        struct slice want = opaque_tag(SLICE(etag));

        while (slice_cut(&list, ',', &item)) {
                item = opaque_tag(slice_trim(item));
                if (slice_eq(item, "*") ||
                    (item.len == want.len && memcmp(item.at, want.at, want.len) == 0))
                        return true;
        }
        return false;
}

int static_inflate(const struct asset *a, struct chunk **ret, struct error *err)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_new(a->raw_len);
        z_stream z = {
                .next_in = (Bytef *) a->gz,
                .avail_in = (uInt) a->gz_len,
                .next_out = (Bytef *) chunk_bytes(c),
                .avail_out = (uInt) a->raw_len,
        };
        int r;

        if (inflateInit2(&z, MAX_WBITS + 16) != Z_OK) /* + 16: gzip */
                return error_set(err, ERR_SYSTEM, 0, "unpack '%s': zlib cannot start", a->path);
        r = inflate(&z, Z_FINISH);
        (void) inflateEnd(&z);
        if (r != Z_STREAM_END || z.total_out != a->raw_len)
                return error_set(err, ERR_SYSTEM, 0,
                                 "unpack '%s': the file in the binary is damaged", a->path);
        *ret = TAKE_PTR(c);
        return 0;
}

static void put_headers(struct req *r, const struct asset *a)
{
        reply_header(r, "etag", a->etag);
        reply_header(r, "cache-control",
                     a->is_immutable ? "public, max-age=31536000, immutable" : "no-cache");
        reply_header(r, "vary", "accept-encoding");
        reply_header(r, "x-content-type-options", "nosniff");
        if (!str_starts(a->type, "text/html"))
                return;
        reply_header(r, "content-security-policy", page_policy);
        reply_header(r, "referrer-policy", "no-referrer");
}

int static_serve(struct req *r, const struct asset *assets, const char *path, struct error *err)
{
        _cleanup_(chunk_unrefp) struct chunk *body = NULL;
        const struct asset *a = static_find(assets, path);

        if (!a)
                return reply_empty(r, 404);
        if (static_etag_matches(req_header(r, "if-none-match"), a->etag)) {
                put_headers(r, a);
                return reply_empty(r, 304);
        }
        if (static_takes_gzip(req_header(r, "accept-encoding"))) {
                body = chunk_wrap(a->gz, a->gz_len, NULL, NULL);
                reply_header(r, "content-encoding", "gzip");
        } else if (static_inflate(a, &body, err) < 0) {
                return -1;
        }
        put_headers(r, a);
        return reply_bytes(r, 200, a->type, body);
}
