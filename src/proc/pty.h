/* Pseudo-terminals: the pair and its size. */
#pragma once
#include <stdint.h>

#include "base/error.h"

enum { PTY_COLS = 80, PTY_ROWS = 24 }; /* where the caller says 0 */

/* Both ends close-on-exec and never our controlling terminal. The child's end is closed once it
 * runs, so that the last process leaving the terminal ends our reading. */
int pty_open(uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave, struct error *err);
int pty_resize(int master, uint16_t cols, uint16_t rows, struct error *err);
