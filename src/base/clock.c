#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macro.h"

static int64_t now_us(clockid_t id)
{
        struct timespec ts;

        (void) clock_gettime(id, &ts);
        return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
        return now_us(CLOCK_MONOTONIC);
}

int64_t clock_real_us(void)
{
        return now_us(CLOCK_REALTIME);
}

void clock_rfc3339(int64_t real_us, char ret[static CLOCK_TEXT_MAX])
{
        static _Thread_local time_t cached = -1;
        static _Thread_local char text[24];
        time_t sec = (time_t) (real_us / 1000000);

        if (sec != cached) {
                struct tm tm;

                (void) gmtime_r(&sec, &tm);
                (void) strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
                cached = sec;
        }
        (void) snprintf(ret, CLOCK_TEXT_MAX, "%s.%06dZ", text, (int) (real_us % 1000000));
}

static bool two_digits(const char *p, int *ret)
{
        if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9')
                return false;
        *ret = (p[0] - '0') * 10 + (p[1] - '0');
        return true;
}

/* "Z", "+02:00" → seconds east of UTC. */
static bool parse_offset(const char *p, int *ret_s)
{
        int h, m;

        *ret_s = 0;
        if ((p[0] == 'Z' || p[0] == 'z') && !p[1])
                return true;
        if (strlen(p) != 6 || (p[0] != '+' && p[0] != '-') || p[3] != ':' ||
            !two_digits(p + 1, &h) || !two_digits(p + 4, &m) || h > 23 || m > 59)
                return false;
        *ret_s = (p[0] == '-' ? -1 : 1) * (h * 3600 + m * 60);
        return true;
}

/* "2026-01-02T03:04:05", digit by digit: strptime() takes "2026-1-2" and spaces too. */
static bool parse_date_time(const char *p, struct tm *ret)
{
        static const char marks[] = "--T::";
        int n[7] = { 0 };
        struct tm check;

        for (size_t i = 0; i < ARRAY_LEN(n); i++, p += 2) {
                if (i > 1 && *p++ != marks[i - 2])
                        return false;
                if (!two_digits(p, &n[i]))
                        return false; /* also at the end of a short text */
        }
        if (n[4] > 23 || n[5] > 59 || n[6] > 60)
                return false;
        *ret = (struct tm) { .tm_year = n[0] * 100 + n[1] - 1900,
                             .tm_mon = n[2] - 1,
                             .tm_mday = n[3],
                             .tm_hour = n[4],
                             .tm_min = n[5],
                             .tm_sec = n[6] };
        check = *ret; /* a day that the month does not have would move to the next one */
        check.tm_sec = 0;
        (void) timegm(&check);
        return check.tm_mon == ret->tm_mon && check.tm_mday == ret->tm_mday;
}

bool clock_parse_rfc3339(const char *text, int64_t *ret_real_us)
{
        struct tm tm = { 0 };
        const char *p = text + 19;
        int64_t us = 0, unit = 100000;
        int east_s;

        if (!parse_date_time(text, &tm))
                return false;
        if (*p == '.') {
                if (p[1] < '0' || p[1] > '9')
                        return false;
                for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
                        us += (*p - '0') * unit;
        }
        if (!parse_offset(p, &east_s))
                return false;
        *ret_real_us = ((int64_t) timegm(&tm) - east_s) * 1000000 + us;
        return true;
}

const char *clock_http_date(void)
{
        static _Thread_local time_t cached = -1;
        static _Thread_local char text[32];
        time_t sec = time(NULL);

        if (sec != cached) {
                struct tm tm;

                (void) gmtime_r(&sec, &tm);
                (void) strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
                cached = sec;
        }
        return text;
}
