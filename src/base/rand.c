#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void rand_bytes(void *p, size_t n)
{
        char *at = p;

        while (n) {
                ssize_t got = getrandom(at, n, 0);

                if (got < 0 && errno != EINTR)
                        abort();
                if (got > 0) {
                        at += got;
                        n -= (size_t) got;
                }
        }
}

void rand_hex(char *ret, size_t n_digits)
{
        static const char hex[] = "0123456789abcdef";

        rand_bytes(ret, n_digits);
        for (size_t i = 0; i < n_digits; i++)
                ret[i] = hex[(unsigned char) ret[i] & 15];
        ret[n_digits] = '\0';
}
