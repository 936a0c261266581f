#include "http/condition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "http/req.h"

/* ---- dates ---- */

/* a: weekday, A: its long name, b: month, d: two digits, e: the same with a blank for a zero,
 * Y: four digits, y: two, t: time of day. Everything else stands for itself. */
static const char *const date_forms[] = {
        "a, d b Y t GMT",
        "A, d-b-y t GMT", /* obsolete, but must be understood */
        "a b e t Y",
};

static const char *const weekdays[] = { "Monday", "Tuesday",  "Wednesday", "Thursday",
                                        "Friday", "Saturday", "Sunday" };
static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

static const char *scan_digits(const char *p, int n, int *ret)
{
        *ret = 0;
        for (; n; n--, p++) {
                if (*p < '0' || *p > '9')
                        return NULL;
                *ret = *ret * 10 + (*p - '0');
        }
        return p;
}

static const char *scan_name(const char *p, const char *const *names, int n, size_t len, int *ret)
{
        for (int i = 0; i < n; i++) {
                size_t want = len ? len : strlen(names[i]);

                if (strncmp(p, names[i], want) == 0) {
                        *ret = i;
                        return p + want;
                }
        }
        return NULL;
}

static const char *scan_time(const char *p, struct tm *tm)
{
        p = scan_digits(p, 2, &tm->tm_hour);
        if (!p || *p != ':')
                return NULL;
        p = scan_digits(p + 1, 2, &tm->tm_min);
        if (!p || *p != ':')
                return NULL;
        p = scan_digits(p + 1, 2, &tm->tm_sec);
        return p && tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 61 ? p : NULL;
}

static const char *scan_year(const char *p, int digits, struct tm *tm)
{
        p = scan_digits(p, digits, &tm->tm_year);
        if (digits == 4)
                tm->tm_year -= 1900;
        else if (tm->tm_year < 70)
                tm->tm_year += 100; /* two digits from before the epoch are from after 2000 */
        return p;
}

static const char *scan_one(const char *p, char what, struct tm *tm)
{
        int weekday;

        switch (what) {
        case 'a': return scan_name(p, weekdays, ARRAY_LEN(weekdays), 3, &weekday);
        case 'A': return scan_name(p, weekdays, ARRAY_LEN(weekdays), 0, &weekday);
        case 'b': return scan_name(p, months, ARRAY_LEN(months), 3, &tm->tm_mon);
        case 'd': return scan_digits(p, 2, &tm->tm_mday);
        case 'e':
                return *p == ' ' ? scan_digits(p + 1, 1, &tm->tm_mday)
                                 : scan_digits(p, 2, &tm->tm_mday);
        case 'Y': return scan_year(p, 4, tm);
        case 'y': return scan_year(p, 2, tm);
        case 't': return scan_time(p, tm);
        default: return *p == what ? p + 1 : NULL;
        }
}

static bool scan_form(const char *text, const char *form, struct tm *tm)
{
        for (; text && *form; form++)
                text = scan_one(text, *form, tm);
        return text && !*text;
}

bool http_date_parse(const char *text, int64_t *ret_sec)
{
        for (size_t i = 0; i < ARRAY_LEN(date_forms); i++) {
                struct tm tm = { 0 }, check;

                if (!scan_form(text, date_forms[i], &tm))
                        continue;
                check = tm; /* a day that the month does not have would move to the next one */
                check.tm_sec = 0;
                (void) timegm(&check);
                if (check.tm_mday != tm.tm_mday || check.tm_mon != tm.tm_mon)
                        return false;
                *ret_sec = (int64_t) timegm(&tm);
                return true;
        }
        return false;
}

/* ---- tags ---- */

struct tag {
        struct slice text; /* between the quotes */
        bool is_weak;
};

static bool is_tag_char(unsigned char c)
{
        return c == 0x21 || (c >= 0x23 && c != 0x7f);
}

/* Takes one tag off the front. NULL: it is none. */
static const char *cut_tag(const char *p, struct tag *ret)
{
        size_t n = 0;

        ret->is_weak = strncmp(p, "W/", 2) == 0;
        if (ret->is_weak)
                p += 2;
        if (*p++ != '"')
                return NULL;
        while (is_tag_char((unsigned char) p[n]))
                n++;
        ret->text = (struct slice) { p, n };
        return p[n] == '"' ? p + n + 1 : NULL;
}

static bool tag_matches(const struct tag *a, const struct tag *b, bool is_weak_ok)
{
        if (!is_weak_ok && (a->is_weak || b->is_weak))
                return false;
        return a->text.len == b->text.len && memcmp(a->text.at, b->text.at, a->text.len) == 0;
}

bool etag_list_has(const char *list, const char *etag, bool is_weak_ok, bool *ret_is_bad)
{
        struct tag ours, theirs;
        bool has_ours = etag && cut_tag(etag, &ours), is_found = false;
        unsigned n = 0;
        const char *p = list + strspn(list, " \t");

        *ret_is_bad = false;
        if (*p == '*' && !p[1 + strspn(p + 1, " \t")])
                return true;
        while (*(p += strspn(p, " \t,"))) {
                p = cut_tag(p, &theirs);
                if (!p || ++n > CONDITION_TAGS_MAX)
                        break;
                is_found |= has_ours && tag_matches(&ours, &theirs, is_weak_ok);
                p += strspn(p, " \t");
                if (*p && *p != ',')
                        break;
        }
        *ret_is_bad = !p || *p || !n || n > CONDITION_TAGS_MAX;
        return is_found && !*ret_is_bad;
}

/* ---- conditions ---- */

/* 1 = the header is there and has our tag, 0 = it has not, 2 = there is no such header. The header
 * may come on several lines, which are one list. */
static int ask_tags(struct req *r, const char *header, const struct entity *e, bool is_weak_ok,
                    struct error *err)
{
        const char *name, *value;
        int answer = 2;

        for (size_t i = 0; req_header_at(r, i, &name, &value); i++) {
                bool is_bad = false, is_found;

                if (strcmp(name, header) != 0)
                        continue;
                is_found = etag_list_has(value, e->etag, is_weak_ok, &is_bad);
                if (is_bad)
                        return error_set(err, ERR_INVALID, 0,
                                         "%s must be '*' or a list of quoted entity tags", header);
                answer = answer == 1 || (e->exists && is_found);
        }
        return answer;
}

/* The date of a header, if it is there and makes sense. */
static bool ask_date(struct req *r, const char *header, int64_t *ret_sec)
{
        const char *text = req_header(r, header);

        return text && http_date_parse(text, ret_sec);
}

static bool is_read(struct req *r)
{
        return req_is_head(r) || slice_eq(req_method(r), "GET");
}

static int check_unchanged(struct req *r, const struct entity *e, struct error *err)
{
        int64_t since;
        int has = ask_tags(r, "if-match", e, false, err);

        if (has < 0)
                return -1;
        if (has == 0)
                return error_set(err, ERR_PRECONDITION, 0,
                                 e->exists ? "it has another entity tag than if-match says"
                                           : "it does not exist, but if-match wants it");
        if (has == 2 && e->exists && ask_date(r, "if-unmodified-since", &since) &&
            e->modified_sec > since)
                return error_set(err, ERR_PRECONDITION, 0, "it was modified since then");
        return 0;
}

int condition_check(struct req *r, const struct entity *e, struct error *err)
{
        int64_t since;
        int has;

        if (check_unchanged(r, e, err) < 0)
                return -1;
        has = ask_tags(r, "if-none-match", e, true, err);
        if (has < 0)
                return -1;
        if (has == 1 && is_read(r))
                return 304;
        if (has == 1)
                return error_set(err, ERR_PRECONDITION, 0,
                                 "it exists with an entity tag that if-none-match names");
        if (has == 2 && is_read(r) && e->exists && ask_date(r, "if-modified-since", &since) &&
            e->modified_sec <= since)
                return 304;
        return 0;
}

/* ---- ranges ---- */

/* Any number of digits: what does not fit is bigger than every file. */
static const char *scan_size(const char *p, uint64_t *ret)
{
        if (*p < '0' || *p > '9')
                return NULL;
        for (*ret = 0; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(*ret, 10, ret) ||
                    __builtin_add_overflow(*ret, (uint64_t) (*p - '0'), ret)) {
                        *ret = UINT64_MAX;
                        return p + strspn(p, "0123456789");
                }
        return p;
}

static bool is_at_end(const char *p)
{
        return p && !p[strspn(p, " \t")];
}

static int parse_suffix(const char *p, uint64_t size, struct range *ret)
{
        uint64_t n;

        p = scan_size(p, &n);
        if (!is_at_end(p))
                return 0;
        if (!n)
                return -1;
        if (!size)
                return 0; /* all of nothing cannot be said as a part */
        n = MIN(n, size);
        *ret = (struct range) { .from = size - n, .len = n, .is_part = true };
        return 1;
}

int range_parse(const char *text, uint64_t size, struct range *ret)
{
        uint64_t from, to = UINT64_MAX;
        const char *p;

        *ret = (struct range) { .len = size };
        if (strncasecmp(text, "bytes=", 6) != 0)
                return 0;
        p = text + 6 + strspn(text + 6, " \t");
        if (*p == '-')
                return parse_suffix(p + 1, size, ret);
        p = scan_size(p, &from);
        if (!p || *p++ != '-')
                return 0;
        if (!is_at_end(p)) {
                p = scan_size(p, &to);
                if (!is_at_end(p))
                        return 0;
        }
        if (from > to)
                return 0;
        if (from >= size)
                return -1;
        *ret = (struct range) { .from = from,
                                .len = MIN(to, size - 1) - from + 1,
                                .is_part = true };
        return 1;
}

/* May the client put the part to what it has? A date says so only when the second it names is over
 * and nothing can have been written in it behind the client's back (section 8.8.2.2). */
static bool is_still_the_same(struct req *r, const struct entity *e)
{
        const char *text = req_header(r, "if-range");
        struct tag ours, theirs;
        const char *end;
        int64_t sec;

        if (!text)
                return true;
        if (http_date_parse(text, &sec))
                return sec == e->modified_sec && sec < clock_real_us() / 1000000;
        end = cut_tag(text, &theirs);
        return end && !*end && e->etag && cut_tag(e->etag, &ours) &&
               tag_matches(&ours, &theirs, false);
}

static const char *only_header(struct req *r, const char *lower_name)
{
        const char *name, *value, *found = NULL;

        for (size_t i = 0; req_header_at(r, i, &name, &value); i++) {
                if (strcmp(name, lower_name) != 0)
                        continue;
                if (found)
                        return NULL;
                found = value;
        }
        return found;
}

int range_pick(struct req *r, const struct entity *e, struct range *ret, struct error *err)
{
        const char *text = only_header(r, "range");
        char line[48];

        *ret = (struct range) { .len = e->size };
        if (!text || !slice_eq(req_method(r), "GET") || !is_still_the_same(r, e))
                return 0;
        if (range_parse(text, e->size, ret) >= 0)
                return 0;
        (void) snprintf(line, sizeof(line), "bytes */%" PRIu64, e->size);
        reply_header(r, "content-range", line);
        return error_set(err, ERR_RANGE, 0, "the range starts beyond the end (%" PRIu64 " bytes)",
                         e->size);
}
