#include <inttypes.h>
#include <stdio.h>

#include "store/sqlite.h"

/* Version 0 is an empty file. A database with tables but without ours is somebody else's. */
static int read_version(struct sqlite_conn *c, int64_t *ret, struct error *err)
{
        int64_t n_tables, n_meta;

        if (sqlite_exec_int(c, "SELECT count(*) FROM sqlite_schema", &n_tables, err) < 0 ||
            sqlite_exec_int(c, "SELECT count(*) FROM sqlite_schema WHERE name = 'meta'", &n_meta,
                            err) < 0)
                return -1;
        if (n_meta)
                return sqlite_exec_int(c, "SELECT version FROM meta", ret, err);
        if (n_tables)
                return error_set(err, ERR_INVALID, 0,
                                 "store '%s': the database belongs to another program", c->path);
        *ret = 0;
        return 0;
}

static int run_step(struct sqlite_conn *c, const struct sqlite_migration *m, size_t version,
                    struct error *err)
{
        char mark[64];

        (void) snprintf(mark, sizeof(mark), "UPDATE meta SET version = %zu", version);
        if (sqlite_exec(c, m->sql, err) < 0 || sqlite_exec(c, mark, err) < 0)
                return error_wrap(err, "migrate to schema %zu (%s)", version, m->what);
        return 0;
}

static int run_steps(struct sqlite_conn *c, const struct sqlite_migration *steps, size_t from,
                     size_t n, struct error *err)
{
        for (size_t i = from; i < n; i++)
                if (run_step(c, &steps[i], i + 1, err) < 0)
                        return -1;
        if (sqlite_exec(c, "COMMIT", err) < 0)
                return error_wrap(err, "migrate to schema %zu", n);
        return 0;
}

int sqlite_migrate(struct sqlite_conn *c, const struct sqlite_migration *steps, size_t n,
                   struct error *err)
{
        int64_t version = 0;

        if (read_version(c, &version, err) < 0)
                return -1;
        if (version < 0 || (uint64_t) version > n)
                return error_set(err, ERR_UNSUPPORTED, 0,
                                 "store '%s' was written by a newer version (schema %" PRId64
                                 ", this program knows %zu)",
                                 c->path, version, n);
        if ((size_t) version == n)
                return 0;
        if (sqlite_exec(c, "BEGIN IMMEDIATE", err) < 0)
                return -1;
        if (run_steps(c, steps, (size_t) version, n, err) < 0) {
                sqlite_rollback(c);
                return -1;
        }
        return 0;
}
