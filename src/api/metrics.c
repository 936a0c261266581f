/* GET /metrics: the core's own numbers in Prometheus' text form. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "core/app.h"
#include "event/evlog.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "proc/child.h"

/* Resident bytes, or 0 when /proc is not there. */
static uint64_t resident_bytes(void)
{
        struct buf b = { .max_bytes = 4096 };
        unsigned long long size = 0, resident = 0;

        if (file_read("/proc/self/statm", &b, NULL) == 0 &&
            sscanf(b.data, "%llu %llu", &size, &resident) != 2)
                resident = 0;
        buf_done(&b);
        return resident * (uint64_t) sysconf(_SC_PAGESIZE);
}

static void put(struct buf *b, const char *name, const char *type, const char *help, uint64_t value)
{
        buf_printf(
                b,
                "# HELP sandbox_agent_%s %s\n# TYPE sandbox_agent_%s %s\nsandbox_agent_%s %llu\n",
                name, help, name, type, name, (unsigned long long) value);
}

static void put_http(struct buf *b, const struct http_stats *st)
{
        static const char *const classes[] = { "", "1xx", "2xx", "3xx", "4xx", "5xx" };

        buf_puts(b, "# HELP sandbox_agent_http_requests_total answered requests by status class\n"
                    "# TYPE sandbox_agent_http_requests_total counter\n");
        for (size_t i = 1; i < ARRAY_LEN(classes); i++)
                buf_printf(b, "sandbox_agent_http_requests_total{class=\"%s\"} %llu\n", classes[i],
                           (unsigned long long) st->by_class[i]);
        put(b, "http_request_microseconds_total", "counter", "time spent on answered requests",
            st->latency_us_sum);
        put(b, "http_connections", "gauge", "open connections", st->conns_open);
        put(b, "http_upgraded_connections", "gauge", "connections that became WebSockets",
            st->streams_open);
        put(b, "http_connections_total", "counter", "accepted connections", st->conns_total);
        put(b, "http_received_bytes_total", "counter", "bytes read from clients", st->bytes_in);
        put(b, "http_sent_bytes_total", "counter", "bytes of answers", st->bytes_out);
        put(b, "http_malformed_total", "counter",
            "requests that were not HTTP, or not as it is allowed here", st->parse_errors);
        put(b, "http_timeouts_total", "counter", "clients that missed a deadline", st->timeouts);
}

static void put_log(struct buf *b, const struct evlog_stats *st)
{
        put(b, "events_appended_total", "counter", "events given a number", st->appended);
        put(b, "events_committed_total", "counter", "events that are durable", st->committed);
        put(b, "store_commits_total", "counter", "transactions", st->commits);
        put(b, "store_failed_commits_total", "counter", "transactions that failed",
            st->failed_commits);
        put(b, "store_pending_bytes", "gauge", "events that wait for their commit",
            st->pending_bytes);
        put(b, "store_failing", "gauge", "1 while the store cannot be written", st->is_failing);
}

static int get_metrics(struct req *r, struct error *err)
{
        const struct api *api = req_app(r);
        _cleanup_(chunk_unrefp) struct chunk *body = NULL;
        struct evlog_stats log;
        struct buf b = { 0 };

        evlog_stats(api->app->log, &log);
        buf_printf(
                &b,
                "# HELP sandbox_agent_info version of the server\n# TYPE sandbox_agent_info gauge\n"
                "sandbox_agent_info{version=\"%s\"} 1\n",
                SA_VERSION);
        put(&b, "uptime_seconds", "gauge", "since the start",
            (uint64_t) (clock_real_us() - api->app->started_us) / 1000000);
        put(&b, "resident_bytes", "gauge", "memory of the server", resident_bytes());
        put_http(&b, http_server_stats(api->http));
        put_log(&b, &log);
        put(&b, "processes", "gauge", "running children",
            supervisor_n_children(api->app->children));
        body = buf_take_chunk(&b);
        return reply_bytes(r, 200, "text/plain; version=0.0.4; charset=utf-8", body);
}

const struct route api_metrics[] = {
        { "GET", "/metrics", get_metrics, .cli = "metrics",
          .doc = "The server's own numbers, for Prometheus." },
        { 0 },
};
