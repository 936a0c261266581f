/* All commands of this program in one list: those of other layers, our own, those that have only
 * their place yet, and the mirror of the API's routes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/command.h"

struct cli_env;
struct route;

#define CLI_NAME "sandbox-agent"

/* A name that only leads to others: "daemon", "api agents". */
struct cli_group {
        const char *name, *summary;
};

struct cli {
        struct arena arena;
        const struct route *const *routes; /* not yet in the list: see cli_expand() */
        const struct command **all;        /* in the order of the help */
        size_t n;
};

void cli_init(struct cli *cli, const struct cli_env *env);
void cli_done(struct cli *cli);
/* Of one name the command with a function counts; the first of two. */
void cli_add(struct cli *cli, const struct command *c);
/* Adds the mirror of the routes. Only who looks below `api` needs it: a server must not carry it.
 */
void cli_expand(struct cli *cli);

const struct command *cli_find(const struct cli *cli, const char *name);
bool cli_has_group(const struct cli *cli, const char *name);
const char *cli_group_summary(const char *name);

extern const struct option cli_global_rows[];
extern const size_t cli_global_rows_size;

/* ---- where the rows come from ---- */
extern const struct command cmd_daemon_start, cmd_daemon_stop, cmd_daemon_status, cmd_docs_cli,
        cmd_docs_configuration, cmd_terminal_attach, cmd_terminal_open;
extern const struct command cli_later[]; /* ends with a NULL name */
void cli_mirror(struct cli *cli, const struct route *const *tables);
