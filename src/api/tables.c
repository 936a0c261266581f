/* The list of resources: a new file gets a line here. */
#include "api/api.h"

const struct route *const api_tables[] = {
        api_system,    api_metrics,  api_fs,        api_fs_archive, api_fs_edit,
        api_fs_search, api_fs_watch, api_processes, api_run,        api_terminal,
        api_ports,     api_openapi,  api_ui,        NULL,
};
