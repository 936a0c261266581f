#include "proc/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/macro.h"

enum { STAT_BYTES = 1024, STATUS_BYTES = 4096, FIELD_THREADS = 20, FIELD_START = 22 };

/* proc(5): "pid (name) state ppid pgrp session …"; the name may hold anything, so count from its
 * end. False for the dead. A process whose main thread has ended shows as dead too, but has
 * threads. */
static bool parse_stat(char *text, struct tree_proc *ret)
{
        char *at = strrchr(text, ')');
        unsigned long long threads = 0;
        char state;

        if (!at || sscanf(at, ") %c %d %*d %d", &state, &ret->ppid, &ret->sid) != 3)
                return false;
        at += 1;
        for (int field = 3; field <= FIELD_START; field++) {
                at = strchr(at, ' ');
                if (!at)
                        return false;
                at++;
                if (field == FIELD_THREADS)
                        threads = strtoull(at, NULL, 10);
        }
        ret->start = strtoull(at, NULL, 10);
        return (state != 'Z' && state != 'X') || threads > 1;
}

static bool read_file(pid_t pid, const char *file, char *ret, size_t size)
{
        _cleanup_close_ int fd = -1;
        char path[40];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, ret, size - 1) : -1;
        ret[n > 0 ? n : 0] = '\0';
        return n > 0;
}

static bool read_proc(pid_t pid, struct tree_proc *ret)
{
        char text[STAT_BYTES];

        *ret = (struct tree_proc) { .pid = pid };
        return read_file(pid, "stat", text, sizeof(text)) && parse_stat(text, ret);
}

uint64_t tree_start(pid_t pid)
{
        struct tree_proc p;

        return read_proc(pid, &p) ? p.start : 0;
}

uint64_t tree_namespace(void)
{
        struct stat st;

        return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static int by_pid(const void *a, const void *b)
{
        const struct tree_proc *x = a, *y = b;

        return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct tree_proc *find(const struct tree *t, pid_t pid)
{
        struct tree_proc key = { .pid = pid };

        return t->n ? bsearch(&key, t->procs, t->n, sizeof(key), by_pid) : NULL;
}

/* Not "there is none", but "we cannot look now". */
static bool is_shortage(int why)
{
        return why == EMFILE || why == ENFILE || why == ENOMEM;
}

static void read_all(struct tree *t)
{
        DIR *d = opendir("/proc");
        struct dirent *e;
        size_t cap = 0;

        t->is_partial = !d && is_shortage(errno);
        while (d && (e = readdir(d))) {
                long pid = strtol(e->d_name, NULL, 10);

                if (pid <= 0)
                        continue;
                if (t->n == cap) {
                        cap = cap ? cap * 2 : 256;
                        t->procs = xrealloc(t->procs, cap * sizeof(*t->procs));
                }
                errno = 0;
                if (read_proc((pid_t) pid, &t->procs[t->n]))
                        t->n++;
                else
                        t->is_partial |= is_shortage(errno);
        }
        if (d)
                (void) closedir(d);
        if (t->n)
                qsort(t->procs, t->n, sizeof(*t->procs), by_pid);
}

/* Each round reaches one generation further down. */
static void mark_below(struct tree *t, pid_t root)
{
        for (bool more = true; more;) {
                more = false;
                for (size_t i = 0; i < t->n; i++) {
                        struct tree_proc *p = &t->procs[i], *parent;

                        if (p->is_below || p->pid == root)
                                continue;
                        parent = find(t, p->ppid);
                        p->is_below = p->ppid == root || (parent && parent->is_below);
                        more |= p->is_below;
                }
        }
}

bool tree_is_empty(void)
{
        siginfo_t info;

        return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

void tree_scan(struct tree *t, pid_t root)
{
        size_t n = 0;

        *t = (struct tree) {};
        read_all(t);
        mark_below(t, root);
        for (size_t i = 0; i < t->n; i++)
                if (t->procs[i].is_below)
                        t->procs[n++] = t->procs[i];
        t->n = n;
}

void tree_done(struct tree *t)
{
        free(t->procs);
        *t = (struct tree) {};
}

bool tree_is_under(const struct tree *t, pid_t pid, pid_t ancestor)
{
        const struct tree_proc *p;

        /* The count guards against a circle: the lines were not read at one moment. */
        for (size_t i = 0; i <= t->n && (p = find(t, pid)); i++) {
                if (pid == ancestor)
                        return true;
                pid = p->ppid;
        }
        return false;
}

/* proc(5) warns that the file skips entries when a child is reaped meanwhile. Only we could do
 * that. */
static bool thread_has_no_orphan(int task_fd, const char *tid, bool (*is_child)(pid_t pid))
{
        char path[40];
        bool is_clean = true;
        int fd, pid;
        FILE *f;

        (void) snprintf(path, sizeof(path), "%.20s/children", tid);
        fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
        f = fd >= 0 ? fdopen(fd, "re") : NULL;
        if (!f)
                return false;
        while (is_clean && fscanf(f, "%d", &pid) == 1)
                is_clean = is_child(pid);
        (void) fclose(f);
        return is_clean;
}

bool tree_has_no_orphan(bool (*is_child)(pid_t pid))
{
        DIR *d = opendir("/proc/self/task");
        bool is_clean = d;
        struct dirent *e;

        while (is_clean && (e = readdir(d)))
                if (e->d_name[0] != '.')
                        is_clean = thread_has_no_orphan(dirfd(d), e->d_name, is_child);
        if (d)
                (void) closedir(d);
        return is_clean;
}

/* proc(5), fields 14 to 17 and 24: user and system time, the same of the children that were waited
 * for, resident pages. */
static bool parse_usage(const char *text, struct tree_usage *sum)
{
        const char *at = strrchr(text, ')');
        unsigned long long user, sys, kids_user, kids_sys, pages;
        uint64_t tick_us = 1000000 / (uint64_t) sysconf(_SC_CLK_TCK);

        if (!at || sscanf(at,
                          ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d "
                          "%*d %*d %*d %*u %*u %llu",
                          &user, &sys, &kids_user, &kids_sys, &pages) != 5)
                return false;
        sum->cpu_user_us += (user + kids_user) * tick_us;
        sum->cpu_system_us += (sys + kids_sys) * tick_us;
        sum->rss_bytes += pages * (uint64_t) sysconf(_SC_PAGESIZE);
        sum->n++;
        return true;
}

void tree_add_usage(pid_t pid, struct tree_usage *sum)
{
        char text[STATUS_BYTES];
        unsigned long long peak_kb = 0;
        const char *at;

        if (!read_file(pid, "stat", text, sizeof(text)) || !parse_usage(text, sum))
                return;
        at = read_file(pid, "status", text, sizeof(text)) ? strstr(text, "\nVmHWM:") : NULL;
        if (at && sscanf(at, "\nVmHWM: %llu", &peak_kb) == 1)
                sum->largest_peak_bytes = MAX(sum->largest_peak_bytes, peak_kb * 1024);
}

static uint64_t mark_from_limits(pid_t pid)
{
        char path[40], line[160];
        unsigned long long mark = 0;
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/%d/limits", (int) pid);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "Max realtime timeout %llu", &mark) == 1)
                        break;
        if (f)
                (void) fclose(f);
        return mark;
}

uint64_t tree_mark(pid_t pid)
{
        struct rlimit rl;

        if (prlimit(pid, RLIMIT_RTTIME, NULL, &rl) == 0)
                return rl.rlim_cur == RLIM_INFINITY ? 0 : rl.rlim_cur;
        return mark_from_limits(pid); /* of another user: the file is still readable */
}

void tree_signal(const struct tree_proc *p, int sig)
{
        _cleanup_close_ int pidfd = (int) syscall(SYS_pidfd_open, p->pid, 0);
        struct tree_proc now;

        if (pidfd >= 0 && read_proc(p->pid, &now) && now.start == p->start)
                (void) syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}
