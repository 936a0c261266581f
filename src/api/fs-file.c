/* The content of files, both ways. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "api/fs.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "fs/file.h"
#include "fs/root.h"
#include "http/condition.h"
#include "http/req.h"
#include "io/loop.h"
#include "io/stream.h"
#include "json/write.h"

enum {
        SMALL_BYTES = 64 * 1024, /* read at once: the answer leaves in one piece */
        PUT_BLOCK = 256 * 1024,  /* of an upload that goes to the pool at a time */
        HTTP_DATE_BYTES = 40,
};

static const char octets[] = "application/octet-stream";

/* ---- GET /v1/fs/file ---- */

struct get_call {
        struct fs_call call;
        struct fs_reader file; /* fd -1: everything is in `content` */
        struct buf content;
        bool has_content;
};

static int read_small(struct get_call *g, struct error *err)
{
        size_t size = (size_t) g->file.info.size, n = 0;
        char *at = buf_room(&g->content, size + 1);

        while (n < size) {
                ssize_t got = pread(g->file.fd, at + n, size - n, (off_t) n);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return fs_error(err, errno, "read", g->call.path);
                if (got == 0)
                        break; /* it became shorter: that is its size now */
                n += (size_t) got;
        }
        buf_grew(&g->content, n);
        return 0;
}

static int get_run(struct fs_call *c, struct error *err)
{
        struct get_call *g = CONTAINER_OF(c, struct get_call, call);
        int n = 0;

        if (fs_reader_open(c->root, c->path, &g->file, err) < 0)
                return -1;
        g->has_content = g->file.is_virtual || g->file.info.size <= SMALL_BYTES;
        if (g->file.is_virtual)
                n = fs_read_virtual(g->file.fd, c->path, &g->content, err);
        else if (g->has_content)
                n = read_small(g, err);
        if (g->has_content) {
                g->file.info.size = g->content.len;
                (void) close(TAKE_FD(g->file.fd));
        }
        return n;
}

static void say_version(struct req *r, const struct entity *e)
{
        char text[HTTP_DATE_BYTES];
        time_t sec = (time_t) e->modified_sec;
        struct tm tm;

        if (!e->etag)
                return;
        (void) gmtime_r(&sec, &tm);
        (void) strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        reply_header(r, "etag", e->etag);
        reply_header(r, "last-modified", text);
        reply_header(r, "accept-ranges", "bytes");
}

static int send_part(struct get_call *g, struct req *r, const struct range *part)
{
        int status = part->is_part ? 206 : 200;
        uint64_t size = g->file.info.size;
        struct chunk *body;
        int n;

        if (part->is_part)
                reply_header(r, "content-range",
                             arena_printf(req_arena(r), "bytes %llu-%llu/%llu",
                                          (unsigned long long) part->from,
                                          (unsigned long long) (part->from + part->len - 1),
                                          (unsigned long long) size));
        if (!g->has_content)
                return reply_file(r, status, octets, TAKE_FD(g->file.fd), part->from, part->len);
        buf_drop(&g->content, (size_t) part->from);
        g->content.len = MIN(g->content.len, (size_t) part->len);
        body = g->content.len ? buf_take_chunk(&g->content) : chunk_new(0);
        n = reply_bytes(r, status, octets, body);
        chunk_unref(body);
        return n;
}

static void entity_of(const struct fs_info *i, char etag[static ETAG_BYTES], struct entity *ret)
{
        fs_etag(i, etag);
        *ret = (struct entity) { .exists = true,
                                 .etag = etag,
                                 .modified_sec = i->modified_ns / 1000000000,
                                 .size = i->size };
}

static int get_answer(struct fs_call *c, struct req *r, struct error *err)
{
        struct get_call *g = CONTAINER_OF(c, struct get_call, call);
        struct entity e;
        struct range part;
        char etag[ETAG_BYTES];
        int n;

        entity_of(&g->file.info, etag, &e);
        if (g->file.is_virtual)
                e.etag = NULL; /* its time says nothing */
        say_version(r, &e);
        n = condition_check(r, &e, err);
        if (n != 0)
                return n < 0 ? -1 : reply_empty(r, n);
        if (range_pick(r, &e, &part, err) < 0)
                return -1;
        return send_part(g, r, &part);
}

static void get_done(struct fs_call *c)
{
        struct get_call *g = CONTAINER_OF(c, struct get_call, call);

        closep(&g->file.fd);
        buf_done(&g->content);
}

int fs_get_file(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = { .run = get_run,
                                                .answer = get_answer,
                                                .done = get_done };
        const struct fs_path_query *q = req_query(r);
        struct get_call *g = ARENA_NEW(req_arena(r), struct get_call);

        g->file.fd = -1;
        if (fs_path(r, q->path, &g->call.path, err) < 0)
                return -1;
        return fs_call_start(r, &g->call, &ops);
}

/* ---- PUT /v1/fs/file ----
 * Two blocks: one fills on the loop while the other is written on the pool. When both are full the
 * client waits. One write is under way at a time; a small body needs exactly one, which opens,
 * writes and commits. The struct is in the request's arena, and the request is held until nothing
 * is under way any more. A client that leaves early sends a second piece of work after the first:
 * it drops the writer, on the pool too, because giving back the blocks of a large file takes time.
 */
struct put {
        struct req *req;
        struct fsroot *root;
        char *path;
        struct fs_write_opts opts;
        char match[ETAG_BYTES];
        struct buf filling, writing;
        struct fs_info info; /* before: what a condition is about; after: what was written */
        uint64_t n_bytes;
        unsigned n_under_way;
        bool is_writing; /* one of them */
        bool is_last;    /* it commits */
        bool is_whole;   /* the body has arrived */
        bool is_over;    /* answered, or nobody to answer */
        bool is_paused;  /* the client waits for us */
        bool has_info;
        struct error err;
        int result;

        pthread_mutex_t mutex; /* between the write and the drop */
        struct fs_writer *w;
        bool is_dropped;
};

/* After every piece of work: the last one turns the light off. */
static void put_leave(struct put *p)
{
        if (!p->is_over || p->n_under_way)
                return;
        buf_done(&p->filling);
        buf_done(&p->writing);
        fsroot_free(p->root);
        (void) pthread_mutex_destroy(&p->mutex);
        req_release(p->req);
}

static void put_work(struct put *p, void (*run)(void *), void (*done)(void *))
{
        p->n_under_way++;
        loop_work(req_loop(p->req), run, done, p);
}

static void put_drop_run(void *arg)
{
        struct put *p = arg;

        (void) pthread_mutex_lock(&p->mutex);
        p->is_dropped = true;
        p->w = fs_writer_free(p->w);
        (void) pthread_mutex_unlock(&p->mutex);
}

static void put_drop_done(void *arg)
{
        struct put *p = arg;

        p->n_under_way--;
        put_leave(p);
}

static void put_gone(void *arg)
{
        struct put *p = arg;

        if (p->is_over)
                return;
        p->is_over = true;
        put_work(p, put_drop_run, put_drop_done);
}

static void put_fail(struct put *p, struct error *err)
{
        p->is_over = true;
        fs_explain(p->req, p->path, err);
        (void) reply_error(p->req, err);
}

static void put_answer(struct put *p)
{
        char etag[ETAG_BYTES];
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        p->is_over = true;
        fs_etag(&p->info, etag);
        reply_header(p->req, "etag", etag);
        jw_obj(&w, NULL);
        jw_str(&w, "path", p->path);
        jw_u64(&w, "bytesWritten", p->n_bytes);
        jw_end(&w);
        (void) reply_json(p->req, 200, b.data, b.len);
        buf_done(&b);
}

static int put_write(struct put *p, struct error *err)
{
        if (p->is_dropped)
                return 0;
        if (!p->w && fs_writer_open(p->root, p->path, &p->opts, &p->w, err) < 0)
                return -1;
        if (fs_writer_write(p->w, p->writing.data, p->writing.len, err) < 0)
                return -1;
        return p->is_last ? fs_writer_commit(p->w, &p->info, err) : 0;
}

static void put_write_run(void *arg)
{
        struct put *p = arg;

        (void) pthread_mutex_lock(&p->mutex);
        p->result = put_write(p, &p->err);
        if (p->result < 0 || p->is_last)
                p->w = fs_writer_free(p->w);
        (void) pthread_mutex_unlock(&p->mutex);
}

static void put_write_done(void *arg);

/* Sends what is there on its way, if it is enough and the way is free. */
static void put_go_on(struct put *p)
{
        struct buf empty = p->writing;

        if (p->is_writing || (!p->is_whole && p->filling.len < PUT_BLOCK))
                return;
        p->writing = p->filling;
        p->filling = empty;
        p->is_writing = true;
        p->is_last = p->is_whole;
        p->opts.is_short = p->is_whole && p->n_bytes == 0;
        put_work(p, put_write_run, put_write_done);
        if (p->is_paused) {
                p->is_paused = false;
                req_pause_body(p->req, false);
        }
}

static void put_write_done(void *arg)
{
        struct put *p = arg;

        p->n_under_way--;
        p->is_writing = false;
        p->n_bytes += p->writing.len;
        buf_clear(&p->writing);
        if (!p->is_over && p->result < 0)
                put_fail(p, &p->err);
        else if (!p->is_over && p->is_last)
                put_answer(p);
        else if (!p->is_over)
                put_go_on(p);
        put_leave(p);
}

static void put_data(void *arg, const char *data, size_t len)
{
        struct put *p = arg;

        buf_put(&p->filling, data, len);
        put_go_on(p);
        if (p->filling.len >= PUT_BLOCK && !p->is_paused) {
                p->is_paused = true;
                req_pause_body(p->req, true);
        }
}

static void put_end(void *arg, const struct error *why)
{
        struct put *p = arg;

        if (!why) {
                p->is_whole = true;
                put_go_on(p);
                return;
        }
        put_gone(p);
        (void) reply_error(p->req, why); /* to a client that is too slow; others are gone */
}

static void put_read(struct put *p)
{
        static const struct body_sink sink = { put_data, put_end };
        int64_t length = req_body_length(p->req);

        if (length > 0)
                (void) buf_room(&p->filling,
                                (size_t) MIN(length, (int64_t) PUT_BLOCK + STREAM_READ_BYTES));
        p->opts.size_hint = length > 0 ? (uint64_t) length : 0;
        req_read_body(p->req, &sink, p);
}

/* ---- with a condition: look first, then hold the target to what was seen ---- */

static void put_look_run(void *arg)
{
        struct put *p = arg;

        p->has_info = fs_stat(p->root, p->path, &p->info, &p->err) == 0;
}

static int put_check(struct put *p, struct error *err)
{
        struct entity e = { 0 };

        if (!p->has_info && p->err.kind != ERR_NOT_FOUND) {
                *err = p->err;
                return -1;
        }
        if (p->has_info)
                entity_of(&p->info, p->match, &e);
        p->opts.must_be_new = !p->has_info;
        p->opts.match = p->has_info ? p->match : NULL;
        return condition_check(p->req, &e, err);
}

static void put_look_done(void *arg)
{
        struct put *p = arg;
        struct error err = { 0 };

        p->n_under_way--;
        if (!p->is_over && put_check(p, &err) < 0)
                put_fail(p, &err);
        else if (!p->is_over)
                put_read(p);
        put_leave(p);
}

static bool has_condition(struct req *r)
{
        return req_header(r, "if-match") || req_header(r, "if-none-match") ||
               req_header(r, "if-unmodified-since");
}

int fs_put_file(struct req *r, struct error *err)
{
        const struct fs_put_query *q = req_query(r);
        struct put *p = ARENA_NEW(req_arena(r), struct put);

        if (fs_path(r, q->path, &p->path, err) < 0)
                return -1;
        p->req = r;
        p->root = fsroot_ref(fs_root(r));
        p->opts.is_durable = q->is_durable;
        (void) pthread_mutex_init(&p->mutex, NULL);
        req_hold(r, put_gone, p);
        if (has_condition(r))
                put_work(p, put_look_run, put_look_done);
        else
                put_read(p);
        return 0;
}
