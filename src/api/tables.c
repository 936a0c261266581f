/* The list of resources: a new file gets a line here. */
#include "api/api.h"

const struct route *const api_tables[] = {
        api_system, api_metrics, api_openapi, api_ui, NULL,
};
