#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "proc/child.h"
#include "proc/impl.h"

enum { STRAYS_AGAIN_MS = 2, FREE_WAIT_MS = 2000 };

static struct list supervisors = { &supervisors, &supervisors };

/* ---- reaping ---- */

static struct child *find_child(pid_t pid)
{
        list_for_each (sn, &supervisors) {
                struct supervisor *s = LIST_ENTRY(sn, struct supervisor, node);

                list_for_each (cn, &s->children) {
                        struct child *c = LIST_ENTRY(cn, struct child, node);

                        if (c->pid == pid && !c->is_reaped)
                                return c;
                }
        }
        return NULL;
}

static bool is_child(pid_t pid)
{
        return find_child(pid) != NULL;
}

/* As a subreaper we inherit every orphan below us. Look at who is dead without taking the status,
 * and take it only through the door that belongs to it: our own children through their pidfd. */
static void reap(void)
{
        for (;;) {
                siginfo_t info = {};
                struct child *c;

                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
                        return;
                c = find_child(info.si_pid);
                if (!c) {
                        (void) waitpid(info.si_pid, NULL, WNOHANG);
                        continue;
                }
                child_reap(c);
                if (!c->is_reaped)
                        return;
        }
}

static void on_sigchld(void *arg, int signum)
{
        reap();
        list_for_each (sn, &supervisors) {
                struct supervisor *s = LIST_ENTRY(sn, struct supervisor, node);

                list_for_each (cn, &s->children)
                        child_wake(LIST_ENTRY(cn, struct child, node));
        }
}

/* The handler has no argument that could go stale, so it may outlive the supervisor. */
static int watch_sigchld(struct loop *l, struct error *err)
{
        list_for_each (n, &supervisors)
                if (LIST_ENTRY(n, struct supervisor, node)->loop == l)
                        return 0;
        return loop_on_signal(l, SIGCHLD, on_sigchld, NULL, err);
}

/* ---- shutdown ---- */

/* Whoever is still below us belongs to nobody any more: he left his cgroup, or his mark. True while
 * there is one, or might be. */
static bool kill_strays(void)
{
        struct tree t;
        bool has_any;

        reap();
        if (tree_is_empty()) /* also when no descriptor is left to look with */
                return false;
        tree_scan(&t, getpid());
        has_any = t.n || t.is_partial;
        for (size_t i = 0; i < t.n; i++)
                tree_signal(&t.procs[i], SIGKILL);
        tree_done(&t);
        return has_any;
}

/* The only supervisor of this process: then every descendant is its business. */
static bool is_alone(const struct supervisor *s)
{
        return s->node.next == s->node.prev;
}

static void check(struct task *t)
{
        struct supervisor *s = CONTAINER_OF(t, struct supervisor, check);
        void (*done)(void *) = s->done;

        list_for_each (n, &s->children) {
                const struct child *c = LIST_ENTRY(n, struct child, node);

                if (c->state != CHILD_EXITED || !c->scope.is_gone)
                        return;
        }
        if (is_alone(s) && kill_strays()) {
                timer_set(&s->again, STRAYS_AGAIN_MS);
                return;
        }
        s->done = NULL;
        if (done)
                done(s->done_arg);
}

static void on_again(struct timer *t)
{
        struct supervisor *s = CONTAINER_OF(t, struct supervisor, again);

        loop_defer(s->loop, &s->check);
}

void supervisor_shutdown(struct supervisor *s, uint32_t grace_ms, void (*done)(void *arg),
                         void *arg)
{
        s->is_shutting = true;
        s->done = done;
        s->done_arg = arg;
        list_for_each (n, &s->children)
                child_stop(LIST_ENTRY(n, struct child, node), grace_ms);
        loop_defer(s->loop, &s->check);
}

/* ---- life ---- */

struct supervisor *supervisor_new_with(struct loop *l, enum contain_mode mode, struct error *err)
{
        struct supervisor *s = NEW(struct supervisor);
        struct error why = { 0 }; /* a way that was tried and not taken is no failure */

        s->loop = l;
        list_init(&s->node);
        s->lease.fd = -1;
        list_init(&s->children);
        task_init(&s->check, check);
        timer_init(&s->again, l, on_again);
        if (contain_init(&s->contain, mode, is_child, &why) < 0) {
                free(s);
                if (err)
                        *err = why;
                return NULL;
        }
        if (watch_sigchld(l, err) < 0) {
                contain_done(&s->contain);
                free(s);
                return NULL;
        }
        (void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* cannot fail since Linux 3.4 */
        list_push(&supervisors, &s->node);
        return s;
}

struct supervisor *supervisor_new(struct loop *l, struct error *err)
{
        return supervisor_new_with(l, CONTAIN_BEST, err);
}

void supervisor_remember(struct supervisor *s, const char *dir)
{
        lease_sweep(dir);
        if (s->contain.mode == CONTAIN_SUBREAPER && s->lease.fd < 0)
                lease_take(&s->lease, dir);
}

static void nap(void)
{
        (void) nanosleep(&(struct timespec) { .tv_nsec = 1000 * 1000 }, NULL);
}

/* No loop any more: wait for the killed here. SIGKILL is quick; the time limit is for a process
 * that hangs in the kernel. */
static bool wait_gone(struct supervisor *s)
{
        bool is_gone = true;

        reap();
        list_for_each (n, &s->children) {
                struct child *c = LIST_ENTRY(n, struct child, node);

                child_reap(c);
                if (c->is_reaped && scope_settle(&c->scope))
                        continue;
                scope_kill(&c->scope);
                is_gone = false;
        }
        return is_gone;
}

struct supervisor *supervisor_free(struct supervisor *s)
{
        if (!s)
                return NULL;
        list_for_each (n, &s->children)
                child_kill_now(LIST_ENTRY(n, struct child, node));
        for (int ms = 0; ms < FREE_WAIT_MS && !wait_gone(s); ms++)
                nap();
        list_for_each_safe (n, tmp, &s->children)
                child_drop(LIST_ENTRY(n, struct child, node));
        if (is_alone(s)) {
                for (int ms = 0; ms < FREE_WAIT_MS && kill_strays(); ms++)
                        nap();
                (void) prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
        }
        list_remove(&s->node);
        timer_stop(&s->again);
        task_cancel(&s->check);
        lease_drop(&s->lease);
        contain_done(&s->contain);
        loop_free_later(s->loop, s);
        return NULL;
}

const char *supervisor_containment(const struct supervisor *s)
{
        return contain_name(&s->contain);
}

size_t supervisor_n_children(const struct supervisor *s)
{
        size_t n = 0;

        list_for_each (node, &s->children)
                n += LIST_ENTRY(node, struct child, node)->state != CHILD_EXITED;
        return n;
}

int supervisor_spawn(struct supervisor *s, const struct child_spec *spec, const struct child_cb *cb,
                     void *arg, struct child **ret, struct error *err)
{
        struct child *c;

        if (s->is_shutting)
                return error_set(err, ERR_BUSY, 0, "start a process: shutting down");
        c = child_new(s, spec, cb, arg, err);
        if (!c)
                return -1;
        list_push(&s->children, &c->node);
        *ret = c;
        return 0;
}
