#include "core/ports.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "io/loop.h"
#include "io/timer.h"

enum {
        STATE_LISTEN = 0x0a,
        READ_BYTES = 64 * 1024,
        V4_DIGITS = 8,
        V6_DIGITS = 32,
        INODE_FIELD = 9, /* counted from the row's number */
};

void port_list_done(struct port_list *l)
{
        free(l->at);
        *l = (struct port_list) { 0 };
}

/* ---- one table as text ---- */

static bool hex_value(struct slice s, uint32_t *ret)
{
        uint32_t v = 0;

        for (size_t i = 0; i < s.len; i++) {
                char c = s.at[i], low = (char) (c | 0x20);

                if (c >= '0' && c <= '9')
                        v = v << 4 | (uint32_t) (c - '0');
                else if (low >= 'a' && low <= 'f')
                        v = v << 4 | (uint32_t) (low - 'a' + 10);
                else
                        return false;
        }
        *ret = v;
        return s.len && s.len <= 8;
}

/* Columns stand apart by any number of blanks. */
static bool next_field(struct slice *line, struct slice *ret)
{
        size_t n = 0;

        while (line->len && *line->at == ' ') {
                line->at++;
                line->len--;
        }
        while (n < line->len && line->at[n] != ' ')
                n++;
        *ret = (struct slice) { line->at, n };
        line->at += n;
        line->len -= n;
        return n;
}

static bool is_v6_loopback(const uint8_t b[static 16])
{
        static const uint8_t one[16] = { [15] = 1 };
        static const uint8_t mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

        return memcmp(b, one, sizeof(one)) == 0 || memcmp(b, mapped, sizeof(mapped)) == 0;
}

/* The kernel prints an address as 32-bit words in its own byte order. */
static bool parse_address(struct slice s, bool is_v6, struct port *ret)
{
        uint32_t words[4];
        size_t n = is_v6 ? V6_DIGITS : V4_DIGITS;

        if (s.len != n)
                return false;
        for (size_t i = 0; i < n / 8; i++)
                if (!hex_value((struct slice) { s.at + 8 * i, 8 }, &words[i]))
                        return false;
        ret->is_loopback =
                is_v6 ? is_v6_loopback((const uint8_t *) words) : *(const uint8_t *) words == 127;
        return inet_ntop(is_v6 ? AF_INET6 : AF_INET, words, ret->address, sizeof(ret->address));
}

/* "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 12345 1 …" */
static bool parse_line(struct slice line, bool is_v6, struct port *ret, uint64_t *ret_inode)
{
        struct slice field, address, local = { 0 }, state = { 0 };
        uint32_t n;

        for (int i = 0; i <= INODE_FIELD; i++) {
                if (!next_field(&line, &field))
                        return false;
                if (i == 1)
                        local = field;
                else if (i == 3)
                        state = field;
        }
        if (!hex_value(state, &n) || n != STATE_LISTEN)
                return false;
        (void) slice_cut(&local, ':', &address);
        if (!local.at || local.len > 4 || !hex_value(local, &n) || !n ||
            !parse_address(address, is_v6, ret) || !str_to_u64(field.at, field.len, ret_inode))
                return false;
        ret->port = (uint16_t) n;
        return true;
}

int ports_parse(const char *text, size_t len, bool is_v6, struct port_list *ret, uint64_t **inodes)
{
        struct slice rest = { text, len }, line;
        size_t before = ret->n;

        while (ret->n < PORTS_MAX && slice_cut(&rest, '\n', &line)) {
                struct port port = { 0 };
                uint64_t inode;

                if (!parse_line(line, is_v6, &port, &inode))
                        continue;
                if (!ret->n || (ret->n & (ret->n - 1)) == 0) { /* room doubles at powers of two */
                        size_t cap = ret->n ? ret->n * 2 : 1;

                        ret->at = xrealloc(ret->at, cap * sizeof(*ret->at));
                        *inodes = xrealloc(*inodes, cap * sizeof(**inodes));
                }
                ret->at[ret->n] = port;
                (*inodes)[ret->n++] = inode;
        }
        return (int) (ret->n - before);
}

/* ---- owners ---- */

/* Who has a socket. Finding out means to look at every descriptor of every process, so the answer
 * is kept as long as it holds: the same descriptor of the same process is still that socket. */
struct owner {
        uint64_t inode;
        pid_t pid; /* 0 = not found */
        int fd, tries;
        char command[sizeof(((struct port *) 0)->command)];
};

/* The owners of the last look, sorted by inode. */
struct owners {
        struct owner *at;
        size_t n;
};

static int by_inode(const void *a, const void *b)
{
        const struct owner *x = a, *y = b;

        return (x->inode > y->inode) - (x->inode < y->inode);
}

static struct owner *owner_find(const struct owners *o, uint64_t inode)
{
        const struct owner key = { .inode = inode };

        return o->n ? bsearch(&key, o->at, o->n, sizeof(key), by_inode) : NULL;
}

/* "socket:[123]" → 123, 0 for anything else */
static uint64_t socket_inode(int dir, const char *name)
{
        char text[64];
        ssize_t n = readlinkat(dir, name, text, sizeof(text));
        uint64_t inode;

        if (n < 10 || memcmp(text, "socket:[", 8) != 0 || text[n - 1] != ']' ||
            !str_to_u64(text + 8, (size_t) n - 9, &inode))
                return 0;
        return inode;
}

static bool still_holds(const struct owner *o)
{
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) o->pid, o->fd);
        return socket_inode(AT_FDCWD, path) == o->inode;
}

static size_t read_small(const char *path, char *ret, size_t size)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

        n = MAX(n, 0);
        ret[n] = '\0';
        return (size_t) n;
}

/* The name somebody would call it by: "/usr/bin/node" → "node", "nginx: master process …" →
 * "nginx". Threads may rename themselves, so that the kernel's own name comes second. */
static void read_command(pid_t pid, char *ret, size_t size)
{
        char path[64], text[512];
        struct slice name;
        const char *slash;

        (void) snprintf(path, sizeof(path), "/proc/%d/cmdline", (int) pid);
        (void) read_small(path, text, sizeof(text));
        name = (struct slice) { text, strcspn(text, " :\n") };
        slash = memrchr(name.at, '/', name.len);
        if (slash)
                name = (struct slice) { slash + 1, name.len - (size_t) (slash + 1 - name.at) };
        if (!name.len) {
                (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
                (void) read_small(path, text, sizeof(text));
                name = (struct slice) { text, strcspn(text, "\n") };
        }
        name.len = MIN(name.len, size - 1);
        memcpy(ret, name.at, name.len);
        ret[name.len] = '\0';
}

/* One search through the processes for the sockets whose owner is not known. */
struct search {
        struct owners *owners;
        size_t n_wanted;
        int links_left;
};

static bool is_wanted(const struct owner *o)
{
        return !o->pid && o->tries < PORTS_OWNER_TRIES;
}

static bool is_number(const char *name, int *ret)
{
        uint64_t n;

        if (!str_to_u64(name, strlen(name), &n) || n > INT32_MAX)
                return false;
        *ret = (int) n;
        return true;
}

static void search_process(struct search *s, pid_t pid)
{
        char path[64];
        struct dirent *e;
        DIR *dir;

        (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        dir = opendir(path);
        if (!dir)
                return; /* gone, or another user's */
        while (s->n_wanted && s->links_left && (e = readdir(dir))) {
                struct owner *o;
                uint64_t inode;
                int fd;

                if (!is_number(e->d_name, &fd))
                        continue;
                s->links_left--;
                inode = socket_inode(dirfd(dir), e->d_name);
                o = inode ? owner_find(s->owners, inode) : NULL;
                if (!o || !is_wanted(o))
                        continue;
                o->pid = pid;
                o->fd = fd;
                read_command(pid, o->command, sizeof(o->command));
                s->n_wanted--;
        }
        (void) closedir(dir);
}

static void search_all(struct owners *owners)
{
        struct search s = { .owners = owners, .links_left = PORTS_OWNER_LINKS_MAX };
        struct dirent *e;
        DIR *dir;
        int pid;

        for (size_t i = 0; i < owners->n; i++)
                s.n_wanted += is_wanted(&owners->at[i]);
        dir = s.n_wanted ? opendir("/proc") : NULL;
        if (!dir)
                return;
        while (s.n_wanted && s.links_left && (e = readdir(dir)))
                if (is_number(e->d_name, &pid))
                        search_process(&s, pid);
        (void) closedir(dir);
        for (size_t i = 0; i < owners->n; i++)
                owners->at[i].tries += !owners->at[i].pid;
}

/* The owners of these sockets; those of the last look are asked whether they still are. */
static void find_owners(struct owners *known, const uint64_t *inodes, size_t n)
{
        struct owners now = { .at = n ? xcalloc(n, sizeof(*now.at)) : NULL, .n = n };

        for (size_t i = 0; i < n; i++) {
                const struct owner *o = owner_find(known, inodes[i]);

                now.at[i].inode = inodes[i];
                if (o && (!o->pid || still_holds(o)))
                        now.at[i] = *o;
        }
        if (n)
                qsort(now.at, n, sizeof(*now.at), by_inode);
        search_all(&now);
        free(known->at);
        *known = now;
}

/* ---- a look ---- */

/* Block by block: a machine with many connections has tables of many megabytes. */
static int read_table(const char *path, bool is_v6, struct port_list *ret, uint64_t **inodes,
                      struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *block = xmalloc(READ_BYTES);
        size_t held = 0;
        ssize_t n = 0;

        if (fd < 0)
                return error_set(err, ERR_SYSTEM, errno, "read '%s'", path);
        while ((n = read(fd, block + held, READ_BYTES - held)) > 0) {
                const char *end = memrchr(block, '\n', held + (size_t) n);
                size_t whole = end ? (size_t) (end + 1 - block) : 0;

                held += (size_t) n;
                (void) ports_parse(block, whole, is_v6, ret, inodes);
                held -= whole;
                memmove(block, block + whole, held);
                if (held == READ_BYTES)
                        held = 0; /* no table of ports has such lines */
        }
        if (n < 0)
                return error_set(err, ERR_SYSTEM, errno, "read '%s'", path);
        return 0;
}

static bool is_one_of(const uint16_t *ports, size_t n, uint16_t port)
{
        for (size_t i = 0; i < n; i++)
                if (ports[i] == port)
                        return true;
        return false;
}

static int by_port(const void *a, const void *b)
{
        const struct port *x = a, *y = b;

        if (x->port != y->port)
                return x->port < y->port ? -1 : 1;
        return strcmp(x->address, y->address) ?: (x->pid < y->pid) - (x->pid > y->pid);
}

/* Sorted; of several sockets with one address (they share the load) the first known owner. */
static void tidy(struct port_list *l, const uint16_t *mine, size_t n_mine)
{
        size_t n = 0;

        if (l->n)
                qsort(l->at, l->n, sizeof(*l->at), by_port);
        for (size_t i = 0; i < l->n; i++) {
                const struct port *p = &l->at[i], *last = n ? &l->at[n - 1] : NULL;

                if (is_one_of(mine, n_mine, p->port) ||
                    (last && last->port == p->port && strcmp(last->address, p->address) == 0))
                        continue;
                l->at[n++] = *p;
        }
        l->n = n;
}

static int look(const uint16_t *mine, size_t n_mine, struct owners *owners, struct port_list *ret,
                struct error *err)
{
        _cleanup_free_ uint64_t *inodes = NULL;
        struct port_list list = { 0 };

        if (read_table("/proc/net/tcp", false, &list, &inodes, err) < 0) {
                port_list_done(&list);
                return error_wrap(err, "list the listening ports");
        }
        (void) read_table("/proc/net/tcp6", true, &list, &inodes, NULL); /* no IPv6, no file */
        find_owners(owners, inodes, list.n);
        for (size_t i = 0; i < list.n; i++) {
                const struct owner *o = owner_find(owners, inodes[i]);

                list.at[i].pid = o->pid;
                memcpy(list.at[i].command, o->command, sizeof(o->command));
        }
        tidy(&list, mine, n_mine);
        *ret = list;
        return 0;
}

int ports_scan(const uint16_t *mine, size_t n_mine, struct port_list *ret, struct error *err)
{
        struct owners owners = { 0 };
        int n = look(mine, n_mine, &owners, ret, err);

        free(owners.at);
        return n;
}

/* ---- again and again ---- */

/* What the pool thread works on. It outlives its owner when that goes in the middle of a look. */
struct scan {
        struct ports *owner;
        uint16_t *mine;
        size_t n_mine;
        struct owners owners;
        struct port_list list;
        struct error why;
        bool has_failed;
};

struct ports {
        struct loop *loop;
        struct scan *scan;
        struct port_list last;
        struct list listeners;
        struct timer poll;
        uint64_t n_looks; /* begun */
        bool is_looking, wants_look;
};

static void scan_free(struct scan *s)
{
        port_list_done(&s->list);
        free(s->owners.at);
        free(s->mine);
        free(s);
}

static void run_scan(void *arg)
{
        struct scan *s = arg;

        s->has_failed = look(s->mine, s->n_mine, &s->owners, &s->list, &s->why) < 0;
}

static bool is_same(const struct port_list *a, const struct port_list *b)
{
        if (a->n != b->n)
                return false;
        for (size_t i = 0; i < a->n; i++) {
                const struct port *x = &a->at[i], *y = &b->at[i];

                if (x->port != y->port || x->pid != y->pid || strcmp(x->address, y->address) != 0 ||
                    strcmp(x->command, y->command) != 0)
                        return false;
        }
        return true;
}

/* A listener may leave, and take others with it, while it is told. */
static void tell(struct ports *p, bool is_news, const struct error *why)
{
        struct list todo;

        list_init(&todo);
        list_splice(&todo, &p->listeners);
        while (!list_empty(&todo)) {
                struct ports_listener *li = LIST_ENTRY(todo.next, struct ports_listener, node);
                bool is_early = li->since > p->n_looks, is_first = li->since && !is_early;

                list_remove(&li->node);
                list_push(&p->listeners, &li->node);
                if (is_early || !(is_news || is_first))
                        continue;
                if (!why)
                        li->since = 0;
                li->fn(li, why ? NULL : &p->last, why);
        }
}

static void start_look(struct ports *p);

static void scanned(void *arg)
{
        struct scan *s = arg;
        struct ports *p = s->owner;
        bool is_news;

        if (!p) {
                scan_free(s);
                return;
        }
        p->is_looking = false;
        is_news = s->has_failed || !is_same(&p->last, &s->list);
        if (!s->has_failed) {
                port_list_done(&p->last);
                p->last = s->list;
                s->list = (struct port_list) { 0 };
        }
        tell(p, is_news, s->has_failed ? &s->why : NULL);
        if (p->is_looking || list_empty(&p->listeners))
                return; /* who was told may have asked for the next look already */
        if (p->wants_look)
                start_look(p);
        else
                timer_set(&p->poll, PORTS_POLL_MS);
}

static void start_look(struct ports *p)
{
        p->is_looking = true;
        p->wants_look = false;
        p->n_looks++;
        timer_stop(&p->poll);
        loop_work(p->loop, run_scan, scanned, p->scan);
}

static void on_poll(struct timer *t)
{
        struct ports *p = CONTAINER_OF(t, struct ports, poll);

        if (!p->is_looking && !list_empty(&p->listeners))
                start_look(p);
}

struct ports *ports_new(struct loop *l, const uint16_t *mine, size_t n_mine)
{
        struct ports *p = NEW(struct ports);

        p->loop = l;
        p->scan = NEW(struct scan);
        p->scan->owner = p;
        p->scan->mine = xcalloc(n_mine + 1, sizeof(*mine));
        p->scan->n_mine = n_mine;
        if (n_mine)
                memcpy(p->scan->mine, mine, n_mine * sizeof(*mine));
        list_init(&p->listeners);
        timer_init(&p->poll, l, on_poll);
        return p;
}

bool ports_is_mine(const struct ports *p, uint16_t port)
{
        return is_one_of(p->scan->mine, p->scan->n_mine, port);
}

void ports_listen(struct ports *p, struct ports_listener *li)
{
        list_push(&p->listeners, &li->node);
        /* A look that has begun may miss what the caller knows to be there: the next one counts. */
        li->since = p->n_looks + 1;
        if (p->is_looking)
                p->wants_look = true;
        else
                start_look(p);
}

void ports_unlisten(struct ports_listener *li)
{
        list_remove(&li->node);
}

struct ports *ports_free(struct ports *p)
{
        if (!p)
                return NULL;
        while (!list_empty(&p->listeners))
                list_remove(p->listeners.next);
        timer_stop(&p->poll);
        port_list_done(&p->last);
        if (p->is_looking)
                p->scan->owner = NULL;
        else
                scan_free(p->scan);
        free(p);
        return NULL;
}
