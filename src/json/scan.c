#include "json/scan.h"

#include "json/json.h"
#include "json/lex.h"

/* Below the members we look at, a value is only bytes, strings and brackets. */
enum byte_class { C_BAD, C_PLAIN, C_QUOTE, C_OPEN, C_CLOSE };
static const unsigned char classes[256] = {
        [' '] = C_PLAIN, ['\t'] = C_PLAIN,        ['\n'] = C_PLAIN,        ['\r'] = C_PLAIN,
        [','] = C_PLAIN, [':'] = C_PLAIN,         ['+'] = C_PLAIN,         ['-'] = C_PLAIN,
        ['.'] = C_PLAIN, ['0' ... '9'] = C_PLAIN, ['a' ... 'z'] = C_PLAIN, ['E'] = C_PLAIN,
        ['"'] = C_QUOTE, ['{'] = C_OPEN,          ['['] = C_OPEN,          ['}'] = C_CLOSE,
        [']'] = C_CLOSE,
};

struct scan {
        const char *text, *at, *end;
        struct error *err;
};

static bool fail_at(struct scan *s, const char *at, const char *what)
{
        error_set(s->err, ERR_INVALID, 0, "%s at byte %zu", what, (size_t) (at - s->text));
        return false;
}

static bool fail(struct scan *s, const char *what)
{
        return fail_at(s, s->at, what);
}

/* p is behind the backslash. Behind the escape, or NULL. */
static const char *skip_escape(const char *p, const char *end)
{
        if (end - p >= 1 && lex_escapes[(unsigned char) *p])
                return p + 1;
        if (end - p < 5 || *p != 'u')
                return NULL;
        for (int i = 1; i <= 4; i++) {
                char c = (char) (p[i] | 0x20);

                if (!(p[i] >= '0' && p[i] <= '9') && !(c >= 'a' && c <= 'f'))
                        return NULL;
        }
        return p + 5;
}

/* From behind the opening quote to behind the closing one. Halves of surrogate pairs are let
 * through: programs that cut a text between two UTF-16 units do send them. */
static bool skip_string(struct scan *s, struct slice *ret)
{
        const char *start = s->at, *p = start, *end = s->end;
        uint64_t seen = 0;
        size_t good;

        for (;;) {
                p = lex_plain(p, end, &seen);
                if (p == end)
                        return fail_at(s, p, "unfinished string");
                if (*p == '"')
                        break;
                if (*p != '\\')
                        return fail_at(s, p, "control character in a string");
                if (!(p = skip_escape(s->at = p + 1, end)))
                        return fail(s, "invalid escape");
        }
        *ret = (struct slice) { start, (size_t) (p - start) };
        if ((seen & LEX_HIGHS) && (good = utf8_check(start, ret->len)) < ret->len)
                return fail_at(s, start + good, "invalid unicode code point");
        s->at = p + 1;
        return true;
}

/* The array or object that begins here; `depth` brackets are open around it. */
static bool skip_nested(struct scan *s, unsigned depth)
{
        char open[JSON_DEPTH_MAX];
        unsigned base = depth;
        struct slice ignored;

        open[depth++] = *s->at++;
        while (depth > base) {
                enum byte_class class = C_PLAIN;

                while (s->at < s->end && (class = classes[(unsigned char) *s->at]) == C_PLAIN)
                        s->at++;
                if (s->at == s->end)
                        return fail(s, "unfinished array or object");
                s->at++;
                if (class == C_QUOTE) {
                        if (!skip_string(s, &ignored))
                                return false;
                } else if (class == C_OPEN) {
                        if (depth == JSON_DEPTH_MAX)
                                return fail_at(s, s->at - 1, "nested too deep");
                        open[depth++] = s->at[-1];
                } else if (class == C_BAD) {
                        return fail_at(s, s->at - 1, "unexpected byte");
                } else if (open[--depth] + 2 != s->at[-1]) {
                        /* in ASCII a closing bracket is two behind its opening one */
                        return fail_at(s, s->at - 1, "mismatched bracket");
                }
        }
        return true;
}

static bool skip_scalar(struct scan *s)
{
        static const char *const words[] = { "null", "true", "false" };
        const char *bad, *stop = lex_number(s->at, s->end, &bad);

        for (size_t i = 0; !stop && i < 3; i++) {
                size_t n = strlen(words[i]);

                if ((size_t) (s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0)
                        stop = s->at + n;
        }
        if (!stop)
                return fail(s, "expected value");
        s->at = stop;
        return true;
}

static bool skip_value(struct scan *s, unsigned depth)
{
        struct slice ignored;

        if (s->at < s->end && (*s->at == '{' || *s->at == '['))
                return skip_nested(s, depth);
        if (s->at == s->end || *s->at != '"')
                return skip_scalar(s);
        s->at++;
        return skip_string(s, &ignored);
}

bool jscan_eq(struct slice raw, const char *text)
{
        const char *p = raw.at, *end;
        size_t left = strlen(text), n;
        char bytes[4];

        if (!raw.len)
                return left == 0;
        if (!memchr(raw.at, '\\', raw.len))
                return slice_eq(raw, text);
        for (end = p + raw.len; p < end; text += n, left -= n) {
                bytes[0] = *p++;
                n = 1;
                if (bytes[0] == '\\' && lex_escape(&p, end, bytes, &n) != LEX_OK)
                        return false;
                if (n > left || memcmp(bytes, text, n) != 0)
                        return false;
        }
        return left == 0;
}

char *jscan_text(struct arena *a, struct slice raw)
{
        const char *p = raw.at, *end = raw.len ? p + raw.len : p;
        char *ret = arena_try(a, raw.len + 1), *out = ret;
        size_t n;

        if (!ret)
                return NULL;
        while (p < end) {
                *out = *p++;
                n = 1;
                if (*out == '\\') {
                        char bytes[4];

                        if (lex_escape(&p, end, bytes, &n) != LEX_OK)
                                return NULL;
                        memcpy(out, bytes, n);
                }
                if (!*out)
                        return NULL;
                out += n;
        }
        *out = '\0';
        return ret;
}

/* Called with the scan at a member's value; moves it past the value. */
typedef bool member_fn(struct scan *s, struct slice key, void *arg);

/* From the opening brace to behind the closing one. */
static bool scan_members(struct scan *s, member_fn *member, void *arg)
{
        struct slice key;

        s->at = lex_space(s->at + 1, s->end);
        if (s->at < s->end && *s->at == '}') {
                s->at++;
                return true;
        }
        for (;;) {
                s->at = lex_space(s->at, s->end);
                if (s->at == s->end || *s->at != '"')
                        return fail(s, "key must be a string");
                s->at++;
                if (!skip_string(s, &key))
                        return false;
                s->at = lex_space(s->at, s->end);
                if (s->at == s->end || *s->at != ':')
                        return fail(s, "expected `:`");
                s->at = lex_space(s->at + 1, s->end);
                if (!member(s, key, arg))
                        return false;
                s->at = lex_space(s->at, s->end);
                if (s->at == s->end || (*s->at != ',' && *s->at != '}'))
                        return fail(s, "expected `,` or `}`");
                if (*s->at++ == '}')
                        return true;
        }
}

/* Inside params and result. */
static bool inner_member(struct scan *s, struct slice key, void *arg)
{
        struct slice *session_id = arg;
        const char *start = s->at;

        if (!skip_value(s, 2))
                return false;
        if (!jscan_eq(key, "sessionId"))
                return true;
        *session_id = (struct slice) { 0 };
        if (*start == '"')
                *session_id = (struct slice) { start + 1, (size_t) (s->at - start) - 2 };
        return true;
}

struct envelope {
        struct jscan *ret;
        struct slice in_params, in_result; /* their sessionId */
};

static bool scan_inner(struct scan *s, struct slice *ret, struct slice *session_id)
{
        const char *start = s->at;

        *session_id = (struct slice) { 0 };
        if (s->at < s->end && *s->at == '{') {
                if (!scan_members(s, inner_member, session_id))
                        return false;
        } else if (!skip_value(s, 1)) {
                return false;
        }
        *ret = (struct slice) { start, (size_t) (s->at - start) };
        return true;
}

static bool outer_member(struct scan *s, struct slice key, void *arg)
{
        struct envelope *env = arg;
        struct slice raw = { s->at, 0 };

        if (jscan_eq(key, "params"))
                return scan_inner(s, &env->ret->params, &env->in_params);
        if (jscan_eq(key, "result"))
                return scan_inner(s, &env->ret->result, &env->in_result);
        if (!skip_value(s, 1))
                return false;
        raw.len = (size_t) (s->at - raw.at);
        if (jscan_eq(key, "id"))
                env->ret->id = raw;
        else if (jscan_eq(key, "error"))
                env->ret->error = raw;
        else if (jscan_eq(key, "method"))
                env->ret->method = *raw.at == '"' ? (struct slice) { raw.at + 1, raw.len - 2 }
                                                  : (struct slice) { 0 };
        return true;
}

int json_scan(const char *text, size_t len, struct jscan *ret, struct error *err)
{
        struct scan s = { .text = text, .at = text, .end = text, .err = err };
        struct jscan found = { 0 };
        struct envelope env = { .ret = &found };

        if (len)
                s.end += len;
        s.at = lex_space(s.at, s.end);
        if (s.at == s.end || *s.at != '{')
                return fail(&s, "expected an object"), -1;
        if (!scan_members(&s, outer_member, &env))
                return -1;
        s.at = lex_space(s.at, s.end);
        if (s.at != s.end)
                return fail(&s, "trailing characters"), -1;
        found.session_id = env.in_params.len ? env.in_params : env.in_result;
        *ret = found;
        return 0;
}
