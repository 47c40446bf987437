/* record/db.h — the project's database: journal of running runs, index of everything that was.
 *
 * One SQLite file, `.cairn/cairn.db`, WAL. Debian 12's SQLite 3.40.1 can corrupt a WAL when two
 * processes write and checkpoint at the same instant, so every write transaction and every
 * checkpoint holds `.cairn/db.lock`, automatic checkpoints are off and closing doesn't checkpoint.
 * Readers take no lock. On a network file system: rollback journal. The database is an index: what
 * it says of content can be rebuilt from the manifests in the store.
 *
 * A handle belongs to one thread. Errors: ERR_CORRUPT (not a database, or a damaged one: says what
 * to do), ERR_NEWER (written by a newer cairn), ERR_NO_SPACE, ERR_READ_ONLY, ERR_BUSY (the database
 * was replaced by another one, or is held by a program that isn't cairn), ERR_IO. A writer waits
 * for the lock as long as another one has it: transactions hold rows only and are short. A failed
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
const char *db_path(const struct db *db); /* as it was opened */
/* Write transactions; they don't nest. All record_* functions that write need one open. */
int db_begin(struct db *db, struct err *err);
/* How much of the file it may keep in memory (64 MiB where nobody says otherwise): for those who
 * hold many handles. */
void db_limit_cache(struct db *db, uint64_t bytes);
bool db_in_transaction(const struct db *db);
int db_commit(struct db *db, struct err *err);         /* visible to others; survives kill -9 */
int db_commit_durable(struct db *db, struct err *err); /* and power loss */
void db_rollback(struct db *db);
/* Ends a transaction as `r` says: below 0 it is rolled back, else committed. Returns r, or -1 when
 * it can't be committed. */
int db_finish(struct db *db, int r, struct err *err);
int db_finish_durable(struct db *db, int r, struct err *err);

/* Many reads as of one moment: each by itself would lock and unlock the file. Best effort, and
 * nothing inside of a transaction. End it before anything that can take long, like printing: as
 * long as it lasts the WAL can't be emptied. */
void db_snapshot(struct db *db);
void db_snapshot_end(struct db *db);
int db_check(struct db *db, struct err *err); /* SQLite's integrity_check: ERR_CORRUPT */
/* All of the WAL into the database's one file, for a database that nobody uses and that is set
 * aside. */
int db_settle(struct db *db, struct err *err);

#endif
