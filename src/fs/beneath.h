/* Names that others chose (out of an archive, out of a diff) below a directory that we hold open.
 * Every component is opened by itself and never through a symbolic link, so neither a link that is
 * there, nor one that appears meanwhile, leads anywhere else. Blocking (see root.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* The checked name without ".", doubled and trailing slashes, in new memory; "" is the directory
 * itself. ERR_INVALID "invalid relative path: …" for `..`, absolute, over-long or broken ones. */
int beneath_clean(const char *name, size_t len, char **ret, struct error *err);

/* The directory `rel` (clean; "" = top itself) as O_PATH descriptor. With `make` missing ones are
 * made (0777 and the umask). ERR_FORBIDDEN at a symbolic link, ERR_CONFLICT at anything else that
 * is no directory. */
int beneath_dir(int top, const char *rel, bool make, struct error *err);
/* The same for the directory that holds the last component, which is *ret_name (inside of rel). */
int beneath_parent(int top, const char *rel, bool make, const char **ret_name, struct error *err);
