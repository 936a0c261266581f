#include "cli/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"

enum {
        CMDLINE_MAX = 64 * 1024,
        NET_TABLE_MAX = 64 * 1024 * 1024,
        LISTENERS_MAX = 64,
};

/* ---- one process ---- */

void pidref_done(struct pidref *p)
{
        closep(&p->fd);
        *p = (struct pidref) { .fd = -1 };
}

/* The path of a running program, without the mark of one that was replaced on disk. */
static bool exe_path(const char *pid, char ret[static PATH_MAX])
{
        static const char gone[] = " (deleted)";
        char link[64];
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/%s/exe", pid);
        n = readlink(link, ret, PATH_MAX - 1);
        if (n < 0)
                return false;
        ret[n] = '\0';
        if (str_ends(ret, gone))
                ret[(size_t) n - strlen(gone)] = '\0';
        return true;
}

static bool is_same_program(const char *pid)
{
        char theirs[PATH_MAX], ours[PATH_MAX];

        if (!exe_path(pid, theirs) || !exe_path("self", ours))
                return false;
        return strcmp(theirs, ours) == 0 || str_ends(theirs, "/sandbox-agent");
}

/* Is one of its arguments the word `server`? */
static bool is_server(const char *pid)
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = CMDLINE_MAX };
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
        if (file_read(path, &text, NULL) < 0)
                return false;
        for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1)
                if (strcmp(text.data + at, "server") == 0)
                        return true;
        return false;
}

bool pidref_open_ours(pid_t pid, bool needs_server, struct pidref *ret)
{
        struct pidref p = { pid, pid > 1 ? pidfd_open(pid, 0) : -1 };
        char name[24];

        (void) snprintf(name, sizeof(name), "%d", (int) pid);
        if (p.fd >= 0 && is_same_program(name) && (!needs_server || is_server(name)) &&
            !pidref_wait(&p, 0)) { /* still alive: so /proc spoke about this process */
                *ret = p;
                return true;
        }
        pidref_done(&p);
        return false;
}

bool pidref_signal(const struct pidref *p, int sig)
{
        return pidfd_send_signal(p->fd, sig, NULL, 0) == 0;
}

bool pidref_wait(const struct pidref *p, int timeout_ms)
{
        struct pollfd f = { .fd = p->fd, .events = POLLIN };
        int r;

        do
                r = poll(&f, 1, timeout_ms);
        while (r < 0 && errno == EINTR);
        return r > 0;
}

/* ---- who listens ---- */

struct inodes {
        unsigned long long at[LISTENERS_MAX];
        size_t n;
};

/* Lines of /proc/net/tcp: "  0: 0100007F:09A4 00000000:0000 0A … uid timeout inode …" */
static void listeners_add(const char *table, uint16_t port, struct inodes *ret)
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = NET_TABLE_MAX };
        struct slice rest, line;

        if (file_read(table, &text, NULL) < 0 || !text.data)
                return;
        rest = (struct slice) { text.data, text.len };
        while (slice_cut(&rest, '\n', &line)) {
                unsigned long long inode;
                unsigned local, state;
                char one[512];

                (void) snprintf(one, sizeof(one), "%.*s", (int) MIN(line.len, sizeof(one) - 1),
                                line.at);
                if (sscanf(one,
                           " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u "
                           "%*u %llu",
                           &local, &state, &inode) == 3 &&
                    local == port && state == 0x0a && ret->n < LISTENERS_MAX)
                        ret->at[ret->n++] = inode;
        }
}

static bool holds_socket(const char *pid, const struct inodes *in)
{
        char path[300], link[64];
        struct dirent *e;
        bool is_found = false;
        DIR *d;

        (void) snprintf(path, sizeof(path), "/proc/%.32s/fd", pid);
        d = opendir(path);
        while (d && !is_found && (e = readdir(d))) {
                unsigned long long inode;
                ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

                link[MAX(n, (ssize_t) 0)] = '\0';
                if (sscanf(link, "socket:[%llu]", &inode) != 1)
                        continue;
                for (size_t i = 0; i < in->n && !is_found; i++)
                        is_found = in->at[i] == inode;
        }
        if (d)
                (void) closedir(d);
        return is_found;
}

bool procfs_listener(uint16_t port, struct pidref *ret)
{
        struct inodes in = {};
        bool is_found = false;
        struct dirent *e;
        uint64_t pid;
        DIR *d;

        listeners_add("/proc/net/tcp", port, &in);
        listeners_add("/proc/net/tcp6", port, &in);
        d = in.n ? opendir("/proc") : NULL;
        while (d && !is_found && (e = readdir(d)))
                if (str_to_u64(e->d_name, strlen(e->d_name), &pid) && pid <= INT_MAX &&
                    is_same_program(e->d_name) && holds_socket(e->d_name, &in))
                        is_found = pidref_open_ours((pid_t) pid, false, ret);
        if (d)
                (void) closedir(d);
        return is_found;
}
