/* Two ends in memory: what one writes the other reads, an iteration later. */
#include <stdlib.h>

#include "base/alloc.h"
#include "io/chunkq.h"
#include "io/loop.h"
#include "io/stream_impl.h"

struct pair_end {
        struct stream s;
        struct pair_end *peer; /* NULL once the other side is gone */
        struct chunkq queue;   /* on its way to the peer */
        struct task pump, eof, end;
        struct error *why;
        bool is_finished, saw_eof;
};

static struct pair_end *of(struct stream *s)
{
        return CONTAINER_OF(s, struct pair_end, s);
}

static void end(struct pair_end *p)
{
        if (p->s.has_ended)
                return;
        p->s.has_ended = true;
        (void) stream_files_drop(&p->s, -1);
        loop_defer(p->s.loop, &p->end);
}

static void run_eof(struct task *t)
{
        struct pair_end *p = CONTAINER_OF(t, struct pair_end, eof);

        if (p->saw_eof || p->s.has_ended)
                return;
        p->saw_eof = true;
        if (p->s.sink && p->s.sink->on_eof)
                p->s.sink->on_eof(p->s.arg);
        else
                end(p);
}

static bool can_take(const struct pair_end *p)
{
        return p && !p->s.has_ended && !p->s.is_paused && p->s.sink && p->s.sink->on_data;
}

static void run_pump(struct task *t)
{
        struct pair_end *p = CONTAINER_OF(t, struct pair_end, pump);
        struct iovec iov;

        while (can_take(p->peer) && chunkq_iov(&p->queue, &iov, 1)) {
                struct chunk *c = chunk_ref(p->queue.at[p->queue.head]);

                chunkq_drop(&p->queue, iov.iov_len);
                p->s.queued_bytes = p->queue.bytes;
                p->s.sent_bytes += iov.iov_len;
                p->peer->s.sink->on_data(p->peer->s.arg, iov.iov_base, iov.iov_len);
                chunk_unref(c);
        }
        if (p->s.has_ended)
                return; /* on_data freed or closed this end as well */
        if (p->queue.bytes <= p->s.high_bytes / 4)
                stream_has_room(&p->s);
        if (p->is_finished && !p->queue.bytes && p->peer)
                loop_defer(p->s.loop, &p->peer->eof);
}

static void run_end(struct task *t)
{
        struct pair_end *p = CONTAINER_OF(t, struct pair_end, end);
        _cleanup_free_ struct error *why = TAKE_PTR(p->why);

        if (p->s.sink && p->s.sink->on_end)
                p->s.sink->on_end(p->s.arg, why);
}

static int pair_write(struct stream *s, struct chunk *c, struct error *err)
{
        struct pair_end *p = of(s);

        if (!p->peer || p->is_finished)
                return error_set(err, ERR_UPSTREAM, 0, "the other end is gone");
        chunkq_push(&p->queue, c);
        s->queued_bytes = p->queue.bytes;
        s->is_full = p->queue.bytes > s->high_bytes;
        loop_defer(s->loop, &p->pump);
        return !s->is_full;
}

static void pair_pause(struct stream *s, bool on)
{
        if (!on && of(s)->peer)
                loop_defer(s->loop, &of(s)->peer->pump);
}

static void pair_finish(struct stream *s)
{
        of(s)->is_finished = true;
        loop_defer(s->loop, &of(s)->pump);
}

static void leave(struct pair_end *p)
{
        if (p->peer) {
                p->peer->peer = NULL;
                loop_defer(p->s.loop, &p->peer->eof);
        }
        p->peer = NULL;
        chunkq_done(&p->queue);
        p->s.queued_bytes = 0;
        task_cancel(&p->pump);
        task_cancel(&p->eof);
}

static void pair_close(struct stream *s)
{
        leave(of(s));
        end(of(s));
}

static void pair_fail(struct stream *s, const struct error *why)
{
        of(s)->why = NEW(struct error);
        *of(s)->why = *why;
        pair_close(s);
}

static void pair_free(struct stream *s)
{
        s->has_ended = true;
        (void) stream_files_drop(s, -1);
        leave(of(s));
        task_cancel(&of(s)->end);
        free(of(s)->why);
        loop_free_later(s->loop, of(s));
}

static const struct stream_ops pair_ops = {
        .name = "pair",
        .write = pair_write,
        .pause = pair_pause,
        .finish = pair_finish,
        .close = pair_close,
        .free = pair_free,
        .fail = pair_fail,
};

void stream_pair(struct loop *l, struct stream *ret[2])
{
        struct pair_end *p[2] = { NEW(struct pair_end), NEW(struct pair_end) };

        for (int i = 0; i < 2; i++) {
                p[i]->s = (struct stream) { .ops = &pair_ops,
                                            .loop = l,
                                            .high_bytes = STREAM_HIGH_BYTES };
                p[i]->peer = p[!i];
                task_init(&p[i]->pump, run_pump);
                task_init(&p[i]->eof, run_eof);
                task_init(&p[i]->end, run_end);
                ret[i] = &p[i]->s;
        }
}
