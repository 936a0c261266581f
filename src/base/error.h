/* One error object from the system call to the JSON problem body.
 *
 * It lives on the caller's stack: raising an error cannot fail and cannot leak. The kind says what
 * a client can do about it; the message says what was tried, on what, and why it failed, inner
 * cause last: "start sandbox 'a1': bwrap: no such file". */
#pragma once
#include <stdbool.h>

#include "base/macro.h"

enum err_kind {
        ERR_OK,
        ERR_INVALID,     /* the request makes no sense: bad value, bad syntax */
        ERR_SHAPE,       /* well-formed JSON of the wrong shape */
        ERR_NO_ENDPOINT, /* the router knows no such path */
        ERR_METHOD,      /* it knows the path, not the method */
        ERR_TOKEN,       /* no credential, or one that is wrong or expired */
        ERR_FORBIDDEN,   /* known, but not allowed */
        ERR_NOT_FOUND,
        ERR_CONFLICT,
        ERR_NOT_ACCEPTABLE,
        ERR_MEDIA_TYPE,
        ERR_TOO_BIG, /* over a named ceiling */
        ERR_URI_TOO_LONG,
        ERR_HEAD_TOO_BIG,
        ERR_SLOW_CLIENT, /* the client missed a deadline */
        ERR_PRECONDITION,
        ERR_RANGE,
        ERR_UPGRADE, /* this path wants a WebSocket upgrade of version 13 */
        ERR_HTTP_VERSION,
        ERR_UNSUPPORTED, /* this build or this backend cannot do it */
        ERR_BUSY,        /* try again later */
        ERR_UPSTREAM,    /* something we depend on failed */
        ERR_TIMEOUT,
        ERR_SYSTEM, /* the operating system said no */
        ERR_USAGE,  /* command line only */
        ERR__MAX
};

struct error {
        enum err_kind kind;
        int sys;         /* errno value, or 0 */
        const char *ext; /* further members of the problem body as JSON text ("\"agent\":\"x\""),
                          * NULL, or memory that outlives the request */
        char msg[384];
};

/* They always return -1, so that `return error_set(err, …)` reads as one thought. err may be NULL.
 * error_set appends ": strerror(sys)" when sys is not 0. error_wrap puts what *you* were doing
 * first. error_copy hands on what somebody else has raised. */
int error_set(struct error *err, enum err_kind kind, int sys, const char *fmt, ...) _printf_(4, 5);
int error_wrap(struct error *err, const char *fmt, ...) _printf_(2, 3);
int error_copy(struct error *err, const struct error *from);

/* The only place where kinds become HTTP status, problem type, JSON-RPC code and CLI exit status.
 */
struct err_face {
        const char *urn; /* suffix of urn:sandbox-agent:error: */
        const char *title;
        const char *prefix; /* put before the message in the problem's detail */
        const char *detail; /* or: the whole detail, and the message goes to details.message */
        int http, rpc, exit;
        bool has_message; /* the body has the message (again) as details.message */
};
extern const struct err_face err_faces[ERR__MAX];
