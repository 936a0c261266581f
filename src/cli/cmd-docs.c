/* `docs cli` and `docs configuration`: the reference documents from the tables. The files in docs/
 * are their output, and a test says so. */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "cli/help.h"
#include "cli/registry.h"

#define NOTE                                                                                       \
        "<!-- Printed by `sandbox-agent docs %s`. Change the tables in src/, not this file. "      \
        "-->\n\n"

/* A cell of a Markdown table: a bar would end it, and outside of code '<' begins a tag. */
static void cell(struct buf *out, const char *text, bool is_code)
{
        for (; *text; text++)
                buf_printf(out, *text == '|' || (*text == '<' && !is_code) ? "\\%c" : "%c", *text);
}

/* ---- cli.md ---- */

static void default_text(const struct option *row, struct buf *out)
{
        if (row->preset)
                buf_printf(out, "`%s`", row->preset);
}

static void option_row(const struct option *row, struct buf *out)
{
        _cleanup_(buf_done) struct buf flag = {};

        help_flag(row, 0, &flag);
        buf_puts(out, "| `");
        cell(out, flag.data, true);
        buf_puts(out, "` | ");
        default_text(row, out);
        buf_puts(out, " | ");
        cell(out, row->doc ?: "", false);
        for (size_t i = 0; row->names && row->names[i]; i++)
                buf_printf(out, "%s`%s`", i ? ", " : ": ", row->names[i]);
        buf_puts(out, row->flags & OPT_REQUIRED ? " (required) |\n" : " |\n");
}

static void option_table(const struct option *rows, size_t n, struct buf *out)
{
        if (n == 0)
                return;
        buf_puts(out, "\n| Option | Default | Meaning |\n|---|---|---|\n");
        for (size_t i = 0; i < n; i++)
                if (!(rows[i].flags & OPT_HIDDEN))
                        option_row(&rows[i], out);
}

/* Commands may share a table: it is shown once. */
static const struct command *same_options(const struct cli *cli, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (cli->all[i]->options_size && cli->all[k]->options == cli->all[i]->options)
                        return cli->all[k];
        return NULL;
}

static void command_section(const struct cli *cli, size_t i, struct buf *out)
{
        const struct command *c = cli->all[i], *same = same_options(cli, i);

        buf_printf(out, "\n## %s\n\n%s.%s\n", c->name, c->summary,
                   c->run ? "" : " Not available in this version.");
        buf_printf(out, "\n```\n%s %s [OPTIONS]%s%s\n```\n", CLI_NAME, c->name, c->args ? " " : "",
                   c->args ?: "");
        if (c->doc)
                buf_printf(out, "\n%s\n", c->doc);
        if (same)
                buf_printf(out, "\nOptions: those of `%s`.\n", same->name);
        else
                option_table(c->options, c->options_size, out);
}

void docs_cli(const struct cli *cli, struct buf *out)
{
        buf_printf(out, NOTE, "cli");
        buf_puts(out, "# Command line\n\n"
                      "Options may be written `-p 1`, `-p1`, `--port 1` or `--port=1`; `--` ends "
                      "them. The global\n"
                      "options stand before or behind the command. Exit status: 0 done, 1 failed, "
                      "2 wrong call;\n"
                      "a failure is one line on stderr. `api` commands print JSON with sorted keys "
                      "on stdout.\n"
                      "\n## Global options\n");
        option_table(cli_global_rows, cli_global_rows_size, out);
        for (size_t i = 0; i < cli->n; i++)
                if (!(cli->all[i]->flags & CMD_HIDDEN))
                        command_section(cli, i, out);
}

/* ---- configuration.md ---- */

static bool is_setting(const struct option *row)
{
        return !(row->flags & (OPT_NO_FILE | OPT_HIDDEN));
}

static void range_text(const struct option *row, struct buf *out)
{
        const char *unit = row->type == OPT_MS ? " ms" : "";

        if (row->max)
                buf_printf(out, " (%llu to %llu%s)", (unsigned long long) row->min,
                           (unsigned long long) row->max, unit);
        else if (row->min)
                buf_printf(out, " (at least %llu%s)", (unsigned long long) row->min, unit);
}

static void setting_row(const struct option *row, struct buf *out)
{
        static const char *const types[] = {
                [OPT_STR] = "text",    [OPT_SECRET] = "secret", [OPT_BOOL] = "true or false",
                [OPT_UINT] = "number", [OPT_ENUM] = "one of",   [OPT_LIST] = "list",
                [OPT_MS] = "duration",
        };

        buf_printf(out, "| `%s` | ", row->name);
        buf_printf(out, row->env ? "`%s` | " : "%s| ", row->env ?: "");
        buf_puts(out, types[row->type]);
        for (size_t i = 0; row->names && row->names[i]; i++)
                buf_printf(out, "%s`%s`", i ? ", " : " ", row->names[i]);
        range_text(row, out);
        buf_puts(out, " | ");
        default_text(row, out);
        buf_puts(out, " | ");
        cell(out, row->doc ?: "", false);
        buf_puts(out, " |\n");
}

/* Was this name shown with an earlier command? */
static bool is_shown(const struct cli *cli, size_t upto, const char *name)
{
        for (size_t i = 0; i < upto; i++) {
                const struct command *c = cli->all[i];
                const struct option_set set = { c->options, c->options_size, NULL };
                const struct option *row =
                        c->flags & CMD_HIDDEN ? NULL : option_find(&set, name, strlen(name));

                if (row && is_setting(row))
                        return true;
        }
        return false;
}

void docs_configuration(const struct cli *cli, struct buf *out)
{
        buf_printf(out, NOTE, "configuration");
        buf_puts(out,
                 "# Configuration\n\n"
                 "Every setting has one name. It can stand in the configuration file (`port = "
                 "8080`), in the\n"
                 "environment, and on the command line (`--port 8080`); the later one of these "
                 "wins, and all win\n"
                 "over the default.\n\n"
                 "The file is `$XDG_CONFIG_HOME/sandbox-agent/config` (or "
                 "`~/.config/sandbox-agent/config`), or\n"
                 "what `--config` or `SANDBOX_AGENT_CONFIG` names. It has one `name = value` per "
                 "line; a line that\n"
                 "begins with `#` is a comment; a list takes one line per item (in the "
                 "environment: commas). A\n"
                 "name nobody knows is an error. Durations are milliseconds, or have `ms`, `s`, "
                 "`m` or `h` behind\n"
                 "them. `token` is a secret: keep the file unreadable for others, or use the "
                 "environment.\n\n"
                 "| Name | Environment | Value | Default | Meaning |\n|---|---|---|---|---|\n");
        for (size_t i = 0; i < cli_global_rows_size; i++)
                if (is_setting(&cli_global_rows[i]))
                        setting_row(&cli_global_rows[i], out);
        for (size_t i = 0; i < cli->n; i++)
                for (size_t k = 0; k < cli->all[i]->options_size; k++) {
                        const struct option *row = &cli->all[i]->options[k];

                        if (!(cli->all[i]->flags & CMD_HIDDEN) && is_setting(row) &&
                            !is_shown(cli, i, row->name))
                                setting_row(row, out);
                }
}

/* ---- the commands ---- */

static int print(const struct command_ctx *ctx, void (*write_doc)(const struct cli *, struct buf *),
                 struct error *err)
{
        _cleanup_(buf_done) struct buf out = {};

        cli_expand(ctx->env);
        write_doc(ctx->env, &out);
        return fd_write_all(STDOUT_FILENO, out.data, out.len, err);
}

static int run_cli(const void *values, const struct command_ctx *ctx, struct error *err)
{
        return print(ctx, docs_cli, err);
}

static int run_configuration(const void *values, const struct command_ctx *ctx, struct error *err)
{
        return print(ctx, docs_configuration, err);
}

const struct command cmd_docs_cli = {
        "docs cli",
        .summary = "Print docs/cli.md",
        .flags = CMD_HIDDEN,
        .run = run_cli,
};
const struct command cmd_docs_configuration = {
        "docs configuration",
        .summary = "Print docs/configuration.md",
        .flags = CMD_HIDDEN,
        .run = run_configuration,
};
