/* A route row as a command: `api <row.cli>`. Path parameters are words, query and body fields are
 * flags; what the flags cannot say goes as --json. A row without parameters takes the fields that
 * are its objects as words, too: `path`, `from` and `to`, `command` with its `args`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/command.h"

struct field;
struct route;

/* One option's value, whatever its type, and whether it was given. */
struct mirror_slot {
        union {
                const char *str;
                struct secret *secret;
                bool on;
                int index;
                struct option_list list;
        };
        bool has;
};

enum mirror_place { IN_CALL, IN_QUERY, IN_BODY };

/* What stands behind option i of a mirrored command; its value is slot i. */
struct mirror_field {
        enum mirror_place place;
        const struct field *field; /* NULL for IN_CALL */
};
enum { MIRROR_WORDS_MAX = 2 };
struct mirror {
        const struct route *row;
        struct mirror_field *fields;
        size_t n;
        unsigned n_params;
        /* Options that may be given as words behind the parameters; when is_list, the second one
         * takes all that is left. */
        size_t words[MIRROR_WORDS_MAX];
        unsigned n_words;
        bool is_list;
};

/* Rows of a WebSocket have no mirror: NULL. */
const struct command *mirror_command(struct arena *a, const struct route *row,
                                     int (*run)(const void *, const struct command_ctx *,
                                                struct error *));

/* ---- plain data for one call ---- */
struct mirror_call {
        struct buf path, query, body;
        bool has_body;
};
/* The slot of an IN_CALL option ("endpoint", "json", "json-file", "file", "output", "raw",
 * "last-event-id"); NULL when this command has none of that name. */
const struct mirror_slot *mirror_slot(const struct command *c, const struct mirror_slot *slots,
                                      const char *name);
int mirror_plan(const struct command_ctx *ctx, const struct mirror_slot *slots,
                struct mirror_call *ret, struct error *err);
void mirror_call_done(struct mirror_call *c);
