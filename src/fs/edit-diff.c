/* A diff over several files as one step.
 *
 * First everything is computed and the new contents are written beside their targets, under hidden
 * names. Then come the steps, each of which can be taken back: the old file is not removed but
 * changes places with the new one, so after the step the hidden name holds the old file. When all
 * steps are done the hidden names go; when one fails, the steps before it are undone in reverse. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/path.h"
#include "fs/beneath.h"
#include "fs/edit.h"
#include "fs/file.h"
#include "fs/impl.h"
#include "fs/root.h"

enum step_kind { STEP_REPLACE, STEP_CREATE, STEP_DELETE };

struct step {
        enum step_kind kind;
        char *rel;
        char temp[FS_TEMP_BYTES]; /* in the same directory: the new content, then the old */
        struct stat was;          /* the file that was read: REPLACE and DELETE */
        bool is_stuck;            /* could not be undone: the hidden name is all that is left */
};

struct edit {
        int top;
        bool is_dry_run, is_whole; /* whole: every step is taken, nothing goes back */
        struct step *steps;
        size_t n_steps, cap_steps, n_taken; /* taken: in place already */
        char **made; /* directories that were not there before, outer first */
        size_t n_made, cap_made;
        struct map seen; /* every name of the diff, once */
        struct edit_results results;
};

/* ---- steps ---- */

static int step_dir(const struct edit *x, const struct step *s, const char **ret_name,
                    struct error *err)
{
        return beneath_parent(x->top, s->rel, false, ret_name, err);
}

/* Old and new change places. Where the file system cannot do that at once, in two renames. */
static int swap(int dir, const char *temp, const char *name)
{
        char aside[FS_TEMP_BYTES];

        if (renameat2(dir, temp, dir, name, RENAME_EXCHANGE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return errno;
        fs_temp_name(aside);
        if (renameat(dir, name, dir, aside) < 0)
                return errno;
        if (renameat(dir, temp, dir, name) < 0) {
                int sys = errno;

                (void) renameat(dir, aside, dir, name);
                return sys;
        }
        return renameat(dir, aside, dir, temp) < 0 ? errno : 0;
}

/* A new name, but only if nobody has it. */
static int move_new(int dir, const char *from, const char *to)
{
        struct stat st;

        if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return errno;
        if (fstatat(dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return EEXIST;
        return renameat(dir, from, dir, to) < 0 ? errno : 0;
}

static int move_step(int dir, const struct step *s, const char *name)
{
        switch (s->kind) {
        case STEP_REPLACE: return swap(dir, s->temp, name);
        case STEP_CREATE: return move_new(dir, s->temp, name);
        case STEP_DELETE: return move_new(dir, name, s->temp);
        }
        return EINVAL;
}

static int move_step_back(int dir, const struct step *s, const char *name)
{
        switch (s->kind) {
        case STEP_REPLACE: return swap(dir, s->temp, name);
        case STEP_CREATE: return unlinkat(dir, name, 0) < 0 ? errno : 0;
        case STEP_DELETE: return move_new(dir, s->temp, name);
        }
        return EINVAL;
}

/* Is what lies under the hidden name now the very file that was read? */
static bool is_same_file(int dir, const struct step *s)
{
        struct stat st;

        return fstatat(dir, s->temp, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == s->was.st_dev &&
               st.st_ino == s->was.st_ino && st.st_size == s->was.st_size &&
               st.st_mtim.tv_sec == s->was.st_mtim.tv_sec &&
               st.st_mtim.tv_nsec == s->was.st_mtim.tv_nsec;
}

static int take_step(const struct edit *x, struct step *s, struct error *err)
{
        const char *name;
        _cleanup_close_ int dir = step_dir(x, s, &name, err);
        int sys;

        if (dir < 0)
                return -1;
        sys = move_step(dir, s, name);
        if (sys == EEXIST)
                return error_set(err, ERR_CONFLICT, 0, "'%s' exists already", s->rel);
        if (sys)
                return fs_error(err, sys, "put into place", s->rel);
        if (s->kind == STEP_CREATE || is_same_file(dir, s))
                return 0;
        s->is_stuck = move_step_back(dir, s, name) != 0;
        return error_set(err, ERR_CONFLICT, 0, "'%s' was changed meanwhile", s->rel);
}

/* Best effort: there is no way back from it. But then the old file, under its hidden name, stays
 * for somebody to find. */
static void undo_step(const struct edit *x, struct step *s)
{
        const char *name;
        _cleanup_close_ int dir = step_dir(x, s, &name, NULL);

        s->is_stuck = dir < 0 || move_step_back(dir, s, name) != 0;
}

static void drop_temp(const struct edit *x, const struct step *s)
{
        const char *name;
        _cleanup_close_ int dir = step_dir(x, s, &name, NULL);

        if (dir >= 0 && !s->is_stuck)
                (void) unlinkat(dir, s->temp, 0);
}

/* Whatever happened: no hidden name stays (but see undo_step()), and without success no change and
 * no directory. */
static void edit_done(struct edit *x)
{
        for (size_t i = x->is_whole ? 0 : x->n_taken; i > 0; i--)
                undo_step(x, &x->steps[i - 1]);
        for (size_t i = 0; i < x->n_steps; i++) {
                drop_temp(x, &x->steps[i]);
                free(x->steps[i].rel);
        }
        for (size_t i = x->n_made; i > 0; i--) {
                const char *name;
                _cleanup_close_ int dir = -1;

                if (!x->is_whole)
                        dir = beneath_parent(x->top, x->made[i - 1], false, &name, NULL);
                if (dir >= 0)
                        (void) unlinkat(dir, name, AT_REMOVEDIR);
                free(x->made[i - 1]);
        }
        free(x->steps);
        free(x->made);
        map_done(&x->seen);
        edit_results_done(&x->results);
        if (x->top >= 0)
                (void) close(x->top);
}

/* ---- the plan ---- */

static struct step *step_add(struct edit *x, enum step_kind kind, const char *rel,
                             const struct stat *was)
{
        struct step *s;

        if (x->n_steps == x->cap_steps) {
                x->cap_steps = x->cap_steps ? x->cap_steps * 2 : 8;
                x->steps = xrealloc(x->steps, x->cap_steps * sizeof(x->steps[0]));
        }
        s = &x->steps[x->n_steps++];
        *s = (struct step) { .kind = kind, .rel = xstrdup(rel) };
        if (was)
                s->was = *was;
        fs_temp_name(s->temp);
        return s;
}

static void result_add(struct edit *x, const char *dir, const struct diff_file *f, const char *rel,
                       const char *what, unsigned n)
{
        struct edit_result *at = &x->results.at[x->results.n++];

        *at = (struct edit_result) {
                .path = path_join(dir, rel),
                .from = f->is_rename ? path_join(dir, f->old_path) : NULL,
                .n = n,
                .what = what,
        };
}

/* Makes the directories of a new file one by one, to know which to take back. */
static int make_parents(struct edit *x, const char *rel, struct error *err)
{
        for (const char *slash = strchr(rel, '/'); slash; slash = strchr(slash + 1, '/')) {
                _cleanup_free_ char *part = xstrndup(rel, (size_t) (slash - rel));
                const char *name;
                _cleanup_close_ int dir = beneath_parent(x->top, part, false, &name, err);

                if (dir < 0)
                        return -1;
                if (mkdirat(dir, name, 0777) < 0) {
                        if (errno != EEXIST)
                                return fs_error(err, errno, "create directory", part);
                        continue;
                }
                if (x->n_made == x->cap_made) {
                        x->cap_made = x->cap_made ? x->cap_made * 2 : 8;
                        x->made = xrealloc(x->made, x->cap_made * sizeof(x->made[0]));
                }
                x->made[x->n_made++] = TAKE_PTR(part);
        }
        return 0;
}

/* The new content under its hidden name. */
static int write_temp(struct edit *x, const struct step *s, const struct buf *text, unsigned mode,
                      struct error *err)
{
        const char *name;
        _cleanup_close_ int dir = step_dir(x, s, &name, err), fd = -1;

        if (dir < 0)
                return -1;
        /* A new file gets what the umask leaves of its mode, a changed one exactly its old one. */
        fd = openat(dir, s->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    s->was.st_ino ? 0600 : mode);
        if (fd < 0)
                return fs_error(err, errno, "create", s->rel);
        if (fd_write_all(fd, text->data, text->len, err) < 0)
                return error_wrap(err, "write '%s'", s->rel);
        if (!s->was.st_ino)
                return 0;
        (void) !fchown(fd, s->was.st_uid, s->was.st_gid); /* where we may */
        if (fchmod(fd, mode) < 0)
                return fs_error(err, errno, "set the mode of", s->rel);
        return 0;
}

static int open_source(const struct edit *x, const char *rel, int *ret, struct stat *ret_st,
                       struct error *err)
{
        const char *name;
        _cleanup_close_ int dir = beneath_parent(x->top, rel, false, &name, err), fd = -1;

        if (dir < 0)
                return -1;
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 && errno == ELOOP)
                return error_set(err, ERR_FORBIDDEN, 0, "'%s' is a symbolic link", rel);
        if (fd < 0)
                return fs_error(err, errno, "open", rel);
        if (fstat(fd, ret_st) < 0)
                return fs_error(err, errno, "look at", rel);
        if (!S_ISREG(ret_st->st_mode))
                return error_set(err, ERR_INVALID, 0, "path is not a file: %s", rel);
        *ret = TAKE_FD(fd);
        return 0;
}

static int read_source(const struct edit *x, const char *rel, struct buf *ret, struct stat *ret_st,
                       struct error *err)
{
        _cleanup_close_ int fd = -1;

        if (open_source(x, rel, &fd, ret_st, err) < 0)
                return -1;
        if (fd_read_all(fd, ret, err) < 0)
                return error_wrap(err, "read '%s'", rel);
        return 0;
}

static bool exists(const struct edit *x, const char *rel)
{
        const char *name;
        _cleanup_close_ int dir = beneath_parent(x->top, rel, false, &name, NULL);
        struct stat st;

        return dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Each file is computed from what is on the disk, so a second part for it would undo the first. */
static int claim(struct edit *x, const char *rel, struct error *err)
{
        if (map_set(&x->seen, rel, x))
                return error_set(err, ERR_INVALID, 0, "'%s' is in the diff more than once", rel);
        return 0;
}

/* A new name needs a place: directories that may be made, but neither links nor files. */
static int check_new(const struct edit *x, const char *rel, struct error *err)
{
        struct error why = { 0 };
        const char *name;
        _cleanup_close_ int dir = beneath_parent(x->top, rel, false, &name, &why);
        struct stat st;

        if (dir < 0 && why.kind != ERR_NOT_FOUND)
                return error_set(err, why.kind, 0, "%s", why.msg);
        if (dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return error_set(err, ERR_CONFLICT, 0, "'%s' exists already", rel);
        return 0;
}

static int plan_write(struct edit *x, const char *rel, enum step_kind kind, const struct stat *was,
                      unsigned mode, const struct buf *text, struct error *err)
{
        const struct step *s;

        if (kind == STEP_CREATE && check_new(x, rel, err) < 0)
                return -1;
        if (x->is_dry_run)
                return 0;
        if (kind == STEP_CREATE && make_parents(x, rel, err) < 0)
                return -1;
        s = step_add(x, kind, rel, was);
        return write_temp(x, s, text, mode, err);
}

/* Which file a part without git's words is about: either name may be that of a copy beside it. */
static const char *source_of(const struct edit *x, const struct diff_file *f)
{
        if (!f->old_path || f->is_rename || !f->new_path)
                return f->old_path;
        return exists(x, f->new_path) || !exists(x, f->old_path) ? f->new_path : f->old_path;
}

struct change {
        const struct diff_file *f;
        const char *source; /* NULL: a new file */
        struct stat was;
        struct buf text;
        unsigned n_hunks;
};

static int plan_new(struct edit *x, const char *dir, struct change *c, struct error *err)
{
        unsigned mode = c->f->mode & 0111 ? 0777 : 0666;

        if (claim(x, c->f->new_path, err) < 0 ||
            plan_write(x, c->f->new_path, STEP_CREATE, NULL, mode, &c->text, err) < 0)
                return -1;
        result_add(x, dir, c->f, c->f->new_path, "created", c->n_hunks);
        return 0;
}

static int plan_delete(struct edit *x, const char *dir, struct change *c, struct error *err)
{
        if (claim(x, c->source, err) < 0)
                return -1;
        if (c->text.len)
                return error_set(err, ERR_CONFLICT, 0,
                                 "'%s' has more content than the diff deletes", c->source);
        if (!x->is_dry_run)
                (void) step_add(x, STEP_DELETE, c->source, &c->was);
        result_add(x, dir, c->f, c->source, "deleted", c->n_hunks);
        return 0;
}

static int plan_change(struct edit *x, const char *dir, struct change *c, struct error *err)
{
        unsigned mode = c->f->mode ? c->f->mode : c->was.st_mode & 07777;
        struct stat was = c->was;

        if (claim(x, c->source, err) < 0)
                return -1;
        if (!c->f->is_rename) {
                if (plan_write(x, c->source, STEP_REPLACE, &was, mode, &c->text, err) < 0)
                        return -1;
                result_add(x, dir, c->f, c->source, "modified", c->n_hunks);
                return 0;
        }
        if (claim(x, c->f->new_path, err) < 0 ||
            plan_write(x, c->f->new_path, STEP_CREATE, &was, mode, &c->text, err) < 0)
                return -1;
        if (!x->is_dry_run)
                (void) step_add(x, STEP_DELETE, c->source, &c->was);
        result_add(x, dir, c->f, c->f->new_path, "renamed", c->n_hunks);
        return 0;
}

/* GNU diff has no word for a new file but an old side without lines. */
static bool is_from_nothing(const struct diff_file *f)
{
        static const char nothing[] = "@@ -0,0 ";

        return !f->is_rename && f->hunks.len > strlen(nothing) &&
               memcmp(f->hunks.at, nothing, strlen(nothing)) == 0;
}

static int plan_file(struct edit *x, const char *dir, const struct diff_file *f, struct error *err)
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = EDIT_FILE_MAX };
        struct change c = { .f = f, .source = source_of(x, f) };
        struct slice old = { 0 };
        int r = -1;

        if (c.source && f->new_path && is_from_nothing(f) && !exists(x, c.source))
                c.source = NULL;
        if (c.source && read_source(x, c.source, &text, &c.was, err) < 0)
                return err && err->kind == ERR_NOT_FOUND
                               ? error_set(err, ERR_CONFLICT, 0, "'%s' is not there", c.source)
                               : -1;
        old = (struct slice) { text.data, text.len };
        c.text.max_bytes = EDIT_FILE_MAX;
        if (diff_apply(f, old, &c.text, &c.n_hunks, err) < 0)
                (void) error_wrap(err, "patch '%s'", f->new_path ? f->new_path : f->old_path);
        else if (!c.source)
                r = plan_new(x, dir, &c, err);
        else if (!f->new_path)
                r = plan_delete(x, dir, &c, err);
        else
                r = plan_change(x, dir, &c, err);
        buf_done(&c.text);
        return r;
}

static int edit_run(struct edit *x, const char *dir, const struct diff *d, struct error *err)
{
        x->results.at = xcalloc(d->n_files, sizeof(x->results.at[0]));
        for (size_t i = 0; i < d->n_files; i++)
                if (plan_file(x, dir, &d->files[i], err) < 0)
                        return -1;
        for (; x->n_taken < x->n_steps; x->n_taken++)
                if (take_step(x, &x->steps[x->n_taken], err) < 0)
                        return -1;
        x->is_whole = true;
        return 0;
}

int fs_edit_diff(const struct fsroot *r, const char *dir, struct slice text, bool is_dry_run,
                 struct edit_results *ret, struct error *err)
{
        _cleanup_(diff_done) struct diff d = { 0 };
        _cleanup_(edit_done) struct edit x = { .top = -1, .is_dry_run = is_dry_run };

        if (diff_parse(text, &d, err) < 0)
                return -1;
        x.top = fsroot_openat(r, dir, O_RDONLY | O_DIRECTORY, 0, err);
        if (x.top < 0 || edit_run(&x, dir, &d, err) < 0)
                return -1;
        *ret = x.results;
        x.results = (struct edit_results) { 0 };
        return 0;
}
