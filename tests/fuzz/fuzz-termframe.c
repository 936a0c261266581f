/* Frames of a terminal's client: whatever the text, either a whole frame comes out or a reason, and
 * the place that a reason names is inside the text. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "api/terminal.h"

enum { ARENA_BYTES = 1024 * 1024 };

static void check_place(const char *msg, const char *text, size_t len)
{
        const char *at = strstr(msg, " at line "), *next;
        size_t line = 0, column = 0, n_lines = 1;

        while (at && (next = strstr(at + 1, " at line ")))
                at = next;
        if (!at || sscanf(at, " at line %zu column %zu", &line, &column) != 2)
                return;
        for (size_t i = 0; i < len; i++)
                n_lines += text[i] == '\n';
        assert(line >= 1 && line <= n_lines && column <= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *) data;
        struct terminal_frame f = { 0 };
        struct error err = { 0 };
        struct arena a;

        arena_init(&a, ARENA_BYTES);
        if (terminal_frame_parse(&a, text, size, &f, &err) < 0) {
                assert(err.kind == ERR_INVALID || err.kind == ERR_TOO_BIG);
                assert(err.msg[0]);
                check_place(err.msg, text, size);
        } else {
                assert(f.type == TERM_INPUT || f.type == TERM_RESIZE || f.type == TERM_CLOSE);
                assert(f.type != TERM_INPUT || utf8_check(f.data.at, f.data.len) == f.data.len);
                assert(f.data.len <= size);
        }
        arena_done(&a);
        return 0;
}
