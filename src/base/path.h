/* Paths as text: no file is touched here. Names that come out of an archive or a form are checked
 * before they are joined to a directory. */
#pragma once
#include <stddef.h>

#include "base/error.h"

enum { PATH_BYTES_MAX = 4096, PATH_PART_MAX = 255 };

/* 0 if `p` names something at or below the directory it will be joined to: not empty, not absolute,
 * no `..` component, no NUL, strict UTF-8, within both ceilings. "." components, doubled and
 * trailing slashes are harmless and pass. Says nothing about symbolic links: open with O_NOFOLLOW
 * or RESOLVE_BENEATH. Else -1 with ERR_INVALID, or ERR_TOO_BIG over a ceiling. */
int path_check_relative(const char *p, size_t len, struct error *err);

/* dir + "/" + name in new memory, with exactly one slash between them. An empty name gives dir. */
char *path_join(const char *dir, const char *name);
