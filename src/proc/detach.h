/* A process that outlives us: in a session of its own, with nothing on stdin and its output in a
 * log file. It belongs to nobody afterwards; who starts it remembers its pid. */
#pragma once
#include <sys/types.h>

#include "base/error.h"

struct detach_spec {
        const char *const *argv;    /* argv[0] is a path; NULL-terminated */
        const char *const *env_add; /* "NAME=value" on top of ours, NULL-terminated; may be NULL */
        const char *log_path;       /* appended to; made with mode 0600 */
};

int detach_spawn(const struct detach_spec *spec, pid_t *ret, struct error *err);
