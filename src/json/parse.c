#include "json/json.h"

#include "base/alloc.h"
#include "base/macro.h"
#include "json/lex.h"

enum {
        STACK_FIRST = 64,        /* values that need no malloc */
        SLAB_MIN_BYTES = 4096,   /* below this, kids come from the arena one array at a time */
        SLAB_MAX_BYTES = 262144, /* above this, a big arena block would waste too much */
};

/* One run over one document. Finished values wait on `stack` until their container closes; then
 * they are copied to the arena as one contiguous array. Strings are decoded into `out`, a single
 * piece of the arena: no string is longer decoded than written, so the size of the document is
 * enough. */
struct parse {
        const char *text, *at, *end;
        char *out;
        struct jval *stack, *heap; /* heap: the stack once it outgrew its first home */
        size_t n, cap;
        char *slab;
        size_t slab_left, kept_bytes;
        unsigned depth;
        struct arena *arena;
        struct error *err;
};

static bool parse_value(struct parse *p, struct jval *v);

/* Column of the byte that is wrong, counted from 1; at the end of the text, of the last byte. */
static bool fail_at(struct parse *p, const char *at, const char *what)
{
        const char *stop = at < p->end ? at + 1 : p->end, *line = p->text;
        size_t n_lines = 1;

        for (const char *q; line < stop && (q = memchr(line, '\n', (size_t) (stop - line)));) {
                line = q + 1;
                n_lines++;
        }
        error_set(p->err, ERR_INVALID, 0, "%s at line %zu column %zu", what, n_lines,
                  (size_t) (stop - line));
        return false;
}

static bool fail(struct parse *p, const char *what)
{
        return fail_at(p, p->at, what);
}

static bool fail_too_big(struct parse *p)
{
        error_set(p->err, ERR_TOO_BIG, 0, "JSON needs more than %zu bytes of memory",
                  p->arena->max_bytes);
        return false;
}

/* What waits on the stack will be copied to the arena, so the arena's ceiling holds here as well.
 */
static bool stack_grow(struct parse *p)
{
        size_t bytes = p->cap * sizeof(*p->stack);

        if (p->arena->max_bytes && bytes > p->arena->max_bytes)
                return fail_too_big(p);
        if (p->heap) {
                p->heap = xrealloc(p->heap, bytes * 2);
        } else {
                p->heap = xmalloc(bytes * 2);
                memcpy(p->heap, p->stack, bytes);
        }
        p->stack = p->heap;
        p->cap *= 2;
        return true;
}

static inline bool push(struct parse *p, const struct jval *v)
{
        if (p->n == p->cap && !stack_grow(p))
                return false;
        p->stack[p->n++] = *v;
        return true;
}

/* Slabs double with the document, so that a large one costs few allocations and wastes at most half
 * of what it uses. */
static void *kids_alloc(struct parse *p, size_t bytes)
{
        size_t slab = MIN(p->kept_bytes, (size_t) SLAB_MAX_BYTES);
        void *at;

        if (bytes > p->slab_left) {
                if (slab < SLAB_MIN_BYTES || slab <= bytes)
                        return arena_try(p->arena, bytes);
                at = arena_try(p->arena, slab);
                if (!at)
                        return arena_try(p->arena, bytes);
                p->slab = at;
                p->slab_left = slab;
        }
        at = p->slab;
        p->slab += bytes;
        p->slab_left -= bytes;
        return at;
}

/* Everything above `base` becomes the kids of v. */
static bool pop_kids(struct parse *p, size_t base, struct jval *v)
{
        size_t n = p->n - base, bytes = n * sizeof(struct jval);
        struct jval *kids;

        p->depth--;
        if (!n)
                return true;
        if (n > UINT32_MAX || !(kids = kids_alloc(p, bytes)))
                return fail_too_big(p);
        memcpy(kids, p->stack + base, bytes);
        p->kept_bytes += bytes;
        p->n = base;
        v->n = (uint32_t) n;
        v->kids = kids;
        return true;
}

static inline void skip_space(struct parse *p)
{
        if (p->at < p->end && (unsigned char) *p->at <= ' ')
                p->at = lex_space(p->at, p->end);
}

/* Copies while it looks, a word at a time: there is always room for a word where one can be read.
 */
static inline char *copy_plain(struct parse *p, char *out, uint64_t *seen)
{
        const char *at = p->at, *end = p->end;

        for (; end - at >= 8; at += 8, out += 8) {
                uint64_t w = lex_load(at), stops = lex_stops(w);

                memcpy(out, at, 8);
                *seen |= w;
                if (stops) {
                        p->at = at + lex_first(stops);
                        return out + lex_first(stops);
                }
        }
        for (; at < end && !lex_is_stop(*at); at++) {
                *seen |= (uint64_t) (unsigned char) *at;
                *out++ = *at;
        }
        p->at = at;
        return out;
}

static bool copy_escape(struct parse *p, char **out)
{
        static const char *const faults[] = {
                [LEX_EOF] = "EOF while parsing a string",
                [LEX_BAD_ESCAPE] = "invalid escape",
                [LEX_LONE_SURROGATE] = "lone surrogate in hex escape",
        };
        char bytes[4];
        size_t n = 0;
        enum lex_fault fault;

        p->at++;
        fault = lex_escape(&p->at, p->end, bytes, &n);
        if (fault)
                return fail(p, faults[fault]);
        memcpy(*out, bytes, n);
        *out += n;
        return true;
}

/* From behind the opening quote to behind the closing one. */
static bool parse_string(struct parse *p, struct slice *ret)
{
        const char *start = p->at;
        char *out = p->out;
        uint64_t seen = 0;

        for (;;) {
                out = copy_plain(p, out, &seen);
                if (p->at == p->end)
                        return fail(p, "EOF while parsing a string");
                if (*p->at == '"')
                        break;
                if (*p->at != '\\')
                        return fail(
                                p,
                                "control character (\\u0000-\\u001F) found while parsing a string");
                if (p->end - p->at >= 2 && lex_escapes[(unsigned char) p->at[1]]) {
                        *out++ = lex_escapes[(unsigned char) p->at[1]];
                        p->at += 2;
                } else if (!copy_escape(p, &out)) {
                        return false;
                }
        }
        if (seen & LEX_HIGHS) {
                size_t len = (size_t) (p->at - start), good = utf8_check(start, len);

                if (good < len)
                        return fail_at(p, start + good, "invalid unicode code point");
        }
        *ret = (struct slice) { p->out, (size_t) (out - p->out) };
        *out++ = '\0';
        p->out = out;
        p->at++;
        return true;
}

static bool parse_number(struct parse *p, struct jval *v)
{
        const char *bad = NULL, *stop = lex_number(p->at, p->end, &bad);
        size_t len;

        if (!stop)
                return fail_at(p, bad,
                               bad == p->end ? "EOF while parsing a value" : "invalid number");
        len = (size_t) (stop - p->at);
        memcpy(p->out, p->at, len);
        p->out[len] = '\0';
        v->type = J_NUM;
        v->text = (struct slice) { p->out, len };
        p->out += len + 1;
        p->at = stop;
        return true;
}

static bool parse_word(struct parse *p, const char *word, enum jtype type, struct jval *v)
{
        for (; *word; word++, p->at++) {
                if (p->at == p->end)
                        return fail(p, "EOF while parsing a value");
                if (*p->at != *word)
                        return fail(p, "expected ident");
        }
        v->type = type;
        return true;
}

enum step { STEP_BAD, STEP_END, STEP_ITEM };

static enum step step_bad(struct parse *p, const char *what)
{
        (void) fail(p, what);
        return STEP_BAD;
}

static enum step step_eof(struct parse *p, char close)
{
        return step_bad(p,
                        close == ']' ? "EOF while parsing a list" : "EOF while parsing an object");
}

/* From the opening bracket to the first item, or past the closing bracket. */
static enum step list_open(struct parse *p, char close)
{
        if (p->depth == JSON_DEPTH_MAX)
                return step_bad(p, "recursion limit exceeded");
        p->at++;
        skip_space(p);
        if (p->at == p->end)
                return step_eof(p, close);
        p->depth++;
        if (*p->at != close)
                return STEP_ITEM;
        p->at++;
        return STEP_END;
}

/* From behind an item to the next one, or past the closing bracket. */
static enum step list_next(struct parse *p, char close)
{
        skip_space(p);
        if (p->at == p->end)
                return step_eof(p, close);
        if (*p->at == close) {
                p->at++;
                return STEP_END;
        }
        if (*p->at != ',')
                return step_bad(p, close == ']' ? "expected `,` or `]`" : "expected `,` or `}`");
        p->at++;
        skip_space(p);
        if (p->at < p->end && *p->at == close)
                return step_bad(p, "trailing comma");
        return STEP_ITEM;
}

static bool parse_array(struct parse *p, struct jval *v)
{
        size_t base = p->n;
        enum step step;

        v->type = J_ARR;
        for (step = list_open(p, ']'); step == STEP_ITEM; step = list_next(p, ']')) {
                struct jval item = { 0 };

                if (!parse_value(p, &item) || !push(p, &item))
                        return false;
        }
        return step == STEP_END && pop_kids(p, base, v);
}

static bool parse_member(struct parse *p, struct jval *v)
{
        if (p->at == p->end)
                return fail(p, "EOF while parsing a value");
        if (*p->at != '"')
                return fail(p, "key must be a string");
        p->at++;
        if (!parse_string(p, &v->key))
                return false;
        skip_space(p);
        if (p->at == p->end)
                return fail(p, "EOF while parsing an object");
        if (*p->at != ':')
                return fail(p, "expected `:`");
        p->at++;
        skip_space(p);
        return parse_value(p, v);
}

static bool parse_object(struct parse *p, struct jval *v)
{
        size_t base = p->n;
        enum step step;

        v->type = J_OBJ;
        for (step = list_open(p, '}'); step == STEP_ITEM; step = list_next(p, '}')) {
                struct jval item = { 0 };

                if (!parse_member(p, &item) || !push(p, &item))
                        return false;
        }
        return step == STEP_END && pop_kids(p, base, v);
}

/* At its first byte, white space already skipped. Recursion is bounded by JSON_DEPTH_MAX. */
static bool parse_value(struct parse *p, struct jval *v)
{
        if (p->at == p->end)
                return fail(p, "EOF while parsing a value");
        switch (*p->at) {
        case '"':
                p->at++;
                v->type = J_STR;
                return parse_string(p, &v->text);
        case '{': return parse_object(p, v);
        case '[': return parse_array(p, v);
        case 't': return parse_word(p, "true", J_TRUE, v);
        case 'f': return parse_word(p, "false", J_FALSE, v);
        case 'n': return parse_word(p, "null", J_NULL, v);
        case '-':
        case '0' ... '9': return parse_number(p, v);
        default: return fail(p, "expected value");
        }
}

static bool parse_document(struct parse *p, struct jval *v)
{
        skip_space(p);
        if (!parse_value(p, v))
                return false;
        skip_space(p);
        return p->at == p->end || fail(p, "trailing characters");
}

int json_parse(struct arena *a, const char *text, size_t len, const struct jval **ret,
               struct error *err)
{
        struct jval first[STACK_FIRST];
        struct parse p = { .text = text, .at = text, .arena = a, .err = err };
        struct jval *root = arena_try(a, sizeof(*root));
        bool ok;

        p.end = len ? text + len : text;
        p.stack = first;
        p.cap = STACK_FIRST;
        p.out = arena_try(a, len + 9); /* a NUL, and a whole word at the end */
        if (!p.out || !root) {
                (void) fail_too_big(&p);
                return -1;
        }
        *root = (struct jval) { 0 };
        ok = parse_document(&p, root);
        free(p.heap);
        if (!ok)
                return -1;
        *ret = root;
        return 0;
}
