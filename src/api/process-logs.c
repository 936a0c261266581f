/* The output of a process: a page of it as JSON, or all of it as it comes.
 *
 * Both put entries straight into pieces of a fixed size and write them while the client takes them.
 * A page holds references to the entries it will show, so it does not change under the reader; a
 * follower is a reader of the process and slows it down if it must. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/processes.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/buf.h"
#include "http/req.h"
#include "http/sse.h"
#include "json/write.h"

enum {
        /* One write to the client; a little less than what the allocator maps on its own. */
        PIECE_BYTES = 96 * 1024,
        ENTRY_HEAD_BYTES = 160, /* all of an entry but its data */
        ENTRY_TEXT_MAX = (LOGRING_ENTRY_MAX + 2) / 3 * 4,
};

enum logs_stream { LOGS_STDOUT, LOGS_STDERR, LOGS_COMBINED, LOGS_PTY };
static const char *const stream_names[] = { "stdout", "stderr", "combined", "pty", NULL };
static const unsigned stream_bits[] = {
        [LOGS_STDOUT] = 1u << LOG_STDOUT,
        [LOGS_STDERR] = 1u << LOG_STDERR,
        [LOGS_COMBINED] = 1u << LOG_STDOUT | 1u << LOG_STDERR | 1u << LOG_PTY,
        [LOGS_PTY] = 1u << LOG_PTY,
};

const struct field process_logs_query[] = {
        { "stream", F_ENUM, 0, offsetof(struct logs_query, stream), .names = stream_names,
          .has_offset = offsetof(struct logs_query, has_stream),
          .doc = "which output; when absent all of it" },
        { "tail", F_UINT, 0, offsetof(struct logs_query, tail),
          .has_offset = offsetof(struct logs_query, has_tail), .doc = "only the last entries" },
        { "since", F_UINT, 0, offsetof(struct logs_query, since),
          .doc = "only entries behind this sequence number" },
        { "follow", F_BOOL, 0, offsetof(struct logs_query, follow),
          .doc = "go on as an event stream until the process has ended" },
        { 0 },
};

struct entry_reply {
        uint64_t sequence;
        int stream, encoding;
        int64_t timestamp_ms;
        const char *data;
};
static const char *const entry_streams[] = {
        [LOG_STDOUT] = "stdout", [LOG_STDERR] = "stderr", [LOG_PTY] = "pty", NULL
};
static const char *const entry_encodings[] = { "base64", NULL };
static const struct field entry_reply[] = {
        { "sequence", F_UINT, F_REQUIRED, offsetof(struct entry_reply, sequence),
          .doc = "from 1, over all streams of the process" },
        { "stream", F_ENUM, F_REQUIRED, offsetof(struct entry_reply, stream),
          .names = entry_streams, .doc = "where it came from" },
        { "timestampMs", F_INT, F_REQUIRED, offsetof(struct entry_reply, timestamp_ms),
          .doc = "when it was read, Unix time" },
        { "data", F_STR, F_REQUIRED, offsetof(struct entry_reply, data), ENTRY_TEXT_MAX,
          .doc = "at most 8192 bytes" },
        { "encoding", F_ENUM, F_REQUIRED, offsetof(struct entry_reply, encoding),
          .names = entry_encodings, .doc = "of data" },
        { 0 },
};
struct logs_reply {
        const char *process_id;
        int stream;
        struct objv entries;
};
const struct field process_logs_reply[] = {
        { "processId", F_STR, F_REQUIRED, offsetof(struct logs_reply, process_id), PROCESS_ID_MAX,
          .doc = "whose output" },
        { "stream", F_ENUM, F_REQUIRED, offsetof(struct logs_reply, stream), .names = stream_names,
          .doc = "which output" },
        { "entries", F_OBJV, F_REQUIRED, offsetof(struct logs_reply, entries), UINT32_MAX,
          .sub = entry_reply, .sub_size = sizeof(struct entry_reply), .doc = "oldest first" },
        { 0 },
};

static void put_entry(struct buf *b, const struct log_entry *e)
{
        (void) buf_room(b, ENTRY_HEAD_BYTES + base64_len(e->data->len));
        buf_puts(b, "{\"sequence\":");
        buf_putu(b, e->seq);
        buf_puts(b, ",\"stream\":\"");
        buf_puts(b, entry_streams[e->stream]);
        buf_puts(b, "\",\"timestampMs\":");
        buf_putu(b, (uint64_t) e->time_ms);
        buf_puts(b, ",\"data\":\"");
        base64_put(b, e->data->data, e->data->len);
        buf_puts(b, "\",\"encoding\":\"base64\"}");
}

/* ---- a page ---- */

struct page {
        struct req *req;
        struct log_entry *entries; /* each with a reference to its data */
        size_t n, at;              /* at: the next to be shown */
};

static void page_free(struct page *p)
{
        for (size_t i = p->at; i < p->n; i++)
                (void) chunk_unref(p->entries[i].data);
        free(p->entries);
        free(p);
}

static struct page *page_new(struct logring *ring, unsigned streams, const struct logs_query *q)
{
        struct page *p = NEW(struct page);
        struct log_entry e;
        struct log_gap gap;
        struct logcursor c;
        size_t cap = 0;

        logcursor_init(&c, ring, streams, q->since,
                       q->has_tail ? (int64_t) MIN(q->tail, (uint64_t) INT64_MAX) : -1);
        for (int item; (item = logcursor_next(&c, &e, &gap));) {
                if (item != 1)
                        continue; /* what is no longer there is not part of a page */
                if (p->n == cap)
                        p->entries = xrealloc(p->entries, (cap = cap ? 2 * cap : 16) * sizeof(e));
                (void) chunk_ref(e.data);
                p->entries[p->n++] = e;
        }
        logcursor_done(&c);
        return p;
}

/* Adds entries until the piece is full; true when the document is complete. */
static bool page_fill(struct page *p, struct buf *b)
{
        for (; p->at < p->n; p->at++) {
                struct log_entry *e = &p->entries[p->at];

                if (b->len >= PIECE_BYTES)
                        return false;
                if (p->at)
                        buf_putc(b, ',');
                put_entry(b, e);
                e->data = chunk_unref(e->data);
        }
        buf_puts(b, "]}");
        return true;
}

static void page_end(struct page *p)
{
        req_release(p->req);
        page_free(p);
}

static void page_write(void *arg)
{
        struct page *p = arg;

        for (bool is_whole = false;;) {
                struct buf b = { 0 };
                _cleanup_(chunk_unrefp) struct chunk *c = NULL;
                int room;

                is_whole = page_fill(p, &b);
                c = buf_take_chunk(&b);
                room = reply_write(p->req, c);
                if (is_whole || room < 0) {
                        if (room >= 0)
                                reply_end(p->req);
                        page_end(p);
                        return;
                }
                if (room == 0)
                        return;
        }
}

static void page_gone(void *arg)
{
        page_end(arg);
}

static void page_begin(struct buf *b, const char *id, int stream)
{
        struct jw w = { .out = b };

        jw_obj(&w, NULL);
        jw_str(&w, "processId", id);
        jw_str(&w, "stream", stream_names[stream]);
        jw_arr(&w, "entries");
}

static int reply_page(struct req *r, struct process *proc, int stream, struct error *err)
{
        struct page *p = page_new(process_log(proc), stream_bits[stream], req_query(r));
        _cleanup_(chunk_unrefp) struct chunk *first = NULL;
        struct buf b = { 0 };

        page_begin(&b, req_param(r, "id"), stream);
        if (page_fill(p, &b)) {
                page_free(p);
                return reply_taken(r, &b);
        }
        p->req = r;
        first = buf_take_chunk(&b);
        req_hold(r, page_gone, p);
        if (reply_begin(r, 200, "application/json", -1) < 0 || reply_write(r, first) < 0) {
                page_end(p);
                return 0; /* the client left, or asked for the head only */
        }
        reply_on_room(r, page_write, p);
        page_write(p);
        return 0;
}

/* ---- following ---- */

struct follow {
        struct req *req;
        struct sse *sse;
        struct process_reader *reader;
        struct process_end end;
        bool is_full;
};

static void follow_free(struct follow *f)
{
        f->reader = reader_free(f->reader);
        process_end_done(&f->end);
        f->sse = sse_free(f->sse);
        free(f);
}

static void put_gap(struct buf *b, const struct log_gap *g)
{
        struct buf text = { 0 };
        struct jw w = { .out = &text };

        jw_obj(&w, NULL);
        jw_u64(&w, "from", g->from);
        jw_u64(&w, "to", g->to);
        jw_u64(&w, "entries", g->n_entries);
        jw_u64(&w, "bytes", g->n_bytes);
        jw_end(&w);
        /* Its id is where to go on: who reconnects is not told of the same gap again. */
        sse_frame(b, "gap", g->to, text.data, text.len);
        buf_done(&text);
}

static void put_end(struct buf *b, struct process_end *e)
{
        struct buf text = { 0 };
        struct jw w = { .out = &text };

        process_end_look(e);
        jw_obj(&w, NULL);
        jw_str(&w, "processId", e->id);
        jw_str(&w, "status", "exited");
        if (e->code >= 0)
                jw_i64(&w, "exitCode", e->code);
        else
                jw_null(&w, "exitCode");
        if (e->signal)
                jw_i64(&w, "signal", e->signal);
        if (e->at_ms)
                jw_i64(&w, "exitedAtMs", e->at_ms);
        jw_end(&w);
        sse_frame(b, "end", 0, text.data, text.len);
        buf_done(&text);
}

/* Adds events until the piece is full or there is nothing more. */
static enum reader_item follow_fill(struct follow *f, struct buf *b)
{
        enum reader_item item = READER_ENTRY;

        while (b->len < PIECE_BYTES) {
                struct log_entry e;
                struct log_gap gap;

                item = reader_next(f->reader, &e, &gap);
                if (item == READER_WAIT)
                        break;
                if (item == READER_END) {
                        put_end(b, &f->end);
                        break;
                }
                if (item == READER_GAP) {
                        put_gap(b, &gap);
                        continue;
                }
                sse_frame_head(b, "log", e.seq);
                buf_puts(b, "data: ");
                put_entry(b, &e);
                buf_put(b, "\n\n", 2);
        }
        return item;
}

/* Whole pieces go under the event stream's own framing: one write for many events. */
static void follow_pump(struct follow *f)
{
        while (!f->is_full) {
                struct buf b = { 0 };
                enum reader_item item = follow_fill(f, &b);
                _cleanup_(chunk_unrefp) struct chunk *c = buf_take_chunk(&b);
                int room = c->len ? reply_write(f->req, c) : 1;

                if (room < 0)
                        return; /* on_gone follows */
                f->is_full = room == 0;
                if (item == READER_END) {
                        follow_free(f);
                        return;
                }
                if (item == READER_WAIT)
                        return;
        }
}

static void follow_ready(void *arg)
{
        follow_pump(arg);
}

static uint64_t follow_taken(void *arg)
{
        return req_taken(((struct follow *) arg)->req);
}

static void follow_room(void *arg)
{
        struct follow *f = arg;

        f->is_full = false;
        reader_progress(f->reader);
        follow_pump(f);
}

static void follow_gone(void *arg)
{
        follow_free(arg);
}

/* Who comes back with an id wants what followed it, however much that is: `tail` was for the first
 * time. */
static int follow_place(struct req *r, const struct logs_query *q, uint64_t *ret_since,
                        int64_t *ret_tail, struct error *err)
{
        const char *id = req_header(r, "last-event-id");

        *ret_since = q->since;
        *ret_tail = q->has_tail ? (int64_t) MIN(q->tail, (uint64_t) INT64_MAX) : -1;
        if (!id || !*id)
                return 0;
        *ret_tail = -1;
        return sse_parse_id(SLICE(id), "Last-Event-ID", ret_since, err);
}

static int reply_follow(struct req *r, struct process *p, int stream, struct error *err)
{
        static const struct sse_cb sse_cb = { follow_room, follow_gone };
        static const struct process_reader_cb reader_cb = { follow_ready, follow_taken };
        struct follow *f;
        uint64_t since;
        int64_t tail;

        if (follow_place(r, req_query(r), &since, &tail, err) < 0)
                return -1;
        f = NEW(struct follow);
        f->req = r;
        if (sse_open(r, &sse_cb, f, &f->sse, err) < 0) {
                free(f);
                return -1;
        }
        process_end_watch(&f->end, req_processes(r), p);
        f->reader = process_read(p, stream_bits[stream], since, tail, &reader_cb, f);
        follow_pump(f);
        return 0;
}

int process_logs_get(struct req *r, struct error *err)
{
        const struct logs_query *q = req_query(r);
        struct process_info i;
        struct process *p;
        int stream = q->stream;

        if (req_process(r, &p, err) < 0)
                return -1;
        process_info(p, &i);
        if (!q->has_stream)
                stream = i.is_tty ? LOGS_PTY : LOGS_COMBINED;
        return q->follow ? reply_follow(r, p, stream, err) : reply_page(r, p, stream, err);
}
