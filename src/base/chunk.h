/* Immutable, reference-counted bytes: event bodies and output blocks that many readers share.
 *
 * The count is atomic, because the store's writer thread holds references too. Fill a chunk right
 * after chunk_new(), before anybody else sees it; from then on it never changes. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>

struct chunk {
        atomic_uint refs;
        size_t len;
        const char *data;        /* own bytes, or somebody else's for chunk_wrap() */
        void (*release)(void *); /* chunk_wrap() only */
        void *arg;
};

struct chunk *chunk_new(size_t len); /* bytes undefined: fill chunk_bytes() */
struct chunk *chunk_copy(const void *data, size_t len);
/* Bytes that live elsewhere; release(arg) runs when the last reference goes (may be NULL). */
struct chunk *chunk_wrap(const void *data, size_t len, void (*release)(void *), void *arg);
struct chunk *chunk_ref(struct chunk *c);
struct chunk *chunk_unref(struct chunk *c); /* NULL is fine; returns NULL */

static inline char *chunk_bytes(struct chunk *c)
{
        return (char *) c->data;
}
static inline void chunk_unrefp(struct chunk **c)
{
        chunk_unref(*c);
}
