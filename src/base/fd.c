#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { READ_BYTES = 64 * 1024 };

int fd_write_all(int fd, const void *data, size_t len, struct error *err)
{
        const char *at = data;

        while (len) {
                ssize_t n = write(fd, at, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_set(err, ERR_SYSTEM, errno, "write");
                at += n;
                len -= (size_t) n;
        }
        return 0;
}

int fd_read_all(int fd, struct buf *ret, struct error *err)
{
        for (;;) {
                ssize_t n = read(fd, buf_room(ret, READ_BYTES), READ_BYTES);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_set(err, ERR_SYSTEM, errno, "read");
                if (n == 0)
                        return 0;
                if (ret->max_bytes && ret->len + (size_t) n > ret->max_bytes)
                        return error_set(err, ERR_TOO_BIG, 0, "more than %zu bytes",
                                         ret->max_bytes);
                buf_grew(ret, (size_t) n);
        }
}

int file_read(const char *path, struct buf *ret, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno,
                                 "open '%s'", path);
        if (fd_read_all(fd, ret, err) < 0)
                return error_wrap(err, "read '%s'", path);
        return 0;
}

int file_write(const char *path, const void *data, size_t len, unsigned mode, struct error *err)
{
        _cleanup_free_ char *tmp = xasprintf("%s.%d.tmp", path, (int) getpid());
        _cleanup_close_ int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

        if (fd < 0)
                return error_set(err, ERR_SYSTEM, errno, "create '%s'", tmp);
        if (fd_write_all(fd, data, len, err) < 0) {
                (void) unlink(tmp);
                return error_wrap(err, "write '%s'", path);
        }
        (void) fchmod(fd, mode); /* the umask may have taken bits away; fewer are no danger */
        if (rename(tmp, path) < 0) {
                int why = errno;

                (void) unlink(tmp);
                return error_set(err, ERR_SYSTEM, why, "rename to '%s'", path);
        }
        return 0;
}

int dir_make(const char *path, unsigned mode, struct error *err)
{
        _cleanup_free_ char *p = xstrdup(path);

        if (!*p)
                return error_set(err, ERR_INVALID, 0, "create directory '': the path is empty");
        for (char *at = p + 1;; at++) {
                char c = *at;

                if (c != '/' && c != '\0')
                        continue;
                *at = '\0';
                if (mkdir(p, mode) < 0 && errno != EEXIST)
                        return error_set(err, ERR_SYSTEM, errno, "create directory '%s'", p);
                *at = c;
                if (!c)
                        break;
        }
        return 0;
}

int fd_set_nonblock(int fd, bool on)
{
        int flags = fcntl(fd, F_GETFL);

        return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}
