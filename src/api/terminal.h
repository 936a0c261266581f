/* What a client says over a terminal's WebSocket, as plain data. Pure and fuzzed. */
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum terminal_frame_type { TERM_INPUT, TERM_RESIZE, TERM_CLOSE };

struct terminal_frame {
        enum terminal_frame_type type;
        struct slice data;    /* TERM_INPUT: as it was written, may hold NUL */
        const char *encoding; /* NULL = plain text */
        uint16_t cols, rows;  /* TERM_RESIZE */
};

/* One text frame; everything in ret lives in the arena. ERR_INVALID says what is wrong, and where
 * if it is the JSON or the type: "unknown variant `nope`, expected one of `input`, `resize`,
 * `close` at line 1 column 14", "missing field `rows`". */
int terminal_frame_parse(struct arena *a, const char *text, size_t len, struct terminal_frame *ret,
                         struct error *err);

/* How much of the output a newcomer is shown first: "all" or a number of bytes. */
int terminal_history_parse(const char *text, uint64_t *ret_bytes, struct error *err);
