#include "base/secret.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

struct secret {
        size_t len;
        char text[];
};

struct secret *secret_new(const char *text, size_t len)
{
        struct secret *s = xmalloc(sizeof(*s) + len + 1);

        s->len = len;
        memcpy(s->text, text, len);
        s->text[len] = '\0';
        return s;
}

struct secret *secret_free(struct secret *s)
{
        if (s) {
                explicit_bzero(s->text, s->len);
                free(s);
        }
        return NULL;
}

bool secret_matches(const struct secret *s, const char *text, size_t len)
{
        return str_equal_secret(text, len, s->text, s->len);
}

const char *secret_reveal(const struct secret *s, size_t *ret_len)
{
        if (ret_len)
                *ret_len = s->len;
        return s->text;
}
