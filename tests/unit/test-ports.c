#include "core/ports.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/loop.h"
#include "test.h"

enum { PATIENCE_MS = 10000 };

#define HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
#define REST " 00000000:00000000 00:00000000 00000000  1000        0 "

static void parse(const char *text, bool is_v6, struct port_list *ret, uint64_t **inodes)
{
        *ret = (struct port_list) { 0 };
        *inodes = NULL;
        (void) ports_parse(text, strlen(text), is_v6, ret, inodes);
}

TEST(ports_parse_reads_listening_sockets_only)
{
        static const char text[] = HEAD
                "   0: 0100007F:1F90 00000000:0000 0A" REST "4711 1 0000000000000000 100 0 0 10 0\n"
                "   1: 00000000:0050 00000000:0000 0A" REST "12 1 0000000000000000 100 0 0 10 0\n"
                "   2: 0100007F:1F90 0100007F:A000 01" REST "13 1 0000000000000000 20 4 30 10 -1\n"
                "   3: 0201010A:FFFF 00000000:0000 0A" REST "18446744073709551615 1\n";
        struct port_list l;
        uint64_t *inodes;

        parse(text, false, &l, &inodes);
        EXPECT_INT(l.n, 3);
        EXPECT_INT(l.at[0].port, 8080);
        EXPECT_STR(l.at[0].address, "127.0.0.1");
        EXPECT(l.at[0].is_loopback);
        EXPECT_INT(inodes[0], 4711);
        EXPECT_INT(l.at[1].port, 80);
        EXPECT_STR(l.at[1].address, "0.0.0.0");
        EXPECT(!l.at[1].is_loopback);
        EXPECT_INT(l.at[2].port, 65535);
        EXPECT_STR(l.at[2].address, "10.1.1.2");
        EXPECT(inodes[2] == UINT64_MAX);
        port_list_done(&l);
        free(inodes);
}

TEST(ports_parse_reads_addresses_of_version_6)
{
        static const struct {
                const char *digits, *address;
                bool is_loopback;
        } rows[] = {
                { "00000000000000000000000000000000", "::", false },
                { "00000000000000000000000001000000", "::1", true },
                { "0000000000000000FFFF00000100007F", "::ffff:127.0.0.1", true },
                { "0000000000000000FFFF00000101010A", "::ffff:10.1.1.1", false },
                { "B80D0120000000000000000001000000", "2001:db8::1", false },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char text[256];
                struct port_list l;
                uint64_t *inodes;

                (void) snprintf(text, sizeof(text),
                                "   0: %s:0BB8 00000000000000000000000000000000:0000 0A" REST
                                "7 1\n",
                                rows[i].digits);
                parse(text, true, &l, &inodes);
                EXPECT_INT(l.n, 1);
                EXPECT_STR(l.at[0].address, rows[i].address);
                EXPECT_INT(l.at[0].is_loopback, rows[i].is_loopback);
                EXPECT_INT(l.at[0].port, 3000);
                port_list_done(&l);
                free(inodes);
        }
}

TEST(ports_parse_passes_over_nonsense)
{
        static const char *const bad[] = {
                "",
                "\n\n\n",
                HEAD,
                "0: 0100007F:1F90 00000000:0000 0A" REST "\n",     /* no inode */
                "0: 0100007F:1F90 00000000:0000 0A" REST "x 1\n",  /* not a number */
                "0: 0100007F:1F90 00000000:0000 0B" REST "7 1\n",  /* not listening */
                "0: 0100007F:1F90 00000000:0000 10A" REST "7 1\n", /* no state */
                "0: 0100007F:0000 00000000:0000 0A" REST "7 1\n",  /* no port */
                "0: 0100007F:11F90 00000000:0000 0A" REST "7 1\n", /* too many digits */
                "0: 0100007F 00000000:0000 0A" REST "7 1\n",       /* no port at all */
                "0: 0100007:1F90 00000000:0000 0A" REST "7 1\n",   /* too few digits */
                "0: 0100007G:1F90 00000000:0000 0A" REST "7 1\n",  /* not a digit */
                "0: 0000000000000000FFFF00000100007F:1F90 0:0 0A" REST "7 1\n", /* version 6 */
                "0: 0100007F:1F90 00000000:0000 0A" REST "99999999999999999999 1\n",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct port_list l;
                uint64_t *inodes;

                parse(bad[i], false, &l, &inodes);
                EXPECT_INT(l.n, 0);
                port_list_done(&l);
                free(inodes);
        }
}

static size_t parse_many(size_t n)
{
        struct port_list l = { 0 };
        uint64_t *inodes = NULL;
        struct buf b = { 0 };
        size_t seen;

        for (size_t i = 0; i < n; i++)
                buf_printf(&b, "%zu: 0100007F:1F90 00000000:0000 0A" REST "%zu 1\n", i, i + 1);
        EXPECT_INT(ports_parse(b.data, b.len, false, &l, &inodes), MIN(n, (size_t) PORTS_MAX));
        seen = l.n;
        EXPECT_INT(inodes[seen - 1], seen);
        port_list_done(&l);
        free(inodes);
        buf_done(&b);
        return seen;
}

TEST(ports_parse_stops_at_its_ceiling)
{
        EXPECT_INT(parse_many(PORTS_MAX - 1), PORTS_MAX - 1);
        EXPECT_INT(parse_many(PORTS_MAX), PORTS_MAX);
        EXPECT_INT(parse_many(PORTS_MAX + 1), PORTS_MAX);
}

/* ---- with real sockets ---- */

static int listen_on(const char *address, uint16_t *port)
{
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(*port) };
        socklen_t len = sizeof(sa);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

        EXPECT_INT(inet_pton(AF_INET, address, &sa.sin_addr), 1);
        EXPECT_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)), 0);
        EXPECT_INT(bind(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
        EXPECT_INT(listen(fd, 4), 0);
        EXPECT_INT(getsockname(fd, (struct sockaddr *) &sa, &len), 0);
        *port = ntohs(sa.sin_port);
        return fd;
}

static const struct port *find(const struct port_list *l, uint16_t port)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->at[i].port == port)
                        return &l->at[i];
        return NULL;
}

TEST(ports_scan_finds_a_socket_and_its_process)
{
        uint16_t port = 0;
        int fd = listen_on("127.0.0.1", &port), again = listen_on("127.0.0.1", &port);
        struct port_list l;
        struct error err = { 0 };
        const struct port *p;

        EXPECT_OK(ports_scan(NULL, 0, &l, &err), err);
        p = find(&l, port);
        EXPECT(p);
        EXPECT_INT(p->pid, getpid());
        EXPECT_STR(p->command, "unit");
        EXPECT(p->is_loopback);
        /* two sockets, one address, one row */
        EXPECT(p + 1 == l.at + l.n || p[1].port != port);
        for (size_t i = 1; i < l.n; i++)
                EXPECT(l.at[i - 1].port <= l.at[i].port);
        port_list_done(&l);
        EXPECT_OK(ports_scan(&port, 1, &l, &err), err);
        EXPECT(!find(&l, port));
        port_list_done(&l);
        (void) close(fd);
        (void) close(again);
}

struct ear {
        struct ports_listener li;
        uint16_t port;
        unsigned calls;
        bool is_there, is_called, leaves;
};

static void heard(struct ports_listener *li, const struct port_list *l, const struct error *why)
{
        struct ear *e = CONTAINER_OF(li, struct ear, li);

        EXPECT(!why);
        e->calls++;
        e->is_called = true;
        e->is_there = find(l, e->port) != NULL;
        if (e->leaves)
                ports_unlisten(li);
}

/* Turns the loop until the listener was told so. */
static bool wait_there(struct loop *l, struct ear *e, bool want)
{
        for (int i = 0; i < 20 && (!e->is_called || e->is_there != want); i++) {
                e->is_called = false;
                if (!loop_run_until(l, &e->is_called, PATIENCE_MS))
                        return false;
        }
        return e->is_there == want;
}

TEST(ports_listeners_hear_the_list_and_each_change)
{
        struct loop *l = loop_new();
        struct ports *p = ports_new(l, NULL, 0);
        struct ear stays = { .li.fn = heard }, once = { .li.fn = heard, .leaves = true };
        int fd = listen_on("127.0.0.1", &stays.port);

        once.port = stays.port;
        ports_listen(p, &stays.li);
        ports_listen(p, &once.li); /* while the first look is under way */
        EXPECT_INT(stays.calls, 0);
        EXPECT(wait_there(l, &once, true));
        EXPECT(wait_there(l, &stays, true));
        EXPECT_INT(once.calls, 1);
        (void) close(fd);
        EXPECT(wait_there(l, &stays, false));
        EXPECT_INT(once.calls, 1);
        ports_unlisten(&stays.li);
        ports_unlisten(&stays.li);
        ports_free(p);
        loop_free(l);
}

TEST(ports_listener_never_gets_an_old_list)
{
        struct loop *l = loop_new();
        struct ports *p = ports_new(l, NULL, 0);
        struct ear first = { .li.fn = heard }, late = { .li.fn = heard };
        int fd;

        ports_listen(p, &first.li); /* this look may or may not see what follows */
        fd = listen_on("127.0.0.1", &late.port);
        ports_listen(p, &late.li);
        EXPECT(loop_run_until(l, &late.is_called, PATIENCE_MS));
        EXPECT(late.is_there);
        (void) close(fd);
        ports_free(p);
        loop_free(l);
}

TEST(ports_may_go_in_the_middle_of_a_look)
{
        struct loop *l = loop_new();
        const uint16_t mine[] = { 1, 65535 };
        struct ports *p = ports_new(l, mine, 2);
        struct ear e = { .li.fn = heard };

        EXPECT(ports_is_mine(p, 1) && ports_is_mine(p, 65535) && !ports_is_mine(p, 2));
        ports_listen(p, &e.li);
        ports_free(p);
        ports_unlisten(&e.li);
        loop_free(l);
        EXPECT_INT(e.calls, 0);
}

/* Two who are told and at once bring somebody else: one look follows, not two at a time. */
struct guest {
        struct ear ear, friend;
        struct ports *ports;
};

static void heard_with_friend(struct ports_listener *li, const struct port_list *l,
                              const struct error *why)
{
        struct guest *g = CONTAINER_OF(li, struct guest, ear.li);

        heard(li, l, why);
        ports_listen(g->ports, &g->friend.li);
}

TEST(ports_listeners_may_bring_others_while_they_are_told)
{
        struct loop *l = loop_new();
        struct ports *p = ports_new(l, NULL, 0);
        struct guest g[3];

        for (int i = 0; i < 3; i++) {
                g[i] = (struct guest) {
                        .ear = { .li.fn = heard_with_friend, .leaves = true },
                        .friend = { .li.fn = heard },
                        .ports = p,
                };
                ports_listen(p, &g[i].ear.li);
        }
        for (int i = 0; i < 3; i++)
                EXPECT(loop_run_until(l, &g[i].friend.is_called, PATIENCE_MS));
        ports_free(p);
        loop_free(l);
}
