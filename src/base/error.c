#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BAD "invalid request: "

const struct err_face err_faces[ERR__MAX] = {
        [ERR_OK] = { "ok", "OK", "", NULL, 200, 0, 0, false },
        [ERR_INVALID] = { "invalid_request", "Invalid Request", BAD, NULL, 400, -32602, 1, false },
        [ERR_SHAPE] = { "invalid_request", "Invalid Request", BAD, NULL, 422, -32602, 1, false },
        [ERR_NO_ENDPOINT] = { "invalid_request", "Not Found", "", NULL, 404, -32601, 1, false },
        [ERR_METHOD] = { "invalid_request", "Method Not Allowed", "", NULL, 405, -32601, 1, false },
        [ERR_TOKEN] = { "token_invalid", "Token Invalid", "", "token invalid", 401, -32000, 1,
                        true },
        [ERR_FORBIDDEN] = { "permission_denied", "Permission Denied", "", "permission denied", 403,
                            -32000, 1, true },
        [ERR_NOT_FOUND] = { "not_found", "Not Found", "not found: ", NULL, 404, -32002, 1, false },
        [ERR_CONFLICT] = { "conflict", "Conflict", "conflict: ", NULL, 409, -32003, 1, true },
        [ERR_NOT_ACCEPTABLE] = { "not_acceptable", "Not Acceptable", "not acceptable: ", NULL, 406,
                                 -32600, 1, true },
        [ERR_MEDIA_TYPE] = { "unsupported_media_type", "Unsupported Media Type",
                             "unsupported media type: ", NULL, 415, -32600, 1, true },
        [ERR_TOO_BIG] = { "invalid_request", "Payload Too Large", BAD, NULL, 413, -32600, 1,
                          false },
        [ERR_URI_TOO_LONG] = { "invalid_request", "URI Too Long", BAD, NULL, 414, -32600, 1,
                               false },
        [ERR_HEAD_TOO_BIG] = { "invalid_request", "Request Header Fields Too Large", BAD, NULL, 431,
                               -32600, 1, false },
        [ERR_SLOW_CLIENT] = { "timeout", "Request Timeout", "", "request timeout", 408, -32600, 1,
                              true },
        [ERR_PRECONDITION] = { "precondition_failed", "Precondition Failed", "", NULL, 412, -32003,
                               1, true },
        [ERR_RANGE] = { "range_not_satisfiable", "Range Not Satisfiable", "", NULL, 416, -32602, 1,
                        true },
        [ERR_UPGRADE] = { "upgrade_required", "Upgrade Required", "", NULL, 426, -32600, 1, true },
        [ERR_HTTP_VERSION] = { "invalid_request", "HTTP Version Not Supported", BAD, NULL, 505,
                               -32600, 1, false },
        [ERR_UNSUPPORTED] = { "unsupported", "Not Supported", "not supported: ", NULL, 501, -32601,
                              1, true },
        [ERR_BUSY] = { "busy", "Service Unavailable", "busy: ", NULL, 503, -32000, 1, true },
        [ERR_UPSTREAM] = { "stream_error", "Stream Error", "stream error: ", NULL, 502, -32603, 1,
                           true },
        [ERR_TIMEOUT] = { "timeout", "Timeout", "", "timeout", 504, -32603, 1, true },
        [ERR_SYSTEM] = { "internal_error", "Internal Error", "", NULL, 500, -32603, 1, true },
        [ERR_USAGE] = { "invalid_request", "Usage", "", NULL, 400, -32602, 2, false },
};

int error_set(struct error *err, enum err_kind kind, int sys, const char *fmt, ...)
{
        va_list ap;
        int n;

        if (!err)
                return -1;
        err->kind = kind;
        err->sys = sys;
        err->ext = NULL;
        va_start(ap, fmt);
        n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        if (sys && n >= 0 && (size_t) n < sizeof(err->msg))
                (void) snprintf(err->msg + n, sizeof(err->msg) - (size_t) n, ": %s",
                                strerrordesc_np(sys) ?: "unknown error");
        return -1;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
        char inner[sizeof(err->msg)];
        va_list ap;
        int n;

        if (!err)
                return -1;
        memcpy(inner, err->msg, sizeof(inner));
        va_start(ap, fmt);
        n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t) n < sizeof(err->msg))
                (void) snprintf(err->msg + n, sizeof(err->msg) - (size_t) n, ": %s", inner);
        return -1;
}

int error_copy(struct error *err, const struct error *from)
{
        if (err)
                *err = *from;
        return -1;
}
