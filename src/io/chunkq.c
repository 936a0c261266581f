#include "io/chunkq.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/chunk.h"
#include "base/macro.h"

static void grow(struct chunkq *q)
{
        size_t cap = q->cap ? q->cap * 2 : 4;
        struct chunk **at = xmalloc(cap * sizeof(struct chunk *));

        for (size_t i = 0; i < q->n; i++)
                at[i] = q->at[(q->head + i) & (q->cap - 1)];
        free(q->at);
        q->at = at;
        q->cap = cap;
        q->head = 0;
}

void chunkq_push(struct chunkq *q, struct chunk *c)
{
        if (q->n == q->cap)
                grow(q);
        q->at[(q->head + q->n++) & (q->cap - 1)] = chunk_ref(c);
        q->bytes += c->len;
}

size_t chunkq_iov(const struct chunkq *q, struct iovec *iov, size_t max)
{
        size_t n = MIN(q->n, max);

        for (size_t i = 0; i < n; i++) {
                struct chunk *c = q->at[(q->head + i) & (q->cap - 1)];
                size_t skip = i ? 0 : q->skip;

                iov[i] = (struct iovec) { (void *) (c->data + skip), c->len - skip };
        }
        return n;
}

void chunkq_drop(struct chunkq *q, size_t bytes)
{
        q->bytes -= bytes;
        while (q->n) {
                struct chunk *c = q->at[q->head];
                size_t left = c->len - q->skip;

                if (bytes < left) {
                        q->skip += bytes;
                        return;
                }
                bytes -= left;
                q->skip = 0;
                chunk_unref(c);
                q->head = (q->head + 1) & (q->cap - 1);
                q->n--;
        }
}

void chunkq_done(struct chunkq *q)
{
        chunkq_drop(q, q->bytes);
        free(q->at);
        *q = (struct chunkq) { 0 };
}
