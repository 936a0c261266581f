/* Files and directories: one thin function per endpoint, the work is in fs/. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/fs.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/path.h"
#include "fs/file.h"
#include "fs/root.h"
#include "http/req.h"
#include "io/job.h"
#include "json/write.h"

enum {
        LIST_HELD_MAX = 8 * 1024 * 1024, /* of an answer that is gathered: some 50,000 entries */
        LIST_PIECE = 64 * 1024,          /* of one that is not */
};

/* ---- GET /v1/fs/entries ----
 * Listed and written on the pool, and the answer leaves as one piece. Only what would be large in
 * memory begins again as a job, whose bytes leave as they come. */
struct listing {
        struct buf json;
        struct jw w;
        struct buf path;
        size_t dir_len;  /* of the path, without slashes at its end */
        struct job *job; /* NULL: everything is gathered */
        bool is_large;
};

struct list_call {
        struct fs_call call;
        struct listing out;
};

struct list_job {
        const struct fsroot *root;
        const char *path;
        struct listing out;
};

static int list_pass_on(struct listing *l, struct error *err)
{
        if (l->job && l->json.len >= LIST_PIECE) {
                if (job_emit(l->job, l->json.data, l->json.len, err) < 0)
                        return -1;
                buf_clear(&l->json);
        }
        l->is_large = l->json.len > LIST_HELD_MAX;
        return l->is_large ? error_set(err, ERR_TOO_BIG, 0, "a large listing") : 0;
}

static int list_entry(void *arg, const char *name, const struct fs_info *i, struct error *err)
{
        struct listing *l = arg;

        l->path.len = l->dir_len;
        buf_putc(&l->path, '/');
        buf_puts(&l->path, name);
        jw_obj(&l->w, NULL);
        jw_str(&l->w, "name", name);
        jw_strn(&l->w, "path", l->path.data, l->path.len);
        fs_info_write(&l->w, i);
        jw_end(&l->w);
        return list_pass_on(l, err);
}

static int list_all(struct listing *l, const struct fsroot *root, const char *path,
                    struct error *err)
{
        struct fs_list_cb cb = { list_entry, l };

        l->w.out = &l->json;
        buf_puts(&l->path, path);
        while (l->path.len && l->path.data[l->path.len - 1] == '/')
                l->path.len--;
        l->dir_len = l->path.len;
        jw_arr(&l->w, NULL);
        if (fs_list(root, path, &cb, err) < 0)
                return -1;
        jw_end(&l->w);
        return 0;
}

static void listing_done(struct listing *l)
{
        buf_done(&l->json);
        buf_done(&l->path);
}

static int list_run(struct fs_call *c, struct error *err)
{
        struct listing *l = &CONTAINER_OF(c, struct list_call, call)->out;
        int n = list_all(l, c->root, c->path, err);

        return l->is_large ? 0 : n;
}

static int list_job_run(struct job *j, void *arg, struct error *err)
{
        struct list_job *x = arg;

        x->out.job = j;
        if (list_all(&x->out, x->root, x->path, err) < 0)
                return -1;
        return job_emit(j, x->out.json.data, x->out.json.len, err);
}

static void list_job_done(void *arg)
{
        listing_done(&((struct list_job *) arg)->out);
}

static int list_answer(struct fs_call *c, struct req *r, struct error *err)
{
        struct listing *l = &CONTAINER_OF(c, struct list_call, call)->out;
        _cleanup_(chunk_unrefp) struct chunk *body = NULL;
        struct list_job *x;

        if (!l->is_large) {
                body = buf_take_chunk(&l->json);
                return reply_bytes(r, 200, "application/json", body);
        }
        x = ARENA_NEW(req_arena(r), struct list_job);
        x->root = c->root;
        x->path = c->path;
        return job_reply(r,
                         &(struct job_reply) { .type = "application/json",
                                               .path = c->path,
                                               .run = list_job_run,
                                               .done = list_job_done },
                         x, err);
}

static void list_done(struct fs_call *c)
{
        listing_done(&CONTAINER_OF(c, struct list_call, call)->out);
}

static int get_entries(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = { .run = list_run,
                                                .answer = list_answer,
                                                .done = list_done };
        const struct fs_path_query *q = req_query(r);
        struct list_call *l = ARENA_NEW(req_arena(r), struct list_call);

        if (fs_path(r, q->path, &l->call.path, err) < 0)
                return -1;
        return fs_call_start(r, &l->call, &ops);
}

/* ---- GET /v1/fs/stat ---- */

struct stat_call {
        struct fs_call call;
        struct fs_info info;
};

static int stat_run(struct fs_call *c, struct error *err)
{
        return fs_stat(c->root, c->path, &CONTAINER_OF(c, struct stat_call, call)->info, err);
}

static int stat_answer(struct fs_call *c, struct req *r, struct error *err)
{
        const struct stat_call *s = CONTAINER_OF(c, struct stat_call, call);
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "path", c->path);
        fs_info_write(&w, &s->info);
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}

static int get_stat(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = { .run = stat_run, .answer = stat_answer };
        const struct fs_path_query *q = req_query(r);
        struct stat_call *s = ARENA_NEW(req_arena(r), struct stat_call);

        if (fs_path(r, q->path, &s->call.path, err) < 0)
                return -1;
        /* the way to a thread and back costs more than the whole rest */
        if (fs_stat_now(fs_root(r), s->call.path, &s->info))
                return stat_answer(&s->call, r, err);
        return fs_call_start(r, &s->call, &ops);
}

/* ---- DELETE /v1/fs/entry ---- */

struct delete_query {
        const char *path;
        bool is_recursive;
};
static const struct field delete_query[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct delete_query, path), FS_TEXT_MAX,
          .doc = "what to remove; of a link, the link itself" },
        { "recursive", F_BOOL, 0, offsetof(struct delete_query, is_recursive),
          .doc = "a directory goes with everything in it" },
        { 0 },
};

struct delete_call {
        struct fs_call call;
        bool is_recursive;
};

/* One name goes at once; only a tree needs time. */
static int delete_run(struct fs_call *c, struct error *err)
{
        int n = fs_remove(c->root, c->path, false, err);

        if (n < 0 && err->kind == ERR_CONFLICT &&
            CONTAINER_OF(c, struct delete_call, call)->is_recursive)
                return 1;
        return n;
}

static int delete_long(struct fs_call *c, struct error *err)
{
        return fs_remove_until(c->root, c->path, true, &c->stop, err);
}

static int path_answer(struct fs_call *c, struct req *r, struct error *err)
{
        return fs_reply_path(r, c->path);
}

static int delete_entry(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = { .run = delete_run,
                                                .run_long = delete_long,
                                                .answer = path_answer };
        const struct delete_query *q = req_query(r);
        struct delete_call *d = ARENA_NEW(req_arena(r), struct delete_call);

        d->is_recursive = q->is_recursive;
        if (fs_path(r, q->path, &d->call.path, err) < 0)
                return -1;
        return fs_call_start(r, &d->call, &ops);
}

/* ---- POST /v1/fs/mkdir ---- */

static int mkdir_run(struct fs_call *c, struct error *err)
{
        return fs_mkdir(c->root, c->path, err);
}

static int post_mkdir(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = { .run = mkdir_run, .answer = path_answer };
        const struct fs_path_query *q = req_query(r);
        struct fs_call *c = ARENA_NEW(req_arena(r), struct fs_call);

        if (fs_path(r, q->path, &c->path, err) < 0)
                return -1;
        return fs_call_start(r, c, &ops);
}

/* ---- POST /v1/fs/move ---- */

struct move_body {
        const char *from, *to;
        bool is_overwrite;
};
static const struct field move_body[] = {
        { "from", F_STR, F_REQUIRED, offsetof(struct move_body, from), FS_TEXT_MAX,
          .doc = "what to move; of a link, the link itself" },
        { "to", F_STR, F_REQUIRED, offsetof(struct move_body, to), FS_TEXT_MAX,
          .doc = "its new path; missing directories are made" },
        { "overwrite", F_BOOL, 0, offsetof(struct move_body, is_overwrite),
          .doc = "replace what is there" },
        { 0 },
};

struct move_reply {
        const char *from, *to;
};
static const struct field move_reply[] = {
        { "from", F_STR, F_REQUIRED, offsetof(struct move_reply, from), PATH_BYTES_MAX,
          .doc = "absolute" },
        { "to", F_STR, F_REQUIRED, offsetof(struct move_reply, to), PATH_BYTES_MAX,
          .doc = "absolute" },
        { 0 },
};

struct move_call {
        struct fs_call call; /* its path is where from */
        char *to;
        bool is_overwrite;
};

/* Of the two paths the one that the error speaks of. */
static int move_blame(struct fs_call *c, char *to, const struct error *err)
{
        static const char words[] = "path not found: "; /* of fs_error() */
        size_t n = sizeof(words) - 1;

        if (strncmp(err->msg, words, n) == 0 && strcmp(err->msg + n, to) == 0)
                c->path = to;
        return -1;
}

static int move_run(struct fs_call *c, struct error *err)
{
        const struct move_call *m = CONTAINER_OF(c, struct move_call, call);
        bool is_long;

        if (fs_move_quick(c->root, c->path, m->to, m->is_overwrite, &is_long, err) < 0)
                return move_blame(c, m->to, err);
        return is_long;
}

static int move_long(struct fs_call *c, struct error *err)
{
        const struct move_call *m = CONTAINER_OF(c, struct move_call, call);

        if (fs_move_until(c->root, c->path, m->to, m->is_overwrite, &c->stop, err) < 0)
                return move_blame(c, m->to, err);
        return 0;
}

static int move_answer(struct fs_call *c, struct req *r, struct error *err)
{
        const struct move_call *m = CONTAINER_OF(c, struct move_call, call);
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "from", c->path);
        jw_str(&w, "to", m->to);
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}

static int post_move(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = { .run = move_run,
                                                .run_long = move_long,
                                                .answer = move_answer };
        const struct move_body *b = req_body(r);
        struct move_call *m = ARENA_NEW(req_arena(r), struct move_call);

        m->is_overwrite = b->is_overwrite;
        if (fs_path(r, b->from, &m->call.path, err) < 0 || fs_path(r, b->to, &m->to, err) < 0)
                return -1;
        return fs_call_start(r, &m->call, &ops);
}

/* ---- rows ---- */

static const struct field entries_query[] = {
        { "path", F_STR, 0, offsetof(struct fs_path_query, path), FS_TEXT_MAX,
          .doc = "directory; absolute, or relative to the home directory (default: ~)" },
        { 0 },
};

static const struct field put_query[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct fs_put_query, path), FS_TEXT_MAX,
          .doc = "absolute, or relative to the home directory (~)" },
        { "fsync", F_BOOL, 0, offsetof(struct fs_put_query, is_durable),
          .doc = "answer when the content is on the disk" },
        { 0 },
};

struct path_reply {
        const char *path;
};
static const struct field path_reply[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct path_reply, path), PATH_BYTES_MAX,
          .doc = "absolute" },
        { 0 },
};

struct put_reply {
        const char *path;
        uint64_t n_bytes;
};
static const struct field put_reply[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct put_reply, path), PATH_BYTES_MAX,
          .doc = "absolute" },
        { "bytesWritten", F_UINT, F_REQUIRED, offsetof(struct put_reply, n_bytes),
          .doc = "size of the file" },
        { 0 },
};

static const char *const entry_types[] = { "file", "directory", NULL };
struct stat_reply {
        const char *path, *modified, *mode;
        int type;
        uint64_t size;
};
static const struct field stat_reply[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct stat_reply, path), PATH_BYTES_MAX,
          .doc = "absolute" },
        { "entryType", F_ENUM, F_REQUIRED, offsetof(struct stat_reply, type), .names = entry_types,
          .doc = "a directory, or anything else" },
        { "size", F_UINT, F_REQUIRED, offsetof(struct stat_reply, size), .doc = "in bytes" },
        { "modified", F_STR, F_REQUIRED, offsetof(struct stat_reply, modified), FS_TIME_BYTES,
          .doc = "RFC 3339 with nanoseconds" },
        { "mode", F_STR, 0, offsetof(struct stat_reply, mode), 8,
          .doc = "permissions, octal: \"0644\"" },
        { 0 },
};

const struct route api_fs[] = {
        { "GET", "/v1/fs/entries", get_entries, .query = entries_query,
          .query_size = sizeof(struct fs_path_query), .cli = "fs list",
          .doc = "List a directory. Links are shown as themselves (\"symlink\":true)." },
        { "GET", "/v1/fs/file", fs_get_file, .query = fs_path_query,
          .query_size = sizeof(struct fs_path_query), .cli = "fs read",
          .doc = "Read a file. Range, If-Range and the conditions of RFC 9110 are honoured; ETag "
                 "names the version." },
        { "PUT", "/v1/fs/file", fs_put_file, R_STREAM_BODY, .query = put_query,
          .query_size = sizeof(struct fs_put_query), .reply = put_reply, .cli = "fs write",
          .doc = "Write a file, whole or not at all. Any size; missing directories are made; "
                 "If-Match and If-None-Match guard against other writers." },
        { "DELETE", "/v1/fs/entry", delete_entry, .query = delete_query,
          .query_size = sizeof(struct delete_query), .reply = path_reply, .cli = "fs delete",
          .doc = "Remove a file, a link or a directory." },
        { "POST", "/v1/fs/mkdir", post_mkdir, .query = fs_path_query,
          .query_size = sizeof(struct fs_path_query), .reply = path_reply, .cli = "fs mkdir",
          .doc = "Make a directory and those above it. One that exists is fine." },
        { "POST", "/v1/fs/move", post_move, .body = move_body,
          .body_size = sizeof(struct move_body), .reply = move_reply, .cli = "fs move",
          .doc = "Move or rename. To another file system too." },
        { "GET", "/v1/fs/stat", get_stat, .query = fs_path_query,
          .query_size = sizeof(struct fs_path_query), .reply = stat_reply, .cli = "fs stat",
          .doc = "Type, size and time of what a path leads to." },
        { 0 },
};
