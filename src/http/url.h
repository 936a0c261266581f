/* Addresses of requests that we make: http://host[:port]/path, https://…, unix:/path/to.sock:/path.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { URL_BYTES_MAX = 8192 };

struct url {
        char *host;      /* without brackets; NULL for unix */
        char *unix_path; /* NULL unless unix */
        char *target;    /* path and query, at least "/" */
        char *authority; /* for the Host header */
        char *label;     /* for messages: no query */
        uint16_t port;
        bool is_tls;
};

/* ERR_INVALID on anything else: other schemes, user names, blanks, control characters, fragments.
 */
int url_parse(const char *text, struct url *ret, struct error *err);
void url_done(struct url *u);
