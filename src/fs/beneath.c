#include "fs/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/str.h"
#include "fs/root.h"

enum { DIR_FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Bytes of a refused name that are shown, so that the reason behind it is not cut off. */
enum { SHOWN_MAX = 200 };

int beneath_clean(const char *name, size_t len, char **ret, struct error *err)
{
        struct slice rest = { name, len }, part;
        char *out;
        size_t n = 0;

        /* Whatever is wrong with it (even its length): the archive or the diff is not valid. */
        if (path_check_relative(name, len, NULL) < 0)
                return error_set(err, ERR_INVALID, 0, "invalid relative path: %.*s",
                                 (int) MIN(len, (size_t) SHOWN_MAX), name);
        out = xmalloc(len + 1);
        while (slice_cut(&rest, '/', &part)) {
                if (!part.len || slice_eq(part, "."))
                        continue;
                if (n)
                        out[n++] = '/';
                memcpy(out + n, part.at, part.len);
                n += part.len;
        }
        out[n] = '\0';
        *ret = out;
        return 0;
}

/* O_NOFOLLOW and O_DIRECTORY together say ENOTDIR for a link too: tell them apart. */
static int explain(int at, const char *name, int sys, const char *rel, struct error *err)
{
        struct stat st;

        if ((sys != ENOTDIR && sys != ELOOP) || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fs_error(err, sys, "open directory", rel);
        if (S_ISLNK(st.st_mode))
                return error_set(err, ERR_FORBIDDEN, 0, "'%s' leads through the symbolic link '%s'",
                                 rel, name);
        return error_set(err, ERR_CONFLICT, 0, "'%s': '%s' is not a directory", rel, name);
}

static int step(int at, const char *name, bool make, const char *rel, struct error *err)
{
        int fd = openat(at, name, DIR_FLAGS);

        if (fd < 0 && errno == ENOENT && make) {
                if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
                        return fs_error(err, errno, "create directory for", rel);
                fd = openat(at, name, DIR_FLAGS);
        }
        return fd < 0 ? explain(at, name, errno, rel, err) : fd;
}

static int walk(int top, const char *rel, size_t len, bool make, struct error *err)
{
        _cleanup_close_ int at = openat(top, ".", DIR_FLAGS);
        struct slice rest = { rel, len }, part;

        if (at < 0)
                return fs_error(err, errno, "open directory", rel);
        while (slice_cut(&rest, '/', &part)) {
                char name[PATH_PART_MAX + 1];
                int next;

                if (!part.len) /* only when rel is empty */
                        continue;
                memcpy(name, part.at, part.len);
                name[part.len] = '\0';
                next = step(at, name, make, rel, err);
                if (next < 0)
                        return -1;
                (void) close(at);
                at = next;
        }
        return TAKE_FD(at);
}

int beneath_dir(int top, const char *rel, bool make, struct error *err)
{
        return walk(top, rel, strlen(rel), make, err);
}

int beneath_parent(int top, const char *rel, bool make, const char **ret_name, struct error *err)
{
        const char *slash = strrchr(rel, '/');

        *ret_name = slash ? slash + 1 : rel;
        return walk(top, rel, slash ? (size_t) (slash - rel) : 0, make, err);
}
