/* What the server says of itself: banner, health, readiness, limits. */
#include <string.h>

#include "api/api.h"
#include "api/options.h"
#include "base/buf.h"
#include "base/path.h"
#include "core/app.h"
#include "core/processes.h"
#include "event/evlog.h"
#include "fs/edit.h"
#include "fs/file.h"
#include "fs/search.h"
#include "fs/tar.h"
#include "fs/watch.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "http/ws.h"
#include "io/job.h"
#include "proc/child.h"
#include "json/json.h"
#include "json/write.h"

static int reply_text(struct req *r, const char *json)
{
        return reply_json(r, 200, json, strlen(json));
}

static int get_root(struct req *r, struct error *err)
{
        return reply_text(r, "{\"docs\":\"https://sandboxagent.dev\",\"name\":\"Sandbox Agent\"}");
}

static int get_health(struct req *r, struct error *err)
{
        return reply_text(r, "{\"status\":\"ok\"}");
}

/* Healthy is "answers"; ready is "would not lose what it is given". */
static int get_ready(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        struct evlog_stats st;
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        evlog_stats(api->app->log, &st);
        if (st.is_failing)
                return error_set(err, ERR_BUSY, 0, "the store '%s' cannot be written: %s",
                                 api->app->store_path, st.why);
        jw_obj(&w, NULL);
        jw_str(&w, "status", "ready");
        jw_str(&w, "version", SA_VERSION);
        jw_str(&w, "store", api->app->store_path);
        jw_str(&w, "containment", supervisor_containment(api->app->children));
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}

static int get_limits(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        const struct http_limits lim = serve_limits(api->options);
        const struct {
                const char *name;
                uint64_t value;
        } rows[] = {
                { "maxConnections", lim.max_conns },
                { "maxHeadBytes", lim.max_head_bytes },
                { "maxHeaders", lim.max_headers },
                { "maxUriBytes", lim.max_uri_bytes },
                { "maxBodyBytes", lim.max_body_bytes },
                { "headTimeoutMs", lim.head_ms },
                { "bodyTimeoutMs", lim.body_ms },
                { "idleTimeoutMs", lim.idle_ms },
                { "writeTimeoutMs", lim.write_ms },
                { "drainTimeoutMs", lim.drain_ms },
                { "maxJsonDepth", JSON_DEPTH_MAX },
                { "maxWebSocketMessageBytes", WS_MESSAGE_MAX },
                { "maxPendingEventBytes", EVLOG_PENDING_BYTES },
                { "maxPathBytes", PATH_BYTES_MAX - 1 },
                { "maxPathNameBytes", PATH_PART_MAX },
                { "maxListEntries", FS_LIST_MAX },
                { "maxVirtualFileBytes", FS_VIRTUAL_MAX },
                { "maxTreeDepth", FS_DEPTH_MAX },
                { "maxArchiveEntries", TAR_ENTRIES_MAX },
                { "maxEditFileBytes", EDIT_FILE_MAX },
                { "maxSearchMatches", SEARCH_LIMIT_MAX },
                { "maxSearchFileBytes", SEARCH_FILE_MAX },
                { "maxWatchedDirectories", WATCH_DIRS_MAX },
                { "maxLongTransfers", JOB_MAX },
                { "maxFinishedProcesses", PROCESSES_FINISHED_MAX },
                { "maxFinishedProcessBytes", PROCESSES_FINISHED_BYTES },
                { "followerStallMs", PROCESS_STALL_MS },
        };
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                jw_u64(&w, rows[i].name, rows[i].value);
        jw_end(&w);
        (void) reply_json(r, 200, b.data, b.len);
        buf_done(&b);
        return 0;
}

struct health_reply {
        const char *status;
};
static const struct field health_reply[] = {
        { "status", F_STR, F_REQUIRED, offsetof(struct health_reply, status), 16,
          .doc = "always \"ok\"" },
        { 0 },
};

struct ready_reply {
        const char *status, *version, *store, *containment;
};
static const struct field ready_reply[] = {
        { "status", F_STR, F_REQUIRED, offsetof(struct ready_reply, status), 16,
          .doc = "always \"ready\"" },
        { "version", F_STR, F_REQUIRED, offsetof(struct ready_reply, version), 32,
          .doc = "of the server" },
        { "store", F_STR, F_REQUIRED, offsetof(struct ready_reply, store), 4096,
          .doc = "where events are kept" },
        { "containment", F_STR, F_REQUIRED, offsetof(struct ready_reply, containment), 16,
          .doc = "how process trees are held: cgroup2, cgroup1 or subreaper" },
        { 0 },
};

const struct route api_system[] = {
        { "GET", "/", get_root, R_OPEN, .doc = "Name and documentation of the server." },
        { "GET", "/v1/health", get_health, .reply = health_reply, .cli = "health",
          .doc = "Does the server answer?" },
        { "GET", "/v1/ready", get_ready, .reply = ready_reply, .cli = "ready",
          .doc = "Can the server take work? 503 while its store cannot be written." },
        { "GET", "/v1/limits", get_limits, .cli = "limits",
          .doc = "Every ceiling and deadline in force." },
        { 0 },
};
