#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum {
        FLUSH_BYTES = 32 * 1024,
        VALUE_MAX = 2048, /* a longer value is cut: a log line is for reading */
        KEEP_DAYS = 7,
        DAY_S = 86400,
};

static struct {
        enum log_level min;
        enum log_format format;
        int fd;
        bool owns_fd;
        char *dir;
        int64_t day; /* of the open file */
        struct buf out;
} lg = { .min = LOG_INFO, .fd = STDERR_FILENO };

static const char *const level_names[] = { "debug", "info", "warn", "error" };

void log_setup(enum log_level min, enum log_format format)
{
        lg.min = min;
        lg.format = format;
}

static void set_fd(int fd, bool owns)
{
        if (lg.owns_fd)
                (void) close(lg.fd);
        lg.fd = fd;
        lg.owns_fd = owns;
}

void log_to_fd(int fd)
{
        log_flush();
        set_fd(fd, false);
        free(lg.dir);
        lg.dir = NULL;
}

/* Our own files only, by name and age; anything else in the directory is not ours to touch. */
static void prune(const char *dir)
{
        DIR *d = opendir(dir);
        time_t oldest = time(NULL) - (time_t) KEEP_DAYS * DAY_S;

        if (!d)
                return;
        for (struct dirent *e; (e = readdir(d));) {
                struct stat st;

                if (!str_starts(e->d_name, "log-") || strlen(e->d_name) != strlen("log-MM-DD-YY"))
                        continue;
                if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_mtime < oldest)
                        (void) unlinkat(dirfd(d), e->d_name, 0);
        }
        (void) closedir(d);
}

static bool open_day(int64_t day)
{
        time_t at = (time_t) day * DAY_S;
        struct tm tm;
        _cleanup_free_ char *path = NULL;
        int fd;

        (void) gmtime_r(&at, &tm);
        path = xasprintf("%s/log-%02d-%02d-%02d", lg.dir, tm.tm_mon + 1, tm.tm_mday,
                         tm.tm_year % 100);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0)
                return false;
        set_fd(fd, true);
        lg.day = day;
        prune(lg.dir);
        return true;
}

static int64_t today(void)
{
        return (int64_t) time(NULL) / DAY_S;
}

bool log_to_dir(const char *dir)
{
        struct error err = { 0 };

        if (dir_make(dir, 0700, &err) < 0) {
                errno = err.sys;
                return false;
        }
        free(lg.dir);
        lg.dir = xstrdup(dir);
        return open_day(today());
}

bool log_wants(enum log_level level)
{
        return level >= lg.min;
}

/* Control bytes, quotes and broken UTF-8 are escaped, so no value can forge a line. */
static void put_quoted(struct buf *b, const char *s, size_t len)
{
        size_t bad = utf8_check(s, len);

        buf_putc(b, '"');
        for (size_t i = 0; i < len; i++) {
                unsigned char c = (unsigned char) s[i];

                if (c == '"' || c == '\\')
                        buf_printf(b, "\\%c", c);
                else if (c < 0x20 || c == 0x7f || (c >= 0x80 && i >= bad))
                        buf_printf(b, "\\u%04x", c);
                else
                        buf_putc(b, (char) c);
        }
        buf_putc(b, '"');
}

static bool is_plain(const char *s, size_t len)
{
        for (size_t i = 0; i < len; i++)
                if (s[i] <= ' ' || s[i] == '"' || s[i] == '=' || s[i] == '\\' || s[i] == 0x7f)
                        return false;
        return len > 0;
}

static void put_text(struct buf *b, const char *s)
{
        size_t len = strnlen(s, VALUE_MAX);

        if (lg.format == LOG_LOGFMT && is_plain(s, len))
                buf_put(b, s, len);
        else
                put_quoted(b, s, len);
}

static void put_key(struct buf *b, const char *key)
{
        if (lg.format == LOG_JSON) {
                buf_puts(b, ",\"");
                buf_puts(b, key);
                buf_puts(b, "\":");
        } else {
                buf_putc(b, ' ');
                buf_puts(b, key);
                buf_putc(b, '=');
        }
}

static void put_num(struct buf *b, int64_t v)
{
        if (v < 0)
                buf_putc(b, '-');
        buf_putu(b, v < 0 ? 0 - (uint64_t) v : (uint64_t) v);
}

void log_fields(enum log_level level, const char *target, const char *msg,
                const struct log_field *fields)
{
        bool is_json = lg.format == LOG_JSON;
        struct buf *b = &lg.out;
        char ts[CLOCK_TEXT_MAX];

        if (level < lg.min)
                return;
        clock_rfc3339(clock_real_us(), ts);
        buf_puts(b, is_json ? "{\"ts\":\"" : "ts=");
        buf_puts(b, ts);
        if (is_json)
                buf_putc(b, '"');
        put_key(b, "level");
        put_text(b, level_names[level]);
        put_key(b, "target");
        put_text(b, target);
        put_key(b, "message");
        put_text(b, msg);
        for (; fields->key; fields++) {
                put_key(b, fields->key);
                if (fields->str)
                        put_text(b, fields->str);
                else
                        put_num(b, fields->num);
        }
        buf_puts(b, is_json ? "}\n" : "\n");
        if (b->len >= FLUSH_BYTES || level >= LOG_WARN)
                log_flush();
}

void log_flush(void)
{
        if (!lg.out.len)
                return;
        if (lg.dir && today() != lg.day)
                (void) open_day(today()); /* the old file serves until a new one can be made */
        /* A log that cannot be written must not stop the server. */
        (void) fd_write_all(lg.fd, lg.out.data, lg.out.len, NULL);
        buf_clear(&lg.out);
        if (lg.out.cap > (size_t) 4 * FLUSH_BYTES)
                buf_done(&lg.out);
}
