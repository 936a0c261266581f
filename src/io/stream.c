/* The parts that all kinds of stream share. */
#include "io/stream_impl.h"

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
