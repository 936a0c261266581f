#include "proc/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#define BASE_PREFIX "sandbox-agent-"
enum { PROC_FILE_MAX = 4 << 20, DEPTH_MAX = 32, CLAIM_TRIES = 64, SWEEP_MS = 300 };

static int open_dir_at(int at, const char *name)
{
        return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int write_at(int at, const char *file, const char *text)
{
        _cleanup_close_ int fd = openat(at, file, O_WRONLY | O_CLOEXEC);
        size_t len = strlen(text);

        return fd >= 0 && write(fd, text, len) == (ssize_t) len ? 0 : -1;
}

/* A small control file as text; false if it cannot be read. */
static bool read_at(int at, const char *file, char *ret, size_t size)
{
        _cleanup_close_ int fd = openat(at, file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, ret, size - 1) : -1;

        ret[n > 0 ? n : 0] = '\0';
        return n >= 0;
}

static DIR *open_list(int at, const char *name)
{
        int fd = open_dir_at(at, name);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

        if (!d && fd >= 0)
                (void) close(fd);
        return d;
}

static bool is_group(const struct dirent *e)
{
        return e->d_type == DT_DIR && e->d_name[0] != '.';
}

/* Calls fn for the directory and everything below it, inner ones first. */
static void walk(int at, int depth, void (*fn)(int at, void *arg), void *arg)
{
        DIR *d = open_list(at, ".");
        struct dirent *e;

        while (d && depth < DEPTH_MAX && (e = readdir(d))) {
                _cleanup_close_ int sub = is_group(e) ? open_dir_at(at, e->d_name) : -1;

                if (sub >= 0)
                        walk(sub, depth + 1, fn, arg);
        }
        if (d)
                (void) closedir(d);
        fn(at, arg);
}

struct census {
        bool (*fn)(void *arg, pid_t pid);
        void *arg;
        size_t n;
        bool is_over;
};

static FILE *open_text(int at, const char *file)
{
        int fd = openat(at, file, O_RDONLY | O_CLOEXEC);
        FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;

        if (!f && fd >= 0)
                (void) close(fd);
        return f;
}

static void count_here(int at, void *arg)
{
        struct census *c = arg;
        FILE *f = c->is_over ? NULL : open_text(at, "cgroup.procs");
        char line[32];

        while (f && !c->is_over && fgets(line, sizeof(line), f)) {
                long pid = strtol(line, NULL, 10);

                c->n++;
                if (c->fn && pid > 0) /* 0: a process of another pid namespace */
                        c->is_over = !c->fn(c->arg, (pid_t) pid);
        }
        if (f)
                (void) fclose(f);
}

static size_t census_at(int at, bool (*fn)(void *arg, pid_t pid), void *arg)
{
        struct census c = { .fn = fn, .arg = arg };

        walk(at, 0, count_here, &c);
        return c.n;
}

static bool send_to(void *arg, pid_t pid)
{
        (void) kill(pid, *(const int *) arg);
        return true;
}

static void signal_at(int at, int sig)
{
        (void) census_at(at, send_to, &sig);
}

/* Version 1 has no kill file. Where it is the freezer, nobody forks while we count heads. */
static void kill_at(int at)
{
        if (write_at(at, "cgroup.kill", "1") == 0)
                return;
        (void) write_at(at, "freezer.state", "FROZEN");
        signal_at(at, SIGKILL);
        (void) write_at(at, "freezer.state", "THAWED");
}

static int remove_at(int at, const char *name, int depth)
{
        struct dirent *e;
        DIR *d = open_list(at, name);

        while (d && depth < DEPTH_MAX && (e = readdir(d)))
                if (is_group(e))
                        (void) remove_at(dirfd(d), e->d_name, depth + 1);
        if (d)
                (void) closedir(d);
        return unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

/* ---- where are we? ---- */

static char *next_line(char **at)
{
        return strsep(at, "\n");
}

static bool list_has(const char *list, const char *word)
{
        return slice_list_has(SLICE(list), word);
}

/* Our path in the hierarchy: "<n>:<controllers>:<path>"; version 2 has no controllers. */
static char *own_path(const char *controller)
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = PROC_FILE_MAX };
        char *at, *line;

        if (file_read("/proc/self/cgroup", &text, NULL) < 0)
                return NULL;
        at = text.data;
        while (at && (line = next_line(&at))) {
                const char *num = strsep(&line, ":"), *names = strsep(&line, ":");

                if (!num || !names || !line || strncmp(line, "/..", 3) == 0)
                        continue;
                if (*controller ? list_has(names, controller) : !*names)
                        return xstrdup(line);
        }
        return NULL;
}

struct mount_line {
        const char *root, *point, *type, *options;
};

/* "36 35 98:0 <root> <point> <options> [more] - <type> <source> <super options>" */
static bool parse_mount(char *line, struct mount_line *ret)
{
        char *tail = strstr(line, " - ");

        if (!tail)
                return false;
        *tail = '\0';
        tail += 3;
        for (int i = 0; i < 3; i++)
                (void) strsep(&line, " ");
        ret->root = strsep(&line, " ");
        ret->point = strsep(&line, " ");
        ret->type = strsep(&tail, " ");
        (void) strsep(&tail, " ");
        ret->options = tail ?: "";
        return ret->root && ret->point && ret->type;
}

/* The directory of our own cgroup, or -1. A mount may show only a part of the tree (its root). */
static int try_mount(const struct mount_line *m, const char *controller, const char *path)
{
        size_t root_len = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
        _cleanup_free_ char *dir = NULL;

        if (strcmp(m->type, *controller ? "cgroup" : "cgroup2") != 0)
                return -1;
        if (*controller && !list_has(m->options, controller))
                return -1;
        if (strncmp(path, m->root, root_len) != 0)
                return -1;
        dir = xasprintf("%s/%s", m->point, path + root_len);
        return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_own(const char *controller)
{
        _cleanup_(buf_done) struct buf text = { .max_bytes = PROC_FILE_MAX };
        _cleanup_free_ char *path = own_path(controller);
        char *at, *line;
        int fd = -1;

        if (!path || file_read("/proc/self/mountinfo", &text, NULL) < 0)
                return -1;
        at = text.data;
        while (fd < 0 && at && (line = next_line(&at))) {
                struct mount_line m;

                if (parse_mount(line, &m))
                        fd = try_mount(&m, controller, path);
        }
        return fd;
}

/* ---- our directory, and those of the dead ---- */

static void nap(void)
{
        (void) nanosleep(&(struct timespec) { .tv_nsec = 1000 * 1000 }, NULL);
}

/* Opens and locks a name. Another server may sweep it away, and a third make it anew, between these
 * steps: then the directory that we hold is no longer the one with the name. */
static int lock_dir_at(int own_fd, const char *name)
{
        _cleanup_close_ int dir = open_dir_at(own_fd, name);
        struct stat held, named;

        if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0 || fstat(dir, &held) < 0 ||
            fstatat(own_fd, name, &named, 0) < 0 || held.st_ino != named.st_ino)
                return -1;
        return TAKE_FD(dir);
}

/* Runs at start-up only. The killed need a moment to go; what takes longer is left to the next
 * start. */
static void sweep(int own_fd, const char *name)
{
        _cleanup_close_ int dir = lock_dir_at(own_fd, name);

        if (dir < 0)
                return;
        for (int ms = 0; ms < SWEEP_MS && remove_at(own_fd, name, 0) < 0; ms++) {
                kill_at(dir);
                nap();
        }
}

static void sweep_all(int own_fd)
{
        DIR *d = open_list(own_fd, ".");
        struct dirent *e;

        while (d && (e = readdir(d)))
                if (is_group(e) && str_starts(e->d_name, BASE_PREFIX))
                        sweep(own_fd, e->d_name);
        if (d)
                (void) closedir(d);
}

static int claim_one(struct cgroup *g)
{
        if (mkdirat(g->own_fd, g->base_name, 0755) < 0)
                return -1;
        g->base_fd = lock_dir_at(g->own_fd, g->base_name);
        if (g->base_fd < 0) {
                errno = EEXIST; /* swept away by a server that starts at the same moment */
                return -1;
        }
        return 0;
}

static int claim(struct cgroup *g, struct error *err)
{
        const size_t size = sizeof(g->base_name);
        const int pid = (int) getpid();

        for (int i = 0; i < CLAIM_TRIES; i++) {
                if (i == 0)
                        (void) snprintf(g->base_name, size, BASE_PREFIX "%d", pid);
                else /* a second supervisor in one process, or a name that will not go */
                        (void) snprintf(g->base_name, size, BASE_PREFIX "%d-%d", pid, i);
                if (claim_one(g) == 0)
                        return 0;
                if (errno != EEXIST && errno != ENOENT)
                        break;
        }
        return error_set(err, ERR_UNSUPPORTED, errno, "make a cgroup (%s)",
                         *g->controller ? g->controller : "v2");
}

int cgroup_init(struct cgroup *g, const char *controller, struct error *err)
{
        *g = (struct cgroup) { .controller = controller, .own_fd = -1, .base_fd = -1 };
        g->own_fd = open_own(controller);
        if (g->own_fd < 0)
                return error_set(err, ERR_UNSUPPORTED, 0, "no cgroup hierarchy '%s' is mounted",
                                 *controller ? controller : "v2");
        if (claim(g, err) < 0) {
                cgroup_done(g);
                return -1;
        }
        return 0;
}

void cgroup_done(struct cgroup *g)
{
        if (g->base_fd >= 0)
                (void) remove_at(g->own_fd, g->base_name, 0);
        closep(&g->base_fd);
        closep(&g->own_fd);
        g->base_fd = g->own_fd = -1;
}

void cgroup_sweep(const char *controller)
{
        _cleanup_close_ int own = open_own(controller);

        if (own >= 0)
                sweep_all(own);
}

/* ---- one child ---- */

struct number {
        char text[16];
};

static struct number number(unsigned id)
{
        struct number n;

        (void) snprintf(n.text, sizeof(n.text), "%u", id);
        return n;
}

int cgroup_make(struct cgroup *g, unsigned id, struct error *err)
{
        if (mkdirat(g->base_fd, number(id).text, 0755) < 0)
                return error_set(err, ERR_SYSTEM, errno, "make cgroup '%s/%u'", g->base_name, id);
        return 0;
}

bool cgroup_spare(struct cgroup *g, unsigned id)
{
        struct stat st;

        if (g->n_spare == CGROUP_SPARE_MAX ||
            fstatat(g->base_fd, number(id).text, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_nlink != 2) /* somebody made groups in it */
                return false;
        g->spare[g->n_spare++] = id;
        return true;
}

bool cgroup_take_spare(struct cgroup *g, unsigned *ret_id)
{
        if (!g->n_spare)
                return false;
        *ret_id = g->spare[--g->n_spare];
        return true;
}

int cgroup_open(struct cgroup *g, unsigned id)
{
        return open_dir_at(g->base_fd, number(id).text);
}

int cgroup_open_procs(struct cgroup *g, unsigned id)
{
        _cleanup_close_ int dir = cgroup_open(g, id);

        return dir < 0 ? -1 : openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
}

int cgroup_limit(struct cgroup *g, unsigned id, const char *file, uint64_t value, struct error *err)
{
        _cleanup_close_ int dir = cgroup_open(g, id);
        char text[24];

        (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) value);
        if (dir < 0 || write_at(dir, file, text) < 0)
                return error_set(err, ERR_UNSUPPORTED, errno, "set %s to %s", file, text);
        return 0;
}

/* A group with processes in it cannot hand controllers down unless it is the root. We live in ours,
 * so this works as root of the machine or where somebody set it up before; else it is refused. */
int cgroup_enable(struct cgroup *g, const char *controller, struct error *err)
{
        char have[256], want[32];

        (void) snprintf(want, sizeof(want), "+%s", controller);
        (void) write_at(g->own_fd, "cgroup.subtree_control", want);
        if (write_at(g->base_fd, "cgroup.subtree_control", want) < 0)
                return error_set(err, ERR_UNSUPPORTED, errno, "enable cgroup controller '%s'",
                                 controller);
        if (!read_at(g->base_fd, "cgroup.subtree_control", have, sizeof(have)) ||
            !strstr(have, controller))
                return error_set(err, ERR_UNSUPPORTED, 0, "no cgroup controller '%s'", controller);
        return 0;
}

void cgroup_each(struct cgroup *g, unsigned id, bool (*fn)(void *arg, pid_t pid), void *arg)
{
        _cleanup_close_ int dir = cgroup_open(g, id);

        if (dir >= 0)
                (void) census_at(dir, fn, arg);
}

void cgroup_signal(struct cgroup *g, unsigned id, int sig)
{
        _cleanup_close_ int dir = cgroup_open(g, id);

        if (dir >= 0)
                signal_at(dir, sig);
}

void cgroup_kill(struct cgroup *g, unsigned id)
{
        _cleanup_close_ int dir = cgroup_open(g, id);

        if (dir >= 0)
                kill_at(dir);
}

int cgroup_can_kill(struct cgroup *g, unsigned id)
{
        _cleanup_close_ int dir = cgroup_open(g, id);

        return dir < 0 ? -1 : write_at(dir, "cgroup.kill", "1");
}

/* Who cannot look (no descriptors left) has not seen an empty group. Version 1 has no such file:
 * there the census may be wrong, and the removal that follows has the last word. */
bool cgroup_is_empty(struct cgroup *g, unsigned id)
{
        _cleanup_close_ int dir = -1;
        char path[40], text[256];

        (void) snprintf(path, sizeof(path), "%u/cgroup.events", id);
        if (read_at(g->base_fd, path, text, sizeof(text)))
                return strstr(text, "populated 0");
        if (errno != ENOENT)
                return false;
        dir = cgroup_open(g, id);
        return dir < 0 ? errno == ENOENT : census_at(dir, NULL, NULL) == 0;
}

int cgroup_remove(struct cgroup *g, unsigned id)
{
        return remove_at(g->base_fd, number(id).text, 0);
}
