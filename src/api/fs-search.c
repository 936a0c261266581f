/* Finding names and content. The thread writes the answer itself, line by line, as it finds. */
#include <string.h>

#include "api/api.h"
#include "api/fs.h"
#include "base/buf.h"
#include "base/clock.h"
#include "fs/search.h"
#include "http/req.h"
#include "http/sse.h"
#include "io/job.h"
#include "json/write.h"

enum {
        FLUSH_BYTES = 16 * 1024, /* hits are sent together, */
        FLUSH_MS = 20,           /* but none waits longer than this for the next */
        GLOBS_MAX = 64,
};

struct search_query {
        const char *path, *text, *regex, *name;
        struct strv globs;
        uint64_t limit;
        bool ignore_case, ignored, hidden;
        bool has_limit;
};
#define AT(member) offsetof(struct search_query, member)
static const struct field search_query[] = {
        { "path", F_STR, 0, AT(path), FS_TEXT_MAX,
          .doc = "where to look: a directory or one file; the home directory by default" },
        { "text", F_STR, 0, AT(text), SEARCH_PATTERN_MAX, .doc = "find lines with this text" },
        { "regex", F_STR, 0, AT(regex), SEARCH_PATTERN_MAX,
          .doc = "find lines that match this regular expression (PCRE2)" },
        { "name", F_STR, 0, AT(name), SEARCH_PATTERN_MAX,
          .doc = "find files and directories with such a name: *.c, src/**/test-*" },
        { "glob", F_STRV, 0, AT(globs), GLOBS_MAX,
          .doc = "look only at such paths: *.c; !*.min.js leaves out; may be repeated" },
        { "limit", F_UINT, 0, AT(limit), .has_offset = AT(has_limit),
          .doc = "stop after so many matches; 1000 by default, at most 100000" },
        { "ignoreCase", F_BOOL, 0, AT(ignore_case), .doc = "upper and lower case are the same" },
        { "ignored", F_BOOL, 0, AT(ignored), .doc = "look at what .gitignore leaves out, too" },
        { "hidden", F_BOOL, 0, AT(hidden), .doc = "look at names that begin with a dot, too" },
        { 0 },
};
#undef AT

/* One search, in the request's arena. Only its thread touches it while it runs. */
struct searching {
        const struct fsroot *root;
        struct search_spec spec;
        struct job *job;
        struct buf out;
        int64_t sent_us; /* when bytes left for the last time */
        bool is_sse;
};

static int flush(struct searching *s, struct error *err)
{
        int r = job_emit(s->job, s->out.data, s->out.len, err);

        buf_clear(&s->out);
        s->sent_us = clock_mono_us();
        return r;
}

static void put(struct searching *s, const char *event, struct buf *json)
{
        if (s->is_sse) {
                sse_frame(&s->out, event, 0, json->data, json->len);
        } else {
                buf_put(&s->out, json->data, json->len);
                buf_putc(&s->out, '\n');
        }
}

static void write_line(struct jw *w, const struct search_hit *hit)
{
        jw_u64(w, "line", hit->line);
        jw_u64(w, "column", hit->column);
        jw_strn(w, "text", hit->text.at, hit->text.len);
        if (hit->text_column != 1)
                jw_u64(w, "textColumn", hit->text_column);
        jw_bool(w, "cut", hit->is_cut);
}

static int on_hit(void *arg, const struct search_hit *hit, struct error *err)
{
        _cleanup_(buf_done) struct buf b = { 0 };
        struct searching *s = arg;
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "type", "match");
        jw_str(&w, "path", hit->path);
        if (hit->line)
                write_line(&w, hit);
        else
                jw_bool(&w, "isDirectory", hit->is_dir);
        jw_end(&w);
        put(s, "match", &b);
        return s->out.len >= FLUSH_BYTES ? flush(s, err) : 0;
}

/* Asked at every file: also the moment to send what was found, and a sign of life. */
static bool is_cancelled(void *arg)
{
        struct searching *s = arg;
        int64_t quiet_ms = (clock_mono_us() - s->sent_us) / 1000;

        if (s->is_sse && !s->out.len && quiet_ms >= SSE_HEARTBEAT_MS)
                buf_puts(&s->out, ": heartbeat\n\n");
        if (s->out.len && quiet_ms >= FLUSH_MS)
                return flush(s, NULL) < 0;
        return job_is_cancelled(s->job);
}

static void put_end(struct searching *s, const struct search_stats *st)
{
        _cleanup_(buf_done) struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "type", "end");
        jw_u64(&w, "files", st->n_files);
        jw_u64(&w, "matches", st->n_hits);
        jw_u64(&w, "skipped", st->n_skipped);
        jw_bool(&w, "limited", st->is_limited);
        jw_end(&w);
        put(s, "end", &b);
}

static int run(struct job *j, void *arg, struct error *err)
{
        struct searching *s = arg;
        const struct search_cb cb = { on_hit, is_cancelled, s };
        struct search_stats st;

        s->job = j;
        s->sent_us = clock_mono_us();
        if (fs_search(s->root, &s->spec, &cb, &st, err) < 0)
                return -1;
        put_end(s, &st);
        return flush(s, err);
}

static void done(void *arg)
{
        buf_done(&((struct searching *) arg)->out);
}

static int check(const struct search_query *q, struct error *err)
{
        if (!!q->text + !!q->regex + !!q->name != 1)
                return error_set(err, ERR_INVALID, 0, "give exactly one of text, regex and name");
        if (q->has_limit && (!q->limit || q->limit > SEARCH_LIMIT_MAX))
                return error_set(err, ERR_INVALID, 0, "limit must be between 1 and %d",
                                 SEARCH_LIMIT_MAX);
        return 0;
}

static int get_search(struct req *r, struct error *err)
{
        const struct search_query *q = req_query(r);
        const char *accept = req_header(r, "accept");
        struct searching *s = ARENA_NEW(req_arena(r), struct searching);
        struct job_reply reply = { .type = "application/x-ndjson", .run = run, .done = done };
        char *path;

        if (check(q, err) < 0 || fs_path(r, q->path, &path, err) < 0)
                return -1;
        *s = (struct searching) {
                .root = fs_root(r),
                .is_sse = accept && strcasestr(accept, "text/event-stream"),
                .spec = { .path = path,
                          .text = q->regex ? q->regex : q->text,
                          .name = q->name,
                          .is_regex = q->regex,
                          .ignore_case = q->ignore_case,
                          .globs = q->globs.at,
                          .n_globs = q->globs.n,
                          .with_ignored = q->ignored,
                          .with_hidden = q->hidden,
                          .limit = q->has_limit ? q->limit : SEARCH_LIMIT },
        };
        if (s->is_sse)
                reply.type = "text/event-stream";
        reply.path = path;
        return job_reply(r, &reply, s, err);
}

const struct route api_fs_search[] = {
        { "GET", "/v1/fs/search", get_search, .query = search_query,
          .query_size = sizeof(struct search_query), .cli = "fs search",
          .doc = "Find names or content below a directory, honouring .gitignore. One JSON object "
                 "per line as they are found ({\"type\":\"match\",…}), the last one counts "
                 "({\"type\":\"end\",…}); as events with Accept: text/event-stream." },
        { 0 },
};
