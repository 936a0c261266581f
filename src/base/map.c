#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rand.h"

struct map_slot {
        char *key; /* NULL = never used; DEAD = removed */
        void *value;
        uint64_t hash;
};

static char dead_key;
#define DEAD (&dead_key)

/* Drawn before main, so that every thread sees the same. */
static uint64_t seed;

static void __attribute__((constructor)) seed_draw(void)
{
        rand_bytes(&seed, sizeof(seed));
}

static uint64_t hash_bytes(const char *p, size_t n)
{
        uint64_t h = seed ^ (n * 0x9e3779b97f4a7c15u);

        for (size_t i = 0; i < n; i++) {
                h = (h ^ (unsigned char) p[i]) * 0x100000001b3u;
                h ^= h >> 29;
        }
        h *= 0xbf58476d1ce4e5b9u;
        return h ^ (h >> 32);
}

void map_done(struct map *m)
{
        for (size_t i = 0; i < m->cap; i++)
                if (m->slots[i].key != DEAD)
                        free(m->slots[i].key);
        free(m->slots);
        *m = (struct map) { 0 };
}

static struct map_slot *find(const struct map *m, const char *key, size_t len, uint64_t h)
{
        if (!m->cap)
                return NULL;
        for (size_t i = h & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
                struct map_slot *s = &m->slots[i];

                if (!s->key)
                        return NULL;
                if (s->key != DEAD && s->hash == h && strncmp(s->key, key, len) == 0 &&
                    !s->key[len])
                        return s;
        }
}

static void insert(struct map *m, struct map_slot item)
{
        size_t i = item.hash & (m->cap - 1);

        while (m->slots[i].key)
                i = (i + 1) & (m->cap - 1);
        m->slots[i] = item;
}

static void rehash(struct map *m)
{
        struct map old = *m;

        m->cap = 16;
        while (m->cap < (old.n + 1) * 2)
                m->cap *= 2;
        m->slots = xcalloc(m->cap, sizeof(*m->slots));
        m->n_dead = 0;
        for (size_t i = 0; i < old.cap; i++)
                if (old.slots[i].key && old.slots[i].key != DEAD)
                        insert(m, old.slots[i]);
        free(old.slots);
}

void *map_getn(const struct map *m, const char *key, size_t len)
{
        struct map_slot *s = find(m, key, len, hash_bytes(key, len));

        return s ? s->value : NULL;
}

void *map_get(const struct map *m, const char *key)
{
        return map_getn(m, key, strlen(key));
}

void *map_set(struct map *m, const char *key, void *value)
{
        size_t len = strlen(key);
        uint64_t h = hash_bytes(key, len);
        struct map_slot *s = find(m, key, len, h);

        if (s) {
                void *was = s->value;

                s->value = value;
                return was;
        }
        if ((m->n + m->n_dead + 1) * 4 > m->cap * 3)
                rehash(m);
        insert(m, (struct map_slot) { xstrndup(key, len), value, h });
        m->n++;
        return NULL;
}

void *map_del(struct map *m, const char *key)
{
        size_t len = strlen(key);
        struct map_slot *s = find(m, key, len, hash_bytes(key, len));
        void *was;

        if (!s)
                return NULL;
        was = s->value;
        free(s->key);
        s->key = DEAD;
        s->value = NULL;
        m->n--;
        m->n_dead++;
        return was;
}

size_t map_next(const struct map *m, size_t it, const char **ret_key, void **ret_value)
{
        for (; it < m->cap; it++)
                if (m->slots[it].key && m->slots[it].key != DEAD) {
                        if (ret_key)
                                *ret_key = m->slots[it].key;
                        if (ret_value)
                                *ret_value = m->slots[it].value;
                        return it + 1;
                }
        return 0;
}
