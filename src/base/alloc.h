/* Allocation that cannot fail. Small, inner sizes only: a size that comes from outside goes through
 * a bounded container (buf, arena with a ceiling) and may fail with ERR_TOO_BIG. */
#pragma once
#include <stddef.h>

void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What was freed goes back to the system as far as possible: after something large has gone. */
void mem_give_back(void);

#define NEW(type) ((type *) xcalloc(1, sizeof(type)))
