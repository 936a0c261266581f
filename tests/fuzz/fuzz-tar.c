/* Archives from outside: whatever they hold, only the destination changes, and no temporary name is
 * left in it. */
#include <assert.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macro.h"
#include "base/str.h"
#include "fs/file.h"
#include "fs/root.h"
#include "fs/tar.h"

enum { INPUT_MAX = 64 * 1024 };

static struct fsroot *root;
static char base[64], dest[96];

static void remove_base(void)
{
        (void) fs_remove(root, base, true, NULL);
}

static void open_bed(void)
{
        struct error err = { 0 };
        char path[96];

        (void) snprintf(base, sizeof(base), "%s/sa-fuzz-tar-XXXXXX",
                        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        assert(mkdtemp(base) && fsroot_open(NULL, "/", &root, &err) == 0);
        (void) snprintf(dest, sizeof(dest), "%s/dest", base);
        (void) snprintf(path, sizeof(path), "%s/outside", base);
        assert(mkdir(path, 0700) == 0);
        (void) atexit(remove_base);
}

/* Entries of a directory. A temporary name among them must be the archive's own. */
static unsigned count(const char *path, bool has_own)
{
        DIR *d = opendir(path);
        const struct dirent *e;
        unsigned n = 0;

        assert(d);
        while ((e = readdir(d))) {
                assert(has_own || !str_starts(e->d_name, ".sa-"));
                n++;
        }
        (void) closedir(d);
        return n - 2;
}

struct memory {
        const char *at;
        size_t left, step;
};

static int memory_read(void *arg, const char **ret, size_t *ret_len, struct error *err)
{
        struct memory *m = arg;
        size_t n = MIN(m->left, m->step);

        *ret = m->at;
        *ret_len = n;
        m->at += n;
        m->left -= n;
        return 0;
}

/* Mutations break the checksums of headers, and would go no further than that. */
static void mend(char *tar, size_t size)
{
        for (char *h = tar; h + 512 <= tar + size; h += 512) {
                unsigned sum = 0;

                if (memcmp(h + 257, "ustar", 5) != 0)
                        continue;
                memset(h + 148, ' ', 8);
                for (size_t i = 0; i < 512; i++)
                        sum += (unsigned char) h[i];
                (void) snprintf(h + 148, 8, "%06o", sum);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static char tar[INPUT_MAX];
        struct memory m = { tar, size, size % 3 ? 4096 : 700 };
        const struct tar_source src = { memory_read, &m };
        struct tar_paths paths = { 0 };
        struct error err = { 0 };
        char path[96];

        if (size > INPUT_MAX)
                return 0;
        if (!root)
                open_bed();
        if (size)
                memcpy(tar, data, size);
        if (size % 5) /* some stay broken */
                mend(tar, size);
        if (tar_unpack(root, dest, &src, &paths, &err) < 0)
                assert(err.kind != ERR_OK && err.msg[0]);
        for (size_t i = 0; i < paths.n; i++)
                assert(str_starts(paths.at[i], dest) && !strstr(paths.at[i], "/../"));
        tar_paths_done(&paths);
        (void) chmod(dest, 0700);
        (void) count(dest, memmem(tar, size, ".sa-", 4) != NULL);
        assert(count(base, false) == 2);
        (void) snprintf(path, sizeof(path), "%s/outside", base);
        assert(count(path, false) == 0);
        assert(fs_remove(root, dest, true, &err) == 0);
        return 0;
}
