/* Streams over socketpairs, pipes, ptys and memory: back-pressure, ends, frees inside callbacks. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "io/chunkq.h"
#include "io/loop.h"
#include "io/stream.h"
#include "test.h"

enum { PATIENCE_MS = 5000, BLOCK = 64 * 1024 };

/* One end, and everything that happened to it. */
struct end {
        struct loop *loop;
        struct stream *s;
        struct buf got;
        unsigned eofs, rooms, ends;
        enum err_kind why;
        bool has_got, has_eof, has_room, is_over;
        /* what to do inside the next on_data */
        bool pauses, frees, closes;
        struct end *frees_too;
};

static void on_data(void *arg, const char *data, size_t len)
{
        struct end *e = arg;

        buf_put(&e->got, data, len);
        e->has_got = true;
        if (e->pauses)
                stream_pause(e->s, true);
        if (e->closes)
                stream_close(e->s);
        if (e->frees)
                e->s = stream_free(e->s);
        if (e->frees_too)
                e->frees_too->s = stream_free(e->frees_too->s);
}

static void on_eof(void *arg)
{
        struct end *e = arg;

        e->eofs++;
        e->has_eof = true;
}

static void on_room(void *arg)
{
        struct end *e = arg;

        e->rooms++;
        e->has_room = true;
}

static void on_end(void *arg, const struct error *why)
{
        struct end *e = arg;

        e->ends++;
        e->why = why ? why->kind : ERR_OK;
        e->is_over = true;
}

static const struct stream_sink whole = { on_data, on_eof, on_room, on_end };
static const struct stream_sink no_eof = { on_data, NULL, on_room, on_end };
static const struct stream_sink only_writes = { NULL, NULL, on_room, on_end };

static void open_end(struct end *e, struct loop *l, int fd, const struct stream_sink *sink)
{
        struct error err = { 0 };

        *e = (struct end) { .loop = l };
        EXPECT_OK(stream_open_fd(l, fd, sink, e, &e->s, &err), err);
}

static void close_end(struct end *e)
{
        e->s = stream_free(e->s);
        buf_done(&e->got);
}

static void open_sockets(int ret[2])
{
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret), 0);
}

static void turn(struct loop *l)
{
        static const bool never;

        (void) loop_run_until(l, &never, 0);
}

/* Reads all there is; true at the end of the file. */
static bool drain(int fd, struct buf *ret)
{
        char block[BLOCK];
        ssize_t n;

        while ((n = read(fd, block, sizeof(block))) > 0)
                buf_put(ret, block, (size_t) n);
        return n == 0;
}

/* Runs until fd has said everything. */
static void drain_to_eof(struct loop *l, int fd, struct buf *ret)
{
        for (int i = 0; i < 100000 && !drain(fd, ret); i++)
                turn(l);
}

static int write_block(struct stream *s)
{
        static const char block[BLOCK];

        return stream_write_bytes(s, block, sizeof(block), NULL);
}

/* ---- descriptors ---- */

TEST(stream_gathers_writes_and_reads_what_comes)
{
        struct loop *l = loop_new();
        struct buf seen = { 0 };
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        EXPECT_INT(stream_write_bytes(e.s, "one ", 4, NULL), 1);
        EXPECT_INT(stream_write_bytes(e.s, "", 0, NULL), 1);
        EXPECT_INT(stream_write_bytes(e.s, "two", 3, NULL), 1);
        EXPECT_INT(stream_queued(e.s), 7);
        EXPECT(!drain(fd[1], &seen) && seen.len == 0); /* nothing leaves inside the call */
        turn(l);
        (void) drain(fd[1], &seen);
        EXPECT_STR(seen.data, "one two");
        EXPECT_INT(stream_queued(e.s), 0);
        EXPECT_INT(stream_sent(e.s), 7);
        EXPECT_INT(write(fd[1], "back", 4), 4);
        EXPECT(loop_run_until(l, &e.has_got, PATIENCE_MS));
        EXPECT_STR(e.got.data, "back");
        (void) close(fd[1]);
        buf_done(&seen);
        close_end(&e);
        loop_free(l);
}

TEST(stream_says_full_above_the_mark_and_room_once_below)
{
        struct loop *l = loop_new();
        struct buf seen = { 0 };
        struct end e;
        int fd[2];
        size_t written = 0;

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        EXPECT_INT(e.s->high_bytes, STREAM_HIGH_BYTES);
        for (int i = 0; i < STREAM_HIGH_BYTES / BLOCK; i++, written += BLOCK)
                EXPECT_INT(write_block(e.s), 1); /* up to the mark and including it */
        EXPECT_INT(stream_write_bytes(e.s, "x", 1, NULL), 0);
        EXPECT_INT(write_block(e.s), 0); /* taken all the same */
        written += BLOCK + 1;
        turn(l);
        EXPECT_INT(e.rooms, 0); /* the kernel took a part, the client nothing */
        while (seen.len < written) {
                (void) drain(fd[1], &seen);
                turn(l);
        }
        EXPECT_INT(seen.len, written);
        EXPECT_INT(e.rooms, 1);
        EXPECT(!e.s->is_full);
        (void) close(fd[1]);
        buf_done(&seen);
        close_end(&e);
        loop_free(l);
}

TEST(stream_paused_reads_nothing_until_it_goes_on)
{
        struct loop *l = loop_new();
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        stream_pause(e.s, true);
        EXPECT_INT(write(fd[1], "abc", 3), 3);
        (void) close(fd[1]);
        turn(l);
        turn(l);
        EXPECT_INT(e.got.len, 0);
        EXPECT_INT(e.eofs, 0);
        stream_pause(e.s, false);
        EXPECT(loop_run_until(l, &e.has_eof, PATIENCE_MS));
        EXPECT_STR(e.got.data, "abc");
        EXPECT_INT(e.eofs, 1);
        EXPECT_INT(e.ends, 0); /* our side is still open */
        close_end(&e);
        loop_free(l);
}

TEST(stream_finish_sends_the_rest_then_eof_and_reading_goes_on)
{
        struct loop *l = loop_new();
        struct buf seen = { 0 };
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        for (int i = 0; i < 8; i++)
                (void) write_block(e.s);
        stream_finish(e.s);
        EXPECT_INT(stream_write_bytes(e.s, "late", 4, NULL), -1);
        drain_to_eof(l, fd[1], &seen);
        EXPECT_INT(seen.len, 8 * BLOCK);
        EXPECT_INT(stream_write_bytes(e.s, "later", 5, NULL), -1);
        EXPECT_INT(write(fd[1], "reply", 5), 5);
        EXPECT(loop_run_until(l, &e.has_got, PATIENCE_MS));
        EXPECT_INT(e.ends, 0);
        (void) close(fd[1]);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS)); /* both halves are closed */
        EXPECT_INT(e.eofs, 1);
        EXPECT_INT(e.ends, 1);
        EXPECT_INT(e.why, ERR_OK);
        buf_done(&seen);
        close_end(&e);
        loop_free(l);
}

TEST(stream_finished_after_the_eof_ends)
{
        struct loop *l = loop_new();
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        (void) shutdown(fd[1], SHUT_WR);
        EXPECT(loop_run_until(l, &e.has_eof, PATIENCE_MS));
        EXPECT_INT(stream_write_bytes(e.s, "bye", 3, NULL), 1);
        stream_finish(e.s);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        EXPECT_INT(e.ends, 1);
        EXPECT_INT(e.why, ERR_OK);
        turn(l);
        EXPECT_INT(e.ends, 1);
        (void) close(fd[1]);
        close_end(&e);
        loop_free(l);
}

TEST(stream_without_on_eof_ends_at_the_eof)
{
        struct loop *l = loop_new();
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &no_eof);
        EXPECT_INT(write(fd[1], "abc", 3), 3);
        (void) close(fd[1]);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        EXPECT_STR(e.got.data, "abc");
        EXPECT_INT(e.why, ERR_OK);
        EXPECT_INT(stream_write_bytes(e.s, "x", 1, NULL), -1);
        close_end(&e);
        loop_free(l);
}

TEST(stream_close_drops_what_is_queued_and_ends_later)
{
        struct loop *l = loop_new();
        struct buf seen = { 0 };
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        (void) write_block(e.s);
        stream_close(e.s);
        EXPECT_INT(e.ends, 0); /* never from inside the call */
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        drain_to_eof(l, fd[1], &seen);
        EXPECT_INT(seen.len, 0);
        EXPECT_INT(e.ends, 1);
        (void) close(fd[1]);
        buf_done(&seen);
        close_end(&e);
        loop_free(l);
}

TEST(stream_freed_inside_on_data_calls_nobody_any_more)
{
        struct loop *l = loop_new();
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        e.frees = true;
        (void) write_block(e.s);
        EXPECT_INT(write(fd[1], "abc", 3), 3);
        (void) close(fd[1]);
        EXPECT(loop_run_until(l, &e.has_got, PATIENCE_MS));
        turn(l);
        EXPECT(!e.s);
        EXPECT_INT(e.eofs + e.ends + e.rooms, 0);
        close_end(&e);
        loop_free(l);
}

TEST(stream_closed_inside_on_data_ends_once)
{
        struct loop *l = loop_new();
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &whole);
        e.closes = true;
        EXPECT_INT(write(fd[1], "abc", 3), 3);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        turn(l);
        EXPECT_INT(e.ends, 1);
        (void) close(fd[1]);
        close_end(&e);
        loop_free(l);
}

/* The error condition is there together with the data; all of it must be read before the end. */
TEST(stream_reads_everything_before_a_reset)
{
        enum { N = 150000 };
        static char bytes[N];
        struct loop *l = loop_new();
        struct end e;
        int fd[2], big = 1 << 20;

        open_sockets(fd);
        (void) setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
        EXPECT_INT(write(fd[0], "unread", 6), 6);
        EXPECT_INT(write(fd[1], bytes, N), N);
        (void) close(fd[1]); /* with unread bytes: a reset */
        open_end(&e, l, fd[0], &whole);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        EXPECT_INT(e.got.len, N);
        EXPECT_INT(e.ends, 1);
        EXPECT_INT(e.why, ERR_UPSTREAM);
        close_end(&e);
        loop_free(l);
}

static void pause_on_room(void *arg)
{
        struct end *e = arg;

        on_room(arg);
        stream_pause(e->s, true);
}

/* Ready to read and to write in one batch, and on_room decides not to read: no error in that. */
TEST(stream_paused_in_on_room_stays_alive)
{
        static const struct stream_sink sink = { on_data, on_eof, pause_on_room, on_end };
        struct loop *l = loop_new();
        struct buf seen = { 0 };
        struct end e;
        int fd[2];

        open_sockets(fd);
        open_end(&e, l, fd[0], &sink);
        while (write_block(e.s) == 1)
                ;
        turn(l);
        while (!e.has_room && !e.is_over) {
                (void) drain(fd[1], &seen);
                (void) !write(fd[1], "x", 1);
                turn(l);
        }
        turn(l);
        EXPECT_INT(e.ends, 0);
        EXPECT_INT(stream_write_bytes(e.s, "alive", 5, NULL), 1);
        (void) close(fd[1]);
        buf_done(&seen);
        close_end(&e);
        loop_free(l);
}

TEST(stream_over_pipes_reads_to_the_eof_and_notices_a_lost_reader)
{
        struct loop *l = loop_new();
        struct end r, w;
        int fd[2];

        EXPECT_INT(pipe2(fd, O_CLOEXEC), 0);
        open_end(&r, l, fd[0], &no_eof);
        open_end(&w, l, fd[1], &only_writes);
        EXPECT_INT(stream_write_bytes(w.s, "through", 7, NULL), 1);
        stream_finish(w.s);
        EXPECT(loop_run_until(l, &r.is_over, PATIENCE_MS));
        EXPECT_STR(r.got.data, "through");
        EXPECT_INT(w.ends, 1);
        EXPECT_INT(w.why, ERR_OK);
        close_end(&r);
        close_end(&w);

        EXPECT_INT(pipe2(fd, O_CLOEXEC), 0);
        open_end(&w, l, fd[1], &only_writes);
        (void) close(fd[0]);
        EXPECT_INT(stream_write_bytes(w.s, "x", 1, NULL), 1);
        EXPECT(loop_run_until(l, &w.is_over, PATIENCE_MS));
        EXPECT_INT(w.why, ERR_UPSTREAM);
        close_end(&w);
        loop_free(l);
}

TEST(stream_over_a_pty_ends_cleanly_when_the_other_side_closes)
{
        struct loop *l = loop_new();
        struct end e;
        int master, slave;

        EXPECT_INT(openpty(&master, &slave, NULL, NULL, NULL), 0);
        open_end(&e, l, master, &no_eof);
        EXPECT_INT(write(slave, "hello", 5), 5);
        EXPECT(loop_run_until(l, &e.has_got, PATIENCE_MS));
        (void) close(slave);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        EXPECT_STR(e.got.data, "hello");
        EXPECT_INT(e.why, ERR_OK);
        close_end(&e);
        loop_free(l);
}

TEST(stream_refuses_a_plain_file_and_closes_it)
{
        char path[] = "/tmp/sa-unit-XXXXXX";
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct stream *s;
        int fd = mkstemp(path);

        (void) unlink(path);
        EXPECT_ERR(stream_open_fd(l, fd, &whole, NULL, &s, &err), ERR_SYSTEM, err);
        EXPECT_INT(fcntl(fd, F_GETFD), -1);
        loop_free(l);
}

/* ---- pairs ---- */

static void open_pair(struct end e[2], struct loop *l, const struct stream_sink *sink)
{
        struct stream *s[2];

        stream_pair(l, s);
        for (int i = 0; i < 2; i++) {
                e[i] = (struct end) { .loop = l, .s = s[i] };
                stream_set_sink(s[i], sink, &e[i]);
        }
}

TEST(pair_carries_both_ways_and_finishes)
{
        struct loop *l = loop_new();
        struct end e[2];

        open_pair(e, l, &whole);
        (void) stream_write_bytes(e[0].s, "there", 5, NULL);
        (void) stream_write_bytes(e[1].s, "back", 4, NULL);
        stream_finish(e[0].s);
        EXPECT_INT(e[1].got.len, 0);
        EXPECT(loop_run_until(l, &e[1].has_eof, PATIENCE_MS));
        EXPECT_STR(e[1].got.data, "there");
        EXPECT_STR(e[0].got.data, "back");
        EXPECT_INT(stream_write_bytes(e[0].s, "x", 1, NULL), -1);
        EXPECT_INT(e[1].eofs, 1);
        EXPECT_INT(e[0].ends + e[1].ends, 0);
        close_end(&e[0]);
        EXPECT_INT(stream_write_bytes(e[1].s, "x", 1, NULL), -1);
        close_end(&e[1]);
        loop_free(l);
}

TEST(pair_has_back_pressure)
{
        struct loop *l = loop_new();
        struct end e[2];
        size_t written = BLOCK;

        open_pair(e, l, &whole);
        stream_pause(e[1].s, true);
        while (write_block(e[0].s) == 1)
                written += BLOCK;
        turn(l);
        EXPECT_INT(e[1].got.len, 0);
        EXPECT_INT(e[0].rooms, 0);
        EXPECT_INT(stream_queued(e[0].s), written);
        stream_pause(e[1].s, false);
        EXPECT(loop_run_until(l, &e[0].has_room, PATIENCE_MS));
        EXPECT_INT(e[1].got.len, written);
        close_end(&e[0]);
        close_end(&e[1]);
        loop_free(l);
}

TEST(pair_end_paused_inside_on_data_gets_no_more)
{
        struct loop *l = loop_new();
        struct end e[2];

        open_pair(e, l, &whole);
        e[1].pauses = true;
        (void) stream_write_bytes(e[0].s, "one", 3, NULL);
        (void) stream_write_bytes(e[0].s, "two", 3, NULL);
        turn(l);
        EXPECT_STR(e[1].got.data, "one");
        stream_pause(e[1].s, false);
        turn(l);
        EXPECT_STR(e[1].got.data, "onetwo");
        close_end(&e[0]);
        close_end(&e[1]);
        loop_free(l);
}

TEST(pair_tells_the_other_end_later_never_from_inside_the_call)
{
        struct loop *l = loop_new();
        struct end e[2];

        open_pair(e, l, &no_eof);
        close_end(&e[0]);
        EXPECT_INT(e[1].ends, 0);
        EXPECT(loop_run_until(l, &e[1].is_over, PATIENCE_MS));
        EXPECT_INT(e[1].ends, 1);
        close_end(&e[1]);
        loop_free(l);
}

TEST(pair_freed_as_a_whole_inside_on_data_calls_nobody)
{
        struct loop *l = loop_new();
        struct end e[2];

        open_pair(e, l, &whole);
        e[1].frees = true;
        e[1].frees_too = &e[0];
        while (write_block(e[0].s) == 1)
                ;
        EXPECT(loop_run_until(l, &e[1].has_got, PATIENCE_MS));
        turn(l);
        EXPECT_INT(e[0].rooms + e[0].ends + e[1].eofs + e[1].ends, 0);
        close_end(&e[0]);
        close_end(&e[1]);
        loop_free(l);
}

/* ---- the queue ---- */

TEST(chunk_queue_leaves_from_the_front_byte_by_byte)
{
        struct chunkq q = { 0 };
        struct iovec iov[8];
        size_t total = 0;

        for (int i = 1; i <= 7; i++) {
                _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy("abcdefg", (size_t) i);

                chunkq_push(&q, c);
                total += (size_t) i;
        }
        EXPECT_INT(q.bytes, total);
        EXPECT_INT(chunkq_iov(&q, iov, 3), 3);
        EXPECT_INT(iov[2].iov_len, 3);
        chunkq_drop(&q, 4); /* a, ab, one byte of abc */
        EXPECT_INT(chunkq_iov(&q, iov, 8), 5);
        EXPECT_INT(iov[0].iov_len, 2);
        EXPECT_MEM(iov[0].iov_base, "bc", 2);
        while (q.bytes)
                chunkq_drop(&q, 1);
        EXPECT_INT(q.n, 0);
        EXPECT_INT(chunkq_iov(&q, iov, 8), 0);
        chunkq_done(&q);
}

/* ---- last words ---- */

/* The other side said much, then left; our write fails, and the reader wants a pause. */
static void hear_out(struct end *e, struct loop *l, bool hears_out)
{
        char *much = xcalloc(1, 2 * BLOCK);
        int fd[2];

        open_sockets(fd);
        EXPECT_INT(write(fd[1], much, 2 * BLOCK), 2 * BLOCK);
        (void) close(fd[1]);
        free(much);
        open_end(e, l, fd[0], &no_eof);
        e->s->hears_out = hears_out;
        e->pauses = true;
        (void) stream_write_bytes(e->s, "x", 1, NULL);
        EXPECT(loop_run_until(l, &e->has_got, PATIENCE_MS));
        for (int i = 0; i < 5; i++)
                turn(l);
}

TEST(stream_that_hears_out_keeps_the_last_words_over_a_pause)
{
        struct loop *l = loop_new();
        struct end e;

        hear_out(&e, l, true);
        EXPECT(!e.is_over);
        EXPECT_INT(e.got.len, BLOCK);
        e.pauses = false;
        stream_pause(e.s, false);
        EXPECT(loop_run_until(l, &e.is_over, PATIENCE_MS));
        EXPECT_INT(e.got.len, 2 * BLOCK);
        EXPECT_INT(e.why, ERR_UPSTREAM);
        EXPECT_INT(e.ends, 1);
        close_end(&e);
        loop_free(l);
}

TEST(stream_that_cannot_write_ends_with_a_pause)
{
        struct loop *l = loop_new();
        struct end e;

        hear_out(&e, l, false);
        EXPECT(e.is_over);
        EXPECT_INT(e.why, ERR_UPSTREAM);
        close_end(&e);
        loop_free(l);
}

/* ---- who is there ---- */

/* One end of a connection from `from`, as a server that listens at `at` (both v6 texts) gets it. */
static int tcp_accept(const char *at, const char *from, int *ret_client)
{
        struct sockaddr_in6 a = { .sin6_family = AF_INET6 };
        socklen_t len = sizeof(a);
        int door = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0, fd;

        *ret_client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_INT(setsockopt(door, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
        EXPECT_INT(inet_pton(AF_INET6, at, &a.sin6_addr), 1);
        EXPECT_INT(bind(door, (struct sockaddr *) &a, sizeof(a)), 0);
        EXPECT_INT(listen(door, 1), 0);
        EXPECT_INT(getsockname(door, (struct sockaddr *) &a, &len), 0);
        EXPECT_INT(inet_pton(AF_INET6, from, &a.sin6_addr), 1);
        EXPECT_INT(connect(*ret_client, (struct sockaddr *) &a, sizeof(a)), 0);
        fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        EXPECT(fd >= 0);
        (void) close(door);
        return fd;
}

static void expect_peer(const char *at, const char *from, const char *want)
{
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct stream *s;
        char text[46] = "";
        int client, fd = tcp_accept(at, from, &client), on = 0;
        socklen_t len = sizeof(on);

        EXPECT_OK(stream_open_fd(l, fd, NULL, NULL, &s, &err), err);
        EXPECT(stream_peer(s, text, sizeof(text)));
        EXPECT_STR(text, want);
        EXPECT(!stream_peer(s, text, 3)); /* no room for it */
        stream_keep_alive(s);
        EXPECT_INT(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
        EXPECT(on);
        stream_close(s);
        EXPECT(!stream_peer(s, text, sizeof(text)));
        stream_keep_alive(s);
        stream_free(s);
        loop_free(l);
        (void) close(client);
}

TEST(stream_peer_is_the_address_of_the_other_side)
{
        expect_peer("::1", "::1", "::1");
        expect_peer("::", "::ffff:127.0.0.1", "127.0.0.1");
}

TEST(stream_peer_is_nobody_behind_a_unix_socket_a_pipe_or_in_memory)
{
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct stream *s, *pair[2];
        char text[46];
        int fd[2];

        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
        EXPECT_OK(stream_open_fd(l, fd[0], NULL, NULL, &s, &err), err);
        EXPECT(!stream_peer(s, text, sizeof(text)));
        stream_free(s);
        (void) close(fd[1]);
        EXPECT_INT(pipe2(fd, O_CLOEXEC), 0);
        EXPECT_OK(stream_open_fd(l, fd[0], NULL, NULL, &s, &err), err);
        EXPECT(!stream_peer(s, text, sizeof(text)));
        stream_keep_alive(s);
        stream_free(s);
        (void) close(fd[1]);
        stream_pair(l, pair);
        EXPECT(!stream_peer(pair[0], text, sizeof(text)));
        stream_free(pair[0]);
        stream_free(pair[1]);
        loop_free(l);
}
