/* File name patterns. Private to fs/; glob_match() in search.h is the public face. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* WILD_UTF8: "?" and "[…]" take a whole character; git's own rules count bytes. */
enum { WILD_UTF8 = 1u << 0, WILD_FOLD = 1u << 1 /* ASCII letters of both cases are one */ };

/* One pattern without braces against a whole path. Slashes are matched only by slashes and by a
 * "**" that stands alone between them. Time is bounded by the product of the two lengths and the
 * depth of the path, whatever the pattern. */
bool wild_match(const char *pattern, const char *path, unsigned flags);

enum { GLOB_VARIANTS_MAX = 256 }; /* of all patterns of a list, after "{a,b}" is written out */

/* A list of patterns; one that begins with "!" takes back what earlier ones chose. */
struct glob;
struct globs {
        struct glob *at;
        size_t n;
        unsigned flags;
        bool has_positive;
};
int globs_add(struct globs *g, const char *pattern, struct error *err); /* ERR_INVALID: too many */
void globs_done(struct globs *g);
/* The last pattern that fits decides; without any the path is wanted, unless some pattern chooses.
 * A directory is unwanted only where a pattern says so: what lies below may still be chosen. */
bool globs_want(const struct globs *g, const char *path, bool is_dir);
