#include "test.h"

#include <sys/stat.h>

#include "api/fs.h"
#include "base/buf.h"
#include "json/write.h"

static void expect_time(int64_t ns, const char *want)
{
        char text[FS_TIME_BYTES];

        fs_time_text(ns, text);
        EXPECT_STR(text, want);
}

TEST(file_times_have_nanoseconds_and_an_offset)
{
        expect_time(0, "1970-01-01T00:00:00.000000000+00:00");
        expect_time(1767323045123456789, "2026-01-02T03:04:05.123456789+00:00");
        expect_time(1767323045000000001, "2026-01-02T03:04:05.000000001+00:00");
        expect_time(-1, "1969-12-31T23:59:59.999999999+00:00");
        expect_time(-1000000000, "1969-12-31T23:59:59.000000000+00:00");
        expect_time(INT64_MAX, "2262-04-11T23:47:16.854775807+00:00");
}

TEST(file_info_is_written_as_members)
{
        struct fs_info i = { .mode = S_IFREG | 04755, .size = 7 };
        struct buf b = { 0 };
        struct jw w = { .out = &b };

        jw_obj(&w, NULL);
        jw_str(&w, "path", "/x");
        fs_info_write(&w, &i);
        jw_end(&w);
        EXPECT_STR(b.data, "{\"path\":\"/x\",\"entryType\":\"file\",\"size\":7,\"modified\":"
                           "\"1970-01-01T00:00:00.000000000+00:00\",\"mode\":\"4755\"}");
        buf_clear(&b);
        i.mode = S_IFLNK | 0777;
        jw_obj(&w, NULL);
        fs_info_write(&w, &i);
        jw_bool(&w, "more", true);
        jw_end(&w);
        EXPECT(strstr(b.data, "\"entryType\":\"file\"") &&
               strstr(b.data, "\"symlink\":true,\"more\":true}"));
        buf_done(&b);
}
