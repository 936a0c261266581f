/* .gitignore files on disk, on top of the pure rules of search.h. Private to fs/. */
#pragma once
#include <stdbool.h>

#include "base/str.h"
#include "fs/search.h"

struct fsroot;

enum { IGNORE_FILE_MAX = 1024 * 1024 }; /* bytes of one file that are read */

/* The rules of the directory, stacked on `above`: one level for its .gitignore, always, so that it
 * can be read again; below it, in the top directory of a repository, one for .git/info/exclude that
 * also hides everything above. dir_fd may be O_PATH. */
struct ignore *ignore_enter(struct ignore *above, int dir_fd, const char *path);
/* Takes levels off down to `above`. Returns `above`. */
struct ignore *ignore_leave(struct ignore *i, struct ignore *above);
/* The rules that directories above path impose on it: up to the top of its repository; NULL when it
 * lies in none that can be seen. */
struct ignore *ignore_parents(const struct fsroot *r, const char *path);

/* Reads the directory's .gitignore once more. */
void ignore_reload(struct ignore *i, int dir_fd);
/* The directory whose levels end at `above` has another path now, below the rules `new_above`. */
void ignore_move(struct ignore *i, const struct ignore *above, struct ignore *new_above,
                 const char *dir);
