/* argv → command. What the layers bring is put together here; nothing else happens. */
#include <stddef.h>

#include "api/api.h"
#include "cli/cli.h"

int main(int argc, char **argv)
{
        static const struct command *const commands[] = { &api_server_command, &api_host_command,
                                                          &api_docs_command, NULL };
        const struct cli_env env = { .commands = commands, .routes = api_tables };

        return cli_main(argc, argv, &env);
}
