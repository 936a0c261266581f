#include "cli/tty.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/macro.h"

static struct termios saved;
static volatile sig_atomic_t raw_fd = -1;

bool tty_size(int fd, uint16_t *ret_cols, uint16_t *ret_rows)
{
        struct winsize size;

        if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
                return false;
        *ret_cols = size.ws_col;
        *ret_rows = size.ws_row;
        return true;
}

void tty_restore(void)
{
        int fd = raw_fd, was = errno;

        raw_fd = -1;
        if (fd >= 0)
                (void) tcsetattr(fd, TCSADRAIN, &saved);
        errno = was;
}

/* The default action follows: SA_RESETHAND. */
static void on_crash(int signum)
{
        tty_restore();
        (void) raise(signum);
}

static void restore_always(void)
{
        static const int crashes[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
        const struct sigaction act = { .sa_handler = on_crash,
                                       .sa_flags = SA_RESETHAND | SA_NODEFER };
        static bool is_done;

        if (is_done)
                return;
        is_done = true;
        (void) atexit(tty_restore);
        for (size_t i = 0; i < ARRAY_LEN(crashes); i++)
                (void) sigaction(crashes[i], &act, NULL);
}

int tty_make_raw(int fd, struct error *err)
{
        struct termios raw;

        if (raw_fd < 0 && tcgetattr(fd, &saved) < 0)
                return error_set(err, ERR_SYSTEM, errno, "read the modes of the terminal");
        restore_always();
        raw = saved;
        cfmakeraw(&raw);
        raw_fd = fd;
        if (tcsetattr(fd, TCSADRAIN, &raw) < 0) {
                raw_fd = -1;
                return error_set(err, ERR_SYSTEM, errno, "set the modes of the terminal");
        }
        return 0;
}
