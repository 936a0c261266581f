/* Inside of the SQLite store: one connection with its statements, and the translation of SQLite's
 * conventions into ours. Only the files of store/ (and their tests) include this. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/error.h"
#include "base/list.h"

enum sql_id {
        SQL_BEGIN,
        SQL_COMMIT,
        SQL_TOPIC_FIND,
        SQL_TOPIC_ADD,
        SQL_EVENT_ADD,
        SQL_EVENT_LIST,
        SQL_EVENT_TRIM,
        SQL_ALSO_TRIM,
        SQL_TOPIC_TRIM,
        SQL_DOC_PUT,
        SQL_DOC_DEL,
        SQL_DOC_LIST,
        SQL__MAX
};

struct sqlite_options {
        bool is_sync_full;
        uint64_t max_pages; /* 0 = SQLite's own limit */
};

/* One connection, used by one thread at a time. Statements are prepared when first needed. */
struct sqlite_conn {
        sqlite3 *db;
        char *path;
        sqlite3_stmt *stmts[SQL__MAX];
        struct list node; /* of the idle readers */
};

int sqlite_conn_new(const char *path, const struct sqlite_options *o, bool is_writer,
                    struct sqlite_conn **ret, struct error *err);
struct sqlite_conn *sqlite_conn_free(struct sqlite_conn *c);

/* err from the result code of the last call on c; always -1. */
int sqlite_fail(const struct sqlite_conn *c, int rc, struct error *err);
/* Statements without parameters. */
int sqlite_exec(struct sqlite_conn *c, const char *sql, struct error *err);
/* The first column of the first row as a number; 0 when there is no row. */
int sqlite_exec_int(struct sqlite_conn *c, const char *sql, int64_t *ret, struct error *err);
/* A statement, ready to be bound; reset it when done: _cleanup_(sqlite_resetp). */
int sqlite_stmt(struct sqlite_conn *c, enum sql_id id, sqlite3_stmt **ret, struct error *err);
void sqlite_resetp(sqlite3_stmt **s);
/* One step; a result code for sqlite_fail(). */
int sqlite_step(sqlite3_stmt *s);
/* Runs a statement that gives no row. */
int sqlite_run(struct sqlite_conn *c, sqlite3_stmt *s, struct error *err);
/* Ends an open transaction without effect; harmless outside of one. */
void sqlite_rollback(struct sqlite_conn *c);

/* migrate.c: step i brings the schema from version i to i + 1; all that are needed run in one
 * transaction. */
struct sqlite_migration {
        const char *what;
        const char *sql;
};
extern const struct sqlite_migration sqlite_migrations[];
extern const size_t sqlite_n_migrations;

int sqlite_migrate(struct sqlite_conn *c, const struct sqlite_migration *steps, size_t n,
                   struct error *err);
