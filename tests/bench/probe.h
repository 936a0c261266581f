/* What the parts of the probe share: the clock, figures, and a small HTTP client. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int64_t now_ns(void);
/* The middle one of n times, in microseconds; sorts them. */
double median_us(int64_t *took_ns, int n);
/* Says what went wrong and ends the program: a figure that cannot be measured is not printed. */
void fail(const char *what) __attribute__((noreturn));

int dial(int port); /* loopback, without Nagle; -1 */
void write_all(int fd, const void *data, size_t len);

/* One connection. After http_ask() the body comes in pieces; then the next request may follow. */
struct http {
        int fd, port;
        const char *token;
        char *buf; /* received, not yet taken: at … have */
        size_t at, have;
        int status;
        bool is_chunked, is_behind_chunk, is_over;
        int64_t left; /* of the body or of this chunk */
};
void http_open(struct http *h, int port, const char *token);
void http_close(struct http *h);
/* Sends a request with a small body (NULL = none, else JSON) and reads the head of the answer. */
void http_ask(struct http *h, const char *method, const char *path, const char *body);
/* The same in two steps, for a body of len bytes that the caller sends. */
void http_send_head(struct http *h, const char *method, const char *path, const char *headers,
                    int64_t len);
void http_read_head(struct http *h);
/* The next bytes of the body, good until the next call; 0 at its end. */
size_t http_body(struct http *h, const char **ret);
/* Bytes as they come, for what follows an upgrade. */
void http_exactly(struct http *h, void *ret, size_t len);

int probe_get(int argc, char **argv);
int probe_put(int argc, char **argv);
int probe_run(int argc, char **argv);
int probe_spawn(int argc, char **argv);
int probe_lines(int argc, char **argv);
int probe_follow(int argc, char **argv);
int probe_rawcat(int argc, char **argv);
int probe_echo(int argc, char **argv);
int probe_floor(int argc, char **argv);
