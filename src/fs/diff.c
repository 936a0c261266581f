/* Unified diffs: reading them, and applying one to a text. Memory in, memory out. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "fs/beneath.h"
#include "fs/edit.h"

/* Where we are in the diff. */
struct cursor {
        struct slice rest;
        size_t line; /* of the line read last, from 1 */
};

/* Without its line feed. A last line without one counts as a line too. */
static bool next_line(struct cursor *c, struct slice *ret)
{
        const char *end;

        if (!c->rest.len)
                return false;
        end = memchr(c->rest.at, '\n', c->rest.len);
        ret->at = c->rest.at;
        ret->len = end ? (size_t) (end - c->rest.at) : c->rest.len;
        c->rest.at += ret->len + (end ? 1 : 0);
        c->rest.len -= ret->len + (end ? 1 : 0);
        c->line++;
        return true;
}

static bool starts(struct slice s, const char *prefix)
{
        size_t n = strlen(prefix);

        return s.len >= n && memcmp(s.at, prefix, n) == 0;
}

static struct slice behind(struct slice s, const char *prefix)
{
        size_t n = strlen(prefix);

        return (struct slice) { s.at + n, s.len - n };
}

static struct slice without_cr(struct slice s)
{
        if (s.len && s.at[s.len - 1] == '\r')
                s.len--;
        return s;
}

/* ---- hunks ---- */

struct hunk {
        uint64_t old_start, old_count, new_count;
        size_t line;                 /* of its header in the diff */
        struct buf old, new;         /* lines with their line feeds */
        bool old_is_end, new_is_end; /* the last line of the file, without line feed */
};

static void hunk_done(struct hunk *h)
{
        buf_done(&h->old);
        buf_done(&h->new);
}

static bool cut_number(struct slice *s, uint64_t *ret)
{
        size_t n = 0;

        while (n < s->len && s->at[n] >= '0' && s->at[n] <= '9')
                n++;
        if (n > 18 || !str_to_u64(s->at, n, ret))
                return false;
        s->at += n;
        s->len -= n;
        return true;
}

/* "12,3" or "12", which means "12,1" */
static bool cut_range(struct slice *s, uint64_t *ret_start, uint64_t *ret_count)
{
        *ret_count = 1;
        if (!cut_number(s, ret_start))
                return false;
        if (!starts(*s, ","))
                return true;
        *s = behind(*s, ",");
        return cut_number(s, ret_count);
}

static bool parse_hunk_header(struct slice s, struct hunk *h)
{
        uint64_t new_start;

        if (!starts(s, "@@ -"))
                return false;
        s = behind(s, "@@ -");
        if (!cut_range(&s, &h->old_start, &h->old_count) || !starts(s, " +"))
                return false;
        s = behind(s, " +");
        return cut_range(&s, &new_start, &h->new_count) && starts(s, " @@") &&
               (h->old_start || !h->old_count);
}

static void add_line(struct buf *b, struct slice s)
{
        buf_put(b, s.at, s.len);
        buf_putc(b, '\n');
}

/* "\ No newline at end of file" is about the line before it. */
static bool mark_end(struct hunk *h, char last)
{
        bool is_old = last == ' ' || last == '-', is_new = last == ' ' || last == '+';

        if ((!is_old && !is_new) || (is_old && h->old_is_end) || (is_new && h->new_is_end))
                return false;
        if (is_old) {
                h->old_is_end = true;
                h->old.data[--h->old.len] = '\0';
        }
        if (is_new) {
                h->new_is_end = true;
                h->new.data[--h->new.len] = '\0';
        }
        return true;
}

/* One line of a hunk's body; what it was, or 0 if it cannot stand here. */
static char take_line(struct hunk *h, struct slice s, uint64_t *old_left, uint64_t *new_left)
{
        /* Editors that cut blanks off make an empty line of an empty context line. */
        char kind = s.len && s.at[0] != '\r' ? s.at[0] : ' ';
        bool is_old = kind == ' ' || kind == '-', is_new = kind == ' ' || kind == '+';
        struct slice text = s.len && s.at[0] == kind ? behind(s, " ") : s;

        if ((!is_old && !is_new) || (is_old && (!*old_left || h->old_is_end)) ||
            (is_new && (!*new_left || h->new_is_end)))
                return 0;
        if (is_old) {
                add_line(&h->old, text);
                --*old_left;
        }
        if (is_new) {
                add_line(&h->new, text);
                --*new_left;
        }
        return kind;
}

static int bad_hunk(const struct cursor *c, const struct hunk *h, struct error *err)
{
        return error_set(err, ERR_INVALID, 0,
                         "line %zu of the diff: the hunk of line %zu does not have the lines that "
                         "its header counts",
                         c->line, h->line);
}

/* The cursor stands behind the header line `head`; *h is empty. */
static int read_hunk(struct cursor *c, struct slice head, struct hunk *h, struct error *err)
{
        uint64_t old_left, new_left;
        struct slice s;
        char last = 0;

        h->line = c->line;
        if (!parse_hunk_header(head, h))
                return error_set(err, ERR_INVALID, 0,
                                 "line %zu of the diff: bad hunk header '%.*s'", c->line,
                                 (int) MIN(head.len, (size_t) 60), head.at);
        old_left = h->old_count;
        new_left = h->new_count;
        for (;;) {
                struct cursor before = *c;
                bool is_over = !old_left && !new_left;

                if (!next_line(c, &s))
                        return is_over ? 0 : bad_hunk(c, h, err);
                if (starts(s, "\\")) {
                        if (!mark_end(h, last))
                                return bad_hunk(c, h, err);
                        last = 0;
                } else if (is_over) {
                        *c = before;
                        return 0;
                } else {
                        last = take_line(h, s, &old_left, &new_left);
                        if (!last)
                                return bad_hunk(c, h, err);
                }
        }
}

/* ---- applying ---- */

struct apply {
        struct slice text;
        size_t pos;    /* bytes of text that are done */
        uint64_t line; /* lines of text that are done */
        uint64_t work; /* bytes looked at */
        int64_t shift; /* how far the last hunk was from where it said */
        struct buf *out;
};

/* Does the hunk's old side stand at this place? Its cost depends on what is compared. */
static bool fits_at(struct apply *a, const struct hunk *h, size_t at)
{
        size_t left = a->text.len - at, same = 0;

        if (left < h->old.len || (h->old_is_end && left != h->old.len))
                return false;
        while (same < h->old.len) { /* in pieces, so that the work can be counted */
                size_t n = MIN(h->old.len - same, (size_t) 256);

                a->work += n;
                if (memcmp(a->text.at + at + same, h->old.data + same, n) != 0)
                        return false;
                same += n;
        }
        return true;
}

/* The start of the next line, or of the one before; false at the ends. */
static bool line_after(struct apply *a, size_t *at)
{
        const char *end = memchr(a->text.at + *at, '\n', a->text.len - *at);

        if (!end)
                return false;
        a->work += (size_t) (end - a->text.at) - *at + 16;
        *at = (size_t) (end - a->text.at) + 1;
        return true;
}

static bool line_before(struct apply *a, size_t *at)
{
        const char *end;
        size_t to = a->pos;

        if (*at <= a->pos)
                return false;
        end = memrchr(a->text.at + a->pos, '\n', *at - 1 - a->pos);
        if (end)
                to = (size_t) (end - a->text.at) + 1;
        a->work += *at - to + 16;
        *at = to;
        return true;
}

/* The line that the hunk asks for, or the last one before it that there is. */
static size_t seek_line(struct apply *a, uint64_t want, uint64_t *ret_line)
{
        size_t at = a->pos;

        *ret_line = a->line;
        while (*ret_line < want && line_after(a, &at))
                ++*ret_line;
        return at;
}

/* Outward from the wanted line, the nearest first. 1 = found. */
static int find_near(struct apply *a, const struct hunk *h, size_t *at, uint64_t *line)
{
        size_t down = *at, up = *at;
        uint64_t down_line = *line, up_line = *line;
        bool has_down = true, has_up = true;

        if (fits_at(a, h, *at))
                return 1;
        while (has_down || has_up) {
                if (a->work > DIFF_WORK_MAX)
                        return 0;
                has_down = has_down && line_after(a, &down);
                if (has_down) {
                        down_line++;
                        if (fits_at(a, h, down)) {
                                *at = down;
                                *line = down_line;
                                return 1;
                        }
                }
                has_up = has_up && line_before(a, &up);
                if (has_up) {
                        up_line--;
                        if (fits_at(a, h, up)) {
                                *at = up;
                                *line = up_line;
                                return 1;
                        }
                }
        }
        return 0;
}

static int find_place(struct apply *a, const struct hunk *h, size_t *ret_at, uint64_t *ret_line)
{
        /* "-7,0" means behind line 7, "-7,2" begins with line 7. */
        int64_t want = (int64_t) (h->old_count ? h->old_start - 1 : h->old_start) + a->shift;

        *ret_at = seek_line(a, want < 0 ? 0 : (uint64_t) want, ret_line);
        if (h->old.len)
                return find_near(a, h, ret_at, ret_line);
        /* Nothing to look for: the line itself is all there is to go by. */
        return want >= 0 && *ret_line == (uint64_t) want &&
               (!*ret_at || a->text.at[*ret_at - 1] == '\n');
}

static int apply_hunk(struct apply *a, const struct hunk *h, unsigned n, struct error *err)
{
        uint64_t want = h->old_count ? h->old_start - 1 : h->old_start, line;
        size_t at, end;

        if (!find_place(a, h, &at, &line))
                return error_set(err, ERR_CONFLICT, 0,
                                 "hunk %u (line %zu of the diff) does not fit at line %llu", n,
                                 h->line, (unsigned long long) h->old_start);
        end = at + h->old.len;
        /* A line without its feed can only be the last one. */
        if (h->new_is_end && end != a->text.len)
                return error_set(err, ERR_CONFLICT, 0,
                                 "hunk %u (line %zu of the diff) ends the file at line %llu, but "
                                 "more follows",
                                 n, h->line, (unsigned long long) line + h->old_count);
        if (buf_add(a->out, a->text.at + a->pos, at - a->pos, err) < 0 ||
            buf_add(a->out, h->new.data, h->new.len, err) < 0)
                return -1;
        a->pos = end;
        a->line = line + h->old_count;
        a->shift = (int64_t) line - (int64_t) want;
        return 0;
}

int diff_apply(const struct diff_file *f, struct slice text, struct buf *ret, unsigned *ret_hunks,
               struct error *err)
{
        struct cursor c = { f->hunks, f->line - 1 };
        struct apply a = { .text = text, .out = ret };
        struct slice head;
        unsigned n = 0;

        if (!text.len)
                a.text.at = ""; /* an empty text may have no address */
        while (next_line(&c, &head)) {
                _cleanup_(hunk_done) struct hunk h = { 0 };

                if (read_hunk(&c, head, &h, err) < 0 || apply_hunk(&a, &h, ++n, err) < 0)
                        return -1;
        }
        if (buf_add(ret, a.text.at + a.pos, text.len - a.pos, err) < 0)
                return -1;
        *ret_hunks = n;
        return 0;
}

/* ---- files ---- */

/* The file whose headers are being read. */
struct head {
        bool is_open, is_git, is_new, is_deleted;
        struct slice git_names;          /* behind "diff --git " */
        struct slice old_line, new_line; /* behind "--- " and "+++ "; at NULL = not there */
        struct slice rename_from, rename_to;
        struct diff_file f;
};

struct parse {
        struct cursor c;
        struct head head;
        struct diff *out;
        size_t cap;
};

static int bad_line(const struct parse *p, const char *why, struct error *err)
{
        return error_set(err, ERR_INVALID, 0, "line %zu of the diff: %s", p->c.line, why);
}

void diff_done(struct diff *d)
{
        for (size_t i = 0; i < d->n_files; i++) {
                free(d->files[i].old_path);
                free(d->files[i].new_path);
        }
        free(d->files);
        *d = (struct diff) { 0 };
}

/* One escape of git's quoted names, `s` behind the backslash; bytes used, or 0. */
static size_t unescape(struct slice s, char *ret)
{
        static const char from[] = "abtnvfr\"\\", to[] = "\a\b\t\n\v\f\r\"\\";
        const char *p = s.len && s.at[0] ? strchr(from, s.at[0]) : NULL;
        unsigned v = 0;

        if (p) {
                *ret = to[p - from];
                return 1;
        }
        if (s.len < 3)
                return 0;
        for (size_t i = 0; i < 3; i++) {
                if (s.at[i] < '0' || s.at[i] > '7')
                        return 0;
                v = v * 8 + (unsigned) (s.at[i] - '0');
        }
        *ret = (char) v;
        return v && v < 256 ? 3 : 0;
}

/* A name at the front of *s, in new memory: quoted, or up to a tab. NULL when the quotes are
 * broken. *s is then what follows. */
static char *cut_name(struct slice *s)
{
        struct buf b = { 0 };
        size_t i = 1;

        if (!starts(*s, "\"")) {
                const char *tab = s->len ? memchr(s->at, '\t', s->len) : NULL;
                size_t n = tab ? (size_t) (tab - s->at) : s->len;
                char *name = xstrndup(s->at ? s->at : "", n);

                *s = (struct slice) { s->at + n, s->len - n };
                return name;
        }
        while (i < s->len && s->at[i] != '"') {
                char c = s->at[i++];

                if (c == '\\') {
                        size_t n = unescape((struct slice) { s->at + i, s->len - i }, &c);

                        if (!n)
                                break;
                        i += n;
                }
                buf_putc(&b, c);
        }
        if (i >= s->len || s->at[i] != '"') {
                buf_done(&b);
                return NULL;
        }
        *s = (struct slice) { s->at + i + 1, s->len - i - 1 };
        return buf_take(&b);
}

/* GNU diff -N writes the beginning of time for a file that is not there. */
static bool is_epoch(struct slice stamp)
{
        return (starts(stamp, "\t1970-01-01 ") || starts(stamp, "\t1969-12-31 ")) &&
               memmem(stamp.at, stamp.len, ":00.000000000 ", 14) != NULL;
}

/* The names of a "--- " or "+++ " line; *ret NULL for no file. */
static int line_name(struct slice s, bool is_git, char **ret)
{
        char *name = cut_name(&s);

        *ret = NULL;
        if (!name)
                return -1;
        if (strcmp(name, "/dev/null") == 0 || (!is_git && is_epoch(s)))
                free(name);
        else
                *ret = name;
        return 0;
}

/* "a/x b/x" or quoted: only asked where both names are the same but for the first letter. */
static int git_names(struct slice s, char **ret_old, char **ret_new)
{
        size_t half = s.len / 2;

        if (starts(s, "\"")) {
                *ret_old = cut_name(&s);
                if (!*ret_old || !starts(s, " "))
                        return -1;
                s = behind(s, " ");
                *ret_new = cut_name(&s);
                return *ret_new ? 0 : -1;
        }
        if (s.len % 2 == 0 || s.at[half] != ' ')
                return -1;
        *ret_old = xstrndup(s.at, half);
        *ret_new = xstrndup(s.at + half + 1, half);
        return 0;
}

static void strip_prefixes(char **old, char **new)
{
        if ((*old && !str_starts(*old, "a/")) || (*new && !str_starts(*new, "b/")))
                return;
        for (char **p = old; p; p = p == old ? new : NULL)
                if (*p)
                        memmove(*p, *p + 2, strlen(*p) - 1);
}

static int raw_names(const struct head *h, char **ret_old, char **ret_new)
{
        struct slice from = h->rename_from, to = h->rename_to;

        if (h->f.is_rename) {
                *ret_old = cut_name(&from);
                *ret_new = cut_name(&to);
                return *ret_old && *ret_new ? 0 : -1;
        }
        if (h->old_line.at) {
                if (line_name(h->old_line, h->is_git, ret_old) < 0 ||
                    line_name(h->new_line, h->is_git, ret_new) < 0)
                        return -1;
        } else if (git_names(h->git_names, ret_old, ret_new) < 0) {
                return -1;
        }
        strip_prefixes(ret_old, ret_new);
        return 0;
}

static int clean_name(const char *raw, bool is_absent, char **ret, struct error *err)
{
        if (!raw || is_absent)
                return 0;
        if (beneath_clean(raw, strlen(raw), ret, err) < 0)
                return -1;
        return **ret ? 0 : error_set(err, ERR_INVALID, 0, "invalid relative path: %s", raw);
}

static int set_names(struct parse *p, struct error *err)
{
        _cleanup_free_ char *old = NULL, *new = NULL;
        struct head *h = &p->head;

        h->f.is_rename = h->rename_from.at && h->rename_to.at;
        if (raw_names(h, &old, &new) < 0)
                return bad_line(p, "the names of the files are not clear", err);
        if (clean_name(old, h->is_new, &h->f.old_path, err) < 0 ||
            clean_name(new, h->is_deleted, &h->f.new_path, err) < 0)
                return -1;
        if (!h->f.old_path && !h->f.new_path)
                return bad_line(p, "neither side names a file", err);
        if (!h->f.hunks.len && !h->f.is_rename && !h->f.mode && !h->is_new && !h->is_deleted)
                return bad_line(p, "no hunk for this file", err);
        return 0;
}

/* The headers (and hunks) of a file are complete. */
static int close_file(struct parse *p, struct error *err)
{
        struct diff *d = p->out;
        bool is_open = p->head.is_open;

        p->head.is_open = false;
        if (!is_open)
                return 0;
        if (d->n_files == EDIT_FILES_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "the diff has more than %d files",
                                 EDIT_FILES_MAX);
        if (set_names(p, err) < 0) {
                free(p->head.f.old_path);
                free(p->head.f.new_path);
                return -1;
        }
        if (d->n_files == p->cap) {
                p->cap = p->cap ? p->cap * 2 : 8;
                d->files = xrealloc(d->files, p->cap * sizeof(d->files[0]));
        }
        d->files[d->n_files++] = p->head.f;
        return 0;
}

static int open_file(struct parse *p, bool is_git, struct slice names, struct error *err)
{
        if (close_file(p, err) < 0)
                return -1;
        p->head = (struct head) { .is_open = true, .is_git = is_git, .git_names = names };
        return 0;
}

/* "100644": regular files only, links and submodules are not text. */
static int take_mode(struct parse *p, struct slice s, struct error *err)
{
        unsigned mode = 0;

        for (size_t i = 0; i < s.len && i < 8 && s.at[i] >= '0' && s.at[i] <= '7'; i++)
                mode = mode * 8 + (unsigned) (s.at[i] - '0');
        if ((mode & ~0777u) != 0100000u)
                return error_set(err, ERR_UNSUPPORTED, 0,
                                 "line %zu of the diff: mode '%.*s' is not that of a file",
                                 p->c.line, (int) MIN(s.len, (size_t) 20), s.at);
        p->head.f.mode = mode & 0777u;
        return 0;
}

static int take_git_header(struct parse *p, struct slice s, struct error *err)
{
        struct head *h = &p->head;

        if (starts(s, "rename from "))
                h->rename_from = behind(s, "rename from ");
        else if (starts(s, "rename to "))
                h->rename_to = behind(s, "rename to ");
        else if (starts(s, "new mode "))
                return take_mode(p, behind(s, "new mode "), err);
        else if (starts(s, "new file mode ")) {
                h->is_new = true;
                return take_mode(p, behind(s, "new file mode "), err);
        } else if (starts(s, "deleted file mode "))
                h->is_deleted = true;
        else if (starts(s, "copy from "))
                return error_set(err, ERR_UNSUPPORTED, 0,
                                 "line %zu of the diff: copies are not understood", p->c.line);
        return 0;
}

/* A line of a hunk that no header counts would be lost without a word. */
static int check_behind_hunks(const struct parse *p, struct error *err)
{
        struct cursor look = p->c;
        struct slice s, next;

        if (!next_line(&look, &s) || !s.len || (s.at[0] != ' ' && s.at[0] != '+' && s.at[0] != '-'))
                return 0;
        if (starts(s, "-- ") || slice_eq(without_cr(s), "--"))
                return 0; /* the signature of a mail */
        if (starts(s, "--- ") && next_line(&look, &next) && starts(next, "+++ "))
                return 0;
        return error_set(err, ERR_INVALID, 0,
                         "line %zu of the diff: more lines than the hunk's header counts",
                         p->c.line + 1);
}

static int take_hunks(struct parse *p, struct error *err)
{
        const char *begin = p->c.rest.at;
        struct cursor before = p->c;
        struct slice s;

        p->head.f.line = p->c.line + 1;
        while (next_line(&p->c, &s) && starts(s, "@@ ")) {
                _cleanup_(hunk_done) struct hunk h = { 0 };

                if (read_hunk(&p->c, s, &h, err) < 0)
                        return -1;
                before = p->c;
        }
        p->c = before;
        p->head.f.hunks = (struct slice) { begin, (size_t) (p->c.rest.at - begin) };
        if (p->head.f.hunks.len && check_behind_hunks(p, err) < 0)
                return -1;
        return close_file(p, err);
}

/* "--- " followed by "+++ " and the hunks. */
static int take_names(struct parse *p, struct slice s, struct error *err)
{
        struct cursor look = p->c;
        struct slice next;

        if (!next_line(&look, &next) || !starts(next, "+++ "))
                return 0; /* a ruler in the text around */
        if (!(p->head.is_open && p->head.is_git) && open_file(p, false, s, err) < 0)
                return -1;
        p->c = look;
        p->head.old_line = behind(s, "--- ");
        p->head.new_line = behind(without_cr(next), "+++ ");
        return take_hunks(p, err);
}

static int take_any(struct parse *p, struct slice s, struct error *err)
{
        if (starts(s, "diff --git "))
                return open_file(p, true, behind(s, "diff --git "), err);
        if (starts(s, "--- "))
                return take_names(p, s, err);
        if (starts(s, "@@ -"))
                return bad_line(p, "a hunk without the names of its file", err);
        if (starts(s, "GIT binary patch") || starts(s, "Binary files "))
                return error_set(err, ERR_UNSUPPORTED, 0,
                                 "line %zu of the diff: binary files cannot be patched", p->c.line);
        return p->head.is_open ? take_git_header(p, s, err) : 0;
}

int diff_parse(struct slice text, struct diff *ret, struct error *err)
{
        _cleanup_(diff_done) struct diff d = { 0 };
        struct parse p = { .c = { text, 0 }, .out = &d };
        struct slice s;

        while (next_line(&p.c, &s))
                if (take_any(&p, without_cr(s), err) < 0)
                        return -1;
        if (close_file(&p, err) < 0)
                return -1;
        if (!d.n_files)
                return error_set(err, ERR_INVALID, 0, "there is no file in the diff");
        *ret = d;
        d = (struct diff) { 0 };
        return 0;
}
