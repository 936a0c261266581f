/* Looking for names and content below a directory, honouring .gitignore. Blocking: runs in a job.
 * The only file that names PCRE2 is match.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct fsroot;

enum {
        SEARCH_FILE_MAX = 64 * 1024 * 1024, /* larger files are counted as skipped */
        SEARCH_LINE_MAX = 2000,             /* bytes of a line that are reported */
        SEARCH_BLOCK_BYTES = 256 * 1024,    /* read at once */
        SEARCH_BINARY_BYTES = 8 * 1024,     /* a NUL in the first ones: not a text */
        SEARCH_PATTERN_MAX = 4096,
        SEARCH_LIMIT = 1000, /* hits, unless the client asks for another number */
        SEARCH_LIMIT_MAX = 100 * 1000,
        SEARCH_MATCH_STEPS = 10 * 1000 * 1000, /* of PCRE2, per line: a bad pattern ends, not us */
};

struct search_spec {
        const char *path; /* resolved: a directory, or one file */
        const char *text; /* what to find in files; NULL = names only */
        const char *name; /* glob of the names to find, where text is NULL; NULL = all */
        bool is_regex, ignore_case;
        const char *const *globs; /* of paths to look at ("*.c", "!x"); may be empty */
        size_t n_globs;
        bool with_ignored, with_hidden; /* .git is never looked at unless with_ignored */
        uint64_t limit;
};
struct search_hit {
        const char *path;      /* absolute */
        uint64_t line, column; /* from 1 (column in bytes); 0 for a name */
        struct slice text;     /* the line as it is in the file, at most SEARCH_LINE_MAX of it */
        uint64_t text_column;  /* where text begins: 1, unless the hit lies further right */
        bool is_cut, is_dir;
};
struct search_stats {
        uint64_t n_files, n_hits, n_skipped; /* skipped: binary, too large, unreadable */
        bool is_limited;                     /* stopped at the limit */
};
struct search_cb {
        int (*on_hit)(void *arg, const struct search_hit *, struct error *err); /* -1 = stop */
        bool (*is_cancelled)(void *arg);
        void *arg;
};
/* ERR_INVALID for a pattern that does not compile, with PCRE2's words and the offset. Links are not
 * followed, except spec->path itself; a line has one hit. Lines may be of any length: one that is
 * longer than SEARCH_BLOCK_BYTES is looked at in pieces that overlap by SEARCH_PATTERN_MAX.
 * Cancelled: -1 with ERR_UPSTREAM. */
int fs_search(const struct fsroot *r, const struct search_spec *, const struct search_cb *,
              struct search_stats *ret, struct error *err);

/* ---- the pure parts ---- */
/* "*", "?", "[a-z]", "**", "{a,b}" as in .gitignore and shells; a pattern without a slash is
 * compared with the last component. */
bool glob_match(const char *pattern, const char *path);

struct ignore; /* the rules of one .gitignore, stacked on those of the directories above */
struct ignore *ignore_push(struct ignore *above, const char *dir, struct slice text);
struct ignore *ignore_pop(struct ignore *i); /* returns the one above */
/* Of this absolute path alone: what lies in an ignored directory is ignored with it, whatever the
 * rules say, so do not go there. */
bool ignore_has(const struct ignore *i, const char *path, bool is_dir);
