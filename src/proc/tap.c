#include "proc/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/loop.h"
#include "io/stream.h"

#define TTY_EOF "\x04" /* what ^D types */

struct tap {
        struct stream s;      /* the owner's view */
        struct stream *inner; /* the descriptor */
        enum tap_kind kind;
        int fd;
        /* A terminal hangs up when its last near end closes, and that kills a program which closed
         * its own descriptors a moment before its exit. So one stays open until it has exited. */
        int hold_fd;
        size_t owed_bytes;
        void (*on_dry)(void *arg);
        void *arg;
};

static struct tap *of(struct stream *s)
{
        return CONTAINER_OF(s, struct tap, s);
}

static void let_hang_up(struct tap *t)
{
        closep(&t->hold_fd);
        t->hold_fd = -1;
}

static bool owner_reads(const struct tap *t)
{
        return t->s.sink && t->s.sink->on_data;
}

/* ---- from the descriptor ---- */

static void inner_data(void *arg, const char *data, size_t len)
{
        struct tap *t = arg;

        t->owed_bytes -= MIN(len, t->owed_bytes);
        if (!t->s.has_ended && owner_reads(t))
                t->s.sink->on_data(t->s.arg, data, len);
}

static void inner_room(void *arg)
{
        struct tap *t = arg;

        t->s.queued_bytes = t->inner->queued_bytes;
        t->s.is_full = false;
        if (!t->s.has_ended && t->s.sink && t->s.sink->on_room)
                t->s.sink->on_room(t->s.arg);
}

static void end(struct tap *t, const struct error *why)
{
        if (t->s.has_ended)
                return;
        t->s.has_ended = true;
        t->s.queued_bytes = 0;
        if (t->s.sink && t->s.sink->on_end)
                t->s.sink->on_end(t->s.arg, why); /* may free the child, and t with it */
}

/* The inner stream defers this, so we are never inside a call of the owner. */
static void inner_end(void *arg, const struct error *why)
{
        struct tap *t = arg;
        void (*on_dry)(void *) = t->on_dry;
        void *dry_arg = t->arg;

        t->fd = -1;
        if (t->kind != TAP_IN)
                on_dry(dry_arg); /* only queues */
        end(t, why);
}

static const struct stream_sink in_sink = { .on_room = inner_room, .on_end = inner_end };
static const struct stream_sink out_sink = {
        .on_data = inner_data,
        .on_room = inner_room,
        .on_end = inner_end,
};

/* ---- from the owner ---- */

static int tap_write(struct stream *s, struct chunk *c, struct error *err)
{
        struct tap *t = of(s);
        int r;

        if (t->kind == TAP_OUT)
                return error_set(err, ERR_INVALID, 0, "write to a child's output");
        t->inner->high_bytes = s->high_bytes;
        r = stream_write(t->inner, c, err);
        s->queued_bytes = t->inner->queued_bytes;
        s->is_full = t->inner->is_full;
        return r;
}

/* Without a reader nothing is read: the kernel's buffer fills and the child waits. */
static void tap_pause(struct stream *s, bool on)
{
        struct tap *t = of(s);

        if (t->kind != TAP_IN)
                stream_pause(t->inner, on || !owner_reads(t));
}

/* A terminal cannot be half closed: type the end-of-file character instead. */
static void tap_finish(struct stream *s)
{
        struct tap *t = of(s);

        if (t->kind == TAP_TTY)
                (void) stream_write_bytes(t->inner, TTY_EOF, 1, NULL);
        else
                stream_finish(t->inner);
}

static void tap_close(struct stream *s)
{
        let_hang_up(of(s));
        stream_close(of(s)->inner);
}

/* The owner lets go; the memory stays the child's. Its output is swallowed from now on. */
static void tap_let_go(struct stream *s)
{
        struct tap *t = of(s);

        s->sink = NULL;
        s->has_ended = true;
        if (t->kind == TAP_IN)
                stream_close(t->inner);
        else
                stream_pause(t->inner, false);
        t->on_dry(t->arg);
}

static const struct stream_ops tap_ops = {
        .name = "child stream",
        .write = tap_write,
        .pause = tap_pause,
        .finish = tap_finish,
        .close = tap_close,
        .free = tap_let_go,
};

/* ---- from the child ---- */

int tap_new(struct loop *l, int fd, enum tap_kind kind, void (*on_dry)(void *arg), void *arg,
            struct tap **ret, struct error *err)
{
        struct tap *t = NEW(struct tap);

        t->s = (struct stream) { .ops = &tap_ops, .loop = l, .high_bytes = STREAM_HIGH_BYTES };
        t->kind = kind;
        t->fd = fd;
        t->hold_fd = kind == TAP_TTY ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
        t->on_dry = on_dry;
        t->arg = arg;
        if (stream_open_fd(l, fd, &in_sink, t, &t->inner, err) < 0) {
                let_hang_up(t);
                free(t);
                return -1;
        }
        t->s.carrier = t->inner;
        if (kind != TAP_IN) {
                stream_pause(t->inner, true);            /* until the owner has set its sink */
                stream_set_sink(t->inner, &out_sink, t); /* now: nothing is watched and unwatched */
        }
        *ret = t;
        return 0;
}

struct stream *tap_stream(struct tap *t)
{
        return &t->s;
}

int tap_fd(const struct tap *t)
{
        return t->inner->has_ended ? t->hold_fd : t->fd;
}

void tap_note_exit(struct tap *t)
{
        int n = 0;

        if (!tap_is_dry(t) && ioctl(tap_fd(t), FIONREAD, &n) == 0 && n > 0)
                t->owed_bytes = (size_t) n;
}

bool tap_is_dry(const struct tap *t)
{
        return t->kind == TAP_IN || t->s.has_ended || !owner_reads(t);
}

/* What a terminal still holds cannot be counted; there a pause alone means "wait for me". */
bool tap_is_owed(const struct tap *t)
{
        if (tap_is_dry(t))
                return false;
        return t->owed_bytes > 0 || (t->kind == TAP_TTY && t->s.is_paused);
}

void tap_cut(struct tap *t)
{
        struct error err;
        bool was_lost = t->inner->queued_bytes > 0;

        let_hang_up(t);
        if (t->kind == TAP_IN)
                stream_close(t->inner);
        else
                stream_pause(t->inner, false);
        (void) error_set(&err, ERR_UPSTREAM, 0, "the process has exited");
        end(t, was_lost ? &err : NULL);
}

struct tap *tap_free(struct tap *t)
{
        if (!t)
                return NULL;
        t->s.sink = NULL;
        t->s.has_ended = true;
        let_hang_up(t);
        t->s.carrier = NULL;
        t->inner = stream_free(t->inner);
        loop_free_later(t->s.loop, t);
        return NULL;
}
