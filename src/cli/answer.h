/* What a call's answer looks like on the command line. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct client;
struct client_request;

enum answer_raw { RAW_NO, RAW_LOGS, RAW_RUN };

struct answer_spec {
        const char *output; /* file that the body replaces, "-" = stdout, NULL = stdout with care */
        enum answer_raw raw;
};

/* Performs the call and shows its answer as it comes: JSON indented with sorted keys, events one
 * line each, everything else byte for byte, with bounded memory. Returns the exit status. A status
 * that is not 2xx puts its problem on stderr and is an error. */
int answer_show(struct client *c, const struct client_request *q, const struct answer_spec *spec,
                struct error *err);
/* Just the problem of an answer that is none, on stderr. */
void answer_problem(const char *type, const char *body, size_t len);
