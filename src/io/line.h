/* Cuts a byte stream into lines with a stated maximum. A longer line is an error, not a bigger
 * buffer. */
#pragma once
#include <stddef.h>

#include "base/buf.h"

struct line_framer {
        size_t max_bytes; /* without the line feed */
        struct buf held;  /* the unfinished line */
};

void line_done(struct line_framer *f);
/* Calls fn for each whole line (without \n and a \r before it). Returns the number of lines, or -1
 * with ERR_TOO_BIG; then the framer is empty and the stream cannot be trusted any more. */
int line_feed(struct line_framer *f, const char *data, size_t len,
              void (*fn)(void *arg, const char *line, size_t len), void *arg, struct error *err);
