#include "proc/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proc/pty.h"

void stdio_done(struct stdio *io)
{
        for (int i = 0; i < 3; i++) {
                if (!io->is_borrowed && (i == 0 || io->theirs[i] != io->theirs[i - 1]))
                        closep(&io->theirs[i]);
                closep(&io->ours[i]);
        }
}

static int set_all(struct stdio *io, int fd)
{
        io->theirs[0] = io->theirs[1] = io->theirs[2] = fd;
        return 0;
}

static int open_null(struct error *err)
{
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);

        return fd >= 0 ? fd : error_set(err, ERR_SYSTEM, errno, "open '/dev/null'");
}

static int stdio_null(const struct child_spec *spec, struct stdio *io, struct error *err)
{
        int fd = open_null(err);

        return fd < 0 ? -1 : set_all(io, fd);
}

static int stdio_pipes(const struct child_spec *spec, struct stdio *io, struct error *err)
{
        if (spec->no_stdin && (io->theirs[0] = open_null(err)) < 0)
                return -1;
        for (int i = spec->no_stdin; i < 3; i++) {
                int ends[2]; /* read, write */

                if (pipe2(ends, O_CLOEXEC) < 0)
                        return error_set(err, ERR_BUSY, errno, "make a pipe");
                io->theirs[i] = ends[i != 0];
                io->ours[i] = ends[i == 0];
        }
        return 0;
}

static int stdio_tty(const struct child_spec *spec, struct stdio *io, struct error *err)
{
        int slave;

        if (pty_open(spec->cols, spec->rows, &io->ours[0], &slave, err) < 0)
                return -1;
        return set_all(io, slave);
}

static int stdio_inherit(const struct child_spec *spec, struct stdio *io, struct error *err)
{
        for (int i = 0; i < 3; i++)
                io->theirs[i] = i;
        io->is_borrowed = true;
        return 0;
}

static const struct stdio_kind {
        int (*prepare)(const struct child_spec *, struct stdio *, struct error *);
        enum tap_kind taps[3];
} stdio_kinds[] = {
        [STDIO_NULL] = { stdio_null },
        [STDIO_PIPE] = { stdio_pipes, { TAP_IN, TAP_OUT, TAP_OUT } },
        [STDIO_PTY] = { stdio_tty, { TAP_TTY } },
        [STDIO_INHERIT] = { stdio_inherit },
};

int stdio_init(struct stdio *io, const struct child_spec *spec, struct error *err)
{
        const struct stdio_kind *kind = &stdio_kinds[spec->stdio];

        *io = (struct stdio) { { -1, -1, -1 }, { -1, -1, -1 } };
        memcpy(io->kinds, kind->taps, sizeof(io->kinds));
        return kind->prepare(spec, io, err);
}
