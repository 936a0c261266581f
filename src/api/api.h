/* The HTTP face: one file per resource, each a table of rows. This file is what main needs and what
 * the resource files share. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "http/route.h"

struct app;
struct command;
struct http_server;
struct ports;
struct router;
struct serve_options;

/* What req_app() returns in every handler. */
struct api {
        struct app *app;
        struct http_server *http;
        struct router *router;
        const struct serve_options *options;
        struct ports *ports;
        bool is_open; /* no token is asked for: credentials are not meant for us */
};

extern const struct command api_server_command, api_host_command, api_docs_command;

/* All row tables, NULL-terminated. */
extern const struct route *const api_tables[];
extern const struct route api_system[], api_metrics[], api_openapi[], api_ui[];
extern const struct route api_fs[], api_fs_archive[], api_fs_edit[], api_fs_search[],
        api_fs_watch[];
extern const struct route api_processes[], api_run[], api_terminal[], api_ports[];

/* The OpenAPI document of a router, as JSON text (malloc'd). */
char *openapi_text(const struct router *r, size_t *ret_len);
