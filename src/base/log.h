/* The log: one line per fact, logfmt or JSON, with typed fields. Lines are gathered in memory and
 * written by log_flush(), which the loop calls once per iteration; warnings and errors go out at
 * once. A secret has no field type here, so it cannot be logged by mistake. Only the edges (api,
 * cli, main) log; everything below returns errors. One thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_field {
        const char *key; /* NULL ends the list */
        const char *str; /* a text, or NULL: then num counts */
        int64_t num;
};
#define LOG_S(k, s)                                                                                \
        {                                                                                          \
                (k), (s), 0                                                                        \
        }
#define LOG_N(k, n)                                                                                \
        {                                                                                          \
                (k), 0, (int64_t) (n)                                                              \
        }

void log_setup(enum log_level min, enum log_format format);
/* Lines go to fd from now on (borrowed). */
void log_to_fd(int fd);
/* Lines go to <dir>/log-MM-DD-YY; a new file begins at UTC midnight and files older than seven days
 * go. False, with errno set, if the directory cannot be used. */
bool log_to_dir(const char *dir);
bool log_wants(enum log_level level);
void log_fields(enum log_level level, const char *target, const char *msg,
                const struct log_field *fields);
void log_flush(void);

#define LOG(level, msg, ...)                                                                       \
        log_fields((level), "sandbox_agent", (msg),                                                \
                   (const struct log_field[]) { __VA_ARGS__ __VA_OPT__(, ) { 0 } })
