/* What the owner of a child sees of one of its descriptors: a stream that belongs to the child.
 *
 * The owner may set the sink, write, pause, finish and close it like any stream. In between the
 * child learns when its output has run dry, can cut it off for the owner, and goes on swallowing
 * what background processes still print, so that they are not hit by a broken pipe. */
#pragma once
#include <stdbool.h>

#include "base/error.h"

struct loop;
struct stream;
struct tap;

enum tap_kind { TAP_IN, TAP_OUT, TAP_TTY }; /* we write; we read; both */

/* Takes the descriptor, also on failure. on_dry comes when reading has ended. */
int tap_new(struct loop *l, int fd, enum tap_kind kind, void (*on_dry)(void *arg), void *arg,
            struct tap **ret, struct error *err);
struct stream *tap_stream(struct tap *t);
int tap_fd(const struct tap *t); /* borrowed, -1 once it is closed for good */

void tap_note_exit(struct tap *t);     /* what is readable now is owed to the owner */
bool tap_is_dry(const struct tap *t);  /* nothing more will be delivered */
bool tap_is_owed(const struct tap *t); /* the owner has yet to take what was there at exit */
/* Ends it for the owner: on_end comes now, from inside, unless it came before. */
void tap_cut(struct tap *t);
struct tap *tap_free(struct tap *t); /* closes; no callback after it */
