#include "json/write.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "json/json.h"
#include "json/lex.h"

/* Letter of the short escape; 'u' = needs \u00XX; 0 = plain. */
static const char letters[256] = {
        [0x00 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't',          ['\n'] = 'n', [0x0b] = 'u',
        ['\f'] = 'f',          ['\r'] = 'r', [0x0e ... 0x1f] = 'u', ['"'] = '"',  ['\\'] = '\\',
};

static char *escape(char *p, char c)
{
        static const char hex[] = "0123456789abcdef";
        char letter = letters[(unsigned char) c];

        *p++ = '\\';
        *p++ = letter;
        if (letter != 'u')
                return p;
        *p++ = '0';
        *p++ = '0';
        *p++ = hex[c >> 4 & 15];
        *p++ = hex[c & 15];
        return p;
}

/* Copies a word at a time while it looks for the next byte to escape. */
static char *copy_plain(char *at, const char **s, const char *end)
{
        const char *p = *s;

        for (; end - p >= 8; p += 8, at += 8) {
                uint64_t stops = lex_stops(lex_load(p));

                memcpy(at, p, 8);
                if (stops) {
                        *s = p + lex_first(stops);
                        return at + lex_first(stops);
                }
        }
        while (p < end && !lex_is_stop(*p))
                *at++ = *p++;
        *s = p;
        return at;
}

/* s is good UTF-8. Room is taken for all of it and a few escapes; an escape adds at most five
 * bytes, and when that slack is used up, room is taken again. */
static void put_escaped(struct buf *b, const char *s, size_t len)
{
        const char *end = s + len;

        while (s < end) {
                size_t left = (size_t) (end - s), slack = 32 + left / 16;
                char *room = buf_room(b, left + slack), *at = room;

                while (s < end && slack >= 5) {
                        char *was = at = copy_plain(at, &s, end);

                        if (s == end)
                                break;
                        at = escape(at, *s++);
                        slack -= (size_t) (at - was) - 1;
                }
                buf_grew(b, (size_t) (at - room));
        }
}

/* How many bytes one U+FFFD stands for: the longest start of a sequence that could have become
 * good, as browsers and Rust count it. s[0] is a bad byte by utf8_check(). */
static size_t broken_len(const unsigned char *s, size_t left)
{
        unsigned char lo = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char hi = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
        size_t max = s[0] >= 0xf0 ? 3 : 2, n = 1;

        if (s[0] < 0xe0 || s[0] > 0xf4)
                return 1;
        if (left < 2 || s[1] < lo || s[1] > hi)
                return 1;
        for (n = 2; n < max && n < left && s[n] >= 0x80 && s[n] <= 0xbf;)
                n++;
        return n;
}

static void put_string(struct buf *b, const char *s, size_t len)
{
        buf_putc(b, '"');
        for (;;) {
                size_t good = utf8_check(s, len), bad;

                put_escaped(b, s, good);
                if (good == len)
                        break;
                buf_puts(b, "\xef\xbf\xbd");
                bad = broken_len((const unsigned char *) s + good, len - good);
                s += good + bad;
                len -= good + bad;
        }
        buf_putc(b, '"');
}

/* What stands before a value: a comma, a key. */
static void begin(struct jw *w, const char *key)
{
        if (w->needs_comma)
                buf_putc(w->out, ',');
        w->needs_comma = true;
        if (!key)
                return;
        put_string(w->out, key, strlen(key));
        buf_putc(w->out, ':');
}

static void push(struct jw *w, const char *key, bool is_array)
{
        uint64_t *bits = &w->is_array[w->depth / 64 % 2], bit = 1ull << w->depth % 64;

        assert(w->depth < JSON_DEPTH_MAX);
        begin(w, key);
        buf_putc(w->out, is_array ? '[' : '{');
        *bits = is_array ? *bits | bit : *bits & ~bit;
        w->depth++;
        w->needs_comma = false;
}

void jw_obj(struct jw *w, const char *key)
{
        push(w, key, false);
}

void jw_arr(struct jw *w, const char *key)
{
        push(w, key, true);
}

void jw_end(struct jw *w)
{
        assert(w->depth > 0);
        w->depth--;
        buf_putc(w->out, w->is_array[w->depth / 64] >> w->depth % 64 & 1 ? ']' : '}');
        w->needs_comma = true;
}

void jw_str(struct jw *w, const char *key, const char *s)
{
        if (s)
                jw_strn(w, key, s, strlen(s));
        else
                jw_null(w, key);
}

void jw_strn(struct jw *w, const char *key, const char *s, size_t len)
{
        begin(w, key);
        put_string(w->out, s, len);
}

void jw_i64(struct jw *w, const char *key, int64_t v)
{
        begin(w, key);
        if (v < 0)
                buf_putc(w->out, '-');
        buf_putu(w->out, v < 0 ? 0 - (uint64_t) v : (uint64_t) v);
}

void jw_u64(struct jw *w, const char *key, uint64_t v)
{
        begin(w, key);
        buf_putu(w->out, v);
}

/* Fifteen digits are right for most numbers, seventeen for all. The smallest ones carry less than
 * fifteen, so there the search begins at one. */
static void number_text(double v, char *ret, size_t size)
{
        int digits = fpclassify(v) == FP_SUBNORMAL ? 1 : 15;

        do
                (void) snprintf(ret, size, "%.*g", digits, v);
        while (strtod(ret, NULL) != v && ++digits <= 17);
}

void jw_f64(struct jw *w, const char *key, double v)
{
        char text[40], *e;

        begin(w, key);
        if (!isfinite(v)) {
                buf_puts(w->out, "null");
                return;
        }
        number_text(v, text, sizeof(text));
        e = strchr(text, 'e');
        if (!e) {
                buf_puts(w->out, text);
                return;
        }
        /* 1e+20 → 1e20, 1e-07 → 1e-7 */
        buf_put(w->out, text, (size_t) (e + 1 - text));
        if (e[1] == '-')
                buf_putc(w->out, '-');
        buf_puts(w->out, e + 2 + strspn(e + 2, "0"));
}

void jw_bool(struct jw *w, const char *key, bool v)
{
        begin(w, key);
        buf_puts(w->out, v ? "true" : "false");
}

void jw_null(struct jw *w, const char *key)
{
        begin(w, key);
        buf_puts(w->out, "null");
}

void jw_raw(struct jw *w, const char *key, const char *json, size_t len)
{
        begin(w, key);
        buf_put(w->out, json, len);
}

/* A parsed string is known to be good UTF-8. */
static void put_parsed(struct buf *b, struct slice s)
{
        buf_putc(b, '"');
        put_escaped(b, s.at, s.len);
        buf_putc(b, '"');
}

static void put_value(struct buf *b, const struct jval *v);

static void put_kids(struct buf *b, const struct jval *v)
{
        bool is_object = v->type == J_OBJ;

        buf_putc(b, is_object ? '{' : '[');
        for (uint32_t i = 0; i < v->n; i++) {
                if (i)
                        buf_putc(b, ',');
                if (is_object) {
                        put_parsed(b, v->kids[i].key);
                        buf_putc(b, ':');
                }
                put_value(b, &v->kids[i]);
        }
        buf_putc(b, is_object ? '}' : ']');
}

/* The parser bounds the depth of this recursion. */
static void put_value(struct buf *b, const struct jval *v)
{
        switch (v->type) {
        case J_NULL: buf_puts(b, "null"); return;
        case J_FALSE: buf_puts(b, "false"); return;
        case J_TRUE: buf_puts(b, "true"); return;
        case J_NUM: buf_put(b, v->text.at, v->text.len); return;
        case J_STR: put_parsed(b, v->text); return;
        case J_ARR:
        case J_OBJ: put_kids(b, v); return;
        }
}

void jw_val(struct jw *w, const char *key, const struct jval *v)
{
        begin(w, key);
        put_value(w->out, v);
}
