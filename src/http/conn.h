/* Inside of http/: the connection and the request, shared by conn.c, dispatch.c, req.c and reply.c.
 */
#pragma once
#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"

struct body_sink;

enum { HTTP_METHOD_MAX = 32, HTTP_HEADERS_START = 16, HTTP_DISCARD_MAX = 64 * 1024 };

struct header {
        struct slice name,
                value; /* name in lower case; both NUL-terminated once the head is complete */
};

/* CONN_IDLE → CONN_HEAD → CONN_BODY → CONN_WAIT (handler, reply) → CONN_IDLE, or → CONN_LINGER once
 * the last reply was written: our side is closed, what still comes in is thrown away for a moment,
 * so that the client can read the reply before a reset reaches it. */
enum conn_state { CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_WAIT, CONN_LINGER };

struct conn {
        struct http_server *srv;
        struct list node;
        struct stream *stream;
        struct req *req; /* the one being read or answered */
        llhttp_t parser;
        enum conn_state state;
        struct timer in_timer, out_timer;
        struct task resume;  /* go on with `pending` */
        struct slice rest;   /* of what is being fed, behind the current message */
        struct buf pending;  /* arrived while a request was being answered */
        uint64_t taken_then; /* what the client had taken at the last look */
        char method[HTTP_METHOD_MAX];
        uint8_t method_len;
        bool is_dead, is_feeding, saw_eof, head_done, msg_done, in_value;
        bool must_step; /* the parser has more to say without more bytes */
        bool is_body_paused, is_head_timed;
        bool is_deaf;        /* what still comes is dropped; the answer is the last one */
        struct error *fault; /* set inside a parser callback */
};

struct req {
        unsigned refs;
        struct http_server *srv;
        struct conn *conn; /* NULL once the connection is gone or handed over */
        struct list node;  /* srv->reqs */
        struct arena arena;

        struct slice target, path, query, host;
        char method[HTTP_METHOD_MAX];
        struct header *headers;
        size_t n_headers, cap_headers, head_bytes;
        int64_t start_us, content_length; /* -1 = chunked */
        char id[40];
        struct route_match match;
        const char *params[ROUTE_PARAMS_MAX];
        struct error *early; /* decided at the head, answered at the end of the message */
        const char *token_name;
        unsigned scopes;

        struct buf body; /* buffered */
        size_t max_body;
        void *body_struct, *query_struct;
        const struct jval *json;

        const struct body_sink *sink; /* streamed */
        void *sink_arg;

        struct buf extra; /* header lines of the reply */
        const char *vary; /* what the reply depends on besides CORS, or NULL */
        int status;
        uint64_t reply_bytes;
        int64_t reply_left; /* of a stated length; -1 = chunked or until close */
        void (*on_gone)(void *);
        void *gone_arg;
        void (*on_room)(void *);
        void *room_arg;
        void (*on_drain)(void *);
        void *drain_arg;
        unsigned holds;
        bool keep_alive, is_http10, has_body, body_done, is_discarding, is_streaming,
                wants_continue;
        bool has_begun, has_ended, is_chunked, is_head, is_unknown_method, is_upgraded;
};

struct http_server {
        struct loop *loop;
        struct http_server_spec spec;
        struct http_stats stats;
        struct listener **listeners;
        size_t n_listeners;
        struct list conns, reqs;
        uint64_t next_id;
        char id_prefix[9];
        bool is_draining, is_cut, is_over, is_freed;
        struct timer drain_timer;
        struct task drained;
        void (*drain_done)(void *);
        void *drain_arg;
};

/* conn.c */
void conn_new(struct http_server *srv, int fd);
void conn_kill(struct conn *c);       /* now; tells the request */
void conn_reply_done(struct conn *c); /* the reply of c->req is complete */
void conn_wait_room(struct conn *c);  /* it is full: the client must read within write_ms */
void conn_drain(struct conn *c);

/* dispatch.c */
void dispatch_head(struct req *r);     /* the head is complete: checks that need no body */
void dispatch_complete(struct req *r); /* the message is complete: run the handler */

/* req.c */
struct req *req_new(struct conn *c);
struct req *req_ref(struct req *r);
void req_unref(struct req *r);
void req_gone(struct req *r); /* the connection is gone */

/* reply.c */
void reply_continue(struct req *r);
void reply_account(struct req *r); /* the answer is complete: numbers and log */

/* server.c */
void server_conn_closed(struct http_server *srv, struct conn *c);
void server_req_freed(struct http_server *srv);
