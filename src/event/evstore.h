/* An open store and who is in it. Inner header of event/.
 *
 * Page reads run on pool threads and cannot be cancelled, so closing has to wait for those inside
 * and turn away those that come later. The handle goes when the store is shut and empty; the memory
 * goes with the last reference. */
#pragma once
#include <stdint.h>

#include "event/store.h"

struct evstore;

int evstore_new(const struct store_ops *ops, const char *dsn, struct evstore **ret,
                struct error *err);
struct evstore *evstore_ref(struct evstore *st);
struct evstore *evstore_unref(struct evstore *st); /* NULL is fine */
/* Turns reads away from now on, waits for those inside (until the monotonic deadline, < 0 = none),
 * closes. A read that is still inside then closes when it leaves. Call once. */
void evstore_shut(struct evstore *st, int64_t deadline_us);

/* Any thread, any time. ERR_BUSY after evstore_shut(). */
int evstore_events(struct evstore *st, const char *topic, uint64_t after, struct event *ret,
                   size_t max, struct error *err);

/* The rest only before evstore_shut(). */
int evstore_commit(struct evstore *st, const struct store_op *ops, size_t n, struct error *err);
int evstore_trim(struct evstore *st, const char *topic, uint64_t upto, struct error *err);
int evstore_range(struct evstore *st, const char *topic, uint64_t *ret_first, uint64_t *ret_last,
                  struct error *err);
int evstore_docs(struct evstore *st, const char *prefix,
                 int (*row)(void *arg, const char *key, const char *doc, size_t len), void *arg,
                 struct error *err);
