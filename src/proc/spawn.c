#include "proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"

/* The child walks these steps in order and leaves the number of the one that failed. */
enum spawn_step {
        STEP_NONE,
        STEP_CGROUP,
        STEP_SIGNALS,
        STEP_SESSION,
        STEP_FDS,
        STEP_TTY,
        STEP_CWD,
        STEP_MARK,
        STEP_EXEC,
        STEP__MAX
};

static const char *const step_names[STEP__MAX] = {
        [STEP_CGROUP] = "join its cgroup",   [STEP_SIGNALS] = "reset its signals",
        [STEP_SESSION] = "open a session",   [STEP_FDS] = "arrange its descriptors",
        [STEP_TTY] = "take its terminal",    [STEP_CWD] = "enter directory",
        [STEP_MARK] = "set its limits mark", [STEP_EXEC] = "run",
};

/* Memory that both sides see. The child writes, we read after it has gone on or gone away. */
struct shared {
        const struct spawn_plan *plan;
        const char *const *env;
        enum spawn_step last;
        volatile enum spawn_step failed;
        volatile int why;
};

enum { STACK_BYTES = 128 * 1024 };

/* ---- the child's side: system calls only, no allocation, no locks ---- */

static int join_cgroups(struct shared *s)
{
        for (size_t i = 0; i < s->plan->n_join; i++)
                if (write(s->plan->join_fds[i], "0", 1) != 1)
                        return -1;
        return 0;
}

/* Handlers would run in our memory, and an ignored signal would stay ignored over exec. */
static int reset_signals(struct shared *s)
{
        /* The kernel's struct, all zero: SIG_DFL. libc's sigaction() refuses its own two signals,
         * which whoever started us may have left ignored. */
        static const unsigned long dfl[8];

        for (int sig = 1; sig < NSIG; sig++)
                (void) syscall(SYS_rt_sigaction, sig, dfl, NULL,
                               (size_t) 8); /* KILL, STOP refuse */
        return 0;
}

static int open_session(struct shared *s)
{
        return setsid() < 0 ? -1 : 0;
}

/* Without close_range (before Linux 5.9, or behind an old filter) one by one. */
static void close_span(unsigned from, unsigned to)
{
        struct rlimit rl = { .rlim_cur = 4096 };

        if (from > to || syscall(SYS_close_range, from, to, 0) == 0)
                return;
        (void) getrlimit(RLIMIT_NOFILE, &rl);
        for (unsigned fd = from; fd <= to && fd < rl.rlim_cur; fd++)
                (void) close((int) fd);
}

static void close_others(const struct spawn_fd *fds, size_t n)
{
        unsigned from = 0;

        for (;;) {
                unsigned next = UINT_MAX;

                for (size_t i = 0; i < n; i++)
                        if ((unsigned) fds[i].to >= from)
                                next = MIN(next, (unsigned) fds[i].to);
                if (next == UINT_MAX)
                        break;
                if (next > from)
                        close_span(from, next - 1);
                from = next + 1;
        }
        close_span(from, INT_MAX);
}

/* First every source out of the way of all targets, then each to its place. A descriptor that is
 * moved onto itself would keep close-on-exec; the detour over a high number clears that as well. */
static int arrange_fds(struct shared *s)
{
        const struct spawn_plan *p = s->plan;
        struct spawn_fd fds[SPAWN_FD_MAX];
        int high = 2;

        for (size_t i = 0; i < p->n_fds; i++)
                high = MAX(high, p->fds[i].to);
        for (size_t i = 0; i < p->n_fds; i++) {
                fds[i] = p->fds[i];
                if (fds[i].from <= high)
                        fds[i].from = fcntl(fds[i].from, F_DUPFD_CLOEXEC, high + 1);
                if (fds[i].from < 0)
                        return -1;
        }
        for (size_t i = 0; i < p->n_fds; i++)
                if (dup2(fds[i].from, fds[i].to) < 0)
                        return -1;
        close_others(fds, p->n_fds);
        return 0;
}

static int take_tty(struct shared *s)
{
        return s->plan->has_tty ? ioctl(STDIN_FILENO, TIOCSCTTY, 0) : 0;
}

static int enter_cwd(struct shared *s)
{
        return s->plan->cwd ? chdir(s->plan->cwd) : 0;
}

static int set_mark(struct shared *s)
{
        struct rlimit rl;

        if (!s->plan->mark || getrlimit(RLIMIT_RTTIME, &rl) < 0)
                return 0;
        rl.rlim_cur = s->plan->mark;
        (void) setrlimit(RLIMIT_RTTIME, &rl); /* refused under a lower hard limit: then unmarked */
        return 0;
}

static const char *find_path(const char *const *env)
{
        for (; *env; env++)
                if (strncmp(*env, "PATH=", 5) == 0)
                        return *env + 5;
        return "/usr/local/bin:/usr/bin:/bin";
}

/* What the shell does: go on past what is missing or not allowed, but remember "not allowed",
 * because it says more than "not found". An empty part means the current directory. */
static int exec_in_path(struct shared *s)
{
        const char *name = s->plan->argv[0], *at = find_path(s->env);
        size_t name_len = strlen(name);
        int why = ENOENT;

        for (bool more = true; more;) {
                size_t len = strcspn(at, ":");
                char path[PATH_MAX];

                if (len + name_len + 2 <= sizeof(path)) {
                        memcpy(path, at, len);
                        path[len] = '/';
                        memcpy(path + len + (len > 0), name, name_len + 1);
                        (void) execve(path, (char **) s->plan->argv, (char **) s->env);
                        if (errno == EACCES)
                                why = EACCES;
                        else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
                                return -1;
                }
                more = at[len] == ':';
                at += len + more;
        }
        errno = why;
        return -1;
}

static int exec_program(struct shared *s)
{
        sigset_t none;

        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        if (!strchr(s->plan->argv[0], '/'))
                return exec_in_path(s);
        return execve(s->plan->argv[0], (char **) s->plan->argv, (char **) s->env);
}

/* Cgroups come first: whatever happens later, the child is already where it can be found. */
static int (*const steps[STEP__MAX])(struct shared *) = {
        [STEP_CGROUP] = join_cgroups, [STEP_SIGNALS] = reset_signals, [STEP_SESSION] = open_session,
        [STEP_FDS] = arrange_fds,     [STEP_TTY] = take_tty,          [STEP_CWD] = enter_cwd,
        [STEP_MARK] = set_mark,       [STEP_EXEC] = exec_program,
};

static int child_main(void *arg)
{
        struct shared *s = arg;

        for (enum spawn_step step = STEP_NONE + 1; step <= s->last; step++) {
                if (steps[step](s) == 0)
                        continue;
                s->why = errno;
                s->failed = step;
                break;
        }
        return 127; /* a probe, or a step failed: exec does not return */
}

/* ---- our side ---- */

/* clone3 with a function for the child, which libc does not offer. The child must not run on our
 * stack frame, so it starts on a stack of its own, calls fn(arg) and leaves with its result. */
static long clone3_call(struct clone_args *a, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
        long ret = SYS_clone3;
        register int (*r_fn)(void *) __asm__("r12") = fn;
        register void *r_arg __asm__("r13") = arg;

        __asm__ volatile("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t"
                         "mov %%r13, %%rdi\n\t"
                         "call *%%r12\n\t"
                         "mov %%eax, %%edi\n\t"
                         "mov %[nr_exit], %%eax\n\t"
                         "syscall\n"
                         "1:"
                         : "+a"(ret)
                         : "D"(a), "S"(sizeof(*a)), "r"(r_fn),
                           "r"(r_arg), [nr_exit] "i"(SYS_exit_group)
                         : "rcx", "r11", "memory", "cc");
        return ret;
#elif defined(__aarch64__)
        register long x0 __asm__("x0") = (long) a;
        register long x1 __asm__("x1") = sizeof(*a);
        register long x8 __asm__("x8") = SYS_clone3;
        register int (*r_fn)(void *) __asm__("x19") = fn;
        register void *r_arg __asm__("x20") = arg;

        __asm__ volatile("svc #0\n\t"
                         "cbnz x0, 1f\n\t"
                         "mov x29, xzr\n\t"
                         "mov x0, x20\n\t"
                         "blr x19\n\t"
                         "mov x8, %[nr_exit]\n\t"
                         "svc #0\n"
                         "1:"
                         : "+r"(x0)
                         : "r"(x1), "r"(x8), "r"(r_fn), "r"(r_arg), [nr_exit] "i"(SYS_exit_group)
                         : "memory", "cc");
        return x0;
#else
        (void) a;
        (void) fn;
        (void) arg;
        return -ENOSYS;
#endif
}

static int clone_classic(char *stack, struct shared *s, int *ret_pidfd)
{
        return clone(child_main, stack + STACK_BYTES,
                     CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, ret_pidfd);
}

/* An old kernel, one that does not know the flag or the longer struct, or a filter. */
static bool is_unknown_call(int why)
{
        return why == ENOSYS || why == EINVAL || why == E2BIG || why == EPERM;
}

/* Born in the cgroup where clone3 can do that; it spares the child the move, which makes the whole
 * system wait for a moment. Elsewhere (old kernels, filters that hide clone3) it joins like with
 * v1. */
static int clone_into(char *stack, struct shared *s, struct spawn_plan *plan, int *ret_pidfd)
{
        struct clone_args a = {
                .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_INTO_CGROUP,
                .pidfd = (uint64_t) (uintptr_t) ret_pidfd,
                .exit_signal = SIGCHLD,
                .stack = (uint64_t) (uintptr_t) stack,
                .stack_size = STACK_BYTES,
                .cgroup = (uint64_t) plan->into_cgroup_fd,
        };
        _cleanup_close_ int procs = -1;
        long pid = clone3_call(&a, child_main, s);

        if (pid >= 0)
                return (int) pid;
        errno = (int) -pid;
        if (!is_unknown_call(errno) || plan->n_join == SPAWN_JOIN_MAX)
                return -1;
        procs = openat(plan->into_cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (procs < 0)
                return -1;
        plan->join_fds[plan->n_join++] = procs;
        return clone_classic(stack, s, ret_pidfd);
}

/* The child's stack is ours again as soon as the call returns. One is kept for the next child: to
 * map it, touch it and unmap it takes 5 µs. */
static _Atomic(char *) spare_stack;

static char *take_stack(void)
{
        char *stack = atomic_exchange(&spare_stack, NULL);

        return stack
                       ?: mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
}

static void leave_stack(char *stack)
{
        char *other = atomic_exchange(&spare_stack, stack);

        if (other) /* two threads had one each */
                (void) munmap(other, STACK_BYTES);
}

/* All signals wait while the child shares our memory: a handler of ours must not run over there. */
static int clone_blocked(struct shared *s, struct spawn_plan *plan, int *ret_pidfd)
{
        char *stack = take_stack();
        sigset_t all, was;
        int pid, why;

        if (stack == MAP_FAILED)
                return -1;
        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_BLOCK, &all, &was);
        pid = plan->into_cgroup_fd >= 0 ? clone_into(stack, s, plan, ret_pidfd)
                                        : clone_classic(stack, s, ret_pidfd);
        why = errno;
        (void) pthread_sigmask(SIG_SETMASK, &was, NULL);
        leave_stack(stack);
        errno = why;
        return pid;
}

static enum err_kind kind_of(int why)
{
        static const struct {
                int why;
                enum err_kind kind;
        } kinds[] = {
                { ENOENT, ERR_NOT_FOUND }, { ENOTDIR, ERR_INVALID }, { EACCES, ERR_FORBIDDEN },
                { EPERM, ERR_FORBIDDEN },  { ENOEXEC, ERR_INVALID }, { EISDIR, ERR_INVALID },
                { ELOOP, ERR_INVALID },    { E2BIG, ERR_TOO_BIG },   { ENAMETOOLONG, ERR_INVALID },
                { EAGAIN, ERR_BUSY },      { ENOMEM, ERR_BUSY },     { EMFILE, ERR_BUSY },
                { ENFILE, ERR_BUSY },      { EBADF, ERR_INVALID },
        };

        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (kinds[i].why == why)
                        return kinds[i].kind;
        return ERR_SYSTEM;
}

/* The story of a failed exec: where was it looked for, and is it perhaps the "#!" line that is
 * wrong? */
static int exec_error(const struct shared *s, struct error *err)
{
        const char *name = s->plan->argv[0];
        int why = s->why;

        if (!strchr(name, '/'))
                return error_set(err, kind_of(why), why, "run '%s' (looked for in PATH '%.200s')",
                                 name, find_path(s->env));
        if (why == ENOENT && name[0] == '/' && access(name, F_OK) == 0)
                return error_set(err, ERR_INVALID, why, "run '%s': its interpreter", name);
        return error_set(err, kind_of(why), why, "run '%s'", name);
}

static int step_error(const struct shared *s, struct error *err)
{
        const struct spawn_plan *p = s->plan;

        if (s->failed == STEP_EXEC)
                return exec_error(s, err);
        if (s->failed == STEP_CWD)
                return error_set(err, kind_of(s->why), s->why, "run '%s': %s '%s'", p->argv[0],
                                 step_names[STEP_CWD], p->cwd);
        return error_set(err, s->failed == STEP_FDS ? kind_of(s->why) : ERR_SYSTEM, s->why,
                         "run '%s': %s", p->argv[0], step_names[s->failed]);
}

int spawn_run(const struct spawn_plan *plan, pid_t *ret_pid, int *ret_pidfd, struct error *err)
{
        struct spawn_plan mine = *plan;
        struct shared s = { .plan = &mine,
                            .env = plan->env ?: (const char *const *) environ,
                            .last = STEP_EXEC };
        _cleanup_close_ int pidfd = -1;
        siginfo_t info;
        int pid = clone_blocked(&s, &mine, &pidfd);

        if (pid < 0)
                return error_set(err, kind_of(errno), errno, "start a process for '%s'",
                                 plan->argv[0]);
        if (s.failed != STEP_NONE) {
                (void) waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED);
                return step_error(&s, err);
        }
        *ret_pid = pid;
        *ret_pidfd = TAKE_FD(pidfd);
        return 0;
}

int spawn_probe(const struct spawn_plan *plan)
{
        struct spawn_plan mine = *plan;
        struct shared s = { .plan = &mine, .last = STEP_CGROUP };
        _cleanup_close_ int pidfd = -1;
        siginfo_t info;

        if (clone_blocked(&s, &mine, &pidfd) < 0)
                return -1;
        (void) waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED);
        errno = s.why;
        return s.failed == STEP_NONE ? 0 : -1;
}
