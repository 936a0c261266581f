/* Tables of /proc/net: whatever comes, rows are whole, in step with their inodes and within the
 * ceiling; and a table gives the same rows in one piece or line by line. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/ports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
        if (!ok)
                abort();
}

static void check_row(const struct port *p, bool is_v6)
{
        uint8_t bytes[16];

        check(p->port > 0);
        check(memchr(p->address, '\0', sizeof(p->address)));
        check(inet_pton(is_v6 ? AF_INET6 : AF_INET, p->address, bytes) == 1);
        check(p->is_loopback || strcmp(p->address, is_v6 ? "::1" : "127.0.0.1") != 0);
        check(!p->pid && !p->command[0]);
}

static void parse_lines(const char *text, size_t len, bool is_v6, struct port_list *ret,
                        uint64_t **inodes)
{
        while (len) {
                const char *end = memchr(text, '\n', len);
                size_t n = end ? (size_t) (end + 1 - text) : len;

                (void) ports_parse(text, n, is_v6, ret, inodes);
                text += n;
                len -= n;
        }
}

static void try_table(const char *text, size_t len, bool is_v6)
{
        struct port_list whole = { 0 }, lines = { 0 };
        uint64_t *inodes = NULL, *more = NULL;

        check(ports_parse(text, len, is_v6, &whole, &inodes) == (int) whole.n);
        check(whole.n <= PORTS_MAX);
        parse_lines(text, len, is_v6, &lines, &more);
        check(lines.n == whole.n);
        for (size_t i = 0; i < whole.n; i++) {
                check_row(&whole.at[i], is_v6);
                check(memcmp(&whole.at[i], &lines.at[i], sizeof(struct port)) == 0);
                check(inodes[i] == more[i]);
        }
        port_list_done(&whole);
        port_list_done(&lines);
        free(inodes);
        free(more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        try_table((const char *) data, size, false);
        try_table((const char *) data, size, true);
        return 0;
}
