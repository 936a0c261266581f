/* The bench's stopwatch: what a script language would measure of itself instead of the server.
 * The commands and what they print are in the table at the end. */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_LIMIT_US = 20 * 1000 * 1000, RETRY_US = 50, ANSWER_MAX = 4096, CONNS_MAX = 60000 };

static int64_t now_us(void)
{
        return now_ns() / 1000;
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

static int probe_start(int argc, char **argv)
{
        int64_t from = now_us(), took = -1;
        int port = atoi(argv[0]);
        pid_t pid = fork();

        if (pid == 0) {
                (void) freopen("/dev/null", "w", stdout);
                execv(argv[2], argv + 2);
                _exit(127);
        }
        while (now_us() - from < START_LIMIT_US && took < 0) {
                int fd = dial(port);

                if (fd < 0) {
                        usleep(RETRY_US);
                        continue;
                }
                if (ask(fd, argv[1]) == 0)
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

static int probe_idle(int argc, char **argv)
{
        int port = atoi(argv[0]), n = atoi(argv[2]);
        struct rlimit files;
        static struct pollfd all[CONNS_MAX];
        char c;

        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        for (int i = 0; i < n && n <= CONNS_MAX; i++) {
                int fd = dial(port);

                if (fd < 0 || ask(fd, argv[1]) < 0) {
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

static const struct command {
        const char *name;
        int n_args;
        int (*fn)(int argc, char **argv);
        const char *args, *prints;
} commands[] = {
        { "start", 3, probe_start, "PORT TOKEN PROGRAM ARG…",
          "microseconds from exec to the first complete 200" },
        { "idle", 3, probe_idle, "PORT TOKEN N",
          "opens N connections, one request on each; \"ready N\"; at the end of its input \"alive "
          "N\"" },
        { "get", 4, probe_get, "PORT TOKEN PATH N", "p50 of N whole answers [us], bytes of one" },
        { "put", 4, probe_put, "PORT TOKEN PATH FILE", "microseconds of one upload" },
        { "run", 3, probe_run, "PORT TOKEN N", "p50 of N runs of /bin/true [us]" },
        { "spawn", 1, probe_spawn, "N", "the same without a server: posix_spawn and waitpid" },
        { "lines", 2, probe_lines, "N WIDTH", "numbered lines, once a byte has come in" },
        { "follow", 5, probe_follow, "PORT TOKEN ID N WIDTH",
          "reads those lines as a log; lines right and in order, gaps, seconds" },
        { "rawcat", 0, probe_rawcat, "", "'R', then what it reads, from a terminal in raw mode" },
        { "echo", 4, probe_echo, "PORT TOKEN ID N", "p50 of a key through a terminal's WebSocket" },
        { "floor", 1, probe_floor, "N",
          "p50 of a key through a bare pty, of a TCP ping-pong [us]" },
        {}
};

int main(int argc, char **argv)
{
        signal(SIGPIPE, SIG_IGN);
        for (const struct command *c = commands; c->name; c++)
                if (argc >= 2 + c->n_args && strcmp(argv[1], c->name) == 0)
                        return c->fn(argc - 2, argv + 2);
        for (const struct command *c = commands; c->name; c++)
                fprintf(stderr, "probe %s %s: %s\n", c->name, c->args, c->prints);
        return 2;
}
