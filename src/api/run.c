/* One process, its output, its end. Who asked and left takes the process along. */
#include <stdlib.h>

#include "api/api.h"
#include "api/processes.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "http/req.h"
#include "json/write.h"

struct run_body {
        struct process_body process;
        uint64_t timeout_ms, max_output_bytes;
        bool has_max_output;
};
static const struct field run_fields[] = {
        { "command", F_STR, F_REQUIRED, offsetof(struct run_body, process.command),
          PROCESS_COMMAND_MAX, .doc = "program: looked up in PATH, no shell" },
        { "args", F_STRV, 0, offsetof(struct run_body, process.args), PROCESS_ARGS_MAX,
          .doc = "its arguments" },
        { "cwd", F_STR, 0, offsetof(struct run_body, process.cwd), PROCESS_CWD_MAX,
          .doc = "directory to run in; the server's own when absent" },
        { "env", F_MAP, 0, offsetof(struct run_body, process.env), PROCESS_ENV_MAX,
          .doc = "variables on top of the server's environment" },
        { "timeoutMs", F_UINT, 0, offsetof(struct run_body, timeout_ms),
          .doc = "then it is killed; absent or 0: the configured time" },
        { "maxOutputBytes", F_UINT, 0, offsetof(struct run_body, max_output_bytes),
          .has_offset = offsetof(struct run_body, has_max_output),
          .doc = "kept of the beginning of each stream" },
        { 0 },
};

struct run_reply {
        int64_t exit_code, duration_ms;
        bool timed_out, stdout_truncated, stderr_truncated;
        const char *out, *err;
};
static const struct field run_reply[] = {
        { "exitCode", F_INT, 0, offsetof(struct run_reply, exit_code),
          .doc = "null when a signal or the time-out ended it" },
        { "timedOut", F_BOOL, F_REQUIRED, offsetof(struct run_reply, timed_out),
          .doc = "it took too long" },
        { "stdout", F_STR, F_REQUIRED, offsetof(struct run_reply, out), UINT32_MAX,
          .doc = "its output; bytes that are not UTF-8 become U+FFFD" },
        { "stderr", F_STR, F_REQUIRED, offsetof(struct run_reply, err), UINT32_MAX,
          .doc = "its messages" },
        { "stdoutTruncated", F_BOOL, F_REQUIRED, offsetof(struct run_reply, stdout_truncated),
          .doc = "there was more" },
        { "stderrTruncated", F_BOOL, F_REQUIRED, offsetof(struct run_reply, stderr_truncated),
          .doc = "there was more" },
        { "durationMs", F_INT, F_REQUIRED, offsetof(struct run_reply, duration_ms),
          .doc = "from start to end" },
        { 0 },
};

struct run {
        struct req *req;
        struct process_run *process;
};

static void put_result(struct jw *w, const struct run_result *res)
{
        jw_obj(w, NULL);
        if (res->exit_code >= 0)
                jw_i64(w, "exitCode", res->exit_code);
        else
                jw_null(w, "exitCode");
        jw_bool(w, "timedOut", res->is_timed_out);
        jw_strn(w, "stdout", res->out.at, res->out.len);
        jw_strn(w, "stderr", res->err.at, res->err.len);
        jw_bool(w, "stdoutTruncated", res->is_out_truncated);
        jw_bool(w, "stderrTruncated", res->is_err_truncated);
        jw_u64(w, "durationMs", res->duration_ms);
        jw_end(w);
}

static void run_done(void *arg, const struct run_result *res)
{
        struct run *run = arg;
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        put_result(&w, res);
        (void) reply_taken(run->req, &b);
        req_release(run->req);
        free(run);
}

static void run_gone(void *arg)
{
        struct run *run = arg;

        run_cancel(run->process);
        req_release(run->req);
        free(run);
}

static int post_run(struct req *r, struct error *err)
{
        const struct run_body *b = req_body(r);
        struct run_spec spec = {
                .timeout_ms = b->timeout_ms,
                .max_output_bytes = b->max_output_bytes,
                .has_max_output = b->has_max_output,
        };
        struct run *run;

        if (process_spec_fill(r, &b->process, &spec.process, err) < 0)
                return -1;
        run = NEW(struct run);
        run->req = r;
        if (process_run(req_processes(r), &spec, run_done, run, &run->process, err) < 0) {
                free(run);
                return process_spawn_failed(err);
        }
        req_hold(r, run_gone, run);
        return 0;
}

const struct route api_run[] = {
        { "POST", "/v1/processes/run", post_run, .body = run_fields,
          .body_size = sizeof(struct run_body), .reply = run_reply, .cli = "processes run",
          .doc = "Run a process to its end and return its output. The whole tree ends with it, "
                 "with the time-out, or when the client leaves." },
        { 0 },
};
