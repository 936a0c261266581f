/* Readiness of a descriptor (level-triggered). The watch does not own the descriptor, but must be
 * freed before it is closed. After watch_free() no further callback comes, even within this batch.
 *
 * An error condition is reported as READ, WRITE and ERROR together: reading or writing then tells
 * which one it is. The watch is off from there on, until the next watch_set(). */
#pragma once
#include "base/error.h"

enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_PRI = 4, WATCH_ERROR = 8 };

struct loop;
struct watch;

int watch_new(struct loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
              struct watch **ret, struct error *err);
void watch_set(struct watch *w, int events); /* 0 = nothing; cheap when unchanged */
struct watch *watch_free(struct watch *w);   /* NULL is fine; returns NULL */
