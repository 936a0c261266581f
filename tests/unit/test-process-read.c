#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/process_impl.h"
#include "test-processes.h"

enum { OUT = 1u << LOG_STDOUT, ERR = 1u << LOG_STDERR, BOTH = OUT | ERR };

/* A reader that pulls all there is, whenever it is told; or nothing, while `is_idle`. */
struct pull {
        struct process_reader *r;
        uint64_t n_bytes, n_gaps, n_missed, last;
        bool is_idle, has_ended, was_called, is_out_of_order;
};

static void pull_all(struct pull *u)
{
        struct log_entry e;
        struct log_gap g;

        for (;;) {
                switch (reader_next(u->r, &e, &g)) {
                case READER_WAIT: return;
                case READER_END: u->has_ended = true; return;
                case READER_GAP:
                        u->is_out_of_order |= g.from != u->last + 1;
                        u->last = g.to;
                        u->n_gaps++;
                        u->n_missed += g.n_bytes;
                        break;
                case READER_ENTRY:
                        u->is_out_of_order |= e.seq <= u->last;
                        u->last = e.seq;
                        u->n_bytes += e.data->len;
                        break;
                }
        }
}

static void on_ready(void *arg)
{
        struct pull *u = arg;

        u->was_called = true;
        if (!u->is_idle)
                pull_all(u);
}

static const struct process_reader_cb cb = { on_ready };

static void pull_open(struct pull *u, struct process *p, unsigned streams)
{
        u->r = process_read(p, streams, 0, -1, &cb, u);
}

/* As many entries as there is room for. */
#define EXPECT_FULL(bytes, max) EXPECT((bytes) <= (max) && (bytes) > (max) -LOGRING_ENTRY_MAX)

static void set_log_max(struct table_fixture *f, uint64_t max)
{
        struct process_config c = process_config_default;
        struct error err = {};

        c.max_log_bytes = max;
        EXPECT_OK(processes_configure(f->t, &c, &err), err);
}

TEST(reader_gets_everything_then_the_end)
{
        struct table_fixture f;
        struct process *p;
        struct pull a = {}, late = {};

        table_open(&f);
        p = table_sh(&f, "echo one; echo two >&2; read x; echo three");
        pull_open(&a, p, BOTH);
        table_wait_log(&f, p, LOG_STDERR, "two");
        proc_spin(&f.base, 1);
        EXPECT_INT(a.n_bytes, 8);
        EXPECT(!a.has_ended);
        EXPECT_OK(process_close_input(p, NULL), ((struct error) {}));
        EXPECT(loop_run_until(f.base.loop, &a.has_ended, PROC_WAIT_MS));
        EXPECT_INT(a.n_bytes, 14);
        EXPECT(!a.is_out_of_order && !a.n_gaps);
        pull_open(&late, p, OUT);
        EXPECT(!late.was_called);
        EXPECT(loop_run_until(f.base.loop, &late.has_ended, PROC_WAIT_MS));
        EXPECT_INT(late.n_bytes, 10);
        reader_free(a.r);
        reader_free(late.r);
        table_close(&f);
}

TEST(reader_slows_the_process_and_loses_nothing)
{
        struct table_fixture f;
        struct process *p;
        struct pull u = { .is_idle = true };

        table_open(&f);
        set_log_max(&f, 100 * 1000); /* much smaller than the output */
        p = table_sh(&f, "head -c 8388608 /dev/zero");
        pull_open(&u, p, BOTH);
        while (!u.has_ended) {
                u.was_called = false;
                EXPECT(loop_run_until(f.base.loop, &u.was_called, PROC_WAIT_MS));
                proc_spin(&f.base, 1); /* meanwhile it may run ahead, but not far */
                EXPECT(logring_bytes(process_log(p)) <= 100 * 1000 + 50 * 1000 + 64 * 1024);
                pull_all(&u);
        }
        EXPECT_INT(u.n_bytes, 8388608);
        EXPECT_INT(u.n_gaps, 0);
        EXPECT(!u.is_out_of_order);
        reader_free(u.r);
        table_close(&f);
}

TEST(reader_slows_even_where_the_ring_holds_nothing)
{
        struct table_fixture f;
        struct pull u = {};

        table_open(&f);
        set_log_max(&f, 1);
        pull_open(&u, table_sh(&f, "head -c 20000 /dev/zero"), OUT);
        EXPECT(loop_run_until(f.base.loop, &u.has_ended, PROC_WAIT_MS));
        EXPECT_INT(u.n_bytes, 20000);
        EXPECT_INT(u.last, 20000); /* one byte each, and none was lost */
        EXPECT_INT(u.n_gaps, 0);
        reader_free(u.r);
        table_close(&f);
}

TEST(reader_that_stops_holds_the_process_only_while_it_is_waited_for)
{
        struct table_fixture f;
        struct process *p;
        struct pull u = { .is_idle = true };
        uint64_t at;

        table_open(&f);
        set_log_max(&f, 1 << 20);
        p = table_sh(&f, "head -c 4194304 /dev/zero");
        pull_open(&u, p, OUT);
        while (!f.t->at[0]->is_paused)
                proc_spin(&f.base, 1);
        at = logring_last(process_log(p));
        proc_spin(&f.base, 20);
        EXPECT_INT(logring_last(process_log(p)), at); /* it stands still */
        EXPECT(logring_bytes(process_log(p)) < 1 << 20);
        u.r = reader_free(u.r);
        table_wait(&f, p); /* goes on without it */
        EXPECT_FULL(logring_bytes(process_log(p)), 1 << 20);
        table_close(&f);
}

TEST(reader_without_progress_finds_a_gap_with_counts)
{
        struct table_fixture f;
        struct process *p;
        struct pull u = { .is_idle = true };
        int64_t began_us;

        table_open(&f);
        EXPECT_INT(f.t->stall_ms, PROCESS_STALL_MS);
        f.t->stall_ms = 100;
        set_log_max(&f, 1 << 20);
        p = table_sh(&f, "head -c 4194304 /dev/zero");
        pull_open(&u, p, OUT);
        began_us = loop_now_us(f.base.loop);
        table_wait(&f, p); /* after that time it is no longer waited for */
        EXPECT(loop_now_us(f.base.loop) - began_us >= 100 * 1000);
        pull_all(&u);
        EXPECT(u.has_ended && !u.is_out_of_order);
        EXPECT_INT(u.n_gaps, 1);
        EXPECT_INT(u.n_bytes + u.n_missed, 4194304);
        EXPECT_FULL(u.n_bytes, 1 << 20);
        reader_free(u.r);
        table_close(&f);
}

TEST(reader_is_not_held_up_by_what_it_does_not_want)
{
        struct table_fixture f;
        struct pull u = {};

        table_open(&f);
        set_log_max(&f, 100 * 1000);
        pull_open(&u, table_sh(&f, "head -c 4194304 /dev/zero; echo err >&2"), ERR);
        EXPECT(loop_run_until(f.base.loop, &u.has_ended, PROC_WAIT_MS));
        EXPECT_INT(u.n_bytes, 4);
        EXPECT_INT(u.n_gaps, 0);
        reader_free(u.r);
        table_close(&f);
}

TEST(readers_of_a_deleted_record_find_the_end)
{
        struct table_fixture f;
        struct process *p;
        struct pull a = { .is_idle = true }, b = {};
        struct log_entry e;
        struct log_gap g;
        struct error err = {};

        table_open(&f);
        p = table_sh(&f, "echo hello");
        table_wait(&f, p);
        pull_open(&a, p, OUT);
        pull_open(&b, p, OUT);
        EXPECT_OK(process_delete(p, &err), err);
        EXPECT(!b.was_called);
        EXPECT(loop_run_until(f.base.loop, &b.has_ended, PROC_WAIT_MS));
        EXPECT(a.was_called);
        EXPECT_INT(reader_next(a.r, &e, &g), READER_END);
        reader_progress(a.r);
        reader_free(a.r);
        reader_free(b.r);
        table_close(&f);
}

TEST(reader_outlives_the_table)
{
        struct table_fixture f;
        struct pull u = {};
        struct process_reader *r;

        table_open(&f);
        pull_open(&u, table_sh(&f, "sleep 60"), OUT);
        r = u.r;
        f.t = processes_free(f.t);
        EXPECT(loop_run_until(f.base.loop, &u.has_ended, PROC_WAIT_MS));
        reader_free(r);
        proc_close(&f.base);
}

static void free_in_call(void *arg)
{
        struct pull *u = arg;

        u->r = reader_free(u->r);
        u->was_called = true;
}

TEST(reader_may_be_freed_in_its_callback)
{
        static const struct process_reader_cb freeing = { free_in_call };
        struct table_fixture f;
        struct process *p;
        struct pull u = {};

        table_open(&f);
        p = table_sh(&f, "echo hello; read x");
        u.r = process_read(p, OUT, 0, -1, &freeing, &u);
        EXPECT(loop_run_until(f.base.loop, &u.was_called, PROC_WAIT_MS));
        process_kill(p);
        table_wait(&f, p);
        table_close(&f);
}

TEST(reader_starts_at_the_tail_and_two_share_one_process)
{
        struct table_fixture f;
        struct process *p;
        struct pull a = {}, b = {};

        table_open(&f);
        p = table_sh(&f, "echo one; read x; echo two");
        table_wait_log(&f, p, LOG_STDOUT, "one");
        a.r = process_read(p, OUT, 0, 0, &cb, &a);
        pull_open(&b, p, OUT);
        EXPECT_OK(process_input(p, "\n", 1, NULL), ((struct error) {}));
        EXPECT(loop_run_until(f.base.loop, &a.has_ended, PROC_WAIT_MS));
        EXPECT(loop_run_until(f.base.loop, &b.has_ended, PROC_WAIT_MS));
        EXPECT_INT(a.n_bytes, 4);
        EXPECT_INT(b.n_bytes, 8);
        reader_free(a.r);
        reader_free(b.r);
        table_close(&f);
}
