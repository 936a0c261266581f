#include "json/lex.h"

const char lex_escapes[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};

static const char *skip_digits(const char *p, const char *end)
{
        while (p < end && *p >= '0' && *p <= '9')
                p++;
        return p;
}

/* At least one digit. */
static const char *need_digits(const char *p, const char *end, const char **ret_bad)
{
        const char *q = skip_digits(p, end);

        if (q > p)
                return q;
        *ret_bad = p;
        return NULL;
}

const char *lex_number(const char *p, const char *end, const char **ret_bad)
{
        if (p < end && *p == '-')
                p++;
        if (p < end && *p == '0') {
                p++;
                if (p < end && *p >= '0' && *p <= '9') {
                        *ret_bad = p;
                        return NULL;
                }
        } else if (!(p = need_digits(p, end, ret_bad))) {
                return NULL;
        }
        if (p < end && *p == '.' && !(p = need_digits(p + 1, end, ret_bad)))
                return NULL;
        if (p < end && (*p == 'e' || *p == 'E')) {
                p++;
                if (p < end && (*p == '+' || *p == '-'))
                        p++;
                return need_digits(p, end, ret_bad);
        }
        return p;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = (char) (c | 0x20);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum lex_fault hex4(const char **at, const char *end, uint32_t *ret)
{
        uint32_t v = 0;

        for (int i = 0; i < 4; i++, (*at)++) {
                if (*at == end)
                        return LEX_EOF;
                if (hex_digit(**at) < 0)
                        return LEX_BAD_ESCAPE;
                v = v * 16 + (uint32_t) hex_digit(**at);
        }
        *ret = v;
        return LEX_OK;
}

static size_t utf8_put(uint32_t c, char *ret)
{
        if (c < 0x80) {
                ret[0] = (char) c;
                return 1;
        }
        if (c < 0x800) {
                ret[0] = (char) (0xc0 | c >> 6);
                ret[1] = (char) (0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                ret[0] = (char) (0xe0 | c >> 12);
                ret[1] = (char) (0x80 | (c >> 6 & 0x3f));
                ret[2] = (char) (0x80 | (c & 0x3f));
                return 3;
        }
        ret[0] = (char) (0xf0 | c >> 18);
        ret[1] = (char) (0x80 | (c >> 12 & 0x3f));
        ret[2] = (char) (0x80 | (c >> 6 & 0x3f));
        ret[3] = (char) (0x80 | (c & 0x3f));
        return 4;
}

/* The second half of a surrogate pair: `\uDC00` to `\uDFFF`. */
static enum lex_fault low_surrogate(const char **at, const char *end, uint32_t *c)
{
        uint32_t low;
        enum lex_fault fault;

        for (int i = 0; i < 2; i++, (*at)++) {
                if (*at == end)
                        return LEX_EOF;
                if (**at != "\\u"[i])
                        return LEX_LONE_SURROGATE;
        }
        fault = hex4(at, end, &low);
        if (fault)
                return fault;
        if (low < 0xdc00 || low > 0xdfff)
                return LEX_LONE_SURROGATE;
        *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
        return LEX_OK;
}

enum lex_fault lex_escape(const char **at, const char *end, char ret[static 4], size_t *ret_n)
{
        enum lex_fault fault;
        uint32_t c;

        if (*at == end)
                return LEX_EOF;
        if (**at != 'u') {
                ret[0] = lex_escapes[(unsigned char) **at];
                if (!ret[0])
                        return LEX_BAD_ESCAPE;
                (*at)++;
                *ret_n = 1;
                return LEX_OK;
        }
        (*at)++;
        fault = hex4(at, end, &c);
        if (fault)
                return fault;
        if (c >= 0xdc00 && c <= 0xdfff)
                return LEX_LONE_SURROGATE;
        if (c >= 0xd800 && c < 0xdc00 && (fault = low_surrogate(at, end, &c)))
                return fault;
        *ret_n = utf8_put(c, ret);
        return LEX_OK;
}
