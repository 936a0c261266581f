#include "http/server.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "http/conn.h"
#include "http/req.h"
#include "io/socket.h"

enum { CUT_MS = 250 };

const struct http_limits http_limits_default = {
        .max_conns = 16384,
        .max_head_bytes = 32 * 1024,
        .max_headers = 128,
        .max_uri_bytes = 16 * 1024,
        .max_body_bytes = 2 * 1024 * 1024,
        .head_ms = 10 * 1000,
        .body_ms = 30 * 1000,
        .idle_ms = 75 * 1000,
        .write_ms = 60 * 1000,
        .drain_ms = 10 * 1000,
};

static void run_drained(struct task *t)
{
        struct http_server *s = CONTAINER_OF(t, struct http_server, drained);
        void (*done)(void *) = s->drain_done;

        if (!s->is_draining || !done ||
            (!s->is_over && (!list_empty(&s->conns) || !list_empty(&s->reqs))))
                return;
        timer_stop(&s->drain_timer);
        s->drain_done = NULL;
        done(s->drain_arg);
}

/* Calls fn for requests until it finds no more to do: a callback may free any of them. */
static void for_each_req(struct http_server *s, bool (*fn)(struct req *r))
{
        bool again = true;

        while (again) {
                again = false;
                list_for_each (n, &s->reqs) {
                        again = fn(LIST_ENTRY(n, struct req, node));
                        if (again)
                                break;
                }
        }
}

static bool tell_drain(struct req *r)
{
        void (*fn)(void *) = r->on_drain;

        r->on_drain = NULL;
        if (fn)
                fn(r->drain_arg);
        return fn != NULL;
}

static bool tell_gone(struct req *r)
{
        bool is_held = r->on_gone != NULL;

        if (is_held)
                req_gone(r);
        return is_held;
}

/* The grace is over: what is left is closed and the holders are told. They get a moment to let go.
 */
static void on_drain_timer(struct timer *t)
{
        struct http_server *s = CONTAINER_OF(t, struct http_server, drain_timer);

        if (s->is_cut) {
                s->is_over = true; /* whatever is still held is past caring */
                run_drained(&s->drained);
                return;
        }
        s->is_cut = true;
        while (!list_empty(&s->conns))
                conn_kill(LIST_ENTRY(s->conns.next, struct conn, node));
        for_each_req(s, tell_gone);
        timer_set(&s->drain_timer, CUT_MS);
        loop_defer(s->loop, &s->drained);
}

struct http_server *http_server_new(struct loop *l, const struct http_server_spec *spec)
{
        struct http_server *s = NEW(struct http_server);

        s->loop = l;
        s->spec = *spec;
        list_init(&s->conns);
        list_init(&s->reqs);
        rand_hex(s->id_prefix, 8);
        timer_init(&s->drain_timer, l, on_drain_timer);
        task_init(&s->drained, run_drained);
        return s;
}

static void on_accepted(void *arg, int fd)
{
        struct http_server *s = arg;
        static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: "
                                   "0\r\nconnection: close\r\n\r\n";

        if (s->stats.conns_open + s->stats.streams_open < s->spec.limits.max_conns) {
                conn_new(s, fd);
                return;
        }
        if (!s->spec.tls) /* best effort: the socket's empty buffer takes it */
                (void) !write(fd, busy, sizeof(busy) - 1);
        (void) close(fd);
}

int http_server_listen(struct http_server *s, const struct listen_spec *spec, struct error *err)
{
        struct listener *l;

        if (listener_new(s->loop, spec, on_accepted, s, &l, err) < 0)
                return -1;
        s->listeners = xrealloc(s->listeners, (s->n_listeners + 1) * sizeof(struct listener *));
        s->listeners[s->n_listeners++] = l;
        return 0;
}

static void stop_listening(struct http_server *s)
{
        for (size_t i = 0; i < s->n_listeners; i++)
                listener_free(s->listeners[i]);
        s->n_listeners = 0;
}

void server_conn_closed(struct http_server *s, struct conn *c)
{
        s->stats.conns_open--;
        if (s->is_draining)
                loop_defer(s->loop, &s->drained);
}

void server_req_freed(struct http_server *s)
{
        if (s->is_freed && list_empty(&s->reqs))
                loop_free_later(s->loop, s);
        else if (s->is_draining && !s->is_freed)
                loop_defer(s->loop, &s->drained);
}

void http_server_drain(struct http_server *s, void (*done)(void *arg), void *arg)
{
        s->is_draining = true;
        s->drain_done = done;
        s->drain_arg = arg;
        stop_listening(s);
        list_for_each_safe (n, tmp, &s->conns) {
                conn_drain(LIST_ENTRY(n, struct conn, node));
        }
        for_each_req(s, tell_drain);
        timer_set(&s->drain_timer, s->spec.limits.drain_ms);
        loop_defer(s->loop, &s->drained);
}

uint16_t http_server_port(const struct http_server *s)
{
        for (size_t i = 0; i < s->n_listeners; i++)
                if (listener_port(s->listeners[i]))
                        return listener_port(s->listeners[i]);
        return 0;
}

const struct http_stats *http_server_stats(const struct http_server *s)
{
        return &s->stats;
}

struct http_server *http_server_free(struct http_server *s)
{
        if (!s)
                return NULL;
        stop_listening(s);
        while (!list_empty(&s->conns))
                conn_kill(LIST_ENTRY(s->conns.next, struct conn, node));
        for_each_req(s, tell_gone); /* those that have left their connection: tunnels, sockets */
        timer_stop(&s->drain_timer);
        task_cancel(&s->drained);
        free(s->listeners);
        s->is_freed = true; /* a request that is still held keeps the memory until it is let go */
        if (list_empty(&s->reqs))
                loop_free_later(s->loop, s);
        return NULL;
}
