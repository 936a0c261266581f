#include "fs/glob.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "fs/search.h"

/* ---- characters ---- */

static unsigned char fold(unsigned char c, unsigned flags)
{
        return flags & WILD_FOLD ? (unsigned char) tolower(c) : c;
}

/* Bytes of the character at s: 1 where it is not UTF-8, or where bytes count. */
static size_t char_len(const char *s, unsigned flags)
{
        unsigned char c = (unsigned char) *s;
        size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

        if (!(flags & WILD_UTF8) || n == 1)
                return 1;
        for (size_t i = 1; i < n; i++)
                if (((unsigned char) s[i] & 0xc0) != 0x80)
                        return 1;
        return n;
}

static uint32_t char_take(const char **s, unsigned flags)
{
        static const unsigned char masks[] = { 0, 0xff, 0x1f, 0x0f, 0x07 };
        size_t n = char_len(*s, flags);
        uint32_t c = (unsigned char) **s & masks[n];

        for (size_t i = 1; i < n; i++)
                c = c << 6 | ((unsigned char) (*s)[i] & 0x3f);
        *s += n;
        return n == 1 ? fold((unsigned char) c, flags) : c;
}

/* ---- "[a-z[:digit:]_]" ---- */

struct class
{
        uint32_t c;      /* the character to be found */
        const char *at;  /* in the pattern */
        uint32_t before; /* the item before, which may begin a range; 0 = none */
        bool has_matched, is_broken;
        unsigned flags;
};

static bool named_has(struct slice name, uint32_t c, bool *ret_known)
{
        static const struct {
                const char *name;
                int (*test)(int c);
        } rows[] = {
                { "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank },
                { "cntrl", iscntrl }, { "digit", isdigit }, { "graph", isgraph },
                { "lower", islower }, { "print", isprint }, { "punct", ispunct },
                { "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
        };

        *ret_known = true;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (slice_eq(name, rows[i].name))
                        return c < 0x80 && rows[i].test((int) c);
        *ret_known = false;
        return false;
}

/* "[:name:]"; false when this is no name at all, and the bracket stands for itself. */
static bool class_named(struct class *k)
{
        const char *name = k->at + 2, *end = strchr(name, ']');
        bool is_known;
        struct slice s;

        if (!end) {
                k->is_broken = true;
                return true;
        }
        if (end == name || end[-1] != ':')
                return false;
        s = (struct slice) { name, (size_t) (end - name) - 1 };
        k->has_matched |= named_has(s, k->c, &is_known);
        /* Folded letters have no case of their own left. */
        if (k->flags & WILD_FOLD && slice_eq(s, "upper"))
                k->has_matched |= named_has(SLICE("lower"), k->c, &is_known);
        k->is_broken |= !is_known;
        k->at = end + 1;
        k->before = 0;
        return true;
}

static uint32_t class_char(struct class *k)
{
        if (*k->at == '\\')
                k->at++;
        if (*k->at)
                return char_take(&k->at, k->flags);
        k->is_broken = true;
        return 0;
}

static void class_item(struct class *k)
{
        uint32_t c;

        if (*k->at == '-' && k->before && k->at[1] && k->at[1] != ']') {
                k->at++;
                c = class_char(k);
                k->has_matched |= k->c >= k->before && k->c <= c;
                k->before = 0;
                return;
        }
        if (k->at[0] == '[' && k->at[1] == ':' && class_named(k))
                return;
        c = class_char(k);
        k->has_matched |= c == k->c;
        k->before = c;
}

/* At the "[": 1 = fits, both moved on; 0 = does not; -1 = never closed, so nothing ever fits. */
static int class_match(const char **pattern, const char **text, unsigned flags)
{
        struct class k = { .at = *pattern + 1, .flags = flags };
        bool is_negated = *k.at == '!' || *k.at == '^';

        k.c = char_take(text, flags);
        if (is_negated)
                k.at++;
        do {
                if (!*k.at)
                        return -1;
                class_item(&k);
        } while (!k.is_broken && *k.at != ']');
        if (k.is_broken)
                return -1;
        *pattern = k.at + 1;
        return k.has_matched != is_negated && k.c != '/';
}

/* ---- whole patterns ---- */

/* One character of both: as class_match(). */
static int one_match(const char **pattern, const char **text, unsigned flags)
{
        const char *p = *pattern;

        if (*p == '[')
                return class_match(pattern, text, flags);
        if (*p == '?') {
                if (**text == '/')
                        return 0;
                *pattern += 1;
                *text += char_len(*text, flags);
                return 1;
        }
        if (*p == '\\' && !*++p)
                return -1;
        if (fold((unsigned char) *p, flags) != fold((unsigned char) **text, flags))
                return 0;
        *pattern = p + 1;
        *text += 1;
        return 1;
}

/* Where to go on when what follows a star does not fit: the star takes more. Only the last star of
 * a kind is ever worth extending: what an earlier one could take more, the later one can take too.
 */
struct retry {
        const char *p, *t; /* p NULL = none */
};

static bool retry_star(struct retry *star, const char **p, const char **t, unsigned flags)
{
        if (!star->p || !*star->t || *star->t == '/')
                return false;
        star->t += char_len(star->t, flags);
        *p = star->p;
        *t = star->t;
        return true;
}

static bool retry_deep(struct retry *deep, const char **p, const char **t)
{
        const char *slash = deep->p ? strchr(deep->t, '/') : NULL;

        if (!slash)
                return false;
        deep->t = slash + 1;
        *p = deep->p;
        *t = deep->t;
        return true;
}

/* "**" alone between slashes (or at an end) crosses directories. */
static bool is_deep(const char *pattern, const char *stars, const char *behind)
{
        if (behind - stars < 2 || (stars != pattern && stars[-1] != '/'))
                return false;
        return !*behind || *behind == '/' || (behind[0] == '\\' && behind[1] == '/');
}

bool wild_match(const char *pattern, const char *path, unsigned flags)
{
        struct retry star = { 0 }, deep = { 0 };
        const char *p = pattern, *t = path;

        for (;;) {
                int fits = 0;

                if (*p == '*') {
                        const char *stars = p;

                        p += strspn(p, "*");
                        if (!is_deep(pattern, stars, p)) {
                                star = (struct retry) { p, t };
                                continue;
                        }
                        if (!*p)
                                return true;
                        star = (struct retry) { 0 };
                        deep = (struct retry) { p + (*p == '\\' ? 2 : 1), t };
                        if (*p++ == '/')
                                continue; /* no directory at all is one way */
                } else if (!*p && !*t) {
                        return true;
                } else if (*p && *t) {
                        fits = one_match(&p, &t, flags);
                }
                if (fits < 0)
                        return false;
                if (fits || retry_star(&star, &p, &t, flags))
                        continue;
                star = (struct retry) { 0 };
                if (!retry_deep(&deep, &p, &t))
                        return false;
        }
}

/* ---- lists ---- */

struct glob {
        char *text;
        bool is_negated, has_slash;
};

void globs_done(struct globs *g)
{
        for (size_t i = 0; i < g->n; i++)
                free(g->at[i].text);
        free(g->at);
        *g = (struct globs) { .flags = g->flags };
}

static int add_variant(struct globs *g, const char *text, bool is_negated, struct error *err)
{
        size_t len = strlen(text);
        bool is_whole_dir = len > 1 && text[len - 1] == '/';

        if (g->n == GLOB_VARIANTS_MAX)
                return error_set(err, ERR_INVALID, 0, "patterns mean more than %d names",
                                 GLOB_VARIANTS_MAX);
        g->at = xrealloc(g->at, (g->n + 1) * sizeof(*g->at));
        g->at[g->n++] = (struct glob) {
                .text = xasprintf("%s%s", text + (*text == '/'), is_whole_dir ? "**" : ""),
                .is_negated = is_negated,
                .has_slash = strchr(text, '/') != NULL,
        };
        return 0;
}

/* The "}" that closes the "{" at s, if there is a choice in between; else NULL. */
static const char *brace_end(const char *s)
{
        bool has_comma = false;
        int depth = 0;

        for (; *s; s++) {
                if (*s == '\\' && s[1])
                        s++;
                else if (*s == '{')
                        depth++;
                else if (*s == ',' && depth == 1)
                        has_comma = true;
                else if (*s == '}' && --depth == 0)
                        return has_comma ? s : NULL;
        }
        return NULL;
}

static const char *brace_find(const char *s, const char **ret_end)
{
        for (; *s; s++) {
                if (*s == '\\' && s[1])
                        s++;
                else if (*s == '{' && (*ret_end = brace_end(s)))
                        return s;
        }
        return NULL;
}

/* Up to the next comma of this level, or to the closing brace. */
static const char *choice_end(const char *s, const char *end)
{
        int depth = 0;

        for (; s < end; s++) {
                if (*s == '\\')
                        s++;
                else if (*s == '{')
                        depth++;
                else if (*s == '}')
                        depth--;
                else if (*s == ',' && depth == 0)
                        break;
        }
        return MIN(s, end);
}

static int add_expanded(struct globs *g, const char *text, bool is_negated, struct error *err)
{
        const char *end = NULL, *open = brace_find(text, &end);

        if (!open)
                return add_variant(g, text, is_negated, err);
        for (const char *s = open + 1; s <= end;) {
                const char *stop = choice_end(s, end);
                _cleanup_free_ char *one = xasprintf("%.*s%.*s%s", (int) (open - text), text,
                                                     (int) (stop - s), s, end + 1);

                if (add_expanded(g, one, is_negated, err) < 0)
                        return -1;
                s = stop + 1;
        }
        return 0;
}

int globs_add(struct globs *g, const char *pattern, struct error *err)
{
        bool is_negated = *pattern == '!';

        if (strlen(pattern) > SEARCH_PATTERN_MAX)
                return error_set(err, ERR_INVALID, 0,
                                 "pattern of %zu bytes, at most %d are allowed", strlen(pattern),
                                 SEARCH_PATTERN_MAX);
        g->has_positive |= !is_negated;
        return add_expanded(g, pattern + is_negated, is_negated, err);
}

static bool glob_fits(const struct glob *glob, const char *path, unsigned flags)
{
        const char *slash = strrchr(path, '/');

        return wild_match(glob->text, glob->has_slash || !slash ? path : slash + 1, flags);
}

bool globs_want(const struct globs *g, const char *path, bool is_dir)
{
        for (size_t i = g->n; i-- > 0;)
                if (glob_fits(&g->at[i], path, g->flags))
                        return !g->at[i].is_negated;
        return is_dir || !g->has_positive;
}

bool glob_match(const char *pattern, const char *path)
{
        _cleanup_(globs_done) struct globs g = { .flags = WILD_UTF8 };

        if (add_expanded(&g, pattern, false, NULL) < 0)
                return false;
        for (size_t i = 0; i < g.n; i++)
                if (glob_fits(&g.at[i], path, g.flags))
                        return true;
        return false;
}
