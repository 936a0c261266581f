#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/loop.h"
#include "io/socket.h"
#include "io/timer.h"
#include "io/watch.h"

/* Life: look up (pool thread) → try addresses one by one → done. A cancelled dial whose look-up
 * still runs is freed when the look-up returns. */
struct dial {
        struct loop *loop;
        struct timer deadline;
        struct task next;
        struct watch *watch;
        struct addrinfo *list, *at; /* at: to be tried next */
        struct sockaddr_un unix_addr;
        char *host;
        void (*done)(void *arg, int fd, const struct error *why);
        void *arg;
        int fd, gai;
        uint16_t port;
        bool is_unix, is_looking, is_cancelled;
        struct error why;
};

static void dial_free(struct dial *d)
{
        timer_stop(&d->deadline);
        task_cancel(&d->next);
        watch_free(d->watch);
        if (d->fd >= 0)
                (void) close(d->fd);
        if (d->list)
                freeaddrinfo(d->list);
        free(d->host);
        loop_free_later(d->loop, d);
}

static void finish(struct dial *d)
{
        int fd = TAKE_FD(d->fd);

        if (d->is_looking) { /* the pool thread still uses d */
                d->is_cancelled = true;
                timer_stop(&d->deadline);
                d->done(d->arg, -1, &d->why);
                return;
        }
        d->watch = watch_free(d->watch);
        d->done(d->arg, fd, fd >= 0 ? NULL : &d->why);
        dial_free(d);
}

static void on_deadline(struct timer *t)
{
        struct dial *d = CONTAINER_OF(t, struct dial, deadline);

        d->watch = watch_free(d->watch);
        if (d->fd >= 0)
                (void) close(TAKE_FD(d->fd));
        (void) error_set(&d->why, ERR_TIMEOUT, 0, "connect to '%s': no answer in time", d->host);
        finish(d);
}

static int fail(struct dial *d, int why)
{
        if (d->fd >= 0)
                (void) close(TAKE_FD(d->fd));
        return error_set(&d->why, ERR_UPSTREAM, why, "connect to '%s'", d->host);
}

static void on_connected(void *arg, int events)
{
        struct dial *d = arg;
        socklen_t len = sizeof(int);
        int why = 0;

        d->watch = watch_free(d->watch);
        if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0) {
                finish(d);
                return;
        }
        (void) fail(d, why);
        loop_defer(d->loop, &d->next);
}

/* 1 = connected, 0 = in progress, -1 = failed (why is set). */
static int try_addr(struct dial *d, int family, const struct sockaddr *sa, socklen_t len)
{
        int one = 1;

        d->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (d->fd < 0)
                return fail(d, errno);
        if (family != AF_UNIX)
                (void) setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(d->fd, sa, len) == 0)
                return 1;
        if (errno != EINPROGRESS)
                return fail(d, errno);
        if (watch_new(d->loop, d->fd, on_connected, d, &d->watch, &d->why) < 0) {
                (void) close(TAKE_FD(d->fd));
                return -1;
        }
        watch_set(d->watch, WATCH_WRITE);
        return 0;
}

static int try_unix(struct dial *d)
{
        struct sockaddr_un sa = d->unix_addr;

        sa.sun_family = AF_UNIX;
        return try_addr(d, AF_UNIX, (struct sockaddr *) &sa, sizeof(sa));
}

static int try_next(struct dial *d)
{
        struct addrinfo *ai;

        if (d->is_unix) {
                if (!d->unix_addr.sun_family)
                        return -1;
                d->unix_addr.sun_family = 0; /* one try */
                return try_unix(d);
        }
        while ((ai = d->at)) {
                int r;

                d->at = ai->ai_next;
                r = try_addr(d, ai->ai_family, ai->ai_addr, ai->ai_addrlen);
                if (r >= 0)
                        return r;
        }
        return -1;
}

static void run_next(struct task *t)
{
        struct dial *d = CONTAINER_OF(t, struct dial, next);

        if (try_next(d) != 0)
                finish(d);
}

static void look_up(void *arg)
{
        struct dial *d = arg;
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
        char port[8];

        (void) snprintf(port, sizeof(port), "%u", d->port);
        d->gai = getaddrinfo(d->host, port, &hints, &d->list);
}

static void looked_up(void *arg)
{
        struct dial *d = arg;

        d->is_looking = false;
        if (d->is_cancelled) {
                dial_free(d);
                return;
        }
        d->at = d->list;
        if (d->gai)
                (void) error_set(&d->why, ERR_UPSTREAM, 0, "look up '%s': %s", d->host,
                                 gai_strerror(d->gai));
        run_next(&d->next);
}

static struct dial *dial_new(struct loop *l, const char *host, int timeout_ms,
                             void (*done)(void *arg, int fd, const struct error *why), void *arg)
{
        struct dial *d = NEW(struct dial);

        *d = (struct dial) { .loop = l, .done = done, .arg = arg, .fd = -1, .host = xstrdup(host) };
        timer_init(&d->deadline, l, on_deadline);
        task_init(&d->next, run_next);
        timer_set(&d->deadline, timeout_ms);
        return d;
}

/* Addresses written as numbers need no look-up and no thread. */
static bool look_up_numeric(struct dial *d)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
        char port[8];

        (void) snprintf(port, sizeof(port), "%u", d->port);
        return getaddrinfo(d->host, port, &hints, &d->list) == 0;
}

struct dial *dial_tcp(struct loop *l, const char *host, uint16_t port, int timeout_ms,
                      void (*done)(void *arg, int fd, const struct error *why), void *arg)
{
        struct dial *d = dial_new(l, host, timeout_ms, done, arg);

        d->port = port;
        if (look_up_numeric(d)) {
                d->at = d->list;
                loop_defer(l, &d->next);
        } else {
                d->is_looking = true;
                loop_work(l, look_up, looked_up, d);
        }
        return d;
}

struct dial *dial_unix(struct loop *l, const char *path, int timeout_ms,
                       void (*done)(void *arg, int fd, const struct error *why), void *arg)
{
        struct dial *d = dial_new(l, path, timeout_ms, done, arg);

        d->is_unix = true;
        if (strlen(path) < sizeof(d->unix_addr.sun_path)) {
                d->unix_addr.sun_family = AF_UNIX;
                memcpy(d->unix_addr.sun_path, path, strlen(path) + 1);
        } else {
                (void) error_set(&d->why, ERR_INVALID, 0, "connect to '%s': the path is too long",
                                 path);
        }
        loop_defer(l, &d->next);
        return d;
}

void dial_cancel(struct dial *d)
{
        if (d->is_looking) {
                d->is_cancelled = true;
                timer_stop(&d->deadline);
        } else {
                dial_free(d);
        }
}
