/* Changes that wait to be told: at most one per path, so that a burst becomes one event. Private to
 * fs/; knows nothing of inotify and files. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "fs/watch.h"

struct changes {
        struct list all; /* in the order in which they are told */
        struct map by_path;
        size_t n;
        size_t n_leaving; /* left a directory, and did not arrive anywhere yet */
};

void changes_init(struct changes *c);
void changes_done(struct changes *c);
/* FS_CREATED, FS_MODIFIED or FS_DELETED. False: it makes no single event with what waits for this
 * path; tell everything first. */
bool changes_put(struct changes *c, enum fs_change what, const char *path, bool is_dir);
/* The two halves of a move, which share a cookie. What never arrives was deleted. False: as above.
 */
bool changes_leave(struct changes *c, const char *path, bool is_dir, uint32_t cookie);
/* 1 = paired; 0 = nobody left with this cookie, so it came from elsewhere; -1 = tell everything
 * first, then it came from elsewhere. was_there: the name was taken. */
int changes_arrive(struct changes *c, const char *path, bool was_there, uint32_t cookie);
/* Tells all and is empty, also when on_event fails. */
int changes_tell(struct changes *c,
                 int (*on_event)(void *arg, const struct fs_event *e, struct error *err), void *arg,
                 struct error *err);
