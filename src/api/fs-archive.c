/* Folders as archives, both ways. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/fs.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "fs/root.h"
#include "fs/tar.h"
#include "http/req.h"
#include "io/job.h"
#include "json/write.h"

/* ---- GET /v1/fs/archive ---- */

struct archive_query {
        const char *path;
        int format;
};
static const char *const format_names[] = { "tar", "tar.zst", NULL };
static const char *const format_types[] = { "application/x-tar", "application/zstd" };

static const struct field archive_query[] = {
        { "path", F_STR, 0, offsetof(struct archive_query, path), FS_TEXT_MAX,
          .doc = "the folder or file; the home directory when absent" },
        { "format", F_ENUM, 0, offsetof(struct archive_query, format), .names = format_names,
          .doc = "tar (default), or tar.zst for a compressed one" },
        { 0 },
};

struct archive_call {
        const struct fsroot *root;
        char *path;
        enum tar_packing packing;
        struct job *job;
};

static int archive_write(void *arg, const void *data, size_t len, struct error *err)
{
        return job_emit(((struct archive_call *) arg)->job, data, len, err);
}

static int archive_run(struct job *j, void *arg, struct error *err)
{
        struct archive_call *c = arg;
        const struct tar_sink sink = { archive_write, c };

        c->job = j;
        return tar_pack(c->root, c->path, c->packing, &sink, err);
}

/* The plain form for everybody, with what could break the header or a shell replaced, and the true
 * name in the form of RFC 5987. */
static const char *disposition(struct req *r, const char *path, const char *ending)
{
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *text;
        struct buf b = { 0 };

        if (!*name)
                name = "root";
        buf_puts(&b, "attachment; filename=\"");
        for (const char *p = name; *p; p++)
                buf_putc(&b, strchr(plain, *p) ? *p : '_');
        buf_printf(&b, ".%s\"; filename*=UTF-8''", ending);
        for (const char *p = name; *p; p++) {
                if (strchr(plain, *p))
                        buf_putc(&b, *p);
                else
                        buf_printf(&b, "%%%02X", (unsigned char) *p);
        }
        buf_printf(&b, ".%s", ending);
        text = arena_strdup(req_arena(r), b.data);
        buf_done(&b);
        return text;
}

static int get_archive(struct req *r, struct error *err)
{
        const struct archive_query *q = req_query(r);
        struct archive_call *c = ARENA_NEW(req_arena(r), struct archive_call);
        struct job_reply spec = { .type = format_types[q->format], .run = archive_run };

        if (fs_path(r, q->path, &c->path, err) < 0)
                return -1;
        c->root = fs_root(r);
        c->packing = q->format == 0 ? TAR_PLAIN : TAR_ZSTD;
        spec.path = c->path;
        spec.disposition = disposition(r, c->path, format_names[q->format]);
        return job_reply(r, &spec, c, err);
}

/* ---- POST /v1/fs/upload-batch ---- */

static const struct field upload_query[] = {
        { "path", F_STR, 0, offsetof(struct fs_path_query, path), FS_TEXT_MAX,
          .doc = "the folder to unpack into, made when missing; the home directory when absent" },
        { 0 },
};

struct upload_reply {
        struct strv paths;
        bool truncated;
};
static const struct field upload_reply[] = {
        { "paths", F_STRV, F_REQUIRED, offsetof(struct upload_reply, paths), TAR_PATHS_MAX,
          .doc = "what was unpacked, in order" },
        { "truncated", F_BOOL, F_REQUIRED, offsetof(struct upload_reply, truncated),
          .doc = "there was more than the list shows" },
        { 0 },
};

/* The body flows into a job that unpacks it, at the job's pace. The job ends last: by itself, or
 * because the client went away and it was cancelled. */
struct upload {
        struct req *req;
        struct fsroot *root;
        char *dest;
        struct job *job; /* NULL when it is over; the loop's */
        struct tar_paths paths;

        struct job *self;   /* the same, for the thread */
        struct chunk *held; /* the thread's too: what tar_unpack() is looking at */
};

static int upload_read(void *arg, const char **ret, size_t *ret_len, struct error *err)
{
        struct upload *u = arg;

        u->held = chunk_unref(u->held);
        if (job_take(u->self, &u->held, err) < 0)
                return -1;
        *ret = u->held ? u->held->data : "";
        *ret_len = u->held ? u->held->len : 0;
        return 0;
}

static int upload_run(struct job *j, void *arg, struct error *err)
{
        struct upload *u = arg;
        const struct tar_source src = { upload_read, u };
        int r;

        u->self = j;
        r = tar_unpack(u->root, u->dest, &src, &u->paths, err);
        u->held = chunk_unref(u->held);
        return r;
}

static void upload_answer(struct upload *u)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_arr(&w, "paths");
        for (size_t i = 0; i < u->paths.n; i++)
                jw_str(&w, NULL, u->paths.at[i]);
        jw_end(&w);
        jw_bool(&w, "truncated", u->paths.is_truncated);
        jw_end(&w);
        (void) reply_json(u->req, 200, b.data, b.len);
        buf_done(&b);
}

static void upload_done(void *arg, const struct error *why)
{
        struct upload *u = arg;
        struct req *r = u->req;

        u->job = NULL;
        req_on_gone(r, NULL, NULL);
        if (!req_is_gone(r) && why)
                (void) reply_error(r, why);
        else if (!req_is_gone(r))
                upload_answer(u);
        tar_paths_done(&u->paths);
        fsroot_free(u->root);
        req_release(r); /* u is in its arena: last */
}

static void upload_room(void *arg)
{
        req_pause_body(((struct upload *) arg)->req, false);
}

static void upload_gone(void *arg)
{
        struct upload *u = arg;

        if (u->job)
                job_cancel(u->job);
}

static void upload_data(void *arg, const char *data, size_t len)
{
        struct upload *u = arg;
        struct chunk *c;

        if (!u->job)
                return;
        c = chunk_copy(data, len);
        if (job_feed(u->job, c) == 0)
                req_pause_body(u->req, true);
        chunk_unref(c);
}

static void upload_end(void *arg, const struct error *why)
{
        struct upload *u = arg;

        if (!u->job)
                return;
        if (why)
                job_cancel(u->job);
        else
                job_feed_end(u->job);
}

static int post_upload(struct req *r, struct error *err)
{
        static const struct job_spec ops = {
                .run = upload_run,
                .on_room = upload_room,
                .on_done = upload_done,
        };
        static const struct body_sink sink = { upload_data, upload_end };
        static const char wanted[] = "application/x-tar";
        const struct fs_path_query *q = req_query(r);
        const char *type = req_header(r, "content-type");
        struct upload *u = ARENA_NEW(req_arena(r), struct upload);

        if (!type || strncasecmp(type, wanted, strlen(wanted)) != 0)
                return error_set(err, ERR_INVALID, 0, "content-type must be application/x-tar");
        if (fs_path(r, q->path, &u->dest, err) < 0)
                return -1;
        u->req = r;
        u->root = fsroot_ref(fs_root(r));
        if (job_start(req_loop(r), &ops, u, &u->job, err) < 0) {
                fsroot_free(u->root);
                return -1;
        }
        req_hold(r, upload_gone, u);
        req_read_body(r, &sink, u);
        return 0;
}

const struct route api_fs_archive[] = {
        { "GET", "/v1/fs/archive", get_archive, .query = archive_query,
          .query_size = sizeof(struct archive_query), .cli = "fs archive",
          .doc = "Download a folder or a file as a tar archive." },
        { "POST", "/v1/fs/upload-batch", post_upload, R_STREAM_BODY, .query = upload_query,
          .query_size = sizeof(struct fs_path_query), .reply = upload_reply, .cli = "fs upload",
          .doc = "Unpack a tar archive into a folder. The body is the archive (application/x-tar, "
                 "uncompressed) and may have any size." },
        { 0 },
};
