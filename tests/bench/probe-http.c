/* A blocking HTTP/1.1 client that costs little: the bench must not measure its own client. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUF_BYTES = 256 * 1024, HEAD_MAX = 8192, ROUNDS_MAX = 100 * 1000 };

int64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
        int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

        return (x > y) - (x < y);
}

double median_us(int64_t *took_ns, int n)
{
        qsort(took_ns, (size_t) n, sizeof(*took_ns), compare);
        return (double) took_ns[n / 2] / 1000;
}

void fail(const char *what)
{
        fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
        exit(1);
}

int dial(int port)
{
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd >= 0 && connect(fd, (struct sockaddr *) &to, sizeof(to)) < 0) {
                close(fd);
                return -1;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
}

void write_all(int fd, const void *data, size_t len)
{
        const char *at = data;

        while (len > 0) {
                ssize_t n = write(fd, at, len);

                if (n <= 0)
                        fail("write");
                at += n;
                len -= (size_t) n;
        }
}

void http_open(struct http *h, int port, const char *token)
{
        *h = (struct http) { .fd = dial(port), .port = port, .token = token };
        if (h->fd < 0)
                fail("connect");
        h->buf = malloc(BUF_BYTES + 1);
}

void http_close(struct http *h)
{
        close(h->fd);
        free(h->buf);
}

/* More bytes behind those that are there; the rest of a line moves to the front first. */
static void fill(struct http *h)
{
        ssize_t n;

        if (h->at > 0) {
                memmove(h->buf, h->buf + h->at, h->have - h->at);
                h->have -= h->at;
                h->at = 0;
        }
        if (h->have == BUF_BYTES)
                fail("an answer without end");
        n = read(h->fd, h->buf + h->have, BUF_BYTES - h->have);
        if (n <= 0)
                fail("the server closed the connection");
        h->have += (size_t) n;
}

static char *line(struct http *h)
{
        for (;;) {
                char *from = h->buf + h->at, *end = memmem(from, h->have - h->at, "\r\n", 2);

                if (end) {
                        *end = '\0';
                        h->at = (size_t) (end + 2 - h->buf);
                        return from;
                }
                fill(h);
        }
}

void http_send_head(struct http *h, const char *method, const char *path, const char *headers,
                    int64_t len)
{
        char text[HEAD_MAX];
        int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path);

        n += snprintf(text + n, sizeof(text) - (size_t) n, "Authorization: Bearer %s\r\n%s",
                      h->token, headers);
        if (len >= 0)
                n += snprintf(text + n, sizeof(text) - (size_t) n, "Content-Length: %lld\r\n",
                              (long long) len);
        n += snprintf(text + n, sizeof(text) - (size_t) n, "\r\n");
        write_all(h->fd, text, (size_t) n);
}

void http_read_head(struct http *h)
{
        char *text = line(h);

        h->status = strncmp(text, "HTTP/1.1 ", 9) == 0 ? atoi(text + 9) : 0;
        h->is_chunked = h->is_behind_chunk = h->is_over = false;
        h->left = 0;
        while (*(text = line(h)) != '\0') {
                if (strncasecmp(text, "content-length:", 15) == 0)
                        h->left = atoll(text + 15);
                else if (strncasecmp(text, "transfer-encoding:", 18) == 0)
                        h->is_chunked = true;
        }
}

void http_ask(struct http *h, const char *method, const char *path, const char *body)
{
        size_t len = body ? strlen(body) : 0;

        http_send_head(h, method, path, body ? "Content-Type: application/json\r\n" : "",
                       body ? (int64_t) len : -1);
        if (len > 0)
                write_all(h->fd, body, len);
        http_read_head(h);
}

void http_exactly(struct http *h, void *ret, size_t len)
{
        while (h->have - h->at < len)
                fill(h);
        memcpy(ret, h->buf + h->at, len);
        h->at += len;
}

static bool next_chunk(struct http *h)
{
        char end[2];

        if (h->is_behind_chunk)
                http_exactly(h, end, sizeof(end));
        h->left = strtoll(line(h), NULL, 16);
        h->is_behind_chunk = h->left > 0;
        if (h->left > 0)
                return true;
        (void) line(h); /* the empty one behind the last chunk */
        return false;
}

size_t http_body(struct http *h, const char **ret)
{
        size_t n;

        if (h->is_over || (h->left == 0 && !(h->is_chunked && next_chunk(h)))) {
                h->is_over = true;
                return 0;
        }
        if (h->at == h->have)
                fill(h);
        n = h->have - h->at;
        if ((int64_t) n > h->left)
                n = (size_t) h->left;
        *ret = h->buf + h->at;
        h->at += n;
        h->left -= (int64_t) n;
        return n;
}

/* get PORT TOKEN PATH N: the p50 of N whole answers in microseconds, and the bytes of one body. */
int probe_get(int argc, char **argv)
{
        static int64_t took[ROUNDS_MAX];
        struct http h;
        int n = argc > 3 ? atoi(argv[3]) : 0;
        int64_t bytes = 0;

        if (n < 1 || n > ROUNDS_MAX)
                return 2;
        http_open(&h, atoi(argv[0]), argv[1]);
        for (int i = 0; i < n; i++) {
                int64_t from = now_ns();
                const char *data;
                size_t got;

                bytes = 0;
                http_ask(&h, "GET", argv[2], NULL);
                if (h.status != 200)
                        fail("the answer was not 200");
                while ((got = http_body(&h, &data)) > 0)
                        bytes += (int64_t) got;
                took[i] = now_ns() - from;
        }
        printf("%.1f %lld\n", median_us(took, n), (long long) bytes);
        http_close(&h);
        return 0;
}

/* put PORT TOKEN PATH FILE: microseconds from the first byte to the answer. */
int probe_put(int argc, char **argv)
{
        struct http h;
        struct stat st;
        const char *data;
        int fd = argc > 3 ? open(argv[3], O_RDONLY | O_CLOEXEC) : -1;
        int64_t from;

        if (fd < 0 || fstat(fd, &st) < 0)
                fail("open the file to send");
        http_open(&h, atoi(argv[0]), argv[1]);
        from = now_ns();
        http_send_head(&h, "PUT", argv[2], "Content-Type: application/octet-stream\r\n",
                       st.st_size);
        for (off_t at = 0; at < st.st_size;)
                if (sendfile(h.fd, fd, &at, (size_t) (st.st_size - at)) <= 0)
                        fail("send the file");
        http_read_head(&h);
        while (http_body(&h, &data) > 0)
                ;
        if (h.status != 200)
                fail("the answer was not 200");
        printf("%.1f\n", (double) (now_ns() - from) / 1000);
        http_close(&h);
        close(fd);
        return 0;
}
