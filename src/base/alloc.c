#include "base/alloc.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *check(void *p, size_t n)
{
        if (!p && n) {
                (void) fprintf(stderr, "sandbox-agent: out of memory (%zu bytes)\n", n);
                abort();
        }
        return p;
}

void *xmalloc(size_t n)
{
        return check(malloc(n), n);
}

void *xcalloc(size_t n, size_t size)
{
        return check(calloc(n, size), n * size);
}

void *xrealloc(void *p, size_t n)
{
        return check(realloc(p, n), n);
}

char *xstrdup(const char *s)
{
        return check(strdup(s), 1);
}

char *xstrndup(const char *s, size_t n)
{
        return check(strndup(s, n), 1);
}

char *xasprintf(const char *fmt, ...)
{
        va_list ap;
        char *s = NULL;
        int n;

        va_start(ap, fmt);
        n = vasprintf(&s, fmt, ap);
        va_end(ap);
        return check(n < 0 ? NULL : s, 1);
}

void mem_give_back(void)
{
        (void) malloc_trim(0);
}
