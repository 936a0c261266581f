/* Processes: how long a run takes, and whether a follower of a log sees every line. */
#include "probe.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        RUNS_MAX = 100 * 1000,
        WIDTH_MAX = 1000,
        OUT_BYTES = 64 * 1024,
        FRAME_BYTES = 1024 * 1024,
        ENTRY_MAX = 8192,
};

extern char **environ;

int probe_run(int argc, char **argv)
{
        static int64_t took[RUNS_MAX];
        static const char body[] = "{\"command\":\"/bin/true\"}";
        struct http h;
        int n = atoi(argv[2]);

        http_open(&h, atoi(argv[0]), argv[1]);
        for (int i = 0; i < n && n <= RUNS_MAX; i++) {
                int64_t from = now_ns();
                const char *data, *found = NULL;
                size_t got;

                http_ask(&h, "POST", "/v1/processes/run", body);
                while ((got = http_body(&h, &data)) > 0)
                        if (!found)
                                found = memmem(data, got, "\"exitCode\":0,", 13);
                took[i] = now_ns() - from;
                if (h.status != 200 || !found)
                        fail("run /bin/true");
        }
        printf("%.1f\n", median_us(took, n));
        http_close(&h);
        return 0;
}

int probe_spawn(int argc, char **argv)
{
        static int64_t took[RUNS_MAX];
        char *const child[] = { "/bin/true", NULL };
        int n = atoi(argv[0]);

        for (int i = 0; i < n && n <= RUNS_MAX; i++) {
                int64_t from = now_ns();
                pid_t pid;
                int status;

                errno = posix_spawn(&pid, child[0], NULL, NULL, child, environ);
                if (errno != 0 || waitpid(pid, &status, 0) != pid || status != 0)
                        fail("spawn /bin/true");
                took[i] = now_ns() - from;
        }
        printf("%.1f\n", median_us(took, n));
        return 0;
}

/* ---- numbered lines: the number in decimal, as wide as the line ---- */

struct numbered {
        char text[WIDTH_MAX];
        size_t width, at; /* at: how much of this line has been compared */
        int64_t n;        /* lines before this one */
};

static void numbered_start(struct numbered *l, size_t width)
{
        *l = (struct numbered) { .width = width };
        memset(l->text, '0', width - 1);
        l->text[width - 1] = '\n';
}

static void numbered_next(struct numbered *l)
{
        char *digit = l->text + l->width - 2;

        while (*digit == '9')
                *digit-- = '0';
        ++*digit;
        l->n++;
        l->at = 0;
}

static bool numbered_take(struct numbered *l, const char *data, size_t len)
{
        while (len > 0) {
                size_t n = l->width - l->at < len ? l->width - l->at : len;

                if (memcmp(l->text + l->at, data, n) != 0)
                        return false;
                data += n;
                len -= n;
                l->at += n;
                if (l->at == l->width)
                        numbered_next(l);
        }
        return true;
}

int probe_lines(int argc, char **argv)
{
        static char out[OUT_BYTES];
        struct numbered l;
        int64_t n = atoll(argv[0]);
        size_t width = (size_t) atoi(argv[1]), have = 0;
        char go;

        if (width < 2 || width > WIDTH_MAX || read(STDIN_FILENO, &go, 1) != 1)
                return 2;
        for (numbered_start(&l, width); l.n < n; numbered_next(&l)) {
                if (have + width > sizeof(out)) {
                        write_all(STDOUT_FILENO, out, have);
                        have = 0;
                }
                memcpy(out + have, l.text, width);
                have += width;
        }
        write_all(STDOUT_FILENO, out, have);
        return 0;
}

/* ---- the follower ---- */

struct follower {
        struct numbered lines;
        int64_t gaps, seq;
        bool is_wrong;
        uint16_t pair[65536]; /* two base64 digits at once: 12 bits, or 0xffff */
};

static int digit(unsigned c)
{
        static const char all[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = c ? strchr(all, (int) c) : NULL;

        return at ? (int) (at - all) : -1;
}

static void pairs_fill(uint16_t *pair)
{
        for (unsigned i = 0; i < 65536; i++) {
                int first = digit(i & 255), second = digit(i >> 8);

                pair[i] = first < 0 || second < 0 ? 0xffff : (uint16_t) (first << 6 | second);
        }
}

/* Four digits with padding: 1 or 2 bytes, -1 when it is not base64. */
static int decode_last(const char *from, char *to)
{
        int a = digit((unsigned char) from[0]), b = digit((unsigned char) from[1]);
        int c = digit((unsigned char) from[2]);

        if (a < 0 || b < 0 || from[3] != '=' || (c < 0 && from[2] != '='))
                return -1;
        to[0] = (char) (a << 2 | b >> 4);
        to[1] = (char) (b << 4 | (c < 0 ? 0 : c) >> 2);
        return c < 0 ? 1 : 2;
}

static int64_t decode(const struct follower *f, const char *from, size_t len, char *to)
{
        char *out = to;
        int rest;

        for (; len >= 4; from += 4, len -= 4) {
                uint16_t in[2];
                unsigned high, low;

                memcpy(in, from, 4);
                high = f->pair[in[0]];
                low = f->pair[in[1]];
                if (high == 0xffff || low == 0xffff) {
                        rest = len == 4 ? decode_last(from, out) : -1;
                        return rest < 0 ? -1 : out - to + rest;
                }
                *out++ = (char) (high >> 4);
                *out++ = (char) ((high & 15) << 4 | low >> 8);
                *out++ = (char) low;
        }
        return len == 0 ? out - to : -1;
}

static void take_entry(struct follower *f, const char *frame, size_t len)
{
        static char bytes[ENTRY_MAX + 8];
        const char *seq = memmem(frame, len, "\"sequence\":", 11);
        const char *data = memmem(frame, len, "\"data\":\"", 8), *end;
        int64_t n;

        if (!seq || !data || atoll(seq + 11) != f->seq + 1)
                fail("an entry that does not follow the last one");
        f->seq++;
        data += 8;
        end = memchr(data, '"', len - (size_t) (data - frame));
        if (!end || (size_t) (end - data) > ENTRY_MAX * 4 / 3 + 4)
                fail("an entry without data, or one that is too long");
        n = decode(f, data, (size_t) (end - data), bytes);
        if (n < 0 || !numbered_take(&f->lines, bytes, (size_t) n))
                f->is_wrong = true;
}

static void take_frame(struct follower *f, const char *frame, size_t len)
{
        if (len >= 10 && memcmp(frame, "event: log", 10) == 0)
                take_entry(f, frame, len);
        else if (len >= 10 && memcmp(frame, "event: gap", 10) == 0)
                f->gaps++;
}

/* Whole frames are taken; what is left of a frame waits at the front. Returns how much that is. */
static size_t take_frames(struct follower *f, char *text, size_t have)
{
        size_t at = 0;
        char *end;

        while ((end = memmem(text + at, have - at, "\n\n", 2))) {
                take_frame(f, text + at, (size_t) (end - text) - at);
                at = (size_t) (end - text) + 2;
        }
        memmove(text, text + at, have - at);
        return have - at;
}

static void let_go(int port, const char *token, const char *id)
{
        struct http h;
        char path[256];

        snprintf(path, sizeof(path), "/v1/processes/%s/input", id);
        http_open(&h, port, token);
        http_ask(&h, "POST", path, "{\"data\":\"!\",\"encoding\":\"utf8\"}");
        if (h.status != 200)
                fail("input for the process");
        http_close(&h);
}

int probe_follow(int argc, char **argv)
{
        static struct follower f;
        static char text[FRAME_BYTES];
        struct http h;
        char path[256];
        const char *data;
        size_t have = 0, got;
        int64_t from;

        pairs_fill(f.pair);
        numbered_start(&f.lines, (size_t) atoi(argv[4]));
        snprintf(path, sizeof(path), "/v1/processes/%s/logs?follow=true", argv[2]);
        http_open(&h, atoi(argv[0]), argv[1]);
        http_ask(&h, "GET", path, NULL);
        if (h.status != 200)
                fail("follow the log");
        let_go(h.port, argv[1], argv[2]);
        from = now_ns();
        while (!f.is_wrong && f.lines.n < atoll(argv[3]) && (got = http_body(&h, &data)) > 0) {
                if (have + got > sizeof(text))
                        fail("a frame without end");
                memcpy(text + have, data, got);
                have = take_frames(&f, text, have + got);
        }
        printf("%lld %lld %.6f %s\n", (long long) f.lines.n, (long long) f.gaps,
               (double) (now_ns() - from) / 1e9, f.is_wrong ? "wrong" : "right");
        http_close(&h);
        return 0;
}
