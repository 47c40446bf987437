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
	struct {
		uint64_t bytes;       /* what it has since it began anew; 0: not known */
		uint64_t begun;       /* … of that the disk has begun to write; 0: not known */
		uint64_t max_bytes;   /* db_limit_wal() */
		uint64_t left_bytes;  /* the file's size when readers prevented that it was cut */
		uint64_t retry_bytes; /* readers prevented a checkpoint: none is due before */
	} wal;
};

int db_fail(struct db *db, struct err *err, const char *doing);

#endif
