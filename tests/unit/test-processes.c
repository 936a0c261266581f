#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test-processes.h"

static struct process_info info_of(struct process *p)
{
        struct process_info i;

        process_info(p, &i);
        return i;
}

TEST(process_record_tells_its_story)
{
        const char *args[] = { "-c", "echo out; echo err >&2; exit 5" };
        struct process_spec spec = { .command = "sh", .args = args, .n_args = 2, .cwd = "/tmp" };
        struct table_fixture f;
        struct process *p, *found;
        struct process_info i;
        struct error err = {};

        table_open(&f);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        i = info_of(p);
        EXPECT_STR(i.id, "proc_1");
        EXPECT_STR(i.command, "sh");
        EXPECT_INT(i.n_args, 2);
        EXPECT_STR(i.args[1], args[1]);
        EXPECT_STR(i.cwd, "/tmp");
        EXPECT(i.is_running && !i.is_tty && i.pid > 0 && i.created_ms > 0);
        table_wait(&f, p);
        i = info_of(p);
        EXPECT(!i.is_running);
        EXPECT_INT(i.exit_code, 5);
        EXPECT_INT(i.exit_signal, 0);
        EXPECT(i.exited_ms >= i.created_ms);
        EXPECT_STR(table_log(p, LOG_STDOUT), "out\n");
        EXPECT_STR(table_log(p, LOG_STDERR), "err\n");
        EXPECT_OK(process_find(f.t, "proc_1", &found, &err), err);
        EXPECT(found == p);
        table_wait(&f, p); /* also one who comes late is told */
        EXPECT_OK(process_delete(p, &err), err);
        EXPECT_ERR(process_find(f.t, "proc_1", &found, &err), ERR_NOT_FOUND, err);
        EXPECT_STR(err.msg, "process proc_1");
        table_close(&f);
}

TEST(process_ids_are_found_exactly)
{
        static const char *const wrong[] = {
                "",        "proc_",  "proc_0", "proc_3",  "proc_01",
                "proc_1 ", "PROC_1", "1",      "proc_-1", "proc_99999999999999999999999"
        };
        struct table_fixture f;
        struct process *p, *q, *found;
        struct error err = {};

        table_open(&f);
        p = table_sh(&f, "true");
        q = table_sh(&f, "true");
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                EXPECT_ERR(process_find(f.t, wrong[i], &found, &err), ERR_NOT_FOUND, err);
        EXPECT_OK(process_find(f.t, "proc_2", &found, &err), err);
        EXPECT(found == q && processes_at(f.t, 0) == p && processes_at(f.t, 1) == q);
        EXPECT(!processes_at(f.t, 2));
        table_wait(&f, p);
        EXPECT_OK(process_delete(p, &err), err);
        EXPECT(processes_at(f.t, 0) == q && !processes_at(f.t, 1));
        EXPECT_OK(process_find(f.t, "proc_2", &found, &err), err);
        table_close(&f);
}

TEST(process_failure_to_start_takes_a_number)
{
        struct process_spec spec = { .command = "/no/such/program" }, blank = { .command = " \t" };
        struct table_fixture f;
        struct process *p = NULL;
        struct error err = {};

        table_open(&f);
        EXPECT_ERR(process_create(f.t, &blank, &p, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "command must not be empty");
        EXPECT_ERR(process_create(f.t, &spec, &p, &err), ERR_UPSTREAM, err);
        EXPECT_STR(err.msg,
                   "failed to spawn process: run '/no/such/program': No such file or directory");
        spec = (struct process_spec) { .command = "true", .cwd = "/no/such/dir" };
        EXPECT_ERR(process_create(f.t, &spec, &p, &err), ERR_UPSTREAM, err);
        spec = (struct process_spec) { .command = "true", .n_args = PROCESS_ARGS_MAX + 1 };
        EXPECT_ERR(process_create(f.t, &spec, &p, &err), ERR_INVALID, err);
        p = table_sh(&f, "true");
        EXPECT_STR(info_of(p).id, "proc_3");
        table_close(&f);
}

TEST(process_environment_is_ours_without_the_token)
{
        static const char *const env[] = { "A_OURS=changed", "A_NEW=new" };
        const char *args[] = { "-c", "echo $A_KEPT.$A_OURS.$A_NEW.$SANDBOX_AGENT_TOKEN.$TERM" };
        struct process_spec spec = {
                .command = "sh", .args = args, .n_args = 2, .env = env, .n_env = 2
        };
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        (void) setenv("A_KEPT", "kept", 1);
        (void) setenv("A_OURS", "old", 1);
        (void) setenv("SANDBOX_AGENT_TOKEN", "secret", 1);
        (void) unsetenv("TERM");
        table_open(&f);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        table_wait(&f, p);
        EXPECT_STR(table_log(p, LOG_STDOUT), "kept.changed.new..\n");
        spec.is_tty = true;
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        table_wait(&f, p);
        EXPECT_STR(table_log(p, LOG_PTY), "kept.changed.new..xterm-256color\r\n");
        (void) setenv("TERM", "vt100", 1);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        table_wait(&f, p);
        EXPECT_STR(table_log(p, LOG_PTY), "kept.changed.new..vt100\r\n");
        table_close(&f);
        (void) unsetenv("SANDBOX_AGENT_TOKEN");
        (void) unsetenv("TERM");
}

TEST(process_limit_is_exact_and_counts_runs)
{
        struct process_config c = process_config_default;
        struct run_spec run = { .process.command = "cat" };
        struct process_spec spec = { .command = "cat" };
        struct process_run *r;
        struct process *p, *q;
        struct table_fixture f;
        struct error err = {};
        const char *sleep_args[] = { "60" };

        c.max_concurrent = 2;
        run.process = (struct process_spec) { .command = "sleep", .args = sleep_args, .n_args = 1 };
        table_open(&f);
        EXPECT_OK(processes_configure(f.t, &c, &err), err);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        EXPECT_OK(process_run(f.t, &run, NULL, NULL, &r, &err), err);
        EXPECT_ERR(process_create(f.t, &spec, &q, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "max concurrent process limit reached (2)");
        run_cancel(r);
        EXPECT_OK(process_create(f.t, &spec, &q, &err), err);
        EXPECT_ERR(process_run(f.t, &run, NULL, NULL, &r, &err), ERR_CONFLICT, err);
        process_kill(p);
        table_wait(&f, p);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        EXPECT_STR(info_of(p).id, "proc_3"); /* a refusal took no number */
        table_close(&f);
}

TEST(process_config_is_all_or_nothing)
{
        struct process_config c = process_config_default, bad;
        struct table_fixture f;
        struct error err = {};

        table_open(&f);
        bad = c, bad.max_concurrent = 0;
        EXPECT_ERR(processes_configure(f.t, &bad, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "maxConcurrentProcesses must be greater than 0");
        bad = c, bad.max_run_ms = 0;
        EXPECT_ERR(processes_configure(f.t, &bad, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "timeouts must be greater than 0");
        bad = c, bad.max_input_bytes = 0;
        EXPECT_ERR(processes_configure(f.t, &bad, &err), ERR_INVALID, err);
        EXPECT_STR(err.msg, "byte limits must be greater than 0");
        bad = c, bad.max_log_bytes = (uint64_t) PROCESS_CONFIG_BYTES_MAX + 1;
        EXPECT_ERR(processes_configure(f.t, &bad, &err), ERR_INVALID, err);
        EXPECT_MEM(processes_config(f.t), &process_config_default, sizeof(c));
        c.max_log_bytes = PROCESS_CONFIG_BYTES_MAX;
        c.max_run_ms = 10;
        EXPECT_OK(processes_configure(f.t, &c, &err), err);
        EXPECT_INT(processes_config(f.t)->default_run_ms, 10); /* lowered to the maximum */
        table_close(&f);
}

static const char zeros[64 * 1024 + 1]; /* one more than may be written at once */

TEST(process_reads_its_input_until_it_is_closed)
{
        struct process_spec spec = { .command = "cat" };
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        table_open(&f);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        EXPECT_OK(process_input(p, "one\n", 4, &err), err);
        EXPECT_OK(process_input(p, "", 0, &err), err);
        table_wait_log(&f, p, LOG_STDOUT, "one\n");
        EXPECT_ERR(process_input(p, zeros, sizeof(zeros), &err), ERR_TOO_BIG, err);
        EXPECT_STR(err.msg, "input payload exceeds maxInputBytesPerRequest (65536)");
        EXPECT_OK(process_input(p, "two\n", 4, &err), err);
        EXPECT_OK(process_close_input(p, &err), err);
        EXPECT_ERR(process_input(p, "x", 1, &err), ERR_CONFLICT, err);
        EXPECT_ERR(process_close_input(p, &err), ERR_CONFLICT, err);
        table_wait(&f, p);
        EXPECT_INT(info_of(p).exit_code, 0);
        EXPECT_STR(table_log(p, LOG_STDOUT), "one\ntwo\n");
        EXPECT_ERR(process_input(p, "x", 1, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "process is not running");
        table_close(&f);
}

TEST(process_that_does_not_read_is_not_fed_for_ever)
{
        struct table_fixture f;
        struct process *p;
        struct error err = {};
        int n = 0;

        table_open(&f);
        p = table_sh(&f, "sleep 60");
        while (process_input(p, zeros, sizeof(zeros) - 1, &err) >= 0)
                EXPECT(++n < 100);
        EXPECT_INT(err.kind, ERR_BUSY);
        EXPECT(n >= 17 && n <= 19); /* 1 MiB, the one over it, and what the pipe took */
        table_close(&f);
}

TEST(process_that_closed_its_input_says_so)
{
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        table_open(&f);
        p = table_sh(&f, "exec 0<&-; echo closed; sleep 60");
        table_wait_log(&f, p, LOG_STDOUT, "closed");
        for (int i = 0; process_input(p, "x", 1, &err) >= 0; i++) {
                EXPECT(i < 1000);
                proc_spin(&f.base, 1);
        }
        EXPECT_INT(err.kind, ERR_CONFLICT);
        EXPECT_STR(err.msg, "process input is closed");
        table_close(&f);
}

TEST(process_with_a_terminal_is_resized_and_ends_with_its_output)
{
        const char *args[] = { "-c", "stty size; read x; stty size; printf end" };
        struct process_spec spec = { .command = "sh", .args = args, .n_args = 2, .is_tty = true };
        struct table_fixture f;
        struct process *p, *plain;
        struct error err = {};

        table_open(&f);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        table_wait_log(&f, p, LOG_PTY, "24 80\r\n");
        EXPECT_OK(process_resize(p, 101, 33, &err), err);
        EXPECT_INT(info_of(p).cols, 101);
        EXPECT_OK(process_input(p, "\n", 1, &err), err);
        table_wait(&f, p);
        EXPECT(strstr(table_log(p, LOG_PTY), "33 101\r\nend"));
        EXPECT_STR(table_log(p, LOG_STDOUT), "");
        EXPECT_ERR(process_resize(p, 1, 1, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "PTY resize handle unavailable");
        plain = table_sh(&f, "true");
        EXPECT_ERR(process_resize(plain, 1, 1, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "process is not running in tty mode");
        table_close(&f);
}

/* ---- endings ---- */

static pid_t pid_in_log(struct table_fixture *f, struct process *p)
{
        table_wait_log(f, p, LOG_STDOUT, "\n");
        return (pid_t) strtol(table_log(p, LOG_STDOUT), NULL, 10);
}

TEST(process_stop_reaches_the_whole_tree)
{
        struct table_fixture f;
        struct process *p;
        pid_t kid;

        table_open(&f);
        p = table_sh(&f, "setsid sh -c 'echo $$; exec sleep 60' & wait");
        kid = pid_in_log(&f, p);
        process_stop(p);
        table_wait(&f, p);
        EXPECT_INT(info_of(p).exit_signal, SIGTERM);
        EXPECT_INT(info_of(p).exit_code, -1);
        proc_wait_dead(&f.base, kid);
        table_close(&f);
}

TEST(process_stop_does_not_escalate_but_kill_does)
{
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        table_open(&f);
        p = table_sh(&f, "trap 'echo heard' TERM; echo ready; while :; do read x; done");
        table_wait_log(&f, p, LOG_STDOUT, "ready");
        process_stop(p);
        table_wait_log(&f, p, LOG_STDOUT, "heard");
        EXPECT(info_of(p).is_running);
        EXPECT_ERR(process_delete(p, &err), ERR_CONFLICT, err);
        EXPECT_STR(err.msg, "process is still running; stop or kill it before delete");
        process_kill(p);
        table_wait(&f, p);
        EXPECT_INT(info_of(p).exit_signal, SIGKILL);
        process_stop(p); /* no-ops now */
        process_kill(p);
        EXPECT_OK(process_delete(p, &err), err);
        table_close(&f);
}

/* Deaf to TERM, holds no output, and in a session of its own. */
#define DEAF_DAEMON                                                                                \
        "setsid sh -c 'trap \"\" TERM; echo $$; exec >/dev/null 2>&1; while :; do sleep 1; done' "

TEST(process_background_lives_until_the_record_goes)
{
        struct table_fixture f;
        struct process *p;
        struct error err = {};
        pid_t kid;

        table_open(&f);
        p = table_sh(&f, DEAF_DAEMON "& read x; exit 0");
        kid = pid_in_log(&f, p);
        EXPECT_OK(process_close_input(p, &err), err);
        table_wait(&f, p);
        EXPECT(proc_is_alive(kid));
        EXPECT_OK(process_delete(p, &err), err);
        proc_wait_dead(&f.base, kid);
        table_close(&f);
}

TEST(process_background_ends_soon_after_a_stop)
{
        struct table_fixture f;
        struct process *p;
        pid_t kid;

        table_open(&f);
        p = table_sh(&f, DEAF_DAEMON "& read x");
        kid = pid_in_log(&f, p);
        process_stop(p);
        table_wait(&f, p);
        EXPECT(proc_is_alive(kid)); /* it has its grace */
        process_kill(p);            /* and who is impatient says so */
        proc_wait_dead(&f.base, kid);
        table_close(&f);
}

TEST(process_table_goes_with_everything_in_it)
{
        struct table_waiter w = { .w.fn = table_told };
        struct table_fixture f;

        table_open(&f);
        (void) table_sh(&f, "sleep 60");
        process_wait(table_sh(&f, "setsid sleep 60 & sleep 60"), &w.w);
        table_close(&f);
        EXPECT(!w.is_told);
        process_unwait(&w.w);
}

TEST(process_waiter_may_leave)
{
        struct table_waiter w = { .w.fn = table_told };
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        table_open(&f);
        p = table_sh(&f, "true");
        process_wait(p, &w.w);
        process_unwait(&w.w);
        process_unwait(&w.w);
        table_wait(&f, p);
        EXPECT(!w.is_told);
        process_wait(p, &w.w); /* and is told even if the record goes in the same moment */
        EXPECT_OK(process_delete(p, &err), err);
        EXPECT(loop_run_until(f.base.loop, &w.is_told, PROC_WAIT_MS));
        table_close(&f);
}

/* ---- records of the dead ---- */

TEST(process_records_are_evicted_oldest_end_first)
{
        struct table_fixture f;
        struct process *first, *found;
        struct processes_stats s;
        struct error err = {};

        table_open(&f);
        first = table_sh(&f, "read x"); /* proc_1 ends last */
        for (int i = 0; i < PROCESSES_FINISHED_MAX; i++)
                table_wait(&f, table_sh(&f, "exit 0"));
        EXPECT_OK(process_find(f.t, "proc_2", &found, &err), err);
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_finished, PROCESSES_FINISHED_MAX);
        EXPECT_INT(s.n_running, 1);
        EXPECT_OK(process_close_input(first, &err), err);
        table_wait(&f, first);
        EXPECT_ERR(process_find(f.t, "proc_2", &found, &err), ERR_NOT_FOUND, err);
        EXPECT_OK(process_find(f.t, "proc_3", &found, &err), err);
        EXPECT_OK(process_find(f.t, "proc_1", &found, &err), err);
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_finished, PROCESSES_FINISHED_MAX);
        EXPECT_INT(s.n_started, PROCESSES_FINISHED_MAX + 1);
        table_close(&f);
}

TEST(process_records_are_evicted_by_bytes_too)
{
        struct process_config c = process_config_default;
        struct table_fixture f;
        struct process *found;
        struct processes_stats s;
        struct error err = {};

        table_open(&f);
        c.max_log_bytes = PROCESSES_FINISHED_BYTES;
        EXPECT_OK(processes_configure(f.t, &c, &err), err);
        table_wait(&f, table_sh(&f, "head -c 40000000 /dev/zero"));
        table_wait(&f, table_sh(&f, "head -c 20000000 /dev/zero"));
        EXPECT_OK(process_find(f.t, "proc_1", &found, &err), err);
        table_wait(&f, table_sh(&f, "head -c 30000000 /dev/zero"));
        EXPECT_ERR(process_find(f.t, "proc_1", &found, &err), ERR_NOT_FOUND, err);
        EXPECT_OK(process_find(f.t, "proc_2", &found, &err), err);
        processes_stats(f.t, &s);
        EXPECT_INT(s.log_bytes, 50000000);
        table_close(&f);
}

TEST(process_cycles_leave_nothing)
{
        struct table_fixture f;
        struct processes_stats s;
        struct error err = {};

        table_open(&f);
        for (int i = 0; i < 200; i++) {
                struct process *p = table_sh(&f, "echo hello");

                table_wait(&f, p);
                EXPECT_OK(process_delete(p, &err), err);
        }
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_finished + s.n_running + s.n_runs + s.log_bytes, 0);
        EXPECT_INT(s.n_started, 200);
        table_close(&f);
}
