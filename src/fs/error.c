#include <errno.h>

#include "base/macro.h"
#include "fs/root.h"

/* What a client can do about it; an errno that is not here is ours to explain: ERR_SYSTEM. */
static const struct {
        int sys;
        enum err_kind kind;
} kinds[] = {
        { ENOENT, ERR_NOT_FOUND },   { ENOTDIR, ERR_NOT_FOUND },    { EACCES, ERR_FORBIDDEN },
        { EPERM, ERR_FORBIDDEN },    { EROFS, ERR_FORBIDDEN },      { EXDEV, ERR_FORBIDDEN },
        { ELOOP, ERR_INVALID },      { ENAMETOOLONG, ERR_INVALID }, { EISDIR, ERR_INVALID },
        { ENOTEMPTY, ERR_CONFLICT },
};

int fs_error(struct error *err, int sys, const char *doing, const char *path)
{
        enum err_kind kind = ERR_SYSTEM;

        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (kinds[i].sys == sys)
                        kind = kinds[i].kind;
        if (kind == ERR_NOT_FOUND)
                return error_set(err, kind, 0, "path not found: %s", path);
        if (sys == EXDEV) /* what openat2() says; its text would speak of devices */
                return error_set(err, kind, 0, "path leads outside of the root: %s", path);
        return error_set(err, kind, sys, "%s '%s'", doing, path);
}
