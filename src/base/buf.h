/* A growing byte buffer with a ceiling. What comes from outside is appended with buf_add(), which
 * fails with ERR_TOO_BIG past the ceiling and leaves the buffer as it was. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct chunk;
struct buf {
        char *data; /* NUL-terminated whenever non-NULL */
        size_t len, cap;
        size_t max_bytes; /* 0 = none (inner use only) */
};

void buf_done(struct buf *b);  /* frees; the buffer is empty and usable again */
void buf_clear(struct buf *b); /* keeps the memory */

int buf_add(struct buf *b, const void *data, size_t len, struct error *err);
/* Trusted sizes: cannot fail. */
void buf_put(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_putu(struct buf *b, unsigned long long v); /* decimal */
void buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);
char *buf_room(struct buf *b, size_t n); /* n writable bytes at the end; then buf_grew() */
void buf_grew(struct buf *b, size_t n);
void buf_drop(struct buf *b, size_t n); /* removes n bytes at the front */

char *buf_take(struct buf *b);               /* malloc'd string, the buffer is empty */
struct chunk *buf_take_chunk(struct buf *b); /* the bytes move, no copy */
