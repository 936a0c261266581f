/* Parts of files in a stream's queue.
 *
 * From the first file on, everything that is written waits in a list of parts, so that the order is
 * kept; the last part gone, the list goes too and the stream is as before. The first part is always
 * a file. It leaves in slices, and a slice is an errand for the pool, since it may have to wait for
 * the disk: sendfile(2) straight into the socket of a descriptor stream once nothing is queued
 * there, or a read whose bytes are then written like any others. One errand at a time. When the
 * stream goes first, the errand keeps both descriptors until it is back. */
#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "io/loop.h"
#include "io/stream_impl.h"

enum {
        SLICE_BYTES = 1024 * 1024, /* of one sendfile: keeps a thread busy for a moment at most */
        PIECE_BYTES = 128 * 1024,  /* of one read: what a slow reader costs in memory */
        AT_ONCE_BYTES = 64 * 1024, /* worth a try without a thread */
};

struct part {
        struct list node;
        struct chunk *c; /* bytes, or NULL: a part of a file */
        int fd;
        uint64_t at, left;
};

struct errand {
        int to; /* socket, or -1: read into c */
        int from;
        uint64_t at;
        size_t len;
        ssize_t n;
        int why; /* errno, when n < 0 */
        struct chunk *c;
};

struct stream_files {
        struct stream *s; /* NULL once the stream is gone */
        struct list parts;
        struct errand errand;
        bool is_out;       /* the errand is with the pool */
        bool has_sendfile; /* until the file turns out not to have it */
        bool is_kind_full; /* the kind's own queue; s->is_full is what the owner was told */
        int orphan_fd;     /* of a stream that went while the errand used it */
};

static struct part *first(struct stream_files *f)
{
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow intrusive lists */
        return LIST_ENTRY(f->parts.next, struct part, node);
}

static void part_free(struct part *p)
{
        list_remove(&p->node);
        chunk_unref(p->c);
        closep(&p->fd);
        free(p);
}

static void files_free(struct stream_files *f)
{
        while (!list_empty(&f->parts))
                part_free(first(f));
        closep(&f->orphan_fd);
        free(f);
}

int stream_files_drop(struct stream *s, int fd)
{
        struct stream_files *f = TAKE_PTR(s->files);

        s->file_bytes = 0;
        if (!f)
                return fd;
        f->s = NULL;
        if (!f->is_out) {
                files_free(f);
                return fd;
        }
        if (fd >= 0)
                (void) shutdown(fd, SHUT_RDWR);
        f->orphan_fd = fd;
        return -1;
}

static void fail(struct stream *s, int why, const char *doing)
{
        struct error err;

        (void) error_set(&err, ERR_UPSTREAM, why, "%s", doing);
        (void) stream_files_drop(s, -1);
        s->ops->fail(s, &err);
}

/* Into the kind's own queue, whose "full" is not the owner's. */
static int hand_over(struct stream_files *f, struct chunk *c)
{
        struct stream *s = f->s;
        bool was_full = s->is_full;
        struct error err;
        int r;

        s->is_full = f->is_kind_full;
        r = s->ops->write(s, c, &err);
        f->is_kind_full = s->is_full;
        s->is_full |= was_full;
        s->file_bytes -= c->len;
        if (r >= 0)
                return 0;
        (void) stream_files_drop(s, -1);
        s->ops->fail(s, &err);
        return -1;
}

/* Nothing waits any more: the stream is an ordinary one again. */
static void all_gone(struct stream_files *f)
{
        struct stream *s = f->s;
        bool has_room = !f->is_kind_full;

        s->files = NULL;
        files_free(f);
        if (s->is_finishing)
                s->ops->finish(s);
        else if (has_room)
                stream_has_room(s);
}

/* The first part is done; bytes behind it are the kind's business, up to the next file. */
static void advance(struct stream_files *f)
{
        part_free(first(f));
        while (!list_empty(&f->parts) && first(f)->c) {
                if (hand_over(f, first(f)->c) < 0)
                        return;
                part_free(first(f));
        }
        if (list_empty(&f->parts))
                all_gone(f);
        else
                stream_files_go(f->s);
}

static void count(struct stream_files *f, size_t n)
{
        first(f)->at += n;
        first(f)->left -= n;
}

static void on_sent(struct stream_files *f)
{
        struct errand *e = &f->errand;
        struct stream *s = f->s;

        if (e->n < 0 && (e->why == EINVAL || e->why == ENOSYS || e->why == EOPNOTSUPP)) {
                f->has_sendfile = false; /* some files can only be read */
                stream_files_go(s);
                return;
        }
        if (e->n < 0 && e->why != EAGAIN && e->why != EINTR) {
                fail(s, e->why, "send a file");
                return;
        }
        if (e->n > 0) {
                count(f, (size_t) e->n);
                s->file_bytes -= (uint64_t) e->n;
                s->sent_bytes += (uint64_t) e->n;
        }
        if (!first(f)->left)
                advance(f);
        else if (e->n == 0)
                fail(s, 0, "the file is shorter than it was");
        else if ((size_t) MAX(e->n, 0) < e->len)
                s->ops->await(s);
        else
                stream_files_go(s);
}

static void on_read(struct stream_files *f)
{
        _cleanup_(chunk_unrefp) struct chunk *c = TAKE_PTR(f->errand.c);

        if (!c) {
                fail(f->s, f->errand.why, "read a file");
                return;
        }
        if (!c->len) {
                fail(f->s, 0, "the file is shorter than it was");
                return;
        }
        count(f, c->len);
        if (hand_over(f, c) < 0)
                return;
        if (!first(f)->left)
                advance(f);
        else
                stream_files_go(f->s);
}

/* On a pool thread. */
static void run_errand(void *arg)
{
        struct errand *e = arg;
        off_t at = (off_t) e->at;

        if (e->to >= 0) {
                e->n = sendfile(e->to, e->from, &at, e->len);
                e->why = errno;
                return;
        }
        e->c = chunk_new(e->len);
        e->n = pread(e->from, chunk_bytes(e->c), e->len, at);
        e->why = errno;
        if (e->n < 0)
                e->c = chunk_unref(e->c);
        else
                e->c->len = (size_t) e->n;
}

static void on_errand(void *arg)
{
        struct stream_files *f = CONTAINER_OF(arg, struct stream_files, errand);

        f->is_out = false;
        if (!f->s) {
                f->errand.c = chunk_unref(f->errand.c);
                files_free(f);
        } else if (f->errand.to >= 0) {
                on_sent(f);
        } else {
                on_read(f);
        }
}

void stream_files_go(struct stream *s)
{
        struct stream_files *f = s->files;
        int to = -1;

        if (!f || f->is_out || f->is_kind_full)
                return;
        if (f->has_sendfile && s->ops->bare_fd)
                to = s->ops->bare_fd(s);
        if (to >= 0 && s->queued_bytes)
                return; /* the kind calls again when that is out */
        f->errand = (struct errand) {
                .to = to,
                .from = first(f)->fd,
                .at = first(f)->at,
                .len = MIN(first(f)->left, (uint64_t) (to >= 0 ? SLICE_BYTES : PIECE_BYTES)),
        };
        f->is_out = true;
        loop_work(s->loop, run_errand, on_errand, &f->errand);
}

void stream_has_room(struct stream *s)
{
        if (s->files) {
                s->files->is_kind_full = false;
                stream_files_go(s);
                return;
        }
        if (!s->is_full)
                return;
        s->is_full = false;
        if (s->sink && s->sink->on_room)
                s->sink->on_room(s->arg);
}

/* ---- what the owner calls ---- */

static int push(struct stream *s, const struct part *part)
{
        struct part *p = NEW(struct part);

        *p = *part;
        list_push(&s->files->parts, &p->node);
        s->file_bytes += p->left;
        if (stream_queued(s) > s->high_bytes)
                s->is_full = true;
        return !s->is_full;
}

int stream_files_write(struct stream *s, struct chunk *c, struct error *err)
{
        if (s->is_finishing)
                return error_set(err, ERR_UPSTREAM, 0, "write after the end");
        return push(s, &(struct part) { .c = chunk_ref(c), .fd = -1, .left = c->len });
}

/* What the kernel has at hand needs no thread. */
static struct chunk *read_at_once(int fd, uint64_t offset, uint64_t len)
{
        struct chunk *c = chunk_new((size_t) len);
        struct iovec to = { chunk_bytes(c), (size_t) len };

        if (preadv2(fd, &to, 1, (off_t) offset, RWF_NOWAIT) == (ssize_t) len)
                return c;
        return chunk_unref(c);
}

static struct stream_files *files_new(struct stream *s)
{
        struct stream_files *f = NEW(struct stream_files);

        f->s = s;
        f->has_sendfile = true;
        f->is_kind_full = s->is_full;
        f->orphan_fd = -1;
        list_init(&f->parts);
        return f;
}

int stream_write_file(struct stream *s, int fd, uint64_t offset, uint64_t len, struct error *err)
{
        _cleanup_close_ int own = fd;
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;
        int room;

        if (s->has_ended || s->is_finishing)
                return error_set(err, ERR_UPSTREAM, 0, "write to a closed %s", s->ops->name);
        if (!s->ops->fail)
                return error_set(err, ERR_UNSUPPORTED, 0, "a %s takes no files", s->ops->name);
        if (!len)
                return !s->is_full;
        if (!s->files && len <= AT_ONCE_BYTES && (c = read_at_once(own, offset, len)))
                return stream_write(s, c, err);
        if (!s->files)
                s->files = files_new(s);
        room = push(s, &(struct part) { .fd = TAKE_FD(own), .at = offset, .left = len });
        stream_files_go(s);
        return room;
}
