#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/timer.h"
#include "io/watch.h"

enum {
        ACCEPT_BATCH = 64, /* then the connections that we have get a turn */
        BREATHE_MS = 100,  /* out of descriptors: wait, do not spin */
        LISTEN_FDS_START = 3,
};

struct listener {
        struct watch *watch;
        struct timer breathe;
        void (*accepted)(void *arg, int fd);
        void *arg;
        char *unix_path; /* made by us */
        int fd;
        uint16_t port;
};

static void on_breathe(struct timer *t)
{
        watch_set(CONTAINER_OF(t, struct listener, breathe)->watch, WATCH_READ);
}

static void on_accept(void *arg, int events)
{
        struct listener *l = arg;

        for (int i = 0; i < ACCEPT_BATCH; i++) {
                int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd >= 0) {
                        l->accepted(l->arg, fd);
                        if (l->fd < 0)
                                return; /* freed in there; the memory stays until later */
                        continue;
                }
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                        watch_set(l->watch, 0);
                        timer_set(&l->breathe, BREATHE_MS);
                        return;
                }
                if (errno != EINTR && errno != ECONNABORTED)
                        break;
        }
        watch_set(l->watch, WATCH_READ); /* an error condition turned it off */
}

static int bind_listen(int fd, const struct sockaddr *sa, socklen_t len, int backlog)
{
        int one = 1;

        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (sa->sa_family != AF_UNIX) /* accepted sockets inherit it */
                (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (bind(fd, sa, len) < 0 || listen(fd, backlog) < 0)
                return -1;
        return 0;
}

/* -1 with *ret_why. */
static int open_addr(const struct addrinfo *ai, int backlog, int *ret_why)
{
        int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd >= 0 && bind_listen(fd, ai->ai_addr, ai->ai_addrlen, backlog) == 0)
                return fd;
        *ret_why = errno;
        if (fd >= 0)
                (void) close(fd);
        return -1;
}

static int open_tcp(const struct listen_spec *spec, struct error *err)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
        struct addrinfo *list = NULL;
        char port[8];
        int fd = -1, why;

        (void) snprintf(port, sizeof(port), "%u", spec->port);
        why = getaddrinfo(spec->host, port, &hints, &list);
        if (why)
                return error_set(err, ERR_INVALID, 0, "listen on '%s': %s", spec->host,
                                 gai_strerror(why));
        /* "localhost" may name ::1 first on a machine without IPv6: the next one then. */
        for (struct addrinfo *ai = list; ai && fd < 0 && why != EADDRINUSE; ai = ai->ai_next)
                fd = open_addr(ai, spec->backlog, &why);
        freeaddrinfo(list);
        if (fd >= 0)
                return fd;
        return error_set(err, why == EADDRINUSE ? ERR_CONFLICT : ERR_SYSTEM, why,
                         "listen on %s port %u", spec->host, spec->port);
}

/* A socket file that nobody answers on is a leftover and goes; one that answers is in use.
 * Connecting to a plain file is refused as well, so what it is must be asked first. */
static bool is_stale(const struct sockaddr_un *sa, socklen_t len)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct stat st;

        if (lstat(sa->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
                return false;
        return connect(fd, (const struct sockaddr *) sa, len) < 0 && errno == ECONNREFUSED;
}

static int open_unix(const char *path, int backlog, struct error *err)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        socklen_t len = sizeof(sa);
        int fd, why;

        if (strlen(path) >= sizeof(sa.sun_path))
                return error_set(err, ERR_INVALID, 0,
                                 "listen on '%s': the path is longer than %zu bytes", path,
                                 sizeof(sa.sun_path) - 1);
        memcpy(sa.sun_path, path, strlen(path) + 1);
        if (is_stale(&sa, len))
                (void) unlink(path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        /* Before bind: the file is born with this mode, nobody slips in between. */
        if (fd >= 0 && fchmod(fd, 0600) == 0 &&
            bind_listen(fd, (struct sockaddr *) &sa, len, backlog) == 0)
                return fd;
        why = errno;
        if (fd >= 0)
                (void) close(fd);
        return error_set(err, why == EADDRINUSE ? ERR_CONFLICT : ERR_SYSTEM, why, "listen on '%s'",
                         path);
}

static uint16_t port_of(int fd)
{
        struct sockaddr_storage ss = { 0 };
        socklen_t len = sizeof(ss);

        if (getsockname(fd, (struct sockaddr *) &ss, &len) < 0)
                return 0;
        if (ss.ss_family == AF_INET)
                return ntohs(((struct sockaddr_in *) &ss)->sin_port);
        if (ss.ss_family == AF_INET6)
                return ntohs(((struct sockaddr_in6 *) &ss)->sin6_port);
        return 0;
}

static int open_spec(const struct listen_spec *spec, struct error *err)
{
        if (spec->fd >= 0) {
                (void) fcntl(spec->fd, F_SETFD, FD_CLOEXEC);
                return spec->fd;
        }
        return spec->unix_path ? open_unix(spec->unix_path, spec->backlog, err)
                               : open_tcp(spec, err);
}

int listener_new(struct loop *loop, const struct listen_spec *spec,
                 void (*accepted)(void *arg, int fd), void *arg, struct listener **ret,
                 struct error *err)
{
        struct listener *l;
        int fd = open_spec(spec, err);

        if (fd < 0)
                return -1;
        l = NEW(struct listener);
        *l = (struct listener) { .accepted = accepted, .arg = arg, .fd = fd, .port = port_of(fd) };
        if (spec->fd < 0 && spec->unix_path)
                l->unix_path = xstrdup(spec->unix_path);
        timer_init(&l->breathe, loop, on_breathe);
        if (watch_new(loop, fd, on_accept, l, &l->watch, err) < 0) {
                listener_free(l);
                return error_wrap(err, "listen");
        }
        watch_set(l->watch, WATCH_READ);
        *ret = l;
        return 0;
}

uint16_t listener_port(const struct listener *l)
{
        return l->port;
}

struct listener *listener_free(struct listener *l)
{
        if (!l)
                return NULL;
        timer_stop(&l->breathe);
        watch_free(l->watch);
        (void) close(TAKE_FD(l->fd));
        if (l->unix_path)
                (void) unlink(l->unix_path);
        free(l->unix_path);
        loop_free_later(l->breathe.loop, l);
        return NULL;
}

int socket_activation(int *ret_first)
{
        const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
        uint64_t n = 0, who = 0;

        if (!pid || !fds || !str_to_u64(pid, strlen(pid), &who) || who != (uint64_t) getpid() ||
            !str_to_u64(fds, strlen(fds), &n))
                n = 0;
        (void) unsetenv("LISTEN_PID");
        (void) unsetenv("LISTEN_FDS");
        (void) unsetenv("LISTEN_FDNAMES");
        *ret_first = LISTEN_FDS_START;
        return (int) MIN(n, 64u);
}

bool socket_host_is_loopback(const char *host)
{
        struct in6_addr a6;
        struct in_addr a4;

        if (strcasecmp(host, "localhost") == 0)
                return true;
        if (inet_pton(AF_INET, host, &a4) == 1)
                return (ntohl(a4.s_addr) >> 24) == 127;
        return inet_pton(AF_INET6, host, &a6) == 1 && IN6_IS_ADDR_LOOPBACK(&a6);
}

bool socket_fd_is_local(int fd)
{
        struct sockaddr_storage ss = { 0 };
        socklen_t len = sizeof(ss);

        if (getsockname(fd, (struct sockaddr *) &ss, &len) < 0)
                return false;
        if (ss.ss_family == AF_INET)
                return (ntohl(((struct sockaddr_in *) &ss)->sin_addr.s_addr) >> 24) == 127;
        if (ss.ss_family == AF_INET6)
                return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *) &ss)->sin6_addr);
        return ss.ss_family == AF_UNIX;
}
