/* The descriptors of one child: its side goes into the plan of its start, ours into the taps. */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "proc/child.h"
#include "proc/tap.h"

struct stdio {
        int theirs[3], ours[3]; /* -1 = none */
        enum tap_kind kinds[3]; /* of ours */
        bool is_borrowed;       /* theirs are our own 0, 1 and 2 */
};

int stdio_init(struct stdio *io, const struct child_spec *, struct error *err);
void stdio_done(struct stdio *io); /* closes what was not taken, also after a failure */
