/* Files in a stream's queue, and as answers: order, partial readers, ends in the middle, no
 * descriptor left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "http/conn.h"
#include "http/req.h"
#include "http/route.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/stream.h"
#include "test.h"

enum {
        PATIENCE_MS = 10000,
        PATIENCE_TURNS = 200000,
        SMALL = 10000,
        BIG = 3 * 1024 * 1024 + 17,
        AT_ONCE = 64 * 1024,
};

/* Bytes that tell their place. */
static const char *pattern(void)
{
        static char bytes[BIG];
        static bool is_made;

        for (size_t i = 0; !is_made && i < BIG; i++)
                bytes[i] = (char) (i * 31 + (i >> 8) * 7 + (i >> 16));
        is_made = true;
        return bytes;
}

/* A file with the first n of them. */
static int make_file(size_t n)
{
        int fd = memfd_create("unit", MFD_CLOEXEC);
        struct error err = { 0 };

        EXPECT(fd >= 0);
        EXPECT_OK(fd_write_all(fd, pattern(), n, &err), err);
        return fd;
}

static void expect_bytes(const struct buf *got, size_t at, size_t from, size_t len)
{
        EXPECT(got->len >= at + len);
        if (len)
                EXPECT_MEM(got->data + at, pattern() + from, len);
}

static unsigned count_fds(void)
{
        DIR *d = opendir("/proc/self/fd");
        unsigned n = 0;

        while (readdir(d))
                n++;
        (void) closedir(d);
        return n;
}

struct bed {
        struct loop *loop;
        struct stream *s;
        struct buf got;
        unsigned rooms, ends, fds;
        bool has_room, is_over, is_clean, at_eof;
        struct error why;
        int fd; /* the other side */
};

static void on_data(void *arg, const char *data, size_t len)
{
}

static void on_eof(void *arg)
{
}

static void on_room(void *arg)
{
        struct bed *b = arg;

        b->rooms++;
        b->has_room = true;
}

static void on_end(void *arg, const struct error *why)
{
        struct bed *b = arg;

        b->ends++;
        b->is_over = true;
        b->is_clean = !why;
        if (why)
                b->why = *why;
}

static const struct stream_sink sink = { on_data, on_eof, on_room, on_end };
static const struct stream_sink only_writes = { NULL, NULL, on_room, on_end };

static void bed_make(struct bed *b)
{
        unsigned fds;

        loop_free(loop_new()); /* the first one opens what the loop library keeps for good */
        fds = count_fds();
        *b = (struct bed) { .loop = loop_new(), .fds = fds, .fd = -1 };
}

static void bed_open(struct bed *b)
{
        struct error err = { 0 };
        int fd[2];

        bed_make(b);
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        b->fd = fd[1];
        EXPECT_OK(stream_open_fd(b->loop, fd[0], &sink, b, &b->s, &err), err);
}

static void bed_close(struct bed *b)
{
        stream_free(b->s);
        loop_free(b->loop);
        buf_done(&b->got);
        closep(&b->fd);
        EXPECT_INT(count_fds(), b->fds);
}

static void turn(struct bed *b)
{
        static const bool never;

        (void) loop_run_until(b->loop, &never, 0);
}

static void read_some(struct bed *b, size_t max)
{
        static char block[256 * 1024];
        ssize_t n = read(b->fd, block, MIN(max, sizeof(block)));

        if (n > 0)
                buf_put(&b->got, block, (size_t) n);
        else if (n == 0 || errno != EAGAIN)
                b->at_eof = true;
}

static void read_until(struct bed *b, size_t len)
{
        for (int i = 0; i < PATIENCE_TURNS && b->got.len < len && !b->at_eof; i++) {
                turn(b);
                read_some(b, SIZE_MAX);
        }
        EXPECT(b->got.len >= len);
}

static void read_to_eof(struct bed *b)
{
        for (int i = 0; i < PATIENCE_TURNS && !b->at_eof; i++) {
                turn(b);
                read_some(b, SIZE_MAX);
        }
        EXPECT(b->at_eof);
}

static int send_file(struct bed *b, size_t size, uint64_t at, uint64_t len)
{
        return stream_write_file(b->s, make_file(size), at, len, NULL);
}

/* ---- order and numbers ---- */

TEST(stream_file_keeps_its_place_among_what_is_written)
{
        struct bed b;

        bed_open(&b);
        EXPECT_INT(stream_write_bytes(b.s, "head", 4, NULL), 1);
        EXPECT_INT(send_file(&b, BIG, 0, BIG), 0);
        EXPECT_INT(stream_write_bytes(b.s, "middle", 6, NULL), 0);
        EXPECT_INT(send_file(&b, SMALL, 100, 1000), 0);
        EXPECT_INT(send_file(&b, BIG, 5, AT_ONCE + 1), 0);
        EXPECT_INT(stream_write_bytes(b.s, "tail", 4, NULL), 0);
        EXPECT_INT(stream_queued(b.s), 4 + BIG + 6 + 1000 + AT_ONCE + 1 + 4);
        read_until(&b, 4 + BIG + 6 + 1000 + AT_ONCE + 1 + 4);
        EXPECT_MEM(b.got.data, "head", 4);
        expect_bytes(&b.got, 4, 0, BIG);
        EXPECT_MEM(b.got.data + 4 + BIG, "middle", 6);
        expect_bytes(&b.got, 4 + BIG + 6, 100, 1000);
        expect_bytes(&b.got, 4 + BIG + 6 + 1000, 5, AT_ONCE + 1);
        EXPECT_MEM(b.got.data + b.got.len - 4, "tail", 4);
        EXPECT(loop_run_until(b.loop, &b.has_room, PATIENCE_MS));
        EXPECT_INT(b.rooms, 1);
        EXPECT_INT(stream_queued(b.s), 0);
        EXPECT_INT(stream_sent(b.s), b.got.len);
        EXPECT_INT(stream_write_bytes(b.s, "on", 2, NULL), 1);
        read_until(&b, b.got.len + 2);
        bed_close(&b);
}

TEST(stream_file_behind_a_full_queue_waits_for_it)
{
        static const char block[2 * STREAM_HIGH_BYTES];
        struct bed b;

        bed_open(&b);
        EXPECT_INT(stream_write_bytes(b.s, block, sizeof(block), NULL), 0);
        for (int i = 0; i < 20; i++)
                turn(&b);
        EXPECT_INT(send_file(&b, BIG, 0, BIG), 0);
        read_until(&b, sizeof(block) + BIG);
        expect_bytes(&b.got, sizeof(block), 0, BIG);
        EXPECT(loop_run_until(b.loop, &b.has_room, PATIENCE_MS));
        EXPECT_INT(b.rooms, 1);
        bed_close(&b);
}

TEST(stream_file_of_any_length_around_the_edges_arrives)
{
        static const size_t lens[] = { 0,           1,
                                       AT_ONCE - 1, AT_ONCE,
                                       AT_ONCE + 1, 1024 * 1024 - 1,
                                       1024 * 1024, 1024 * 1024 + 1 };
        struct bed b;
        size_t sum = 0;

        bed_open(&b);
        for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
                EXPECT(send_file(&b, BIG, i, lens[i]) >= 0);
                read_until(&b, sum + lens[i]);
                expect_bytes(&b.got, sum, i, lens[i]);
                sum += lens[i];
        }
        turn(&b);
        EXPECT_INT(b.got.len, sum);
        bed_close(&b);
}

TEST(stream_file_goes_on_at_the_pace_of_a_slow_reader)
{
        struct bed b;

        bed_open(&b);
        EXPECT_INT(send_file(&b, BIG, 0, BIG), 0);
        while (b.got.len < BIG) {
                uint64_t sent = stream_sent(b.s); /* a slice under way is not counted yet */

                EXPECT_INT(stream_queued(b.s) + sent, BIG);
                EXPECT(sent <= b.got.len + 1024 * 1024); /* what the kernel holds */
                turn(&b);
                read_some(&b, 3001);
        }
        expect_bytes(&b.got, 0, 0, BIG);
        EXPECT(loop_run_until(b.loop, &b.has_room, PATIENCE_MS));
        bed_close(&b);
}

TEST(stream_file_that_only_can_be_read_is_read)
{
        static const char *const path = "/proc/version"; /* no sendfile, no size */
        struct buf want = { .max_bytes = 4096 };
        struct error err = { 0 };
        struct bed b;

        bed_open(&b);
        EXPECT_OK(file_read(path, &want, &err), err);
        EXPECT(stream_write_file(b.s, open(path, O_RDONLY | O_CLOEXEC), 0, want.len, NULL) >= 0);
        EXPECT(stream_write_bytes(b.s, "!", 1, NULL) >= 0);
        read_until(&b, want.len + 1);
        EXPECT_MEM(b.got.data, want.data, want.len);
        EXPECT_INT(b.got.data[want.len], '!');
        buf_done(&want);
        bed_close(&b);
}

/* ---- ends ---- */

TEST(stream_finish_lets_the_file_out_first)
{
        struct bed b;

        bed_open(&b);
        (void) send_file(&b, BIG, 0, BIG);
        EXPECT_INT(stream_write_bytes(b.s, "tail", 4, NULL), 0);
        stream_finish(b.s);
        EXPECT_INT(stream_write_bytes(b.s, "x", 1, NULL), -1);
        EXPECT_INT(send_file(&b, SMALL, 0, SMALL), -1);
        read_to_eof(&b);
        EXPECT_INT(b.got.len, BIG + 4);
        expect_bytes(&b.got, 0, 0, BIG);
        bed_close(&b);
}

static void expect_short(struct bed *b, size_t size, size_t len)
{
        EXPECT(send_file(b, size, 0, len) >= 0);
        EXPECT(stream_write_bytes(b->s, "tail", 4, NULL) >= 0);
        read_to_eof(b);
        EXPECT_INT(b->got.len, size);
        expect_bytes(&b->got, 0, 0, size);
        EXPECT(loop_run_until(b->loop, &b->is_over, PATIENCE_MS));
        EXPECT_INT(b->ends, 1);
        EXPECT(!b->is_clean);
        EXPECT(strstr(b->why.msg, "shorter"));
}

TEST(stream_file_that_is_shorter_than_promised_breaks_the_stream)
{
        static const size_t sizes[] = { 0, SMALL, BIG };
        struct bed b;

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                bed_open(&b);
                expect_short(&b, sizes[i], sizes[i] + 1);
                bed_close(&b);
        }
}

TEST(stream_file_whose_reader_leaves_in_the_middle_ends_with_the_reason)
{
        struct bed b;

        bed_open(&b);
        (void) send_file(&b, BIG, 0, BIG);
        (void) send_file(&b, BIG, 0, BIG);
        read_until(&b, SMALL);
        (void) close(TAKE_FD(b.fd));
        EXPECT(loop_run_until(b.loop, &b.is_over, PATIENCE_MS));
        EXPECT_INT(b.ends, 1);
        EXPECT(!b.is_clean);
        EXPECT_INT(stream_queued(b.s), 0);
        EXPECT_INT(send_file(&b, SMALL, 0, SMALL), -1);
        bed_close(&b);
}

TEST(stream_free_while_a_slice_is_under_way_leaves_nothing_behind)
{
        struct bed b;

        bed_open(&b);
        (void) send_file(&b, BIG, 0, BIG); /* nothing is queued: the slice is out at once */
        b.s = stream_free(b.s);
        read_to_eof(&b);
        EXPECT(b.got.len < BIG);
        expect_bytes(&b.got, 0, 0, b.got.len);
        EXPECT_INT(b.ends, 0);
        bed_close(&b);
}

TEST(stream_close_while_a_slice_is_under_way_ends_at_once)
{
        struct bed b;

        bed_open(&b);
        (void) send_file(&b, BIG, 0, BIG);
        (void) stream_write_bytes(b.s, "tail", 4, NULL);
        stream_close(b.s);
        EXPECT_INT(stream_queued(b.s), 0);
        EXPECT(loop_run_until(b.loop, &b.is_over, PATIENCE_MS));
        EXPECT(b.is_clean);
        read_to_eof(&b);
        bed_close(&b);
}

TEST(loop_that_goes_while_a_slice_is_under_way_leaves_nothing_behind)
{
        struct bed b;

        bed_open(&b);
        (void) send_file(&b, BIG, 0, BIG);
        b.s = stream_free(b.s);
        bed_close(&b);
}

/* ---- other kinds ---- */

TEST(stream_file_leaves_through_a_pipe_in_pieces)
{
        struct error err = { 0 };
        struct bed b;
        int fd[2];

        bed_make(&b);
        EXPECT_INT(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
        b.fd = fd[0];
        EXPECT_OK(stream_open_fd(b.loop, fd[1], &only_writes, &b, &b.s, &err), err);
        EXPECT_INT(stream_write_bytes(b.s, "head", 4, NULL), 1);
        EXPECT_INT(send_file(&b, BIG, 1, BIG - 1), 0);
        EXPECT_INT(stream_write_bytes(b.s, "tail", 4, NULL), 0);
        stream_finish(b.s);
        read_to_eof(&b);
        EXPECT_INT(b.got.len, BIG - 1 + 8);
        expect_bytes(&b.got, 4, 1, BIG - 1);
        bed_close(&b);
}

struct far {
        struct bed *bed;
        struct stream *s;
        bool has_eof;
};

static void far_data(void *arg, const char *data, size_t len)
{
        struct far *f = arg;

        /* No more than a piece and what is under way is ever in memory. */
        EXPECT(f->bed->s->queued_bytes <= STREAM_HIGH_BYTES + 128 * 1024);
        buf_put(&f->bed->got, data, len);
}

static void far_eof(void *arg)
{
        ((struct far *) arg)->has_eof = true;
}

static const struct stream_sink far_sink = { far_data, far_eof, NULL, NULL };

static void open_pair(struct bed *b, struct far *f)
{
        struct stream *pair[2];

        bed_make(b);
        stream_pair(b->loop, pair);
        b->s = pair[0];
        stream_set_sink(b->s, &sink, b);
        *f = (struct far) { .bed = b, .s = pair[1] };
        stream_set_sink(f->s, &far_sink, f);
}

TEST(stream_file_goes_through_a_pair_with_back_pressure)
{
        struct bed b;
        struct far f;

        open_pair(&b, &f);
        stream_pause(f.s, true);
        EXPECT_INT(send_file(&b, BIG, 0, BIG), 0);
        EXPECT_INT(stream_write_bytes(b.s, "tail", 4, NULL), 0);
        for (int i = 0; i < 200; i++)
                turn(&b);
        EXPECT_INT(stream_queued(b.s), BIG + 4);
        EXPECT(b.s->queued_bytes <= STREAM_HIGH_BYTES + 128 * 1024);
        EXPECT_INT(b.rooms, 0);
        stream_pause(f.s, false);
        EXPECT(loop_run_until(b.loop, &b.has_room, PATIENCE_MS));
        stream_finish(b.s);
        EXPECT(loop_run_until(b.loop, &f.has_eof, PATIENCE_MS));
        EXPECT_INT(b.got.len, BIG + 4);
        expect_bytes(&b.got, 0, 0, BIG);
        EXPECT_INT(b.rooms, 1);
        stream_free(f.s);
        bed_close(&b);
}

TEST(stream_file_in_a_pair_ends_with_the_reason)
{
        struct bed b;
        struct far f;

        open_pair(&b, &f);
        EXPECT_INT(send_file(&b, BIG, 0, BIG + 1), 0);
        EXPECT(loop_run_until(b.loop, &b.is_over, PATIENCE_MS));
        EXPECT(strstr(b.why.msg, "shorter"));
        stream_free(f.s);
        bed_close(&b);

        open_pair(&b, &f);
        EXPECT_INT(send_file(&b, BIG, 0, BIG), 0);
        stream_free(f.s); /* the other side goes first */
        EXPECT(loop_run_until(b.loop, &b.is_over, PATIENCE_MS));
        EXPECT(!b.is_clean);
        bed_close(&b);

        open_pair(&b, &f);
        EXPECT_INT(send_file(&b, BIG, 0, BIG), 0);
        stream_free(f.s);
        bed_close(&b); /* ours goes too, while a piece is being read */
}

/* ---- as an answer ---- */

struct web {
        struct bed bed; /* s stays NULL: the connection has it */
        struct router *router;
        struct http_server *srv;
        bool is_drained;
};

static int get_file(struct req *r, struct error *err)
{
        static const struct {
                const char *name;
                size_t size, at, len;
        } files[] = {
                { "big", BIG, 0, BIG },       { "part", BIG, 1000, AT_ONCE * 3 },
                { "small", SMALL, 0, SMALL }, { "none", 0, 0, 0 },
                { "short", BIG, 0, BIG + 1 }, { "short-small", SMALL, 0, SMALL + 1 },
        };

        for (size_t i = 0; i < ARRAY_LEN(files); i++)
                if (strcmp(files[i].name, req_param(r, "name")) == 0)
                        return reply_file(r, 200, "application/octet-stream",
                                          make_file(files[i].size), files[i].at, files[i].len);
        return error_set(err, ERR_NOT_FOUND, 0, "no such file");
}

static int get_twice(struct req *r, struct error *err)
{
        EXPECT_INT(reply_empty(r, 200), 0);
        EXPECT_INT(reply_file(r, 200, NULL, make_file(SMALL), 0, SMALL), -1);
        return 0;
}

static const struct route rows[] = {
        { "GET", "/f/{name}", get_file, .doc = "-" },
        { "GET", "/twice", get_twice, .doc = "-" },
        { 0 },
};

static void web_open_with(struct web *w, const struct http_limits *limits)
{
        static const struct route *const tables[] = { rows, NULL };
        struct http_server_spec spec = { .limits = *limits };
        int fd[2];

        *w = (struct web) { .is_drained = false };
        bed_make(&w->bed);
        spec.router = w->router = router_new(tables);
        w->srv = http_server_new(w->bed.loop, &spec);
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        w->bed.fd = fd[1];
        conn_new(w->srv, fd[0]);
}

static void web_open(struct web *w)
{
        web_open_with(w, &http_limits_default);
}

static void web_close(struct web *w)
{
        http_server_free(w->srv);
        router_free(w->router);
        bed_close(&w->bed);
}

static void ask(struct web *w, const char *text)
{
        EXPECT_INT(write(w->bed.fd, text, strlen(text)), strlen(text));
}

#define GET(name) "GET /f/" name " HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* The answer that begins at `at`: its head says so many bytes; where its body begins. */
static size_t expect_head(struct web *w, size_t at, size_t len)
{
        char want[64];
        const char *end;

        for (int i = 0; i < PATIENCE_TURNS && !w->bed.at_eof; i++) {
                if (w->bed.got.len > at && strstr(w->bed.got.data + at, "\r\n\r\n"))
                        break;
                turn(&w->bed);
                read_some(&w->bed, SIZE_MAX);
        }
        EXPECT(w->bed.got.len > at);
        end = strstr(w->bed.got.data + at, "\r\n\r\n");
        EXPECT(end);
        (void) snprintf(want, sizeof(want), "\r\ncontent-length: %zu\r\n", len);
        EXPECT(strstr(w->bed.got.data + at, want) && strstr(w->bed.got.data + at, want) < end);
        return (size_t) (end - w->bed.got.data) + 4;
}

TEST(reply_file_answers_pipelined_requests_in_order)
{
        static const struct {
                size_t at, len;
        } want[] = { { 0, BIG }, { 0, SMALL }, { 0, 0 }, { 1000, AT_ONCE * 3 }, { 0, BIG } };
        struct web w;
        size_t at = 0;

        web_open(&w);
        ask(&w, GET("big") GET("small") GET("none") GET("part") GET("big"));
        for (size_t i = 0; i < ARRAY_LEN(want); i++) {
                at = expect_head(&w, at, want[i].len);
                read_until(&w.bed, at + want[i].len);
                expect_bytes(&w.bed.got, at, want[i].at, want[i].len);
                at += want[i].len;
        }
        EXPECT_INT(w.bed.got.len, at);
        EXPECT_INT(http_server_stats(w.srv)->requests, 5);
        EXPECT_INT(http_server_stats(w.srv)->bytes_out, at);
        web_close(&w);
}

TEST(reply_file_sends_only_the_head_for_head)
{
        struct web w;
        size_t at;

        web_open(&w);
        ask(&w, "HEAD /f/big HTTP/1.1\r\nHost: localhost\r\n\r\n" GET("small"));
        at = expect_head(&w, 0, BIG);
        at = expect_head(&w, at, SMALL);
        read_until(&w.bed, at + SMALL);
        expect_bytes(&w.bed.got, at, 0, SMALL);
        web_close(&w);
}

TEST(reply_file_of_a_file_that_shrank_is_a_broken_transfer)
{
        struct web w;
        size_t at;

        web_open(&w);
        ask(&w, GET("short") GET("small"));
        read_to_eof(&w.bed);
        at = expect_head(&w, 0, BIG + 1);
        EXPECT_INT(w.bed.got.len, at + BIG);
        web_close(&w);
        web_open(&w);
        ask(&w, GET("short-small") GET("small"));
        read_to_eof(&w.bed);
        at = expect_head(&w, 0, SMALL + 1);
        EXPECT_INT(w.bed.got.len, at + SMALL);
        web_close(&w);
}

TEST(reply_file_takes_its_descriptor_even_if_it_comes_too_late)
{
        struct web w;

        web_open(&w);
        ask(&w, "GET /twice HTTP/1.1\r\nHost: localhost\r\n\r\n");
        (void) expect_head(&w, 0, 0);
        web_close(&w); /* counts descriptors */
}

TEST(reply_file_stops_when_its_client_leaves)
{
        struct web w;
        size_t at;

        web_open(&w);
        ask(&w, GET("big"));
        at = expect_head(&w, 0, BIG);
        read_until(&w.bed, at + SMALL);
        (void) close(TAKE_FD(w.bed.fd));
        for (int i = 0; i < PATIENCE_TURNS && http_server_stats(w.srv)->conns_open; i++)
                turn(&w.bed);
        EXPECT_INT(http_server_stats(w.srv)->conns_open, 0);
        web_close(&w);
}

TEST(reply_file_goes_on_for_a_client_that_closed_its_half)
{
        struct web w;
        size_t at;

        web_open(&w);
        ask(&w, GET("big"));
        at = expect_head(&w, 0, BIG);
        (void) shutdown(w.bed.fd, SHUT_WR);
        read_to_eof(&w.bed);
        EXPECT_INT(w.bed.got.len, at + BIG);
        expect_bytes(&w.bed.got, at, 0, BIG);
        web_close(&w);
}

static void on_drained(void *arg)
{
        ((struct web *) arg)->is_drained = true;
}

TEST(reply_file_is_finished_by_a_server_that_drains)
{
        struct web w;
        size_t at;

        web_open(&w);
        ask(&w, GET("big"));
        at = expect_head(&w, 0, BIG);
        http_server_drain(w.srv, on_drained, &w);
        for (int i = 0; i < 20; i++)
                turn(&w.bed);
        EXPECT(!w.is_drained);
        read_to_eof(&w.bed);
        EXPECT_INT(w.bed.got.len, at + BIG);
        expect_bytes(&w.bed.got, at, 0, BIG);
        (void) close(TAKE_FD(w.bed.fd));
        EXPECT(loop_run_until(w.bed.loop, &w.is_drained, PATIENCE_MS));
        web_close(&w);
}

TEST(reply_file_gives_up_on_a_client_that_takes_nothing)
{
        struct http_limits limits = http_limits_default;
        struct web w;
        size_t at;

        limits.write_ms = 5;
        web_open_with(&w, &limits);
        ask(&w, GET("big"));
        at = expect_head(&w, 0, BIG);
        for (int i = 0; i < PATIENCE_TURNS && http_server_stats(w.srv)->conns_open; i++)
                (void) loop_run_until(w.bed.loop, &w.is_drained, 1);
        EXPECT_INT(http_server_stats(w.srv)->timeouts, 1);
        EXPECT_INT(http_server_stats(w.srv)->conns_open, 0);
        read_to_eof(&w.bed);
        EXPECT(w.bed.got.len < at + BIG);
        web_close(&w);
}
