/* Intrusive doubly linked list. A node that is not in a list points at itself, so removing twice is
 * harmless and "is it in a list?" is a question that can be asked. */
#pragma once
#include <stdbool.h>

#include "base/macro.h"

struct list {
        struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
        l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l)
{
        return l->next == l;
}
static inline void list_remove(struct list *n)
{
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow intrusive lists */
        n->prev->next = n->next;
        n->next->prev = n->prev;
        list_init(n);
}
static inline void list_push(struct list *l, struct list *n) /* at the end */
{
        n->prev = l->prev;
        n->next = l;
        l->prev->next = n;
        l->prev = n;
}
/* Moves everything of `from` to the end of `to`. */
static inline void list_splice(struct list *to, struct list *from)
{
        if (list_empty(from))
                return;
        from->next->prev = to->prev;
        from->prev->next = to;
        to->prev->next = from->next;
        to->prev = from->prev;
        list_init(from);
}

#define LIST_ENTRY(n, type, member) CONTAINER_OF(n, type, member)
#define list_for_each(n, l)         for (struct list *n = (l)->next; n != (l); n = n->next)
#define list_for_each_safe(n, tmp, l)                                                              \
        for (struct list *n = (l)->next, *tmp = n->next; n != (l); n = tmp, tmp = n->next)
