/* The only file that names PCRE2. */
#include "fs/match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "fs/search.h"

enum {
        STACK_MIN = 32 * 1024,
        STACK_MAX = 1024 * 1024,
        HEAP_KIB_MAX = 16 * 1024, /* of the interpreter, where there is no JIT */
};

/* An expression is kept twice: as characters, for text that is UTF-8, and as bytes, for what is
 * not. The second may be missing: not every expression makes sense without characters. */
struct matcher {
        char *literal; /* compared byte by byte; NULL = an expression */
        size_t literal_len;
        bool takes_blocks;
        pcre2_code *chars, *bytes;
        pcre2_match_data *found;
        pcre2_match_context *limits;
        pcre2_jit_stack *stack;
};

struct matcher *matcher_free(struct matcher *m)
{
        if (!m)
                return NULL;
        pcre2_code_free(m->chars);
        pcre2_code_free(m->bytes);
        pcre2_match_data_free(m->found);
        pcre2_match_context_free(m->limits);
        pcre2_jit_stack_free(m->stack);
        free(m->literal);
        free(m);
        return NULL;
}

static void matcher_freep(struct matcher **m)
{
        matcher_free(*m);
}

static pcre2_code *compile(const char *text, uint32_t options, struct error *err)
{
        PCRE2_UCHAR why[160];
        PCRE2_SIZE at = 0;
        int code = 0;
        pcre2_code *c =
                pcre2_compile((PCRE2_SPTR) text, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);

        if (!c) {
                (void) pcre2_get_error_message(code, why, sizeof(why));
                (void) error_set(err, ERR_INVALID, 0, "invalid regex at offset %zu: %s", at,
                                 (const char *) why);
                return NULL;
        }
        /* Where the system forbids code that is made at run time, the interpreter serves. */
        (void) pcre2_jit_compile(c, PCRE2_JIT_COMPLETE);
        return c;
}

static int compile_both(struct matcher *m, const struct search_spec *s, struct error *err)
{
        uint32_t options = s->is_regex ? PCRE2_NEVER_BACKSLASH_C : PCRE2_LITERAL;

        if (s->ignore_case)
                options |= PCRE2_CASELESS;
        m->chars = compile(s->text, options | PCRE2_UTF | (s->is_regex ? PCRE2_UCP : 0), err);
        if (!m->chars)
                return -1;
        m->bytes = compile(s->text, options | (s->is_regex ? PCRE2_NEVER_UTF : 0), NULL);
        m->found = pcre2_match_data_create(1, NULL);
        m->limits = pcre2_match_context_create(NULL);
        m->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
        if (!m->found || !m->limits || !m->stack)
                return error_set(err, ERR_SYSTEM, 0, "compile regex: out of memory");
        (void) pcre2_set_match_limit(m->limits, SEARCH_MATCH_STEPS);
        (void) pcre2_set_heap_limit(m->limits, HEAP_KIB_MAX);
        pcre2_jit_stack_assign(m->limits, NULL, m->stack);
        return 0;
}

int matcher_new(const struct search_spec *s, struct matcher **ret, struct error *err)
{
        _cleanup_(matcher_freep) struct matcher *m = NEW(struct matcher);
        size_t len = strlen(s->text);
        const char *what = s->is_regex ? "regex" : "text";

        if (!len)
                return error_set(err, ERR_INVALID, 0, "%s must not be empty", what);
        if (len > SEARCH_PATTERN_MAX)
                return error_set(err, ERR_INVALID, 0, "%s of %zu bytes, at most %d are allowed",
                                 what, len, SEARCH_PATTERN_MAX);
        if (!s->is_regex && strchr(s->text, '\n'))
                return error_set(err, ERR_INVALID, 0, "text must not contain a line feed");
        m->takes_blocks = !s->is_regex;
        if (!s->is_regex && !s->ignore_case) {
                m->literal = xstrdup(s->text);
                m->literal_len = len;
        } else if (compile_both(m, s, err) < 0) {
                return -1;
        }
        *ret = TAKE_PTR(m);
        return 0;
}

bool matcher_takes_blocks(const struct matcher *m)
{
        return m->takes_blocks;
}

bool matcher_is_bytewise(const struct matcher *m)
{
        return m->literal;
}

static int find_literal(const struct matcher *m, struct slice s, struct span *ret)
{
        const char *at = memmem(s.at, s.len, m->literal, m->literal_len);

        if (!at)
                return 0;
        ret->at = (size_t) (at - s.at);
        ret->end = ret->at + m->literal_len;
        return 1;
}

int matcher_find(struct matcher *m, struct slice s, bool is_utf8, struct span *ret)
{
        const pcre2_code *code = is_utf8 ? m->chars : m->bytes;
        const PCRE2_SIZE *at;
        int r;

        if (m->literal)
                return find_literal(m, s, ret);
        if (!code)
                return 0;
        r = pcre2_match(code, (PCRE2_SPTR) (s.at ? s.at : ""), s.len, 0,
                        is_utf8 ? PCRE2_NO_UTF_CHECK : 0, m->found, m->limits);
        if (r == PCRE2_ERROR_NOMATCH)
                return 0;
        if (r < 0)
                return -1;
        at = pcre2_get_ovector_pointer(m->found);
        ret->at = MIN(at[0], s.len);
        ret->end = MAX(ret->at, at[1]);
        return 1;
}
