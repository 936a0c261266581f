/* Slices and the string questions that the C library answers badly. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes, not NUL-terminated. */
struct slice {
        const char *at;
        size_t len;
};
#define SLICE(s) ((struct slice) { (s), strlen(s) })

static inline bool slice_eq(struct slice a, const char *b)
{
        return strlen(b) == a.len && (a.len == 0 || memcmp(a.at, b, a.len) == 0);
}
bool slice_ieq(struct slice a, const char *b); /* ASCII case folded */
struct slice slice_trim(struct slice s);       /* spaces and tabs at both ends */
/* Cuts the next piece up to `sep` off the front of *rest; false when nothing is left. */
bool slice_cut(struct slice *rest, char sep, struct slice *ret);
/* Is `word` an item of a comma list ("keep-alive, Upgrade")? ASCII case folded. */
bool slice_list_has(struct slice list, const char *word);

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* Whole-string numbers: false on empty, sign (u64), junk or overflow. */
bool str_to_u64(const char *s, size_t len, uint64_t *ret);
bool str_to_i64(const char *s, size_t len, int64_t *ret);
/* Time does not depend on where the strings differ (it does on the length of b). */
bool str_equal_secret(const char *a, size_t a_len, const char *b, size_t b_len);
/* Strict UTF-8 (no surrogates, no overlong forms). Returns the offset of the first bad byte, or
 * len. */
size_t utf8_check(const char *s, size_t len);
/* %XX → byte. False on a broken escape. '+' stays '+', unless plus_is_space. ret needs len + 1
 * bytes. */
bool percent_decode(const char *s, size_t len, bool plus_is_space, char *ret, size_t *ret_len);
