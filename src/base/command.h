/* A command of the program, as plain data: the command line finds it, parses its options into a
 * zeroed struct of `values_size` bytes, and calls run(). Layers below cli/ export commands of their
 * own this way without knowing the command line. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/option.h"
#include "base/secret.h"

/* What every command can be given, before or behind its name. */
struct command_globals {
        struct secret *token; /* -t, --token, SANDBOX_AGENT_TOKEN; or NULL */
        bool no_token;        /* -n, --no-token */
        const char *config;   /* --config */
        bool wants_help, wants_version;
};

struct command;
struct command_ctx {
        const struct command *self;
        const struct command_globals *globals;
        const char *const *args; /* plain words behind the name; NULL-terminated */
        size_t args_size;
        void *env; /* cli's own: its list of commands */
};

enum { CMD_HIDDEN = 1u << 0 };

struct command {
        const char *name;    /* "daemon start"; NULL ends a table */
        const char *args;    /* "<AGENT> [FILE]", or NULL */
        const char *summary; /* one line with a capital and no full stop, for the list */
        const char *doc;     /* further paragraphs for its own help; may be NULL */
        const struct option *options;
        size_t options_size; /* rows */
        size_t values_size;  /* bytes of the struct that the rows fill */
        unsigned args_min, args_max;
        unsigned flags;
        /* >= 0 is the exit status; -1: err is printed as one line, its kind gives the status. NULL:
         * the command has its place, but this version does not bring it (ERR_UNSUPPORTED). `values`
         * and everything in it live until run() returns. */
        int (*run)(const void *values, const struct command_ctx *ctx, struct error *err);
        const void *extra; /* the command's own business */
};
