/* Base64 (RFC 4648, the standard alphabet, padded). Decoding is strict: padding where it belongs,
 * no blanks, no stray bits, so that bytes have one text and a text has one meaning. */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

struct buf;

static inline size_t base64_len(size_t n) /* of n bytes as text */
{
        return (n + 2) / 3 * 4;
}
/* Writes base64_len(len) characters, no NUL; returns what is behind them. */
char *base64_encode(char *at, const void *data, size_t len);
void base64_put(struct buf *out, const void *data, size_t len);

/* Appends the bytes; on failure `out` is as it was. ERR_INVALID names what is wrong and where;
 * ret_bad (may be NULL) gets the offset: of the first wrong symbol, or the length of the text when
 * something is missing behind it. At most three quarters of the text is added, whatever the ceiling
 * of `out`: who bounds the text bounds the bytes. */
int base64_decode(struct slice text, struct buf *out, size_t *ret_bad, struct error *err);
