/* The options of `server`, as one struct filled by one table (serve.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "http/server.h"

enum role { ROLE_BOTH, ROLE_GUEST, ROLE_HOST };

struct serve_options {
        const char *host, *unix_socket, *tls_cert, *tls_key, *token_file, *data_dir, *log_dir,
                *fs_root;
        uint64_t port;
        int role, store, log_format, log_level;
        struct option_list cors_origins, cors_methods, cors_headers, allowed_hosts;
        bool cors_credentials, no_telemetry, full_sync;
        const char *log_stdout, *log_http, *log_http_headers; /* set at all, or their text */
        uint64_t max_conns, max_body, head_ms, body_ms, idle_ms, write_ms, drain_ms;
};

struct http_limits serve_limits(const struct serve_options *o);
