/* Clocks and their text. Monotonic for waits, real time for stamps. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

int64_t clock_mono_us(void);
int64_t clock_real_us(void);

enum { CLOCK_TEXT_MAX = 40 };
/* "2026-01-02T03:04:05.123456Z" */
void clock_rfc3339(int64_t real_us, char ret[static CLOCK_TEXT_MAX]);
/* RFC 3339 with Z or an offset, fraction optional → real time. */
bool clock_parse_rfc3339(const char *text, int64_t *ret_real_us);
/* "Fri, 02 Jan 2026 03:04:05 GMT", recomputed once a second, good until the next call */
const char *clock_http_date(void);
