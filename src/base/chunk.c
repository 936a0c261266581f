#include "base/chunk.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct chunk *chunk_new(size_t len)
{
        struct chunk *c = xmalloc(sizeof(*c) + len);

        *c = (struct chunk) { .len = len, .data = (const char *) (c + 1) };
        atomic_init(&c->refs, 1);
        return c;
}

struct chunk *chunk_copy(const void *data, size_t len)
{
        struct chunk *c = chunk_new(len);

        if (len)
                memcpy(chunk_bytes(c), data, len);
        return c;
}

struct chunk *chunk_wrap(const void *data, size_t len, void (*release)(void *), void *arg)
{
        struct chunk *c = xmalloc(sizeof(*c));

        *c = (struct chunk) { .len = len, .data = data, .release = release, .arg = arg };
        atomic_init(&c->refs, 1);
        return c;
}

struct chunk *chunk_ref(struct chunk *c)
{
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
        return c;
}

struct chunk *chunk_unref(struct chunk *c)
{
        if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
                return NULL;
        if (c->release)
                c->release(c->arg);
        free(c);
        return NULL;
}
