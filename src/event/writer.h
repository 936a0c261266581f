/* The writer thread: does one job at a time and says when it is done. Inner header of event/. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct evstore;
struct store_op;
struct wakeup;
struct writer;

/* A commit, or, with trim set, a trim. */
struct writer_job {
        const struct store_op *ops;
        size_t n;
        const char *trim; /* topic */
        uint64_t upto;
};

/* done fires after each job. Store and wakeup are borrowed, the latter until the writer is freed or
 * abandoned. */
int writer_new(struct evstore *st, struct wakeup *done, struct writer **ret, struct error *err);
bool writer_is_busy(const struct writer *w); /* until the result was taken */
/* The writer must not be busy. What the job points to stays until the result was taken. */
void writer_start(struct writer *w, const struct writer_job *job);
/* False while the job runs; else *ret is what the store answered, and err its reason. */
bool writer_take(struct writer *w, int *ret, struct error *err);
/* Waits until a result can be taken; false when the deadline (monotonic, < 0 = none) has passed. */
bool writer_wait(struct writer *w, int64_t deadline_us);
/* Not busy: ends and joins the thread. NULL is fine. */
struct writer *writer_free(struct writer *w);
/* Busy: lets the thread go. When the store returns it runs cleanup(arg) and ends. */
void writer_abandon(struct writer *w, void (*cleanup)(void *arg), void *arg);
