#include "client/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macro.h"
#include "io/loop.h"
#include "test.h"

enum { WAIT_MS = 10000 };

struct reader {
        struct loop *loop;
        struct source *source;
        struct buf got;
        size_t pause_at; /* pauses once it has so much */
        bool is_paused, is_over, has_failed;
};

static void on_data(void *arg, const char *data, size_t len)
{
        struct reader *r = arg;

        EXPECT(!r->is_over && !r->is_paused);
        buf_put(&r->got, data, len);
        if (r->pause_at && r->got.len >= r->pause_at) {
                r->is_paused = true;
                source_pause(r->source, true);
        }
}

static void on_end(void *arg, const struct error *why)
{
        struct reader *r = arg;

        EXPECT(!r->is_over);
        r->is_over = true;
        r->has_failed = why;
}

static const struct source_cb events = { on_data, on_end };

static void reader_open(struct reader *r, int fd)
{
        struct error err = {};

        r->loop = loop_new();
        EXPECT_OK(source_new(r->loop, fd, &events, r, &r->source, &err), err);
        EXPECT(!r->is_over && !r->got.len);
}

static void reader_close(struct reader *r)
{
        r->source = source_free(r->source);
        r->loop = loop_free(r->loop);
        buf_done(&r->got);
}

static int file_of(size_t n)
{
        FILE *f = tmpfile();
        int fd;

        EXPECT(f != NULL);
        for (size_t i = 0; i < n; i++)
                (void) fputc((int) ('a' + i % 26), f);
        (void) fflush(f);
        fd = dup(fileno(f));
        (void) fclose(f);
        return fd;
}

TEST(source_reads_a_file_from_where_its_offset_stands)
{
        struct reader r = {};
        _cleanup_close_ int fd = file_of(3 * SOURCE_PIECE_BYTES + 1);

        EXPECT_INT(lseek(fd, 2, SEEK_SET), 2);
        reader_open(&r, fd);
        EXPECT(loop_run_until(r.loop, &r.is_over, WAIT_MS));
        EXPECT(!r.has_failed);
        EXPECT_INT(r.got.len, 3 * SOURCE_PIECE_BYTES - 1);
        EXPECT_MEM(r.got.data, "cdef", 4);
        reader_close(&r);
}

TEST(source_pauses_a_file_and_goes_on)
{
        struct reader r = { .pause_at = SOURCE_PIECE_BYTES };
        _cleanup_close_ int fd = file_of(2 * SOURCE_PIECE_BYTES);

        EXPECT_INT(lseek(fd, 0, SEEK_SET), 0);
        reader_open(&r, fd);
        EXPECT(loop_run_until(r.loop, &r.is_paused, WAIT_MS));
        EXPECT(!loop_run_until(r.loop, &r.is_over, 20));
        EXPECT_INT(r.got.len, SOURCE_PIECE_BYTES);
        r.pause_at = 0;
        r.is_paused = false;
        source_pause(r.source, false);
        EXPECT(loop_run_until(r.loop, &r.is_over, WAIT_MS));
        EXPECT_INT(r.got.len, 2 * SOURCE_PIECE_BYTES);
        reader_close(&r);
}

/* Whoever shares the descriptor (a shell) must not find it non-blocking. */
static void expect_flags_kept(int fds[2])
{
        struct reader r = {};
        int was = fcntl(fds[0], F_GETFL);

        reader_open(&r, fds[0]);
        EXPECT_INT(fcntl(fds[0], F_GETFL), was);
        EXPECT_INT(write(fds[1], "hello", 5), 5);
        (void) close(fds[1]);
        EXPECT(loop_run_until(r.loop, &r.is_over, WAIT_MS));
        EXPECT(!r.has_failed);
        EXPECT_STR(r.got.data, "hello");
        reader_close(&r);
        EXPECT_INT(fcntl(fds[0], F_GETFL), was);
        (void) close(fds[0]);
}

TEST(source_leaves_a_pipe_as_it_was)
{
        int fds[2];

        EXPECT_INT(pipe2(fds, O_CLOEXEC), 0);
        expect_flags_kept(fds);
}

TEST(source_leaves_a_socket_as_it_was)
{
        int fds[2];

        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        expect_flags_kept(fds);
}

TEST(source_ends_at_once_where_there_is_nothing)
{
        struct reader r = {};
        _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        reader_open(&r, fd);
        EXPECT(loop_run_until(r.loop, &r.is_over, WAIT_MS));
        EXPECT(!r.has_failed && !r.got.len);
        reader_close(&r);
}

TEST(source_tells_why_it_cannot_read)
{
        struct reader r = {};
        _cleanup_close_ int fd = open("/", O_RDONLY | O_CLOEXEC | O_DIRECTORY);

        reader_open(&r, fd);
        EXPECT(loop_run_until(r.loop, &r.is_over, WAIT_MS));
        EXPECT(r.has_failed);
        reader_close(&r);
}
