/* The rows of `server`: flag, environment, file, help and docs/configuration.md in one place. */
#include "api/options.h"

#include <stddef.h>

#include "api/api.h"
#include "api/serve.h"
#include "base/command.h"

static const char *const roles[] = { "both", "guest", "host", NULL };
static const char *const stores[] = { "sqlite", "memory", NULL };
static const char *const formats[] = { "logfmt", "json", NULL };
static const char *const levels[] = { "debug", "info", "warn", "error", "off", NULL };

#define AT(member) offsetof(struct serve_options, member)
#define HOUR_MS    3600000u

const struct option serve_rows[] = {
        { "host", 'H', OPT_STR, AT(host), "SANDBOX_AGENT_HOST", "127.0.0.1", .arg = "HOST",
          .doc = "address to listen on" },
        { "port", 'p', OPT_UINT, AT(port), "SANDBOX_AGENT_PORT", "2468", 0, 65535, .arg = "PORT",
          .doc = "port to listen on, 0 for any free one" },
        { "unix-socket", 0, OPT_STR, AT(unix_socket), "SANDBOX_AGENT_UNIX_SOCKET", .arg = "PATH",
          .doc = "listen on this unix socket instead of TCP" },
        { "tls-cert", 0, OPT_STR, AT(tls_cert), "SANDBOX_AGENT_TLS_CERT", .arg = "FILE",
          .doc = "certificate chain (PEM); turns TLS on" },
        { "tls-key", 0, OPT_STR, AT(tls_key), "SANDBOX_AGENT_TLS_KEY", .arg = "FILE",
          .doc = "private key (PEM)" },
        { "token-file", 0, OPT_STR, AT(token_file), "SANDBOX_AGENT_TOKEN_FILE", .arg = "FILE",
          .doc = "named tokens with scopes and expiry (JSON)" },
        { "allowed-host", 0, OPT_LIST, AT(allowed_hosts), "SANDBOX_AGENT_ALLOWED_HOSTS",
          .arg = "NAME", .doc = "further name that may stand in Host on an open loopback server" },
        { "cors-allow-origin", 'O', OPT_LIST, AT(cors_origins), .arg = "ORIGIN",
          .doc = "origin that browsers may call from; * for any" },
        { "cors-allow-method", 'M', OPT_LIST, AT(cors_methods), .arg = "METHOD",
          .doc = "method that browsers may use (default: all)" },
        { "cors-allow-header", 'A', OPT_LIST, AT(cors_headers), .arg = "HEADER",
          .doc = "header that browsers may send (default: all)" },
        { "cors-allow-credentials", 'C', OPT_BOOL, AT(cors_credentials),
          .doc = "let browsers send credentials" },
        { "role", 0, OPT_ENUM, AT(role), "SANDBOX_AGENT_ROLE", "both", .names = roles,
          .arg = "ROLE", .doc = "which paths to serve" },
        { "data-dir", 0, OPT_STR, AT(data_dir), "SANDBOX_AGENT_DATA_DIR", .arg = "DIR",
          .doc = "where the store, the logs and the token are kept (default: "
                 "$XDG_DATA_HOME/sandbox-agent)" },
        { "fs-root", 0, OPT_STR, AT(fs_root), "SANDBOX_AGENT_FS_ROOT", .arg = "DIR",
          .doc = "confine the file API to this directory (default: the whole file system)" },
        { "store", 0, OPT_ENUM, AT(store), "SANDBOX_AGENT_STORE", "sqlite", .names = stores,
          .arg = "STORE", .doc = "where events are kept; memory keeps nothing" },
        { "store-full-sync", 0, OPT_BOOL, AT(full_sync), "SANDBOX_AGENT_STORE_FULL_SYNC",
          .doc = "events survive a power cut too (one fsync per commit)" },
        { "log-dir", 0, OPT_STR, AT(log_dir), "SANDBOX_AGENT_LOG_DIR", .arg = "DIR",
          .doc = "where the daily log files go (default: DATA-DIR/logs)" },
        { "log-stdout", 0, OPT_STR, AT(log_stdout), "SANDBOX_AGENT_LOG_STDOUT", .arg = "1",
          .doc = "log to standard error instead of files" },
        { "log-format", 0, OPT_ENUM, AT(log_format), "SANDBOX_AGENT_LOG_FORMAT", "logfmt",
          .names = formats, .arg = "FORMAT", .doc = "form of the log lines" },
        { "log-level", 0, OPT_ENUM, AT(log_level), "SANDBOX_AGENT_LOG_LEVEL", "info",
          .names = levels, .arg = "LEVEL", .doc = "the least level that is logged" },
        { "log-http", 0, OPT_STR, AT(log_http), "SANDBOX_AGENT_LOG_HTTP", .arg = "0|1",
          .doc = "0 or false: no line per request" },
        { "log-http-headers", 0, OPT_STR, AT(log_http_headers), "SANDBOX_AGENT_LOG_HTTP_HEADERS",
          .arg = "1", .doc = "log request headers too, credentials left out" },
        { "max-connections", 0, OPT_UINT, AT(max_conns), "SANDBOX_AGENT_MAX_CONNECTIONS", "16384",
          1, 1000000, .arg = "N", .doc = "connections at a time; more get 503" },
        { "max-body", 0, OPT_UINT, AT(max_body), "SANDBOX_AGENT_MAX_BODY_BYTES", "2097152", 1024,
          1u << 30, .arg = "BYTES", .doc = "largest buffered request body" },
        { "head-timeout", 0, OPT_MS, AT(head_ms), "SANDBOX_AGENT_HEAD_TIMEOUT_MS", "10s", 10,
          HOUR_MS, .arg = "TIME", .doc = "limit for a request's head" },
        { "body-timeout", 0, OPT_MS, AT(body_ms), "SANDBOX_AGENT_BODY_TIMEOUT_MS", "30s", 10,
          HOUR_MS, .arg = "TIME",
          .doc = "limit for a buffered body, or for silence in a streamed one" },
        { "idle-timeout", 0, OPT_MS, AT(idle_ms), "SANDBOX_AGENT_IDLE_TIMEOUT_MS", "75s", 10,
          24 * HOUR_MS, .arg = "TIME", .doc = "how long an idle connection is kept" },
        { "write-timeout", 0, OPT_MS, AT(write_ms), "SANDBOX_AGENT_WRITE_TIMEOUT_MS", "60s", 10,
          HOUR_MS, .arg = "TIME", .doc = "how long a reader may take nothing" },
        { "drain-timeout", 0, OPT_MS, AT(drain_ms), "SANDBOX_AGENT_DRAIN_TIMEOUT_MS", "10s", 0,
          HOUR_MS, .arg = "TIME", .doc = "how long requests may finish at shutdown" },
        { "no-telemetry", 0, OPT_BOOL, AT(no_telemetry),
          .doc = "accepted; nothing is ever sent anywhere" },
};
const size_t serve_rows_size = sizeof(serve_rows) / sizeof(serve_rows[0]);

struct http_limits serve_limits(const struct serve_options *o)
{
        struct http_limits lim = http_limits_default;

        lim.max_conns = (uint32_t) o->max_conns;
        lim.max_body_bytes = o->max_body;
        lim.head_ms = (uint32_t) o->head_ms;
        lim.body_ms = (uint32_t) o->body_ms;
        lim.idle_ms = (uint32_t) o->idle_ms;
        lim.write_ms = (uint32_t) o->write_ms;
        lim.drain_ms = (uint32_t) o->drain_ms;
        return lim;
}

static int run_server(const void *values, const struct command_ctx *ctx, struct error *err)
{
        return serve_run(values, ctx, api_tables, err);
}

static int run_host(const void *values, const struct command_ctx *ctx, struct error *err)
{
        struct serve_options o = *(const struct serve_options *) values;

        o.role = ROLE_HOST;
        return serve_run(&o, ctx, api_tables, err);
}

const struct command api_server_command = {
        .name = "server",
        .summary = "Run the server",
        .options = serve_rows,
        .options_size = sizeof(serve_rows) / sizeof(serve_rows[0]),
        .values_size = sizeof(struct serve_options),
        .run = run_server,
};

const struct command api_host_command = {
        .name = "host",
        .summary = "Run the server in the host role (server --role host)",
        .options = serve_rows,
        .options_size = sizeof(serve_rows) / sizeof(serve_rows[0]),
        .values_size = sizeof(struct serve_options),
        .run = run_host,
};
