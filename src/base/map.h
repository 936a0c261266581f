/* String → pointer hash map with open addressing. Keys are copied; values are borrowed. The hash is
 * seeded per process, so keys that clients choose cannot be made to collide. */
#pragma once
#include <stddef.h>

struct map_slot;
struct map {
        struct map_slot *slots;
        size_t cap, n, n_dead;
};

void map_done(struct map *m);
void *map_get(const struct map *m, const char *key);
void *map_getn(const struct map *m, const char *key, size_t len);
void *map_set(struct map *m, const char *key,
              void *value);                    /* returns the old value; value not NULL */
void *map_del(struct map *m, const char *key); /* returns the removed value */
/* Iteration in no order: it = map_next(m, it, &key, &value) from it = 0 until it returns 0.
 * map_del() of the current key is allowed, map_set() is not. */
size_t map_next(const struct map *m, size_t it, const char **ret_key, void **ret_value);
