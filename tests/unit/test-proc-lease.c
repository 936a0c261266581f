#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test-proc.h"
#include "test.h"

/* Double fork, session of its own, clean environment, deaf. */
#define DAEMON                                                                                     \
        "( setsid env -i /bin/sh -c 'trap \"\" TERM HUP; echo pid $$; exec sleep 1000' & ); "      \
        "exec sleep 1000"

static char *make_dir(char *path)
{
        EXPECT(mkdtemp(path));
        return path;
}

static int count_files(const char *dir)
{
        DIR *d = opendir(dir);
        struct dirent *e;
        int n = 0;

        EXPECT(d);
        while ((e = readdir(d)))
                n += e->d_name[0] != '.';
        (void) closedir(d);
        return n;
}

static pid_t start_daemon(struct proc_fixture *f, struct proc_run *r)
{
        proc_sh(f, r, DAEMON);
        proc_wait_text(f, r, "\n");
        return (pid_t) strtol(strstr(r->out[1].data, "pid ") + 4, NULL, 10);
}

/* A server in a process of its own, that dies by kill -9 and leaves a daemon behind. */
static pid_t leave_daemon(const char *dir)
{
        int ends[2], status;
        pid_t server, pid = 0;

        EXPECT_INT(pipe2(ends, O_CLOEXEC), 0);
        server = fork();
        EXPECT(server >= 0);
        if (server == 0) {
                struct proc_fixture f;
                struct proc_run r;

                proc_open(&f, CONTAIN_SUBREAPER);
                supervisor_remember(f.sup, dir);
                pid = start_daemon(&f, &r);
                if (write(ends[1], &pid, sizeof(pid)) == sizeof(pid))
                        (void) raise(SIGKILL);
                _exit(1);
        }
        (void) close(ends[1]);
        EXPECT_INT(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
        (void) close(ends[0]);
        EXPECT_INT(waitpid(server, &status, 0), server);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        EXPECT(proc_is_alive(pid));
        return pid;
}

TEST(lease_finds_what_a_killed_server_left)
{
        char path[] = "/tmp/sa-lease-XXXXXX";
        struct proc_fixture f;
        pid_t pid = leave_daemon(make_dir(path));

        EXPECT_INT(count_files(path), 1);
        proc_open(&f, CONTAIN_BEST); /* whatever way we use ourselves */
        supervisor_remember(f.sup, path);
        EXPECT(!proc_is_alive(pid));
        proc_close(&f);
        EXPECT_INT(count_files(path), 0);
        EXPECT_INT(rmdir(path), 0);
}

TEST(lease_of_a_living_server_is_respected)
{
        char path[] = "/tmp/sa-lease-XXXXXX";
        struct proc_fixture f;
        struct proc_run r;
        pid_t pid;

        (void) make_dir(path);
        proc_open(&f, CONTAIN_SUBREAPER);
        supervisor_remember(f.sup, path);
        supervisor_remember(f.sup, path);
        EXPECT_INT(count_files(path), 1);
        pid = start_daemon(&f, &r);
        lease_sweep(path);
        EXPECT(proc_is_alive(pid));
        EXPECT_INT(count_files(path), 1);
        proc_done(&r);
        proc_close(&f);
        EXPECT_INT(count_files(path), 0);
        EXPECT_INT(rmdir(path), 0);
}

static void put_note(const char *dir, const char *name, const char *text)
{
        char path[128];
        FILE *file;

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        file = fopen(path, "we");
        EXPECT(file);
        EXPECT(fputs(text, file) >= 0);
        EXPECT_INT(fclose(file), 0);
}

static void remove_file(const char *dir, const char *name)
{
        char path[128];

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        EXPECT_INT(unlink(path), 0);
}

/* As the file of a dead server would look that had this process's number. */
static void put_own_note(const char *dir, unsigned long long start, unsigned long long ns_off,
                         const char *boot)
{
        char text[256], real_boot[64] = "";
        FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
        struct stat st;

        EXPECT(file && fgets(real_boot, sizeof(real_boot), file));
        (void) fclose(file);
        EXPECT_INT(stat("/proc/self/ns/pid", &st), 0);
        (void) snprintf(text, sizeof(text), "%d %llu %llu %s", (int) getpid(), start,
                        (unsigned long long) st.st_ino + ns_off, boot ?: real_boot);
        put_note(dir, "children-1-1.lease", text);
}

TEST(lease_never_touches_who_is_not_meant)
{
        char path[] = "/tmp/sa-lease-XXXXXX";
        struct proc_fixture f;
        struct proc_run r;
        pid_t pid;

        (void) make_dir(path);
        proc_open(&f, CONTAIN_SUBREAPER);
        pid = start_daemon(&f, &r); /* carries our number, and we live */
        put_own_note(path, 1, 0, NULL);
        lease_sweep(path);
        EXPECT(proc_is_alive(pid));
        EXPECT_INT(count_files(path), 0); /* nobody of the dead one is left: served */
        put_own_note(path, 1, 1, NULL);   /* another pid namespace: not ours to judge */
        lease_sweep(path);
        EXPECT_INT(count_files(path), 1);
        put_own_note(path, 1, 0, "another-boot"); /* all of those are long gone */
        lease_sweep(path);
        EXPECT_INT(count_files(path), 0);
        put_note(path, "children-7-7.lease", "rubbish");
        put_note(path, "children-8-8.other", "kept");
        put_note(path, "store.db", "kept");
        lease_sweep(path);
        EXPECT_INT(count_files(path), 2);
        EXPECT(proc_is_alive(pid));
        proc_done(&r);
        proc_close(&f);
        remove_file(path, "children-8-8.other");
        remove_file(path, "store.db");
        EXPECT_INT(rmdir(path), 0);
}

/* The only note of the directory. */
static void read_note(const char *dir, char *ret_name, size_t name_size, char *ret, size_t size)
{
        char path[128];
        DIR *d = opendir(dir);
        struct dirent *e;
        FILE *file;

        EXPECT(d);
        while ((e = readdir(d)) && e->d_name[0] == '.')
                ;
        EXPECT(e);
        (void) snprintf(ret_name, name_size, "%.63s", e->d_name);
        (void) closedir(d);
        (void) snprintf(path, sizeof(path), "%s/%s", dir, ret_name);
        file = fopen(path, "re");
        EXPECT(file && fgets(ret, (int) size, file));
        (void) fclose(file);
}

TEST(lease_of_who_is_older_than_the_dead_server_is_not_taken)
{
        char path[] = "/tmp/sa-lease-XXXXXX";
        pid_t pid = leave_daemon(make_dir(path));
        char name[64], text[256] = "", later[256], boot[64];
        unsigned long long start, ns;
        int server;
        struct proc_fixture f;

        read_note(path, name, sizeof(name), text, sizeof(text));
        EXPECT_INT(sscanf(text, "%d %llu %llu %63s", &server, &start, &ns, boot), 4);
        (void) snprintf(later, sizeof(later), "%d %llu %llu %s", server, start + 1000000, ns, boot);
        put_note(path, name, later);
        proc_open(&f, CONTAIN_SUBREAPER);
        supervisor_remember(f.sup, path); /* a server that began after the daemon */
        EXPECT(proc_is_alive(pid));
        put_note(path, "children-1-1.lease", text);
        lease_sweep(path);
        EXPECT(!proc_is_alive(pid));
        proc_close(&f);
        EXPECT_INT(rmdir(path), 0);
}

/* Process ids come again, and mean something else in every pid namespace; a mark does not. */
TEST(lease_of_another_server_with_the_same_number_is_not_taken)
{
        char path[] = "/tmp/sa-lease-XXXXXX";
        pid_t pid = leave_daemon(make_dir(path));
        char name[64], text[256] = "", other[256], boot[64];
        unsigned long long start, ns;
        int server;
        struct proc_fixture f;

        read_note(path, name, sizeof(name), text, sizeof(text));
        EXPECT_INT(sscanf(text, "%d %llu %llu %63s", &server, &start, &ns, boot), 4);
        (void) snprintf(other, sizeof(other), "%d %llu %llu %s", server, start - 1, ns, boot);
        put_note(path, name, other);
        proc_open(&f, CONTAIN_SUBREAPER);
        lease_sweep(path);
        EXPECT(proc_is_alive(pid));
        put_note(path, name, text);
        lease_sweep(path);
        EXPECT(!proc_is_alive(pid));
        proc_close(&f);
        EXPECT_INT(rmdir(path), 0);
}
