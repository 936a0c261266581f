/* Options are a table. One row feeds the configuration file (`name = value`), the environment, the
 * flag, `--help` and docs/configuration.md, in this order of strength:
 *
 *         default < file < environment < flag
 *
 *         struct serve_options { const char *host; uint64_t port; struct option_list origins; };
 *         static const struct option rows[] = {
 *                 { "host", 'H', OPT_STR, offsetof(struct serve_options, host), .preset =
 * "127.0.0.1", .env = "SANDBOX_AGENT_HOST", .arg = "HOST", .doc = "address to listen on" }, {
 * "port", 'p', OPT_UINT, offsetof(struct serve_options, port), .preset = "2468", .max = 65535, .env
 * = "SANDBOX_AGENT_PORT", .arg = "PORT", .doc = "port to listen on" },
 *         };
 *
 * Each stronger layer replaces a value as a whole, lists included; within one layer a list collects
 * and of a single value the last counts. All texts live in the arena that is handed in. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum option_type {
        OPT_STR = 1, /* const char *; NULL when nobody sets it */
        OPT_SECRET,  /* struct secret *; never printed; freed by options_done() */
        OPT_BOOL,    /* bool; as a flag without a value, or =true, =false */
        OPT_UINT,    /* uint64_t in min..max (max 0 = any) */
        OPT_ENUM,    /* int: index into .names */
        OPT_LIST,    /* struct option_list; the flag may be repeated, the environment has commas */
        OPT_MS,      /* uint64_t milliseconds in min..max: "250", "250ms", "5s", "2m", "1h" */
};
enum {
        OPT_GLOBAL = 1u << 0,   /* accepted before and after any subcommand */
        OPT_HIDDEN = 1u << 1,   /* not in --help, not in the documents */
        OPT_NO_FILE = 1u << 2,  /* not a name in the configuration file */
        OPT_REQUIRED = 1u << 3, /* somebody must set it */
};

struct option_list {
        const char **at;
        size_t n;
};

struct option {
        const char *name; /* "cors-allow-origin": the flag's long name and the file's name */
        char letter;      /* 'O', or 0 */
        enum option_type type;
        size_t offset;      /* into the struct of values */
        const char *env;    /* or NULL; an empty variable counts as unset */
        const char *preset; /* default as text, or NULL: zero bytes */
        uint64_t min, max;
        const char *const *names; /* OPT_ENUM: NULL-terminated */
        const char *arg;          /* name of the value in help, "PORT"; NULL for OPT_BOOL */
        const char *doc;          /* one lower-case line without a full stop */
        unsigned flags;
        size_t has_offset; /* bool, set when a layer above the default spoke; 0 = nobody asks */
};

/* A table together with the (zeroed) struct it fills. */
struct option_set {
        const struct option *rows;
        size_t rows_size; /* ARRAY_LEN(rows) */
        void *values;
};

/* One `name = value` line, or one flag as it was given. */
struct option_line {
        const char *name, *value;
        unsigned line;
};
struct option_file {
        const char *path;
        struct option_line *lines;
        size_t n;
};

enum { OPTION_FILE_MAX = 256 * 1024 };

/* Failures are ERR_USAGE and name the place: "invalid value 'x' for '--port <PORT>': …",
 * "… for SANDBOX_AGENT_PORT: …", "<file>:3: unknown option 'prot'". A secret's text is never in
 * them. */
int options_preset(struct arena *a, const struct option_set *set, struct error *err);
/* A secret's variable is wiped and removed, so that no child inherits it. */
int options_from_env(struct arena *a, const struct option_set *set, struct error *err);
/* `name = value` lines; '#' starts a comment line. A file that is not there is ERR_NOT_FOUND. */
int option_file_read(struct arena *a, const char *path, struct option_file *ret, struct error *err);
int option_file_parse(struct arena *a, const char *path, char *text, struct option_file *ret,
                      struct error *err);
/* Every name must be a row of one of the sets. */
int option_file_check(const struct option_file *f, const struct option_set *sets, size_t n,
                      struct error *err);
/* Takes what belongs to this set, leaves the rest. */
int option_file_apply(struct arena *a, const struct option_file *f, const struct option_set *set,
                      struct error *err);
void option_file_wipe(struct option_file *f); /* it may hold a secret */

/* Flags. A scan reads argv from the left: -p 1, -p1, -nC, --port 1, --port=1, `--` ends flags. It
 * only remembers what was given; option_scan_apply() assigns, after the weaker layers had their
 * turn. */
struct option_given {
        const struct option *row;
        void *values;
        char *text; /* NULL: a bool without a value */
};
struct option_scan {
        struct arena *arena;
        char **argv;
        int argc, at;  /* the next argument to look at */
        bool is_plain; /* behind `--` */
        struct option_given *given;
        size_t n;
};
/* Takes the flag(s) of the next argument with its value: 1. 0 when the next argument is a plain
 * word (or there is none): the caller takes argv[at++]. -1 ERR_USAGE: unknown flag, missing value.
 */
int option_scan_next(struct option_scan *s, const struct option_set *sets, size_t n,
                     struct error *err);
/* Texts of secrets are overwritten in argv, so that `ps` does not show them. */
int option_scan_apply(struct option_scan *s, struct error *err);

/* OPT_REQUIRED rows that nobody set. */
int options_check(const struct option_set *set, struct error *err);
void options_done(const struct option_set *set); /* frees secrets */

/* One value by its text, as all layers do it; `where` is used in the message. */
int option_assign(struct arena *a, const struct option *row, void *values, const char *text,
                  const char *where, struct error *err);
const struct option *option_find(const struct option_set *set, const char *name, size_t len);
