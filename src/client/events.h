/* Server-sent events, as bytes come in. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "io/line.h"

enum { EVENT_DATA_MAX = 64 * 1024 * 1024 };

struct client_event {
        const char *name;  /* "" without one */
        const char *id;    /* "" without one */
        struct slice data; /* lines joined by a newline */
};

/* Zeroed at the start. */
struct events {
        struct line_framer lines;
        struct buf name, id, data;
        bool has_data, is_over;
        /* inner: for the call under way */
        bool (*fn)(void *arg, const struct client_event *e);
        void *arg;
        struct error *err;
};

/* Calls fn for each whole event; a false from it ends the matter: what follows is swallowed. -1 for
 * an event over EVENT_DATA_MAX. */
int events_feed(struct events *e, const char *data, size_t len,
                bool (*fn)(void *arg, const struct client_event *e), void *arg, struct error *err);
void events_done(struct events *e);
