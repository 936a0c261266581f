#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"

/* A directory of the test's own; it and the names that the tests below use in it are removed. */
static void dir_remove(char **dir)
{
        static const char *const names[] = { "a/b/c", "a/b",          "a",
                                             "file",  "log-01-02-20", "log-notes" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _cleanup_free_ char *path = xasprintf("%s/%s", *dir, names[i]);

                (void) remove(path);
        }
        EXPECT_INT(rmdir(*dir), 0); /* nothing else was left behind */
        free(*dir);
}
#define _cleanup_dir_ _cleanup_(dir_remove)

static char *dir_new(void)
{
        char *path = xstrdup("/tmp/sa-unit-XXXXXX");

        EXPECT(mkdtemp(path));
        return path;
}

/* fd */

TEST(file_write_then_read_gives_the_same_bytes_and_mode)
{
        _cleanup_dir_ char *dir = dir_new();
        _cleanup_free_ char *path = xasprintf("%s/file", dir);
        struct error err = {};
        struct buf b = {};
        struct stat st;

        EXPECT_OK(file_write(path, "old text", 8, 0644, &err), err);
        EXPECT_OK(file_write(path, "new\0", 4, 0600, &err), err);
        EXPECT_OK(file_read(path, &b, &err), err);
        EXPECT_INT(b.len, 4);
        EXPECT_MEM(b.data, "new\0", 4);
        EXPECT_INT(stat(path, &st), 0);
        EXPECT_INT(st.st_mode & 07777, 0600);
        buf_done(&b);
}

TEST(file_read_stops_at_the_ceiling)
{
        _cleanup_dir_ char *dir = dir_new();
        _cleanup_free_ char *path = xasprintf("%s/file", dir);
        struct error err = {};
        struct buf at = { .max_bytes = 8 }, below = { .max_bytes = 7 };

        EXPECT_OK(file_write(path, "12345678", 8, 0600, &err), err);
        EXPECT_OK(file_read(path, &at, &err), err);
        EXPECT_STR(at.data, "12345678");
        EXPECT_ERR(file_read(path, &below, &err), ERR_TOO_BIG, err);
        EXPECT(strstr(err.msg, path));
        buf_done(&at);
        buf_done(&below);
}

TEST(file_read_tells_missing_from_broken)
{
        _cleanup_dir_ char *dir = dir_new();
        _cleanup_free_ char *path = xasprintf("%s/nothing", dir);
        struct error err = {};
        struct buf b = {};

        EXPECT_ERR(file_read(path, &b, &err), ERR_NOT_FOUND, err);
        EXPECT(strstr(err.msg, "nothing'"));
        EXPECT_ERR(file_read(dir, &b, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, EISDIR);
        buf_done(&b);
}

TEST(file_write_leaves_nothing_behind_when_it_fails)
{
        _cleanup_dir_ char *dir = dir_new();
        struct error err = {};

        /* The target is a directory: the rename fails after the write. */
        EXPECT_ERR(file_write(dir, "x", 1, 0600, &err), ERR_SYSTEM, err);
        EXPECT(err.msg[0]);
        EXPECT_ERR(file_write("/nonexistent/x", "x", 1, 0600, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, ENOENT);
}

TEST(fd_write_all_reports_a_full_disk)
{
        _cleanup_close_ int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        struct error err = {};

        EXPECT(fd >= 0);
        EXPECT_ERR(fd_write_all(fd, "x", 1, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, ENOSPC);
        EXPECT_OK(fd_write_all(fd, "", 0, &err), err);
}

TEST(dir_make_makes_parents_and_accepts_what_exists)
{
        _cleanup_dir_ char *dir = dir_new();
        _cleanup_free_ char *path = xasprintf("%s/a/b/c", dir);
        _cleanup_free_ char *slash = xasprintf("%s/", path);
        struct error err = {};
        struct stat st;

        EXPECT_OK(dir_make(path, 0700, &err), err);
        EXPECT_OK(dir_make(path, 0700, &err), err);
        EXPECT_OK(dir_make(slash, 0700, &err), err);
        EXPECT(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
        EXPECT_INT(st.st_mode & 07777, 0700);
}

TEST(dir_make_does_not_go_through_a_file)
{
        _cleanup_dir_ char *dir = dir_new();
        _cleanup_free_ char *file = xasprintf("%s/file", dir);
        _cleanup_free_ char *path = xasprintf("%s/file/x", dir);
        struct error err = {};

        EXPECT_OK(file_write(file, "", 0, 0600, &err), err);
        EXPECT_ERR(dir_make(path, 0700, &err), ERR_SYSTEM, err);
        EXPECT_INT(err.sys, ENOTDIR);
        EXPECT(strstr(err.msg, path));
}

TEST(fd_set_nonblock_turns_on_and_off)
{
        int fds[2];

        EXPECT_INT(pipe2(fds, O_CLOEXEC), 0);
        EXPECT(fd_set_nonblock(fds[0], true) >= 0);
        EXPECT(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
        EXPECT(fd_set_nonblock(fds[0], false) >= 0);
        EXPECT(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
        (void) close(fds[0]);
        (void) close(fds[1]);
}

/* log */

/* Lines go to a file in memory until the test is over. */
static int log_capture(enum log_level min, enum log_format format)
{
        int fd = memfd_create("log", MFD_CLOEXEC);

        EXPECT(fd >= 0);
        log_to_fd(fd);
        log_setup(min, format);
        return fd;
}

/* What came since log_capture(), without the time, which is checked for its form. */
static char *log_seen(int fd)
{
        static const char stamp[] = "2026-01-02T03:04:05.123456Z";
        struct buf b = {};
        struct error err = {};
        char *at;

        log_flush();
        log_to_fd(STDERR_FILENO);
        log_setup(LOG_INFO, LOG_LOGFMT);
        EXPECT_INT(lseek(fd, 0, SEEK_SET), 0);
        EXPECT_OK(fd_read_all(fd, &b, &err), err);
        (void) close(fd);
        buf_put(&b, "", 0);
        while ((at = strstr(b.data, "20")) && strlen(at) >= strlen(stamp) && at[10] == 'T') {
                EXPECT_INT(at[26], 'Z');
                memmove(at, at + strlen(stamp), strlen(at + strlen(stamp)) + 1);
        }
        return b.data;
}

TEST(log_line_is_logfmt_and_quotes_what_needs_it)
{
        int fd = log_capture(LOG_INFO, LOG_LOGFMT);
        _cleanup_free_ char *text = NULL;

        LOG(LOG_INFO, "two words", LOG_S("plain", "a/b:c"), LOG_S("empty", ""), LOG_S("eq", "a=b"),
            LOG_N("n", -5), LOG_N("min", INT64_MIN));
        text = log_seen(fd);
        EXPECT_STR(
                text,
                "ts= level=info target=sandbox_agent message=\"two words\" plain=a/b:c empty=\"\" "
                "eq=\"a=b\" n=-5 min=-9223372036854775808\n");
}

TEST(log_line_can_be_json)
{
        int fd = log_capture(LOG_INFO, LOG_JSON);
        _cleanup_free_ char *text = NULL;

        LOG(LOG_WARN, "m", LOG_S("s", "a\"\\\n\x01"), LOG_N("n", 42));
        text = log_seen(fd);
        EXPECT_STR(text,
                   "{\"ts\":\"\",\"level\":\"warn\",\"target\":\"sandbox_agent\",\"message\":\"m\","
                   "\"s\":\"a\\\"\\\\\\u000a\\u0001\",\"n\":42}\n");
}

TEST(log_value_cannot_forge_a_line)
{
        int fd = log_capture(LOG_INFO, LOG_LOGFMT);
        _cleanup_free_ char *text = NULL;

        LOG(LOG_INFO, "m", LOG_S("v", "x\nts=1 level=error\r\x7f"),
            LOG_S("w", "gr\xc3\xbc\xc3\x9f"), LOG_S("bad", "a\xff"));
        text = log_seen(fd);
        EXPECT_STR(text, "ts= level=info target=sandbox_agent message=m "
                         "v=\"x\\u000ats=1 level=error\\u000d\\u007f\" w=\"gr\xc3\xbc\xc3\x9f\" "
                         "bad=\"a\\u00ff\"\n");
}

TEST(log_leaves_out_what_is_below_its_level)
{
        int fd = log_capture(LOG_WARN, LOG_LOGFMT);
        _cleanup_free_ char *text = NULL;

        EXPECT(!log_wants(LOG_INFO) && log_wants(LOG_WARN));
        LOG(LOG_INFO, "no");
        LOG(LOG_ERROR, "yes");
        text = log_seen(fd);
        EXPECT_STR(text, "ts= level=error target=sandbox_agent message=yes\n");
}

TEST(log_gathers_lines_but_not_warnings)
{
        int fd = log_capture(LOG_DEBUG, LOG_LOGFMT);
        _cleanup_free_ char *text = NULL;
        struct stat st;

        LOG(LOG_INFO, "one");
        EXPECT(fstat(fd, &st) == 0 && st.st_size == 0);
        LOG(LOG_WARN, "two");
        EXPECT(fstat(fd, &st) == 0 && st.st_size > 0);
        text = log_seen(fd);
        EXPECT(strstr(text, "message=one\n") < strstr(text, "message=two\n"));
}

TEST(log_cuts_a_long_value)
{
        int fd = log_capture(LOG_INFO, LOG_LOGFMT);
        _cleanup_free_ char *text = NULL;
        char value[5000];
        const char *v = value;

        memset(value, 'x', sizeof(value));
        value[sizeof(value) - 1] = '\0';
        LOG(LOG_INFO, "m", LOG_S("v", v));
        text = log_seen(fd);
        EXPECT_INT(strlen(strstr(text, " v=")), strlen(" v=") + 2048 + 1);
}

TEST(log_directory_gets_a_file_for_today_and_loses_old_ones)
{
        _cleanup_dir_ char *dir = dir_new();
        _cleanup_free_ char *old = xasprintf("%s/log-01-02-20", dir);
        _cleanup_free_ char *notes = xasprintf("%s/log-notes", dir);
        _cleanup_free_ char *path = NULL;
        struct timespec past[2] = { { .tv_sec = 1577923200 }, { .tv_sec = 1577923200 } };
        struct error err = {};
        struct buf b = {};
        char name[16];
        time_t now = time(NULL);
        struct tm tm;

        EXPECT_OK(file_write(old, "x", 1, 0600, &err), err);
        EXPECT_OK(file_write(notes, "x", 1, 0600, &err), err);
        EXPECT(utimensat(AT_FDCWD, old, past, 0) == 0 && utimensat(AT_FDCWD, notes, past, 0) == 0);

        EXPECT(log_to_dir(dir));
        LOG(LOG_WARN, "to a file");
        log_to_fd(STDERR_FILENO);
        EXPECT(gmtime_r(&now, &tm));
        (void) snprintf(name, sizeof(name), "%02d-%02d-%02d", tm.tm_mon + 1, tm.tm_mday,
                        tm.tm_year % 100);
        path = xasprintf("%s/log-%s", dir, name);
        EXPECT_OK(file_read(path, &b, &err), err);
        EXPECT(strstr(b.data, "message=\"to a file\"\n"));
        EXPECT(access(old, F_OK) < 0);
        EXPECT_INT(access(notes, F_OK), 0);
        EXPECT_INT(unlink(path), 0);
        buf_done(&b);
}

TEST(log_directory_that_cannot_be_used_is_said)
{
        EXPECT(!log_to_dir("/dev/null/logs"));
        EXPECT_INT(errno, ENOTDIR);
        log_to_fd(STDERR_FILENO);
}
