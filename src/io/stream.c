/* The parts that all kinds of stream share. */
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/stream_impl.h"

enum { PROBE_AFTER_S = 60, PROBE_EVERY_S = 15, PROBES = 4 };

int stream_write(struct stream *s, struct chunk *c, struct error *err)
{
        if (s->has_ended)
                return error_set(err, ERR_UPSTREAM, 0, "write to a closed %s", s->ops->name);
        if (!c->len)
                return !s->is_full;
        return s->files ? stream_files_write(s, c, err) : s->ops->write(s, c, err);
}

int stream_write_bytes(struct stream *s, const void *data, size_t len, struct error *err)
{
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(data, len);

        return stream_write(s, c, err);
}

void stream_set_sink(struct stream *s, const struct stream_sink *sink, void *arg)
{
        s->sink = sink;
        s->arg = arg;
        stream_pause(s, s->is_paused); /* a new sink may want to read */
}

void stream_pause(struct stream *s, bool on)
{
        s->is_paused = on;
        if (!s->has_ended)
                s->ops->pause(s, on);
}

void stream_finish(struct stream *s)
{
        if (s->has_ended)
                return;
        s->is_finishing = true;
        if (!s->files)
                s->ops->finish(s);
}

void stream_close(struct stream *s)
{
        if (!s->has_ended)
                s->ops->close(s);
}

struct stream *stream_free(struct stream *s)
{
        if (s)
                s->ops->free(s);
        return NULL;
}

/* The socket at the bottom, or -1. */
static int socket_of(struct stream *s)
{
        const struct stream *below = s;

        while (below->carrier)
                below = below->carrier;
        return below->ops->bare_fd ? below->ops->bare_fd((struct stream *) below) : -1;
}

uint64_t stream_taken(struct stream *s)
{
        int fd = socket_of(s), waiting = 0;

        if (fd >= 0 && ioctl(fd, SIOCOUTQ, &waiting) < 0)
                waiting = 0;
        return stream_sent(s) - (uint64_t) waiting;
}

bool stream_peer(struct stream *s, char *ret, size_t size)
{
        struct sockaddr_in6 a = { 0 }; /* the longest that has a text; a unix path is cut */
        const struct sockaddr_in *v4 = (const struct sockaddr_in *) &a;
        socklen_t len = sizeof(a);
        int fd = socket_of(s);

        if (fd < 0 || getpeername(fd, (struct sockaddr *) &a, &len) < 0)
                return false;
        if (a.sin6_family == AF_INET)
                return inet_ntop(AF_INET, &v4->sin_addr, ret, (socklen_t) size);
        if (a.sin6_family != AF_INET6)
                return false;
        if (IN6_IS_ADDR_V4MAPPED(&a.sin6_addr))
                return inet_ntop(AF_INET, &a.sin6_addr.s6_addr[12], ret, (socklen_t) size);
        return inet_ntop(AF_INET6, &a.sin6_addr, ret, (socklen_t) size);
}

void stream_keep_alive(struct stream *s)
{
        static const int on = 1, after = PROBE_AFTER_S, every = PROBE_EVERY_S, n = PROBES;
        int fd = socket_of(s);

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0)
                return;
        /* Where these are not known (a unix socket) nothing is missing. */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof(after));
        (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
        (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
}
