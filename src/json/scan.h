/* Finds the envelope of a JSON-RPC message without building a tree: the raw text of a few top-level
 * members (and of params.sessionId / result.sessionId). It checks strings, UTF-8, bracket depth and
 * the grammar of the two outer levels, not the rest: for bytes that only pass through. Unlike the
 * tree it lets `\ud800` without its other half through, as agents written in JavaScript send it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct jscan {
        struct slice id; /* raw JSON text (`7`, `"a"`, `null`), len 0 = absent */
        struct slice
                method; /* inside the quotes, raw: compare with jscan_eq(); not a string = absent */
        struct slice params;     /* raw */
        struct slice result;     /* raw */
        struct slice error;      /* raw */
        struct slice session_id; /* params.sessionId or result.sessionId, inside the quotes, raw */
};

/* ERR_INVALID when the text is not one JSON object (by the checks above). Slices point into text.
 * Of duplicate members the last counts, however its name is escaped. ret is written on success. */
int json_scan(const char *text, size_t len, struct jscan *ret, struct error *err);

/* Does a raw slice (inside the quotes) mean this text? Escapes are decoded, so a method cannot hide
 * behind `\u0073ession`. */
bool jscan_eq(struct slice raw, const char *text);
/* The decoded text. NULL: half a surrogate pair, a NUL, or the arena's ceiling. */
char *jscan_text(struct arena *a, struct slice raw);
