/* Reads a descriptor that others share (stdin, a file of the user's) piece by piece, as fast as
 * somebody takes it. Pipes and terminals are waited for, files are simply read. What others see of
 * the descriptor stays as it was. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct loop;
struct source;

enum { SOURCE_PIECE_BYTES = 64 * 1024 };

struct source_cb {
        /* Borrowed bytes. source_pause() and source_free() are allowed in here. */
        void (*on_data)(void *arg, const char *data, size_t len);
        void (*on_end)(void *arg, const struct error *why); /* once, last; NULL = end of file */
};

/* fd is borrowed and must stay open until source_free(). No callback comes before it returns;
 * reading begins by itself. */
int source_new(struct loop *l, int fd, const struct source_cb *, void *arg, struct source **ret,
               struct error *err);
void source_pause(struct source *s, bool on);
struct source *source_free(struct source *s); /* NULL is fine; no callback after it */
