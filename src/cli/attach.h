/* Joins stdin and stdout to a terminal of the server. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct client;

struct attach_spec {
        const char *id;      /* of the process */
        const char *history; /* "all", a number of bytes, or NULL for none */
        bool sends_eof;      /* the end of a stdin that is no terminal is ^D; else it detaches */
};
enum attach_how {
        ATTACH_EXITED,   /* the process has ended */
        ATTACH_DETACHED, /* ctrl-], or the end of stdin */
        ATTACH_SIGNALED, /* we were told to end by a signal */
};
struct attach_end {
        enum attach_how how;
        int code; /* exit code of the process, -1 = a signal ended it; or the signal we got */
};

/* Runs until one of these, with the user's terminal as it was before. -1: the server said no, or
 * the connection broke. */
int attach_run(struct client *c, const struct attach_spec *spec, struct attach_end *ret,
               struct error *err);
