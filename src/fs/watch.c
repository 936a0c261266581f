#include "fs/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/path.h"
#include "fs/changes.h"
#include "fs/root.h"
#include "fs/watch_tree.h"
#include "io/job.h"

enum {
        EVENTS_BYTES = 64 * 1024,
        READS_MAX = 64,   /* in a row, before what waits is told */
        HALF_MOVE_MS = 5, /* the second half of a move comes right behind the first */
        GONE_EVENTS = IN_DELETE | IN_MOVED_FROM,
        CHANGE_EVENTS = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE,
        RULE_EVENTS = IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO,
};

/* One watch: the kernel's events become changes, which wait for WATCH_COALESCE_MS and are told
 * together. The directory that holds the path is watched, too, for the path's own name: a directory
 * that somebody still works in does not report its end itself, and a file is replaced rather than
 * written by many programs. */
struct watching {
        const struct fs_watch_spec *spec;
        struct watch_tree tree;
        struct changes changes;
        int64_t due_us; /* when they are told; 0 = nothing waits */
        int holder_wd;  /* or -1 */
        char *name;     /* in the holder */
        bool is_file, is_gone;
        bool is_half; /* the last event was the first half of a move */
        int (*on_event)(void *arg, const struct fs_event *e, struct error *err);
        void *arg;
        char *events; /* EVENTS_BYTES */
};

/* ---- telling ---- */

static bool is_file_there(const struct watching *w, const char *path)
{
        _cleanup_close_ int fd = fsroot_openat(w->tree.files, path, O_PATH | O_NOFOLLOW, 0, NULL);
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* A file that changes places with one out of our sight looks like one that came and went. */
static int tell_one(void *arg, const struct fs_event *e, struct error *err)
{
        struct watching *w = arg;
        struct fs_event told = *e;

        if (e->change == FS_DELETED && !e->is_dir && is_file_there(w, e->path))
                told.change = FS_MODIFIED;
        w->is_gone |= w->is_file && told.change == FS_DELETED;
        return w->on_event(w->arg, &told, err);
}

static int tell_all(struct watching *w, struct error *err)
{
        w->due_us = 0;
        w->is_half = false;
        if (w->tree.moving)
                watch_tree_drop(&w->tree, w->tree.moving);
        return changes_tell(&w->changes, tell_one, w, err);
}

static int put(struct watching *w, enum fs_change what, const char *path, bool is_dir,
               struct error *err)
{
        if (!changes_put(&w->changes, what, path, is_dir)) {
                if (tell_all(w, err) < 0)
                        return -1;
                (void) changes_put(&w->changes, what, path, is_dir);
        }
        return w->changes.n >= WATCH_PENDING_MAX ? tell_all(w, err) : 0;
}

static int on_new(void *arg, const char *path, bool is_dir, struct error *err)
{
        return put(arg, FS_CREATED, path, is_dir, err);
}

/* Events were lost, or directories moved faster than we could look. What is known is told, the
 * watches are made whole, and only then does the client hear that it has to look for itself: from
 * there on it misses nothing. */
static int overflow(struct watching *w, struct error *err)
{
        const struct fs_event e = { .change = FS_OVERFLOW, .path = w->spec->path };

        if (tell_all(w, err) < 0)
                return -1;
        if (watch_tree_recover(&w->tree, err) < 0)
                return -1;
        return w->on_event(w->arg, &e, err);
}

/* ---- the kernel's events ---- */

static int appeared(struct watching *w, struct watch_dir *d, const char *path, bool is_dir,
                    enum fs_change what, struct error *err)
{
        if (put(w, what, path, is_dir, err) < 0)
                return -1;
        return is_dir ? watch_tree_grow(&w->tree, d, path, err) : 0;
}

static int left(struct watching *w, struct watch_dir *d, const struct inotify_event *e,
                const char *path, struct error *err)
{
        bool is_dir = e->mask & IN_ISDIR;
        struct watch_dir *child = is_dir ? watch_tree_child(d, path) : NULL;

        /* What waits for paths below must be told under their old names. */
        if (is_dir && tell_all(w, err) < 0)
                return -1;
        if (!changes_leave(&w->changes, path, is_dir, e->cookie)) {
                if (tell_all(w, err) < 0)
                        return -1;
                (void) changes_leave(&w->changes, path, is_dir, e->cookie);
        }
        if (child)
                watch_tree_cut(&w->tree, child);
        w->is_half = true;
        return 0;
}

static int arrived(struct watching *w, struct watch_dir *d, const struct inotify_event *e,
                   const char *path, bool was_there, struct error *err)
{
        bool is_dir = e->mask & IN_ISDIR;
        int r = changes_arrive(&w->changes, path, was_there, e->cookie);
        struct watch_dir *old = is_dir ? watch_tree_child(d, path) : NULL;

        if (r < 0 && tell_all(w, err) < 0)
                return -1;
        if (r <= 0)
                return appeared(w, d, path, is_dir, was_there && !is_dir ? FS_MODIFIED : FS_CREATED,
                                err);
        if (!is_dir)
                return 0;
        w->tree.is_unsure |= old && !w->tree.moving;
        if (old) /* an empty directory that was replaced */
                watch_tree_drop(&w->tree, old);
        if (!w->tree.moving) /* it left before we had seen what is in it */
                return watch_tree_grow(&w->tree, d, path, err);
        watch_tree_paste(&w->tree, d, path);
        return watch_tree_sync(&w->tree, watch_tree_child(d, path), err);
}

/* A file that was opened without a name (O_TMPFILE) goes by "#" and its number. */
static bool is_nameless(const struct watch_dir *d, const char *name)
{
        return name[0] == '#' && !name[1 + strspn(name + 1, "0123456789")] &&
               !watch_dir_has_name(d, name);
}

static int entry_event(struct watching *w, struct watch_dir *d, const struct inotify_event *e,
                       const char *path, struct error *err)
{
        bool is_dir = e->mask & IN_ISDIR, was_there = false;

        if (e->mask & GONE_EVENTS)
                was_there = watch_dir_drop_name(d, e->name);
        if (e->mask & (IN_CREATE | IN_MOVED_TO))
                was_there = watch_dir_add_name(d, e->name);
        if (watch_tree_ignores(&w->tree, d, e->name, path, is_dir))
                return 0;
        if (e->mask & IN_MOVED_FROM)
                return left(w, d, e, path, err);
        if (e->mask & IN_MOVED_TO)
                return arrived(w, d, e, path, was_there, err);
        if (e->mask & IN_CREATE) /* what was found by reading may have been told already */
                return appeared(w, d, path, is_dir, was_there ? FS_MODIFIED : FS_CREATED, err);
        if (e->mask & IN_DELETE) {
                struct watch_dir *child = is_dir ? watch_tree_child(d, path) : NULL;

                if (child)
                        watch_tree_drop(&w->tree, child);
                return put(w, FS_DELETED, path, is_dir, err);
        }
        if (!(e->mask & CHANGE_EVENTS) || is_nameless(d, e->name))
                return 0;
        return put(w, FS_MODIFIED, path, is_dir, err);
}

static int tree_event(struct watching *w, const struct inotify_event *e, struct error *err)
{
        struct watch_dir *d = watch_tree_find(&w->tree, e->wd);
        _cleanup_free_ char *path = NULL;

        if (!d)
                return 0; /* it was dropped while this was on its way */
        if (e->mask & IN_IGNORED ||
            (d == w->tree.top && e->mask & (IN_DELETE_SELF | IN_MOVE_SELF))) {
                w->is_gone |= d == w->tree.top;
                watch_tree_drop(&w->tree, d);
                return 0;
        }
        if (!e->len)
                return 0;
        path = path_join(d->path, e->name);
        if (entry_event(w, d, e, path, err) < 0)
                return -1;
        /* Other rules, other directories. */
        if (!w->spec->with_ignored && e->mask & RULE_EVENTS && strcmp(e->name, ".gitignore") == 0)
                return watch_tree_sync(&w->tree, d, err);
        return 0;
}

static int holder_event(struct watching *w, const struct inotify_event *e, struct error *err)
{
        if (!e->len || strcmp(e->name, w->name) != 0)
                return 0;
        if (!w->is_file) {
                w->is_gone |= (e->mask & GONE_EVENTS) != 0;
                return 0;
        }
        /* It was there when the watch began: coming again is a change. */
        return put(w, e->mask & GONE_EVENTS ? FS_DELETED : FS_MODIFIED, w->spec->path, false, err);
}

static int handle(struct watching *w, const struct inotify_event *e, struct error *err)
{
        w->is_half = false;
        if (e->mask & IN_Q_OVERFLOW)
                return overflow(w, err);
        if (e->wd == w->holder_wd && holder_event(w, e, err) < 0)
                return -1;
        return w->is_gone || w->is_file ? 0 : tree_event(w, e, err);
}

/* ---- two that change places ---- */

/* The kernel tells it as x to y, then y to x, four events in a row. Merged one by one they would
 * look like a detour of one file. */
struct swap {
        const struct inotify_event *from, *to; /* x leaves, x arrives at y */
        bool is_back_dir;                      /* what came from y */
};

static const struct inotify_event *event_at(const struct watching *w, size_t at, size_t len)
{
        return at + sizeof(struct inotify_event) <= len ? (const void *) (w->events + at) : NULL;
}

static size_t event_size(const struct inotify_event *e)
{
        return sizeof(*e) + e->len;
}

static bool is_same_place(const struct inotify_event *a, const struct inotify_event *b)
{
        return a->wd == b->wd && a->len && b->len && strcmp(a->name, b->name) == 0;
}

/* Returns the bytes of the four events that begin at `at`, 0 = something else. */
static size_t swap_at(const struct watching *w, size_t at, size_t len, struct swap *ret)
{
        const struct inotify_event *e[4];
        size_t size = 0;

        for (int i = 0; i < 4; i++) {
                e[i] = event_at(w, at + size, len);
                if (!e[i] || !(e[i]->mask & (i % 2 ? IN_MOVED_TO : IN_MOVED_FROM)))
                        return 0;
                size += event_size(e[i]);
        }
        if (e[0]->cookie != e[1]->cookie || e[2]->cookie != e[3]->cookie ||
            !is_same_place(e[0], e[3]) || !is_same_place(e[1], e[2]))
                return 0;
        *ret = (struct swap) { e[0], e[1], e[2]->mask & IN_ISDIR };
        return size;
}

static void drop_at(struct watching *w, const struct inotify_event *e)
{
        struct watch_dir *d = watch_tree_find(&w->tree, e->wd), *child;
        _cleanup_free_ char *path = d ? path_join(d->path, e->name) : NULL;

        child = d ? watch_tree_child(d, path) : NULL;
        if (child)
                watch_tree_drop(&w->tree, child);
}

/* One of the two places: what it was goes and what it is comes, or a file has other content. */
static int swap_place(struct watching *w, const struct inotify_event *e, bool was_dir, bool is_dir,
                      struct error *err)
{
        struct watch_dir *d = watch_tree_find(&w->tree, e->wd);
        _cleanup_free_ char *path = d ? path_join(d->path, e->name) : NULL;

        if (!d || watch_tree_ignores(&w->tree, d, e->name, path, is_dir))
                return 0;
        if (!was_dir && !is_dir)
                return put(w, FS_MODIFIED, path, false, err);
        if (put(w, FS_DELETED, path, was_dir, err) < 0 || tell_all(w, err) < 0)
                return -1;
        return appeared(w, d, path, is_dir, FS_CREATED, err);
}

static int swapped(struct watching *w, const struct swap *s, struct error *err)
{
        bool is_dir = s->from->mask & IN_ISDIR;

        w->is_half = false;
        /* Both first: a directory must not be met again while its old place is still known. */
        drop_at(w, s->from);
        drop_at(w, s->to);
        if (swap_place(w, s->from, is_dir, s->is_back_dir, err) < 0)
                return -1;
        return swap_place(w, s->to, s->is_back_dir, is_dir, err);
}

/* ---- reading ---- */

/* False when the job is cancelled. */
static bool wait_events(struct watching *w, int timeout_ms)
{
        struct pollfd fds[] = {
                { .fd = w->tree.fd, .events = POLLIN },
                { .fd = job_cancel_fd(w->tree.job), .events = POLLIN },
        };

        (void) poll(fds, ARRAY_LEN(fds), timeout_ms);
        return !fds[1].revents;
}

static int read_behind(struct watching *w, size_t *len, struct error *err)
{
        ssize_t n = read(w->tree.fd, w->events + *len, EVENTS_BYTES - *len);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
                return error_set(err, ERR_SYSTEM, errno, "read file changes");
        *len += n > 0 ? (size_t) n : 0;
        return 0;
}

/* Does it end with a move? That may be the first part of two that change places. */
static bool ends_half_way(const struct watching *w, size_t len)
{
        const struct inotify_event *last = NULL, *e;

        for (size_t at = 0; (e = event_at(w, at, len)); at += event_size(e))
                last = e;
        return last && last->mask & IN_MOVE && len < EVENTS_BYTES / 2;
}

/* Reads what is there. 1 = there may be more. */
static int take_events(struct watching *w, struct error *err)
{
        size_t len = 0;

        if (read_behind(w, &len, err) < 0)
                return -1;
        if (!w->is_file && ends_half_way(w, len)) {
                (void) wait_events(w, HALF_MOVE_MS);
                if (read_behind(w, &len, err) < 0)
                        return -1;
        }
        for (size_t at = 0; at < len && !w->is_gone;) {
                const struct inotify_event *e = event_at(w, at, len);
                struct swap s;
                size_t size = w->is_file ? 0 : swap_at(w, at, len, &s);

                if ((size ? swapped(w, &s, err) : handle(w, e, err)) < 0)
                        return -1;
                at += size ? size : event_size(e);
        }
        return len && !w->is_gone;
}

/* All of it, so that a file which was seen by reading a new directory and announced by the kernel
 * is one change; up to a limit, so that a busy tree is told of at all. */
static int drain(struct watching *w, struct error *err)
{
        int r = 1;

        for (int i = 0; i < READS_MAX && r > 0; i++)
                r = take_events(w, err);
        if (r < 0)
                return -1;
        return w->tree.is_unsure && !w->is_gone ? overflow(w, err) : 0;
}

/* ---- life ---- */

static int timeout_ms(const struct watching *w)
{
        int64_t left_us;

        if (!w->due_us)
                return -1;
        left_us = w->due_us - clock_mono_us();
        return left_us > 0 ? (int) ((left_us + 999) / 1000) : 0;
}

static int turn(struct watching *w, struct error *err)
{
        if (drain(w, err) < 0)
                return -1;
        if (!w->changes.n)
                w->due_us = 0;
        else if (!w->due_us)
                w->due_us = clock_mono_us() + WATCH_COALESCE_MS * 1000;
        if (!w->is_gone && (!w->due_us || timeout_ms(w) > 0))
                return 0;
        if (w->is_half && !w->is_gone) {
                (void) wait_events(w, HALF_MOVE_MS);
                if (drain(w, err) < 0)
                        return -1;
        }
        return tell_all(w, err);
}

static int run(struct watching *w, struct error *err)
{
        const struct fs_event ready = { .change = FS_READY, .path = w->spec->path };
        const struct fs_event gone = { .change = FS_DELETED,
                                       .path = w->spec->path,
                                       .is_dir = true };

        if (w->on_event(w->arg, &ready, err) < 0)
                return -1;
        while (!w->is_gone) {
                if (!wait_events(w, timeout_ms(w)))
                        return 0;
                if (turn(w, err) < 0)
                        return -1;
        }
        return w->is_file ? 0 : w->on_event(w->arg, &gone, err);
}

static int watch_holder(struct watching *w, struct error *err)
{
        static const uint32_t file_events = IN_CREATE | IN_MOVED_TO | GONE_EVENTS | CHANGE_EVENTS;
        _cleanup_close_ int fd = -1;
        uint32_t mask = IN_ONLYDIR | IN_MASK_ADD | (w->is_file ? file_events : GONE_EVENTS);

        if (fsroot_parent(w->tree.files, w->spec->path, false, &fd, &w->name, err) < 0)
                return -1;
        w->holder_wd = watch_add_fd(w->tree.fd, fd, mask, w->spec->path, err);
        return w->holder_wd < 0 ? -1 : 0;
}

static int begin(struct watching *w, struct error *err)
{
        struct stat st;

        if (fsroot_stat(w->tree.files, w->spec->path, &st, err) < 0)
                return -1;
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return error_set(err, ERR_INVALID, 0, "path is neither a file nor a directory: %s",
                                 w->spec->path);
        w->is_file = !S_ISDIR(st.st_mode);
        w->tree.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (w->tree.fd < 0 && errno == EMFILE)
                return error_set(err, ERR_BUSY, 0,
                                 "watch '%s': the system has no inotify instances left "
                                 "(fs.inotify.max_user_instances)",
                                 w->spec->path);
        if (w->tree.fd < 0)
                return error_set(err, ERR_SYSTEM, errno, "watch '%s'", w->spec->path);
        if (w->is_file)
                return watch_holder(w, err);
        /* The root has no directory above it, and not every other one may be read: do without. */
        (void) watch_holder(w, NULL);
        return watch_tree_open(&w->tree, w->spec->path, err);
}

int fs_watch(const struct fsroot *r, const struct fs_watch_spec *spec, struct job *j,
             int (*on_event)(void *arg, const struct fs_event *e, struct error *err), void *arg,
             struct error *err)
{
        struct watching w = { .spec = spec, .holder_wd = -1, .on_event = on_event, .arg = arg };
        int n;

        w.tree = (struct watch_tree) { .files = r,
                                       .job = j,
                                       .fd = -1,
                                       .is_recursive = spec->is_recursive,
                                       .with_ignored = spec->with_ignored,
                                       .on_new = on_new,
                                       .arg = &w };
        w.events = xmalloc(EVENTS_BYTES);
        changes_init(&w.changes);
        n = begin(&w, err);
        if (n == 0)
                n = run(&w, err);
        if (n < 0 && job_is_cancelled(j))
                n = 0;
        changes_done(&w.changes);
        watch_tree_done(&w.tree);
        closep(&w.tree.fd);
        free(w.name);
        free(w.events);
        return n;
}
