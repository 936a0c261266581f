/* The schema, step by step. A step that was released is never edited: what changes is a new step.
 */
#include "base/macro.h"
#include "store/sqlite.h"

/* Why events is a rowid table with an index and not WITHOUT ROWID: rows then go to the end of the
 * file in the order of arrival, whichever topic they belong to. With 50 topics written in turn and
 * 300-byte bodies that was 2.4 times the appends per second of the clustered form (with 2000
 * topics 3.2 times, with 1500-byte bodies 3.4 times at less than half the file), and reading one
 * topic back still passed 500,000 events per second.
 *
 * topics.trimmed is the highest number that was removed: a topic without any event left still knows
 * which number comes next. */
static const char first_schema[] = "CREATE TABLE meta (version INTEGER NOT NULL) STRICT;"
                                   "INSERT INTO meta VALUES (0);"
                                   "CREATE TABLE topics ("
                                   "  id      INTEGER PRIMARY KEY,"
                                   "  name    TEXT NOT NULL UNIQUE,"
                                   "  trimmed INTEGER NOT NULL DEFAULT 0) STRICT;"
                                   "CREATE TABLE events ("
                                   "  topic_id INTEGER NOT NULL,"
                                   "  seq      INTEGER NOT NULL,"
                                   "  at_us    INTEGER NOT NULL,"
                                   "  kind     INTEGER NOT NULL,"
                                   "  body     BLOB NOT NULL,"
                                   "  PRIMARY KEY (topic_id, seq)) STRICT;"
                                   "CREATE TABLE docs ("
                                   "  key TEXT NOT NULL PRIMARY KEY,"
                                   "  doc BLOB NOT NULL) STRICT, WITHOUT ROWID;";

/* An event may carry the number of a second topic. It stays one row, found by two indexes: of the
 * ways to store a body once this one writes least. With 50 pairs of topics and 300-byte bodies it
 * made 211,000 appends per second of processor time, against 171,000 with a second row that refers
 * to the first and 162,000 with a table of bodies, and both topics read back at the same speed. The
 * index has no entry for events of one topic, which cost what they did before. */
static const char second_topic[] =
        "ALTER TABLE events ADD COLUMN also_id INTEGER;"
        "ALTER TABLE events ADD COLUMN also_seq INTEGER;"
        "CREATE UNIQUE INDEX events_also ON events (also_id, also_seq) WHERE also_id IS NOT NULL;";

const struct sqlite_migration sqlite_migrations[] = {
        { "create the first tables", first_schema },
        { "let an event have a second topic", second_topic },
};
const size_t sqlite_n_migrations = ARRAY_LEN(sqlite_migrations);
