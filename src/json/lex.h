/* Pieces of JSON text that the parser, the scanner and the writer share. Private to json/. */
#pragma once
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LEX_ONES  0x0101010101010101u
#define LEX_HIGHS 0x8080808080808080u

/* Eight bytes as one number, the first byte lowest on every machine. */
static inline uint64_t lex_load(const char *p)
{
        uint64_t w;

        memcpy(&w, p, sizeof(w));
        return le64toh(w);
}

/* The high bit of each byte that cannot stand in a string as it is: quote, backslash, control. Only
 * the lowest set bit is exact, a borrow may raise false ones above it. */
static inline uint64_t lex_stops(uint64_t w)
{
        uint64_t quote = w ^ (LEX_ONES * '"'), back = w ^ (LEX_ONES * '\\');

        return (((quote - LEX_ONES) & ~quote) | ((back - LEX_ONES) & ~back) |
                ((w - LEX_ONES * 0x20) & ~w)) &
               LEX_HIGHS;
}
static inline size_t lex_first(uint64_t stops)
{
        return (size_t) __builtin_ctzll(stops) / 8;
}
static inline bool lex_is_stop(char c)
{
        return c == '"' || c == '\\' || (unsigned char) c < 0x20;
}

#ifdef __SSE2__
/* The same for sixteen bytes, one exact bit each, where every machine of the kind can do it. */
static inline unsigned lex_stops16(__m128i v)
{
        __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
        __m128i back = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);

        return (unsigned) _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, back), control));
}
#endif

/* Past the bytes that need no care in a string. The high bits of *seen tell whether any of them (or
 * one of the few after them) was not ASCII. */
static inline const char *lex_plain(const char *p, const char *end, uint64_t *seen)
{
#ifdef __SSE2__
        for (; end - p >= 16; p += 16) {
                __m128i v = _mm_loadu_si128((const __m128i *) p);
                unsigned stops = lex_stops16(v);

                *seen |= _mm_movemask_epi8(v) ? LEX_HIGHS : 0;
                if (stops)
                        return p + __builtin_ctz(stops);
        }
#endif
        for (; end - p >= 8; p += 8) {
                uint64_t w = lex_load(p), stops = lex_stops(w);

                *seen |= w;
                if (stops)
                        return p + lex_first(stops);
        }
        for (; p < end && !lex_is_stop(*p); p++)
                *seen |= (uint64_t) (unsigned char) *p;
        return p;
}

static inline bool lex_is_space(char c)
{
        return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
static inline const char *lex_space(const char *p, const char *end)
{
        while (p < end && lex_is_space(*p))
                p++;
        return p;
}

/* Past the number at p. NULL if it breaks the grammar; *ret_bad is then the byte it breaks at,
 * which may be `end`. */
const char *lex_number(const char *p, const char *end, const char **ret_bad);

/* What stands for \n, \t … ; 0 for anything else, `u` included. */
extern const char lex_escapes[256];

enum lex_fault { LEX_OK, LEX_EOF, LEX_BAD_ESCAPE, LEX_LONE_SURROGATE };

/* One escape, *at behind its backslash. On success *at is behind the escape, and ret holds ret_n
 * bytes of UTF-8; otherwise *at is the byte that is wrong. */
enum lex_fault lex_escape(const char **at, const char *end, char ret[static 4], size_t *ret_n);
