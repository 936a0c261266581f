#include "fs/changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { LOOK_BACK_MAX = 256 }; /* changes between the two halves of a move */

struct change {
        struct list node;
        char *path, *from; /* from: FS_MOVED */
        enum fs_change what;
        bool is_dir;
        bool is_modified; /* FS_MOVED: and then changed */
        bool is_over;     /* FS_MOVED: in the place of something else */
        bool is_gone;     /* FS_MOVED: and then deleted; nothing more can be said of this path */
        /* It has left under this cookie. What was known before stands: FS_DELETED = nothing. */
        bool is_leaving;
        uint32_t cookie;
};

void changes_init(struct changes *c)
{
        *c = (struct changes) { 0 };
        list_init(&c->all);
}

static void drop(struct changes *c, struct change *e)
{
        (void) map_del(&c->by_path, e->path);
        list_remove(&e->node);
        c->n_leaving -= e->is_leaving;
        c->n--;
        free(e->path);
        free(e->from);
        free(e);
}

void changes_done(struct changes *c)
{
        while (!list_empty(&c->all))
                drop(c, LIST_ENTRY(c->all.next, struct change, node));
        map_done(&c->by_path);
}

static struct change *add(struct changes *c, enum fs_change what, const char *path, bool is_dir)
{
        struct change *e = NEW(struct change);

        *e = (struct change) { .path = xstrdup(path), .what = what, .is_dir = is_dir };
        list_push(&c->all, &e->node);
        (void) map_set(&c->by_path, e->path, e);
        c->n++;
        return e;
}

/* The change is about another path from now on, and the youngest. */
static void rename_to(struct changes *c, struct change *e, char *path)
{
        (void) map_del(&c->by_path, e->path);
        free(e->path);
        e->path = path;
        (void) map_set(&c->by_path, path, e);
        list_remove(&e->node);
        list_push(&c->all, &e->node);
}

/* Something moved here and is gone again: for everybody else it vanished from where it was, unless
 * that place was taken meanwhile. */
static void vanish_moved(struct changes *c, struct change *e)
{
        if (e->is_over || map_get(&c->by_path, e->from)) {
                e->is_gone = true;
                return;
        }
        rename_to(c, e, TAKE_PTR(e->from));
        e->what = FS_DELETED;
        e->is_modified = false;
}

static void vanish(struct changes *c, struct change *e)
{
        switch (e->what) {
        case FS_CREATED: drop(c, e); break;
        case FS_MOVED: vanish_moved(c, e); break;
        case FS_MODIFIED:
        case FS_DELETED: e->what = FS_DELETED; break;
        case FS_OVERFLOW:
        case FS_READY: break; /* never wait */
        }
}

/* It did not arrive anywhere. */
static void settle(struct changes *c, struct change *e)
{
        if (!e->is_leaving)
                return;
        e->is_leaving = false;
        c->n_leaving--;
        vanish(c, e);
}

bool changes_put(struct changes *c, enum fs_change what, const char *path, bool is_dir)
{
        struct change *e = map_get(&c->by_path, path);

        if (e && e->is_leaving) {
                settle(c, e);
                e = map_get(&c->by_path, path);
        }
        if (!e) {
                (void) add(c, what, path, is_dir);
                return true;
        }
        if (e->is_gone)
                return false;
        if (what == FS_DELETED) {
                vanish(c, e);
                return true;
        }
        if (e->what != FS_DELETED) { /* what is new or moved stays that */
                e->is_modified |= e->what == FS_MOVED;
                return true;
        }
        /* Another directory under an old name is not a changed one: those below it went, too. */
        if (is_dir || e->is_dir)
                return false;
        e->what = FS_MODIFIED;
        return true;
}

bool changes_leave(struct changes *c, const char *path, bool is_dir, uint32_t cookie)
{
        struct change *e = map_get(&c->by_path, path);

        if (e && e->is_leaving) {
                settle(c, e);
                e = map_get(&c->by_path, path);
        }
        if (e && e->is_gone)
                return false;
        if (!e)
                e = add(c, FS_DELETED, path, is_dir);
        e->is_leaving = true;
        e->cookie = cookie;
        c->n_leaving++;
        return true;
}

static struct change *find_leaving(struct changes *c, uint32_t cookie)
{
        struct list *n = c->all.prev;

        if (!c->n_leaving)
                return NULL;
        for (int i = 0; i < LOOK_BACK_MAX && n != &c->all; i++, n = n->prev) {
                struct change *e = LIST_ENTRY(n, struct change, node);

                if (e->is_leaving && e->cookie == cookie)
                        return e;
        }
        return NULL;
}

/* A move is told where it ends, as the youngest: nothing that waits may stand in its way. */
static bool can_arrive(const struct changes *c, const struct change *e, const struct change *target)
{
        if (e->is_over || (e->what == FS_MOVED && map_get(&c->by_path, e->from)))
                return false;
        return !target || target == e || (target->what != FS_MOVED && !target->is_leaving);
}

int changes_arrive(struct changes *c, const char *path, bool was_there, uint32_t cookie)
{
        struct change *e = find_leaving(c, cookie), *target = map_get(&c->by_path, path);

        if (!e)
                return 0;
        if (!can_arrive(c, e, target))
                return -1;
        e->is_leaving = false;
        c->n_leaving--;
        if (target == e)
                return 1;
        if (target) {
                was_there = target->what != FS_CREATED;
                drop(c, target);
        }
        if (e->what == FS_CREATED) {
                e->what = was_there ? FS_MODIFIED : FS_CREATED;
        } else if (e->what != FS_MOVED) {
                e->is_modified = e->what == FS_MODIFIED;
                e->what = FS_MOVED;
                e->from = xstrdup(e->path);
        } else if (strcmp(e->from, path) == 0) { /* there and back again */
                free(TAKE_PTR(e->from));
                e->what = FS_MODIFIED;
        }
        e->is_over = e->what == FS_MOVED && was_there;
        rename_to(c, e, xstrdup(path));
        return 1;
}

static int tell(const struct change *e,
                int (*on_event)(void *arg, const struct fs_event *e, struct error *err), void *arg,
                struct error *err)
{
        struct fs_event ev = { e->what, e->path, e->from, e->is_dir, 0 };

        if (on_event(arg, &ev, err) < 0)
                return -1;
        if (!e->is_gone && !e->is_modified)
                return 0;
        ev.change = e->is_gone ? FS_DELETED : FS_MODIFIED;
        ev.from = NULL;
        return on_event(arg, &ev, err);
}

int changes_tell(struct changes *c,
                 int (*on_event)(void *arg, const struct fs_event *e, struct error *err), void *arg,
                 struct error *err)
{
        int r = 0;

        list_for_each_safe (n, tmp, &c->all) {
                settle(c, LIST_ENTRY(n, struct change, node));
        }
        while (!list_empty(&c->all)) {
                struct change *e = LIST_ENTRY(c->all.next, struct change, node);

                if (r == 0)
                        r = tell(e, on_event, arg, err);
                drop(c, e);
        }
        return r;
}
