/* `daemon start | stop | status`: the server in the background. What happens is told on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/command.h"
#include "base/macro.h"
#include "cli/daemon.h"
#include "cli/registry.h"
#include "proc/detach.h"

enum {
        START_MS = 30000,
        POLL_MS = 20,    /* between two health probes; an exit of the child is seen at once */
        STOP_MS = 20000, /* longer than the server's own time to finish requests */
        KILL_MS = 5000,
};

struct daemon_options {
        const char *host;
        uint64_t port;
        bool upgrade;
};

#define ADDRESS_ROWS                                                                               \
        { "host",                                                                                  \
          'H',                                                                                     \
          OPT_STR,                                                                                 \
          offsetof(struct daemon_options, host),                                                   \
          "SANDBOX_AGENT_HOST",                                                                    \
          "127.0.0.1",                                                                             \
          .arg = "HOST",                                                                           \
          .doc = "address of the server" },                                                        \
        {                                                                                          \
                "port", 'p', OPT_UINT, offsetof(struct daemon_options, port),                      \
                        "SANDBOX_AGENT_PORT", "2468", .min = 1, .max = 65535, .arg = "PORT",       \
                                                      .doc = "port of the server"                  \
        }

static const struct option start_rows[] = {
        ADDRESS_ROWS,
        { "upgrade", 0, OPT_BOOL, offsetof(struct daemon_options, upgrade), .flags = OPT_NO_FILE,
          .doc = "restart a running daemon of another build" },
};
static const struct option address_rows[] = { ADDRESS_ROWS };

static int open_daemon(const void *values, const struct command_ctx *ctx, struct daemon *ret,
                       struct error *err)
{
        const struct daemon_options *o = values;

        return daemon_init(ret, o->host, (uint16_t) o->port, ctx->globals->token, err);
}

/* ---- stop ---- */

static int end_process(const struct daemon *d, const struct pidref *p, struct error *err)
{
        fprintf(stderr, "stopping daemon (PID %d)...\n", (int) p->pid);
        (void) pidref_signal(p, SIGTERM);
        if (pidref_wait(p, STOP_MS)) {
                daemon_forget(d);
                fprintf(stderr, "daemon stopped\n");
                return 0;
        }
        fprintf(stderr, "daemon did not stop gracefully, sending SIGKILL...\n");
        (void) pidref_signal(p, SIGKILL);
        if (!pidref_wait(p, KILL_MS))
                return error_set(err, ERR_TIMEOUT, 0,
                                 "daemon (PID %d) did not end %d s after SIGKILL", (int) p->pid,
                                 KILL_MS / 1000);
        daemon_forget(d);
        fprintf(stderr, "daemon killed\n");
        return 0;
}

static int stop(const struct daemon *d, struct error *err)
{
        _cleanup_(pidref_done) struct pidref p = { .fd = -1 };
        bool is_stale;

        if (daemon_find(d, true, &p, &is_stale))
                return end_process(d, &p, err);
        daemon_forget(d);
        fprintf(stderr, "daemon is not running (%s)\n",
                is_stale ? "stale PID file removed" : "no PID file");
        return 0;
}

static int run_stop(const void *values, const struct command_ctx *ctx, struct error *err)
{
        _cleanup_(daemon_done) struct daemon d = {};

        return open_daemon(values, ctx, &d, err) < 0 ? -1 : stop(&d, err);
}

/* ---- status ---- */

static int run_status(const void *values, const struct command_ctx *ctx, struct error *err)
{
        _cleanup_(pidref_done) struct pidref p = { .fd = -1 };
        _cleanup_(daemon_done) struct daemon d = {};
        _cleanup_free_ char *build = NULL;
        bool is_stale;

        if (open_daemon(values, ctx, &d, err) < 0)
                return -1;
        if (!daemon_find(&d, true, &p, &is_stale)) {
                fprintf(stderr, "Daemon not running\n");
                return 0;
        }
        build = daemon_build(&d);
        fprintf(stderr, "Daemon running (PID %d, build %s, logs: %s)%s\n", (int) p.pid, build,
                d.log_path, strcmp(build, d.build) == 0 ? "" : " [outdated, restart recommended]");
        return 0;
}

/* ---- start ---- */

/* Held while starting, so that of two starts at once the second finds the first one's server. The
 * log file serves as the lock: no further file is needed. */
static int lock_start(const struct daemon *d, struct error *err)
{
        int fd = open(d->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

        if (fd < 0)
                return error_set(err, ERR_SYSTEM, errno, "open log '%s'", d->log_path);
        while (flock(fd, LOCK_EX) < 0)
                if (errno != EINTR) {
                        (void) error_set(err, ERR_SYSTEM, errno, "lock '%s'", d->log_path);
                        (void) close(fd);
                        return -1;
                }
        return fd;
}

/* The token travels in the environment: other users cannot read it there, in argv they can. */
static int spawn(const struct daemon *d, const struct command_ctx *ctx, pid_t *ret,
                 struct error *err)
{
        char exe[PATH_MAX] = "", port[8];
        const char *argv[] = { exe, "server", "--host", d->host, "--port", port, NULL, NULL };
        const char *env[4] = { "SANDBOX_AGENT_LOG_STDOUT=1" };
        _cleanup_free_ char *token = NULL, *config = NULL;
        size_t n = 1;
        int r;

        if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
                return error_set(err, ERR_SYSTEM, errno, "find this program");
        (void) snprintf(port, sizeof(port), "%u", d->port);
        if (ctx->globals->no_token)
                argv[6] = "--no-token";
        if (d->token) {
                token = xasprintf("SANDBOX_AGENT_TOKEN=%s", secret_reveal(d->token, NULL));
                env[n++] = token;
        }
        if (ctx->globals->config) {
                config = xasprintf("SANDBOX_AGENT_CONFIG=%s", ctx->globals->config);
                env[n++] = config;
        }
        r = detach_spawn(&(struct detach_spec) { argv, env, d->log_path }, ret, err);
        if (token)
                explicit_bzero(token, strlen(token));
        return r;
}

/* 1 when it answers, 0 when it ended first, -1 when the time is over. A server that wants a token
 * of its own answers too. */
static int await_health(const struct daemon *d, const struct pidref *p)
{
        int64_t end_us = clock_mono_us() + START_MS * 1000LL;

        while (clock_mono_us() < end_us) {
                enum daemon_health h = daemon_probe(d);

                if (h == DAEMON_OK || h == DAEMON_LOCKED)
                        return pidref_wait(p, 0) ? 0 : 1;
                if (pidref_wait(p, POLL_MS))
                        return 0;
        }
        return -1;
}

static int start_failed(const struct daemon *d, const struct pidref *p, int how, struct error *err)
{
        _cleanup_free_ char *words = daemon_last_words(d);

        if (how < 0) {
                (void) pidref_signal(p, SIGKILL);
                (void) pidref_wait(p, KILL_MS);
        }
        (void) waitpid(p->pid, NULL, WNOHANG);
        daemon_forget(d);
        if (how < 0)
                return error_set(err, ERR_TIMEOUT, 0,
                                 "daemon did not answer at %s within %d s (logs: %s)", d->url,
                                 START_MS / 1000, d->log_path);
        return error_set(err, ERR_SYSTEM, 0, "daemon ended while starting: %s (logs: %s)",
                         *words ? words : "it left no message", d->log_path);
}

static int start_new(const struct daemon *d, const struct command_ctx *ctx, struct error *err)
{
        _cleanup_(pidref_done) struct pidref p = { .fd = -1 };
        int r;

        fprintf(stderr, "starting daemon at %s (logs: %s)\n", d->url, d->log_path);
        if (spawn(d, ctx, &p.pid, err) < 0)
                return -1;
        if (!pidref_open_ours(p.pid, false, &p))
                return start_failed(d, &p, 0, err);
        if (daemon_remember(d, p.pid, err) < 0) {
                (void) pidref_signal(&p, SIGKILL);
                return -1;
        }
        r = await_health(d, &p);
        if (r <= 0)
                return start_failed(d, &p, r, err);
        fprintf(stderr, "daemon started (PID %d, logs: %s)\n", (int) p.pid, d->log_path);
        return 0;
}

/* Something answers at the address already. 1: it was ended, start a new one. */
static int meet_running(const struct daemon *d, const struct pidref *p, bool is_upgrade,
                        struct error *err)
{
        _cleanup_free_ char *build = daemon_build(d);

        if (!is_upgrade) {
                fprintf(stderr, "daemon already running at %s\n", d->url);
                return 0;
        }
        if (strcmp(build, d->build) == 0 || p->fd < 0) {
                fprintf(stderr, "daemon already running at %s (PID %d, logs: %s)\n", d->url,
                        (int) p->pid, d->log_path);
                return 0;
        }
        fprintf(stderr, "daemon is outdated (build %s, this is %s), restarting...\n", build,
                d->build);
        return end_process(d, p, err) < 0 ? -1 : 1;
}

/* 1: nobody is there, start one. 0: it runs. */
static int look_around(const struct daemon *d, bool is_upgrade, struct error *err)
{
        _cleanup_(pidref_done) struct pidref p = { .fd = -1 };
        enum daemon_health h = daemon_probe(d);
        bool is_stale, is_found = daemon_find(d, h != DAEMON_DOWN, &p, &is_stale);

        /* It is there but silent: perhaps somebody started it a moment ago. */
        if (h == DAEMON_DOWN && is_found)
                h = await_health(d, &p) == 1 ? DAEMON_OK : DAEMON_DOWN;
        if (h == DAEMON_OK || (h == DAEMON_LOCKED && is_found))
                return meet_running(d, &p, is_upgrade, err);
        if (h != DAEMON_DOWN)
                return error_set(err, ERR_CONFLICT, 0,
                                 "%s is taken: another program, or a server with another token, "
                                 "answers there",
                                 d->url);
        if (is_found && !pidref_wait(&p, 0))
                return error_set(
                        err, ERR_TIMEOUT, 0,
                        "daemon (PID %d) runs but does not answer at %s; try 'daemon stop' first",
                        (int) p.pid, d->url);
        return 1;
}

static int run_start(const void *values, const struct command_ctx *ctx, struct error *err)
{
        const struct daemon_options *o = values;
        _cleanup_(daemon_done) struct daemon d = {};
        _cleanup_close_ int lock = -1;
        int r;

        if (open_daemon(values, ctx, &d, err) < 0)
                return -1;
        lock = lock_start(&d, err);
        if (lock < 0)
                return -1;
        if (o->upgrade)
                fprintf(stderr, "checking daemon health at %s (token: %s)...\n", d.url,
                        d.token ? "set" : "unset");
        r = look_around(&d, o->upgrade, err);
        return r == 1 ? start_new(&d, ctx, err) : r;
}

#define DAEMON(rows, fn)                                                                           \
        .options = (rows), .options_size = ARRAY_LEN(rows),                                        \
        .values_size = sizeof(struct daemon_options), .run = (fn)

const struct command cmd_daemon_start = {
        "daemon start",
        .summary = "Start the server in the background, unless it runs",
        DAEMON(start_rows, run_start),
        .doc = "Waits until the server answers. Its output goes to a log file; the token is handed "
               "over in the environment.",
};
const struct command cmd_daemon_stop = {
        "daemon stop",
        .summary = "Stop the server in the background",
        DAEMON(address_rows, run_stop),
        .doc = "Lets requests finish; ends the server by force when it takes too long.",
};
const struct command cmd_daemon_status = {
        "daemon status",
        .summary = "Tell whether the server in the background runs",
        DAEMON(address_rows, run_status),
};
