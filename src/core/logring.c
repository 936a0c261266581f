#include "core/logring.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { SLOTS_FIRST = 16 };

struct slot {
        struct chunk *data;
        int64_t time_ms;
        uint64_t end; /* bytes of the process up to the end of this entry */
        enum log_stream stream;
};

/* Entry `first + i` is in slot (head + i) of a circle that grows when it is full, up to the
 * limits. Totals of what was dropped are kept per stream, for readers that come late. */
struct logring {
        struct slot *slots;
        size_t cap, head, n;
        uint64_t first;   /* number of the oldest entry, or of the next one while it is empty */
        uint64_t dropped; /* bytes before `first` */
        size_t bytes, max_bytes, max_entries;
        uint64_t gone_entries[LOG_STREAMS], gone_bytes[LOG_STREAMS];
        struct list cursors;
};

static struct slot *slot_at(const struct logring *r, uint64_t seq)
{
        return &r->slots[(r->head + (size_t) (seq - r->first)) & (r->cap - 1)];
}

struct logring *logring_new(size_t max_bytes)
{
        struct logring *r = NEW(struct logring);

        r->first = 1;
        list_init(&r->cursors);
        logring_set_max(r, max_bytes);
        return r;
}

struct logring *logring_free(struct logring *r)
{
        if (!r)
                return NULL;
        for (size_t i = 0; i < r->n; i++)
                (void) chunk_unref(slot_at(r, r->first + i)->data);
        free(r->slots);
        free(r);
        return NULL;
}

uint64_t logring_last(const struct logring *r)
{
        return r->first + r->n - 1;
}

size_t logring_bytes(const struct logring *r)
{
        return r->bytes;
}

size_t logring_cost(const struct logring *r)
{
        return r->bytes + r->n * LOGRING_ENTRY_COST;
}

/* ---- dropping ---- */

/* Readers that have not come so far learn what they miss. */
static void tell_missed(struct logring *r, uint64_t seq, const struct slot *s)
{
        list_for_each (n, &r->cursors) {
                struct logcursor *c = LIST_ENTRY(n, struct logcursor, node);

                if (c->seq >= seq || !(c->streams & 1u << s->stream))
                        continue;
                c->missed.n_entries++;
                c->missed.n_bytes += s->data->len;
        }
}

static void drop_oldest(struct logring *r)
{
        struct slot *s = &r->slots[r->head];

        tell_missed(r, r->first, s);
        r->gone_entries[s->stream]++;
        r->gone_bytes[s->stream] += s->data->len;
        r->bytes -= s->data->len;
        r->dropped = s->end;
        s->data = chunk_unref(s->data);
        r->head = (r->head + 1) & (r->cap - 1);
        r->first++;
        r->n--;
}

static bool is_over(const struct logring *r)
{
        return r->bytes > r->max_bytes || r->n > r->max_entries;
}

static void trim(struct logring *r)
{
        uint64_t keep = UINT64_MAX; /* the oldest entry that a held cursor still wants */

        if (!is_over(r))
                return;
        list_for_each (n, &r->cursors) {
                const struct logcursor *c = LIST_ENTRY(n, struct logcursor, node);

                if (c->is_held && c->seq < keep)
                        keep = c->seq + 1;
        }
        while (is_over(r) && r->first < keep)
                drop_oldest(r);
}

void logring_set_max(struct logring *r, size_t max_bytes)
{
        r->max_bytes = max_bytes;
        r->max_entries = MAX(max_bytes / LOGRING_ENTRY_COST, (size_t) LOGRING_ENTRIES_MIN);
        trim(r);
}

/* ---- appending ---- */

static void grow(struct logring *r)
{
        size_t cap = r->cap ? r->cap * 2 : SLOTS_FIRST;
        struct slot *slots = xcalloc(cap, sizeof(*slots));

        for (size_t i = 0; i < r->n; i++)
                slots[i] = *slot_at(r, r->first + i);
        free(r->slots);
        r->slots = slots;
        r->cap = cap;
        r->head = 0;
}

/* Takes the chunk. */
static void push(struct logring *r, enum log_stream s, int64_t now_ms, struct chunk *data)
{
        uint64_t end = r->dropped + r->bytes + data->len;

        if (r->n == r->cap)
                grow(r);
        *slot_at(r, r->first + r->n) =
                (struct slot) { .data = data, .time_ms = now_ms, .end = end, .stream = s };
        r->n++;
        r->bytes += data->len;
}

static void unref(void *chunk)
{
        (void) chunk_unref(chunk);
}

void logring_append(struct logring *r, enum log_stream s, int64_t now_ms, const char *data,
                    size_t len)
{
        /* One entry alone must not be over the limit, or nothing could be kept at all. */
        size_t most = MIN(MAX(r->max_bytes, (size_t) 1), (size_t) LOGRING_ENTRY_MAX);
        struct chunk *whole;

        if (!len)
                return;
        whole = chunk_copy(data, len);
        if (len <= most) {
                push(r, s, now_ms, whole);
                trim(r);
                return;
        }
        for (size_t at = 0; at < len; at += most) {
                size_t n = MIN(most, len - at);

                push(r, s, now_ms, chunk_wrap(whole->data + at, n, unref, chunk_ref(whole)));
                trim(r);
        }
        (void) chunk_unref(whole);
}

/* ---- cursors ---- */

/* The number before the last `tail` entries of the wanted streams. */
static uint64_t seek_tail(const struct logring *r, unsigned streams, int64_t tail)
{
        uint64_t seq = logring_last(r);

        for (; seq >= r->first && tail > 0; seq--)
                if (streams & 1u << slot_at(r, seq)->stream)
                        tail--;
        return seq;
}

/* Starting behind what is still there. Only from the very beginning is it known what of it was
 * whose. */
static void note_gone(struct logcursor *c)
{
        const struct logring *r = c->ring;

        if (c->seq + 1 >= r->first)
                return;
        if (c->seq) {
                c->missed.n_entries = r->first - 1 - c->seq;
                return;
        }
        for (int s = 0; s < LOG_STREAMS; s++) {
                if (!(c->streams & 1u << s))
                        continue;
                c->missed.n_entries += r->gone_entries[s];
                c->missed.n_bytes += r->gone_bytes[s];
        }
}

void logcursor_init(struct logcursor *c, struct logring *r, unsigned streams, uint64_t since,
                    int64_t tail)
{
        *c = (struct logcursor) { .ring = r, .streams = streams };
        c->seq = MIN(since, UINT64_MAX - 1); /* there is always a next one */
        if (tail >= 0)
                c->seq = MAX(c->seq, seek_tail(r, streams, tail));
        note_gone(c);
        list_push(&r->cursors, &c->node);
}

static bool take_gap(struct logcursor *c, struct log_gap *ret)
{
        struct log_gap gap = c->missed;

        gap.from = c->seq + 1;
        gap.to = c->ring->first - 1;
        c->seq = gap.to;
        c->missed = (struct log_gap) {};
        if (!gap.n_entries)
                return false;
        *ret = gap;
        return true;
}

int logcursor_next(struct logcursor *c, struct log_entry *ret, struct log_gap *ret_gap)
{
        const struct logring *r = c->ring;

        if (c->seq + 1 < r->first && take_gap(c, ret_gap))
                return 2;
        while (c->seq < logring_last(r)) {
                const struct slot *s = slot_at(r, ++c->seq);

                if (!(c->streams & 1u << s->stream))
                        continue;
                *ret = (struct log_entry) { c->seq, s->stream, s->time_ms, s->data };
                return 1;
        }
        return 0;
}

uint64_t logcursor_behind(const struct logcursor *c)
{
        const struct logring *r = c->ring;
        uint64_t last = logring_last(r), n, read;

        if (c->seq >= last)
                return 0;
        read = c->seq < r->first ? r->dropped : slot_at(r, c->seq)->end;
        n = last - MAX(c->seq, r->first - 1);
        return r->dropped + r->bytes - read + n * LOGRING_ENTRY_COST;
}

void logcursor_done(struct logcursor *c)
{
        if (!c->ring)
                return;
        list_remove(&c->node);
        trim(c->ring);
        c->ring = NULL;
}
