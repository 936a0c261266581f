/* Small words that the whole tree uses: cleanup attributes, TAKE_*, counts. */
#pragma once
#include <stddef.h>
#include <stdlib.h>
#include <sys/param.h> /* MIN, MAX */
#include <unistd.h>

#define _cleanup_(fn)       __attribute__((cleanup(fn)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))

#define ARRAY_LEN(a)                  (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(p, type, member) ((type *) ((char *) (p) -offsetof(type, member)))

/* Hand ownership on and forget it here: `*ret = TAKE_PTR(x);` */
#define TAKE_PTR(p)                                                                                \
        ({                                                                                         \
                typeof(p) *_s = &(p);                                                              \
                typeof(p) _v = *_s;                                                                \
                *_s = NULL;                                                                        \
                _v;                                                                                \
        })
#define TAKE_FD(fd)                                                                                \
        ({                                                                                         \
                int *_s = &(fd);                                                                   \
                int _v = *_s;                                                                      \
                *_s = -1;                                                                          \
                _v;                                                                                \
        })

static inline void freep(void *p)
{
        free(*(void **) p);
}
static inline void closep(const int *fd)
{
        if (*fd >= 0)
                (void) close(*fd);
}
#define _cleanup_free_  _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
