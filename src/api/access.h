/* The access log: one line per answered request, never a secret. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct req;

struct access {
        bool is_on, with_headers;
};
void access_log(const struct access *a, struct req *r, int status, int64_t took_us, uint64_t bytes);
void access_random_token(char ret[static 49]); /* 48 hex digits */
