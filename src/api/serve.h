/* The server as a whole: options in, exit status out. tests/support/testd.c runs it with more rows.
 */
#pragma once
#include "base/command.h"

struct route;

/* The rows of `server`; the struct they fill is serve_options. */
extern const struct option serve_rows[];
extern const size_t serve_rows_size;

/* Runs until a signal ends it. `tables` are the rows to serve. */
int serve_run(const void *values, const struct command_ctx *ctx, const struct route *const *tables,
              struct error *err);
