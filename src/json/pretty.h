/* JSON for people: two spaces per level, keys in alphabetical order. */
#pragma once

struct buf;
struct jval;

/* Appends the value and a newline. Of equal keys only the last, which is the one that counts. */
void pretty_write(struct buf *out, const struct jval *v);
