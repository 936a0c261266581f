/* What only the SQLite store can get wrong: files, schemas, limits of the disk. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/macro.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "test-evlog.h"

static void expect_refused(const char *dsn, enum err_kind kind, const char *want)
{
        struct error err = { 0 };
        void *h = NULL;

        EXPECT_INT(store_sqlite.open(dsn, &h, &err), -1);
        EXPECT_STR(err.msg, want);
        EXPECT_INT(err.kind, kind);
}

static void exec_sql(const char *path, const char *sql)
{
        sqlite3 *db;

        EXPECT_INT(sqlite3_open(path, &db), SQLITE_OK);
        EXPECT_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        EXPECT_INT(sqlite3_close(db), SQLITE_OK);
}

static void create_store(const char *path)
{
        struct error err = { 0 };
        void *h;

        EXPECT_OK(store_sqlite.open(path, &h, &err), err);
        store_sqlite.close(h);
}

TEST(sqlite_store_refuses_a_newer_schema)
{
        struct scratch s;
        char want[256];

        scratch_init(&s);
        create_store(s.db);
        exec_sql(s.db, "UPDATE meta SET version = 7");
        (void) snprintf(
                want, sizeof(want),
                "store '%s' was written by a newer version (schema 7, this program knows 2)", s.db);
        expect_refused(s.db, ERR_UNSUPPORTED, want);
        scratch_done(&s);
}

TEST(sqlite_store_refuses_what_is_not_a_database)
{
        static const size_t sizes[] = { 1, 511, 512, 5000 };
        struct scratch s;
        struct error err = { 0 };
        char text[5000], want[256];

        scratch_init(&s);
        memset(text, 'z', sizeof(text));
        (void) snprintf(want, sizeof(want), "store '%s': file is not a database", s.db);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                EXPECT_OK(file_write(s.db, text, sizes[i], 0600, &err), err);
                expect_refused(s.db, ERR_INVALID, want);
        }
        scratch_done(&s);
}

TEST(sqlite_store_refuses_somebody_elses_database)
{
        struct scratch s;
        char want[256];

        scratch_init(&s);
        exec_sql(s.db, "CREATE TABLE recipes (name TEXT)");
        (void) snprintf(want, sizeof(want), "store '%s': the database belongs to another program",
                        s.db);
        expect_refused(s.db, ERR_INVALID, want);
        scratch_done(&s);
}

TEST(sqlite_store_names_why_a_path_cannot_be_opened)
{
        struct scratch s;
        char path[256], want[512];

        scratch_init(&s);
        (void) snprintf(path, sizeof(path), "%s/no/such.db", s.dir);
        (void) snprintf(want, sizeof(want), "open store '%s': No such file or directory", path);
        expect_refused(path, ERR_SYSTEM, want);
        (void) snprintf(want, sizeof(want), "open store '%s': Is a directory", s.dir);
        expect_refused(s.dir, ERR_SYSTEM, want);
        (void) snprintf(path, sizeof(path), "%s.lock", s.dir); /* made beside the directory */
        (void) unlink(path);
        scratch_done(&s);
}

TEST(sqlite_store_checks_its_options)
{
        struct scratch s;
        struct error err = { 0 };
        char dsn[256];
        void *h;

        scratch_init(&s);
        expect_refused("", ERR_INVALID, "store '': the path is empty");
        (void) snprintf(dsn, sizeof(dsn), "%s?sync=maybe", s.db);
        expect_refused(dsn, ERR_INVALID, "store option 'sync=maybe': bad value");
        (void) snprintf(dsn, sizeof(dsn), "%s?sync=full&colour=red", s.db);
        expect_refused(dsn, ERR_INVALID, "store option 'colour' is not known (sync, max_pages)");
        (void) snprintf(dsn, sizeof(dsn), "%s?max_pages=0", s.db);
        expect_refused(dsn, ERR_INVALID, "store option 'max_pages=0': bad value");
        (void) snprintf(dsn, sizeof(dsn), "%s?sync=full&max_pages=100", s.db);
        EXPECT_OK(store_sqlite.open(dsn, &h, &err), err);
        store_sqlite.close(h);
        scratch_done(&s);
}

TEST(sqlite_store_is_for_one_process_and_for_its_user)
{
        struct scratch s;
        struct stat st;
        struct error err = { 0 };
        char want[256];
        void *h;

        scratch_init(&s);
        EXPECT_OK(store_sqlite.open(s.db, &h, &err), err);
        (void) snprintf(want, sizeof(want), "store '%s' is in use by another process", s.db);
        expect_refused(s.db, ERR_CONFLICT, want);
        EXPECT_INT(stat(s.db, &st), 0);
        EXPECT_INT(st.st_mode & 0777, 0600);
        store_sqlite.close(h);
        create_store(s.db); /* free again */
        scratch_done(&s);
}

TEST(sqlite_migration_is_whole_or_nothing)
{
        static const struct sqlite_migration steps[] = {
                { "one", "CREATE TABLE meta (version INTEGER); INSERT INTO meta VALUES (0);" },
                { "two",
                  "CREATE TABLE two (x); INSERT INTO two VALUES (1); INSERT INTO no VALUES (1);" },
                { "two, mended", "CREATE TABLE two (x);" },
        };
        struct sqlite_options o = { 0 };
        struct sqlite_conn *c;
        struct scratch s;
        struct error err = { 0 };
        int64_t n;

        scratch_init(&s);
        exec_sql(s.db, "PRAGMA user_version = 0; VACUUM");
        EXPECT_OK(sqlite_conn_new(s.db, &o, true, &c, &err), err);
        EXPECT_ERR(sqlite_migrate(c, steps, 2, &err), ERR_SYSTEM, err);
        EXPECT(strstr(err.msg, "migrate to schema 2 (two): store '") == err.msg);
        EXPECT(strstr(err.msg, "no such table: no") != NULL);
        EXPECT_OK(sqlite_exec_int(c, "SELECT count(*) FROM sqlite_schema", &n, &err), err);
        EXPECT_INT(n, 0);
        /* Once more, with a step that works. */
        EXPECT_OK(sqlite_migrate(c, (struct sqlite_migration[]) { steps[0], steps[2] }, 2, &err),
                  err);
        EXPECT_OK(sqlite_exec_int(c, "SELECT version FROM meta", &n, &err), err);
        EXPECT_INT(n, 2);
        sqlite_conn_free(c);
        scratch_done(&s);
}

static int64_t count(const char *path, const char *sql)
{
        sqlite3_stmt *q;
        sqlite3 *db;
        int64_t n;

        EXPECT_INT(sqlite3_open(path, &db), SQLITE_OK);
        EXPECT_INT(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
        EXPECT_INT(sqlite3_step(q), SQLITE_ROW);
        n = sqlite3_column_int64(q, 0);
        (void) sqlite3_finalize(q);
        (void) sqlite3_close(db);
        return n;
}

/* As the first version of the schema wrote it: the text is kept here, not taken from the program.
 */
static const char version_1[] =
        "CREATE TABLE meta (version INTEGER NOT NULL) STRICT; INSERT INTO meta VALUES (1);"
        "CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
        "  trimmed INTEGER NOT NULL DEFAULT 0) STRICT;"
        "CREATE TABLE events (topic_id INTEGER NOT NULL, seq INTEGER NOT NULL,"
        "  at_us INTEGER NOT NULL, kind INTEGER NOT NULL, body BLOB NOT NULL,"
        "  PRIMARY KEY (topic_id, seq)) STRICT;"
        "CREATE TABLE docs (key TEXT NOT NULL PRIMARY KEY, doc BLOB NOT NULL)"
        "  STRICT, WITHOUT ROWID;"
        "INSERT INTO topics VALUES (1, 'a', 2), (2, 'b', 0), (3, 'gone', 9);"
        "INSERT INTO events VALUES (1, 3, 30, 5, x'6133'), (1, 4, 40, 5, x''),"
        "  (2, 1, 10, 65535, zeroblob(20000));"
        "INSERT INTO docs VALUES ('s/1', x'7b7d');";

static int see_old_doc(void *arg, const char *key, const char *doc, size_t len)
{
        EXPECT_STR(key, "s/1");
        EXPECT_INT(len, 2);
        EXPECT_MEM(doc, "{}", 2);
        ++*(int *) arg;
        return 0;
}

static void expect_old_range(void *h, const char *topic, uint64_t first, uint64_t last)
{
        struct error err = { 0 };
        uint64_t f, l;

        EXPECT_OK(store_sqlite.range(h, topic, &f, &l, &err), err);
        EXPECT_INT(f, first);
        EXPECT_INT(l, last);
}

static void expect_old_content(void *h)
{
        struct event got[4];
        struct error err = { 0 };
        int docs = 0;

        expect_old_range(h, "a", 3, 4);
        expect_old_range(h, "gone", 10, 9);
        EXPECT_INT(store_sqlite.events(h, "a", 2, got, 2, &err), 2);
        EXPECT_INT(got[0].at_us, 30);
        expect_body(&got[0], "a3");
        expect_body(&got[1], "");
        chunk_unref(got[0].body);
        chunk_unref(got[1].body);
        EXPECT_INT(store_sqlite.events(h, "b", 0, got, 4, &err), 1);
        EXPECT_INT(got[0].kind, 65535);
        EXPECT_INT(got[0].body->len, 20000);
        chunk_unref(got[0].body);
        EXPECT_OK(store_sqlite.docs(h, "", see_old_doc, &docs, &err), err);
        EXPECT_INT(docs, 1);
}

TEST(sqlite_store_of_version_1_keeps_everything_and_takes_pairs)
{
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("new");
        const struct store_op op = {
                .op = OP_EVENT, .key = "a", .ev = { 5, 50, 5, body }, .also = "gone", .also_seq = 10
        };
        struct scratch s;
        struct error err = { 0 };
        void *h;

        scratch_init(&s);
        exec_sql(s.db, version_1);
        for (int i = 0; i < 2; i++) { /* migrated, then opened as it is */
                EXPECT_OK(store_sqlite.open(s.db, &h, &err), err);
                EXPECT_INT(count(s.db, "SELECT version FROM meta"), 2);
                expect_old_content(h);
                store_sqlite.close(h);
        }
        EXPECT_OK(store_sqlite.open(s.db, &h, &err), err);
        EXPECT_OK(store_sqlite.commit(h, &op, 1, &err), err);
        expect_old_range(h, "a", 3, 5);
        expect_old_range(h, "gone", 10, 10);
        EXPECT_OK(store_sqlite.trim(h, "a", 5, &err), err);
        EXPECT_INT(count(s.db, "SELECT count(*) FROM events"), 2); /* of b, and the pair */
        store_sqlite.close(h);
        scratch_done(&s);
}

TEST(sqlite_store_keeps_a_shared_body_once_and_not_too_long)
{
        enum { N = 20 };
        static const char rows[] = "SELECT count(*) FROM events";
        static const char bytes[] = "SELECT coalesce(sum(length(body)), 0) FROM events";
        _cleanup_(chunk_unrefp) struct chunk *body = text_chunk("0123456789");
        struct scratch s;
        struct error err = { 0 };
        void *h;

        scratch_init(&s);
        EXPECT_OK(store_sqlite.open(s.db, &h, &err), err);
        for (uint64_t i = 1; i <= N; i++) {
                const char *key = i % 2 ? "a" : "b", *also = i % 2 ? "b" : "a";
                struct store_op op = {
                        .op = OP_EVENT,
                        .key = key,
                        .ev = { i, 1, 0, body },
                        .also = also,
                        .also_seq = i,
                };

                EXPECT_OK(store_sqlite.commit(h, &op, 1, &err), err);
        }
        EXPECT_INT(count(s.db, bytes), N * 10);
        EXPECT_OK(store_sqlite.trim(h, "a", 15, &err), err);
        EXPECT_INT(count(s.db, rows), N);
        EXPECT_OK(store_sqlite.trim(h, "b", 7, &err), err);
        EXPECT_INT(count(s.db, rows), N - 7);
        EXPECT_OK(store_sqlite.trim(h, "b", 18, &err), err);
        EXPECT_INT(count(s.db, rows), N - 15);
        EXPECT_OK(store_sqlite.trim(h, "a", N, &err), err);
        EXPECT_INT(count(s.db, rows), N - 18);
        EXPECT_OK(store_sqlite.trim(h, "b", N, &err), err);
        EXPECT_INT(count(s.db, rows), 0);
        store_sqlite.close(h);
        scratch_done(&s);
}

/* Commits one event after the other until one is refused; returns the last number that went in. */
static uint64_t fill(void *h, uint64_t first, struct chunk *body, struct error *err)
{
        for (uint64_t seq = first;; seq++) {
                struct store_op op = { .op = OP_EVENT, .key = "t", .ev = { seq, 1, 0, body } };

                if (store_sqlite.commit(h, &op, 1, err) < 0)
                        return seq - 1;
        }
}

static void expect_last(void *h, uint64_t want)
{
        struct error err = { 0 };
        uint64_t first, last;

        EXPECT_OK(store_sqlite.range(h, "t", &first, &last, &err), err);
        EXPECT_INT(last, want);
}

TEST(sqlite_store_says_full_and_works_again_after_a_trim)
{
        _cleanup_(chunk_unrefp) struct chunk *body = chunk_new(3000);
        struct scratch s;
        struct error err = { 0 };
        char dsn[128];
        uint64_t last;
        void *h;

        memset(chunk_bytes(body), 'x', body->len);
        scratch_init(&s);
        (void) snprintf(dsn, sizeof(dsn), "%s?max_pages=40", s.db);
        EXPECT_OK(store_sqlite.open(dsn, &h, &err), err);
        last = fill(h, 1, body, &err);
        EXPECT(last > 10);
        EXPECT_INT(err.kind, ERR_SYSTEM);
        EXPECT_INT(err.sys, ENOSPC);
        EXPECT(strstr(err.msg, "database or disk is full") != NULL);
        expect_last(h, last);
        EXPECT_INT(fill(h, last + 1, body, &err), last); /* and again, the same */
        EXPECT_OK(store_sqlite.trim(h, "t", 10, &err), err);
        EXPECT(fill(h, last + 1, body, &err) > last);
        store_sqlite.close(h);
        scratch_done(&s);
}

/* A real write that fails: the kernel refuses to let the log grow. */
TEST(sqlite_store_survives_a_failing_write)
{
        _cleanup_(chunk_unrefp) struct chunk *body = chunk_new(3000);
        struct rlimit was, tight;
        struct scratch s;
        struct error err = { 0 };
        uint64_t last;
        void *h;

        memset(chunk_bytes(body), 'x', body->len);
        scratch_init(&s);
        EXPECT_OK(store_sqlite.open(s.db, &h, &err), err);
        (void) signal(SIGXFSZ, SIG_IGN);
        EXPECT_INT(getrlimit(RLIMIT_FSIZE, &was), 0);
        tight = (struct rlimit) { 300 * 1024, was.rlim_max };
        EXPECT_INT(setrlimit(RLIMIT_FSIZE, &tight), 0);
        last = fill(h, 1, body, &err);
        EXPECT_INT(setrlimit(RLIMIT_FSIZE, &was), 0);
        (void) signal(SIGXFSZ, SIG_DFL);
        EXPECT_INT(err.kind, ERR_SYSTEM);
        EXPECT_INT(err.sys, EFBIG);
        EXPECT(strstr(err.msg, "disk I/O error: File too large") != NULL);
        expect_last(h, last);
        for (uint64_t seq = last + 1; seq <= last + 3; seq++) {
                struct store_op op = { .op = OP_EVENT, .key = "t", .ev = { seq, 1, 0, body } };

                EXPECT_OK(store_sqlite.commit(h, &op, 1, &err), err);
        }
        expect_last(h, last + 3);
        store_sqlite.close(h);
        create_store(s.db);
        scratch_done(&s);
}
