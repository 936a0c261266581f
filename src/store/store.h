/* The stores. Each is a row of functions, see event/store.h for the contract.
 *
 * sqlite   dsn "PATH[?option=value[&…]]":
 *            sync=normal|full   normal (default): a commit survives the death of the process;
 *                               full: also the death of the machine, one fsync per commit
 *            max_pages=N        the database refuses to grow past N pages ("disk full")
 *          One process at a time: PATH.lock is held while the store is open.
 * memory   dsn is ignored; gone when closed. For tests and for runs that should leave nothing. */
#pragma once
#include "event/store.h"

extern const struct store_ops store_sqlite, store_memory;
