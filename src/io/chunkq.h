/* A queue of chunks that leaves from the front byte by byte: what a stream still has to write. */
#pragma once
#include <stddef.h>
#include <sys/uio.h>

struct chunk;
struct chunkq {
        struct chunk **at; /* ring */
        size_t cap, head, n;
        size_t skip; /* bytes of the first chunk that are gone already */
        size_t bytes;
};

void chunkq_push(struct chunkq *q, struct chunk *c); /* own reference */
size_t chunkq_iov(const struct chunkq *q, struct iovec *iov, size_t max);
void chunkq_drop(struct chunkq *q, size_t bytes);
void chunkq_done(struct chunkq *q); /* empties and frees */
