/* Which processes are ours, and who listens where: questions that /proc answers. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A process held by its pidfd: the number cannot come to mean another process. */
struct pidref {
        pid_t pid;
        int fd; /* -1 = none */
};
void pidref_done(struct pidref *p);

/* Opens `pid` if it is alive and runs this program (the same file, or one of the same name that an
 * upgrade replaced). With needs_server only if it runs the `server` command. False: not there, or
 * somebody else's; it must then not be signalled. */
bool pidref_open_ours(pid_t pid, bool needs_server, struct pidref *ret);
bool pidref_signal(const struct pidref *p, int sig);
/* True once the process has ended; waits at most timeout_ms. */
bool pidref_wait(const struct pidref *p, int timeout_ms);

/* The process of ours that listens on this TCP port, whatever the address; false when there is
 * none. */
bool procfs_listener(uint16_t port, struct pidref *ret);
