#include "client/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "io/loop.h"
#include "io/watch.h"

struct source {
        struct loop *loop;
        const struct source_cb *cb;
        void *arg;
        int fd;              /* own one */
        struct watch *watch; /* NULL: what cannot be waited for is always ready */
        struct task read, reap;
        bool is_paused, is_over;
        char piece[SOURCE_PIECE_BYTES];
};

static void source_end(struct source *s, const struct error *why)
{
        s->is_over = true;
        if (s->watch)
                watch_set(s->watch, 0);
        s->cb->on_end(s->arg, why);
}

/* One piece; the rest has its turn in the next iteration. */
static void read_piece(struct source *s)
{
        struct error err;
        ssize_t n = read(s->fd, s->piece, sizeof(s->piece));

        if (n > 0) {
                s->cb->on_data(s->arg, s->piece, (size_t) n);
                return;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n == 0 || errno == EIO) { /* a terminal that is gone */
                source_end(s, NULL);
                return;
        }
        (void) error_set(&err, ERR_SYSTEM, errno, "read");
        source_end(s, &err);
}

static void run_read(struct task *t)
{
        struct source *s = CONTAINER_OF(t, struct source, read);

        if (s->is_paused || s->is_over)
                return;
        read_piece(s);
        if (!s->is_paused && !s->is_over)
                loop_defer(s->loop, &s->read);
}

static void on_ready(void *arg, int events)
{
        struct source *s = arg;

        if (s->is_paused || s->is_over)
                return;
        read_piece(s);
        if (!s->is_paused && !s->is_over)
                watch_set(s->watch, WATCH_READ);
}

static void run_reap(struct task *t)
{
        free(CONTAINER_OF(t, struct source, reap));
}

/* A watched descriptor becomes non-blocking, and that belongs to the open file, which a shell and
 * its other programs share. So the file is opened again where that can be done. */
static int own_fd(int fd)
{
        char path[32];
        int own;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        own = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* A socket cannot be opened again: it gets its flags back at once, which are those of stdout, too,
 * perhaps. It is read only when there is something, so it does not block either. */
static bool watch_fd(struct source *s, int fd)
{
        int flags = fcntl(fd, F_GETFL), own = own_fd(fd);

        if (own < 0)
                return false;
        if (watch_new(s->loop, own, on_ready, s, &s->watch, NULL) < 0) {
                (void) close(own); /* a file: read where its offset stands, so not from anew */
                return false;
        }
        if (flags >= 0 && fcntl(fd, F_GETFL) != flags)
                (void) fcntl(fd, F_SETFL, flags);
        s->fd = own;
        return true;
}

int source_new(struct loop *l, int fd, const struct source_cb *cb, void *arg, struct source **ret,
               struct error *err)
{
        struct source *s = NEW(struct source);

        s->loop = l;
        s->cb = cb;
        s->arg = arg;
        task_init(&s->read, run_read);
        task_init(&s->reap, run_reap);
        if (!watch_fd(s, fd))
                s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (s->fd < 0) {
                free(s);
                return error_set(err, ERR_SYSTEM, errno, "read descriptor %d", fd);
        }
        *ret = s;
        source_pause(s, false);
        return 0;
}

void source_pause(struct source *s, bool on)
{
        s->is_paused = on;
        if (s->is_over)
                return;
        if (s->watch)
                watch_set(s->watch, on ? 0 : WATCH_READ);
        else if (!on)
                loop_defer(s->loop, &s->read);
}

struct source *source_free(struct source *s)
{
        if (!s)
                return NULL;
        s->is_over = true;
        task_cancel(&s->read);
        s->watch = watch_free(s->watch);
        (void) close(s->fd);
        loop_defer(s->loop, &s->reap); /* a callback may be on the stack */
        return NULL;
}
