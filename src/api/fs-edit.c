/* Changing text in place. */
#include "api/api.h"
#include "api/fs.h"
#include "base/buf.h"
#include "fs/edit.h"
#include "http/req.h"
#include "json/write.h"

enum { EDIT_BODY_MAX = 64 * 1024 * 1024 };

struct edit_body {
        const char *path, *old_text, *new_text, *diff, *directory;
        uint64_t expected;
        bool is_dry_run;
};
static const struct field edit_body[] = {
        { "path", F_STR, 0, offsetof(struct edit_body, path), FS_TEXT_MAX,
          .doc = "the file in which oldText is replaced" },
        { "oldText", F_STR, 0, offsetof(struct edit_body, old_text), EDIT_FILE_MAX,
          .doc = "what to find, to the letter; not empty" },
        { "newText", F_STR, 0, offsetof(struct edit_body, new_text), EDIT_FILE_MAX,
          .doc = "what to put in its place" },
        { "expectedCount", F_UINT, 0, offsetof(struct edit_body, expected),
          .doc = "how often oldText must be there; any number when absent or 0" },
        { "diff", F_STR, 0, offsetof(struct edit_body, diff), EDIT_BODY_MAX,
          .doc = "instead of path and texts: a unified diff over any number of files" },
        { "directory", F_STR, 0, offsetof(struct edit_body, directory), FS_TEXT_MAX,
          .doc = "where the names in the diff start; the home directory when absent" },
        { "dryRun", F_BOOL, 0, offsetof(struct edit_body, is_dry_run),
          .doc = "say what would change, and change nothing" },
        { 0 },
};

struct edit_file {
        const char *path, *change, *from;
        uint64_t count;
};
static const struct field edit_file[] = {
        { "path", F_STR, F_REQUIRED, offsetof(struct edit_file, path), FS_TEXT_MAX,
          .doc = "of the file, absolute" },
        { "change", F_STR, F_REQUIRED, offsetof(struct edit_file, change), 16,
          .doc = "modified, created, deleted or renamed" },
        { "from", F_STR, 0, offsetof(struct edit_file, from), FS_TEXT_MAX,
          .doc = "the old path of a renamed file" },
        { "count", F_UINT, F_REQUIRED, offsetof(struct edit_file, count),
          .doc = "replacements, or hunks of the diff" },
        { 0 },
};
struct edit_reply {
        struct objv files;
};
static const struct field edit_reply[] = {
        { "files", F_OBJV, F_REQUIRED, offsetof(struct edit_reply, files), EDIT_FILES_MAX,
          edit_file, sizeof(struct edit_file), .doc = "every file that was changed" },
        { 0 },
};

struct edit_call {
        struct fs_call call; /* call.path: the file, or the directory of the diff */
        const struct edit_body *body;
        struct edit_results results;
};

static int edit_run(struct fs_call *call, struct error *err)
{
        struct edit_call *e = (struct edit_call *) call;
        const struct edit_body *b = e->body;

        if (b->diff)
                return 1; /* any number of files: not on the pool, where others wait */
        return fs_edit_replace(call->root, call->path, SLICE(b->old_text), SLICE(b->new_text),
                               b->expected, b->is_dry_run, &e->results, err);
}

static int edit_run_diff(struct fs_call *call, struct error *err)
{
        struct edit_call *e = (struct edit_call *) call;

        return fs_edit_diff(call->root, call->path, SLICE(e->body->diff), e->body->is_dry_run,
                            &e->results, err);
}

static int edit_answer(struct fs_call *call, struct req *r, struct error *err)
{
        const struct edit_results *res = &((struct edit_call *) call)->results;
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_arr(&w, "files");
        for (size_t i = 0; i < res->n; i++) {
                jw_obj(&w, NULL);
                jw_str(&w, "path", res->at[i].path);
                jw_str(&w, "change", res->at[i].what);
                if (res->at[i].from)
                        jw_str(&w, "from", res->at[i].from);
                jw_u64(&w, "count", res->at[i].n);
                jw_end(&w);
        }
        jw_end(&w);
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}

static void edit_done(struct fs_call *call)
{
        edit_results_done(&((struct edit_call *) call)->results);
}

/* One of two shapes; a mixture of both is a mistake of the client, not ours to guess about. */
static int check_shape(const struct edit_body *b, struct error *err)
{
        if (b->diff)
                return b->path || b->old_text || b->new_text
                               ? error_set(err, ERR_SHAPE, 0,
                                           "diff goes with directory, not with path and texts")
                               : 0;
        if (b->directory)
                return error_set(err, ERR_SHAPE, 0, "missing field `diff`");
        if (!b->path || !b->old_text || !b->new_text)
                return error_set(err, ERR_SHAPE, 0, "missing field `%s`",
                                 !b->path       ? "path"
                                 : !b->old_text ? "oldText"
                                                : "newText");
        if (!*b->old_text)
                return error_set(err, ERR_INVALID, 0, "oldText must not be empty");
        return 0;
}

static int post_edit(struct req *r, struct error *err)
{
        static const struct fs_call_ops ops = {
                .run = edit_run,
                .run_long = edit_run_diff,
                .answer = edit_answer,
                .done = edit_done,
        };
        const struct edit_body *b = req_body(r);
        struct edit_call *e = ARENA_NEW(req_arena(r), struct edit_call);

        if (check_shape(b, err) < 0 ||
            fs_path(r, b->diff ? b->directory : b->path, &e->call.path, err) < 0)
                return -1;
        e->body = b;
        return fs_call_start(r, &e->call, &ops);
}

const struct route api_fs_edit[] = {
        { "POST", "/v1/fs/edit", post_edit, .body = edit_body,
          .body_size = sizeof(struct edit_body), .reply = edit_reply, .max_body = EDIT_BODY_MAX,
          .cli = "fs edit",
          .doc = "Replace a text in a file, or apply a unified diff: all of it, or nothing. What "
                 "does not fit is a conflict and is named with its place." },
        { 0 },
};
