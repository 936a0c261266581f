#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"

enum {
        BLOCK_BYTES = 4096, /* header included */
        CACHE_BLOCKS = 64,
        ALIGN = 16,
};

struct arena_block {
        struct arena_block *next;
        size_t size;
        _Alignas(ALIGN) char data[];
};

static _Thread_local struct {
        struct arena_block *head;
        unsigned n;
} cache;

/* The main thread's blocks, so that leak checkers stay quiet. Other threads use no arenas. */
static void __attribute__((destructor)) cache_drop(void)
{
        while (cache.head) {
                struct arena_block *b = cache.head;

                cache.head = b->next;
                free(b);
        }
        cache.n = 0;
}

static struct arena_block *block_get(size_t need)
{
        size_t room = BLOCK_BYTES - sizeof(struct arena_block);
        struct arena_block *b;

        if (need <= room && cache.head) {
                b = cache.head;
                cache.head = b->next;
                cache.n--;
                return b;
        }
        if (need > room)
                room = need;
        b = xmalloc(sizeof(*b) + room);
        b->size = room;
        return b;
}

static void block_put(struct arena_block *b)
{
        if (b->size == BLOCK_BYTES - sizeof(*b) && cache.n < CACHE_BLOCKS) {
                b->next = cache.head;
                cache.head = b;
                cache.n++;
        } else {
                free(b);
        }
}

void arena_init(struct arena *a, size_t max_bytes)
{
        *a = (struct arena) { .max_bytes = max_bytes };
}

void arena_done(struct arena *a)
{
        while (a->head) {
                struct arena_block *b = a->head;

                a->head = b->next;
                block_put(b);
        }
        arena_init(a, a->max_bytes);
}

static size_t round_up(size_t n)
{
        return (n + ALIGN - 1) & ~(size_t) (ALIGN - 1);
}

/* A large piece gets a block of its own *behind* the current one, so its arrival does not waste the
 * room that is left for small pieces. */
static void *alloc_block(struct arena *a, size_t n)
{
        struct arena_block *b = block_get(n);

        a->used_bytes += b->size;
        if (n > BLOCK_BYTES / 2 && a->head) {
                b->next = a->head->next;
                a->head->next = b;
                return b->data;
        }
        b->next = a->head;
        a->head = b;
        a->at = b->data + n;
        a->end = b->data + b->size;
        return b->data;
}

void *arena_alloc(struct arena *a, size_t n)
{
        n = round_up(n ? n : 1);
        if ((size_t) (a->end - a->at) >= n) {
                void *p = a->at;

                a->at += n;
                return p;
        }
        return alloc_block(a, n);
}

void *arena_try(struct arena *a, size_t n)
{
        if (n > SIZE_MAX / 2 || (a->max_bytes && a->used_bytes + n > a->max_bytes + BLOCK_BYTES))
                return NULL;
        return arena_alloc(a, n);
}

void *arena_zalloc(struct arena *a, size_t n)
{
        return memset(arena_alloc(a, n), 0, n);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
        char *p = arena_alloc(a, n + 1);

        if (n)
                memcpy(p, s, n);
        p[n] = '\0';
        return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
        return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
        va_list ap;
        char *p;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
        p = arena_alloc(a, (size_t) n + 1);
        va_start(ap, fmt);
        (void) vsnprintf(p, (size_t) n + 1, fmt, ap);
        va_end(ap);
        return p;
}

void *arena_grow(struct arena *a, void *p, size_t old_n, size_t new_n)
{
        size_t old_r = round_up(old_n ? old_n : 1), new_r = round_up(new_n ? new_n : 1);
        void *q;

        if (p && new_r <= old_r)
                return p;
        if (p && (char *) p + old_r == a->at && (size_t) (a->end - a->at) >= new_r - old_r) {
                a->at += new_r - old_r;
                return p;
        }
        q = arena_alloc(a, new_n);
        if (p && old_n)
                memcpy(q, p, old_n);
        return q;
}
