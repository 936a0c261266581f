#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "store/sqlite.h"

enum {
        BUSY_MS = 5000,   /* somebody looks into the file with another program */
        CACHE_KIB = 1024, /* per connection; the kernel's page cache does the rest */
        CHECKPOINT_PAGES =
                4000, /* 16 MB of log: half the checkpoints of the default, +20 % appends */
        LOG_KEEP_BYTES = 64 * 1024 * 1024, /* a log that once grew is cut back to this */
};

/* A topic's events are those that were written to it and those that it has as the second topic: two
 * indexes of one table, merged by number. What a topic has trimmed may still be there for the other
 * one, so each question begins behind topics.trimmed; all in one statement, for one snapshot. A
 * trim looks at what is new behind the last one and takes the rows that nobody else wants. */
static const char *const sql_texts[SQL__MAX] = {
        [SQL_BEGIN] = "BEGIN IMMEDIATE",
        [SQL_COMMIT] = "COMMIT",
        [SQL_TOPIC_FIND] =
                "SELECT id, trimmed, max(trimmed,"
                " coalesce((SELECT max(seq) FROM events WHERE topic_id = topics.id), 0),"
                " coalesce((SELECT max(also_seq) FROM events WHERE also_id = topics.id), 0))"
                " FROM topics WHERE name = ?1",
        [SQL_TOPIC_ADD] = "INSERT INTO topics (name) VALUES (?1)",
        [SQL_EVENT_ADD] = "INSERT INTO events (topic_id, seq, at_us, kind, body, also_id, also_seq)"
                          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [SQL_EVENT_LIST] = "SELECT seq, at_us, kind, body FROM events"
                           " WHERE topic_id = (SELECT id FROM topics WHERE name = ?1)"
                           " AND seq > max(?2, (SELECT trimmed FROM topics WHERE name = ?1))"
                           " UNION ALL SELECT also_seq, at_us, kind, body FROM events"
                           " WHERE also_id = (SELECT id FROM topics WHERE name = ?1)"
                           " AND also_seq > max(?2, (SELECT trimmed FROM topics WHERE name = ?1))"
                           " ORDER BY 1 LIMIT ?3",
        [SQL_EVENT_TRIM] = "DELETE FROM events WHERE topic_id = ?1 AND seq > ?2 AND seq <= ?3"
                           " AND (also_id IS NULL"
                           " OR also_seq <= (SELECT trimmed FROM topics WHERE id = also_id))",
        [SQL_ALSO_TRIM] = "DELETE FROM events WHERE also_id = ?1 AND also_seq > ?2"
                          " AND also_seq <= ?3"
                          " AND seq <= (SELECT trimmed FROM topics WHERE id = topic_id)",
        [SQL_TOPIC_TRIM] = "UPDATE topics SET trimmed = ?3 WHERE id = ?1",
        [SQL_DOC_PUT] = "INSERT INTO docs (key, doc) VALUES (?1, ?2)"
                        " ON CONFLICT (key) DO UPDATE SET doc = excluded.doc",
        [SQL_DOC_DEL] = "DELETE FROM docs WHERE key = ?1",
        [SQL_DOC_LIST] = "SELECT key, doc FROM docs WHERE key >= ?1 ORDER BY key",
};

/* SQLite's result codes in our words. */
static const struct {
        int rc;
        enum err_kind kind;
        int sys;
} failures[] = {
        { SQLITE_FULL, ERR_SYSTEM, ENOSPC },    { SQLITE_NOMEM, ERR_SYSTEM, ENOMEM },
        { SQLITE_READONLY, ERR_SYSTEM, EROFS }, { SQLITE_PERM, ERR_SYSTEM, EACCES },
        { SQLITE_BUSY, ERR_BUSY, 0 },           { SQLITE_LOCKED, ERR_BUSY, 0 },
        { SQLITE_CONSTRAINT, ERR_CONFLICT, 0 }, { SQLITE_TOOBIG, ERR_TOO_BIG, 0 },
        { SQLITE_NOTADB, ERR_INVALID, 0 },      { SQLITE_IOERR, ERR_SYSTEM, EIO },
        { SQLITE_CANTOPEN, ERR_SYSTEM, EIO },
};

int sqlite_fail(const struct sqlite_conn *c, int rc, struct error *err)
{
        enum err_kind kind = ERR_SYSTEM;
        int sys = 0;

        for (size_t i = 0; i < ARRAY_LEN(failures); i++)
                if (failures[i].rc == (rc & 0xff)) {
                        kind = failures[i].kind;
                        sys = failures[i].sys;
                }
        /* "disk I/O error" alone helps nobody: the system call's own reason goes with it. SQLite
         * forgets it when the write of a commit fails; errno, cleared before the step, does not. */
        if (sys == EIO) {
                sys = sqlite3_system_errno(c->db) ?: errno;
                return error_set(err, kind, sys, "store '%s': %s", c->path, sqlite3_errmsg(c->db));
        }
        error_set(err, kind, 0, "store '%s': %s", c->path, sqlite3_errmsg(c->db));
        if (err)
                err->sys = sys;
        return -1;
}

int sqlite_exec(struct sqlite_conn *c, const char *sql, struct error *err)
{
        int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);

        return rc == SQLITE_OK ? 0 : sqlite_fail(c, rc, err);
}

int sqlite_exec_int(struct sqlite_conn *c, const char *sql, int64_t *ret, struct error *err)
{
        sqlite3_stmt *s = NULL;
        int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);

        if (rc == SQLITE_OK)
                rc = sqlite_step(s);
        if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
                sqlite_fail(c, rc, err);
                (void) sqlite3_finalize(s);
                return -1;
        }
        *ret = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
        (void) sqlite3_finalize(s);
        return 0;
}

int sqlite_stmt(struct sqlite_conn *c, enum sql_id id, sqlite3_stmt **ret, struct error *err)
{
        sqlite3_stmt **s = &c->stmts[id];

        if (!*s) {
                int rc = sqlite3_prepare_v3(c->db, sql_texts[id], -1, SQLITE_PREPARE_PERSISTENT, s,
                                            NULL);

                if (rc != SQLITE_OK)
                        return sqlite_fail(c, rc, err);
        }
        *ret = *s;
        return 0;
}

/* Also lets go of the bound memory, which belongs to the caller. */
void sqlite_resetp(sqlite3_stmt **s)
{
        if (!*s)
                return;
        (void) sqlite3_reset(*s);
        (void) sqlite3_clear_bindings(*s);
}

int sqlite_step(sqlite3_stmt *s)
{
        errno = 0;
        return sqlite3_step(s);
}

int sqlite_run(struct sqlite_conn *c, sqlite3_stmt *s, struct error *err)
{
        int rc = sqlite_step(s);

        return rc == SQLITE_DONE ? 0 : sqlite_fail(c, rc, err);
}

void sqlite_rollback(struct sqlite_conn *c)
{
        if (!sqlite3_get_autocommit(c->db)) /* a full disk has ended it already */
                (void) sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
}

/* The answer to a journal_mode pragma is the mode in force, which need not be the one asked for. */
static int use_wal(struct sqlite_conn *c, struct error *err)
{
        sqlite3_stmt *s = NULL;
        int rc = sqlite3_prepare_v2(c->db, "PRAGMA journal_mode = WAL", -1, &s, NULL);
        int r = 0;

        if (rc == SQLITE_OK)
                rc = sqlite_step(s);
        if (rc != SQLITE_ROW)
                r = sqlite_fail(c, rc, err);
        else if (strcmp((const char *) sqlite3_column_text(s, 0), "wal") != 0)
                r = error_set(err, ERR_UNSUPPORTED, 0,
                              "store '%s': the file system does not allow a write-ahead log",
                              c->path);
        (void) sqlite3_finalize(s);
        return r;
}

static int set_up_writer(struct sqlite_conn *c, const struct sqlite_options *o, struct error *err)
{
        char sql[256];

        if (use_wal(c, err) < 0)
                return -1;
        (void) snprintf(sql, sizeof(sql),
                        "PRAGMA synchronous = %s; PRAGMA wal_autocheckpoint = %d;"
                        "PRAGMA journal_size_limit = %d; PRAGMA cache_size = -%d",
                        o->is_sync_full ? "FULL" : "NORMAL", CHECKPOINT_PAGES, LOG_KEEP_BYTES,
                        CACHE_KIB);
        if (sqlite_exec(c, sql, err) < 0)
                return -1;
        if (!o->max_pages)
                return 0;
        (void) snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %" PRIu64, o->max_pages);
        return sqlite_exec(c, sql, err);
}

static int set_up_reader(struct sqlite_conn *c, struct error *err)
{
        char sql[96];

        (void) snprintf(sql, sizeof(sql), "PRAGMA query_only = 1; PRAGMA cache_size = -%d",
                        CACHE_KIB);
        return sqlite_exec(c, sql, err);
}

/* Accounting of all memory would take a lock in each allocation, and nobody asks for it. */
static void start_sqlite(void)
{
        (void) sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
        (void) sqlite3_initialize();
}

static void conn_freep(struct sqlite_conn **c)
{
        sqlite_conn_free(*c);
}

int sqlite_conn_new(const char *path, const struct sqlite_options *o, bool is_writer,
                    struct sqlite_conn **ret, struct error *err)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        _cleanup_(conn_freep) struct sqlite_conn *c = NEW(struct sqlite_conn);
        int rc;

        (void) pthread_once(&once, start_sqlite);
        list_init(&c->node);
        c->path = xstrdup(path);
        rc = sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
        if (rc != SQLITE_OK)
                return sqlite_fail(c, rc, err);
        (void) sqlite3_extended_result_codes(c->db, 1);
        (void) sqlite3_busy_timeout(c->db, BUSY_MS);
        if ((is_writer ? set_up_writer(c, o, err) : set_up_reader(c, err)) < 0)
                return -1;
        *ret = TAKE_PTR(c);
        return 0;
}

struct sqlite_conn *sqlite_conn_free(struct sqlite_conn *c)
{
        if (!c)
                return NULL;
        list_remove(&c->node);
        for (size_t i = 0; i < SQL__MAX; i++)
                (void) sqlite3_finalize(c->stmts[i]);
        (void) sqlite3_close(c->db);
        free(c->path);
        free(c);
        return NULL;
}
