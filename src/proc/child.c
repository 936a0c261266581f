#include "proc/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "proc/impl.h"
#include "proc/pty.h"
#include "proc/spawn.h"
#include "proc/stdio.h"

enum { DRAIN_MS = 250, POLL_FIRST_US = 1000, POLL_MAX_US = 50 * 1000, USAGE_REST = 10 };

enum child_event { EV_START, EV_STOP, EV_KILL, EV_DONE, EV__MAX };

static const enum child_state next_state[][EV__MAX] = {
        /*                  START          STOP            KILL           DONE */
        [CHILD_NEW] = { CHILD_RUNNING, CHILD_NEW, CHILD_NEW, CHILD_EXITED },
        [CHILD_RUNNING] = { CHILD_RUNNING, CHILD_STOPPING, CHILD_KILLING, CHILD_EXITED },
        [CHILD_STOPPING] = { CHILD_STOPPING, CHILD_STOPPING, CHILD_KILLING, CHILD_EXITED },
        [CHILD_KILLING] = { CHILD_KILLING, CHILD_KILLING, CHILD_KILLING, CHILD_EXITED },
        [CHILD_EXITED] = { CHILD_EXITED, CHILD_EXITED, CHILD_EXITED, CHILD_EXITED },
};

/* ---- facts become states ---- */

static void set_state(struct child *c, enum child_event ev)
{
        c->state = next_state[c->state][ev];
        loop_defer(c->sup->loop, &c->settle);
}

static void tell_state(struct child *c)
{
        enum child_state was = c->told;

        c->told = c->state;
        if (was != c->state && c->cb.on_state)
                c->cb.on_state(c->arg, c, was);
}

static bool is_dry(const struct child *c)
{
        for (size_t i = 0; i < ARRAY_LEN(c->taps); i++)
                if (c->taps[i] && !tap_is_dry(c->taps[i]))
                        return false;
        return true;
}

/* Is the tree gone? If not, look again soon, and strike again if it is time for that: a process may
 * have been born between listing and killing. */
static bool settle_tree(struct child *c)
{
        if (scope_settle(&c->scope))
                return true;
        if (c->ending == END_KILL)
                scope_kill(&c->scope);
        c->poll_us = MIN(MAX(c->poll_us * 2, POLL_FIRST_US), POLL_MAX_US);
        timer_set_us(&c->poll, c->poll_us);
        return false;
}

/* The last callbacks. Each of them may free the child: then its callbacks and taps are gone. */
static void finish(struct child *c)
{
        timer_stop(&c->drain);
        for (size_t i = 0; i < ARRAY_LEN(c->taps); i++)
                if (c->taps[i])
                        tap_cut(c->taps[i]);
        set_state(c, EV_DONE);
        tell_state(c);
        if (c->cb.on_exit)
                c->cb.on_exit(c->arg, c, c->code, c->sig);
}

static void release(struct child *c)
{
        timer_stop(&c->grace);
        timer_stop(&c->drain);
        timer_stop(&c->poll);
        task_cancel(&c->settle);
        c->watch = watch_free(c->watch);
        closep(&c->pidfd);
        c->pidfd = -1;
        for (size_t i = 0; i < ARRAY_LEN(c->taps); i++)
                c->taps[i] = tap_free(c->taps[i]);
        list_remove(&c->node);
}

static void settle(struct task *t)
{
        struct child *c = CONTAINER_OF(t, struct child, settle);
        struct supervisor *s = c->sup;
        bool is_ending = c->ending != END_NOT;

        tell_state(c);
        if (!c->is_reaped)
                return;
        if (is_ending && !settle_tree(c))
                return;
        if (!is_ending && !scope_settle(&c->scope) && c->ends_with_leader) {
                child_kill_now(c); /* usually nobody is left */
                return;
        }
        if (c->state != CHILD_EXITED && (is_dry(c) || c->is_drained))
                finish(c);
        if (s->is_shutting)
                loop_defer(s->loop, &s->check);
        if (c->is_freed && c->scope.is_gone) {
                release(c);
                loop_free_later(s->loop, c);
        }
}

/* ---- facts ---- */

void child_wake(struct child *c)
{
        if (c->ending != END_NOT && c->is_reaped && !c->scope.is_gone)
                loop_defer(c->sup->loop, &c->settle);
}

static void on_dry(void *arg)
{
        struct child *c = arg;

        loop_defer(c->sup->loop, &c->settle);
}

static void on_grace_over(struct timer *t)
{
        child_kill_now(CONTAINER_OF(t, struct child, grace));
}

static void on_poll(struct timer *t)
{
        struct child *c = CONTAINER_OF(t, struct child, poll);

        loop_defer(c->sup->loop, &c->settle);
}

/* Somebody else still holds the output open. What was there at the exit is delivered, however
 * slowly the owner reads; beyond that nobody waits. */
static void on_drain_over(struct timer *t)
{
        struct child *c = CONTAINER_OF(t, struct child, drain);

        for (size_t i = 0; i < ARRAY_LEN(c->taps); i++)
                if (c->taps[i] && tap_is_owed(c->taps[i]) && !c->sup->is_shutting) {
                        timer_set(t, DRAIN_MS);
                        return;
                }
        c->is_drained = true;
        loop_defer(c->sup->loop, &c->settle);
}

static uint64_t to_us(struct timeval tv)
{
        return (uint64_t) tv.tv_sec * 1000000 + (uint64_t) tv.tv_usec;
}

static void note_usage(struct child *c, const struct rusage *ru)
{
        uint64_t peak = (uint64_t) ru->ru_maxrss * 1024;

        c->usage = (struct child_usage) {
                .cpu_user_us = to_us(ru->ru_utime),
                .cpu_system_us = to_us(ru->ru_stime),
                .peak_rss_bytes = MAX(c->usage.peak_rss_bytes, peak),
        };
}

void child_reap(struct child *c)
{
        siginfo_t info = {};
        struct rusage ru = {};

        /* The system call has one more argument than libc's function. */
        if (c->is_reaped ||
            syscall(SYS_waitid, P_PIDFD, c->pidfd, &info, WEXITED | WNOHANG, &ru) < 0 ||
            info.si_pid == 0)
                return;
        c->is_reaped = true;
        note_usage(c, &ru);
        c->code = info.si_code == CLD_EXITED ? info.si_status : -1;
        c->sig = info.si_code == CLD_EXITED ? 0 : info.si_status;
        c->watch = watch_free(c->watch);
        closep(&c->pidfd);
        c->pidfd = -1;
        for (size_t i = 0; i < ARRAY_LEN(c->taps); i++)
                if (c->taps[i])
                        tap_note_exit(c->taps[i]);
        timer_set(&c->drain, DRAIN_MS);
        loop_defer(c->sup->loop, &c->settle);
}

static void on_pidfd(void *arg, int events)
{
        child_reap(arg);
}

/* ---- making one ---- */

static int check_spec(const struct child_spec *spec, struct error *err)
{
        if (!spec->argv || !spec->argv[0] || !*spec->argv[0])
                return error_set(err, ERR_INVALID, 0, "no program to run");
        if (spec->n_pass > CHILD_PASS_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "more than %d descriptors to pass on",
                                 CHILD_PASS_MAX);
        for (size_t i = 0; i < spec->n_pass; i++)
                if (spec->pass[i].as < 3)
                        return error_set(err, ERR_INVALID, 0, "pass on descriptor %d as %d",
                                         spec->pass[i].fd, spec->pass[i].as);
        return 0;
}

static void make_plan(const struct child_spec *spec, const struct stdio *io, struct spawn_plan *ret)
{
        *ret = (struct spawn_plan) {
                .argv = spec->argv,
                .env = spec->env,
                .cwd = spec->cwd,
                .has_tty = spec->stdio == STDIO_PTY,
                .into_cgroup_fd = -1,
        };
        for (int i = 0; i < 3; i++)
                ret->fds[ret->n_fds++] = (struct spawn_fd) { io->theirs[i], i };
        for (size_t i = 0; i < spec->n_pass; i++)
                ret->fds[ret->n_fds++] = (struct spawn_fd) { spec->pass[i].fd, spec->pass[i].as };
}

static int open_taps(struct child *c, struct stdio *io, struct error *err)
{
        for (int i = 0; i < 3; i++)
                if (io->ours[i] >= 0 && tap_new(c->sup->loop, TAKE_FD(io->ours[i]), io->kinds[i],
                                                on_dry, c, &c->taps[i], err) < 0)
                        return -1;
        return 0;
}

static int start(struct child *c, const struct spawn_plan *base, struct error *err)
{
        struct spawn_plan plan = *base;
        int r = scope_fill_plan(&c->scope, &plan, err);

        if (r == 0)
                r = spawn_run(&plan, &c->pid, &c->pidfd, err);
        scope_leave_plan(&plan);
        if (r < 0)
                return -1;
        c->scope.leader = c->pid;
        if (watch_new(c->sup->loop, c->pidfd, on_pidfd, c, &c->watch, err) < 0) {
                siginfo_t info;

                child_kill_now(c);
                (void) waitid(P_PIDFD, (id_t) c->pidfd, &info, WEXITED);
                return -1;
        }
        watch_set(c->watch, WATCH_READ);
        return 0;
}

static int build(struct child *c, const struct child_spec *spec, struct error *err)
{
        _cleanup_(stdio_done) struct stdio io;
        struct spawn_plan plan;

        if (stdio_init(&io, spec, err) < 0)
                return -1;
        make_plan(spec, &io, &plan);
        if (open_taps(c, &io, err) < 0)
                return -1;
        if (scope_init(&c->scope, &c->sup->contain, spec->mem_max, spec->pids_max, err) < 0)
                return -1;
        if (start(c, &plan, err) < 0) {
                scope_abandon(&c->scope);
                return -1;
        }
        return 0;
}

struct child *child_new(struct supervisor *s, const struct child_spec *spec,
                        const struct child_cb *cb, void *arg, struct error *err)
{
        struct child *c;

        if (check_spec(spec, err) < 0)
                return NULL;
        c = NEW(struct child);
        *c = (struct child) { .sup = s,
                              .cb = *cb,
                              .arg = arg,
                              .stdio = spec->stdio,
                              .pidfd = -1,
                              .ends_with_leader = spec->ends_with_leader };
        list_init(&c->node);
        task_init(&c->settle, settle);
        timer_init(&c->grace, s->loop, on_grace_over);
        timer_init(&c->drain, s->loop, on_drain_over);
        timer_init(&c->poll, s->loop, on_poll);
        if (build(c, spec, err) < 0) {
                release(c);
                loop_free_later(s->loop, c);
                return NULL;
        }
        set_state(c, EV_START);
        return c;
}

/* ---- ending it ---- */

void child_kill_now(struct child *c)
{
        if (c->scope.is_gone)
                return;
        timer_stop(&c->grace);
        c->ending = END_KILL;
        c->poll_us = 0;
        scope_kill(&c->scope);
        if (c->pidfd >= 0) /* also if it left its scope */
                (void) syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
        set_state(c, EV_KILL);
}

/* Asks every process of the tree. An interactive shell is deaf to TERM but obeys the loss of its
 * terminal; who is stopped must run to hear anything. */
void child_ask_to_end(struct child *c)
{
        scope_signal(&c->scope, SIGTERM);
        if (c->stdio == STDIO_PTY)
                scope_signal(&c->scope, SIGHUP);
        scope_signal(&c->scope, SIGCONT);
}

void child_stop(struct child *c, uint32_t grace_ms)
{
        if (!c->sup || c->scope.is_gone || c->ending == END_KILL)
                return;
        if (grace_ms == 0) {
                child_kill_now(c);
                return;
        }
        if (c->ending == END_TERM) { /* a second call can only shorten the wait */
                if (c->grace.at_us > loop_now_us(c->sup->loop) + (int64_t) grace_ms * 1000)
                        timer_set(&c->grace, grace_ms);
                return;
        }
        c->ending = END_TERM;
        child_ask_to_end(c);
        set_state(c, EV_STOP);
        timer_set(&c->grace, grace_ms);
}

struct child *child_free(struct child *c)
{
        if (!c || c->is_freed)
                return NULL;
        c->is_freed = true;
        c->cb = (struct child_cb) {};
        for (size_t i = 0; i < ARRAY_LEN(c->taps); i++)
                c->taps[i] = tap_free(c->taps[i]);
        if (!c->sup) {
                free(c);
                return NULL;
        }
        child_kill_now(c);
        loop_defer(c->sup->loop, &c->settle);
        return NULL;
}

void child_drop(struct child *c)
{
        struct loop *l = c->sup->loop;

        release(c);
        c->scope.is_gone = true;
        c->state = CHILD_EXITED;
        c->sup = NULL;
        if (c->is_freed)
                loop_free_later(l, c);
}

/* ---- questions and small orders ---- */

pid_t child_pid(const struct child *c)
{
        return c->pid;
}

enum child_state child_state(const struct child *c)
{
        return c->state;
}

struct stream *child_stdio(struct child *c, int which)
{
        if (which < 0 || which > 2 || !c->taps[which])
                return NULL;
        return tap_stream(c->taps[which]);
}

int child_resize(struct child *c, uint16_t cols, uint16_t rows, struct error *err)
{
        if (c->stdio != STDIO_PTY)
                return error_set(err, ERR_INVALID, 0, "resize a child without a terminal");
        if (!c->taps[0] || tap_fd(c->taps[0]) < 0)
                return error_set(err, ERR_CONFLICT, 0, "resize a terminal that is closed");
        return pty_resize(tap_fd(c->taps[0]), cols, rows, err);
}

/* Once it is reaped the group's number may belong to somebody else. */
int child_signal(struct child *c, int sig, struct error *err)
{
        if (c->is_reaped)
                return error_set(err, ERR_CONFLICT, 0, "signal process %d: it has exited",
                                 (int) c->pid);
        if (kill(-c->pid, sig) < 0)
                return error_set(err, errno == EINVAL ? ERR_INVALID : ERR_SYSTEM, errno,
                                 "signal process %d", (int) c->pid);
        return 0;
}

static void look_at_usage(struct child *c)
{
        int64_t from_us = clock_mono_us(), now_us;
        struct tree_usage sum = {};

        scope_usage(&c->scope, CHILD_USAGE_MAX, &sum);
        c->usage = (struct child_usage) {
                .cpu_user_us = sum.cpu_user_us,
                .cpu_system_us = sum.cpu_system_us,
                .rss_bytes = sum.rss_bytes,
                .peak_rss_bytes =
                        MAX(c->usage.peak_rss_bytes, MAX(sum.rss_bytes, sum.largest_peak_bytes)),
                .n_processes = sum.n,
        };
        now_us = clock_mono_us();
        c->usage_until_us = now_us + USAGE_REST * (now_us - from_us);
}

void child_usage(struct child *c, struct child_usage *ret)
{
        if (!c->is_reaped && !c->scope.is_gone && clock_mono_us() >= c->usage_until_us)
                look_at_usage(c);
        *ret = c->usage;
}
