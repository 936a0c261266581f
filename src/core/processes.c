#include "core/processes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/process_impl.h"

#define ID_PREFIX "proc_"

const struct process_config process_config_default = {
        .max_concurrent = 64,
        .default_run_ms = 30 * 1000,
        .max_run_ms = 300 * 1000,
        .max_output_bytes = 1024 * 1024,
        .max_log_bytes = 10 * 1024 * 1024,
        .max_input_bytes = 64 * 1024,
};

/* ---- limits ---- */

const struct process_config *processes_config(const struct processes *t)
{
        return &t->config;
}

static int check_config(const struct process_config *c, struct error *err)
{
        if (!c->max_concurrent)
                return error_set(err, ERR_INVALID, 0,
                                 "maxConcurrentProcesses must be greater than 0");
        if (!c->default_run_ms || !c->max_run_ms)
                return error_set(err, ERR_INVALID, 0, "timeouts must be greater than 0");
        if (!c->max_output_bytes || !c->max_log_bytes || !c->max_input_bytes)
                return error_set(err, ERR_INVALID, 0, "byte limits must be greater than 0");
        if (MAX(c->max_output_bytes, MAX(c->max_log_bytes, c->max_input_bytes)) >
            PROCESS_CONFIG_BYTES_MAX)
                return error_set(err, ERR_INVALID, 0, "byte limits must not be greater than %d",
                                 PROCESS_CONFIG_BYTES_MAX);
        return 0;
}

/* What a record that has ended keeps in memory, which a smaller ring changes. */
static void count_kept(struct processes *t, struct process *p)
{
        t->finished_bytes -= p->kept_bytes;
        p->kept_bytes = logring_cost(p->log) + p->texts_bytes;
        t->finished_bytes += p->kept_bytes;
}

int processes_configure(struct processes *t, const struct process_config *c, struct error *err)
{
        if (check_config(c, err) < 0)
                return -1;
        t->config = *c;
        t->config.default_run_ms = MIN(c->default_run_ms, c->max_run_ms);
        for (size_t i = 0; i < t->n; i++) {
                logring_set_max(t->at[i]->log, (size_t) c->max_log_bytes);
                if (!t->at[i]->info.is_running)
                        count_kept(t, t->at[i]);
        }
        return 0;
}

static bool is_blank(const char *s)
{
        while (isspace((unsigned char) *s))
                s++;
        return !*s;
}

int processes_admit(struct processes *t, const struct process_spec *spec, struct error *err)
{
        if (!spec->command || is_blank(spec->command))
                return error_set(err, ERR_INVALID, 0, "command must not be empty");
        if (spec->n_args > PROCESS_ARGS_MAX)
                return error_set(err, ERR_INVALID, 0, "args must not be more than %d",
                                 PROCESS_ARGS_MAX);
        if (spec->n_env > PROCESS_ENV_MAX)
                return error_set(err, ERR_INVALID, 0, "env must not be more than %d variables",
                                 PROCESS_ENV_MAX);
        if (t->n_running + t->n_runs >= t->config.max_concurrent)
                return error_set(err, ERR_CONFLICT, 0,
                                 "max concurrent process limit reached (%llu)",
                                 (unsigned long long) t->config.max_concurrent);
        return 0;
}

/* ---- records ---- */

void processes_add(struct processes *t, struct process *p)
{
        if (t->n == t->cap) {
                t->cap = t->cap ? t->cap * 2 : 64;
                t->at = xrealloc(t->at, t->cap * sizeof(struct process *));
        }
        t->at[t->n++] = p;
        t->n_running++;
        t->n_started++;
}

/* Where the number is, or where it would be. */
static size_t seek(const struct processes *t, uint64_t number)
{
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (t->at[mid]->number < number)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

void processes_remove(struct processes *t, struct process *p)
{
        size_t i = seek(t, p->number);

        t->n--;
        memmove(&t->at[i], &t->at[i + 1], (t->n - i) * sizeof(struct process *));
        if (p->info.is_running) {
                t->n_running--;
                return;
        }
        list_remove(&p->node);
        t->n_finished--;
        t->finished_bytes -= p->kept_bytes;
}

static bool is_over(const struct processes *t)
{
        return t->n_finished > PROCESSES_FINISHED_MAX ||
               t->finished_bytes > PROCESSES_FINISHED_BYTES;
}

/* Oldest end first; but one that is being read only if nothing else helps, and the newest never. */
static void evict(struct processes *t, bool spare_read)
{
        list_for_each_safe (n, tmp, &t->finished) {
                struct process *p = LIST_ENTRY(n, struct process, node);

                if (!is_over(t) || tmp == &t->finished)
                        return;
                if (!spare_read || list_empty(&p->readers))
                        process_discard(p);
        }
}

void processes_note_exit(struct processes *t, struct process *p)
{
        list_push(&t->finished, &p->node);
        t->n_running--;
        t->n_finished++;
        count_kept(t, p);
        evict(t, true);
        evict(t, false);
}

int process_find(struct processes *t, const char *id, struct process **ret, struct error *err)
{
        uint64_t number = 0;
        size_t i;

        if (str_starts(id, ID_PREFIX))
                (void) str_to_u64(id + strlen(ID_PREFIX), strlen(id) - strlen(ID_PREFIX), &number);
        i = seek(t, number);
        if (i == t->n || strcmp(t->at[i]->id, id) != 0)
                return error_set(err, ERR_NOT_FOUND, 0, "process %.64s", id);
        *ret = t->at[i];
        return 0;
}

struct process *processes_at(struct processes *t, size_t i)
{
        return i < t->n ? t->at[i] : NULL;
}

void processes_stats(const struct processes *t, struct processes_stats *ret)
{
        *ret = (struct processes_stats) {
                .n_running = t->n_running,
                .n_finished = t->n_finished,
                .n_runs = t->n_runs,
                .n_started = t->n_started,
        };
        for (size_t i = 0; i < t->n; i++)
                ret->log_bytes += logring_bytes(t->at[i]->log);
}

/* ---- waiters ---- */

void processes_tell(struct processes *t, struct list *waiters)
{
        if (list_empty(waiters))
                return;
        list_splice(&t->due, waiters);
        loop_defer(t->loop, &t->tell);
}

static void run_tell(struct task *task)
{
        struct processes *t = CONTAINER_OF(task, struct processes, tell);

        while (!list_empty(&t->due)) {
                struct process_waiter *w = LIST_ENTRY(t->due.next, struct process_waiter, node);

                list_remove(&w->node);
                w->fn(w);
        }
}

/* ---- life ---- */

struct processes *processes_new(struct loop *l, struct supervisor *s)
{
        struct processes *t = NEW(struct processes);

        t->loop = l;
        t->sup = s;
        t->config = process_config_default;
        t->stall_ms = PROCESS_STALL_MS;
        list_init(&t->finished);
        list_init(&t->runs);
        list_init(&t->due);
        task_init(&t->tell, run_tell);
        return t;
}

struct processes *processes_free(struct processes *t)
{
        if (!t)
                return NULL;
        list_for_each_safe (n, tmp, &t->runs)
                process_run_discard(process_run_of(n));
        while (t->n)
                process_discard(t->at[t->n - 1]);
        while (!list_empty(&t->due))
                list_remove(t->due.next);
        task_cancel(&t->tell);
        free(t->at);
        loop_free_later(t->loop, t);
        return NULL;
}
