/* The bench's stopwatch: what a script language would measure of itself instead of the server.
 *
 *   probe start PORT TOKEN PROGRAM ARG…   microseconds from exec to the first complete 200
 *   probe idle PORT TOKEN N               opens N connections, one request on each; says "ready N",
 *                                         waits for the end of its input, says "alive N"
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_LIMIT_US = 20 * 1000 * 1000, RETRY_US = 50, ANSWER_MAX = 4096, CONNS_MAX = 60000 };

static int64_t now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int dial(int port)
{
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd >= 0 && connect(fd, (struct sockaddr *) &to, sizeof(to)) < 0) {
                close(fd);
                return -1;
        }
        return fd;
}

/* One request and its whole answer; 0 when it was a 200 with the health body. */
static int ask(int fd, const char *token)
{
        char text[ANSWER_MAX + 1];
        size_t have = 0;
        int n = snprintf(
                text, sizeof(text),
                "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
                token);

        if (write(fd, text, (size_t) n) != n)
                return -1;
        while (have < ANSWER_MAX) {
                ssize_t got = read(fd, text + have, ANSWER_MAX - have);

                if (got <= 0)
                        return -1;
                have += (size_t) got;
                text[have] = '\0';
                if (strstr(text, "\r\n\r\n{\"status\":\"ok\"}"))
                        return strncmp(text, "HTTP/1.1 200", 12) == 0 ? 0 : -1;
        }
        return -1;
}

static int probe_start(int port, const char *token, char **argv)
{
        int64_t from = now_us(), took = -1;
        pid_t pid = fork();

        if (pid == 0) {
                (void) freopen("/dev/null", "w", stdout);
                execv(argv[0], argv);
                _exit(127);
        }
        while (now_us() - from < START_LIMIT_US && took < 0) {
                int fd = dial(port);

                if (fd < 0) {
                        usleep(RETRY_US);
                        continue;
                }
                if (ask(fd, token) == 0)
                        took = now_us() - from;
                close(fd);
        }
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
        if (took < 0)
                return 1;
        printf("%lld\n", (long long) took);
        return 0;
}

static int alive(struct pollfd *all, int n)
{
        int live = n;

        poll(all, (nfds_t) n, 0);
        for (int i = 0; i < n; i++)
                if (all[i].revents)
                        live--;
        return live;
}

static int probe_idle(int port, const char *token, int n)
{
        struct rlimit files;
        static struct pollfd all[CONNS_MAX];
        char c;

        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        for (int i = 0; i < n && n <= CONNS_MAX; i++) {
                int fd = dial(port);

                if (fd < 0 || ask(fd, token) < 0) {
                        fprintf(stderr, "connection %d of %d: %s\n", i + 1, n, strerror(errno));
                        return 1;
                }
                all[i] = (struct pollfd) { .fd = fd, .events = POLLIN | POLLRDHUP };
        }
        printf("ready %d\n", n);
        fflush(stdout);
        while (read(STDIN_FILENO, &c, 1) > 0)
                ;
        printf("alive %d\n", alive(all, n));
        return 0;
}

int main(int argc, char **argv)
{
        signal(SIGPIPE, SIG_IGN);
        if (argc >= 5 && strcmp(argv[1], "start") == 0)
                return probe_start(atoi(argv[2]), argv[3], argv + 4);
        if (argc == 5 && strcmp(argv[1], "idle") == 0)
                return probe_idle(atoi(argv[2]), argv[3], atoi(argv[4]));
        fprintf(stderr, "usage: probe start PORT TOKEN PROGRAM ARG… | probe idle PORT TOKEN N\n");
        return 2;
}
