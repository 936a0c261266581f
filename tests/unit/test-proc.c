#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "test-proc.h"
#include "test.h"

static void run_sh(struct proc_run *ret, const char *script)
{
        struct proc_fixture f;

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, ret, script);
        proc_wait_exit(&f, ret);
        EXPECT_INT(supervisor_n_children(f.sup), 0);
        ret->c = child_free(ret->c);
        proc_close(&f);
}

TEST(child_exit_code_arrives_once)
{
        struct proc_run r;

        run_sh(&r, "exit 7");
        EXPECT_INT(r.n_exits, 1);
        EXPECT_INT(r.code, 7);
        EXPECT_INT(r.sig, 0);
        EXPECT_INT(r.n_seen, 2);
        EXPECT_INT(r.seen[0], CHILD_RUNNING);
        EXPECT_INT(r.seen[1], CHILD_EXITED);
        EXPECT(r.has_ended[0] && r.has_ended[1] && r.has_ended[2]);
}

TEST(child_signal_is_told_apart_from_a_code)
{
        struct proc_run r;

        run_sh(&r, "kill -SEGV $$");
        EXPECT_INT(r.code, -1);
        EXPECT_INT(r.sig, SIGSEGV);
}

TEST(child_output_is_drained_before_exit)
{
        struct proc_run r;

        run_sh(&r, "head -c 1048576 /dev/zero; echo oops >&2");
        EXPECT_INT(r.out_at_exit, 1048576);
        EXPECT_STR(r.out[2].data, "oops\n");
        proc_done(&r);
}

TEST(child_reads_what_is_written_to_stdin)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};
        const char *argv[] = { "cat", NULL };

        proc_open(&f, CONTAIN_BEST);
        proc_start(&f, &r, &(struct child_spec) { .argv = argv, .stdio = STDIO_PIPE });
        EXPECT_OK(stream_write_bytes(child_stdio(r.c, 0), "hello\n", 6, &err), err);
        proc_wait_text(&f, &r, "hello");
        EXPECT(!r.has_exited);
        stream_finish(child_stdio(r.c, 0));
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 0);
        EXPECT_STR(r.out[1].data, "hello\n");
        proc_done(&r);
        proc_close(&f);
}

static void expect_no_start(const struct child_spec *spec, enum err_kind kind, const char *text)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        EXPECT_ERR(proc_try(&f, &r, spec, &err), kind, err);
        EXPECT_STR(strstr(err.msg, text) ? text : err.msg, text);
        EXPECT_INT(supervisor_n_children(f.sup), 0);
        proc_close(&f);
}

TEST(spawn_says_which_program_is_missing)
{
        const char *path[] = { "/no/such/program", NULL }, *name[] = { "no-such-program", NULL };
        const char *env[] = { "PATH=/usr/bin:/bin", NULL }; /* ours may name what we may not read */

        expect_no_start(&(struct child_spec) { .argv = path, .stdio = STDIO_PIPE }, ERR_NOT_FOUND,
                        "'/no/such/program': No such file");
        expect_no_start(&(struct child_spec) { .argv = name, .env = env, .stdio = STDIO_PTY },
                        ERR_NOT_FOUND, "'no-such-program' (looked for in PATH '/usr/bin:/bin')");
}

TEST(spawn_says_which_directory_is_missing)
{
        const char *argv[] = { "true", NULL };

        expect_no_start(&(struct child_spec) { .argv = argv, .cwd = "/no/such/dir" }, ERR_NOT_FOUND,
                        "enter directory '/no/such/dir'");
        expect_no_start(&(struct child_spec) { .argv = argv, .cwd = "/dev/null" }, ERR_INVALID,
                        "enter directory '/dev/null'");
}

TEST(spawn_says_that_a_file_is_not_executable)
{
        const char *argv[] = { "/etc/passwd", NULL }, *dir[] = { "/tmp", NULL };

        expect_no_start(&(struct child_spec) { .argv = argv }, ERR_FORBIDDEN, "'/etc/passwd'");
        expect_no_start(&(struct child_spec) { .argv = dir }, ERR_FORBIDDEN, "'/tmp'");
}

TEST(spawn_refuses_a_senseless_spec)
{
        const char *none[] = { NULL }, *empty[] = { "", NULL }, *argv[] = { "true", NULL };

        expect_no_start(&(struct child_spec) { .argv = none }, ERR_INVALID, "no program");
        expect_no_start(&(struct child_spec) { .argv = empty }, ERR_INVALID, "no program");
        expect_no_start(&(struct child_spec) { .argv = argv, .pass = { { 0, 2 } }, .n_pass = 1 },
                        ERR_INVALID, "as 2");
        expect_no_start(&(struct child_spec) { .argv = argv, .pass = { { 9999, 5 } }, .n_pass = 1 },
                        ERR_INVALID, "descriptors");
        expect_no_start(&(struct child_spec) { .argv = argv, .n_pass = CHILD_PASS_MAX + 1 },
                        ERR_TOO_BIG, "more than 4");
}

/* A directory with one small script, made for a test. */
struct script {
        char dir[64], path[96];
};

static void script_make(struct script *s, const char *name, const char *text, unsigned mode)
{
        struct error err = {};

        (void) snprintf(s->dir, sizeof(s->dir), "/tmp/test-proc-XXXXXX");
        EXPECT(mkdtemp(s->dir));
        (void) snprintf(s->path, sizeof(s->path), "%s/%s", s->dir, name);
        EXPECT_OK(file_write(s->path, text, strlen(text), mode, &err), err);
}

static void script_remove(struct script *s)
{
        EXPECT_INT(unlink(s->path), 0);
        EXPECT_INT(rmdir(s->dir), 0);
}

static void run_env(const char *program, const char *const *env, const char *cwd,
                    struct proc_run *ret)
{
        const char *argv[] = { program, NULL };
        struct proc_fixture f;

        proc_open(&f, CONTAIN_BEST);
        proc_start(
                &f, ret,
                &(struct child_spec) { .argv = argv, .env = env, .cwd = cwd, .stdio = STDIO_PIPE });
        proc_wait_exit(&f, ret);
        ret->c = child_free(ret->c);
        proc_close(&f);
}

TEST(spawn_looks_in_the_path_of_the_child)
{
        struct script s;
        struct proc_run r;
        char path[160];

        script_make(&s, "only-here", "#!/bin/sh\necho \"found $X\"\n", 0755);
        (void) snprintf(path, sizeof(path), "PATH=/no/such/dir::%s:/bin", s.dir);
        run_env("only-here", (const char *[]) { "X=1", path, NULL }, NULL, &r);
        EXPECT_STR(r.out[1].data, "found 1\n");
        proc_done(&r);

        /* an empty part is the child's directory */
        run_env("only-here", (const char *[]) { "PATH=/nowhere:", NULL }, s.dir, &r);
        EXPECT_STR(r.out[1].data, "found \n");
        proc_done(&r);
        script_remove(&s);
}

TEST(spawn_remembers_no_permission_over_not_found)
{
        struct script s;
        char path[160];
        const char *argv[] = { "not-allowed", NULL }, *env[] = { path, NULL };

        script_make(&s, "not-allowed", "#!/bin/sh\n", 0644);
        (void) snprintf(path, sizeof(path), "PATH=%s:/bin", s.dir);
        expect_no_start(&(struct child_spec) { .argv = argv, .env = env }, ERR_FORBIDDEN,
                        "Permission denied");
        script_remove(&s);
}

TEST(spawn_names_a_missing_interpreter)
{
        struct script s;
        const char *argv[] = { s.path, NULL };

        script_make(&s, "script", "#!/no/such/interpreter\n", 0755);
        expect_no_start(&(struct child_spec) { .argv = argv }, ERR_INVALID, "its interpreter");
        script_remove(&s);
}

TEST(child_gets_only_its_own_descriptors)
{
        static const char script[] = "i=0; while [ $i -lt 600 ]; do "
                                     "[ -e /proc/$$/fd/$i ] && echo $i; i=$((i+1)); done; cat <&7";
        const char *argv[] = { "/bin/sh", "-c", script, NULL };
        int low = fcntl(1, F_DUPFD, 3), high = fcntl(1, F_DUPFD, 500), ends[2];
        struct proc_fixture f;
        struct proc_run r;

        EXPECT(low >= 0 && high >= 500);
        EXPECT_INT(pipe2(ends, O_CLOEXEC), 0);
        EXPECT_INT(write(ends[1], "gift", 4), 4);
        (void) close(ends[1]);
        proc_open(&f, CONTAIN_BEST);
        proc_start(&f, &r,
                   &(struct child_spec) { .argv = argv,
                                          .stdio = STDIO_PIPE,
                                          .pass = { { ends[0], 7 }, { ends[0], 4 } },
                                          .n_pass = 2 });
        proc_wait_exit(&f, &r);
        EXPECT_STR(r.out[1].data, "0\n1\n2\n4\n7\ngift");
        proc_done(&r);
        proc_close(&f);
        (void) close(low);
        (void) close(high);
        (void) close(ends[0]);
}

/* The numbers of sources and targets overlap: nobody may step on the other. */
TEST(child_descriptors_may_trade_places)
{
        const char *argv[4] = { "/bin/cat" };
        char paths[2][32];
        struct proc_fixture f;
        struct proc_run r;
        int ends[2], at[2];

        for (int i = 0; i < 2; i++) {
                EXPECT_INT(pipe2(ends, O_CLOEXEC), 0);
                EXPECT_INT(write(ends[1], i ? "b" : "a", 1), 1);
                (void) close(ends[1]);
                at[i] = fcntl(ends[0], F_DUPFD_CLOEXEC, 40);
                EXPECT(at[i] >= 40);
                (void) close(ends[0]);
                (void) snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", at[i]);
                argv[i + 1] = paths[i];
        }
        proc_open(&f, CONTAIN_BEST);
        proc_start(&f, &r,
                   &(struct child_spec) { .argv = argv,
                                          .stdio = STDIO_PIPE,
                                          .pass = { { at[0], at[1] }, { at[1], at[0] } },
                                          .n_pass = 2 });
        proc_wait_exit(&f, &r);
        EXPECT_STR(r.out[1].data, "ba");
        proc_done(&r);
        proc_close(&f);
        (void) close(at[0]);
        (void) close(at[1]);
}

TEST(child_starts_with_default_signals_and_its_own_session)
{
        struct proc_run r;
        unsigned long long blocked, ignored;
        int pid, pgid, sid;

        (void) signal(SIGUSR1, SIG_IGN);
        run_sh(&r, "exec awk '/^Sig(Blk|Ign)/ { print $2 }' /proc/self/status");
        (void) signal(SIGUSR1, SIG_DFL);
        EXPECT_INT(sscanf(r.out[1].data, "%llx %llx", &blocked, &ignored), 2);
        EXPECT_INT(blocked, 0);
        EXPECT_INT(ignored, 0);
        proc_done(&r);

        run_sh(&r, "exec awk '{ print $1, $5, $6 }' /proc/self/stat");
        EXPECT_INT(sscanf(r.out[1].data, "%d %d %d", &pid, &pgid, &sid), 3);
        EXPECT_INT(pgid, pid);
        EXPECT_INT(sid, pid);
        proc_done(&r);
}

TEST(child_without_stdio_has_no_streams)
{
        const char *argv[] = { "/bin/sh", "-c", "read x && exit 9; echo lost; exit 3", NULL };
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        proc_start(&f, &r, &(struct child_spec) { .argv = argv, .stdio = STDIO_NULL });
        EXPECT(!child_stdio(r.c, 0) && !child_stdio(r.c, 1) && !child_stdio(r.c, 3));
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 3);
        proc_done(&r);
        proc_close(&f);
}

static void start_tty(struct proc_fixture *f, struct proc_run *r, const char *script)
{
        const char *argv[] = { "/bin/sh", "-c", script, NULL };

        proc_start(
                f, r,
                &(struct child_spec) { .argv = argv, .stdio = STDIO_PTY, .cols = 101, .rows = 33 });
}

TEST(pty_is_the_controlling_terminal_with_a_size)
{
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        start_tty(&f, &r, "stty size </dev/tty; tty; [ -t 2 ] && echo err");
        EXPECT(!child_stdio(r.c, 1));
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 0);
        EXPECT_INT(strncmp(r.out[0].data, "33 101\r\n/dev/pts/", 17), 0);
        EXPECT(strstr(r.out[0].data, "\r\nerr\r\n"));
        EXPECT(r.has_ended[0]);
        proc_done(&r);
        proc_close(&f);
}

TEST(pty_resize_reaches_the_program)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        start_tty(&f, &r,
                  "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 9 & wait; done");
        proc_wait_text(&f, &r, "ready");
        EXPECT_OK(child_resize(r.c, 132, 50, &err), err);
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 0);
        EXPECT(strstr(r.out[0].data, "50 132"));
        proc_done(&r);
        proc_close(&f);
}

TEST(pty_finish_types_end_of_file)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        start_tty(&f, &r, "exec cat");
        EXPECT_OK(stream_write_bytes(child_stdio(r.c, 0), "line\n", 5, &err), err);
        stream_finish(child_stdio(r.c, 0));
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.sig, 0);
        EXPECT_INT(r.code, 0);
        EXPECT_STR(r.out[0].data, "line\r\nline\r\n");
        proc_done(&r);
        proc_close(&f);
}

/* It closes its descriptors, lives on, and is not hung up upon. */
TEST(pty_program_may_close_its_terminal_before_it_exits)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        start_tty(&f, &r,
                  "trap 'exit 8' USR1; echo ready; exec <&- >&- 2>&-; "
                  "while :; do sleep 9 & wait; done");
        proc_wait_text(&f, &r, "ready");
        EXPECT(loop_run_until(f.loop, &r.has_ended[0], PROC_WAIT_MS));
        EXPECT_OK(child_resize(r.c, 90, 20, &err), err);
        EXPECT_OK(child_signal(r.c, SIGUSR1, &err), err);
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.sig, 0);
        EXPECT_INT(r.code, 8);
        proc_done(&r);
        proc_close(&f);
}

TEST(pty_close_hangs_up)
{
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        start_tty(&f, &r, "echo ready; exec sleep 1000");
        proc_wait_text(&f, &r, "ready");
        stream_close(child_stdio(r.c, 0));
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.sig, SIGHUP);
        proc_done(&r);
        proc_close(&f);
}

TEST(child_resize_needs_a_terminal)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, &r, ":");
        EXPECT_ERR(child_resize(r.c, 80, 24, &err), ERR_INVALID, err);
        proc_wait_exit(&f, &r);
        proc_done(&r);
        proc_close(&f);
}

TEST(child_signal_goes_to_the_group_until_it_exits)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, &r,
                "trap 'exit 5' USR1; echo ready; while :; do sleep 9 >&- 2>&- & wait; done");
        proc_wait_text(&f, &r, "ready");
        EXPECT_ERR(child_signal(r.c, 999, &err), ERR_INVALID, err);
        EXPECT_OK(child_signal(r.c, SIGUSR1, &err), err);
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 5);
        EXPECT_ERR(child_signal(r.c, SIGUSR1, &err), ERR_CONFLICT, err);
        proc_done(&r);
        proc_close(&f);
}

TEST(child_exit_waits_for_a_paused_owner)
{
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, &r, "head -c 60000 /dev/zero");
        stream_pause(child_stdio(r.c, 1), true);
        proc_spin(&f, 350); /* longer than output is waited for otherwise */
        EXPECT(!r.has_exited);
        EXPECT_INT(r.out[1].len, 0);
        stream_pause(child_stdio(r.c, 1), false);
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.out_at_exit, 60000);
        proc_done(&r);
        proc_close(&f);
}

TEST(child_whose_output_nobody_reads_still_exits)
{
        const char *argv[] = { "/bin/sh", "-c", "echo ignored; exit 4", NULL };
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        proc_start(&f, &r, &(struct child_spec) { .argv = argv, .stdio = STDIO_PIPE });
        stream_set_sink(child_stdio(r.c, 1), NULL, NULL);
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 4);
        proc_done(&r);
        proc_close(&f);
}

TEST(child_stream_may_be_let_go_early)
{
        struct proc_fixture f;
        struct proc_run r;

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, &r, "head -c 300000 /dev/zero; exit 6");
        (void) stream_free(child_stdio(r.c, 1));
        proc_wait_exit(&f, &r);
        EXPECT_INT(r.code, 6);
        EXPECT_INT(r.out[1].len, 0);
        proc_done(&r);
        proc_close(&f);
}

TEST(two_hundred_children_run_at_once)
{
        enum { N = 200 };
        static struct proc_run runs[N];
        struct proc_fixture f;

        proc_open(&f, CONTAIN_BEST);
        for (int i = 0; i < N; i++) {
                char script[64];

                (void) snprintf(script, sizeof(script), "read x; echo out $x; exit %d", i);
                proc_sh(&f, &runs[i], script);
        }
        EXPECT_INT(supervisor_n_children(f.sup), N);
        for (int i = 0; i < N; i++)
                EXPECT(stream_write_bytes(child_stdio(runs[i].c, 0), "go\n", 3, NULL) > 0);
        for (int i = 0; i < N; i++) {
                proc_wait_exit(&f, &runs[i]);
                EXPECT_INT(runs[i].code, i);
                EXPECT_STR(runs[i].out[1].data, "out go\n");
                proc_done(&runs[i]);
        }
        EXPECT_INT(supervisor_n_children(f.sup), 0);
        proc_close(&f);
}

static void free_in_callback(void *arg, struct child *c, int code, int sig)
{
        *(bool *) arg = true;
        (void) child_free(c);
}

TEST(child_may_be_freed_in_its_last_callback)
{
        const char *argv[] = { "true", NULL };
        const struct child_cb cb = { .on_exit = free_in_callback };
        struct error err = {};
        struct proc_fixture f;
        bool is_over = false;
        struct child *c;

        proc_open(&f, CONTAIN_BEST);
        EXPECT_OK(supervisor_spawn(f.sup, &(struct child_spec) { .argv = argv }, &cb, &is_over, &c,
                                   &err),
                  err);
        EXPECT(loop_run_until(f.loop, &is_over, PROC_WAIT_MS));
        proc_close(&f);
}

TEST(child_outlives_its_supervisor_as_a_shell)
{
        struct proc_fixture f;
        struct proc_run r;
        struct error err = {};

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, &r, "exec sleep 1000");
        proc_close(&f);
        EXPECT_INT(child_state(r.c), CHILD_EXITED);
        EXPECT(!child_stdio(r.c, 1));
        EXPECT_ERR(child_signal(r.c, SIGTERM, &err), ERR_CONFLICT, err);
        child_stop(r.c, 10);
        EXPECT_INT(r.n_exits, 0);
        proc_done(&r);
}
