/* Build-time program: packs a directory into one C file that defines ui_assets[].
 *
 *         embed <directory> <output.c>
 *
 * Runs on the machine that builds, so it is compiled apart from the server with the plain host
 * compiler. The same input gives the same output, byte for byte. */
#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

enum {
        FILES_MAX = 1000,
        FILE_BYTES_MAX = 16 * 1024 * 1024,
        LINE_BYTES = 24, /* of data per source line */
        ETAG_DIGITS = 16,
        HASH_CHARS = 8, /* "index-Bx3kQ_9a.js": what bundlers put before the extension */
};

static const struct {
        const char *suffix, *type;
} types[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".mjs", "text/javascript; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".svg", "image/svg+xml" },
        { ".png", "image/png" },
        { ".ico", "image/x-icon" },
        { ".json", "application/json" },
        { ".map", "application/json" },
        { ".txt", "text/plain; charset=utf-8" },
        { ".wasm", "application/wasm" },
        { ".woff", "font/woff" },
        { ".woff2", "font/woff2" },
        { ".ttf", "font/ttf" },
        { ".eot", "application/vnd.ms-fontobject" },
};

struct list_of_files {
        char *path[FILES_MAX]; /* relative */
        size_t n;
};

static const char *type_of(const char *path)
{
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
                if (str_ends(path, types[i].suffix))
                        return types[i].type;
        return "application/octet-stream";
}

/* Only bundler output lives in assets/. A word in lower-case letters is taken for a word, not for a
 * hash: caching too little is safe. */
static bool is_hashed(const char *path)
{
        const char *dot = strrchr(path, '.'), *hash;
        bool has_other = false;

        if (!str_starts(path, "assets/") || !dot || dot - path < HASH_CHARS + 1)
                return false;
        hash = dot - HASH_CHARS;
        if (hash[-1] != '-')
                return false;
        for (size_t i = 0; i < HASH_CHARS; i++) {
                bool is_lower = hash[i] >= 'a' && hash[i] <= 'z';
                bool is_upper = hash[i] >= 'A' && hash[i] <= 'Z';
                bool is_digit = hash[i] >= '0' && hash[i] <= '9';

                if (!is_lower && !is_upper && !is_digit && hash[i] != '_' && hash[i] != '-')
                        return false;
                has_other |= is_upper || is_digit;
        }
        return has_other;
}

static int find_files(const char *root, const char *rel, struct list_of_files *ret,
                      struct error *err);

static int add_entry(const char *root, const char *rel, struct list_of_files *ret,
                     struct error *err)
{
        _cleanup_free_ char *full = path_join(root, rel);
        struct stat st;

        if (stat(full, &st) < 0)
                return error_set(err, ERR_SYSTEM, errno, "look at '%s'", full);
        if (S_ISDIR(st.st_mode))
                return find_files(root, rel, ret, err);
        if (ret->n == FILES_MAX)
                return error_set(err, ERR_TOO_BIG, 0, "more than %d files", FILES_MAX);
        ret->path[ret->n++] = xstrdup(rel);
        return 0;
}

static int find_files(const char *root, const char *rel, struct list_of_files *ret,
                      struct error *err)
{
        _cleanup_free_ char *full = path_join(root, rel);
        DIR *dir = opendir(full);
        struct dirent *e;
        int r = 0;

        if (!dir)
                return error_set(err, ERR_SYSTEM, errno, "open directory '%s'", full);
        while (r == 0 && (e = readdir(dir))) {
                _cleanup_free_ char *sub = *rel ? path_join(rel, e->d_name) : xstrdup(e->d_name);

                if (e->d_name[0] != '.') /* hidden files stay out */
                        r = add_entry(root, sub, ret, err);
        }
        (void) closedir(dir);
        return r;
}

static int by_path(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static int pack(const struct buf *raw, struct buf *ret, struct error *err)
{
        z_stream z = { .next_in = (Bytef *) raw->data, .avail_in = (uInt) raw->len };
        size_t bound;
        int r;

        if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 9,
                         Z_DEFAULT_STRATEGY) != Z_OK)
                return error_set(err, ERR_SYSTEM, 0, "zlib cannot start");
        bound = deflateBound(&z, (uLong) raw->len);
        z.next_out = (Bytef *) buf_room(ret, bound);
        z.avail_out = (uInt) bound;
        r = deflate(&z, Z_FINISH);
        (void) deflateEnd(&z);
        if (r != Z_STREAM_END)
                return error_set(err, ERR_SYSTEM, 0, "zlib failed with %d", r);
        buf_grew(ret, z.total_out);
        return 0;
}

static void put_etag(struct buf *out, const struct buf *raw)
{
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned n = 0;

        if (EVP_Digest(raw->data, raw->len, digest, &n, EVP_sha256(), NULL) != 1)
                abort();
        buf_puts(out, "\"W/\\\"");
        for (size_t i = 0; i < ETAG_DIGITS / 2; i++)
                buf_printf(out, "%02x", digest[i]);
        buf_puts(out, "\\\"\"");
}

/* A string literal compiles many times faster than a list of numbers. */
static void put_bytes(struct buf *out, size_t i, const struct buf *gz)
{
        buf_printf(out, "static const uint8_t data_%zu[] =", i);
        for (size_t at = 0; at < gz->len; at++) {
                if (at % LINE_BYTES == 0)
                        buf_puts(out, at ? "\"\n        \"" : "\n        \"");
                buf_printf(out, "\\%03o", (unsigned char) gz->data[at]);
        }
        buf_puts(out, "\";\n\n");
}

/* Names go into C strings: the build says no to what would need quoting. */
static int check_name(const char *path, struct error *err)
{
        if (strpbrk(path, "\"\\\n?"))
                return error_set(err, ERR_INVALID, 0,
                                 "file name '%s' has characters that are not allowed", path);
        return path_check_relative(path, strlen(path), err);
}

static int put_file(const char *root, const char *path, size_t i, struct buf *data,
                    struct buf *rows, struct error *err)
{
        _cleanup_free_ char *full = path_join(root, path);
        _cleanup_(buf_done) struct buf raw = { .max_bytes = FILE_BYTES_MAX };
        _cleanup_(buf_done) struct buf gz = { 0 };

        if (check_name(path, err) < 0 || file_read(full, &raw, err) < 0)
                return -1;
        if (pack(&raw, &gz, err) < 0)
                return error_wrap(err, "pack '%s'", path);
        put_bytes(data, i, &gz);
        buf_printf(rows, "        { \"%s\", \"%s\", data_%zu, %zu, %zu, ", path, type_of(path), i,
                   gz.len, raw.len);
        put_etag(rows, &raw);
        buf_printf(rows, ", %d },\n", is_hashed(path));
        return 0;
}

static int embed(const char *root, const char *out_path, struct list_of_files *files,
                 struct error *err)
{
        _cleanup_(buf_done) struct buf data = { 0 }, rows = { 0 };

        if (find_files(root, "", files, err) < 0)
                return -1;
        if (!files->n)
                return error_set(err, ERR_NOT_FOUND, 0, "no files in '%s'", root);
        qsort(files->path, files->n, sizeof(char *), by_path);
        buf_puts(&data, "/* Generated from the page's files; do not edit. */\n#include "
                        "\"ui/assets.h\"\n\n");
        for (size_t i = 0; i < files->n; i++)
                if (put_file(root, files->path[i], i, &data, &rows, err) < 0)
                        return -1;
        buf_puts(&data, "const struct asset ui_assets[] = {\n");
        buf_put(&data, rows.data, rows.len);
        buf_puts(&data, "        { 0 },\n};\n");
        return file_write(out_path, data.data, data.len, 0644, err);
}

int main(int argc, char **argv)
{
        static struct list_of_files files;
        struct error err = { 0 };
        int r;

        if (argc != 3) {
                (void) fprintf(stderr, "usage: embed <directory> <output.c>\n");
                return 2;
        }
        r = embed(argv[1], argv[2], &files, &err);
        for (size_t i = 0; i < files.n; i++)
                free(files.path[i]);
        if (r < 0)
                (void) fprintf(stderr, "embed: %s\n", err.msg);
        return r < 0;
}
