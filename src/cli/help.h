/* Help and usage, printed from the same rows that parse. */
#pragma once

struct buf;
struct cli;
struct command;
struct option;

/* `path` is a command, a group or "". */
void help_write(const struct cli *cli, const char *path, struct buf *out);
/* "Usage: sandbox-agent daemon start [OPTIONS]" and a newline. */
void help_usage(const struct cli *cli, const char *path, struct buf *out);
/* "-p, --port <PORT>"; without a letter "--yes", or "    --yes" when is_aligned. */
void help_flag(const struct option *row, int is_aligned, struct buf *out);
/* The documents of the `docs` command, as Markdown. */
void docs_cli(const struct cli *cli, struct buf *out);
void docs_configuration(const struct cli *cli, struct buf *out);
