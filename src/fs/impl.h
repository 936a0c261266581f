/* What the files behind fs/file.h share and nobody else sees. All of it works on a directory's
 * descriptor and a name in it, so that no link on the way can lead elsewhere in the meantime. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

struct fs_info;
struct fs_stop;
struct fsroot;

enum { FS_TEMP_BYTES = 64 };

void fs_info_of(const struct stat *st, struct fs_info *ret);
/* A name that nobody has: hidden, random. */
void fs_temp_name(char ret[static FS_TEMP_BYTES]);
/* A regular file anew by its O_PATH descriptor: what was looked at is what is opened. */
int fs_reopen(int path_fd, int flags); /* -1 with errno */
/* Owner and mode of st. Whose owner cannot be kept loses the bits that lend the owner's rights;
 * without the old group the new one gets what everybody has. -1 with errno: the mode. */
int fs_keep_owner(int fd, const struct stat *st);
/* Whether st is a directory that must stay: the root, home, and what is above them. */
bool fs_is_vital(const struct fsroot *r, const struct stat *st);

/* 0, or -1 when somebody wants an end of it. stop may be NULL. */
int fs_go_on(const struct fs_stop *stop, const char *path, struct error *err);
/* dir/name and all below it; never through a link. `path` is for the words of an error. */
int fs_remove_tree(int dir, const char *name, const char *path, const struct fs_stop *stop,
                   struct error *err);
/* dir/name as to/to_name, which must not exist; what was made stays after a failure. */
int fs_copy_tree(int dir, const char *name, int to, const char *to_name, const char *path,
                 const struct fs_stop *stop, struct error *err);
int fs_copy_bytes(int from, int to); /* from where both are to the end; -1 with errno */
