#include "fs/search.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fs/glob.h"
#include "fs/match.h"
#include "fs/root.h"
#include "fs/scan.h"
#include "fs/walk.h"

struct search {
        const struct search_spec *spec;
        const struct search_cb *cb;
        struct search_stats *stats;
        struct globs globs, names;
        struct scan scan;
};

/* 1 = go on, 0 = that was enough */
static int tell(void *arg, const struct search_hit *hit, struct error *err)
{
        struct search *s = arg;

        if (s->cb->on_hit(s->cb->arg, hit, err) < 0)
                return -1;
        s->stats->is_limited = ++s->stats->n_hits >= s->spec->limit;
        return !s->stats->is_limited;
}

static bool is_cancelled(void *arg)
{
        const struct search *s = arg;

        return s->cb->is_cancelled && s->cb->is_cancelled(s->cb->arg);
}

static void on_skip(void *arg)
{
        struct search *s = arg;

        s->stats->n_skipped++;
}

static int scan_open_file(struct search *s, int fd, const char *path, bool is_any_size,
                          struct error *err)
{
        int r = scan_fd(&s->scan, fd, path, is_any_size, err);

        if (r == SCAN_SKIPPED)
                s->stats->n_skipped++;
        else
                s->stats->n_files++;
        return r;
}

static int look_inside(struct search *s, const struct walk_entry *e, struct error *err)
{
        _cleanup_close_ int fd = openat(e->dir_fd, e->name,
                                        O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        int r;

        if (fd < 0) {
                s->stats->n_skipped++;
                return 1;
        }
        r = scan_open_file(s, fd, e->path, false, err);
        return r < 0 || r == SCAN_STOPPED ? -1 : 1;
}

static int look_at_name(struct search *s, const struct walk_entry *e, struct error *err)
{
        struct search_hit hit = { .path = e->path, .is_dir = e->is_dir };

        s->stats->n_files++;
        if (!globs_want(&s->names, e->below, false))
                return 1;
        return tell(s, &hit, err) > 0 ? 1 : -1;
}

/* -1 without an error = the limit is reached */
static int on_entry(void *arg, const struct walk_entry *e, struct error *err)
{
        struct search *s = arg;

        if (is_cancelled(s))
                return error_set(err, ERR_UPSTREAM, 0, "the search was cancelled");
        if (!globs_want(&s->globs, e->below, e->is_dir))
                return 0;
        if (s->scan.matcher)
                return e->is_file ? look_inside(s, e, err) : 1;
        /* A directory passes the globs so that the way goes on below it; to be a hit it must be
         * chosen itself. */
        if (e->is_dir && !globs_want(&s->globs, e->below, false))
                return 1;
        return look_at_name(s, e, err);
}

static int search_dir(struct search *s, const struct fsroot *r, int fd, struct error *err)
{
        const struct walk_spec walk = {
                .path = s->spec->path,
                .with_ignored = s->spec->with_ignored,
                .with_hidden = s->spec->with_hidden,
                .on_entry = on_entry,
                .on_skip = on_skip,
                .arg = s,
        };

        if (walk_tree(r, fd, &walk, err) < 0 && !s->stats->is_limited)
                return -1;
        return 0;
}

/* The path itself is a file: whoever names it wants it, whatever the patterns say. */
static int search_file(struct search *s, int fd, struct error *err)
{
        const char *path = s->spec->path, *slash = strrchr(path, '/');
        const struct walk_entry e = { .path = path, .below = slash ? slash + 1 : path };

        if (s->scan.matcher)
                return scan_open_file(s, fd, path, true, err) < 0 ? -1 : 0;
        return look_at_name(s, &e, err) < 0 && !s->stats->is_limited ? -1 : 0;
}

static int prepare(struct search *s, struct error *err)
{
        const struct search_spec *spec = s->spec;

        s->globs.flags = WILD_UTF8;
        s->names.flags = WILD_UTF8 | (spec->ignore_case ? WILD_FOLD : 0);
        for (size_t i = 0; i < spec->n_globs; i++)
                if (globs_add(&s->globs, spec->globs[i], err) < 0)
                        return error_wrap(err, "glob");
        if (spec->text)
                return matcher_new(spec, &s->scan.matcher, err);
        if (spec->name && globs_add(&s->names, spec->name, err) < 0)
                return error_wrap(err, "name");
        return 0;
}

static int run(struct search *s, const struct fsroot *r, struct error *err)
{
        _cleanup_close_ int fd = -1;
        struct stat st;

        if (prepare(s, err) < 0)
                return -1;
        fd = fsroot_openat(r, s->spec->path, O_RDONLY, 0, err);
        if (fd < 0)
                return -1;
        if (fstat(fd, &st) < 0)
                return error_set(err, ERR_SYSTEM, errno, "stat '%s'", s->spec->path);
        if (S_ISDIR(st.st_mode))
                return search_dir(s, r, TAKE_FD(fd), err);
        if (S_ISREG(st.st_mode))
                return search_file(s, fd, err);
        return error_set(err, ERR_INVALID, 0, "path is neither a file nor a directory: %s",
                         s->spec->path);
}

int fs_search(const struct fsroot *r, const struct search_spec *spec, const struct search_cb *cb,
              struct search_stats *ret, struct error *err)
{
        struct search s = { .spec = spec, .cb = cb, .stats = ret };
        int n;

        *ret = (struct search_stats) { 0 };
        s.scan = (struct scan) { .on_hit = tell, .is_cancelled = is_cancelled, .arg = &s };
        n = run(&s, r, err);
        s.scan.matcher = matcher_free(s.scan.matcher);
        scan_done(&s.scan);
        globs_done(&s.globs);
        globs_done(&s.names);
        return n;
}
