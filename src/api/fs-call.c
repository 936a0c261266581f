/* From the loop to a thread and back: see api/fs.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "api/api.h"
#include "api/fs.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "core/app.h"
#include "fs/file.h"
#include "fs/root.h"
#include "http/req.h"
#include "io/job.h"
#include "io/loop.h"
#include "json/write.h"

const struct field fs_path_query[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct fs_path_query, path), FS_TEXT_MAX,
          .doc = "absolute, or relative to the home directory (~)" },
        { 0 },
};

const struct fsroot *fs_root(struct req *r)
{
        const struct api *api = req_app(r);

        return api->app->files;
}

int fs_path(struct req *r, const char *text, char **ret, struct error *err)
{
        _cleanup_free_ char *path = NULL;

        if (fsroot_resolve(fs_root(r), SLICE(text ? text : ""), &path, err) < 0)
                return -1;
        *ret = arena_strdup(req_arena(r), path);
        return 0;
}

/* ---- a call ---- */

static void call_end(struct fs_call *c)
{
        struct req *r = c->req;

        if (!req_is_gone(r) &&
            (c->result < 0 || (c->ops->answer(c, r, &c->err) < 0 && !req_is_gone(r)))) {
                fs_explain(r, c->path, &c->err);
                (void) reply_error(r, &c->err);
        }
        if (c->ops->done)
                c->ops->done(c);
        fsroot_free(c->root);
        req_release(r); /* the call is in its arena: last */
}

static bool call_is_stopped(void *arg)
{
        return job_is_cancelled(arg);
}

static int call_job_run(struct job *j, void *arg, struct error *err)
{
        struct fs_call *c = arg;

        c->stop = (struct fs_stop) { call_is_stopped, j };
        return c->ops->run_long(c, err);
}

static void call_job_done(void *arg, const struct error *why)
{
        struct fs_call *c = arg;

        c->result = why ? -1 : 0;
        if (why)
                c->err = *why;
        call_end(c);
}

static void call_run(void *arg)
{
        struct fs_call *c = arg;

        c->result = c->ops->run(c, &c->err);
}

static void call_done(void *arg)
{
        static const struct job_spec ops = { .run = call_job_run, .on_done = call_job_done };
        struct fs_call *c = arg;
        struct job *job;

        if (c->result == 1 && c->ops->run_long) {
                c->result = job_start(req_loop(c->req), &ops, c, &job, &c->err);
                if (c->result == 0)
                        return;
        }
        call_end(c);
}

int fs_call_start(struct req *r, struct fs_call *c, const struct fs_call_ops *ops)
{
        c->req = r;
        c->ops = ops;
        c->root = fsroot_ref(fs_root(r));
        req_hold(r, NULL, NULL);
        loop_work(req_loop(r), call_run, call_done, c);
        return 0;
}

/* ---- a job as reply ---- */

struct reply_job {
        struct job_reply spec;
        struct req *req;
        struct job *job;
        struct fsroot *root; /* only held, so that it outlives the thread */
        void *arg;
        bool has_begun;
};

static int reply_job_run(struct job *j, void *arg, struct error *err)
{
        struct reply_job *x = arg;

        return x->spec.run(j, x->arg, err);
}

static void reply_job_begin(struct reply_job *x)
{
        if (x->has_begun)
                return;
        x->has_begun = true;
        if (x->spec.disposition)
                reply_header(x->req, "content-disposition", x->spec.disposition);
        (void) reply_begin(x->req, 200, x->spec.type, -1);
}

static void reply_job_data(void *arg, struct chunk *c)
{
        struct reply_job *x = arg;
        int room;

        reply_job_begin(x);
        room = reply_write(x->req, c);
        if (room < 0) /* gone, or it was a HEAD and has its answer */
                job_cancel(x->job);
        else if (room == 0)
                job_pause(x->job, true);
}

static void reply_job_room(void *arg)
{
        job_pause(((struct reply_job *) arg)->job, false);
}

static void reply_job_gone(void *arg)
{
        job_cancel(((struct reply_job *) arg)->job);
}

static void reply_job_end(struct reply_job *x, const struct error *why)
{
        struct error err;

        if (!why) {
                reply_job_begin(x);
                reply_end(x->req);
        } else if (x->has_begun) {
                reply_abort(x->req);
        } else {
                err = *why;
                fs_explain(x->req, x->spec.path, &err);
                (void) reply_error(x->req, &err);
        }
}

static void reply_job_done(void *arg, const struct error *why)
{
        struct reply_job *x = arg;
        struct req *r = x->req;

        req_on_gone(r, NULL, NULL); /* the job is no more: an abort must not cancel it */
        if (!req_is_gone(r))
                reply_job_end(x, why);
        if (x->spec.done)
                x->spec.done(x->arg);
        fsroot_free(x->root);
        free(x);
        req_release(r);
}

int job_reply(struct req *r, const struct job_reply *spec, void *arg, struct error *err)
{
        static const struct job_spec ops = {
                .run = reply_job_run,
                .on_data = reply_job_data,
                .on_done = reply_job_done,
        };
        struct reply_job *x = NEW(struct reply_job);

        *x = (struct reply_job) { .spec = *spec, .req = r, .arg = arg };
        if (job_start(req_loop(r), &ops, x, &x->job, err) < 0) {
                free(x);
                return -1;
        }
        x->root = fsroot_ref(fs_root(r));
        req_hold(r, reply_job_gone, x);
        reply_on_room(r, reply_job_room, x);
        return 0;
}

/* ---- words ---- */

void fs_explain(struct req *r, const char *path, struct error *err)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        if (err->kind != ERR_NOT_FOUND || err->ext || !path)
                return;
        jw_obj(&w, NULL);
        jw_str(&w, "id", path);
        jw_str(&w, "resource", "path");
        jw_end(&w);
        err->ext = arena_printf(req_arena(r), "\"details\":%s", b.data);
        buf_done(&b);
}

/* Digits by hand: a listing has tens of thousands of these. */
static char *put_digits(char *at, unsigned long v, unsigned base, int n)
{
        for (int i = n - 1; i >= 0; i--, v /= base)
                at[i] = (char) ('0' + v % base);
        return at + n;
}

void fs_time_text(int64_t ns, char ret[static FS_TIME_BYTES])
{
        static _Thread_local time_t cached = -1;
        static _Thread_local char text[32]; /* the second; most files of a listing share few */
        static _Thread_local size_t len;
        time_t sec = (time_t) (ns / 1000000000);
        long rest = (long) (ns % 1000000000);

        if (rest < 0) { /* before 1970 */
                rest += 1000000000;
                sec--;
        }
        if (sec != cached || !len) {
                struct tm tm;

                (void) gmtime_r(&sec, &tm);
                len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.", &tm);
                cached = sec;
        }
        memcpy(ret, text, len);
        memcpy(put_digits(ret + len, (unsigned long) rest, 10, 9), "+00:00", 7);
}

#define PUT(b, literal) buf_put((b), literal, sizeof(literal) - 1)

/* Written as text, without the writer's care for strings that need none here: this is most of what
 * a listing does. */
void fs_info_write(struct jw *w, const struct fs_info *i)
{
        struct buf *b = w->out;
        char text[FS_TIME_BYTES];

        if (w->needs_comma)
                buf_putc(b, ',');
        w->needs_comma = true;
        if (S_ISDIR(i->mode))
                PUT(b, "\"entryType\":\"directory\",\"size\":");
        else
                PUT(b, "\"entryType\":\"file\",\"size\":");
        buf_putu(b, i->size);
        PUT(b, ",\"modified\":\"");
        fs_time_text(i->modified_ns, text);
        buf_puts(b, text);
        PUT(b, "\",\"mode\":\"");
        buf_put(b, text, (size_t) (put_digits(text, i->mode & 07777, 8, 4) - text));
        PUT(b, "\"");
        if (S_ISLNK(i->mode))
                PUT(b, ",\"symlink\":true");
}

int fs_reply_path(struct req *r, const char *path)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "path", path);
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}
