/* The page's files, packed into the binary by src/ui/embed.c at build time from web/. */
#pragma once
#include "http/static.h"

extern const struct asset ui_assets[];
