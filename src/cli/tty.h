/* The user's own terminal: raw while somebody else's is shown in it, and as it was afterwards,
 * whatever ends this program. One at a time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* True when fd is a terminal and a size is known. */
bool tty_size(int fd, uint16_t *ret_cols, uint16_t *ret_rows);
/* Every key goes through as it is; tty_restore() undoes it, also at exit and in a crash. Calling it
 * again (after a stop by a signal) is fine. */
int tty_make_raw(int fd, struct error *err);
void tty_restore(void); /* idempotent; safe in a signal handler */
