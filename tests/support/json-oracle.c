/* Our JSON parser as a filter, for a comparison with somebody else's: one document per line on
 * stdin, one verdict per line on stdout, `ok <written again>` or `err`. */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/macro.h"
#include "json/json.h"
#include "json/write.h"

static void judge(const char *text, size_t len)
{
        const struct jval *v = NULL;
        struct error err = { 0 };
        struct buf out = { 0 };
        struct jw w = { .out = &out };
        struct arena a;

        arena_init(&a, 0);
        if (json_parse(&a, text, len, &v, &err) == 0) {
                jw_val(&w, NULL, v);
                (void) printf("ok %s\n", out.data);
        } else {
                (void) puts("err");
        }
        arena_done(&a);
        buf_done(&out);
}

int main(void)
{
        _cleanup_free_ char *line = NULL;
        size_t cap = 0;
        ssize_t n;

        while ((n = getline(&line, &cap, stdin)) >= 0) {
                size_t len = (size_t) n;

                /* an exact copy, so that a sanitizer sees every read past the end */
                if (len && line[len - 1] == '\n')
                        len--;
                _cleanup_free_ char *text = malloc(len ? len : 1);
                if (!text)
                        return 1;
                memcpy(text, line, len);
                judge(text, len);
        }
        return fflush(stdout) == 0 ? 0 : 1;
}
