/* One supervised child and what was heard of it, for the tests of proc/. */
#pragma once
#include "base/buf.h"
#include "io/loop.h"
#include "io/stream.h"
#include "proc/child.h"
#include "proc/impl.h"

enum { PROC_WAIT_MS = 20 * 1000 };

struct proc_fixture {
        struct loop *loop;
        struct supervisor *sup;
        size_t n_fds; /* of this process, before anything was made */
};

struct proc_run {
        struct child *c;
        struct buf out[3];                       /* by stream */
        bool has_ended[3], has_exited, is_ready; /* ready: the wanted text was seen */
        const char *ready_text;
        enum child_state seen[8]; /* states as on_state told them */
        int n_seen, n_exits, code, sig;
        size_t out_at_exit;
        struct {
                struct proc_run *run;
                int which;
        } links[3];
};

void proc_open(struct proc_fixture *f, enum contain_mode mode);
/* Ends everything and checks that no descriptor and no process is left. */
void proc_close(struct proc_fixture *f);

int proc_try(struct proc_fixture *f, struct proc_run *r, const struct child_spec *spec,
             struct error *err);
void proc_start(struct proc_fixture *f, struct proc_run *r, const struct child_spec *spec);
void proc_sh(struct proc_fixture *f, struct proc_run *r, const char *script); /* with pipes */
void proc_wait_exit(struct proc_fixture *f, struct proc_run *r);
void proc_wait_text(struct proc_fixture *f, struct proc_run *r, const char *text);
void proc_done(struct proc_run *r);             /* frees the child */
void proc_spin(struct proc_fixture *f, int ms); /* lets the loop turn */
bool proc_is_alive(pid_t pid);
void proc_wait_dead(struct proc_fixture *f, pid_t pid);
