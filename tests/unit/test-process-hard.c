/* Processes at their limits: memory of tiny pieces, readers that come, pause, leave and go at
 * random, calls from inside callbacks. */
#include <stdlib.h>
#include <string.h>

#include "core/process_impl.h"
#include "test-processes.h"

enum { OUT = 1u << LOG_STDOUT, ERR = 1u << LOG_STDERR };

/* ---- memory ---- */

static void end_with_tiny_entries(struct table_fixture *f, size_t n)
{
        struct process *p = table_sh(f, "read x");
        struct error err = {};

        for (size_t i = 0; i < n; i++)
                logring_append(process_log(p), LOG_STDOUT, 0, "x", 1);
        EXPECT_OK(process_close_input(p, &err), err);
        table_wait(f, p);
}

TEST(process_records_of_tiny_pieces_count_for_what_they_cost)
{
        const size_t n = process_config_default.max_log_bytes / LOGRING_ENTRY_COST;
        const size_t most = PROCESSES_FINISHED_BYTES / (n * (LOGRING_ENTRY_COST + 1));
        struct processes_stats s;
        struct table_fixture f;

        table_open(&f);
        for (size_t i = 0; i < most + 3; i++)
                end_with_tiny_entries(&f, n);
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_finished, most);
        table_close(&f);
}

TEST(process_records_count_their_arguments)
{
        enum { TEXT = 100 * 1000, N = 12 };
        static char text[TEXT + 1];
        const char *args[N + 2] = { "-c", "exit 0" };
        struct process_spec spec = { .command = "sh", .args = args, .n_args = N + 2 };
        const size_t most = PROCESSES_FINISHED_BYTES / (N * TEXT);
        struct processes_stats s;
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        table_open(&f);
        memset(text, 'x', TEXT);
        for (size_t i = 0; i < N; i++)
                args[i + 2] = text;
        for (size_t i = 0; i < most + 3; i++) {
                EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
                table_wait(&f, p);
        }
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_finished, most);
        table_close(&f);
}

TEST(process_records_count_for_less_once_the_limit_is_lower)
{
        struct process_config c = process_config_default;
        struct table_fixture f;
        struct error err = {};

        table_open(&f);
        end_with_tiny_entries(&f, 100 * 1000);
        EXPECT(f.t->finished_bytes > 100 * 1000 * LOGRING_ENTRY_COST);
        c.max_log_bytes = 1;
        EXPECT_OK(processes_configure(f.t, &c, &err), err);
        EXPECT(f.t->finished_bytes < 1000);
        EXPECT_OK(process_delete(processes_at(f.t, 0), &err), err);
        EXPECT_INT(f.t->finished_bytes, 0);
        table_close(&f);
}

TEST(process_with_a_terminal_is_not_fed_ends_of_file_for_ever)
{
        static char zeros[64 * 1024];
        const char *args[] = { "-c", "stty raw -echo; echo ready; exec sleep 60" };
        struct process_spec spec = { .command = "sh", .args = args, .n_args = 2, .is_tty = true };
        struct table_fixture f;
        struct process *p;
        struct error err = {};

        table_open(&f);
        EXPECT_OK(process_create(f.t, &spec, &p, &err), err);
        table_wait_log(&f, p, LOG_PTY, "ready");
        EXPECT_OK(process_close_input(p, &err), err);
        while (process_input(p, zeros, sizeof(zeros), &err) >= 0)
                ;
        EXPECT_INT(err.kind, ERR_BUSY);
        EXPECT_ERR(process_close_input(p, &err), ERR_BUSY, err);
        table_close(&f);
}

/* ---- from inside callbacks ---- */

struct late {
        struct process_run *run;
        bool is_done;
};

static void cancel_late(void *arg, const struct run_result *res)
{
        struct late *l = arg;

        run_cancel(l->run);
        l->is_done = true;
}

TEST(run_may_be_cancelled_when_it_is_done)
{
        struct run_spec spec = { .process.command = "true" };
        struct processes_stats s;
        struct table_fixture f;
        struct late l = {};
        struct error err = {};

        table_open(&f);
        EXPECT_OK(process_run(f.t, &spec, cancel_late, &l, &l.run, &err), err);
        EXPECT(loop_run_until(f.base.loop, &l.is_done, PROC_WAIT_MS));
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_runs, 0);
        table_close(&f);
}

struct deleter {
        struct process_reader *r;
        struct process *p;
        int n_ready;
        bool has_ended;
};

static void delete_it(void *arg)
{
        struct deleter *d = arg;
        struct log_entry e;
        struct log_gap g;
        struct error err = {};

        d->n_ready++;
        if (d->p && process_delete(d->p, &err) == 0)
                d->p = NULL;
        while (reader_next(d->r, &e, &g) == READER_ENTRY)
                ;
        d->has_ended = reader_next(d->r, &e, &g) == READER_END;
        if (d->has_ended)
                d->r = reader_free(d->r);
}

TEST(process_may_be_deleted_by_its_reader)
{
        static const struct process_reader_cb cb = { delete_it };
        struct table_fixture f;
        struct deleter d = {};
        struct processes_stats s;

        table_open(&f);
        d.p = table_sh(&f, "seq 1000");
        d.r = process_read(d.p, OUT, 0, -1, &cb, &d);
        EXPECT(loop_run_until(f.base.loop, &d.has_ended, PROC_WAIT_MS));
        proc_spin(&f.base, 2);
        EXPECT(!d.r);
        processes_stats(f.t, &s);
        EXPECT_INT(s.n_finished + s.n_running, 0);
        table_close(&f);
}

/* ---- a gap is never swallowed ---- */

struct counter {
        struct process_reader *r;
        uint64_t n_bytes, n_missed;
        bool has_ended, is_idle;
};

static void count_all(void *arg)
{
        struct counter *c = arg;
        struct log_entry e;
        struct log_gap g;

        while (!c->is_idle) {
                switch (reader_next(c->r, &e, &g)) {
                case READER_WAIT: return;
                case READER_END: c->has_ended = true; return;
                case READER_GAP: c->n_missed += g.n_bytes; break;
                case READER_ENTRY: c->n_bytes += e.data->len; break;
                }
        }
}

static const struct process_reader_cb counting = { count_all };

TEST(reader_of_an_emptied_ring_is_told_what_it_missed)
{
        struct process_config config = process_config_default;
        struct table_fixture f;
        struct counter c = {};
        struct process *p;
        struct error err = {};

        table_open(&f);
        p = table_sh(&f, "printf 12345; read x; echo other >&2; read x");
        table_wait_log(&f, p, LOG_STDOUT, "12345");
        config.max_log_bytes = 1;
        EXPECT_OK(processes_configure(f.t, &config, &err), err);
        EXPECT_INT(logring_bytes(process_log(p)), 0);
        c.r = process_read(p, OUT, 0, -1, &counting, &c);
        EXPECT_OK(process_input(p, "\n", 1, &err), err);
        for (int ms = 0; logring_last(process_log(p)) < 2; ms++) {
                EXPECT(ms < PROC_WAIT_MS);
                proc_spin(&f.base, 1);
        }
        EXPECT_OK(process_close_input(p, &err), err);
        EXPECT(loop_run_until(f.base.loop, &c.has_ended, PROC_WAIT_MS));
        EXPECT_INT(c.n_missed, 5);
        c.r = reader_free(c.r);
        table_close(&f);
}

/* ---- readers at random ---- */

enum { READERS = 6, TOTAL = 3 * 1000 * 1000 };

static void toggle(struct counter *c, struct process *p, unsigned dice)
{
        if (!c->r && !c->has_ended) {
                c->r = process_read(p, dice & 8 ? OUT : OUT | ERR, 0, -1, &counting, c);
        } else if (c->r && dice % 8 == 0) {
                c->r = reader_free(c->r); /* while it may be the one that brakes */
                *c = (struct counter) {};
        } else if (c->r) {
                c->is_idle = dice & 1;
                count_all(c);
        }
}

/* Whatever the readers do, the process gets to its end, and who stays until then has seen or been
 * told every byte. */
TEST(readers_at_random_neither_block_nor_lose)
{
        struct process_config config = process_config_default;
        struct counter c[READERS] = {};
        struct table_fixture f;
        unsigned seed = 12345;
        struct process *p;
        struct error err = {};

        table_open(&f);
        f.t->stall_ms = 5;
        config.max_log_bytes = 64 * 1024;
        EXPECT_OK(processes_configure(f.t, &config, &err), err);
        p = table_sh(&f, "head -c 3000000 /dev/zero; echo over >&2");
        for (int ms = 0; p->info.is_running; ms++) {
                EXPECT(ms < PROC_WAIT_MS);
                for (int i = 0; i < 4; i++) {
                        seed = seed * 1103515245 + 12345;
                        toggle(&c[(seed >> 16) % READERS], p, seed >> 20);
                }
                EXPECT(logring_bytes(process_log(p)) < 4 * 64 * 1024);
                proc_spin(&f.base, 1);
        }
        for (size_t i = 0; i < READERS; i++) {
                if (!c[i].r)
                        c[i].r = process_read(p, OUT, 0, -1, &counting, &c[i]);
                c[i].is_idle = false;
                count_all(&c[i]);
                EXPECT(c[i].has_ended);
                EXPECT(c[i].n_bytes + c[i].n_missed >= TOTAL);
                EXPECT(c[i].n_bytes + c[i].n_missed <= TOTAL + 5);
                c[i].r = reader_free(c[i].r);
        }
        EXPECT(!p->is_paused);
        table_close(&f);
}
