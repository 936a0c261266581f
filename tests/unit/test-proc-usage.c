#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "test-proc.h"
#include "test.h"

static const enum contain_mode all_modes[] = { CONTAIN_CGROUP2, CONTAIN_CGROUP1,
                                               CONTAIN_SUBREAPER };

static bool can(enum contain_mode mode)
{
        struct loop *l = loop_new();
        struct supervisor *s = supervisor_new_with(l, mode, NULL);
        bool is_ok = s != NULL;

        (void) supervisor_free(s);
        (void) loop_free(l);
        return is_ok;
}

static void each_mode(void (*fn)(struct proc_fixture *f))
{
        for (size_t i = 0; i < ARRAY_LEN(all_modes); i++) {
                struct proc_fixture f;

                if (!can(all_modes[i]))
                        continue;
                proc_open(&f, all_modes[i]);
                fn(&f);
                proc_close(&f);
        }
}

static void check_tree(struct proc_fixture *f)
{
        struct child_usage u;
        struct proc_run r;

        proc_sh(f, &r, "setsid sleep 60 & echo up; cat; exit 0"); /* three of them */
        proc_wait_text(f, &r, "up");
        for (int ms = 0;; ms++) {
                child_usage(r.c, &u);
                if (u.n_processes == 3)
                        break;
                EXPECT(ms < PROC_WAIT_MS);
                proc_spin(f, 1);
        }
        EXPECT(u.rss_bytes > 100 * 1024 && u.rss_bytes < 100 * 1024 * 1024);
        EXPECT(u.peak_rss_bytes >= u.rss_bytes);
        proc_done(&r);
}

TEST(usage_adds_up_the_tree)
{
        each_mode(check_tree);
}

static void check_exit(struct proc_fixture *f)
{
        struct child_usage u;
        struct proc_run r;

        /* A buffer of 20 MB, filled once: in dd, which the shell waits for. */
        proc_sh(f, &r, "dd if=/dev/zero of=/dev/null bs=20M count=1 2>/dev/null; exit 0");
        proc_wait_exit(f, &r);
        child_usage(r.c, &u);
        EXPECT_INT(u.n_processes, 0);
        EXPECT_INT(u.rss_bytes, 0);
        EXPECT(u.peak_rss_bytes >= 20 * 1024 * 1024);
        EXPECT(u.cpu_user_us + u.cpu_system_us > 0);
        EXPECT(u.cpu_user_us + u.cpu_system_us < 10 * 1000 * 1000);
        proc_done(&r);
}

TEST(usage_after_the_exit_is_what_the_child_used)
{
        each_mode(check_exit);
}

static void check_ask(struct proc_fixture *f)
{
        struct proc_run r;

        proc_sh(f, &r,
                "trap 'echo heard' TERM; setsid sh -c 'trap \"echo kid heard; exit\" TERM; "
                "echo kid up; while :; do sleep 0.01; done' & "
                "while [ -d / ]; do wait; sleep 0.01; done");
        proc_wait_text(f, &r, "kid up");
        child_ask_to_end(r.c);
        proc_wait_text(f, &r, "kid heard");
        proc_wait_text(f, &r, "\nheard");
        EXPECT(!r.has_exited); /* nobody is killed, nothing changes state */
        EXPECT_INT(child_state(r.c), CHILD_RUNNING);
        proc_done(&r);
}

TEST(asking_to_end_reaches_the_tree_and_kills_nobody)
{
        each_mode(check_ask);
}

static void check_leader(struct proc_fixture *f)
{
        const char *argv[] = { "/bin/sh", "-c", "setsid sleep 60 & echo $!; cat; exit 4", NULL };
        struct proc_run r;

        proc_start(f, &r,
                   &(struct child_spec) { .argv = argv,
                                          .stdio = STDIO_PIPE,
                                          .no_stdin = true,
                                          .ends_with_leader = true });
        EXPECT(!child_stdio(r.c, 0));
        proc_wait_exit(f, &r);
        EXPECT_INT(r.code, 4);
        EXPECT(!proc_is_alive((pid_t) strtol(r.out[1].data, NULL, 10)));
        proc_done(&r);
}

TEST(tree_that_ends_with_its_leader_does_so_at_once)
{
        each_mode(check_leader);
}

TEST(usage_that_took_long_to_find_is_not_looked_for_at_once_again)
{
        struct proc_fixture f;
        struct proc_run r;
        struct child_usage u;

        proc_open(&f, CONTAIN_BEST);
        proc_sh(&f, &r, "read x");
        child_usage(r.c, &u);
        EXPECT_INT(u.n_processes, 1);
        EXPECT(r.c->usage_until_us > clock_mono_us() - 1000 * 1000);
        r.c->usage.n_processes = 77;
        r.c->usage_until_us = INT64_MAX;
        child_usage(r.c, &u);
        EXPECT_INT(u.n_processes, 77);
        r.c->usage_until_us = clock_mono_us();
        child_usage(r.c, &u);
        EXPECT_INT(u.n_processes, 1);
        proc_done(&r);
        proc_close(&f);
}
