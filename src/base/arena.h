/* Memory of one request or one message: many small pieces, freed together.
 *
 * Blocks come from a small per-thread cache, so an arena that lives for one short request costs no
 * malloc. An arena may have a ceiling; what comes from outside is allocated with arena_try(). */
#pragma once
#include <stdarg.h>
#include <stddef.h>

struct arena_block;
struct arena {
        struct arena_block *head; /* newest first */
        char *at, *end;           /* free room in the newest block */
        size_t used_bytes;        /* all blocks */
        size_t max_bytes;         /* 0 = none (inner use only) */
};

void arena_init(struct arena *a, size_t max_bytes);
void arena_done(struct arena *a); /* idempotent; the arena may be used again */

void *arena_try(struct arena *a, size_t n);   /* 16-byte aligned; NULL over the ceiling */
void *arena_alloc(struct arena *a, size_t n); /* ignores the ceiling, never NULL */
void *arena_zalloc(struct arena *a, size_t n);
char *arena_strndup(struct arena *a, const char *s, size_t n); /* adds a NUL */
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Grows p (the newest allocation grows in place, others are copied). */
void *arena_grow(struct arena *a, void *p, size_t old_n, size_t new_n);

#define ARENA_NEW(a, type) ((type *) arena_zalloc((a), sizeof(type)))
