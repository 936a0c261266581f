#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "test-proc.h"
#include "test.h"

static size_t count_fds(void)
{
        DIR *d = opendir("/proc/self/fd");
        size_t n = 0;

        EXPECT(d);
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n;
}

/* The loop library opens a pipe for signals with the first handler and keeps it for good. */
static void warm_up(void)
{
        static bool is_warm;
        struct loop *l;

        if (is_warm)
                return;
        is_warm = true;
        l = loop_new();
        (void) supervisor_free(supervisor_new_with(l, CONTAIN_SUBREAPER, NULL));
        (void) loop_free(l);
}

void proc_open(struct proc_fixture *f, enum contain_mode mode)
{
        struct error err = {};

        warm_up();
        f->n_fds = count_fds();
        f->loop = loop_new();
        f->sup = supervisor_new_with(f->loop, mode, &err);
        EXPECT_STR(err.msg, "");
        EXPECT(f->sup);
}

void proc_close(struct proc_fixture *f)
{
        f->sup = supervisor_free(f->sup);
        f->loop = loop_free(f->loop);
        EXPECT_INT(count_fds(), f->n_fds);
        EXPECT_INT(waitpid(-1, NULL, WNOHANG), -1); /* neither children nor zombies */
}

static void on_data(void *arg, const char *data, size_t len)
{
        typeof(((struct proc_run *) NULL)->links[0]) *link = arg;
        struct proc_run *r = link->run;

        buf_put(&r->out[link->which], data, len);
        if (r->ready_text && strstr(r->out[link->which].data, r->ready_text))
                r->is_ready = true;
}

static void on_end(void *arg, const struct error *why)
{
        typeof(((struct proc_run *) NULL)->links[0]) *link = arg;

        EXPECT(!link->run->has_ended[link->which]);
        EXPECT(!link->run->has_exited);
        link->run->has_ended[link->which] = true;
}

static const struct stream_sink sink = { .on_data = on_data, .on_end = on_end };
static const struct stream_sink sink_in = { .on_end = on_end };

static void on_state(void *arg, struct child *c, enum child_state was)
{
        struct proc_run *r = arg;

        EXPECT(!r->has_exited);
        if (r->n_seen < (int) ARRAY_LEN(r->seen))
                r->seen[r->n_seen++] = child_state(c);
}

static void on_exit_cb(void *arg, struct child *c, int code, int sig)
{
        struct proc_run *r = arg;

        r->n_exits++;
        r->code = code;
        r->sig = sig;
        r->out_at_exit = r->out[1].len;
        r->has_exited = true;
}

int proc_try(struct proc_fixture *f, struct proc_run *r, const struct child_spec *spec,
             struct error *err)
{
        static const struct child_cb cb = { .on_state = on_state, .on_exit = on_exit_cb };

        *r = (struct proc_run) {};
        if (supervisor_spawn(f->sup, spec, &cb, r, &r->c, err) < 0)
                return -1;
        for (int i = 0; i < 3; i++) {
                struct stream *s = child_stdio(r->c, i);
                bool is_read = i > 0 || spec->stdio == STDIO_PTY;

                r->links[i].run = r;
                r->links[i].which = i;
                if (s)
                        stream_set_sink(s, is_read ? &sink : &sink_in, &r->links[i]);
        }
        return 0;
}

void proc_start(struct proc_fixture *f, struct proc_run *r, const struct child_spec *spec)
{
        struct error err = {};

        EXPECT_OK(proc_try(f, r, spec, &err), err);
}

void proc_sh(struct proc_fixture *f, struct proc_run *r, const char *script)
{
        const char *argv[] = { "/bin/sh", "-c", script, NULL };

        proc_start(f, r, &(struct child_spec) { .argv = argv, .stdio = STDIO_PIPE });
}

void proc_wait_exit(struct proc_fixture *f, struct proc_run *r)
{
        EXPECT(loop_run_until(f->loop, &r->has_exited, PROC_WAIT_MS));
}

void proc_wait_text(struct proc_fixture *f, struct proc_run *r, const char *text)
{
        r->ready_text = text;
        r->is_ready = false;
        for (int i = 0; i < 3; i++)
                r->is_ready |= r->out[i].len && strstr(r->out[i].data, text);
        EXPECT(loop_run_until(f->loop, &r->is_ready, PROC_WAIT_MS));
}

void proc_done(struct proc_run *r)
{
        r->c = child_free(r->c);
        for (int i = 0; i < 3; i++)
                buf_done(&r->out[i]);
}

void proc_spin(struct proc_fixture *f, int ms)
{
        bool never = false;

        (void) loop_run_until(f->loop, &never, ms);
}

/* A zombie is dead: whose it is to reap is another question. */
bool proc_is_alive(pid_t pid)
{
        char path[40], text[512] = "";
        FILE *file;

        (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        file = fopen(path, "re");
        if (!file)
                return false;
        if (!fgets(text, sizeof(text), file))
                text[0] = '\0';
        (void) fclose(file);
        return strrchr(text, ')') && !strchr("ZX", strrchr(text, ')')[2]);
}

void proc_wait_dead(struct proc_fixture *f, pid_t pid)
{
        for (int ms = 0; proc_is_alive(pid); ms++) {
                EXPECT(ms < PROC_WAIT_MS);
                proc_spin(f, 1);
        }
}
