/* A secret string: zeroed when freed, with no printf path. Handed on by fd or file, never by argv.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct secret;

struct secret *secret_new(const char *text, size_t len);
struct secret *secret_free(struct secret *s); /* NULL is fine; returns NULL */
bool secret_matches(const struct secret *s, const char *text, size_t len); /* constant time */
/* The text, for the one place that must hand it on. */
const char *secret_reveal(const struct secret *s, size_t *ret_len);
