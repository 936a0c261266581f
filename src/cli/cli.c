#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/macro.h"
#include "cli/help.h"
#include "cli/registry.h"

enum { PATH_BYTES = 160 };

/* One command line on its way: words → command → options → run. */
struct line {
        struct cli *cli;
        struct option_scan scan;
        char path[PATH_BYTES]; /* words that were recognised: "daemon start" */
        const struct command *cmd;
        struct command_globals globals;
        void *values;
        const char **args;
        size_t n_args;
        bool is_help_word; /* `help daemon` */
};

static struct option_set global_set(struct line *l)
{
        return (struct option_set) { cli_global_rows, cli_global_rows_size, &l->globals };
}

static struct option_set command_set(struct line *l)
{
        return (struct option_set) { l->cmd->options, l->cmd->options_size, l->values };
}

/* ---- answers that are text ---- */

enum { GO_ON = -2 }; /* anything else is the exit status */

static int print(struct buf *b, int fd, int status)
{
        struct error err;

        if (b->len && fd_write_all(fd, b->data, b->len, &err) < 0)
                return 1;
        return status;
}

static int print_help(struct line *l, int fd, int status)
{
        _cleanup_(buf_done) struct buf b = {};

        help_write(l->cli, l->path, &b);
        return print(&b, fd, status);
}

static int print_version(void)
{
        _cleanup_(buf_done) struct buf b = {};

        buf_printf(&b, "%s %s\n", CLI_NAME, SA_VERSION);
        return print(&b, STDOUT_FILENO, 0);
}

/* One line; a wrong call is told where help is. */
static int print_error(struct line *l, const struct error *err)
{
        _cleanup_(buf_done) struct buf b = {};

        buf_printf(&b, "error: %s", err->msg);
        if (err->kind == ERR_USAGE)
                buf_printf(&b, " (see '%s%s%s --help')", CLI_NAME, l->path[0] ? " " : "", l->path);
        buf_putc(&b, '\n');
        return print(&b, STDERR_FILENO, err_faces[err->kind].exit);
}

/* Was this global flag given? */
static bool is_given(const struct line *l, size_t offset)
{
        for (size_t i = 0; i < l->scan.n; i++)
                if (l->scan.given[i].values == &l->globals &&
                    l->scan.given[i].row->offset == offset)
                        return true;
        return false;
}

/* Help and version answer as soon as they are seen, whatever stands behind them. */
static int early_answer(struct line *l)
{
        if (is_given(l, offsetof(struct command_globals, wants_help)))
                return print_help(l, STDOUT_FILENO, 0);
        if (is_given(l, offsetof(struct command_globals, wants_version)))
                return print_version();
        return GO_ON;
}

/* ---- words → command ---- */

/* Appends a word to the path if that leads somewhere. */
static bool path_extend(struct line *l, const char *word)
{
        char longer[PATH_BYTES];
        int n = snprintf(longer, sizeof(longer), "%s%s%s", l->path, *l->path ? " " : "", word);

        if (n < 0 || (size_t) n >= sizeof(longer))
                return false;
        if (strcmp(longer, "api") == 0)
                cli_expand(l->cli);
        if (!cli_find(l->cli, longer) && !cli_has_group(l->cli, longer))
                return false;
        memcpy(l->path, longer, (size_t) n + 1);
        l->scan.at++;
        return true;
}

static bool has_word(const struct line *l)
{
        return l->scan.at < l->scan.argc && l->scan.argv[l->scan.at][0] != '-';
}

/* The next word, or what is missing. */
static int take_word(struct line *l, struct error *err)
{
        const char *word;

        if (l->scan.at >= l->scan.argc)
                return l->is_help_word ? print_help(l, STDOUT_FILENO, 0)
                                       : print_help(l, STDERR_FILENO, 2);
        word = l->scan.argv[l->scan.at];
        if (!*l->path && !l->is_help_word && strcmp(word, "help") == 0) {
                l->is_help_word = true;
                l->scan.at++;
                return GO_ON;
        }
        if (path_extend(l, word))
                return GO_ON;
        return error_set(err, ERR_USAGE, 0, "unrecognized subcommand '%.64s'", word);
}

static int find_command(struct line *l, struct error *err)
{
        const struct option_set set = global_set(l);

        for (;;) {
                int r;

                l->cmd = cli_find(l->cli, l->path);
                if (l->cmd && !(has_word(l) && path_extend(l, l->scan.argv[l->scan.at])))
                        return l->is_help_word ? print_help(l, STDOUT_FILENO, 0) : GO_ON;
                if (l->cmd)
                        continue; /* a command that is also a group went one word further */
                r = option_scan_next(&l->scan, &set, 1, err);
                if (r < 0)
                        return -1;
                r = r ? early_answer(l) : take_word(l, err);
                if (r != GO_ON)
                        return r;
        }
}

/* ---- options ---- */

static int scan_rest(struct line *l, struct error *err)
{
        const struct option_set sets[] = { command_set(l), global_set(l) };

        l->args = arena_zalloc(&l->cli->arena, (size_t) (l->scan.argc + 1) * sizeof(*l->args));
        for (;;) {
                int r = option_scan_next(&l->scan, sets, ARRAY_LEN(sets), err);

                if (r < 0)
                        return -1;
                if (r == 1) {
                        r = early_answer(l);
                        if (r != GO_ON)
                                return r;
                        continue;
                }
                if (l->scan.at >= l->scan.argc)
                        return GO_ON;
                if (l->n_args == l->cmd->args_max)
                        return error_set(err, ERR_USAGE, 0, "unexpected argument '%.64s' found",
                                         l->scan.argv[l->scan.at]);
                l->args[l->n_args++] = l->scan.argv[l->scan.at++];
        }
}

/* --config, SANDBOX_AGENT_CONFIG, or the usual place; *ret_named when somebody asked for it. */
static char *config_path(const struct line *l, bool *ret_named)
{
        const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME"),
                   *named = getenv("SANDBOX_AGENT_CONFIG");

        for (size_t i = 0; i < l->scan.n; i++)
                if (l->scan.given[i].values == &l->globals &&
                    l->scan.given[i].row->offset == offsetof(struct command_globals, config))
                        named = l->scan.given[i].text;
        *ret_named = named && *named;
        if (*ret_named)
                return xstrdup(named);
        if (dir && *dir == '/')
                return xasprintf("%s/sandbox-agent/config", dir);
        return home && *home ? xasprintf("%s/.config/sandbox-agent/config", home) : NULL;
}

/* The names of every command are known: one file serves them all. */
static int config_check(struct line *l, const struct option_file *f, struct error *err)
{
        struct option_set *sets = arena_zalloc(&l->cli->arena, (l->cli->n + 1) * sizeof(*sets));

        for (size_t i = 0; i < l->cli->n; i++)
                sets[i] = (struct option_set) { l->cli->all[i]->options,
                                                l->cli->all[i]->options_size, NULL };
        sets[l->cli->n] = global_set(l);
        return option_file_check(f, sets, l->cli->n + 1, err);
}

static int config_read(struct line *l, struct option_file *ret, struct error *err)
{
        bool is_named;
        _cleanup_free_ char *path = config_path(l, &is_named);

        if (!path)
                return 0;
        if (option_file_read(&l->cli->arena, path, ret, err) < 0)
                return err->kind == ERR_NOT_FOUND && !is_named ? 0 : -1;
        return config_check(l, ret, err);
}

static int set_fill(struct line *l, const struct option_file *f, const struct option_set *set,
                    struct error *err)
{
        if (options_preset(&l->cli->arena, set, err) < 0 ||
            option_file_apply(&l->cli->arena, f, set, err) < 0)
                return -1;
        return options_from_env(&l->cli->arena, set, err);
}

static int fill_options(struct line *l, struct error *err)
{
        const struct option_set own = command_set(l), global = global_set(l);
        _cleanup_(option_file_wipe) struct option_file f = {};

        if (config_read(l, &f, err) < 0 || set_fill(l, &f, &global, err) < 0 ||
            set_fill(l, &f, &own, err) < 0)
                return -1;
        if (option_scan_apply(&l->scan, err) < 0 || options_check(&own, err) < 0)
                return -1;
        if (l->n_args < l->cmd->args_min)
                return error_set(err, ERR_USAGE, 0,
                                 "the following required arguments were not provided: %s",
                                 l->cmd->args);
        return 0;
}

/* ---- run ---- */

static int run_command(struct line *l, struct error *err)
{
        const struct command_ctx ctx = { l->cmd, &l->globals, l->args, l->n_args, l->cli };

        if (!l->cmd->run)
                return error_set(err, ERR_UNSUPPORTED, 0, "'%s' is not available in this version",
                                 l->cmd->name);
        return l->cmd->run(l->values, &ctx, err);
}

static int line_run(struct line *l, struct error *err)
{
        struct option_set own, global = global_set(l);
        int r = find_command(l, err);

        if (r != GO_ON)
                return r;
        l->values = arena_zalloc(&l->cli->arena, MAX(l->cmd->values_size, (size_t) 1));
        own = command_set(l);
        r = scan_rest(l, err);
        if (r == GO_ON)
                r = fill_options(l, err) < 0 ? -1 : run_command(l, err);
        options_done(&own);
        options_done(&global);
        return r;
}

int cli_main(int argc, char **argv, const struct cli_env *env)
{
        struct error err = {};
        struct cli cli;
        struct line l = { .cli = &cli };
        int r;

        cli_init(&cli, env);
        l.scan = (struct option_scan) {
                .arena = &cli.arena, .argv = argv, .argc = argc, .at = MIN(argc, 1)
        };
        r = line_run(&l, &err);
        if (r < 0)
                r = print_error(&l, &err);
        cli_done(&cli);
        return r;
}
