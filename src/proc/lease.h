/* A note for the server after us, where no cgroup remembers our children.
 *
 * A file in a directory that servers share, locked for life: it names us by process id, start time,
 * boot and pid namespace. One whose lock is free was left by a server that was killed; then every
 * process that carries that server's mark, is younger than it, and does not descend from a living
 * process of its number is a leftover, and is killed. Blocking: start-up only. */
#pragma once
struct lease {
        int fd; /* -1 = none */
        char *path;
};

/* Best effort: without the file nothing is worse than it was. */
void lease_take(struct lease *l, const char *dir);
void lease_drop(struct lease *l); /* idempotent */
void lease_sweep(const char *dir);
