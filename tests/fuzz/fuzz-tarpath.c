/* Names out of archives: one that passes the check never leaves the directory it is joined to. */
#include <assert.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/str.h"

/* Follows the path by its text alone; false as soon as it stands above `root`. */
static bool stays_below(const char *full, const char *root)
{
        struct slice rest = SLICE(full + strlen(root)), part;
        long depth = 0;

        if (!str_starts(full, root))
                return false;
        while (slice_cut(&rest, '/', &part)) {
                if (!part.len || slice_eq(part, "."))
                        continue;
                depth += slice_eq(part, "..") ? -1 : 1;
                if (depth < 0)
                        return false;
        }
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char root[] = "/srv/work";
        struct error err = { 0 };
        char *name, *full;

        if (path_check_relative((const char *) data, size, &err) < 0) {
                assert(err.kind == ERR_INVALID || err.kind == ERR_TOO_BIG);
                return 0;
        }
        name = xstrndup((const char *) data, size);
        assert(strlen(name) == size && size <= PATH_BYTES_MAX);
        full = path_join(root, name);
        assert(stays_below(full, root));
        assert(full[strlen(root)] == '/' || full[strlen(root)] == '\0');
        free(full);
        free(name);
        return 0;
}
