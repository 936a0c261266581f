/* Where a path of a client leads: the only way from text to a descriptor.
 *
 * Absolute paths are taken as they are, relative ones start at the home directory, "~" and "~/x"
 * mean the home directory too. A relative path with ".." is refused. With a root directory every
 * path must lead to something at or below it: `..`, absolute paths elsewhere, symbolic links and
 * races that lead out are ERR_FORBIDDEN, decided by the kernel while it walks (openat2 with
 * RESOLVE_BENEATH; where that call is missing, by a walk without following links).
 *
 * Everything in fs/ blocks, unless it says that it does not: worker threads, jobs, tests. The root
 * itself never changes after fsroot_open() and may be used by all threads at once. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

struct fsroot;
struct stat;

/* dir NULL = the whole file system. home may lie outside of dir: then relative paths start at dir.
 */
int fsroot_open(const char *dir, const char *home, struct fsroot **ret, struct error *err);
/* Shared: everybody who may outlive the owner (a thread at work) has a reference of his own. */
struct fsroot *fsroot_ref(const struct fsroot *r);
struct fsroot *fsroot_free(struct fsroot *r);    /* gives a reference back; NULL is fine */
const char *fsroot_dir(const struct fsroot *r);  /* NULL = everything */
const char *fsroot_home(const struct fsroot *r); /* where relative paths start */
void fsroot_walk_by_hand(
        struct fsroot *r); /* as on a kernel without openat2; right after opening */

/* The absolute path that is meant, in new memory; no file is touched. Empty = home. ERR_INVALID for
 * NUL, bad UTF-8, names or paths over the ceilings of base/path.h, a relative path with "..". */
int fsroot_resolve(const struct fsroot *r, struct slice text, char **ret, struct error *err);

/* All of these take what fsroot_resolve() gave. Links are followed (as far as the root allows)
 * unless flags has O_NOFOLLOW; O_CLOEXEC, O_NOCTTY and O_NONBLOCK are always set, so that opening a
 * FIFO or a terminal never hangs. Returns the descriptor. */
int fsroot_openat(const struct fsroot *r, const char *path, int flags, mode_t mode,
                  struct error *err);
/* What lies behind the path as O_PATH descriptor, if the kernel has every name on the way in
 * memory; -1 for everything else, failures too. The only one here that never waits. */
int fsroot_open_cached(const struct fsroot *r, const char *path);
/* stat(2): of what a link leads to. */
int fsroot_stat(const struct fsroot *r, const char *path, struct stat *ret, struct error *err);
/* The directory that holds the last component, as O_PATH descriptor, and the last component itself
 * (in new memory, never "." or ".."), for the calls that make, rename or remove a name. With `make`
 * missing directories are made. ERR_INVALID for the root directory itself. */
int fsroot_parent(const struct fsroot *r, const char *path, bool make, int *ret_fd, char **ret_name,
                  struct error *err);
/* Like a missing file, no permission, a directory where a file is needed: the errno of a file
 * operation as error, with the path in it. ENOENT and ENOTDIR are ERR_NOT_FOUND "path not found:
 * …", EACCES, EPERM and EROFS ERR_FORBIDDEN, EXDEV (out of the root) ERR_FORBIDDEN,
 * ENAMETOOLONG and ELOOP ERR_INVALID, the rest ERR_SYSTEM. Returns -1. */
int fs_error(struct error *err, int sys, const char *doing, const char *path);
