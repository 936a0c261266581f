#include "api/serve.h"

#include <errno.h>
#include <link.h>
#include <nss.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/access.h"
#include "api/api.h"
#include "api/options.h"
#include "api/policy.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/app.h"
#include "core/ports.h"
#include "http/cors.h"
#include "http/req.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/tls.h"

enum { LISTEN_BACKLOG = 4096 };

/* Everything that lives as long as the server runs. */
struct server {
        struct api api; /* first: req_app() */
        struct access access;
        struct loop *loop;
        struct policy *policy;
        struct cors cors;
        char *cors_methods, *cors_headers, *data_dir, *shown_host;
        struct tls *tls;
        const struct serve_options *o;
        bool is_local; /* every listener is loopback or a unix socket */
        bool is_stopping;
};

/* ---- logging ---- */

static void on_done(void *app, struct req *r, int status, int64_t took_us, uint64_t bytes)
{
        access_log(&((struct server *) app)->access, r, status, took_us, bytes);
}

static void flush_log(void *arg)
{
        log_flush();
}

static int setup_log(struct server *s, struct error *err)
{
        _cleanup_free_ char *dir = NULL;

        log_setup((enum log_level) s->o->log_level, (enum log_format) s->o->log_format);
        s->access.is_on = !s->o->log_http || (strcmp(s->o->log_http, "0") != 0 &&
                                              strcmp(s->o->log_http, "false") != 0);
        s->access.with_headers = s->o->log_http_headers != NULL;
        if (s->o->log_stdout)
                return 0;
        dir = s->o->log_dir ? xstrdup(s->o->log_dir) : xasprintf("%s/logs", s->data_dir);
        if (!log_to_dir(dir))
                return error_set(err, ERR_SYSTEM, errno, "write logs to '%s'", dir);
        return 0;
}

/* ---- set-up, one piece each ---- */

static int check_cors(const struct serve_options *o, struct error *err)
{
        static const char token[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";

        for (size_t i = 0; i < o->cors_headers.n; i++)
                if (!o->cors_headers.at[i][0] ||
                    o->cors_headers.at[i][strspn(o->cors_headers.at[i], token)])
                        return error_set(err, ERR_INVALID, 0, "invalid cors header: %s",
                                         o->cors_headers.at[i]);
        for (size_t i = 0; i < o->cors_methods.n; i++)
                if (!o->cors_methods.at[i][0] ||
                    o->cors_methods.at[i][strspn(o->cors_methods.at[i], token)])
                        return error_set(err, ERR_INVALID, 0, "invalid cors method: %s",
                                         o->cors_methods.at[i]);
        return 0;
}

static char *join(const struct option_list *l)
{
        struct buf b = { 0 };

        for (size_t i = 0; i < l->n; i++)
                buf_printf(&b, "%s%s", i ? "," : "", l->at[i]);
        return l->n ? buf_take(&b) : NULL;
}

static int setup_cors(struct server *s, struct error *err)
{
        const char **origins = xcalloc(s->o->cors_origins.n + 1, sizeof(char *));

        for (size_t i = 0; i < s->o->cors_origins.n; i++)
                origins[i] = s->o->cors_origins.at[i];
        s->cors_methods = join(&s->o->cors_methods);
        s->cors_headers = join(&s->o->cors_headers);
        s->cors =
                (struct cors) { origins, s->cors_methods, s->cors_headers, s->o->cors_credentials };
        return check_cors(s->o, err);
}

static int setup_data_dir(struct server *s, struct error *err)
{
        if (s->o->data_dir) {
                s->data_dir = xstrdup(s->o->data_dir);
                return dir_make(s->data_dir, 0700, err);
        }
        if (app_default_data_dir(&s->data_dir, err) < 0)
                return -1;
        return dir_make(s->data_dir, 0700, err);
}

static int setup_tls(struct server *s, struct error *err)
{
        if (!s->o->tls_cert && !s->o->tls_key)
                return 0;
        if (!s->o->tls_cert || !s->o->tls_key)
                return error_set(err, ERR_USAGE, 0, "--tls-cert and --tls-key go together");
        return tls_server_new(s->o->tls_cert, s->o->tls_key, &s->tls, err);
}

/* A soft limit of 1024 descriptors would end at a thousand connections. */
static void raise_file_limit(void)
{
        struct rlimit r;

        if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
                r.rlim_cur = r.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &r);
        }
}

static int listen_inherited(struct server *s, struct error *err)
{
        int first, n = socket_activation(&first);

        for (int i = 0; i < n; i++) {
                struct listen_spec spec = { .fd = first + i };

                if (!socket_fd_is_local(first + i))
                        s->is_local = false;
                if (http_server_listen(s->api.http, &spec, err) < 0)
                        return error_wrap(err, "use socket %d of the service manager", first + i);
        }
        return n;
}

static int listen_all(struct server *s, struct error *err)
{
        struct listen_spec tcp = { .host = s->o->host,
                                   .port = (uint16_t) s->o->port,
                                   .fd = -1,
                                   .backlog = LISTEN_BACKLOG };
        struct listen_spec path = { .unix_path = s->o->unix_socket,
                                    .fd = -1,
                                    .backlog = LISTEN_BACKLOG };
        int n;

        s->is_local = true;
        n = listen_inherited(s, err);
        if (n != 0)
                return n < 0 ? -1 : 0;
        if (s->o->unix_socket)
                return http_server_listen(s->api.http, &path, err);
        s->is_local = socket_host_is_loopback(s->o->host);
        return http_server_listen(s->api.http, &tcp, err);
}

/* ---- tokens ---- */

static const char *scheme(const struct server *s)
{
        return s->tls ? "https" : "http";
}

/* The token that an unprotected start beyond loopback gets: kept, so that a restart does not lock
 * the clients out. */
static int kept_token(struct server *s, struct buf *ret, struct error *err)
{
        _cleanup_free_ char *path = xasprintf("%s/token", s->data_dir);
        char text[49];

        ret->max_bytes = 4096;
        if (file_read(path, ret, NULL) == 0 && ret->len >= 16)
                return 0;
        buf_clear(ret);
        access_random_token(text);
        buf_puts(ret, text);
        if (file_write(path, ret->data, ret->len, 0600, err) < 0)
                return error_wrap(err, "keep the token");
        return 0;
}

static int protect(struct server *s, struct error *err)
{
        struct buf token = { 0 };

        if (kept_token(s, &token, err) < 0) {
                buf_done(&token);
                return -1;
        }
        policy_add_token(s->policy, "generated", token.data, token.len);
        (void) printf("No --token and no --no-token, and %s is reachable from outside: protected "
                      "by a random token.\n"
                      "  token  %s   (kept in %s/token)\n  open   %s://%s:%u/ui/?token=%s\n",
                      s->o->host, token.data, s->data_dir, scheme(s), s->shown_host,
                      http_server_port(s->api.http), token.data);
        explicit_bzero(token.data, token.len);
        buf_done(&token);
        return 0;
}

static int setup_tokens(struct server *s, const struct command_globals *g, struct error *err)
{
        if (g->token && g->no_token)
                return error_set(err, ERR_USAGE, 0, "--token and --no-token exclude each other");
        if (g->token) {
                size_t len;
                const char *text = secret_reveal(g->token, &len);

                if (!len)
                        return error_set(err, ERR_USAGE, 0, "--token is empty");
                policy_add_token(s->policy, "token", text, len);
        }
        if (s->o->token_file && policy_add_file(s->policy, s->o->token_file, err) < 0)
                return -1;
        return 0;
}

static int setup_guard(struct server *s, const struct command_globals *g, struct error *err)
{
        if (!policy_is_open(s->policy))
                return 0;
        if (!s->is_local && !g->no_token)
                return protect(s, err);
        if (s->is_local && !s->o->unix_socket)
                policy_guard_loopback(s->policy, s->o->host, &s->o->allowed_hosts, &s->cors);
        return 0;
}

/* ---- run ---- */

static void stopped(void *arg)
{
        loop_stop(((struct server *) arg)->loop);
}

static void drained(void *arg)
{
        struct server *s = arg;

        app_shutdown(s->api.app, stopped, s);
}

static void on_signal(void *arg, int signum)
{
        struct server *s = arg;

        if (s->is_stopping) {
                if (signum == SIGINT) /* asked twice: at once */
                        loop_stop(s->loop);
                return;
        }
        s->is_stopping = true;
        LOG(LOG_INFO, "shutting down", LOG_N("signal", signum));
        http_server_drain(s->api.http, drained, s);
}

/* Start-up ran through code and tables that an idle server never touches again (key tables, schema
 * set-up, option parsing). Read-only pages of the program file are given back; the kernel maps
 * those that are needed again from its cache. */
static int drop_segments(struct dl_phdr_info *info, size_t size, void *arg)
{
        uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);

        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
                uintptr_t at = (info->dlpi_addr + ph->p_vaddr) & ~(page - 1);

                if (ph->p_type == PT_LOAD && !(ph->p_flags & PF_W))
                        (void) madvise((void *) at,
                                       info->dlpi_addr + ph->p_vaddr + ph->p_memsz - at,
                                       MADV_DONTNEED);
        }
        return 1; /* the program itself comes first; libraries are shared with others */
}

static void show_host(struct server *s)
{
        const char *h = s->o->host;

        if (strcmp(h, "0.0.0.0") == 0 || strcmp(h, "::") == 0)
                h = "localhost";
        s->shown_host = strchr(h, ':') ? xasprintf("[%s]", h) : xstrdup(h);
}

static void announce(struct server *s)
{
        uint16_t port = http_server_port(s->api.http);
        char addr[300];

        if (port) {
                (void) printf("sandbox-agent %s\n  page   %s://%s:%u/ui/\n  api    %s://%s:%u/v1\n",
                              SA_VERSION, scheme(s), s->shown_host, port, scheme(s), s->shown_host,
                              port);
                (void) snprintf(addr, sizeof(addr), "%s:%u", s->o->host, port);
        } else {
                (void) printf("sandbox-agent %s\n  api    unix:%s:/v1\n", SA_VERSION,
                              s->o->unix_socket ?: "(inherited)");
                (void) snprintf(addr, sizeof(addr), "%s", s->o->unix_socket ?: "inherited");
        }
        (void) fflush(stdout);
        LOG(LOG_INFO, "server listening", LOG_S("addr", addr), LOG_S("version", SA_VERSION),
            LOG_S("store", s->api.app->store_path));
}

/* The preview must not lead back to ourselves. */
static void setup_ports(struct server *s)
{
        uint16_t mine = http_server_port(s->api.http);

        s->api.ports = ports_new(s->loop, &mine, mine ? 1 : 0);
        s->api.is_open = policy_is_open(s->policy);
}

static int open_all(struct server *s, const struct command_globals *g, struct error *err)
{
        struct app_spec app = { .data_dir = s->data_dir,
                                .store = (enum app_store) s->o->store,
                                .is_full_sync = s->o->full_sync,
                                .fs_root = s->o->fs_root };

        if (listen_all(s, err) < 0 || setup_tokens(s, g, err) < 0 || setup_guard(s, g, err) < 0)
                return -1;
        if (loop_start_pool(s->loop, err) < 0 || app_open(s->loop, &app, &s->api.app, err) < 0)
                return -1;
        if (loop_on_signal(s->loop, SIGTERM, on_signal, s, err) < 0 ||
            loop_on_signal(s->loop, SIGINT, on_signal, s, err) < 0)
                return -1;
        loop_on_idle(s->loop, flush_log, NULL);
        setup_ports(s);
        announce(s);
        (void) dl_iterate_phdr(drop_segments, NULL);
        loop_run(s->loop);
        return 0;
}

static void make_http(struct server *s)
{
        struct http_server_spec spec = {
                .router = s->api.router,
                .limits = serve_limits(s->o),
                .policy = { policy_authenticate, policy_admit, s->policy, &s->cors },
                .tls = s->tls,
                .app = s,
                .is_guest = s->o->role == ROLE_GUEST,
                .on_done = on_done,
        };

        s->api.http = http_server_new(s->loop, &spec);
}

static void server_done(struct server *s)
{
        http_server_free(s->api.http);
        ports_free(s->api.ports);
        app_free(s->api.app);
        loop_free(s->loop);
        router_free(s->api.router);
        policy_free(s->policy);
        tls_ctx_free(s->tls);
        free((void *) s->cors.origins);
        free(s->cors_methods);
        free(s->cors_headers);
        free(s->data_dir);
        free(s->shown_host);
        log_flush();
}

int serve_run(const void *values, const struct command_ctx *ctx, const struct route *const *tables,
              struct error *err)
{
        struct server s = { .o = values };
        int n;

        /* A static binary must not look for name service plug-ins of another C library. */
        (void) __nss_configure_lookup("hosts", "files dns");
        raise_file_limit();
        s.api.options = s.o;
        show_host(&s);
        if (setup_cors(&s, err) < 0 || setup_data_dir(&s, err) < 0 || setup_log(&s, err) < 0 ||
            setup_tls(&s, err) < 0) {
                server_done(&s);
                return -1;
        }
        s.loop = loop_new();
        if (!s.loop) {
                (void) error_set(err, ERR_SYSTEM, errno, "start the event loop");
                server_done(&s);
                return -1;
        }
        s.policy = policy_new();
        s.api.router = router_new(tables);
        make_http(&s);
        n = open_all(&s, ctx->globals, err);
        server_done(&s);
        return n;
}
