#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test-processes.h"

struct got {
        struct run_result res;
        char out[256], err[256];
        bool is_done;
        int n;
};

static void on_done(void *arg, const struct run_result *res)
{
        struct got *g = arg;

        g->res = *res;
        (void) snprintf(g->out, sizeof(g->out), "%.*s", (int) res->out.len, res->out.at);
        (void) snprintf(g->err, sizeof(g->err), "%.*s", (int) res->err.len, res->err.at);
        g->is_done = true;
        g->n++;
}

static struct process_run *start(struct table_fixture *f, struct got *g, const char *script,
                                 struct run_spec spec)
{
        const char *args[] = { "-c", script };
        struct process_run *r = NULL;
        struct error err = {};

        *g = (struct got) {};
        spec.process = (struct process_spec) { .command = "sh", .args = args, .n_args = 2 };
        EXPECT_OK(process_run(f->t, &spec, on_done, g, &r, &err), err);
        return r;
}

static void run(struct table_fixture *f, struct got *g, const char *script, struct run_spec spec)
{
        (void) start(f, g, script, spec);
        EXPECT(!g->is_done);
        EXPECT(loop_run_until(f->base.loop, &g->is_done, PROC_WAIT_MS));
}

TEST(run_returns_output_and_exit)
{
        struct table_fixture f;
        struct processes_stats s;
        struct got g;

        table_open(&f);
        run(&f, &g, "echo out; echo err >&2; exit 3", (struct run_spec) {});
        EXPECT_INT(g.res.exit_code, 3);
        EXPECT_STR(g.out, "out\n");
        EXPECT_STR(g.err, "err\n");
        EXPECT(!g.res.is_timed_out && !g.res.is_out_truncated && !g.res.is_err_truncated);
        run(&f, &g, "kill -SEGV $$", (struct run_spec) {});
        EXPECT_INT(g.res.exit_code, -1);
        EXPECT(!g.res.is_timed_out);
        run(&f, &g, "cat; echo eof", (struct run_spec) {}); /* its input is empty */
        EXPECT_STR(g.out, "eof\n");
        EXPECT_INT(g.n, 1);
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_runs, 0);
        EXPECT_INT(s.n_started, 3);
        EXPECT_INT(s.n_finished, 0); /* no records */
        table_close(&f);
}

TEST(run_keeps_the_head_and_reads_the_rest)
{
        struct run_spec spec = { .has_max_output = true, .max_output_bytes = 3 };
        struct table_fixture f;
        struct got g;

        table_open(&f);
        run(&f, &g, "printf 12; printf ab >&2", spec);
        EXPECT(!g.res.is_out_truncated && !g.res.is_err_truncated);
        run(&f, &g, "printf 123", spec);
        EXPECT(!g.res.is_out_truncated);
        EXPECT_STR(g.out, "123");
        run(&f, &g, "printf 1234; printf abc >&2", spec);
        EXPECT(g.res.is_out_truncated && !g.res.is_err_truncated);
        EXPECT_STR(g.out, "123");
        EXPECT_STR(g.err, "abc");
        run(&f, &g, "head -c 1000000 /dev/zero; echo end >&2", spec); /* must not block */
        EXPECT_INT(g.res.exit_code, 0);
        EXPECT_STR(g.err, "end");
        spec.max_output_bytes = 0;
        run(&f, &g, "true", spec);
        EXPECT(!g.res.is_out_truncated);
        run(&f, &g, "echo", spec);
        EXPECT(g.res.is_out_truncated);
        EXPECT_INT(g.res.out.len, 0);
        spec.max_output_bytes = UINT64_MAX; /* cut at the configured one */
        run(&f, &g, "head -c 1048577 /dev/zero", spec);
        EXPECT(g.res.is_out_truncated);
        EXPECT_INT(g.res.out.len, 1048576);
        table_close(&f);
}

TEST(run_times_out_with_its_whole_tree)
{
        struct table_fixture f;
        struct got g;
        pid_t kid;

        table_open(&f);
        run(&f, &g, "trap '' TERM; setsid sh -c 'echo $$; exec sleep 60' & wait",
            (struct run_spec) { .timeout_ms = 100 });
        EXPECT(g.res.is_timed_out);
        EXPECT_INT(g.res.exit_code, -1);
        EXPECT(g.res.duration_ms >= 100 && g.res.duration_ms < PROC_WAIT_MS);
        kid = (pid_t) strtol(g.out, NULL, 10); /* the output so far is there */
        EXPECT(kid > 0 && !proc_is_alive(kid));
        table_close(&f);
}

TEST(run_time_out_is_cut_at_the_maximum)
{
        struct process_config c = process_config_default;
        struct table_fixture f;
        struct error err = {};
        struct got g;

        table_open(&f);
        c.max_run_ms = 50;
        EXPECT_OK(processes_configure(f.t, &c, &err), err);
        run(&f, &g, "sleep 60", (struct run_spec) { .timeout_ms = UINT64_MAX });
        EXPECT(g.res.is_timed_out);
        run(&f, &g, "sleep 60", (struct run_spec) {}); /* the default is lowered as well */
        EXPECT(g.res.is_timed_out);
        c.max_run_ms = c.default_run_ms = UINT64_MAX;
        EXPECT_OK(processes_configure(f.t, &c, &err), err);
        run(&f, &g, "true", (struct run_spec) {});
        EXPECT(!g.res.is_timed_out);
        table_close(&f);
}

TEST(run_does_not_wait_for_the_background)
{
        struct table_fixture f;
        struct got g;
        pid_t kid;

        table_open(&f);
        run(&f, &g, "setsid sleep 60 & echo $!", (struct run_spec) {});
        EXPECT_INT(g.res.exit_code, 0);
        kid = (pid_t) strtol(g.out, NULL, 10);
        EXPECT(kid > 0 && !proc_is_alive(kid)); /* it held the output open, so it went first */
        table_close(&f);
}

TEST(run_cancelled_ends_the_tree_without_a_word)
{
        char path[] = "/tmp/sa-run-XXXXXX", script[128];
        struct table_fixture f;
        struct process_run *r;
        struct stat st = {};
        struct got g, after;
        char text[16] = "";
        int fd;

        table_open(&f);
        fd = mkstemp(path);
        EXPECT(fd >= 0);
        (void) snprintf(script, sizeof(script), "setsid sh -c 'echo $$ > %s; exec sleep 60' & wait",
                        path);
        r = start(&f, &g, script, (struct run_spec) {});
        for (int ms = 0; fstat(fd, &st) == 0 && st.st_size == 0; ms++) {
                EXPECT(ms < PROC_WAIT_MS);
                proc_spin(&f.base, 1);
        }
        run_cancel(r);
        EXPECT(pread(fd, text, sizeof(text) - 1, 0) > 0);
        proc_wait_dead(&f.base, (pid_t) strtol(text, NULL, 10));
        run(&f, &after, "true", (struct run_spec) {});
        EXPECT(!g.is_done);
        (void) close(fd);
        (void) unlink(path);
        table_close(&f);
}

TEST(run_goes_with_the_table)
{
        struct table_fixture f;
        struct got g;

        table_open(&f);
        (void) start(&f, &g, "sleep 60", (struct run_spec) {});
        table_close(&f);
        EXPECT(!g.is_done);
}
