/* Processes: their records and limits, and the rows of all that can be done with one. */
#include "api/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "core/app.h"
#include "http/req.h"
#include "json/write.h"

/* ---- shared ---- */

struct processes *req_processes(struct req *r)
{
        const struct api *api = req_app(r);

        return api->app->processes;
}

/* "details":{"id":"proc_9","resource":"process"}, as long as the request lives. */
static const char *not_found_details(struct req *r, const char *id)
{
        _cleanup_(buf_done) struct buf b = { 0 };
        struct jw w = { .out = &b };

        buf_puts(&b, "\"details\":");
        jw_obj(&w, NULL);
        jw_str(&w, "id", id);
        jw_str(&w, "resource", "process");
        jw_end(&w);
        return arena_strndup(req_arena(r), b.data, b.len);
}

int req_process(struct req *r, struct process **ret, struct error *err)
{
        const char *id = req_param(r, "id");

        if (process_find(req_processes(r), id, ret, err) == 0)
                return 0;
        if (err->kind == ERR_NOT_FOUND && !err->ext)
                err->ext = not_found_details(r, id);
        return -1;
}

int process_spawn_failed(struct error *err)
{
        static const char prefix[] = "failed to spawn process: ";
        const char *why = strerrordesc_np(err->sys), *ext = err->ext;
        char tried[sizeof(err->msg)];
        int sys = err->sys;
        size_t n;

        if (err->kind != ERR_UPSTREAM || !sys || !why || !str_starts(err->msg, prefix))
                return -1;
        n = (size_t) snprintf(tried, sizeof(tried), "%s", err->msg + strlen(prefix));
        if (str_ends(tried, why))
                n -= strlen(why);
        while (n && strchr(": ", tried[n - 1]))
                n--;
        (void) error_set(err, ERR_UPSTREAM, 0, "%s%s (os error %d): %.*s", prefix, why, sys,
                         (int) n, tried);
        err->sys = sys;
        err->ext = ext;
        return -1;
}

int reply_taken(struct req *r, struct buf *b)
{
        _cleanup_(chunk_unrefp) struct chunk *c = buf_take_chunk(b);

        return reply_bytes(r, 200, "application/json", c);
}

int process_spec_fill(struct req *r, const struct process_body *b, struct process_spec *ret,
                      struct error *err)
{
        struct arena *a = req_arena(r);
        const char **env = arena_alloc(a, (b->env.n + 1) * sizeof(*env));

        for (size_t i = 0; i < b->env.n; i++) {
                const struct pair *p = &b->env.at[i];

                if (!p->key[0] || strchr(p->key, '='))
                        return error_set(err, ERR_INVALID, 0,
                                         "env: '%.60s' is not the name of a variable", p->key);
                env[i] = arena_printf(a, "%s=%s", p->key, p->value);
        }
        ret->command = b->command;
        ret->args = b->args.at;
        ret->n_args = b->args.n;
        ret->cwd = b->cwd;
        ret->env = env;
        ret->n_env = b->env.n;
        return 0;
}

static const char *const owner_names[] = {
        [OWNER_USER] = "user", [OWNER_DESKTOP] = "desktop", [OWNER_SYSTEM] = "system", NULL
};

/* The members of one process, inside an open object. */
static void put_members(struct jw *w, const struct process_info *i)
{
        jw_str(w, "id", i->id);
        jw_str(w, "command", i->command);
        jw_arr(w, "args");
        for (size_t k = 0; k < i->n_args; k++)
                jw_str(w, NULL, i->args[k]);
        jw_end(w);
        if (i->cwd)
                jw_str(w, "cwd", i->cwd);
        jw_bool(w, "tty", i->is_tty);
        jw_bool(w, "interactive", i->is_interactive);
        jw_str(w, "owner", owner_names[i->owner]);
        jw_str(w, "status", i->is_running ? "running" : "exited");
        if (i->is_running)
                jw_i64(w, "pid", i->pid);
        else if (i->exit_code >= 0)
                jw_i64(w, "exitCode", i->exit_code);
        jw_i64(w, "createdAtMs", i->created_ms);
        if (!i->is_running)
                jw_i64(w, "exitedAtMs", i->exited_ms);
}

void process_json(struct jw *w, const char *key, const struct process *p)
{
        struct process_info i;

        process_info(p, &i);
        jw_obj(w, key);
        put_members(w, &i);
        jw_end(w);
}

int reply_process(struct req *r, const struct process *p)
{
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        process_json(&w, NULL, p);
        return reply_taken(r, &b);
}

/* ---- limits ---- */

#define LIMIT(name, member, text)                                                                  \
        {                                                                                          \
                name, F_UINT, F_REQUIRED, offsetof(struct process_config, member), .doc = text     \
        }
static const struct field config_fields[] = {
        LIMIT("maxConcurrentProcesses", max_concurrent, "processes and runs at the same time"),
        LIMIT("defaultRunTimeoutMs", default_run_ms, "of a run that does not say"),
        LIMIT("maxRunTimeoutMs", max_run_ms, "the longest that a run can ask for"),
        LIMIT("maxOutputBytes", max_output_bytes, "kept of each stream of a run"),
        LIMIT("maxLogBytesPerProcess", max_log_bytes, "of output kept per process"),
        LIMIT("maxInputBytesPerRequest", max_input_bytes, "of input in one request"),
        { 0 },
};

/* The row of each limit is also how it is printed. */
static int get_config(struct req *r, struct error *err)
{
        const struct process_config *c = processes_config(req_processes(r));
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        for (const struct field *f = config_fields; f->name; f++)
                jw_u64(&w, f->name, *(const uint64_t *) ((const char *) c + f->offset));
        jw_end(&w);
        return reply_taken(r, &b);
}

static int post_config(struct req *r, struct error *err)
{
        if (processes_configure(req_processes(r), req_body(r), err) < 0)
                return -1;
        return get_config(r, err);
}

/* ---- create, list, get, delete ---- */

struct create_body {
        struct process_body process;
        bool tty, interactive;
        uint64_t cols, rows;
};
static const struct field create_fields[] = {
        { "command", F_STR, F_REQUIRED, offsetof(struct create_body, process.command),
          PROCESS_COMMAND_MAX, .doc = "program: looked up in PATH, no shell" },
        { "args", F_STRV, 0, offsetof(struct create_body, process.args), PROCESS_ARGS_MAX,
          .doc = "its arguments" },
        { "cwd", F_STR, 0, offsetof(struct create_body, process.cwd), PROCESS_CWD_MAX,
          .doc = "directory to run in; the server's own when absent" },
        { "env", F_MAP, 0, offsetof(struct create_body, process.env), PROCESS_ENV_MAX,
          .doc = "variables on top of the server's environment" },
        { "tty", F_BOOL, 0, offsetof(struct create_body, tty), .doc = "give it a terminal" },
        { "interactive", F_BOOL, 0, offsetof(struct create_body, interactive),
          .doc = "only shown again: input is possible in any case" },
        { "cols", F_UINT, 0, offsetof(struct create_body, cols),
          .doc = "width of the terminal, 80 when absent" },
        { "rows", F_UINT, 0, offsetof(struct create_body, rows),
          .doc = "height of the terminal, 24 when absent" },
        { 0 },
};

static int create_process(struct req *r, struct error *err)
{
        const struct create_body *b = req_body(r);
        struct process_spec spec = { .is_tty = b->tty, .is_interactive = b->interactive };
        struct process *p;

        if (process_check_u16("cols", b->cols, err) < 0 ||
            process_check_u16("rows", b->rows, err) < 0 ||
            process_spec_fill(r, &b->process, &spec, err) < 0)
                return -1;
        spec.cols = (uint16_t) b->cols;
        spec.rows = (uint16_t) b->rows;
        if (process_create(req_processes(r), &spec, &p, err) < 0)
                return process_spawn_failed(err);
        return reply_process(r, p);
}

struct list_query {
        int owner;
        bool has_owner;
};
static const struct field list_query[] = {
        { "owner", F_ENUM, 0, offsetof(struct list_query, owner), .names = owner_names,
          .has_offset = offsetof(struct list_query, has_owner), .doc = "only of this owner" },
        { 0 },
};

static int by_id(const void *a, const void *b)
{
        return strcmp(((const struct process_info *) a)->id, ((const struct process_info *) b)->id);
}

static int list_processes(struct req *r, struct error *err)
{
        const struct list_query *q = req_query(r);
        _cleanup_free_ struct process_info *infos = NULL;
        struct buf b = { 0 };
        struct jw w = { .out = &b };
        struct process *p;
        size_t n = 0, cap = 0;

        for (size_t i = 0; (p = processes_at(req_processes(r), i)); i++) {
                if (n == cap)
                        infos = xrealloc(infos, (cap = cap ? 2 * cap : 64) * sizeof(*infos));
                process_info(p, &infos[n]);
                n += !q->has_owner || (int) infos[n].owner == q->owner;
        }
        if (n) /* as text: proc_1, proc_10, proc_2 is what clients know */
                qsort(infos, n, sizeof(*infos), by_id);
        jw_obj(&w, NULL);
        jw_arr(&w, "processes");
        for (size_t i = 0; i < n; i++) {
                jw_obj(&w, NULL);
                put_members(&w, &infos[i]);
                jw_end(&w);
        }
        jw_end(&w);
        jw_end(&w);
        return reply_taken(r, &b);
}

static void put_usage(struct jw *w, const struct process *p)
{
        struct process_usage u;

        process_usage(p, &u);
        jw_obj(w, "usage");
        jw_u64(w, "cpuUserMs", u.cpu_user_us / 1000);
        jw_u64(w, "cpuSystemMs", u.cpu_system_us / 1000);
        jw_u64(w, "rssBytes", u.rss_bytes);
        jw_u64(w, "peakRssBytes", u.peak_rss_bytes);
        jw_u64(w, "processes", u.n_processes);
        jw_end(w);
}

static int get_process(struct req *r, struct error *err)
{
        struct process_info i;
        struct process *p;
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        if (req_process(r, &p, err) < 0)
                return -1;
        process_info(p, &i);
        jw_obj(&w, NULL);
        put_members(&w, &i);
        put_usage(&w, p);
        jw_end(&w);
        return reply_taken(r, &b);
}

static int delete_process(struct req *r, struct error *err)
{
        struct process *p;

        if (req_process(r, &p, err) < 0 || process_delete(p, err) < 0)
                return -1;
        return reply_empty(r, 204);
}

/* ---- what the answers look like, for the documents ---- */

struct usage_reply {
        uint64_t cpu_user, cpu_system, rss, peak_rss, processes;
};
static const struct field usage_reply[] = {
        { "cpuUserMs", F_UINT, F_REQUIRED, offsetof(struct usage_reply, cpu_user),
          .doc = "time in its own code" },
        { "cpuSystemMs", F_UINT, F_REQUIRED, offsetof(struct usage_reply, cpu_system),
          .doc = "time in the kernel" },
        { "rssBytes", F_UINT, F_REQUIRED, offsetof(struct usage_reply, rss),
          .doc = "memory in use, the whole tree" },
        { "peakRssBytes", F_UINT, F_REQUIRED, offsetof(struct usage_reply, peak_rss),
          .doc = "the most that was seen" },
        { "processes", F_UINT, F_REQUIRED, offsetof(struct usage_reply, processes),
          .doc = "in the tree now" },
        { 0 },
};

static const char *const status_names[] = { "running", "exited", NULL };

struct info_reply {
        const char *id, *command, *cwd;
        struct strv args;
        bool tty, interactive;
        int owner, status;
        int64_t pid, exit_code, created_ms, exited_ms;
        struct usage_reply usage;
};
static const struct field info_reply[] = {
        { "id", F_STR, F_REQUIRED, offsetof(struct info_reply, id), PROCESS_ID_MAX,
          .doc = "proc_1, proc_2 …" },
        { "command", F_STR, F_REQUIRED, offsetof(struct info_reply, command), PROCESS_COMMAND_MAX,
          .doc = "as it was given" },
        { "args", F_STRV, F_REQUIRED, offsetof(struct info_reply, args), PROCESS_ARGS_MAX,
          .doc = "as they were given" },
        { "cwd", F_STR, 0, offsetof(struct info_reply, cwd), PROCESS_CWD_MAX,
          .doc = "only if it was given" },
        { "tty", F_BOOL, F_REQUIRED, offsetof(struct info_reply, tty), .doc = "has a terminal" },
        { "interactive", F_BOOL, F_REQUIRED, offsetof(struct info_reply, interactive),
          .doc = "as it was given" },
        { "owner", F_ENUM, F_REQUIRED, offsetof(struct info_reply, owner), .names = owner_names,
          .doc = "who started it" },
        { "status", F_ENUM, F_REQUIRED, offsetof(struct info_reply, status), .names = status_names,
          .doc = "whether it runs" },
        { "pid", F_INT, 0, offsetof(struct info_reply, pid), .doc = "while it runs" },
        { "exitCode", F_INT, 0, offsetof(struct info_reply, exit_code),
          .doc = "absent when a signal ended it" },
        { "createdAtMs", F_INT, F_REQUIRED, offsetof(struct info_reply, created_ms),
          .doc = "start, Unix time" },
        { "exitedAtMs", F_INT, 0, offsetof(struct info_reply, exited_ms), .doc = "end, Unix time" },
        { "usage", F_OBJ, 0, offsetof(struct info_reply, usage), .sub = usage_reply,
          .doc = "what it takes of the machine; when one process is asked for" },
        { 0 },
};

struct list_reply {
        struct objv processes;
};
static const struct field list_reply[] = {
        { "processes", F_OBJV, F_REQUIRED, offsetof(struct list_reply, processes), UINT32_MAX,
          .sub = info_reply, .sub_size = sizeof(struct info_reply), .doc = "sorted by id as text" },
        { 0 },
};

#define BODY(table, type)  .body = (table), .body_size = sizeof(struct type)
#define QUERY(table, type) .query = (table), .query_size = sizeof(struct type)

const struct route api_processes[] = {
        { "GET", "/v1/processes/config", get_config, .reply = config_fields,
          .cli = "processes config", .doc = "The limits of processes." },
        { "POST", "/v1/processes/config", post_config, BODY(config_fields, process_config),
          .reply = config_fields, .cli = "processes set-config",
          .doc = "Replace the limits of processes. All of them, until the server ends." },
        { "POST", "/v1/processes", create_process, BODY(create_fields, create_body),
          .reply = info_reply, .cli = "processes create",
          .doc = "Start a process and keep its output." },
        { "GET", "/v1/processes", list_processes, QUERY(list_query, list_query),
          .reply = list_reply, .cli = "processes list",
          .doc = "All processes, running and exited." },
        { "GET", "/v1/processes/{id}", get_process, .reply = info_reply, .cli = "processes get",
          .doc = "One process and what it uses." },
        { "POST", "/v1/processes/{id}/stop", process_stop_post,
          QUERY(process_stop_query, stop_query), .reply = info_reply, .cli = "processes stop",
          .doc = "Ask a process and its children to end. The process itself is not killed, only "
                 "children that outlive it; the answer says whether it still runs." },
        { "POST", "/v1/processes/{id}/kill", process_kill_post,
          QUERY(process_stop_query, stop_query), .reply = info_reply, .cli = "processes kill",
          .doc = "Kill a process and its children." },
        { "DELETE", "/v1/processes/{id}", delete_process, .cli = "processes delete",
          .doc = "Forget a process that has ended, and its output." },
        { "GET", "/v1/processes/{id}/logs", process_logs_get, QUERY(process_logs_query, logs_query),
          .reply = process_logs_reply, .cli = "processes logs",
          .doc = "The output of a process. With follow an event stream: log, gap where output was "
                 "dropped before it was read, and end with the exit code." },
        { "POST", "/v1/processes/{id}/input", process_input_post,
          BODY(process_input_fields, input_body), .reply = process_input_reply,
          .cli = "processes input", .doc = "Write to a process." },
        { "POST", "/v1/processes/{id}/terminal/resize", process_resize_post,
          BODY(process_resize_fields, resize_body), .reply = process_resize_fields,
          .cli = "processes resize", .doc = "Change the size of its terminal." },
        { 0 },
};
