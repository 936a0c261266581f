/* What bind, query and schema know alike about a row. Private to json/. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "json/bind.h"

enum { FIELD_WHY_MAX = 256 };

/* Bytes of outside text that an error shows: few, and never half a character. */
int field_clip(struct slice s);
/* Checks of one value; on false `why` says what is wrong, without the value if the row is secret.
 */
bool field_text_ok(struct slice s, uint32_t max, char why[static FIELD_WHY_MAX]);
bool field_variant(const struct field *f, struct slice s, int *ret, char why[static FIELD_WHY_MAX]);
/* Marks the row's member as present in the struct at `ret`. */
void field_mark(const struct field *f, void *ret);
