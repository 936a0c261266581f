#include "proc/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/spawn.h"

/* "Sandbox agent" in the high bits, our key, the child's number: 2^60 µs and more of real-time CPU
 * is no limit, and no program asks for such a value. */
#define MARK_TAG      0x5aULL
#define MARK(key, id) (MARK_TAG << 54 | (uint64_t) (key) << 28 | (id))

enum { ID_MASK = (1 << 28) - 1, KEY_BITS = 26, TREE_FRESH_US = 1000, PROBE_ID = 0 };

/* Version 1: any hierarchy will do that needs no set-up. The freezer can also hold them still. */
static const char *const v1_homes[] = { "freezer", "pids", "name=systemd", "devices", "cpuacct" };

static const struct limit {
        const char *controller, *v2_file, *v1_file;
        const char *v2_also, *v1_also; /* against escape into swap; best effort */
} limits[LIMIT__MAX] = {
        [LIMIT_MEM] = { "memory", "memory.max", "memory.limit_in_bytes", "memory.swap.max",
                        "memory.memsw.limit_in_bytes" },
        [LIMIT_PIDS] = { "pids", "pids.max", "pids.max", NULL, NULL },
};

static unsigned last_id; /* unique in the process: marks are compared across supervisors */

/* ---- subreaper ---- */

static const struct tree *look(struct contain *c)
{
        int64_t now_us = clock_mono_us();

        if (c->tree_serial && now_us - c->tree_at_us < TREE_FRESH_US)
                return &c->tree;
        tree_done(&c->tree);
        tree_scan(&c->tree, getpid());
        c->tree_at_us = clock_mono_us();
        c->tree_serial++;
        return &c->tree;
}

static bool is_member(const struct scope *s, const struct tree *t, const struct tree_proc *p)
{
        uint64_t mark = tree_mark(p->pid);

        if (scope_key_of(mark) == s->in->key)
                return mark == MARK(s->in->key, s->id);
        return s->leader > 0 && (p->sid == s->leader || tree_is_under(t, p->pid, s->leader));
}

static size_t walk_members(struct scope *s, int sig)
{
        const struct tree *t = look(s->in);
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++) {
                if (!is_member(s, t, &t->procs[i]))
                        continue;
                n++;
                if (sig)
                        tree_signal(&t->procs[i], sig);
        }
        return n;
}

static int reaper_fill(struct scope *s, struct spawn_plan *p)
{
        p->mark = MARK(s->in->key, s->id);
        return 0;
}

static void reaper_signal(struct scope *s, int sig)
{
        (void) walk_members(s, sig);
}

static void reaper_each(struct scope *s, bool (*fn)(void *arg, pid_t pid), void *arg)
{
        const struct tree *t = look(s->in);

        for (size_t i = 0; i < t->n; i++)
                if (is_member(s, t, &t->procs[i]) && !fn(arg, t->procs[i].pid))
                        return;
}

static void reaper_kill(struct scope *s)
{
        (void) walk_members(s, SIGKILL);
}

/* The leader is reaped, so whoever is left of its tree descends from an orphan that is ours now. If
 * there may be one: /proc is not read at one moment, and who forks and ends during the walk can be
 * missed. So it takes two walks that see nobody. */
static bool reaper_settle(struct scope *s)
{
        if (tree_has_no_orphan(s->in->is_child))
                return true;
        if (walk_members(s, 0) > 0 || s->in->tree.is_partial) {
                s->empty_serial = 0;
                return false;
        }
        if (!s->empty_serial)
                s->empty_serial = s->in->tree_serial;
        return s->empty_serial != s->in->tree_serial;
}

/* ---- cgroups ---- */

static int group2_fill(struct scope *s, struct spawn_plan *p)
{
        p->into_cgroup_fd = cgroup_open(&s->in->home, s->id);
        return p->into_cgroup_fd < 0 ? -1 : 0;
}

static int add_join(struct cgroup *g, unsigned id, struct spawn_plan *p)
{
        int fd = cgroup_open_procs(g, id);

        if (fd < 0)
                return -1;
        p->join_fds[p->n_join++] = fd;
        return 0;
}

static int group1_fill(struct scope *s, struct spawn_plan *p)
{
        return add_join(&s->in->home, s->id, p);
}

static void group_signal(struct scope *s, int sig)
{
        cgroup_signal(&s->in->home, s->id, sig);
}

static void group_each(struct scope *s, bool (*fn)(void *arg, pid_t pid), void *arg)
{
        cgroup_each(&s->in->home, s->id, fn, arg);
}

static void group_kill(struct scope *s)
{
        cgroup_kill(&s->in->home, s->id);
}

static bool group_settle(struct scope *s)
{
        return cgroup_is_empty(&s->in->home, s->id) && cgroup_remove(&s->in->home, s->id) == 0;
}

static bool group2_settle(struct scope *s)
{
        struct cgroup *g = &s->in->home;

        return cgroup_is_empty(g, s->id) &&
               ((!s->is_spoilt && cgroup_spare(g, s->id)) || cgroup_remove(g, s->id) == 0);
}

static const struct contain_ops {
        const char *name;
        int (*fill)(struct scope *, struct spawn_plan *);
        void (*signal)(struct scope *, int sig);
        void (*each)(struct scope *, bool (*fn)(void *arg, pid_t pid), void *arg);
        void (*kill)(struct scope *);
        bool (*settle)(struct scope *);
} modes[] = {
        [CONTAIN_CGROUP2] = { "cgroup2", group2_fill, group_signal, group_each, group_kill,
                              group2_settle },
        [CONTAIN_CGROUP1] = { "cgroup1", group1_fill, group_signal, group_each, group_kill,
                              group_settle },
        [CONTAIN_SUBREAPER] = { "subreaper", reaper_fill, reaper_signal, reaper_each, reaper_kill,
                                reaper_settle },
};

/* ---- which way works here ---- */

/* Can a child be born there, and would it be killed there? Trying is the only honest question:
 * mounts, delegation, filters and missing calls all have a say. */
static int probe(struct contain *c, enum contain_mode mode, struct error *err)
{
        struct spawn_plan p = { .into_cgroup_fd = -1 };
        struct scope s = { .in = c, .id = PROBE_ID };
        int r;

        if (cgroup_make(&c->home, PROBE_ID, err) < 0)
                return -1;
        r = modes[mode].fill(&s, &p) < 0 || spawn_probe(&p) < 0 ? -1 : 0;
        if (r < 0)
                (void) error_set(err, ERR_UNSUPPORTED, errno, "start a process in a cgroup");
        else if (mode == CONTAIN_CGROUP2 && cgroup_can_kill(&c->home, PROBE_ID) < 0)
                r = error_set(err, ERR_UNSUPPORTED, errno, "no cgroup.kill");
        scope_leave_plan(&p);
        (void) cgroup_remove(&c->home, PROBE_ID);
        return r;
}

static int try_home(struct contain *c, enum contain_mode mode, const char *controller,
                    struct error *err)
{
        if (cgroup_init(&c->home, controller, err) < 0)
                return -1;
        if (probe(c, mode, err) < 0) {
                cgroup_done(&c->home);
                return -1;
        }
        c->mode = mode;
        return 0;
}

static int try_homes1(struct contain *c, struct error *err)
{
        for (size_t i = 0; i < ARRAY_LEN(v1_homes); i++)
                if (try_home(c, CONTAIN_CGROUP1, v1_homes[i], err) == 0)
                        return 0;
        return -1;
}

/* Servers that died may have used another way than we do now. */
static void sweep_everywhere(void)
{
        cgroup_sweep("");
        for (size_t i = 0; i < ARRAY_LEN(v1_homes); i++)
                cgroup_sweep(v1_homes[i]);
        for (size_t i = 0; i < ARRAY_LEN(limits); i++)
                cgroup_sweep(limits[i].controller);
}

int contain_init(struct contain *c, enum contain_mode want, bool (*is_child)(pid_t pid),
                 struct error *err)
{
        struct cgroup none = { .own_fd = -1, .base_fd = -1 };
        bool any = want == CONTAIN_BEST;

        *c = (struct contain) { .home = none, .limits = { none, none }, .is_child = is_child };
        c->key = scope_key(getpid(), tree_start(getpid()), tree_namespace());
        sweep_everywhere();
        if ((any || want == CONTAIN_CGROUP2) && try_home(c, CONTAIN_CGROUP2, "", err) == 0)
                return 0;
        if ((any || want == CONTAIN_CGROUP1) && try_homes1(c, err) == 0)
                return 0;
        if (!any && want != CONTAIN_SUBREAPER)
                return error_wrap(err, "contain children by %s", modes[want].name);
        c->mode = CONTAIN_SUBREAPER;
        return 0;
}

void contain_done(struct contain *c)
{
        for (size_t i = 0; i < LIMIT__MAX; i++)
                cgroup_done(&c->limits[i]);
        cgroup_done(&c->home);
        tree_done(&c->tree);
}

const char *contain_name(const struct contain *c)
{
        return modes[c->mode].name;
}

uint32_t scope_key(pid_t pid, uint64_t start, uint64_t pid_namespace)
{
        const uint64_t parts[] = { (uint64_t) pid, start, pid_namespace };
        uint64_t key = 0;

        /* Multiplying by a large odd number spreads each part over the high bits. */
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
                key = ((key ^ parts[i]) * 0x9e3779b97f4a7c15) ^ key >> 29;
        return (uint32_t) (key >> (64 - KEY_BITS)) ?: 1;
}

uint32_t scope_key_of(uint64_t mark)
{
        return mark >> 54 == MARK_TAG ? (uint32_t) (mark >> 28 & ((1u << KEY_BITS) - 1)) : 0;
}

/* ---- one child ---- */

static int limit_v2(struct scope *s, int which, uint64_t value, struct error *err)
{
        struct contain *c = s->in;

        if (!c->is_enabled[which]) {
                if (cgroup_enable(&c->home, limits[which].controller, err) < 0)
                        return -1;
                c->is_enabled[which] = true;
        }
        if (limits[which].v2_also)
                (void) cgroup_limit(&c->home, s->id, limits[which].v2_also, 0, NULL);
        return cgroup_limit(&c->home, s->id, limits[which].v2_file, value, err);
}

static int limit_v1(struct scope *s, int which, uint64_t value, struct error *err)
{
        const struct limit *l = &limits[which];
        struct cgroup *g = &s->in->limits[which];

        if (g->base_fd < 0 && cgroup_init(g, l->controller, err) < 0)
                return -1;
        if (cgroup_make(g, s->id, err) < 0)
                return -1;
        s->is_limited[which] = true;
        if (cgroup_limit(g, s->id, l->v1_file, value, err) < 0)
                return -1;
        if (l->v1_also)
                (void) cgroup_limit(g, s->id, l->v1_also, value, NULL);
        return 0;
}

static int set_limit(struct scope *s, int which, uint64_t value, struct error *err)
{
        enum contain_mode mode = s->in->mode;

        if (!value)
                return 0;
        if (mode == CONTAIN_SUBREAPER)
                return error_set(err, ERR_UNSUPPORTED, 0, "limit %s without a cgroup",
                                 limits[which].controller);
        if (mode == CONTAIN_CGROUP2 && limit_v2(s, which, value, err) == 0)
                return 0;
        if (limit_v1(s, which, value, err) == 0)
                return 0;
        if (err)
                err->kind = ERR_UNSUPPORTED;
        return error_wrap(err, "limit %s", limits[which].controller);
}

static void remove_limits(struct scope *s)
{
        for (size_t i = 0; i < LIMIT__MAX; i++)
                if (s->is_limited[i])
                        (void) cgroup_remove(&s->in->limits[i], s->id);
}

int scope_init(struct scope *s, struct contain *in, uint64_t mem_max, uint32_t pids_max,
               struct error *err)
{
        *s = (struct scope) { .in = in, .id = ++last_id & ID_MASK };
        s->is_spoilt = mem_max || pids_max;
        if (in->mode != CONTAIN_SUBREAPER && !cgroup_take_spare(&in->home, &s->id) &&
            cgroup_make(&in->home, s->id, err) < 0)
                return -1;
        if (set_limit(s, LIMIT_MEM, mem_max, err) < 0 ||
            set_limit(s, LIMIT_PIDS, pids_max, err) < 0) {
                scope_abandon(s);
                return -1;
        }
        return 0;
}

void scope_abandon(struct scope *s)
{
        if (s->in->mode != CONTAIN_SUBREAPER)
                (void) cgroup_remove(&s->in->home, s->id); /* if not now, then with its parent */
        remove_limits(s);
        s->is_gone = true;
}

int scope_fill_plan(struct scope *s, struct spawn_plan *p, struct error *err)
{
        if (modes[s->in->mode].fill(s, p) < 0)
                return error_set(err, ERR_SYSTEM, errno, "open the child's cgroup");
        for (size_t i = 0; i < LIMIT__MAX; i++)
                if (s->is_limited[i] && add_join(&s->in->limits[i], s->id, p) < 0)
                        return error_set(err, ERR_SYSTEM, errno, "open the child's %s cgroup",
                                         limits[i].controller);
        return 0;
}

void scope_leave_plan(struct spawn_plan *p)
{
        closep(&p->into_cgroup_fd);
        p->into_cgroup_fd = -1;
        while (p->n_join)
                (void) close(p->join_fds[--p->n_join]);
}

void scope_signal(struct scope *s, int sig)
{
        if (!s->is_gone)
                modes[s->in->mode].signal(s, sig);
}

void scope_kill(struct scope *s)
{
        if (s->is_gone)
                return;
        s->is_spoilt = true;
        modes[s->in->mode].kill(s);
}

struct usage_walk {
        struct tree_usage *sum;
        uint32_t left;
};

static bool add_usage(void *arg, pid_t pid)
{
        struct usage_walk *w = arg;

        tree_add_usage(pid, w->sum);
        return --w->left > 0;
}

void scope_usage(struct scope *s, uint32_t max, struct tree_usage *sum)
{
        struct usage_walk w = { sum, max };

        if (!s->is_gone)
                modes[s->in->mode].each(s, add_usage, &w);
}

bool scope_settle(struct scope *s)
{
        if (s->is_gone)
                return true;
        if (!modes[s->in->mode].settle(s))
                return false;
        remove_limits(s);
        s->is_gone = true;
        return true;
}
