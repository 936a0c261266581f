/* Listening and dialling: TCP, unix sockets, leftovers, refusals, deadlines, socket activation. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/loop.h"
#include "io/socket.h"
#include "test.h"

enum { PATIENCE_MS = 5000 };

struct door {
        struct loop *loop;
        struct listener *listener;
        int accepted; /* last one, or -1 */
        unsigned n;
        bool done, frees;
};

static void on_accepted(void *arg, int fd)
{
        struct door *d = arg;

        if (d->accepted >= 0)
                (void) close(d->accepted);
        d->accepted = fd;
        d->n++;
        d->done = true;
        if (d->frees)
                d->listener = listener_free(d->listener);
}

static void door_close(struct door *d)
{
        d->listener = listener_free(d->listener);
        if (d->accepted >= 0)
                (void) close(TAKE_FD(d->accepted));
}

static int open_tcp(struct door *d, struct loop *l, const char *host, uint16_t port,
                    struct error *err)
{
        struct listen_spec spec = { .host = host, .port = port, .fd = -1, .backlog = 16 };

        *d = (struct door) { .loop = l, .accepted = -1 };
        return listener_new(l, &spec, on_accepted, d, &d->listener, err);
}

static int open_unix(struct door *d, struct loop *l, const char *path, struct error *err)
{
        struct listen_spec spec = { .unix_path = path, .fd = -1, .backlog = 16 };

        *d = (struct door) { .loop = l, .accepted = -1 };
        return listener_new(l, &spec, on_accepted, d, &d->listener, err);
}

struct caller {
        int fd;
        unsigned calls;
        bool done;
        struct error why;
};

static void on_dialled(void *arg, int fd, const struct error *why)
{
        struct caller *c = arg;

        c->fd = fd;
        c->calls++;
        c->done = true;
        if (why)
                c->why = *why;
}

/* A directory of our own for socket files. */
static char *temp_path(const char *name)
{
        static char dir[64];

        (void) snprintf(dir, sizeof(dir), "/tmp/sa-unit-XXXXXX");
        EXPECT(mkdtemp(dir));
        return xasprintf("%s/%s", dir, name);
}

static void temp_done(char *path)
{
        (void) unlink(path);
        *strrchr(path, '/') = '\0';
        (void) rmdir(path);
        free(path);
}

static void turn(struct loop *l)
{
        static const bool never;

        (void) loop_run_until(l, &never, 0);
}

TEST(dial_reaches_a_tcp_listener_by_number_and_by_name)
{
        static const char *const names[] = { "127.0.0.1", "localhost" };
        struct loop *l = loop_new();
        struct error err = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                struct caller c = { .fd = -1 };
                struct door d;

                EXPECT_OK(open_tcp(&d, l, "127.0.0.1", 0, &err), err);
                EXPECT(listener_port(d.listener) != 0);
                (void) dial_tcp(l, names[i], listener_port(d.listener), PATIENCE_MS, on_dialled,
                                &c);
                EXPECT_INT(c.calls, 0);
                EXPECT(loop_run_until(l, &c.done, PATIENCE_MS));
                EXPECT(loop_run_until(l, &d.done, PATIENCE_MS));
                EXPECT(c.fd >= 0);
                EXPECT_INT(c.calls, 1);
                EXPECT(fcntl(d.accepted, F_GETFD) & FD_CLOEXEC);
                EXPECT(fcntl(d.accepted, F_GETFL) & O_NONBLOCK);
                (void) close(c.fd);
                door_close(&d);
        }
        loop_free(l);
}

TEST(dial_says_refused_when_nobody_listens)
{
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct caller c = { .fd = -1 };
        struct door d;
        uint16_t port;

        EXPECT_OK(open_tcp(&d, l, "127.0.0.1", 0, &err), err);
        port = listener_port(d.listener);
        door_close(&d);
        (void) dial_tcp(l, "127.0.0.1", port, PATIENCE_MS, on_dialled, &c);
        EXPECT(loop_run_until(l, &c.done, PATIENCE_MS));
        EXPECT_INT(c.fd, -1);
        EXPECT_INT(c.why.kind, ERR_UPSTREAM);
        EXPECT(strstr(c.why.msg, "refused"));
        loop_free(l);
}

TEST(dial_says_what_it_could_not_look_up)
{
        struct loop *l = loop_new();
        struct caller c = { .fd = -1 };

        (void) dial_tcp(l, "no such host", 80, PATIENCE_MS, on_dialled, &c);
        EXPECT(loop_run_until(l, &c.done, PATIENCE_MS));
        EXPECT_INT(c.fd, -1);
        EXPECT_INT(c.why.kind, ERR_UPSTREAM);
        EXPECT(strstr(c.why.msg, "look up 'no such host'"));
        loop_free(l);
}

/* The listener's queue is full: further connections hang in the kernel. */
TEST(dial_gives_up_at_its_deadline)
{
        struct loop *l = loop_new();
        struct sockaddr_storage ss = { 0 };
        socklen_t len = sizeof(ss);
        struct caller c = { .fd = -1 };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fill[8];
        uint16_t port;
        struct error err = { 0 };
        struct door d;

        /* A port from the kernel, then a listener with no room at all that nobody accepts on. */
        EXPECT_OK(open_tcp(&d, l, "127.0.0.1", 0, &err), err);
        port = listener_port(d.listener);
        door_close(&d);
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int) { 1 }, sizeof(int));
        *(struct sockaddr_in *) &ss =
                (struct sockaddr_in) { .sin_family = AF_INET,
                                       .sin_port = htons(port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        len = sizeof(struct sockaddr_in);
        EXPECT_INT(bind(fd, (struct sockaddr *) &ss, len), 0);
        EXPECT_INT(listen(fd, 0), 0);
        for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
                fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                (void) connect(fill[i], (struct sockaddr *) &ss, len);
        }
        (void) dial_tcp(l, "127.0.0.1", port, 20, on_dialled, &c);
        EXPECT(loop_run_until(l, &c.done, PATIENCE_MS));
        EXPECT_INT(c.fd, -1);
        EXPECT_INT(c.why.kind, ERR_TIMEOUT);
        for (size_t i = 0; i < ARRAY_LEN(fill); i++)
                (void) close(fill[i]);
        (void) close(fd);
        loop_free(l);
}

TEST(dial_cancelled_at_every_stage_never_calls)
{
        struct loop *l = loop_new();
        struct caller c = { .fd = -1 };

        dial_cancel(dial_tcp(l, "127.0.0.1", 1, PATIENCE_MS, on_dialled, &c));
        dial_cancel(dial_unix(l, "/nowhere", PATIENCE_MS, on_dialled, &c));
        dial_cancel(dial_tcp(l, "localhost", 1, PATIENCE_MS, on_dialled, &c)); /* looks up */
        turn(l);
        dial_cancel(dial_tcp(l, "localhost", 1, PATIENCE_MS, on_dialled, &c));
        loop_free(l); /* waits for the look-up */
        EXPECT_INT(c.calls, 0);
}

TEST(dial_times_out_while_a_look_up_runs_and_calls_once)
{
        struct loop *l = loop_new();
        struct caller c = { .fd = -1 };

        (void) dial_tcp(l, "localhost", 1, 0, on_dialled, &c);
        EXPECT(loop_run_until(l, &c.done, PATIENCE_MS));
        loop_free(l);
        EXPECT_INT(c.calls, 1);
        EXPECT_INT(c.fd, -1);
}

TEST(unix_socket_is_private_answers_and_goes_with_its_listener)
{
        struct loop *l = loop_new();
        char *path = temp_path("s");
        struct error err = { 0 };
        struct caller c = { .fd = -1 };
        struct door d;
        struct stat st;

        EXPECT_OK(open_unix(&d, l, path, &err), err);
        EXPECT_INT(stat(path, &st), 0);
        EXPECT_INT(st.st_mode & 0777, 0600);
        EXPECT_INT(listener_port(d.listener), 0);
        (void) dial_unix(l, path, PATIENCE_MS, on_dialled, &c);
        EXPECT(loop_run_until(l, &d.done, PATIENCE_MS));
        EXPECT(c.fd >= 0);
        EXPECT(socket_fd_is_local(d.accepted));
        (void) close(c.fd);
        door_close(&d);
        EXPECT_INT(stat(path, &st), -1);
        temp_done(path);
        loop_free(l);
}

TEST(stale_unix_socket_is_replaced_a_live_one_is_not)
{
        struct loop *l = loop_new();
        char *path = temp_path("s");
        struct error err = { 0 };
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        struct door first, second;
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void) snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
        EXPECT_INT(bind(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
        (void) close(fd); /* as after kill -9 */
        EXPECT_OK(open_unix(&first, l, path, &err), err);
        EXPECT_ERR(open_unix(&second, l, path, &err), ERR_CONFLICT, err);
        door_close(&first);
        temp_done(path);
        loop_free(l);
}

TEST(listening_on_a_plain_file_fails_and_leaves_it_alone)
{
        struct loop *l = loop_new();
        char *path = temp_path("precious");
        struct error err = { 0 };
        struct door d;
        struct stat st;

        (void) close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        EXPECT_ERR(open_unix(&d, l, path, &err), ERR_CONFLICT, err);
        EXPECT_INT(stat(path, &st), 0);
        EXPECT(S_ISREG(st.st_mode));
        temp_done(path);
        loop_free(l);
}

TEST(unix_paths_are_checked_at_their_limit)
{
        struct loop *l = loop_new();
        char *dir = temp_path(""), path[200];
        struct sockaddr_un sa;
        struct error err = { 0 };
        struct caller c = { .fd = -1 };
        struct door d;
        size_t max = sizeof(sa.sun_path) - 1;

        memset(path, 'x', sizeof(path));
        memcpy(path, dir, strlen(dir));
        path[max] = '\0';
        EXPECT_OK(open_unix(&d, l, path, &err), err);
        door_close(&d);
        path[max] = 'x';
        path[max + 1] = '\0';
        EXPECT_ERR(open_unix(&d, l, path, &err), ERR_INVALID, err);
        (void) dial_unix(l, path, PATIENCE_MS, on_dialled, &c);
        EXPECT(loop_run_until(l, &c.done, PATIENCE_MS));
        EXPECT_INT(c.why.kind, ERR_INVALID);
        temp_done(dir);
        loop_free(l);
}

TEST(port_in_use_is_a_conflict)
{
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct door a, b;

        EXPECT_OK(open_tcp(&a, l, "127.0.0.1", 0, &err), err);
        EXPECT_ERR(open_tcp(&b, l, "127.0.0.1", listener_port(a.listener), &err), ERR_CONFLICT,
                   err);
        EXPECT_ERR(open_tcp(&b, l, "256.0.0.1", 0, &err), ERR_INVALID, err);
        door_close(&a);
        loop_free(l);
}

TEST(listener_freed_by_its_own_callback_accepts_no_more)
{
        struct loop *l = loop_new();
        struct error err = { 0 };
        struct caller c[2] = { { .fd = -1 }, { .fd = -1 } };
        struct door d;

        EXPECT_OK(open_tcp(&d, l, "127.0.0.1", 0, &err), err);
        d.frees = true;
        for (int i = 0; i < 2; i++)
                (void) dial_tcp(l, "127.0.0.1", listener_port(d.listener), PATIENCE_MS, on_dialled,
                                &c[i]);
        EXPECT(loop_run_until(l, &c[1].done, PATIENCE_MS));
        EXPECT(loop_run_until(l, &d.done, PATIENCE_MS));
        EXPECT_INT(d.n, 1);
        for (int i = 0; i < 2; i++)
                if (c[i].fd >= 0)
                        (void) close(c[i].fd);
        door_close(&d);
        loop_free(l);
}

TEST(socket_activation_is_only_for_the_process_it_names)
{
        char self[24];
        int first;

        (void) snprintf(self, sizeof(self), "%d", (int) getpid());
        (void) setenv("LISTEN_PID", self, 1);
        (void) setenv("LISTEN_FDS", "2", 1);
        (void) setenv("LISTEN_FDNAMES", "a:b", 1);
        EXPECT_INT(socket_activation(&first), 2);
        EXPECT_INT(first, 3);
        EXPECT(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
        EXPECT_INT(socket_activation(&first), 0); /* children inherit nothing */

        (void) setenv("LISTEN_PID", "1", 1);
        (void) setenv("LISTEN_FDS", "2", 1);
        EXPECT_INT(socket_activation(&first), 0);
        EXPECT(!getenv("LISTEN_FDS"));
        (void) setenv("LISTEN_PID", self, 1);
        (void) setenv("LISTEN_FDS", "two", 1);
        EXPECT_INT(socket_activation(&first), 0);
}

TEST(loopback_is_told_by_address_not_by_hope)
{
        static const char *const ours[] = { "127.0.0.1", "127.9.9.9", "::1", "localhost",
                                            "LOCALHOST" };
        static const char *const others[] = { "0.0.0.0",   "::",         "10.0.0.1",
                                              "128.0.0.1", "localhost.", "127.0.0.1.example.org",
                                              "",          "127" };

        for (size_t i = 0; i < ARRAY_LEN(ours); i++)
                EXPECT(socket_host_is_loopback(ours[i]));
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                EXPECT(!socket_host_is_loopback(others[i]));
}
