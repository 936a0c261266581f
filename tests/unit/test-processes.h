/* A process table over real processes, for the tests of core/processes.h. */
#pragma once
#include "core/processes.h"
#include "test-proc.h"
#include "test.h"

struct table_fixture {
        struct proc_fixture base;
        struct processes *t;
};

static inline void table_open(struct table_fixture *f)
{
        proc_open(&f->base, CONTAIN_BEST);
        f->t = processes_new(f->base.loop, f->base.sup);
}

static inline void table_close(struct table_fixture *f)
{
        f->t = processes_free(f->t);
        proc_close(&f->base);
}

static inline struct process *table_sh(struct table_fixture *f, const char *script)
{
        const char *args[] = { "-c", script };
        struct process_spec spec = { .command = "sh", .args = args, .n_args = 2 };
        struct process *p = NULL;
        struct error err = {};

        EXPECT_OK(process_create(f->t, &spec, &p, &err), err);
        return p;
}

struct table_waiter {
        struct process_waiter w;
        bool is_told;
};

static inline void table_told(struct process_waiter *w)
{
        ((struct table_waiter *) w)->is_told = true;
}

static inline void table_wait(struct table_fixture *f, struct process *p)
{
        struct table_waiter w = { .w.fn = table_told };

        process_wait(p, &w.w);
        EXPECT(!w.is_told); /* never from inside the call */
        EXPECT(loop_run_until(f->base.loop, &w.is_told, PROC_WAIT_MS));
}

/* All that the record holds of one stream, as a string. */
static inline const char *table_log(struct process *p, enum log_stream stream)
{
        static char text[64 * 1024];
        size_t at = 0;
        struct logcursor c;
        struct log_entry e;
        struct log_gap g;

        logcursor_init(&c, process_log(p), 1u << stream, 0, -1);
        while (logcursor_next(&c, &e, &g) == 1 && at + e.data->len < sizeof(text)) {
                memcpy(text + at, e.data->data, e.data->len);
                at += e.data->len;
        }
        text[at] = '\0';
        logcursor_done(&c);
        return text;
}

static inline void table_wait_log(struct table_fixture *f, struct process *p,
                                  enum log_stream stream, const char *text)
{
        for (int ms = 0; !strstr(table_log(p, stream), text); ms++) {
                EXPECT(ms < PROC_WAIT_MS);
                proc_spin(&f->base, 1);
        }
}
