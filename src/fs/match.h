/* Does a line have it? A literal text or a regular expression. Private to fs/. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

struct matcher;
struct search_spec;

/* ERR_INVALID for a text with a line feed or an expression that does not compile. */
int matcher_new(const struct search_spec *spec, struct matcher **ret, struct error *err);
struct matcher *matcher_free(struct matcher *m);

/* The bytes at..end of a subject that fit. */
struct span {
        size_t at, end;
};
/* Literals never reach over the end of a line, so many lines may be asked at once. */
bool matcher_takes_blocks(const struct matcher *m);
bool matcher_is_bytewise(const struct matcher *m); /* whether it is UTF-8 makes no difference */
/* is_utf8: the subject is known to be valid. 1 = found, 0 = not, -1 = the expression was too hard
 * for this subject (SEARCH_MATCH_STEPS). */
int matcher_find(struct matcher *m, struct slice subject, bool is_utf8, struct span *ret);
