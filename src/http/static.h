/* Files inside the binary: ETag, compression, SPA fallback. The table is generated at build time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct chunk;
struct req;

struct asset {
        const char *path; /* below the mount point: "index.html", "assets/app.js"; NULL ends */
        const char *type;
        const uint8_t *gz; /* gzip'd bytes */
        size_t gz_len, raw_len;
        const char *etag; /* weak and quoted: the plain and the compressed form share it */
        int is_immutable; /* hashed file name: cached for a year */
};

/* Serves assets[path]; a path without a dot falls back to index.html, one with a dot is 404 with an
 * empty body. A client that takes no gzip gets the plain bytes. */
int static_serve(struct req *r, const struct asset *assets, const char *path, struct error *err);

/* ---- the pure parts ---- */
const struct asset *static_find(const struct asset *assets, const char *path); /* or NULL */
bool static_takes_gzip(const char *accept_encoding);                           /* NULL: no */
bool static_etag_matches(const char *if_none_match, const char *etag);         /* NULL: no */
int static_inflate(const struct asset *a, struct chunk **ret, struct error *err);
