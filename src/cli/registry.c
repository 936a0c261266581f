#include "cli/registry.h"

#include <string.h>

#include "base/macro.h"
#include "base/str.h"
#include "cli/cli.h"

#define GLOBAL(field) offsetof(struct command_globals, field)

const struct option cli_global_rows[] = {
        { "token", 't', OPT_SECRET, GLOBAL(token), "SANDBOX_AGENT_TOKEN", .arg = "TOKEN",
          .flags = OPT_GLOBAL,
          .doc = "bearer token: the server requires it, client commands send it" },
        { "no-token", 'n', OPT_BOOL, GLOBAL(no_token), .flags = OPT_GLOBAL,
          .doc = "run open, without a token, also beyond loopback" },
        { "config", 0, OPT_STR, GLOBAL(config), "SANDBOX_AGENT_CONFIG", .arg = "FILE",
          .flags = OPT_GLOBAL | OPT_NO_FILE,
          .doc = "configuration file to read instead of the usual one" },
        { "help", 'h', OPT_BOOL, GLOBAL(wants_help), .flags = OPT_GLOBAL | OPT_NO_FILE,
          .doc = "print help" },
        { "version", 'V', OPT_BOOL, GLOBAL(wants_version), .flags = OPT_GLOBAL | OPT_NO_FILE,
          .doc = "print the version" },
};
const size_t cli_global_rows_size = ARRAY_LEN(cli_global_rows);

static const struct command *const own[] = {
        &cmd_daemon_start,       &cmd_daemon_stop,     &cmd_daemon_status, &cmd_docs_cli,
        &cmd_docs_configuration, &cmd_terminal_attach, &cmd_terminal_open,
};

static const struct cli_group groups[] = {
        { "daemon", "Run the server in the background" },
        { "install", "Install what the server can use" },
        { "credentials", "Find the credentials of agents on this machine" },
        { "api", "Call the API of a running server" },
        { "api agents", "Agents" },
        { "api acp", "ACP connections" },
        { "api fs", "Files and directories" },
        { "api processes", "Processes, their output and their input" },
        { "api terminal", "Work in a terminal of the server" },
        { "docs", "Print the reference documents" },
};

void cli_add(struct cli *cli, const struct command *c)
{
        size_t size = sizeof(void *), n = cli->n;

        for (size_t i = 0; i < n; i++)
                if (strcmp(cli->all[i]->name, c->name) == 0) {
                        if (!cli->all[i]->run)
                                cli->all[i] = c;
                        return;
                }
        if ((n & (n - 1)) == 0) /* full at 0, 1, 2, 4, 8 …: double */
                cli->all =
                        arena_grow(&cli->arena, cli->all, n * size, MAX(2 * n, (size_t) 1) * size);
        cli->all[cli->n++] = c;
}

void cli_init(struct cli *cli, const struct cli_env *env)
{
        *cli = (struct cli) { .routes = env->routes };
        arena_init(&cli->arena, 0);
        for (size_t i = 0; env->commands && env->commands[i]; i++)
                cli_add(cli, env->commands[i]);
        for (size_t i = 0; i < ARRAY_LEN(own); i++)
                cli_add(cli, own[i]);
        for (const struct command *c = cli_later; c->name; c++)
                cli_add(cli, c);
}

void cli_expand(struct cli *cli)
{
        if (cli->routes)
                cli_mirror(cli, TAKE_PTR(cli->routes));
}

void cli_done(struct cli *cli)
{
        arena_done(&cli->arena);
}

const struct command *cli_find(const struct cli *cli, const char *name)
{
        for (size_t i = 0; i < cli->n; i++)
                if (strcmp(cli->all[i]->name, name) == 0)
                        return cli->all[i];
        return NULL;
}

bool cli_has_group(const struct cli *cli, const char *name)
{
        size_t len = strlen(name);

        for (size_t i = 0; i < cli->n; i++)
                if (str_starts(cli->all[i]->name, name) &&
                    (len == 0 || cli->all[i]->name[len] == ' '))
                        return true;
        return false;
}

const char *cli_group_summary(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
                if (strcmp(groups[i].name, name) == 0)
                        return groups[i].summary;
        return NULL;
}
