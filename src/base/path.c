#include "base/path.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

static int check_part(struct slice part, struct error *err)
{
        if (slice_eq(part, ".."))
                return error_set(err, ERR_INVALID, 0, "path must not contain '..'");
        if (part.len > PATH_PART_MAX)
                return error_set(err, ERR_TOO_BIG, 0,
                                 "path component of %zu bytes, at most %d are allowed", part.len,
                                 PATH_PART_MAX);
        return 0;
}

int path_check_relative(const char *p, size_t len, struct error *err)
{
        struct slice rest = { p, len }, part;

        if (!len)
                return error_set(err, ERR_INVALID, 0, "path must not be empty");
        if (len > PATH_BYTES_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "path of %zu bytes, at most %d are allowed",
                                 len, PATH_BYTES_MAX);
        if (p[0] == '/')
                return error_set(err, ERR_INVALID, 0, "path must be relative");
        if (memchr(p, '\0', len))
                return error_set(err, ERR_INVALID, 0, "path must not contain a NUL byte");
        if (utf8_check(p, len) != len)
                return error_set(err, ERR_INVALID, 0, "path must be valid UTF-8");
        while (slice_cut(&rest, '/', &part))
                if (check_part(part, err) < 0)
                        return -1;
        return 0;
}

char *path_join(const char *dir, const char *name)
{
        size_t n = strlen(dir);

        while (*name == '/')
                name++;
        if (!*name)
                return xstrdup(dir);
        if (!n)
                return xstrdup(name);
        while (n && dir[n - 1] == '/')
                n--;
        return xasprintf("%.*s/%s", (int) n, dir, name);
}
