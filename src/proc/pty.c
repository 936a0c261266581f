#include "proc/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* By number where the kernel can (4.13), because the path may not be there in a container. */
static int open_slave(int master)
{
        int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        char path[64];

        if (fd >= 0 || ptsname_r(master, path, sizeof(path)) != 0)
                return fd;
        return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int pty_resize(int master, uint16_t cols, uint16_t rows, struct error *err)
{
        struct winsize ws = { .ws_col = cols ?: PTY_COLS, .ws_row = rows ?: PTY_ROWS };

        if (ioctl(master, TIOCSWINSZ, &ws) < 0)
                return error_set(err, ERR_SYSTEM, errno, "resize the terminal");
        return 0;
}

int pty_open(uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave, struct error *err)
{
        _cleanup_close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        _cleanup_close_ int slave = -1;

        if (master < 0)
                return error_set(err, ERR_BUSY, errno, "open a terminal");
        if (grantpt(master) < 0 || unlockpt(master) < 0 || (slave = open_slave(master)) < 0)
                return error_set(err, ERR_SYSTEM, errno, "open a terminal's far side");
        if (pty_resize(master, cols, rows, err) < 0)
                return -1;
        *ret_master = TAKE_FD(master);
        *ret_slave = TAKE_FD(slave);
        return 0;
}
