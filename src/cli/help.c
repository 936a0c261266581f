#include "cli/help.h"

#include <string.h>

#include "base/buf.h"
#include "base/macro.h"
#include "base/str.h"
#include "cli/registry.h"

enum {
        COLUMNS = 100,
        LEFT_MAX = 34, /* a longer left side gets a line of its own */
};

/* ---- two columns ---- */

/* Words of `text` from column `left` on, broken before COLUMNS. */
static void wrap(struct buf *out, const char *text, size_t left)
{
        size_t col = left;

        while (*text) {
                size_t len = strcspn(text, " ");

                if (col > left && col + 1 + len > COLUMNS) {
                        buf_printf(out, "\n%*s", (int) left, "");
                        col = left;
                } else if (col > left) {
                        buf_putc(out, ' ');
                        col++;
                }
                buf_put(out, text, len);
                col += len;
                text += len + strspn(text + len, " ");
        }
        buf_putc(out, '\n');
}

static void two_columns(struct buf *out, const char *left, size_t width, const char *right)
{
        size_t len = strlen(left);

        buf_printf(out, "  %s", left);
        if (len > width)
                buf_printf(out, "\n%*s", (int) width + 4, "");
        else
                buf_printf(out, "%*s", (int) (width - len) + 2, "");
        wrap(out, right, width + 4);
}

/* ---- options ---- */

void help_flag(const struct option *row, int is_aligned, struct buf *out)
{
        if (row->letter)
                buf_printf(out, "-%c, ", row->letter);
        else if (is_aligned)
                buf_puts(out, "    ");
        buf_printf(out, "--%s", row->name);
        if (row->arg)
                buf_printf(out, " <%s>%s", row->arg, row->type == OPT_LIST ? "..." : "");
}

static void option_right(const struct option *row, struct buf *out)
{
        buf_puts(out, row->doc ?: "");
        for (size_t i = 0; row->names && row->names[i]; i++)
                buf_printf(out, "%s%s%s", i ? ", " : " [possible values: ", row->names[i],
                           row->names[i + 1] ? "" : "]");
        if (row->preset && row->type != OPT_BOOL)
                buf_printf(out, " [default: %s]", row->preset);
        if (row->env)
                buf_printf(out, " [env: %s]", row->env);
        if (row->flags & OPT_REQUIRED)
                buf_puts(out, " [required]");
}

static size_t options_width(const struct option *rows, size_t n, size_t width)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_(buf_done) struct buf b = {};

                help_flag(&rows[i], 1, &b);
                if (!(rows[i].flags & OPT_HIDDEN) && b.len <= LEFT_MAX)
                        width = MAX(width, b.len);
        }
        return width;
}

static void options_write(const struct option *rows, size_t n, size_t width, struct buf *out)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_(buf_done) struct buf left = {}, right = {};

                if (rows[i].flags & OPT_HIDDEN)
                        continue;
                help_flag(&rows[i], 1, &left);
                option_right(&rows[i], &right);
                two_columns(out, left.data, width, right.data ?: "");
        }
}

static void options_section(const struct command *c, struct buf *out)
{
        size_t width = options_width(cli_global_rows, cli_global_rows_size, 0);

        if (c)
                width = options_width(c->options, c->options_size, width);
        if (c && c->options_size) {
                buf_puts(out, "\nOptions:\n");
                options_write(c->options, c->options_size, width, out);
        }
        buf_puts(out, "\nGlobal options:\n");
        options_write(cli_global_rows, cli_global_rows_size, width, out);
}

/* ---- commands ---- */

/* The next word of a command below `path`; false when it is not below. */
static bool child_word(const struct command *c, const char *path, struct slice *ret)
{
        size_t len = strlen(path);
        const char *rest = c->name + len;

        if (!str_starts(c->name, path) || (len && *rest++ != ' '))
                return false;
        *ret = (struct slice) { rest, strcspn(rest, " ") };
        return true;
}

static void child_add(const struct cli *cli, const struct command *c, const char *path,
                      struct slice word, struct buf *out)
{
        _cleanup_(buf_done) struct buf full = {}, left = {};
        const struct command *exact;
        const char *text;

        buf_printf(&full, "%s%s%.*s", path, *path ? " " : "", (int) word.len, word.at);
        buf_put(&left, word.at, word.len);
        exact = cli_find(cli, full.data);
        text = exact ? exact->summary : cli_group_summary(full.data);
        two_columns(out, left.data, 20, text ?: "More commands");
}

/* Each word below `path` once, in table order. */
static void children_write(const struct cli *cli, const char *path, struct buf *out)
{
        for (size_t i = 0; i < cli->n; i++) {
                struct slice word, other;
                bool is_seen = false;

                if ((cli->all[i]->flags & CMD_HIDDEN) || !child_word(cli->all[i], path, &word))
                        continue;
                for (size_t k = 0; k < i && !is_seen; k++)
                        is_seen = !(cli->all[k]->flags & CMD_HIDDEN) &&
                                  child_word(cli->all[k], path, &other) && other.len == word.len &&
                                  memcmp(other.at, word.at, word.len) == 0;
                if (!is_seen)
                        child_add(cli, cli->all[i], path, word, out);
        }
}

void help_usage(const struct cli *cli, const char *path, struct buf *out)
{
        const struct command *c = cli_find(cli, path);

        buf_printf(out, "Usage: %s%s%s [OPTIONS]", CLI_NAME, *path ? " " : "", path);
        if (!c)
                buf_puts(out, " <COMMAND>");
        else if (c->args)
                buf_printf(out, " %s", c->args);
        buf_putc(out, '\n');
}

static void command_write(const struct cli *cli, const struct command *c, struct buf *out)
{
        buf_printf(out, "%s\n\n", c->summary);
        help_usage(cli, c->name, out);
        if (c->doc) {
                buf_putc(out, '\n');
                wrap(out, c->doc, 0);
        }
        options_section(c, out);
}

void help_write(const struct cli *cli, const char *path, struct buf *out)
{
        const struct command *c = cli_find(cli, path);

        if (c) {
                command_write(cli, c, out);
                return;
        }
        buf_printf(out, "%s\n\n",
                   *path ? cli_group_summary(path) ?: "More commands"
                         : "Runs coding agents in sandboxes behind one HTTP API");
        help_usage(cli, path, out);
        buf_puts(out, "\nCommands:\n");
        children_write(cli, path, out);
        options_section(NULL, out);
}
