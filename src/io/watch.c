#include "io/watch.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "io/loop_impl.h"

/* Turning a watch off costs system calls, and most of the time it is freed or turned on again right
 * after. So it is left armed, and disarmed only if something comes that nobody wants. */
struct watch {
        uv_poll_t uv;
        void (*fn)(void *arg, int events);
        void *arg;
        int events; /* what is wanted now … */
        int armed;  /* … and what the loop library looks for; the same unless events is 0 */
};

int watch_new(struct loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
              struct watch **ret, struct error *err)
{
        struct watch *w = NEW(struct watch);
        int r = uv_poll_init(&l->uv, &w->uv, fd);

        if (r < 0) {
                free(w);
                return error_set(err, ERR_SYSTEM, -r, "watch descriptor %d", fd);
        }
        w->uv.data = w;
        w->fn = fn;
        w->arg = arg;
        *ret = w;
        return 0;
}

static void on_poll(uv_poll_t *h, int status, int events)
{
        struct watch *w = h->data;
        int got = 0;

        if (!w->events) { /* also if the other side hangs up: that is asked for like all else */
                w->armed = 0;
                (void) uv_poll_stop(h);
                return;
        }
        if (status < 0) {
                w->events = w->armed = 0; /* the loop library stops at POLLERR */
                w->fn(w->arg, WATCH_READ | WATCH_WRITE | WATCH_ERROR);
                return;
        }
        if (events & UV_READABLE)
                got |= WATCH_READ;
        if (events & UV_WRITABLE)
                got |= WATCH_WRITE;
        if (events & UV_PRIORITIZED)
                got |= WATCH_PRI;
        w->fn(w->arg, got);
}

void watch_set(struct watch *w, int events)
{
        int uv = 0;

        w->events = events;
        if (!events || events == w->armed)
                return;
        w->armed = events;
        if (events & WATCH_READ)
                uv |= UV_READABLE;
        if (events & WATCH_WRITE)
                uv |= UV_WRITABLE;
        if (events & WATCH_PRI)
                uv |= UV_PRIORITIZED;
        (void) uv_poll_start(&w->uv, uv, on_poll);
}

static void watch_closed(uv_handle_t *h)
{
        free(h->data);
}

struct watch *watch_free(struct watch *w)
{
        if (w)
                uv_close((uv_handle_t *) &w->uv, watch_closed);
        return NULL;
}
