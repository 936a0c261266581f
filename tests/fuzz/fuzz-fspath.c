/* Paths of clients: what is accepted is an absolute path within the ceilings, whole, and (relative
 * ones) at or below the home directory; beneath a root nothing that is opened lies elsewhere. */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "fs/root.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fsroot *all, *in[2];
static char dir[] = "/tmp/sa-fuzz-XXXXXX";

static int bed; /* the directory, open: the fuzzer's own paths are relative, so no chdir() */

static void remove_bed(void)
{
        (void) unlinkat(bed, "in/up", 0);
        (void) unlinkat(bed, "in/a/b", 0);
        (void) unlinkat(bed, "in/a", AT_REMOVEDIR);
        (void) unlinkat(bed, "in", AT_REMOVEDIR);
        (void) rmdir(dir);
}

static void setup(void)
{
        struct error err;
        char path[64];

        if (all)
                return;
        assert(mkdtemp(dir));
        bed = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert(mkdirat(bed, "in", 0755) == 0 && mkdirat(bed, "in/a", 0755) == 0);
        assert(symlinkat("../..", bed, "in/up") == 0 && symlinkat("/", bed, "in/a/b") == 0);
        (void) atexit(remove_bed);
        (void) snprintf(path, sizeof(path), "%s/in", dir);
        assert(fsroot_open(NULL, path, &all, &err) == 0);
        assert(fsroot_open(path, path, &in[0], &err) == 0);
        assert(fsroot_open(path, path, &in[1], &err) == 0);
        fsroot_walk_by_hand(in[1]);
}

static void check_text(const char *path, bool was_absolute)
{
        struct slice rest = SLICE(path), part;

        assert(path[0] == '/' && rest.len < PATH_BYTES_MAX);
        assert(utf8_check(path, rest.len) == rest.len);
        while (slice_cut(&rest, '/', &part)) {
                assert(part.len <= PATH_PART_MAX);
                assert(was_absolute || !slice_eq(part, ".."));
        }
        assert(was_absolute || str_starts(path, dir));
}

/* Where the kernel says that the descriptor is. */
static void check_place(const struct fsroot *r, const char *path)
{
        char self[64], real[PATH_BYTES_MAX];
        struct error err = { 0 };
        int fd = fsroot_openat(r, path, O_PATH, 0, &err);
        ssize_t n;

        if (fd < 0) {
                assert(err.kind != ERR_OK && err.msg[0]);
                return;
        }
        (void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
        n = readlink(self, real, sizeof(real) - 1);
        assert(n > 0);
        real[n] = '\0';
        assert(str_starts(real, fsroot_dir(r)));
        (void) close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice text = { (const char *) data, size };
        struct error err = { 0 };
        char *path = NULL, *joined;

        setup();
        if (fsroot_resolve(all, text, &path, &err) < 0) {
                assert(err.kind == ERR_INVALID && err.msg[0]);
        } else {
                check_text(path, size && data[0] == '/');
                check_place(in[0], path);
                check_place(in[1], path);
                joined = path_join(fsroot_dir(in[0]), path);
                check_place(in[0], joined);
                check_place(in[1], joined);
                free(joined);
        }
        free(path);
        return 0;
}
