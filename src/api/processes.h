/* What the rows about processes share: bodies, JSON, decoded input, and the end of a process. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "core/processes.h"
#include "json/bind.h"

struct buf;
struct jval;
struct jw;
struct req;

enum { PROCESS_COMMAND_MAX = 4096, PROCESS_CWD_MAX = 4096, PROCESS_ID_MAX = 32 };

struct processes *req_processes(struct req *r);
/* The process that the path names; ERR_NOT_FOUND. */
int req_process(struct req *r, struct process **ret, struct error *err);

/* ---- what create and run both take ---- */
struct process_body {
        const char *command, *cwd;
        struct strv args;
        struct pairs env;
};
/* Fills command, arguments, directory and environment; ERR_INVALID for a name that none can have.
 * Everything lives in the request's arena. */
int process_spec_fill(struct req *r, const struct process_body *b, struct process_spec *ret,
                      struct error *err);
/* Puts the system's own words first, as clients know them, and what was tried behind them: "failed
 * to spawn process: No such file or directory (os error 2): run 'x' …". Returns -1. */
int process_spawn_failed(struct error *err);
/* A number of a body that must fit 16 bits; ERR_SHAPE in the words of the binder. */
int process_check_u16(const char *name, uint64_t v, struct error *err);

/* ---- answers ---- */
void process_json(struct jw *w, const char *key, const struct process *p);
int reply_process(struct req *r, const struct process *p);
int reply_taken(struct req *r, struct buf *b); /* 200 with this JSON; the buffer is empty then */

/* ---- input ---- */
/* The bytes that a client means. encoding NULL = fallback. ERR_INVALID "encoding must be one of:
 * base64, utf8, text" or "invalid base64 input: …". Borrows from data or uses `hold`. */
int process_input_decode(const char *encoding, const char *fallback, struct slice data,
                         struct buf *hold, struct slice *ret, struct error *err);

/* ---- the end of a process, for those who read its output ----
 * A reader may still be busy with the last bytes when the record goes; what became of the process
 * is kept here. */
struct process_end {
        struct process_waiter waiter;
        struct processes *table;
        struct process *process; /* NULL once the end is known */
        char id[PROCESS_ID_MAX];
        int code, signal; /* code -1: the signal ended it */
        int64_t at_ms;    /* real time; 0 = nothing is known */
};
void process_end_watch(struct process_end *e, struct processes *t, struct process *p);
/* At READER_END: looks once more, if the waiter has not been told yet. */
void process_end_look(struct process_end *e);
void process_end_done(struct process_end *e);

/* ---- handlers in files of their own ---- */
struct input_body {
        const struct jval *data; /* any JSON in the table, since a typed NUL is a key like others */
        const char *encoding;
        bool eof;
};
struct resize_body {
        uint64_t cols, rows;
};
extern const struct field process_input_fields[], process_input_reply[], process_resize_fields[];
int process_input_post(struct req *r, struct error *err);
int process_resize_post(struct req *r, struct error *err);

struct stop_query {
        uint64_t wait_ms;
        bool has_wait;
};
extern const struct field process_stop_query[];
int process_stop_post(struct req *r, struct error *err);
int process_kill_post(struct req *r, struct error *err);

struct logs_query {
        int stream;
        bool has_stream, has_tail, follow;
        uint64_t tail, since;
};
extern const struct field process_logs_query[], process_logs_reply[];
int process_logs_get(struct req *r, struct error *err);
