/* The command line. It knows its own commands; what other layers bring is handed over by main. */
#pragma once

struct command;
struct route;

struct cli_env {
        const struct command *const *commands; /* of other layers, NULL-terminated; listed first */
        const struct route *const *routes; /* row tables, NULL-terminated; mirrored as `api …` */
};

/* Parses, runs, and returns the exit status: 0, 1 for a failure, 2 for a wrong call. */
int cli_main(int argc, char **argv, const struct cli_env *env);
