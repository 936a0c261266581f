/* Changing text: exact replacement and unified diffs. The pure parts work on memory; fs_edit_*
 * read, change and write files in one step, or leave all as it was. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct fsroot;

enum {
        EDIT_FILE_MAX = 32 * 1024 * 1024, /* before and after */
        EDIT_FILES_MAX = 1000,
};
/* Bytes that diff_apply() looks at for one file before it gives up: only a diff that was made to
 * cost time needs more. */
#define DIFF_WORK_MAX (UINT64_C(4) << 30)

/* Every occurrence of `old` (not empty) becomes `new`. expected > 0: so many there must be, else
 * ERR_CONFLICT "expected 1 occurrence of …, found 3 (lines 4, 9, 12)"; expected 0 = at least one.
 * Returns the count, or -1. */
int64_t edit_replace(struct slice text, struct slice old, struct slice new, uint64_t expected,
                     struct buf *ret, struct error *err);

/* One file's part of a unified diff. */
struct diff_file {
        char *old_path, *new_path; /* relative, checked, without a/ and b/; NULL for /dev/null */
        bool is_rename;            /* git says so; else two names are two ways to say one */
        unsigned mode;             /* of a new file, or the new one of an old; 0 = not said */
        struct slice hunks;        /* its part of the diff */
        size_t line;               /* where the hunks start in the diff, from 1 */
};
struct diff {
        struct diff_file *files;
        size_t n_files;
};
/* Text around the files is passed over, but never a line of a hunk that its header does not count.
 * git's extended headers (new file, deleted file, modes, rename) are understood; binary patches,
 * copies and links are ERR_UNSUPPORTED; names that lead out are ERR_INVALID. Borrows text. */
int diff_parse(struct slice text, struct diff *ret, struct error *err);
void diff_done(struct diff *d);
/* Context must match exactly; a hunk may sit at other lines than it says (the nearest place behind
 * the last hunk wins). ERR_CONFLICT names the first hunk that does not fit, with its line. */
int diff_apply(const struct diff_file *f, struct slice text, struct buf *ret, unsigned *ret_hunks,
               struct error *err);

struct edit_result {
        char *path, *from; /* absolute; from only of a renamed file */
        uint64_t n;        /* replacements or hunks */
        const char *what;  /* "modified", "created", "deleted", "renamed" */
};
struct edit_results {
        struct edit_result *at;
        size_t n;
};
void edit_results_done(struct edit_results *r);

/* A dry run says what would happen and touches nothing. A file that somebody else changes in
 * between is ERR_CONFLICT. */
int fs_edit_replace(const struct fsroot *r, const char *path, struct slice old, struct slice new,
                    uint64_t expected, bool is_dry_run, struct edit_results *ret,
                    struct error *err);
/* All files of the diff, below `dir`, or none: everything is computed and written beside its target
 * first, then put into place; a failure in the middle is undone. Symbolic links are neither walked
 * through nor replaced. */
int fs_edit_diff(const struct fsroot *r, const char *dir, struct slice diff, bool is_dry_run,
                 struct edit_results *ret, struct error *err);
