#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/chunk.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/str.h"

/* error */

TEST(error_set_appends_the_system_reason)
{
        struct error err = {};

        EXPECT_INT(error_set(&err, ERR_NOT_FOUND, ENOENT, "open '%s'", "x"), -1);
        EXPECT_INT(err.kind, ERR_NOT_FOUND);
        EXPECT_INT(err.sys, ENOENT);
        EXPECT_STR(err.msg, "open 'x': No such file or directory");
}

TEST(error_set_names_an_unknown_system_reason)
{
        struct error err = {};

        (void) error_set(&err, ERR_SYSTEM, 99999, "x");
        EXPECT_STR(err.msg, "x: unknown error");
}

TEST(error_wrap_puts_the_outer_story_first)
{
        struct error err = {};

        (void) error_set(&err, ERR_UPSTREAM, 0, "no answer");
        EXPECT_INT(error_wrap(&err, "start '%s'", "a1"), -1);
        EXPECT_STR(err.msg, "start 'a1': no answer");
        EXPECT_INT(err.kind, ERR_UPSTREAM);
}

TEST(error_may_be_nobody_s)
{
        EXPECT_INT(error_set(NULL, ERR_SYSTEM, EIO, "x"), -1);
        EXPECT_INT(error_wrap(NULL, "y"), -1);
}

TEST(error_cuts_a_long_story_and_stays_a_string)
{
        struct error err = {};
        char text[2 * sizeof(err.msg)];

        memset(text, 'x', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        (void) error_set(&err, ERR_SYSTEM, EIO, "%s", text);
        EXPECT_INT(strlen(err.msg), sizeof(err.msg) - 1);
        (void) error_wrap(&err, "outer");
        EXPECT_INT(strlen(err.msg), sizeof(err.msg) - 1);
        EXPECT(str_starts(err.msg, "outer: xxx"));
}

TEST(error_set_forgets_the_members_of_an_earlier_error)
{
        struct error err = { .ext = "\"a\":1" };

        (void) error_set(&err, ERR_INVALID, 0, "x");
        EXPECT(!err.ext);
}

TEST(error_kinds_all_have_a_face)
{
        for (int kind = ERR_OK + 1; kind < ERR__MAX; kind++) {
                const struct err_face *f = &err_faces[kind];

                EXPECT(f->urn && f->title && f->prefix);
                EXPECT(f->http >= 400 && f->http < 600);
                EXPECT(f->rpc < 0);
                EXPECT_INT(f->exit, kind == ERR_USAGE ? 2 : 1);
        }
}

/* arena */

TEST(arena_gives_aligned_pieces_that_do_not_overlap)
{
        struct arena a;
        char *pieces[100];

        arena_init(&a, 0);
        for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
                pieces[i] = arena_alloc(&a, i * 7);
                EXPECT_INT((uintptr_t) pieces[i] % 16, 0);
                memset(pieces[i], (int) i, i * 7);
        }
        for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
                for (size_t k = 0; k < i * 7; k++)
                        EXPECT_INT(pieces[i][k], i);
        arena_done(&a);
}

TEST(arena_refuses_over_its_ceiling_and_keeps_working)
{
        struct arena a;
        size_t given = 0;

        arena_init(&a, 64 * 1024);
        EXPECT(!arena_try(&a, 1024 * 1024));
        EXPECT(!arena_try(&a, SIZE_MAX));
        EXPECT(!arena_try(&a, SIZE_MAX - 15));
        while (given < 1024 * 1024 && arena_try(&a, 1000))
                given += 1000;
        /* the ceiling counts whole blocks, so it is met within two of them */
        EXPECT(given >= 48 * 1024);
        EXPECT(given <= 64 * 1024 + 2 * 4096);
        EXPECT(arena_alloc(&a, 1000));
        arena_done(&a);
        EXPECT(arena_try(&a, 1000));
        arena_done(&a);
}

TEST(arena_done_twice_is_harmless)
{
        struct arena a;

        arena_init(&a, 0);
        (void) arena_alloc(&a, 10000);
        arena_done(&a);
        EXPECT_INT(a.used_bytes, 0);
        arena_done(&a);
}

TEST(arena_strings_are_copies_with_an_end)
{
        struct arena a;

        arena_init(&a, 0);
        EXPECT_STR(arena_strdup(&a, "hello"), "hello");
        EXPECT_STR(arena_strndup(&a, "hello", 2), "he");
        EXPECT_STR(arena_strndup(&a, NULL, 0), "");
        EXPECT_STR(arena_printf(&a, "%s-%d", "x", 7), "x-7");
        arena_done(&a);
}

TEST(arena_zalloc_is_zero_in_used_memory)
{
        struct arena a;
        char zero[512] = {};

        arena_init(&a, 0);
        memset(arena_alloc(&a, 4000), 0xff, 4000);
        arena_done(&a);
        EXPECT_MEM(arena_zalloc(&a, sizeof(zero)), zero, sizeof(zero));
        arena_done(&a);
}

TEST(arena_grows_the_newest_piece_in_place)
{
        struct arena a;
        char *p, *q;

        arena_init(&a, 0);
        p = arena_grow(&a, NULL, 0, 16);
        memcpy(p, "0123456789abcdef", 16);
        q = arena_grow(&a, p, 16, 48);
        EXPECT(q == p);
        (void) arena_alloc(&a, 1);
        q = arena_grow(&a, p, 48, 96);
        EXPECT(q != p);
        EXPECT_MEM(q, "0123456789abcdef", 16);
        EXPECT(arena_grow(&a, q, 96, 10) == q);
        q = arena_grow(&a, q, 96, 100000);
        EXPECT_MEM(q, "0123456789abcdef", 16);
        arena_done(&a);
}

/* chunk */

static int released;
static void count_release(void *arg)
{
        released += *(int *) arg;
}

TEST(chunk_lives_until_its_last_reference)
{
        int one = 1;
        struct chunk *c = chunk_wrap("abc", 3, count_release, &one);

        released = 0;
        EXPECT(chunk_ref(c) == c);
        EXPECT(!chunk_unref(c));
        EXPECT_INT(released, 0);
        EXPECT_MEM(c->data, "abc", 3);
        EXPECT(!chunk_unref(c));
        EXPECT_INT(released, 1);
        EXPECT(!chunk_unref(NULL));
}

TEST(chunk_copy_is_a_copy)
{
        char text[] = "abc";
        _cleanup_(chunk_unrefp) struct chunk *c = chunk_copy(text, 3);
        _cleanup_(chunk_unrefp) struct chunk *empty = chunk_copy(NULL, 0);

        text[0] = 'x';
        EXPECT_INT(c->len, 3);
        EXPECT_MEM(c->data, "abc", 3);
        EXPECT_INT(empty->len, 0);
}

TEST(chunk_wrap_may_have_nothing_to_release)
{
        EXPECT(!chunk_unref(chunk_wrap("static", 6, NULL, NULL)));
}

/* buf */

TEST(buf_takes_what_fits_its_ceiling_and_no_byte_more)
{
        struct buf b = { .max_bytes = 8 };
        struct error err = {};

        EXPECT_OK(buf_add(&b, "1234567", 7, &err), err);
        EXPECT_ERR(buf_add(&b, "89", 2, &err), ERR_TOO_BIG, err);
        EXPECT_STR(b.data, "1234567");
        EXPECT_OK(buf_add(&b, "8", 1, &err), err);
        EXPECT_ERR(buf_add(&b, "9", 1, &err), ERR_TOO_BIG, err);
        EXPECT_ERR(buf_add(&b, "9", SIZE_MAX, &err), ERR_TOO_BIG, err);
        EXPECT_OK(buf_add(&b, "", 0, &err), err);
        EXPECT_STR(b.data, "12345678");
        buf_done(&b);
}

TEST(buf_is_a_string_at_every_step)
{
        struct buf b = {};

        buf_puts(&b, "a");
        EXPECT_STR(b.data, "a");
        buf_putc(&b, 'b');
        EXPECT_STR(b.data, "ab");
        buf_printf(&b, "%03d", 7);
        EXPECT_STR(b.data, "ab007");
        buf_put(&b, "\0x", 2);
        EXPECT_INT(b.len, 7);
        EXPECT_MEM(b.data, "ab007\0x", 8);
        buf_clear(&b);
        EXPECT_STR(b.data, "");
        buf_done(&b);
        EXPECT(!b.data);
}

TEST(buf_prints_numbers_at_their_limits)
{
        struct buf b = {};

        buf_putu(&b, 0);
        buf_putc(&b, ' ');
        buf_putu(&b, UINT64_MAX);
        EXPECT_STR(b.data, "0 18446744073709551615");
        buf_done(&b);
}

TEST(buf_drop_removes_from_the_front)
{
        struct buf b = {};

        buf_drop(&b, 0);
        buf_drop(&b, 5);
        buf_puts(&b, "abcdef");
        buf_drop(&b, 2);
        EXPECT_STR(b.data, "cdef");
        EXPECT_INT(b.len, 4);
        buf_drop(&b, 4);
        EXPECT_STR(b.data, "");
        buf_puts(&b, "x");
        buf_drop(&b, 100);
        EXPECT_INT(b.len, 0);
        buf_done(&b);
}

TEST(buf_room_is_written_in_place)
{
        struct buf b = {};

        buf_puts(&b, "ab");
        memset(buf_room(&b, 1000), 'x', 1000);
        buf_grew(&b, 1000);
        EXPECT_INT(b.len, 1002);
        EXPECT_INT(strlen(b.data), 1002);
        buf_done(&b);
}

TEST(buf_take_leaves_an_empty_buffer)
{
        struct buf b = {};
        _cleanup_free_ char *empty = buf_take(&b);
        _cleanup_free_ char *text = NULL;
        _cleanup_(chunk_unrefp) struct chunk *c = NULL;

        EXPECT_STR(empty, "");
        buf_puts(&b, "one");
        text = buf_take(&b);
        EXPECT_STR(text, "one");
        EXPECT(!b.data && !b.len);
        buf_put(&b, "t\0o", 3);
        c = buf_take_chunk(&b);
        EXPECT_INT(c->len, 3);
        EXPECT_MEM(c->data, "t\0o", 3);
        EXPECT(!b.data);
}

/* map */

TEST(map_keeps_thousands_of_keys_through_growth_and_removal)
{
        enum { N = 5000 };
        static int values[N];
        struct map m = {};
        char key[16];

        for (int i = 0; i < N; i++) {
                (void) snprintf(key, sizeof(key), "key-%d", i);
                EXPECT(!map_set(&m, key, &values[i]));
        }
        EXPECT_INT(m.n, N);
        for (int i = 0; i < N; i += 2) {
                (void) snprintf(key, sizeof(key), "key-%d", i);
                EXPECT(map_del(&m, key) == &values[i]);
                EXPECT(!map_del(&m, key));
        }
        for (int i = 0; i < N; i++) {
                (void) snprintf(key, sizeof(key), "key-%d", i);
                EXPECT(map_get(&m, key) == (i % 2 ? &values[i] : NULL));
        }
        EXPECT_INT(m.n, N / 2);
        map_done(&m);
        EXPECT(!map_get(&m, "key-1"));
}

TEST(map_set_returns_what_was_there)
{
        int one, two;
        struct map m = {};

        EXPECT(!map_set(&m, "k", &one));
        EXPECT(map_set(&m, "k", &two) == &one);
        EXPECT(map_get(&m, "k") == &two);
        EXPECT_INT(m.n, 1);
        map_done(&m);
}

TEST(map_getn_compares_exactly_that_many_bytes)
{
        int v;
        struct map m = {};

        (void) map_set(&m, "ab", &v);
        EXPECT(map_getn(&m, "abc", 2) == &v);
        EXPECT(!map_getn(&m, "abc", 3));
        EXPECT(!map_getn(&m, "abc", 1));
        EXPECT(!map_getn(&m, "", 0));
        map_done(&m);
}

TEST(map_does_not_grow_from_setting_and_removing)
{
        int v;
        struct map m = {};
        char key[16];

        for (int i = 0; i < 10000; i++) {
                (void) snprintf(key, sizeof(key), "%d", i);
                (void) map_set(&m, key, &v);
                (void) map_del(&m, key);
        }
        EXPECT(m.cap <= 64);
        EXPECT_INT(m.n, 0);
        map_done(&m);
}

TEST(map_next_visits_all_while_the_current_one_is_removed)
{
        int v[20];
        struct map m = {};
        size_t it = 0, seen = 0;
        const char *key;
        void *value;

        for (size_t i = 0; i < ARRAY_LEN(v); i++) {
                char name[8];

                (void) snprintf(name, sizeof(name), "%zu", i);
                (void) map_set(&m, name, &v[i]);
        }
        while ((it = map_next(&m, it, &key, &value))) {
                seen++;
                EXPECT(map_del(&m, key) == value);
        }
        EXPECT_INT(seen, ARRAY_LEN(v));
        EXPECT_INT(m.n, 0);
        EXPECT_INT(map_next(&m, 0, NULL, NULL), 0);
        map_done(&m);
}

/* list */

struct item {
        int n;
        struct list in;
};

static void expect_items(struct list *l, const char *want)
{
        char seen[32] = "";
        size_t len = 0;

        list_for_each (n, l)
                seen[len++] = (char) ('0' + LIST_ENTRY(n, struct item, in)->n);
        EXPECT_STR(seen, want);
}

TEST(list_keeps_order_and_forgives_removing_twice)
{
        struct item items[4];
        struct list l;

        list_init(&l);
        EXPECT(list_empty(&l));
        for (int i = 0; i < 4; i++) {
                items[i].n = i;
                list_push(&l, &items[i].in);
        }
        expect_items(&l, "0123");
        list_remove(&items[1].in);
        list_remove(&items[1].in);
        EXPECT(list_empty(&items[1].in));
        expect_items(&l, "023");
        list_for_each_safe (n, next, &l)
                list_remove(n);
        EXPECT(list_empty(&l));
}

TEST(list_splice_moves_everything_behind)
{
        struct item items[4];
        struct list a, b;

        list_init(&a);
        list_init(&b);
        for (int i = 0; i < 4; i++) {
                items[i].n = i;
                list_push(i < 2 ? &a : &b, &items[i].in);
        }
        list_splice(&a, &b);
        expect_items(&a, "0123");
        EXPECT(list_empty(&b));
        list_splice(&a, &b);
        expect_items(&a, "0123");
        list_splice(&b, &a);
        expect_items(&b, "0123");
}

/* secret, rand */

TEST(secret_matches_itself_only)
{
        struct secret *s = secret_new("hunter2-tail", 7);
        size_t len;

        EXPECT(secret_matches(s, "hunter2", 7));
        EXPECT(!secret_matches(s, "hunter2-", 8));
        EXPECT(!secret_matches(s, "hunter", 6));
        EXPECT(!secret_matches(s, "", 0));
        EXPECT_STR(secret_reveal(s, &len), "hunter2");
        EXPECT_INT(len, 7);
        EXPECT_STR(secret_reveal(s, NULL), "hunter2");
        EXPECT(!secret_free(s));
        EXPECT(!secret_free(NULL));
}

TEST(rand_hex_is_hex_of_that_length_and_never_twice_the_same)
{
        char a[33], b[33];

        rand_hex(a, 32);
        rand_hex(b, 32);
        EXPECT_INT(strlen(a), 32);
        EXPECT_INT(strspn(a, "0123456789abcdef"), 32);
        EXPECT(strcmp(a, b) != 0);
        rand_hex(a, 0);
        EXPECT_STR(a, "");
}
