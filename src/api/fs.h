/* What the file endpoints share: from a path in a request to an answer, without ever blocking the
 * loop.
 *
 * Two ways lead off the loop thread. A call (struct fs_call) is one short piece of work on the pool
 * with one answer behind it. A job reply is work in a thread of its own whose bytes are the answer.
 * In both the request is held until the thread has left it, so everything in the request's arena
 * stays valid however early the client goes; the arena itself belongs to the loop thread: a thread
 * reads what is there, and allocates elsewhere. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fs/file.h"
#include "http/route.h"

struct fsroot;
struct job;
struct jw;
struct req;

enum { FS_TIME_BYTES = 48, FS_TEXT_MAX = 64 * 1024 /* of a path as it comes; fs/ says the rest */ };

/* The rows of an endpoint that takes nothing but a path. */
struct fs_path_query {
        const char *path;
};
extern const struct field fs_path_query[];

/* The root of all files; good as long as the request is. */
const struct fsroot *fs_root(struct req *r);
/* What fsroot_resolve() makes of a path of the client (NULL = home), in the request's arena. */
int fs_path(struct req *r, const char *text, char **ret, struct error *err);

/* ---- a call ----
 * Embed it as first member of the endpoint's own struct, in the request's arena:
 *
 *         struct stat_call { struct fs_call call; struct fs_info info; };
 *         struct stat_call *s = ARENA_NEW(req_arena(r), struct stat_call);
 *         if (fs_path(r, q->path, &s->call.path, err) < 0) return -1;
 *         return fs_call_start(r, &s->call, &stat_ops);
 */
struct fs_call;
struct fs_call_ops {
        /* On a pool thread: it may use the call and what it points to, never the request. 0 =
         * done; 1 = this takes its time: run_long() goes on, in a thread of its own. */
        int (*run)(struct fs_call *, struct error *err);
        int (*run_long)(struct fs_call *, struct error *err); /* 0 or -1; may be NULL */
        /* On the loop, when run() was good and the client is still there. -1: err is answered. */
        int (*answer)(struct fs_call *, struct req *, struct error *err);
        /* On the loop, last, in any case: frees what run() made. May be NULL. */
        void (*done)(struct fs_call *);
};
struct fs_call {
        char *path; /* what it is about: a missing one is named in the problem body */
        /* The call's own business from here on. */
        struct req *req;
        const struct fs_call_ops *ops;
        struct fsroot *root;
        struct fs_stop stop; /* for what run_long() calls: the server ends, do not wait for it */
        struct error err;
        int result; /* of run() */
};
/* Always 0: the answer comes later. */
int fs_call_start(struct req *r, struct fs_call *c, const struct fs_call_ops *ops);

/* ---- a job as reply ---- */
struct job_reply {
        const char *type;        /* content-type of the answer */
        const char *disposition; /* its content-disposition, or NULL */
        const char *path;        /* as in struct fs_call; may be NULL */
        /* On the job's thread: job_emit() is the body. The rules of fs_call_ops.run hold. */
        int (*run)(struct job *, void *arg, struct error *err);
        void (*done)(void *arg); /* on the loop, last, in any case; may be NULL */
};
/* 0: the answer will come. A failure of run() before its first byte becomes the problem body, a
 * later one breaks the transfer. The client's pace is the job's pace; when it leaves, the job is
 * cancelled. -1 (ERR_BUSY): nothing has begun and done() is not called. `spec` is copied, its texts
 * are not: constants, or the request's arena. */
int job_reply(struct req *r, const struct job_reply *spec, void *arg, struct error *err);

/* ---- handlers that live in a file of their own ---- */
int fs_get_file(struct req *r, struct error *err);
int fs_put_file(struct req *r, struct error *err);
struct fs_put_query {
        const char *path;
        bool is_durable;
};

/* ---- words ---- */
/* Adds details {id, resource} of the path that is missing; other errors stay as they are. */
void fs_explain(struct req *r, const char *path, struct error *err);
/* "2026-01-02T03:04:05.123456789+00:00" */
void fs_time_text(int64_t ns, char ret[static FS_TIME_BYTES]);
/* entryType, size, modified, mode and, for a link, symlink: members of an open object. */
void fs_info_write(struct jw *w, const struct fs_info *i);
/* Answers {"path":…}. */
int fs_reply_path(struct req *r, const char *path);
