/* No descriptors left: nobody may be taken for gone only because we cannot look. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test-proc.h"
#include "test.h"

static struct rlimit taken_from;

/* Nothing can be opened until give_descriptors(). */
static void take_descriptors(void)
{
        struct rlimit none;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        EXPECT(fd >= 0);
        (void) close(fd);
        EXPECT_INT(getrlimit(RLIMIT_NOFILE, &taken_from), 0);
        none = taken_from;
        none.rlim_cur = 0;
        EXPECT_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
        EXPECT(open("/dev/null", O_RDONLY | O_CLOEXEC) < 0);
}

static void give_descriptors(void)
{
        EXPECT_INT(setrlimit(RLIMIT_NOFILE, &taken_from), 0);
}

/* The child ends while its daemon goes on. */
#define LEAVE_DAEMON                                                                               \
        "( setsid sh -c 'trap \"\" TERM HUP; echo pid $$; exec sleep 1000' & ); read x; exit 0"

static void settle_without_descriptors(enum contain_mode mode)
{
        struct proc_fixture f;
        struct proc_run r;
        pid_t pid;

        proc_open(&f, mode);
        proc_sh(&f, &r, LEAVE_DAEMON);
        proc_wait_text(&f, &r, "\n");
        pid = (pid_t) strtol(strstr(r.out[1].data, "pid ") + 4, NULL, 10);
        take_descriptors();
        stream_finish(child_stdio(r.c, 0));
        proc_wait_exit(&f, &r);
        child_stop(r.c, 1);
        proc_spin(&f, 20); /* several looks, and none of them tells anything */
        EXPECT(!r.c->scope.is_gone);
        give_descriptors();
        proc_wait_dead(&f, pid);
        proc_done(&r);
        proc_close(&f);
}

static bool has_mode(enum contain_mode mode)
{
        struct loop *l = loop_new();
        struct supervisor *s = supervisor_new_with(l, mode, NULL);
        bool has = s;

        (void) supervisor_free(s);
        (void) loop_free(l);
        return has;
}

TEST(tree_is_not_forgotten_when_descriptors_run_out)
{
        static const enum contain_mode modes[] = { CONTAIN_CGROUP2, CONTAIN_CGROUP1,
                                                   CONTAIN_SUBREAPER };

        for (size_t i = 0; i < ARRAY_LEN(modes); i++)
                if (has_mode(modes[i]))
                        settle_without_descriptors(modes[i]);
}

static void on_down(void *arg)
{
        *(bool *) arg = true;
}

TEST(shutdown_is_not_done_before_it_could_look)
{
        struct proc_fixture f;
        struct proc_run r;
        bool is_down = false;
        pid_t pid;

        proc_open(&f, CONTAIN_SUBREAPER);
        proc_sh(&f, &r, LEAVE_DAEMON);
        proc_wait_text(&f, &r, "\n");
        pid = (pid_t) strtol(strstr(r.out[1].data, "pid ") + 4, NULL, 10);
        take_descriptors();
        supervisor_shutdown(f.sup, 1, on_down, &is_down);
        proc_spin(&f, 20);
        EXPECT(!is_down);
        give_descriptors();
        EXPECT(loop_run_until(f.loop, &is_down, PROC_WAIT_MS));
        EXPECT(!proc_is_alive(pid));
        proc_done(&r);
        proc_close(&f);
}

static void note(void *arg)
{
        *(bool *) arg = true;
}

TEST(shutdown_needs_no_descriptor_when_nobody_is_left)
{
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct supervisor *s = supervisor_new_with(l, CONTAIN_SUBREAPER, &err);
        bool is_done = false;

        EXPECT(s);
        take_descriptors();
        supervisor_shutdown(s, 1, note, &is_done);
        EXPECT(loop_run_until(l, &is_done, 5000));
        give_descriptors();
        supervisor_free(s);
        loop_free(l);
}
