/* CORS as data: what the flags said, and which headers follow. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct cors {
        const char *const *origins; /* NULL-terminated, may be NULL; "*" allows any */
        const char *methods;        /* "GET,POST" or "*"; NULL = "*" */
        const char *headers;        /* "x-foo,content-type" or "*"; NULL = "*" */
        bool credentials;
};
bool cors_allows(const struct cors *c, const char *origin); /* origin may be NULL: false */
/* Appends "name: value\r\n" lines in the order allow-origin, allow-credentials, allow-methods,
 * allow-headers. origin, ask_method and ask_headers may be NULL. With credentials a browser takes
 * "*" literally, so the asked origin, method and headers are repeated instead; what is not a
 * well-formed list of tokens is left out. `vary` is written by the reply, not here. */
void cors_put(const struct cors *c, const char *origin, bool is_preflight, const char *ask_method,
              const char *ask_headers, struct buf *out);
