/* One record: making it, asking it, ending it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/process_impl.h"

enum { INPUT_QUEUE_MAX = 1024 * 1024, LARGE_LOG_BYTES = 1024 * 1024, COLS = 80, ROWS = 24 };

static int64_t now_ms(void)
{
        return clock_real_us() / 1000;
}

/* ---- what it says ---- */

static void on_data(void *arg, const char *data, size_t len)
{
        process_took(arg, data, len);
}

/* Also when there will never be room again: whoever writes to it finds out. */
static void on_input_room(void *arg)
{
        struct process *p = arg;

        processes_tell(p->table, &p->input_waiters);
}

static void on_input_end(void *arg, const struct error *why)
{
        on_input_room(arg);
}

/* A terminal is both: its output, and what is typed into it. */
static void on_output_room(void *arg)
{
        on_input_room(((struct process_output *) arg)->p);
}

static void on_end(void *arg, const struct error *why)
{
        ((struct process_output *) arg)->stream = NULL;
        on_output_room(arg);
}

static const struct stream_sink output_sink = { .on_data = on_data,
                                                .on_room = on_output_room,
                                                .on_end = on_end };
static const struct stream_sink input_sink = { .on_room = on_input_room, .on_end = on_input_end };

static void listen_to(struct process *p, size_t i, int which, enum log_stream as)
{
        p->outputs[i] = (struct process_output) { p, child_stdio(p->child, which), as };
        stream_set_sink(p->outputs[i].stream, &output_sink, &p->outputs[i]);
}

static void open_streams(struct process *p)
{
        if (p->info.is_tty) {
                listen_to(p, 0, 0, LOG_PTY);
                return;
        }
        stream_set_sink(child_stdio(p->child, 0), &input_sink, p);
        listen_to(p, 0, 1, LOG_STDOUT);
        listen_to(p, 1, 2, LOG_STDERR);
}

/* All its output is in the ring by now. */
static void on_exit_cb(void *arg, struct child *c, int code, int sig)
{
        struct process *p = arg;

        p->info.is_running = false;
        p->info.exit_code = code;
        p->info.exit_signal = sig;
        p->info.exited_ms = now_ms();
        timer_stop(&p->stall);
        if (p->was_asked)
                child_stop(c, PROCESS_LEFTOVER_GRACE_MS);
        process_wake_readers(p);
        processes_tell(p->table, &p->waiters);
        processes_tell(p->table, &p->input_waiters);
        processes_note_exit(p->table, p);
}

/* ---- making one ---- */

/* Command, arguments and directory in one block. */
static void keep_texts(struct process *p, const struct process_spec *spec)
{
        const size_t n = spec->n_args + 2;
        size_t bytes = n * sizeof(char *), at = bytes;
        const char *cwd = spec->cwd ?: "";

        bytes += strlen(spec->command) + 1 + strlen(cwd) + 1;
        for (size_t i = 0; i < spec->n_args; i++)
                bytes += strlen(spec->args[i]) + 1;
        p->texts = xmalloc(bytes);
        p->texts_bytes = bytes;
        for (size_t i = 0; i < n; i++) {
                const char *s = i < spec->n_args    ? spec->args[i]
                                : i == spec->n_args ? spec->command
                                                    : cwd;
                size_t len = strlen(s) + 1;

                p->texts[i] = memcpy((char *) p->texts + at, s, len);
                at += len;
        }
        p->info.args = (const char *const *) p->texts;
        p->info.n_args = spec->n_args;
        p->info.command = p->texts[spec->n_args];
        p->info.cwd = spec->cwd ? p->texts[spec->n_args + 1] : NULL;
}

static struct process *process_new(struct processes *t, const struct process_spec *spec)
{
        struct process *p = NEW(struct process);

        p->table = t;
        p->number = ++t->last_number;
        (void) snprintf(p->id, sizeof(p->id), "proc_%llu", (unsigned long long) p->number);
        list_init(&p->node);
        list_init(&p->readers);
        list_init(&p->waiters);
        list_init(&p->input_waiters);
        timer_init(&p->stall, t->loop, process_on_stall);
        p->log = logring_new((size_t) t->config.max_log_bytes);
        p->info = (struct process_info) {
                .id = p->id,
                .is_tty = spec->is_tty,
                .is_interactive = spec->is_interactive,
                .is_running = true,
                .owner = spec->owner,
                .exit_code = -1,
                .created_ms = now_ms(),
                .cols = spec->cols ?: COLS,
                .rows = spec->rows ?: ROWS,
        };
        keep_texts(p, spec);
        return p;
}

static void process_free(struct process *p)
{
        bool was_large = logring_cost(p->log) > LARGE_LOG_BYTES;

        timer_stop(&p->stall);
        p->child = child_free(p->child);
        p->log = logring_free(p->log);
        free(p->texts);
        if (was_large)
                mem_give_back();
        loop_free_later(p->table->loop, p); /* we may be inside one of its callbacks */
}

int process_create(struct processes *t, const struct process_spec *spec, struct process **ret,
                   struct error *err)
{
        static const struct child_cb cb = { .on_exit = on_exit_cb };
        struct child_spec how = {
                .stdio = spec->is_tty ? STDIO_PTY : STDIO_PIPE,
                .cols = spec->cols,
                .rows = spec->rows,
        };
        struct process *p;

        if (processes_admit(t, spec, err) < 0)
                return -1;
        p = process_new(t, spec);
        if (process_start(t, spec, how, &cb, p, &p->child, err) < 0) {
                process_free(p);
                return -1;
        }
        p->info.pid = child_pid(p->child);
        open_streams(p);
        processes_add(t, p);
        *ret = p;
        return 0;
}

void process_discard(struct process *p)
{
        processes_remove(p->table, p);
        process_drop_readers(p);
        processes_tell(p->table, &p->waiters);
        processes_tell(p->table, &p->input_waiters);
        process_free(p);
}

/* ---- questions ---- */

void process_info(const struct process *p, struct process_info *ret)
{
        *ret = p->info;
}

void process_usage(const struct process *p, struct process_usage *ret)
{
        struct child_usage u;

        child_usage(p->child, &u);
        *ret = (struct process_usage) {
                .cpu_user_us = u.cpu_user_us,
                .cpu_system_us = u.cpu_system_us,
                .rss_bytes = u.rss_bytes,
                .peak_rss_bytes = u.peak_rss_bytes,
                .n_processes = u.n_processes,
        };
}

struct logring *process_log(struct process *p)
{
        return p->log;
}

/* ---- ending it ---- */

void process_stop(struct process *p)
{
        p->was_asked = true;
        if (p->info.is_running)
                child_ask_to_end(p->child);
        else
                child_stop(p->child, PROCESS_LEFTOVER_GRACE_MS);
}

void process_kill(struct process *p)
{
        p->was_asked = true;
        child_stop(p->child, 0);
}

int process_delete(struct process *p, struct error *err)
{
        if (p->info.is_running)
                return error_set(err, ERR_CONFLICT, 0,
                                 "process is still running; stop or kill it before delete");
        process_discard(p);
        return 0;
}

void process_wait(struct process *p, struct process_waiter *w)
{
        list_init(&w->node);
        list_push(&p->waiters, &w->node);
        if (!p->info.is_running)
                processes_tell(p->table, &p->waiters);
}

void process_wait_room(struct process *p, struct process_waiter *w)
{
        list_init(&w->node);
        list_push(&p->input_waiters, &w->node);
        if (!p->info.is_running)
                processes_tell(p->table, &p->input_waiters);
}

void process_unwait(struct process_waiter *w)
{
        list_remove(&w->node);
}

/* ---- its input and its window ---- */

/* NULL with the reason if nothing can be written. */
static struct stream *find_input(struct process *p, struct error *err)
{
        struct stream *s = p->info.is_running ? child_stdio(p->child, 0) : NULL;

        if (!s) {
                (void) error_set(err, ERR_CONFLICT, 0, "process is not running");
                return NULL;
        }
        if (s->has_ended || p->is_input_closed) {
                (void) error_set(err, ERR_CONFLICT, 0, "process input is closed");
                return NULL;
        }
        return s;
}

/* What it has not read is kept in memory: that has an end. */
static int check_queue(const struct stream *s, struct error *err)
{
        if (stream_queued(s) <= INPUT_QUEUE_MAX)
                return 0;
        return error_set(err, ERR_BUSY, 0, "process does not read its input: %zu bytes wait",
                         stream_queued(s));
}

int process_input(struct process *p, const void *data, size_t len, struct error *err)
{
        const uint64_t max = p->table->config.max_input_bytes;
        struct stream *s;

        if (len > max)
                return error_set(err, ERR_TOO_BIG, 0,
                                 "input payload exceeds maxInputBytesPerRequest (%llu)",
                                 (unsigned long long) max);
        s = find_input(p, err);
        if (!s || check_queue(s, err) < 0)
                return -1;
        return len ? stream_write_bytes(s, data, len, err) : 1;
}

int process_close_input(struct process *p, struct error *err)
{
        struct stream *s = find_input(p, err);

        if (!s || (p->info.is_tty && check_queue(s, err) < 0))
                return -1;
        stream_finish(s);
        p->is_input_closed = !p->info.is_tty; /* ^D can be typed again */
        return 0;
}

int process_resize(struct process *p, uint16_t cols, uint16_t rows, struct error *err)
{
        if (!p->info.is_tty)
                return error_set(err, ERR_CONFLICT, 0, "process is not running in tty mode");
        if (!p->info.is_running || child_resize(p->child, cols, rows, err) < 0)
                return error_set(err, ERR_CONFLICT, 0, "PTY resize handle unavailable");
        p->info.cols = cols ?: COLS;
        p->info.rows = rows ?: ROWS;
        return 0;
}
