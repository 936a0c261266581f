#include "fs/watch_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"
#include "fs/ignore.h"
#include "fs/root.h"
#include "fs/watch.h"
#include "io/job.h"

enum {
        /* Writes through a mapping show only when the file is closed, hence IN_CLOSE_WRITE. */
        DIR_EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB |
                     IN_CLOSE_WRITE | IN_ONLYDIR | IN_EXCL_UNLINK,
        TOP_EVENTS = IN_DELETE_SELF | IN_MOVE_SELF,
        WD_TEXT = 16,
        NAME_FREE = 0, /* no name has this hash */
};

/* ---- names ---- */

static uint32_t name_hash(const char *s)
{
        uint32_t h = 2166136261u;

        for (; *s; s++)
                h = (h ^ (unsigned char) *s) * 16777619u;
        return h == NAME_FREE ? 1 : h;
}

static uint32_t last_hash(const char *path)
{
        const char *slash = strrchr(path, '/');

        return name_hash(slash ? slash + 1 : path);
}

/* Where the name stands in the table, or the free place for it. */
static uint32_t *name_slot(const struct watch_dir *d, uint32_t hash)
{
        size_t i = hash & (d->cap_names - 1);

        while (d->names[i] != NAME_FREE && d->names[i] != hash)
                i = (i + 1) & (d->cap_names - 1);
        return &d->names[i];
}

static void names_grow(struct watch_dir *d)
{
        uint32_t *old = d->names;
        size_t n = d->cap_names;

        d->cap_names = n ? n * 2 : 8;
        d->names = xcalloc(d->cap_names, sizeof(*d->names));
        for (size_t i = 0; i < n; i++)
                if (old[i] != NAME_FREE)
                        *name_slot(d, old[i]) = old[i];
        free(old);
}

static void names_clear(struct watch_dir *d)
{
        free(d->names);
        d->names = NULL;
        d->n_names = d->cap_names = 0;
}

bool watch_dir_add_name(struct watch_dir *d, const char *name)
{
        uint32_t *slot;

        if (d->n_names * 2 >= d->cap_names)
                names_grow(d);
        slot = name_slot(d, name_hash(name));
        if (*slot != NAME_FREE)
                return true;
        *slot = name_hash(name);
        d->n_names++;
        return false;
}

bool watch_dir_has_name(const struct watch_dir *d, const char *name)
{
        return d->n_names && *name_slot(d, name_hash(name)) != NAME_FREE;
}

bool watch_dir_drop_name(struct watch_dir *d, const char *name)
{
        uint32_t *slot;
        size_t i;

        if (!watch_dir_has_name(d, name))
                return false;
        slot = name_slot(d, name_hash(name));
        *slot = NAME_FREE;
        d->n_names--;
        /* Those behind it may have stood there only because it was taken. */
        i = (size_t) (slot - d->names);
        for (i = (i + 1) & (d->cap_names - 1); d->names[i] != NAME_FREE;
             i = (i + 1) & (d->cap_names - 1)) {
                uint32_t hash = d->names[i];

                d->names[i] = NAME_FREE;
                *name_slot(d, hash) = hash;
        }
        return true;
}

/* ---- directories ---- */

static const char *wd_key(int wd, char ret[static WD_TEXT])
{
        (void) snprintf(ret, WD_TEXT, "%d", wd);
        return ret;
}

struct watch_dir *watch_tree_find(const struct watch_tree *t, int wd)
{
        char key[WD_TEXT];

        return map_get(&t->by_wd, wd_key(wd, key));
}

static void set_wd(struct watch_tree *t, struct watch_dir *d, int wd)
{
        char key[WD_TEXT];

        if (d->wd >= 0)
                (void) map_del(&t->by_wd, wd_key(d->wd, key));
        d->wd = wd;
        if (wd >= 0)
                (void) map_set(&t->by_wd, wd_key(wd, key), d);
}

/* A directory that is cut off stands on nothing. */
static struct ignore *rules_above(const struct watch_tree *t, const struct watch_dir *d)
{
        return d->parent ? d->parent->rules : d == t->top ? t->outer : NULL;
}

static struct watch_dir *dir_new(struct watch_tree *t, struct watch_dir *parent, const char *path)
{
        struct watch_dir *d = NEW(struct watch_dir);

        d->wd = -1;
        d->path = xstrdup(path);
        d->name_hash = last_hash(path);
        d->parent = parent;
        list_init(&d->children);
        list_init(&d->node);
        list_init(&d->todo);
        if (parent)
                list_push(&parent->children, &d->node);
        else
                t->top = d;
        d->rules = rules_above(t, d);
        t->n++;
        return d;
}

/* One without children. */
static void dir_free(struct watch_tree *t, struct watch_dir *d)
{
        int wd = d->wd;

        (void) ignore_leave(d->rules, rules_above(t, d));
        set_wd(t, d, -1);
        if (wd >= 0)
                (void) inotify_rm_watch(t->fd, wd); /* fails when the directory is gone: fine */
        if (t->moving == d)
                t->moving = NULL;
        if (t->top == d)
                t->top = NULL;
        list_remove(&d->node);
        list_remove(&d->todo);
        t->n--;
        names_clear(d);
        free(d->path);
        free(d);
}

/* From the leaves up, without recursion: trees are as deep as somebody likes. */
void watch_tree_drop(struct watch_tree *t, struct watch_dir *top)
{
        for (struct watch_dir *d = top, *next; d; d = next) {
                if (!list_empty(&d->children)) {
                        next = LIST_ENTRY(d->children.next, struct watch_dir, node);
                        continue;
                }
                next = d == top ? NULL : d->parent;
                dir_free(t, d);
        }
}

struct watch_dir *watch_tree_child(struct watch_dir *d, const char *path)
{
        uint32_t hash = last_hash(path);

        list_for_each (n, &d->children) {
                struct watch_dir *child = LIST_ENTRY(n, struct watch_dir, node);

                if (child->name_hash == hash && strcmp(child->path, path) == 0)
                        return child;
        }
        return NULL;
}

bool watch_tree_ignores(const struct watch_tree *t, const struct watch_dir *d, const char *name,
                        const char *path, bool is_dir)
{
        if (t->with_ignored)
                return false;
        return strcmp(name, ".git") == 0 || ignore_has(d->rules, path, is_dir);
}

/* ---- moving ---- */

void watch_tree_cut(struct watch_tree *t, struct watch_dir *d)
{
        if (t->moving)
                watch_tree_drop(t, t->moving);
        ignore_move(d->rules, rules_above(t, d), NULL, d->path);
        if (d->rules == rules_above(t, d))
                d->rules = NULL;
        list_remove(&d->node);
        d->parent = NULL;
        t->moving = d;
}

/* The next one of a tree, parents first. */
static struct watch_dir *next_in(struct watch_dir *d, const struct watch_dir *top)
{
        if (!list_empty(&d->children))
                return LIST_ENTRY(d->children.next, struct watch_dir, node);
        while (d != top && d->node.next == &d->parent->children)
                d = d->parent;
        return d == top ? NULL : LIST_ENTRY(d->node.next, struct watch_dir, node);
}

void watch_tree_paste(struct watch_tree *t, struct watch_dir *parent, const char *path)
{
        struct watch_dir *top = TAKE_PTR(t->moving);
        size_t was_len = strlen(top->path);

        ignore_move(top->rules, NULL, parent->rules, path);
        if (!top->rules)
                top->rules = parent->rules;
        top->parent = parent;
        top->name_hash = last_hash(path);
        list_push(&parent->children, &top->node);
        for (struct watch_dir *d = top; d; d = next_in(d, top)) {
                char *now = xasprintf("%s%s", path, d->path + was_len);

                free(d->path);
                d->path = now;
                ignore_move(d->rules, rules_above(t, d), rules_above(t, d), now);
        }
}

/* ---- reading ---- */

int watch_add_fd(int inotify_fd, int fd, uint32_t mask, const char *path, struct error *err)
{
        char link[32];
        int wd;

        /* By descriptor: what was checked is what is watched. */
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        wd = inotify_add_watch(inotify_fd, link, mask);
        if (wd >= 0)
                return wd;
        if (errno == ENOSPC)
                return error_set(err, ERR_BUSY, 0,
                                 "watch '%s': the system has no inotify watches left "
                                 "(fs.inotify.max_user_watches)",
                                 path);
        if (errno == ENOENT)
                return error_set(err, ERR_UNSUPPORTED, 0, "watch '%s': needs /proc", path);
        return fs_error(err, errno, "watch", path);
}

/* How a directory is read: when the watch begins; to tell what is in it; because rules or paths
 * have changed; because events were lost. Only then is what we read all we know: otherwise the
 * kernel still has to say what became of a directory that is not where it was. */
struct reading {
        struct watch_dir *dir;
        enum { READ_FIRST, READ_NEW, READ_AGAIN, READ_ALL } how;
        bool is_first; /* no child is known yet */
};

static bool is_above(const struct watch_dir *a, const struct watch_dir *d)
{
        while (d && d != a)
                d = d->parent;
        return d;
}

/* 1 = watched, 0 = leave it out. The same directory may be known under another name: then that name
 * is history, unless the way leads in a circle (a mount of a directory inside itself). */
static int dir_watch(struct watch_tree *t, const struct reading *g, int fd, struct error *err)
{
        struct watch_dir *d = g->dir;
        int wd = watch_add_fd(t->fd, fd, DIR_EVENTS | (d == t->top ? TOP_EVENTS : 0), d->path, err);
        struct watch_dir *other = wd < 0 ? NULL : watch_tree_find(t, wd);

        if (wd < 0)
                return -1;
        if (other == d)
                return 1;
        if (other && is_above(other, d))
                return 0;
        /* What was told of this path may have been about another directory. */
        t->is_unsure |= g->how != READ_ALL && (other || d->wd >= 0);
        if (other) {
                set_wd(t, other, -1);
                watch_tree_drop(t, other);
        }
        set_wd(t, d, wd);
        return 1;
}

static int read_subdir(struct watch_tree *t, const struct reading *g, const char *path,
                       struct error *err)
{
        struct watch_dir *child = g->is_first ? NULL : watch_tree_child(g->dir, path);

        if (t->n >= WATCH_DIRS_MAX && !child)
                return error_set(err, ERR_TOO_BIG, 0, "more than %d directories to watch",
                                 WATCH_DIRS_MAX);
        if (!child) {
                child = dir_new(t, g->dir, path);
                child->is_new = g->how == READ_AGAIN || g->how == READ_NEW;
        }
        child->is_seen = true;
        if (list_empty(&child->todo))
                list_push(&t->todo, &child->todo);
        return 0;
}

static void drop_ignored(struct watch_tree *t, const struct reading *g, const char *path)
{
        struct watch_dir *child = g->is_first ? NULL : watch_tree_child(g->dir, path);

        if (child)
                watch_tree_drop(t, child);
}

static int read_entry(struct watch_tree *t, const struct reading *g, int fd, const struct dirent *e,
                      struct error *err)
{
        _cleanup_free_ char *path = path_join(g->dir->path, e->d_name);
        bool is_dir = e->d_type == DT_DIR;
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            strlen(path) >= PATH_BYTES_MAX)
                return 0;
        if (e->d_type == DT_UNKNOWN && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                is_dir = S_ISDIR(st.st_mode);
        if (g->how != READ_AGAIN)
                (void) watch_dir_add_name(g->dir, e->d_name);
        if (watch_tree_ignores(t, g->dir, e->d_name, path, is_dir)) {
                drop_ignored(t, g, path);
                return 0;
        }
        if (g->how == READ_NEW && t->on_new(t->arg, path, is_dir, err) < 0)
                return -1;
        return is_dir && t->is_recursive ? read_subdir(t, g, path, err) : 0;
}

static void drop_unseen(struct watch_tree *t, struct watch_dir *d)
{
        list_for_each_safe (n, tmp, &d->children) {
                struct watch_dir *child = LIST_ENTRY(n, struct watch_dir, node);

                if (!child->is_seen)
                        watch_tree_drop(t, child);
        }
}

static int read_entries(struct watch_tree *t, struct reading *g, int fd, struct error *err)
{
        DIR *dir = fdopendir(fd);
        const struct dirent *e;
        int r = 0;

        if (!dir) {
                (void) close(fd);
                return error_set(err, ERR_SYSTEM, errno, "read directory '%s'", g->dir->path);
        }
        list_for_each (n, &g->dir->children) {
                LIST_ENTRY(n, struct watch_dir, node)->is_seen = false;
        }
        g->is_first = list_empty(&g->dir->children);
        if (g->how != READ_AGAIN)
                names_clear(g->dir);
        while (r == 0 && (e = readdir(dir)))
                r = read_entry(t, g, fd, e, err);
        (void) closedir(dir);
        if (r == 0 && g->how == READ_ALL)
                drop_unseen(t, g->dir);
        return r;
}

static void dir_rules(struct watch_tree *t, struct watch_dir *d, int fd)
{
        if (t->with_ignored)
                return;
        if (d->rules == rules_above(t, d))
                d->rules = ignore_enter(d->rules, fd, d->path);
        else
                ignore_reload(d->rules, fd);
}

/* Watches first, then looks: what comes in between is told twice rather than never. A directory
 * other than the top that is gone or closed to us is left out. */
static int dir_read(struct watch_tree *t, struct reading *g, struct error *err)
{
        struct watch_dir *d = g->dir;
        struct error why;
        int fd = fsroot_openat(t->files, d->path,
                               O_RDONLY | O_DIRECTORY | (d == t->top ? 0 : O_NOFOLLOW), 0, &why);
        int r;

        if (fd < 0) {
                if (d == t->top) {
                        *err = why;
                        return -1;
                }
                if (d->wd < 0 || g->how == READ_ALL)
                        watch_tree_drop(t, d);
                return 0;
        }
        r = dir_watch(t, g, fd, err);
        if (r <= 0) {
                (void) close(fd);
                if (r == 0)
                        watch_tree_drop(t, d);
                return r;
        }
        dir_rules(t, d, fd);
        return read_entries(t, g, fd, err);
}

static int read_tree(struct watch_tree *t, struct watch_dir *from, int how, struct error *err)
{
        int r = 0;

        list_push(&t->todo, &from->todo);
        while (r == 0 && !list_empty(&t->todo)) {
                struct reading g = { LIST_ENTRY(t->todo.next, struct watch_dir, todo), how };

                list_remove(&g.dir->todo);
                if (g.dir->is_new) /* nobody has told of what is in it */
                        g.how = READ_NEW;
                g.dir->is_new = false;
                if (job_is_cancelled(t->job))
                        r = error_set(err, ERR_UPSTREAM, 0, "the watch was cancelled");
                else
                        r = dir_read(t, &g, err);
        }
        while (!list_empty(&t->todo))
                list_remove(t->todo.next);
        return r;
}

int watch_tree_open(struct watch_tree *t, const char *path, struct error *err)
{
        list_init(&t->todo);
        if (!t->with_ignored)
                t->outer = ignore_parents(t->files, path);
        return read_tree(t, dir_new(t, NULL, path), READ_FIRST, err);
}

void watch_tree_done(struct watch_tree *t)
{
        if (t->moving)
                watch_tree_drop(t, t->moving);
        if (t->top)
                watch_tree_drop(t, t->top);
        (void) ignore_leave(t->outer, NULL);
        map_done(&t->by_wd);
}

int watch_tree_grow(struct watch_tree *t, struct watch_dir *parent, const char *path,
                    struct error *err)
{
        struct watch_dir *d = watch_tree_child(parent, path);

        if (!t->is_recursive)
                return 0;
        if (!d && t->n >= WATCH_DIRS_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "more than %d directories to watch",
                                 WATCH_DIRS_MAX);
        return read_tree(t, d ? d : dir_new(t, parent, path), READ_NEW, err);
}

int watch_tree_sync(struct watch_tree *t, struct watch_dir *d, struct error *err)
{
        return read_tree(t, d, READ_AGAIN, err);
}

int watch_tree_recover(struct watch_tree *t, struct error *err)
{
        t->is_unsure = false;
        return t->top ? read_tree(t, t->top, READ_ALL, err) : 0;
}
