#include "base/str.h"

#include <ctype.h>
#include <strings.h>

bool slice_ieq(struct slice a, const char *b)
{
        return strlen(b) == a.len && strncasecmp(a.at, b, a.len) == 0;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice s)
{
        while (s.len && is_blank(s.at[0]))
                s.at++, s.len--;
        while (s.len && is_blank(s.at[s.len - 1]))
                s.len--;
        return s;
}

bool slice_cut(struct slice *rest, char sep, struct slice *ret)
{
        const char *p;

        if (!rest->at)
                return false;
        p = memchr(rest->at, sep, rest->len);
        if (!p) {
                *ret = *rest;
                *rest = (struct slice) { 0 };
                return true;
        }
        *ret = (struct slice) { rest->at, (size_t) (p - rest->at) };
        rest->len -= ret->len + 1;
        rest->at = p + 1;
        return true;
}

bool slice_list_has(struct slice list, const char *word)
{
        struct slice item;

        while (slice_cut(&list, ',', &item))
                if (slice_ieq(slice_trim(item), word))
                        return true;
        return false;
}

bool str_starts(const char *s, const char *prefix)
{
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
        size_t n = strlen(s), k = strlen(suffix);

        return n >= k && memcmp(s + n - k, suffix, k) == 0;
}

bool str_to_u64(const char *s, size_t len, uint64_t *ret)
{
        uint64_t v = 0;

        if (!len)
                return false;
        for (size_t i = 0; i < len; i++) {
                if (s[i] < '0' || s[i] > '9')
                        return false;
                if (__builtin_mul_overflow(v, 10, &v) ||
                    __builtin_add_overflow(v, (uint64_t) (s[i] - '0'), &v))
                        return false;
        }
        *ret = v;
        return true;
}

bool str_to_i64(const char *s, size_t len, int64_t *ret)
{
        bool is_neg = len && s[0] == '-';
        uint64_t v;

        if (!str_to_u64(s + is_neg, len - is_neg, &v))
                return false;
        if (v > (uint64_t) INT64_MAX + is_neg)
                return false;
        *ret = is_neg ? (int64_t) (0 - v) : (int64_t) v;
        return true;
}

bool str_equal_secret(const char *a, size_t a_len, const char *b, size_t b_len)
{
        volatile unsigned char diff = a_len != b_len;

        for (size_t i = 0; i < b_len; i++)
                diff |= (unsigned char) (b[i] ^ (a_len ? a[i % a_len] : 0));
        return diff == 0;
}

/* Length of the well-formed sequence at s (RFC 3629 table), or 0. */
static size_t utf8_seq(const unsigned char *s, size_t left)
{
        unsigned char lo = 0x80, hi = 0xbf;
        size_t n;

        if (s[0] < 0x80)
                return 1;
        if (s[0] >= 0xc2 && s[0] <= 0xdf)
                n = 2;
        else if (s[0] >= 0xe0 && s[0] <= 0xef)
                n = 3;
        else if (s[0] >= 0xf0 && s[0] <= 0xf4)
                n = 4;
        else
                return 0;
        if (s[0] == 0xe0)
                lo = 0xa0;
        if (s[0] == 0xed)
                hi = 0x9f;
        if (s[0] == 0xf0)
                lo = 0x90;
        if (s[0] == 0xf4)
                hi = 0x8f;
        if (left < n || s[1] < lo || s[1] > hi)
                return 0;
        for (size_t i = 2; i < n; i++)
                if (s[i] < 0x80 || s[i] > 0xbf)
                        return 0;
        return n;
}

size_t utf8_check(const char *s, size_t len)
{
        const unsigned char *p = (const unsigned char *) s;
        size_t i = 0;

        while (i < len) {
                uint64_t w;
                size_t n;

                if (len - i >= 8) {
                        memcpy(&w, p + i, 8);
                        if (!(w & 0x8080808080808080u)) {
                                i += 8;
                                continue;
                        }
                }
                n = utf8_seq(p + i, len - i);
                if (!n)
                        return i;
                i += n;
        }
        return len;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = (char) (c | 0x20);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool percent_decode(const char *s, size_t len, bool plus_is_space, char *ret, size_t *ret_len)
{
        size_t n = 0;

        for (size_t i = 0; i < len; i++) {
                char c = s[i];

                if (c == '%') {
                        int hi = len - i > 2 ? hex_digit(s[i + 1]) : -1;
                        int lo = len - i > 2 ? hex_digit(s[i + 2]) : -1;

                        if (hi < 0 || lo < 0)
                                return false;
                        c = (char) (hi * 16 + lo);
                        i += 2;
                } else if (c == '+' && plus_is_space) {
                        c = ' ';
                }
                ret[n++] = c;
        }
        ret[n] = '\0';
        *ret_len = n;
        return true;
}
