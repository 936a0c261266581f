/* Randomness from the kernel, and the identifiers made of it. */
#pragma once
#include <stddef.h>

void rand_bytes(void *p, size_t n); /* aborts if the kernel has none: nothing safe is left to do */
void rand_hex(char *ret, size_t n_digits); /* n_digits hex digits and a NUL */
