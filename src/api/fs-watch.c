/* Changes as they happen. A job listens to the kernel and words each change; the loop frames them
 * as events. The answer begins when everything is watched, so that what cannot be watched is an
 * ordinary problem. */
#include <string.h>

#include "api/api.h"
#include "api/fs.h"
#include "base/buf.h"
#include "fs/root.h"
#include "fs/watch.h"
#include "http/req.h"
#include "http/sse.h"
#include "io/job.h"
#include "json/write.h"

struct watch_query {
        const char *path;
        bool recursive, has_recursive, ignored;
};
static const struct field watch_query[] = {
        { "path", F_STR, 0, offsetof(struct watch_query, path), FS_TEXT_MAX,
          .doc = "a directory or a file; the home directory by default" },
        { "recursive", F_BOOL, 0, offsetof(struct watch_query, recursive),
          .has_offset = offsetof(struct watch_query, has_recursive),
          .doc = "directories below it, too; true by default" },
        { "ignored", F_BOOL, 0, offsetof(struct watch_query, ignored),
          .doc = "tell of what .gitignore leaves out, too" },
        { 0 },
};

/* How an event is called; the thread puts the letter in front of its JSON. */
static const struct {
        char letter;
        const char *event, *type;
} words[] = {
        [FS_CREATED] = { 'c', "change", "created" },
        [FS_MODIFIED] = { 'c', "change", "modified" },
        [FS_DELETED] = { 'c', "change", "deleted" },
        [FS_MOVED] = { 'c', "change", "moved" },
        [FS_OVERFLOW] = { 'o', "overflow", "overflow" },
        [FS_READY] = { 'r', "ready", "ready" },
};

/* One watch, in the request's arena; the request is held until the thread has left. */
struct watcher {
        struct req *req;
        struct fsroot *root;
        struct fs_watch_spec spec;
        struct job *job;
        struct sse *sse; /* from FS_READY until the client leaves */
        uint64_t id;
        bool has_begun;
};

/* ---- the thread ---- */

static int on_event(void *arg, const struct fs_event *e, struct error *err)
{
        struct job *j = arg;
        struct buf b = { 0 };
        struct jw w = { .out = &b };
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;

        buf_putc(&b, words[e->change].letter);
        jw_obj(&w, NULL);
        if (e->change == FS_OVERFLOW) {
                jw_u64(&w, "lost", e->n_lost);
        } else {
                jw_str(&w, "type", words[e->change].type);
                jw_str(&w, "path", e->path);
                if (e->from)
                        jw_str(&w, "from", e->from);
                if (e->change != FS_READY)
                        jw_bool(&w, "isDirectory", e->is_dir);
        }
        jw_end(&w);
        c = buf_take_chunk(&b);
        return job_emit_chunk(j, c, err);
}

static int run(struct job *j, void *arg, struct error *err)
{
        struct watcher *w = arg;

        return fs_watch(w->root, &w->spec, j, on_event, j, err);
}

/* ---- the loop ---- */

static void on_left(void *arg)
{
        job_cancel(((struct watcher *) arg)->job);
}

static void on_sse_gone(void *arg)
{
        struct watcher *w = arg;

        w->sse = sse_free(w->sse);
        job_cancel(w->job);
}

static void on_sse_room(void *arg)
{
        job_pause(((struct watcher *) arg)->job, false);
}

static const struct sse_cb sse_cb = { .on_room = on_sse_room, .on_gone = on_sse_gone };

static bool begin(struct watcher *w)
{
        if (!w->has_begun) {
                w->has_begun = true;
                if (sse_open(w->req, &sse_cb, w, &w->sse, NULL) < 0)
                        job_cancel(w->job);
        }
        return w->sse;
}

static const char *event_name(char letter)
{
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (words[i].letter == letter)
                        return words[i].event;
        return NULL;
}

static void on_data(void *arg, struct chunk *c)
{
        struct watcher *w = arg;

        if (!begin(w))
                return;
        if (sse_send(w->sse, event_name(c->data[0]), ++w->id, c->data + 1, c->len - 1) == 0)
                job_pause(w->job, true);
}

static void tell_error(struct watcher *w, const struct error *why)
{
        _cleanup_(buf_done) struct buf b = { 0 };
        struct jw jw = { .out = &b };

        jw_obj(&jw, NULL);
        jw_str(&jw, "message", why->msg);
        jw_end(&jw);
        (void) sse_send(w->sse, "error", ++w->id, b.data, b.len);
}

static void refuse(struct watcher *w, const struct error *why)
{
        struct error err;

        (void) error_set(&err, ERR_BUSY, 0, "the server is shutting down");
        if (why)
                err = *why;
        fs_explain(w->req, w->spec.path, &err);
        (void) reply_error(w->req, &err);
}

static void on_done(void *arg, const struct error *why)
{
        struct watcher *w = arg;
        struct req *r = w->req;

        if (w->sse && why)
                tell_error(w, why);
        if (!w->has_begun && !req_is_gone(r)) {
                req_on_gone(r, NULL, NULL);
                req_on_drain(r, NULL, NULL);
                refuse(w, why);
        }
        w->sse = sse_free(w->sse);
        fsroot_free(w->root);
        req_release(r); /* the watcher is in its arena: last */
}

static int get_watch(struct req *r, struct error *err)
{
        static const struct job_spec spec = { .run = run, .on_data = on_data, .on_done = on_done };
        const struct watch_query *q = req_query(r);
        struct watcher *w = ARENA_NEW(req_arena(r), struct watcher);
        char *path;

        if (fs_path(r, q->path, &path, err) < 0)
                return -1;
        *w = (struct watcher) {
                .req = r,
                .spec = { .path = path,
                          .is_recursive = !q->has_recursive || q->recursive,
                          .with_ignored = q->ignored },
        };
        w->root = fsroot_ref(fs_root(r));
        if (job_start(req_loop(r), &spec, w, &w->job, err) < 0) {
                fsroot_free(w->root);
                return -1;
        }
        req_hold(r, on_left, w);
        req_on_drain(r, on_left, w);
        return 0;
}

const struct route api_fs_watch[] = {
        { "GET", "/v1/fs/watch", get_watch, R_SSE, .query = watch_query,
          .query_size = sizeof(struct watch_query), .cli = "fs watch",
          .doc = "Follow the changes below a directory as events: ready, then change for each path "
                 "that was created, modified, deleted or moved. After overflow changes may have "
                 "been "
                 "missed: look again. Ends when the path itself is deleted." },
        { 0 },
};
