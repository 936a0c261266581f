#include "proc/lease.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "proc/scope.h"
#include "proc/tree.h"

#define LEASE_PREFIX "children-"
#define LEASE_SUFFIX ".lease"
enum { SWEEP_MS = 300, NOTE_BYTES = 256 };

/* Which server: no two in the life of a machine are the same. */
struct note {
        int pid;
        unsigned long long start, pid_ns;
        char boot[40];
};

static void read_boot(char ret[static 40])
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = NOTE_BYTES };

        if (file_read("/proc/sys/kernel/random/boot_id", &text, NULL) < 0)
                buf_puts(&text, "unknown");
        (void) snprintf(ret, 40, "%.*s", (int) strcspn(text.data, "\n"), text.data);
}

static struct note own_note(void)
{
        struct note n = { .pid = (int) getpid(),
                          .start = tree_start(getpid()),
                          .pid_ns = tree_namespace() };

        read_boot(n.boot);
        return n;
}

static bool parse_note(int fd, struct note *ret)
{
        char text[NOTE_BYTES];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        text[n > 0 ? n : 0] = '\0';
        return sscanf(text, "%d %llu %llu %39s", &ret->pid, &ret->start, &ret->pid_ns, ret->boot) ==
               4;
}

/* It appears under its name only when it is locked and written. */
void lease_take(struct lease *l, const char *dir)
{
        struct note n = own_note();
        _cleanup_free_ char *temp = NULL;
        _cleanup_close_ int fd = -1;

        l->path = xasprintf("%s/" LEASE_PREFIX "%d-%llu" LEASE_SUFFIX, dir, n.pid, n.start);
        temp = xasprintf("%s.new", l->path);
        fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ||
            dprintf(fd, "%d %llu %llu %s\n", n.pid, n.start, n.pid_ns, n.boot) < 0 ||
            rename(temp, l->path) < 0) {
                (void) unlink(temp);
                free(l->path);
                l->path = NULL;
                return;
        }
        l->fd = TAKE_FD(fd);
}

void lease_drop(struct lease *l)
{
        if (l->path)
                (void) unlink(l->path);
        free(l->path);
        closep(&l->fd);
        *l = (struct lease) { .fd = -1 };
}

/* ---- the dead ---- */

static bool has_mark_of(pid_t pid, const struct note *n)
{
        return scope_key_of(tree_mark(pid)) == scope_key(n->pid, n->start, n->pid_ns);
}

static bool is_leftover(const struct tree *t, const struct tree_proc *p, const struct note *n)
{
        return p->start >= n->start && has_mark_of(p->pid, n) &&
               !tree_is_under(t, p->pid, n->pid); /* else it belongs to who has the number now */
}

/* True while there is one, or might be. */
static bool kill_leftovers(const struct note *n)
{
        struct tree t;
        bool found;

        tree_scan(&t, 0); /* everybody */
        found = t.is_partial;
        for (size_t i = 0; i < t.n; i++) {
                if (!is_leftover(&t, &t.procs[i], n))
                        continue;
                found = true;
                tree_signal(&t.procs[i], SIGKILL);
        }
        tree_done(&t);
        return found;
}

static bool end_leftovers(const struct note *n)
{
        for (int ms = 0; ms < SWEEP_MS; ms++) {
                if (!kill_leftovers(n))
                        return true;
                (void) nanosleep(&(struct timespec) { .tv_nsec = 1000 * 1000 }, NULL);
        }
        return false; /* the next start tries again */
}

/* True if the note has served. Not where the dead server saw other process ids than we do, nor
 * where we ourselves are of its tree: started by hand, say, in a terminal of its. */
static bool settle_note(const struct note *n, const struct note *own)
{
        if (strcmp(n->boot, own->boot) != 0)
                return true;
        if (n->pid_ns != own->pid_ns || has_mark_of(getpid(), n))
                return false;
        return end_leftovers(n);
}

static void sweep_one(int dir, const char *name, const struct note *own)
{
        _cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        struct note n;

        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return;
        if (!parse_note(fd, &n) || settle_note(&n, own))
                (void) unlinkat(dir, name, 0);
}

void lease_sweep(const char *dir)
{
        struct note own = own_note();
        DIR *d = opendir(dir);
        struct dirent *e;

        while (d && (e = readdir(d)))
                if (str_starts(e->d_name, LEASE_PREFIX) && str_ends(e->d_name, LEASE_SUFFIX))
                        sweep_one(dirfd(d), e->d_name, &own);
        if (d)
                (void) closedir(d);
}
