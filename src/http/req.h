/* One request and its reply, as a handler sees them.
 *
 * The request owns an arena; everything parsed from it lives there. A handler answers at once with
 * a reply_* call, or keeps the request with req_hold() and answers later from the loop. Exactly one
 * reply; an error that a handler returns becomes the problem body. When the client goes away first,
 * on_gone (if set) comes once, and the request must be let go with req_release(). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/chunk.h"
#include "base/error.h"
#include "base/str.h"

struct jval;
struct loop;
struct req;
struct stream;

struct loop *req_loop(struct req *r);
struct arena *req_arena(struct req *r);
void *req_app(struct req *r);      /* what http_server_new() was given */
const char *req_id(struct req *r); /* x-request-id: the client's when sane, else ours */
struct slice req_method(struct req *r);
struct slice req_path(struct req *r);
struct slice req_query_text(struct req *r);
const char *req_header(struct req *r, const char *lower_name); /* NULL when absent */
bool req_header_at(struct req *r, size_t i, const char **ret_name, const char **ret_value);
struct slice req_host(struct req *r); /* of the target or the Host header; may be empty */
const char *req_peer(struct req *r);  /* the client's address; NULL: a unix socket, or it is gone */
uint64_t req_taken(struct req *r);    /* stream_taken() of its connection: does the client read? */
const char *req_param(struct req *r,
                      const char *name);    /* decoded; "" never NULL for a row's own name */
const void *req_query(struct req *r);       /* the struct of row->query */
const void *req_body(struct req *r);        /* the struct of row->body */
const struct jval *req_json(struct req *r); /* the whole JSON body, or NULL */
struct slice req_raw(struct req *r);        /* buffered body bytes */
bool req_is_head(struct req *r);
const char *req_token_name(struct req *r); /* who: the token's name, or "" */
bool req_has_scope(struct req *r, unsigned scope);

/* ---- answering at once ---- */
int reply_json(struct req *r, int status, const char *json, size_t len);
int reply_empty(struct req *r, int status);
int reply_bytes(struct req *r, int status, const char *type,
                struct chunk *body); /* keeps its own ref */
/* A part of a regular file; takes the descriptor, whatever it returns. content-length is len; a
 * file that turns out to be shorter breaks the transfer, so that nobody takes it for whole. */
int reply_file(struct req *r, int status, const char *type, int fd, uint64_t offset, uint64_t len);
int reply_error(struct req *r, const struct error *err);
void reply_header(struct req *r, const char *name,
                  const char *value); /* before the reply; copied */

/* ---- later ---- */
/* on_gone(arg): the client left; may be NULL. Every hold is matched by one release. */
void req_hold(struct req *r, void (*on_gone)(void *arg), void *arg);
void req_release(struct req *r);
void req_on_gone(struct req *r, void (*on_gone)(void *arg), void *arg); /* set or change it later */
bool req_is_gone(struct req *r);
/* The server shuts down: a stream that would go on for ever ends itself kindly now. Holding only.
 */
void req_on_drain(struct req *r, void (*fn)(void *arg), void *arg);

/* ---- streaming the reply (chunked, or with a known length >= 0) ---- */
int reply_begin(struct req *r, int status, const char *type, int64_t length);
/* 1 = room, 0 = full (on_room follows), -1 = the client is gone. */
int reply_write(struct req *r, struct chunk *c);
int reply_write_bytes(struct req *r, const void *data, size_t len);
void reply_on_room(struct req *r, void (*on_room)(void *arg), void *arg);
void reply_end(struct req *r);   /* clean end */
void reply_abort(struct req *r); /* the client sees a broken transfer, never a short success */

/* ---- streaming the request body (R_STREAM_BODY) ---- */
struct body_sink {
        void (*on_data)(void *arg, const char *data, size_t len);
        /* Once: whole body arrived (why NULL), or it never will. Not after the reply: who answers
         * in the middle of the body is not told about its end. */
        void (*on_end)(void *arg, const struct error *why);
};
void req_read_body(struct req *r, const struct body_sink *, void *arg);
/* What was read already (at most 64 KiB) and the end of the body come in spite of a pause. */
void req_pause_body(struct req *r, bool on);
int64_t req_body_length(struct req *r); /* Content-Length, or -1 when chunked */

/* ---- leaving HTTP (WebSocket): answers 101 with the headers given by reply_header() and hands the
 * connection over. `early` are bytes that came right behind the head. ---- */
int req_upgrade(struct req *r, const char *protocol, struct stream **ret, struct slice *early,
                struct error *err);
/* Does the client ask to leave HTTP, for whatever protocol? (HTTP/1.1 without a body,
 * `connection: upgrade` and an upgrade header.) */
bool req_wants_upgrade(struct req *r);
/* The same for who passes another server's 101 on: `head` is the whole head of the answer, from the
 * status line to the empty line, and is sent as it is. At once or later from a held R_STREAM_BODY
 * row that has not called req_read_body(); what the client sends meanwhile waits and comes as
 * `early`, which lives as long as the request. The stream is the caller's then and has no sink yet.
 * The request counts as an open stream until req_release(). The stream's end is no business of the
 * request any more; when the server shuts down on_drain comes, and on_gone when its grace is over.
 */
int req_take_stream(struct req *r, struct chunk *head, struct stream **ret, struct slice *early,
                    struct error *err);
