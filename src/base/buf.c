#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/chunk.h"

void buf_done(struct buf *b)
{
        free(b->data);
        b->data = NULL;
        b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
        b->len = 0;
        if (b->data)
                b->data[0] = '\0';
}

char *buf_room(struct buf *b, size_t n)
{
        if (b->cap - b->len < n + 1) {
                size_t cap = b->cap ? b->cap * 2 : 64;

                if (cap < b->len + n + 1)
                        cap = b->len + n + 1;
                b->data = xrealloc(b->data, cap);
                b->cap = cap;
                b->data[b->len] = '\0';
        }
        return b->data + b->len;
}

void buf_grew(struct buf *b, size_t n)
{
        b->len += n;
        b->data[b->len] = '\0';
}

int buf_add(struct buf *b, const void *data, size_t len, struct error *err)
{
        if (b->max_bytes && (len > b->max_bytes || b->len > b->max_bytes - len))
                return error_set(err, ERR_TOO_BIG, 0, "more than %zu bytes", b->max_bytes);
        buf_put(b, data, len);
        return 0;
}

void buf_put(struct buf *b, const void *data, size_t len)
{
        char *p = buf_room(b, len);

        if (len)
                memcpy(p, data, len);
        buf_grew(b, len);
}

void buf_puts(struct buf *b, const char *s)
{
        buf_put(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
        buf_put(b, &c, 1);
}

void buf_putu(struct buf *b, unsigned long long v)
{
        char tmp[24], *p = tmp + sizeof(tmp);

        do {
                *--p = (char) ('0' + v % 10);
                v /= 10;
        } while (v);
        buf_put(b, p, (size_t) (tmp + sizeof(tmp) - p));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
        if (n < 0)
                return;
        (void) buf_room(b, (size_t) n);
        va_start(ap, fmt);
        (void) vsnprintf(b->data + b->len, (size_t) n + 1, fmt, ap);
        va_end(ap);
        buf_grew(b, (size_t) n);
}

void buf_drop(struct buf *b, size_t n)
{
        if (n >= b->len) {
                buf_clear(b);
                return;
        }
        memmove(b->data, b->data + n, b->len - n + 1);
        b->len -= n;
}

char *buf_take(struct buf *b)
{
        char *s = b->data ? b->data : xstrdup("");

        b->data = NULL;
        b->len = b->cap = 0;
        return s;
}

struct chunk *buf_take_chunk(struct buf *b)
{
        size_t len = b->len;
        char *s = buf_take(b);

        return chunk_wrap(s, len, free, s);
}
