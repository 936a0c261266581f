/* A stream over a descriptor: socket, pipe or pty. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "io/chunkq.h"
#include "io/loop_impl.h"
#include "io/stream_impl.h"
#include "io/watch.h"

enum { IOV_BATCH = 32 };

struct fd_stream {
        struct stream s;
        struct chunkq queue;
        struct watch *watch;
        struct task flush; /* gathered writes, at the end of the iteration */
        struct task end;   /* on_end, never from inside a caller */
        struct error *why; /* of the end; NULL = clean */
        int fd, lost;      /* lost: errno of a failed write whose last words are still read */
        bool is_socket, is_finishing, is_shut, saw_eof;
        bool is_blocked; /* the kernel takes no more: wait until it does */
};

static struct fd_stream *of(struct stream *s)
{
        return CONTAINER_OF(s, struct fd_stream, s);
}

static bool wants_data(const struct fd_stream *f)
{
        return !f->s.is_paused && !f->saw_eof && f->s.sink && f->s.sink->on_data;
}

/* Will somebody read what the other side has said, now or after a pause? */
static bool may_hear(const struct fd_stream *f)
{
        return wants_data(f) || (f->s.hears_out && !f->saw_eof && f->s.sink && f->s.sink->on_data);
}

static void set_watch(struct fd_stream *f)
{
        int want = 0;

        if (!f->watch)
                return;
        if (wants_data(f))
                want |= WATCH_READ;
        if (f->is_blocked)
                want |= WATCH_WRITE;
        watch_set(f->watch, want);
}

static void shut(struct fd_stream *f)
{
        int fd;

        f->watch = watch_free(f->watch);
        fd = stream_files_drop(&f->s, TAKE_FD(f->fd));
        closep(&fd);
        chunkq_done(&f->queue);
        f->s.queued_bytes = 0;
        task_cancel(&f->flush);
}

/* The one way out: nothing more is read or written, on_end follows at the end of the iteration. */
static void end_for(struct fd_stream *f, const struct error *why)
{
        if (f->s.has_ended)
                return;
        f->s.has_ended = true;
        if (why) {
                f->why = NEW(struct error);
                *f->why = *why;
        }
        shut(f);
        loop_defer(f->s.loop, &f->end);
}

static void end(struct fd_stream *f, int why, const char *doing)
{
        struct error err;

        if (f->lost) {
                why = f->lost;
                doing = "write";
        }
        if (why)
                (void) error_set(&err, ERR_UPSTREAM, why, "%s", doing);
        end_for(f, why ? &err : NULL);
}

static void run_end(struct task *t)
{
        struct fd_stream *f = CONTAINER_OF(t, struct fd_stream, end);
        _cleanup_free_ struct error *why = TAKE_PTR(f->why);

        if (f->s.sink && f->s.sink->on_end)
                f->s.sink->on_end(f->s.arg, why); /* may free f */
}

static ssize_t write_some(struct fd_stream *f)
{
        struct iovec iov[IOV_BATCH];
        struct msghdr msg = { .msg_iov = iov };

        msg.msg_iovlen = chunkq_iov(&f->queue, iov, IOV_BATCH);
        if (f->is_socket) /* a head need not travel alone when its file follows */
                return sendmsg(f->fd, &msg, MSG_NOSIGNAL | (f->s.files ? MSG_MORE : 0));
        return writev(f->fd, iov, (int) msg.msg_iovlen);
}

/* After the last byte of a finished stream: a socket closes its half, anything else is over. */
static void finish_now(struct fd_stream *f)
{
        f->is_finishing = false;
        f->is_shut = true;
        if (f->is_socket && !f->saw_eof && shutdown(f->fd, SHUT_WR) == 0)
                return;
        end(f, 0, NULL);
}

static bool is_gone(int why)
{
        return why == EPIPE || why == ECONNRESET;
}

/* Who stops reading may have said why before ("413", then close): that is read to its end first. */
static void write_failed(struct fd_stream *f, int why)
{
        f->lost = why;
        if (!f->is_socket || !may_hear(f) || !is_gone(why)) {
                end(f, why, "write");
                return;
        }
        (void) stream_files_drop(&f->s, -1); /* no slice of it uses the socket now */
        chunkq_done(&f->queue);
        f->s.queued_bytes = 0;
        set_watch(f);
}

static void flush(struct fd_stream *f)
{
        f->is_blocked = false;
        while (f->queue.bytes && !f->is_blocked) {
                ssize_t n = write_some(f);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN) {
                        f->is_blocked = true;
                        break;
                }
                if (n < 0) {
                        write_failed(f, errno);
                        return;
                }
                chunkq_drop(&f->queue, (size_t) n);
                f->s.queued_bytes = f->queue.bytes;
                f->s.sent_bytes += (uint64_t) n;
        }
        set_watch(f);
        if (!f->queue.bytes && f->is_finishing)
                finish_now(f);
        else if (f->queue.bytes <= f->s.high_bytes / 4)
                stream_has_room(&f->s);
}

static void run_flush(struct task *t)
{
        flush(CONTAINER_OF(t, struct fd_stream, flush));
}

static void got_eof(struct fd_stream *f)
{
        f->saw_eof = true;
        set_watch(f);
        if (f->s.sink->on_eof)
                f->s.sink->on_eof(f->s.arg); /* may free f, whose memory stays until later */
        else
                end(f, 0, NULL);
        if (f->is_shut || f->lost)
                end(f, 0, NULL); /* both halves are closed */
}

static void read_some(struct fd_stream *f)
{
        char *buf = f->s.loop->read_buf;
        ssize_t n = read(f->fd, buf, STREAM_READ_BYTES);

        if (n > 0)
                f->s.sink->on_data(f->s.arg, buf, (size_t) n);
        else if (n == 0 || (errno == EIO && !f->is_socket))
                got_eof(f); /* EIO: the other side of a pty closed */
        else if (errno != EAGAIN && errno != EINTR)
                end(f, errno, "read");
}

static void on_ready(void *arg, int events)
{
        struct fd_stream *f = arg;

        if ((events & WATCH_WRITE) && (f->queue.bytes || f->s.files))
                flush(f);
        if (f->s.has_ended)
                return;
        if ((events & WATCH_READ) && wants_data(f))
                read_some(f); /* may free f, whose memory stays until later */
        else if ((events & WATCH_ERROR) && !may_hear(f))
                end(f, EPIPE, "wait"); /* and nobody reads: the other side is gone */
        set_watch(f); /* an error turned it off; what came before the error is still read */
}

static int fd_write(struct stream *s, struct chunk *c, struct error *err)
{
        struct fd_stream *f = of(s);

        if (f->is_finishing || f->is_shut || f->lost)
                return error_set(err, ERR_UPSTREAM, 0, "write after the end");
        chunkq_push(&f->queue, c);
        s->queued_bytes = f->queue.bytes;
        loop_defer(s->loop, &f->flush);
        if (f->queue.bytes > s->high_bytes)
                s->is_full = true;
        return !s->is_full;
}

static void fd_pause(struct stream *s, bool on)
{
        if (of(s)->lost && on && !s->hears_out)
                end(of(s), 0, NULL); /* nobody waits for the last words */
        else
                set_watch(of(s));
}

static void fd_finish(struct stream *s)
{
        struct fd_stream *f = of(s);

        if (f->lost)
                return;
        f->is_finishing = true;
        loop_defer(s->loop, &f->flush);
}

static void fd_close(struct stream *s)
{
        end(of(s), 0, NULL);
}

static void fd_free(struct stream *s)
{
        struct fd_stream *f = of(s);

        s->has_ended = true;
        shut(f);
        task_cancel(&f->end);
        free(f->why);
        loop_free_later(s->loop, f);
}

static void fd_fail(struct stream *s, const struct error *why)
{
        if (is_gone(why->sys))
                write_failed(of(s), why->sys);
        else
                end_for(of(s), why);
}

static int fd_bare(struct stream *s)
{
        return of(s)->is_socket ? of(s)->fd : -1;
}

static void fd_await(struct stream *s)
{
        of(s)->is_blocked = true;
        set_watch(of(s));
}

static const struct stream_ops fd_ops = {
        .name = "stream",
        .write = fd_write,
        .pause = fd_pause,
        .finish = fd_finish,
        .close = fd_close,
        .free = fd_free,
        .fail = fd_fail,
        .bare_fd = fd_bare,
        .await = fd_await,
};

int stream_open_fd(struct loop *l, int fd, const struct stream_sink *sink, void *arg,
                   struct stream **ret, struct error *err)
{
        struct fd_stream *f = NEW(struct fd_stream);
        struct stat st;

        f->s = (struct stream) {
                .ops = &fd_ops, .sink = sink, .arg = arg, .loop = l, .high_bytes = STREAM_HIGH_BYTES
        };
        f->fd = fd;
        f->is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
        task_init(&f->flush, run_flush);
        task_init(&f->end, run_end);
        if (watch_new(l, fd, on_ready, f, &f->watch, err) < 0) {
                (void) close(fd);
                free(f);
                return -1;
        }
        set_watch(f);
        *ret = &f->s;
        return 0;
}
