/* engine/record/internal.h — the open database, shared by db.c, db_sql.c and the files of rows/. */
#ifndef CAIRN_RECORD_INTERNAL_H
#define CAIRN_RECORD_INTERNAL_H

#include <sqlite3.h>
#include <sys/stat.h>
#include "record/db_sql.h"

enum { DB_STATEMENTS_MAX = 64 };
#define DB_UNCACHED SIZE_MAX /* the slot of a statement that isn't kept */

struct db {
	sqlite3 *sql;
	char *path;
	int lock_fd; /* -1: in memory */
	bool in_txn, in_snapshot, writable;
	dev_t dev; /* of the file when it was opened: a reindex replaces the file (reindex.h) */
	ino_t ino;
	struct {
		const char *text; /* the literal's address is the key */
		sqlite3_stmt *stmt;
		uint64_t used; /* time of the last use, counted in uses */
		bool in_use;   /* by a query */
	} cache[DB_STATEMENTS_MAX];
	size_t n_cache;
	uint64_t n_asked;
	/* Size of the WAL after a checkpoint that readers kept from emptying it; 0: it was emptied.
	 */
	uint64_t wal_left_bytes;
};

int db_fail(struct db *db, struct err *err, const char *doing);

#endif
