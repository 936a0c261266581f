#include "cli/daemon.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"
#include "client/client.h"

enum {
        PROBE_CONNECT_MS = 2000,
        PROBE_ANSWER_MS = 5000,
        SMALL_FILE_MAX = 256,
        TAIL_BYTES = 2048,
};

/* ---- names ---- */

static char *data_dir(struct error *err)
{
        const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

        if (data && *data == '/')
                return xstrdup(data);
        if (home && *home)
                return xasprintf("%s/.local/share", home);
        (void) error_set(err, ERR_SYSTEM, 0,
                         "no data directory: neither XDG_DATA_HOME nor HOME is set");
        return NULL;
}

/* IPv6 addresses stand in brackets. */
static char *url_of(const char *host, unsigned port)
{
        return strchr(host, ':') ? xasprintf("http://[%s]:%u", host, port)
                                 : xasprintf("http://%s:%u", host, port);
}

/* A wildcard address is reached through loopback. */
static const char *reachable(const char *host)
{
        if (strcmp(host, "0.0.0.0") == 0)
                return "127.0.0.1";
        return strcmp(host, "::") == 0 ? "::1" : host;
}

/* Version and a number that changes with the program's file: a rebuilt binary is another build. */
static void build_id(char *ret, size_t size)
{
        uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a over what identifies the file */
        struct stat st = {};

        (void) stat("/proc/self/exe", &st);
        for (size_t i = 0; i < 3; i++) {
                const int64_t part[] = { st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_size };

                for (unsigned shift = 0; shift < 64; shift += 8)
                        hash = (hash ^ ((uint64_t) part[i] >> shift & 0xff)) * 0x100000001b3u;
        }
        (void) snprintf(ret, size, "%s-%llu", SA_VERSION, (unsigned long long) hash);
}

static void paths_fill(struct daemon *d, const char *dir)
{
        _cleanup_free_ char *name = xstrdup(d->host);

        for (char *c = name; *c; c++)
                if (!isalnum((unsigned char) *c))
                        *c = '-';
        d->pid_path = xasprintf("%s/daemon-%s-%u.pid", dir, name, d->port);
        d->version_path = xasprintf("%s/daemon-%s-%u.version", dir, name, d->port);
        d->log_path = xasprintf("%s/daemon-%s-%u.log", dir, name, d->port);
}

int daemon_init(struct daemon *d, const char *host, uint16_t port, const struct secret *token,
                struct error *err)
{
        _cleanup_free_ char *data = data_dir(err), *dir = NULL;

        *d = (struct daemon) { .host = host, .port = port, .token = token };
        if (!data)
                return -1;
        dir = xasprintf("%s/sandbox-agent/daemon", data);
        if (dir_make(dir, 0700, err) < 0)
                return -1;
        d->url = url_of(host, port);
        d->probe_url = url_of(reachable(host), port);
        paths_fill(d, dir);
        build_id(d->build, sizeof(d->build));
        return 0;
}

void daemon_done(struct daemon *d)
{
        free(d->url);
        free(d->probe_url);
        free(d->pid_path);
        free(d->version_path);
        free(d->log_path);
        *d = (struct daemon) {};
}

/* ---- the running one ---- */

enum daemon_health daemon_probe(const struct daemon *d)
{
        const struct client_request q = { .method = "GET", .path = "/v1/health" };
        _cleanup_(http_answer_done) struct http_answer a = {};
        _cleanup_(client_freep) struct client *c = NULL;

        if (client_new(d->probe_url, d->token, &c, NULL) < 0)
                return DAEMON_DOWN;
        client_set_limits(c, PROBE_CONNECT_MS, PROBE_ANSWER_MS);
        if (client_call(c, &q, &a, NULL) < 0)
                return DAEMON_DOWN;
        if (a.status == 401 || a.status == 403)
                return DAEMON_LOCKED;
        return a.status == 200 ? DAEMON_OK : DAEMON_ODD;
}

/* A small file without the white space at its end; NULL when it is not there. */
static char *small_read(const char *path)
{
        _cleanup_(buf_done) struct buf b = { .max_bytes = SMALL_FILE_MAX };

        if (file_read(path, &b, NULL) < 0)
                return NULL;
        while (b.len && isspace((unsigned char) b.data[b.len - 1]))
                b.len--;
        return xstrndup(b.data ?: "", b.len);
}

bool daemon_find(const struct daemon *d, bool has_listener, struct pidref *ret, bool *ret_stale)
{
        _cleanup_free_ char *text = small_read(d->pid_path);
        uint64_t pid = 0;

        *ret_stale = text != NULL;
        if (text && str_to_u64(text, strlen(text), &pid) && pid <= INT32_MAX &&
            pidref_open_ours((pid_t) pid, true, ret))
                return true;
        return has_listener && procfs_listener(d->port, ret);
}

char *daemon_build(const struct daemon *d)
{
        return small_read(d->version_path) ?: xstrdup("unknown");
}

int daemon_remember(const struct daemon *d, pid_t pid, struct error *err)
{
        char text[24];
        int n = snprintf(text, sizeof(text), "%d", (int) pid);

        if (file_write(d->version_path, d->build, strlen(d->build), 0600, err) < 0)
                return -1;
        return file_write(d->pid_path, text, (size_t) n, 0600, err);
}

void daemon_forget(const struct daemon *d)
{
        (void) unlink(d->pid_path);
        (void) unlink(d->version_path);
}

char *daemon_last_words(const struct daemon *d)
{
        _cleanup_close_ int fd = open(d->log_path, O_RDONLY | O_CLOEXEC);
        char text[TAIL_BYTES + 1];
        off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
        ssize_t n = fd < 0 ? 0 : pread(fd, text, TAIL_BYTES, MAX(end - TAIL_BYTES, (off_t) 0));
        char *line;

        n = MAX(n, (ssize_t) 0);
        while (n && isspace((unsigned char) text[n - 1]))
                n--;
        text[n] = '\0';
        line = strrchr(text, '\n');
        line = line ? line + 1 : text;
        return xstrdup(str_starts(line, "error: ") ? line + strlen("error: ") : line);
}
