/* Terminals: the time of one key from the client to the program and back, and the least it can be.
 */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum { KEYS_MAX = 100 * 1000, ANSWER_MS = 5000, FRAME_MAX = 65536 };
enum { OP_TEXT = 1, OP_BINARY = 2, IS_FINAL = 0x80, IS_MASKED = 0x80 };

static char key_of(int i)
{
        return (char) ('a' + i % 26);
}

int probe_rawcat(int argc, char **argv)
{
        struct termios mode;
        char buf[4096];
        ssize_t n;

        if (tcgetattr(STDIN_FILENO, &mode) < 0)
                fail("rawcat needs a terminal");
        cfmakeraw(&mode);
        tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        write_all(STDOUT_FILENO, "R", 1);
        while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
                write_all(STDOUT_FILENO, buf, (size_t) n);
        return 0;
}

static void wait_for(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        if (poll(&p, 1, ANSWER_MS) != 1)
                fail("no answer in time");
}

static double ping_pong(int fd, int n)
{
        static int64_t took[KEYS_MAX];

        for (int i = 0; i < n && n <= KEYS_MAX; i++) {
                char sent = key_of(i), got = 0;
                int64_t from = now_ns();

                write_all(fd, &sent, 1);
                if (read(fd, &got, 1) != 1 || got != sent)
                        fail("a byte came back wrong");
                took[i] = now_ns() - from;
        }
        return median_us(took, n);
}

static double floor_pty(int n)
{
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        char ready = 0;
        double p50;

        if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
                fail("open a pty");
        if (fork() == 0) {
                int slave;

                setsid();
                slave = open(ptsname(master), O_RDWR);
                ioctl(slave, TIOCSCTTY, 0);
                for (int fd = 0; fd < 3; fd++)
                        dup2(slave, fd);
                close(slave);
                close(master);
                _exit(probe_rawcat(0, NULL));
        }
        wait_for(master);
        if (read(master, &ready, 1) != 1 || ready != 'R')
                fail("the program behind the pty");
        p50 = ping_pong(master, n);
        close(master);
        return p50;
}

static void echo_server(int listener)
{
        int fd = accept(listener, NULL, NULL), on = 1;
        char buf[4096];
        ssize_t n;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        while ((n = read(fd, buf, sizeof(buf))) > 0)
                write_all(fd, buf, (size_t) n);
        _exit(0);
}

static double floor_tcp(int n)
{
        struct sockaddr_in at = { .sin_family = AF_INET };
        socklen_t len = sizeof(at);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
        double p50;

        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(listener, (struct sockaddr *) &at, len) < 0 || listen(listener, 1) < 0 ||
            getsockname(listener, (struct sockaddr *) &at, &len) < 0)
                fail("listen");
        if (fork() == 0)
                echo_server(listener);
        fd = dial(ntohs(at.sin_port));
        if (fd < 0)
                fail("connect");
        p50 = ping_pong(fd, n);
        close(fd);
        close(listener);
        return p50;
}

int probe_floor(int argc, char **argv)
{
        int n = atoi(argv[0]);
        double pty = floor_pty(n), tcp = floor_tcp(n);

        printf("%.2f %.2f\n", pty, tcp);
        return 0;
}

/* ---- the same through a server ---- */

/* The mask of all zeroes is as good as any other for a server that unmasks, and free for us. */
static void send_key(int fd, char key)
{
        char frame[64] = { (char) (IS_FINAL | OP_TEXT) };
        int n = snprintf(frame + 6, sizeof(frame) - 6, "{\"type\":\"input\",\"data\":\"%c\"}", key);

        frame[1] = (char) (IS_MASKED | n);
        write_all(fd, frame, 6 + (size_t) n);
}

static int next_frame(struct http *h, char *ret, size_t *ret_len)
{
        unsigned char head[2], more[2];
        size_t len;

        http_exactly(h, head, 2);
        len = head[1] & 127;
        if (len == 126) {
                http_exactly(h, more, 2);
                len = (size_t) more[0] << 8 | more[1];
        } else if (len == 127) {
                fail("a frame that is too long");
        }
        http_exactly(h, ret, len);
        *ret_len = len;
        return head[0] & 15;
}

static void await_key(struct http *h, char key)
{
        static char data[FRAME_MAX];
        size_t len;
        int op;

        while ((op = next_frame(h, data, &len)) == OP_TEXT)
                ; /* "ready" */
        if (op != OP_BINARY || len != 1 || data[0] != key)
                fail("a key came back wrong");
}

int probe_echo(int argc, char **argv)
{
        static int64_t took[KEYS_MAX];
        struct http h;
        char path[256];
        int n = atoi(argv[3]);

        snprintf(path, sizeof(path), "/v1/processes/%s/terminal/ws", argv[2]);
        http_open(&h, atoi(argv[0]), argv[1]);
        http_send_head(&h, "GET", path,
                       "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                       -1);
        http_read_head(&h);
        if (h.status != 101)
                fail("upgrade to a WebSocket");
        for (int i = 0; i < n && n <= KEYS_MAX; i++) {
                int64_t from = now_ns();

                send_key(h.fd, key_of(i));
                await_key(&h, key_of(i));
                took[i] = now_ns() - from;
        }
        printf("%.2f\n", median_us(took, n));
        http_close(&h);
        return 0;
}
