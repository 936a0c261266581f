/* Ending whole trees, in each way of containment that this machine has. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test-proc.h"
#include "test.h"

/* Says so where a way is missing, instead of being green by silence. */
static bool is_nobody(pid_t pid)
{
        return false;
}

static bool have_mode(enum contain_mode mode)
{
        struct contain c;
        struct error err = {};

        if (contain_init(&c, mode, is_nobody, &err) < 0) {
                (void) printf("# not on this machine: %s\n", err.msg);
                return false;
        }
        contain_done(&c);
        return true;
}

static void in_each_mode(void (*fn)(struct proc_fixture *f))
{
        for (enum contain_mode mode = CONTAIN_CGROUP2; mode <= CONTAIN_SUBREAPER; mode++) {
                struct proc_fixture f;

                if (!have_mode(mode))
                        continue;
                proc_open(&f, mode);
                fn(&f);
                proc_close(&f);
        }
}

/* Double fork, a session of its own, an empty environment; deaf to TERM on request. Prints its pid.
 */
#define DAEMON(trap) "( setsid env -i /bin/sh -c '" trap "echo pid $$; exec sleep 1000' & )"
#define DEAF         "trap \"\" TERM HUP; "

static pid_t pid_in(struct proc_fixture *f, struct proc_run *r)
{
        const char *at;

        proc_wait_text(f, r, "\n");
        at = strstr(r->out[r->out[0].len ? 0 : 1].data, "pid ");
        EXPECT(at);
        return (pid_t) atoi(at + 4);
}

/* The leader of these scripts waits for a word before it exits. What a daemon prints long after its
 * leader's exit is swallowed, and "long" is soon on a busy machine. */
#define TOLD "; read go"

static void tell_exit(struct proc_fixture *f, struct proc_run *r)
{
        EXPECT(stream_write_bytes(child_stdio(r->c, 0), "go\n", 3, NULL) > 0);
        proc_wait_exit(f, r);
}

static void stop_ends_daemon(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid;

        proc_sh(f, &r, DAEMON("") " ; exec sleep 1000");
        pid = pid_in(f, &r);
        EXPECT(pid > 1 && pid != child_pid(r.c) && proc_is_alive(pid));
        child_stop(r.c, 10 * 1000);
        proc_wait_exit(f, &r);
        EXPECT(!proc_is_alive(pid));
        EXPECT(!proc_is_alive(child_pid(r.c)));
        EXPECT_INT(r.sig, SIGTERM);
        EXPECT_INT(r.n_exits, 1);
        EXPECT_INT(r.seen[1], CHILD_STOPPING);
        EXPECT_INT(r.seen[2], CHILD_EXITED);
        proc_done(&r);
}

TEST(child_stop_ends_what_double_forked)
{
        in_each_mode(stop_ends_daemon);
}

static void stop_kills_deaf_daemon(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid;

        proc_sh(f, &r, DAEMON(DEAF) " ; exec sleep 1000");
        pid = pid_in(f, &r);
        child_stop(r.c, 20);
        proc_wait_exit(f, &r);
        EXPECT(!proc_is_alive(pid));
        EXPECT_INT(r.sig, SIGTERM); /* the child obeyed, its daemon did not */
        EXPECT_INT(r.seen[1], CHILD_STOPPING);
        EXPECT_INT(r.seen[2], CHILD_KILLING);
        EXPECT_INT(r.seen[3], CHILD_EXITED);
        proc_done(&r);
}

TEST(child_stop_kills_a_daemon_that_ignores_term)
{
        in_each_mode(stop_kills_deaf_daemon);
}

static void stop_escalates(struct proc_fixture *f)
{
        struct proc_run r;

        proc_sh(f, &r, "trap '' TERM; echo ready; while :; do sleep 1000 & wait; done");
        proc_wait_text(f, &r, "ready");
        child_stop(r.c, 10 * 1000);
        child_stop(r.c, 20); /* a second call shortens the wait */
        proc_wait_exit(f, &r);
        EXPECT_INT(r.code, -1);
        EXPECT_INT(r.sig, SIGKILL);
        proc_done(&r);
}

TEST(child_stop_escalates_to_kill)
{
        in_each_mode(stop_escalates);
}

static void stop_reaches_stopped(struct proc_fixture *f)
{
        struct proc_run r;

        proc_sh(f, &r, "trap 'exit 3' TERM; echo ready; kill -STOP $$; exit 1");
        proc_wait_text(f, &r, "ready");
        child_stop(r.c, 10 * 1000);
        proc_wait_exit(f, &r);
        EXPECT_INT(r.code, 3);
        proc_done(&r);
}

TEST(child_stop_wakes_a_stopped_process)
{
        in_each_mode(stop_reaches_stopped);
}

/* Only the tree that is meant: a neighbour's daemon lives on. */
static void neighbours_live(struct proc_fixture *f)
{
        struct proc_run a, b;
        pid_t pid_a, pid_b;

        proc_sh(f, &a, DAEMON("") "; exec sleep 1000");
        proc_sh(f, &b, DAEMON("") "; exec sleep 1000");
        pid_a = pid_in(f, &a);
        pid_b = pid_in(f, &b);
        child_stop(a.c, 0);
        proc_wait_exit(f, &a);
        EXPECT(!proc_is_alive(pid_a));
        EXPECT(proc_is_alive(pid_b));
        EXPECT(proc_is_alive(child_pid(b.c)));
        proc_done(&a);
        proc_done(&b);
        proc_wait_dead(f, pid_b);
}

TEST(child_stop_spares_the_neighbours)
{
        in_each_mode(neighbours_live);
}

/* The child exits by itself; its background process lives until the owner lets go. */
static void background_lives(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid;

        proc_sh(f, &r, DAEMON("") TOLD "; exit 2");
        pid = pid_in(f, &r);
        tell_exit(f, &r);
        EXPECT_INT(r.code, 2);
        EXPECT(proc_is_alive(pid));
        EXPECT_INT(supervisor_n_children(f->sup), 0);
        proc_done(&r);
        proc_wait_dead(f, pid);
}

TEST(background_process_lives_until_child_free)
{
        in_each_mode(background_lives);
}

static void background_is_stopped(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid;

        proc_sh(f, &r, DAEMON(DEAF) TOLD "; exit 2");
        pid = pid_in(f, &r);
        tell_exit(f, &r);
        EXPECT(proc_is_alive(pid));
        child_stop(r.c, 20);
        proc_wait_dead(f, pid);
        EXPECT_INT(r.n_exits, 1);
        EXPECT_INT(child_state(r.c), CHILD_EXITED);
        proc_done(&r);
}

TEST(background_process_can_be_stopped_after_the_exit)
{
        in_each_mode(background_is_stopped);
}

/* A background process that keeps printing neither holds up the exit nor dies of a broken pipe. */
static void background_prints(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid;

        proc_sh(f, &r,
                "sh -c 'echo pid $$; while echo more; do sleep 0.01; done' & read go; exit 0");
        pid = pid_in(f, &r);
        tell_exit(f, &r);
        proc_spin(f, 50);
        EXPECT(proc_is_alive(pid));
        EXPECT_INT(r.out[1].len, r.out_at_exit);
        proc_done(&r);
        proc_wait_dead(f, pid);
}

TEST(background_output_does_not_hold_up_the_exit)
{
        struct proc_fixture f;

        proc_open(&f, CONTAIN_BEST);
        background_prints(&f);
        proc_close(&f);
}

static void free_ends_tree(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid, leader;

        proc_sh(f, &r, DAEMON(DEAF) "; exec sleep 1000");
        pid = pid_in(f, &r);
        leader = child_pid(r.c);
        proc_done(&r);
        proc_wait_dead(f, pid);
        proc_wait_dead(f, leader);
        EXPECT_INT(r.n_exits, 0);
}

TEST(child_free_ends_the_tree_without_a_callback)
{
        in_each_mode(free_ends_tree);
}

static void set_flag(void *arg)
{
        EXPECT(!*(bool *) arg);
        *(bool *) arg = true;
}

static void shutdown_ends_all(struct proc_fixture *f)
{
        enum { N = 5 };
        const char *argv[] = { "true", NULL };
        struct proc_run runs[N], late;
        pid_t pids[N];
        struct error err = {};
        bool is_done = false;

        for (int i = 0; i < N; i++)
                proc_sh(f, &runs[i], i % 2 ? DAEMON(DEAF) "; exec sleep 1000" : DAEMON("") TOLD);
        for (int i = 0; i < N; i++)
                pids[i] = pid_in(f, &runs[i]);
        for (int i = 0; i < N; i += 2)
                tell_exit(f, &runs[i]);
        supervisor_shutdown(f->sup, 50, set_flag, &is_done);
        EXPECT(!is_done);
        EXPECT_ERR(proc_try(f, &late, &(struct child_spec) { .argv = argv }, &err), ERR_BUSY, err);
        EXPECT(loop_run_until(f->loop, &is_done, PROC_WAIT_MS));
        EXPECT_INT(supervisor_n_children(f->sup), 0);
        for (int i = 0; i < N; i++) {
                EXPECT(!proc_is_alive(pids[i]));
                EXPECT(runs[i].has_exited);
                proc_done(&runs[i]);
        }
}

TEST(shutdown_ends_every_tree)
{
        in_each_mode(shutdown_ends_all);
}

TEST(shutdown_without_children_is_done_soon)
{
        struct proc_fixture f;
        bool is_done = false;

        proc_open(&f, CONTAIN_BEST);
        supervisor_shutdown(f.sup, 1000, set_flag, &is_done);
        EXPECT(!is_done);
        for (int i = 0; i < 100 && !is_done; i++)
                proc_spin(&f, 1);
        EXPECT(is_done);
        proc_close(&f);
}

/* Who moves out of his cgroup is still below us when everything ends. */
TEST(shutdown_finds_who_left_its_cgroup)
{
        struct proc_fixture f;
        struct proc_run r;
        bool is_done = false;
        pid_t pid;

        proc_open(&f, CONTAIN_SUBREAPER);
        /* here: who changes the limit that marks him */
        proc_sh(&f, &r,
                "( prlimit --rttime=1000000:1000000 setsid env -i /bin/sh -c "
                "'echo pid $$; exec sleep 1000' & ); exec sleep 1000");
        pid = pid_in(&f, &r);
        supervisor_shutdown(f.sup, 1000, set_flag, &is_done);
        EXPECT(loop_run_until(f.loop, &is_done, PROC_WAIT_MS));
        EXPECT(!proc_is_alive(pid));
        proc_done(&r);
        proc_close(&f);
}

static void free_is_immediate(struct proc_fixture *f)
{
        struct proc_run r;
        pid_t pid;

        proc_sh(f, &r, DAEMON(DEAF) "; exec sleep 1000");
        pid = pid_in(f, &r);
        f->sup = supervisor_free(f->sup);
        EXPECT(!proc_is_alive(pid));
        EXPECT(!proc_is_alive(child_pid(r.c)));
        proc_done(&r);
}

TEST(supervisor_free_ends_everything_at_once)
{
        in_each_mode(free_is_immediate);
}

TEST(pty_shell_hangs_up_on_stop)
{
        const char *argv[] = { "/bin/sh", "-i", NULL };
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        proc_start(&f, &r, &(struct child_spec) { .argv = argv, .stdio = STDIO_PTY });
        EXPECT(stream_write_bytes(child_stdio(r.c, 0), "echo a''b\n", 10, NULL) > 0);
        proc_wait_text(&f, &r, "ab");
        child_stop(r.c, PROC_WAIT_MS / 2);
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.n_seen, 3); /* never KILLING */
        proc_done(&r);
        proc_close(&f);
}

/* ---- limits ---- */

static void run_limited(struct proc_fixture *f, struct proc_run *r, const char *script,
                        uint64_t mem_max, uint32_t pids_max)
{
        const char *argv[] = { "/bin/sh", "-c", script, NULL };

        proc_start(f, r,
                   &(struct child_spec) { .argv = argv,
                                          .stdio = STDIO_PIPE,
                                          .mem_max = mem_max,
                                          .pids_max = pids_max });
        proc_wait_exit(f, r);
}

static void limits_hold(struct proc_fixture *f)
{
        const char *argv[] = { "true", NULL };
        const struct child_spec spec = { .argv = argv, .pids_max = 2 };
        struct proc_run r;
        struct error err = {};

        if (strcmp(supervisor_containment(f->sup), "subreaper") == 0) {
                EXPECT_ERR(proc_try(f, &r, &spec, &err), ERR_UNSUPPORTED, err);
                return;
        }
        run_limited(f, &r, "/bin/true; echo ok", 0, 2);
        EXPECT_STR(r.out[1].data, "ok\n");
        proc_done(&r);
        run_limited(f, &r, "/bin/true; echo ok", 0, 1);
        EXPECT(r.code != 0 && !r.out[1].len); /* the shell cannot fork */
        proc_done(&r);
        run_limited(f, &r, "head -c 64000000 /dev/zero | tail -c 63000000 | wc -c", 256 << 20, 0);
        EXPECT_STR(r.out[1].data, "63000000\n");
        proc_done(&r);
        run_limited(f, &r, "head -c 64000000 /dev/zero | tail -c 63000000 | wc -c", 32 << 20, 0);
        EXPECT_STR(r.out[1].len ? r.out[1].data : "0\n", "0\n"); /* tail was killed */
        proc_done(&r);
}

TEST(limits_are_enforced_or_refused)
{
        in_each_mode(limits_hold);
}

/* ---- a server that was killed ---- */

/* In a forked process: starts a daemon, tells its pid, and dies like a server under kill -9. */
static void die_with_daemon(int fd, enum contain_mode mode)
{
        struct proc_fixture f;
        struct proc_run r;
        pid_t pid;

        proc_open(&f, mode);
        proc_sh(&f, &r, DAEMON(DEAF) "; exec sleep 1000");
        pid = pid_in(&f, &r);
        if (proc_is_alive(pid) && write(fd, &pid, sizeof(pid)) == sizeof(pid))
                (void) raise(SIGKILL);
        _exit(1);
}

static void restart_cleans(enum contain_mode mode)
{
        struct proc_fixture f;
        int ends[2], status;
        pid_t server, pid = 0;

        if (!have_mode(mode))
                return;
        EXPECT_INT(pipe2(ends, O_CLOEXEC), 0);
        server = fork();
        EXPECT(server >= 0);
        if (server == 0)
                die_with_daemon(ends[1], mode);
        (void) close(ends[1]);
        EXPECT_INT(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
        (void) close(ends[0]);
        EXPECT_INT(waitpid(server, &status, 0), server);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

        proc_open(&f, CONTAIN_BEST);
        proc_wait_dead(&f, pid); /* another server that starts just now may be the one who cleans */
        proc_close(&f);
}

TEST(restart_ends_what_a_killed_server_left)
{
        restart_cleans(CONTAIN_CGROUP2);
        restart_cleans(CONTAIN_CGROUP1);
}

/* Containers often hide newer system calls. Returns 0 if all is well; runs in a process of its own,
 * because a filter cannot be taken back. */
static int run_without(const int *calls, size_t n)
{
        struct sock_filter code[8] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                offsetof(struct seccomp_data, nr)) };
        struct sock_fprog prog = { .filter = code, .len = 1 };
        struct proc_fixture f = { .loop = loop_new() };
        struct error err = {};
        struct proc_run r;
        const char *argv[] = { "/bin/sh", "-c", DAEMON("") "; exec sleep 1000", NULL };

        for (size_t i = 0; i < n; i++) {
                code[prog.len++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                                 (unsigned) calls[i], 0, 1);
                code[prog.len++] =
                        (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
        }
        code[prog.len++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
                return 1;
        f.sup = supervisor_new_with(f.loop, CONTAIN_CGROUP2, &err);
        if (!f.sup ||
            proc_try(&f, &r, &(struct child_spec) { .argv = argv, .stdio = STDIO_PIPE }, &err) < 0)
                return 2;
        r.ready_text = "\n";
        if (!loop_run_until(f.loop, &r.is_ready, PROC_WAIT_MS))
                return 3;
        child_stop(r.c, 0);
        if (!loop_run_until(f.loop, &r.has_exited, PROC_WAIT_MS) || r.sig != SIGKILL)
                return 4;
        f.sup = supervisor_free(f.sup);
        return proc_is_alive((pid_t) atoi(r.out[1].data + 4)) ? 5 : 0;
}

TEST(spawn_does_without_newer_system_calls)
{
        static const int calls[] = { SYS_clone3, SYS_close_range };
        int status;
        pid_t pid;

        if (!have_mode(CONTAIN_CGROUP2))
                return;
        pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
                _exit(run_without(calls, ARRAY_LEN(calls)));
        EXPECT_INT(waitpid(pid, &status, 0), pid);
        EXPECT(WIFEXITED(status));
        EXPECT_INT(WEXITSTATUS(status), 0);
}

/* A server that lives keeps what it has, however many others start. */
TEST(second_supervisor_leaves_the_first_alone)
{
        struct proc_fixture a, b;
        struct proc_run r;
        pid_t pid;

        proc_open(&a, CONTAIN_BEST);
        proc_sh(&a, &r, DAEMON("") "; exec sleep 1000");
        pid = pid_in(&a, &r);
        b.loop = loop_new();
        b.sup = supervisor_new_with(b.loop, CONTAIN_BEST, NULL);
        EXPECT(b.sup);
        b.sup = supervisor_free(b.sup);
        b.loop = loop_free(b.loop);
        EXPECT(proc_is_alive(pid));
        EXPECT(proc_is_alive(child_pid(r.c)));
        child_stop(r.c, 0);
        proc_wait_exit(&a, &r);
        EXPECT(!proc_is_alive(pid));
        proc_done(&r);
        proc_close(&a);
}
