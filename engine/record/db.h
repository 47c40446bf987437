/* engine/record/db.h — the project's database: the journal of running runs, and an index of all
 * past ones.
 *
 * One SQLite file, `.cairn/cairn.db`, WAL. Debian 12's SQLite 3.40.1 can corrupt a WAL when two
 * processes write and checkpoint at the same instant, so every write transaction and every
 * checkpoint holds `.cairn/db.lock`, automatic checkpoints are off and closing doesn't checkpoint.
 * Readers take no lock. On a network file system: rollback journal. The database is an index: what
 * it says of content can be rebuilt from the manifests in the store.
 *
 * A handle belongs to one thread. Errors: ERR_CORRUPT (not a database, or a damaged one: says what
 * to do), ERR_NEWER (written by a newer cairn), ERR_NO_SPACE, ERR_READ_ONLY, ERR_BUSY (the database
 * was replaced by another one, or a program that isn't cairn holds it), ERR_IO. A writer waits for
 * the lock as long as another one has it: transactions hold rows only and are short. A failed
 * transaction is rolled back whole.
 */
#ifndef CAIRN_RECORD_DB_H
#define CAIRN_RECORD_DB_H

#include "base/crypto/digest.h"
#include "base/failure.h"
#include "base/mem.h"
#include "base/text/str.h"

struct db;

enum db_open_flags { DB_READ = 0, DB_WRITE = 1 /* creates and migrates */ };
int db_open(const char *path, enum db_open_flags flags, struct db **ret,
	    struct err *err); /* ":memory:" for tests */
void db_close(struct db *db);
static inline void db_closep(struct db **db)
{
	db_close(*db);
}
const char *db_path(const struct db *db); /* as given to db_open() */
/* Write transactions; they don't nest. All record_* functions that write need an open one. */
int db_begin(struct db *db, struct err *err);
/* Limits how much of the file this handle caches (default 64 MiB). For users of many handles. */
void db_limit_cache(struct db *db, uint64_t bytes);
/* Limits the WAL (default 8 MiB), for writers of many transactions: a checkpoint makes each of them
 * wait for the disk. After a crash, each process that opens the database reads the WAL. */
void db_limit_wal(struct db *db, uint64_t bytes);
bool db_in_transaction(const struct db *db);
int db_commit(struct db *db, struct err *err); /* visible to other processes; survives kill -9 */
int db_commit_durable(struct db *db, struct err *err); /* survives power loss too */
void db_rollback(struct db *db);
/* Ends a transaction: rolls back when `r` is below 0, else commits. Returns r, or -1 when the
 * commit failed. */
int db_finish(struct db *db, int r, struct err *err);
int db_finish_durable(struct db *db, int r, struct err *err);

/* Makes many reads see one moment, that of the first, and saves locking the file for each. Best
 * effort; does nothing inside a transaction, and the next db_begin() ends it. End it before slow
 * work such as printing: the WAL can't be emptied meanwhile. */
void db_snapshot(struct db *db);
void db_snapshot_end(struct db *db);
/* Another number than last time: another handle has changed the database meanwhile. Cheap. */
int db_version(struct db *db, int64_t *ret, struct err *err);
int db_check(struct db *db, struct err *err); /* SQLite's integrity_check: ERR_CORRUPT */
/* Moves the whole WAL into the one database file. For an unused database that is set aside. */
int db_settle(struct db *db, struct err *err);

#endif
