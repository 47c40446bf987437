/* engine/record/db.c — opening, locking, migrating, transactions.
 *
 * Writers take the lock file before BEGIN IMMEDIATE and keep it through COMMIT and a checkpoint if
 * one is due; nobody else checkpoints. That avoids the WAL-reset bug of SQLite 3.7.0–3.51.2 (fixed
 * in 3.51.3).
 *
 * Invariants: a transaction is open only while db.lock is held; a checkpoint never waits for
 * readers; a file that has lost its name is never written to. Threads: one per handle; processes
 * and other handles meet only at the lock file. Not here: statements and their values
 * (db_sql.c).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "record/internal.h"
#include "record/schema.h"

/* A checkpoint is due when the WAL has this much, unless db_limit_wal() says otherwise: large
 * enough to be rare, small enough to take some ten milliseconds. */
#define WAL_MAX_BYTES (8 * MIB)
/* The disk begins to write the WAL when it has got this much more. */
#define WAL_STEP_BYTES (2 * MIB)
/* A page and its head. Pages have the size that SQLite gives a new database. */
#define WAL_FRAME_BYTES (4096 + 24)
/* The limit at the end of a run, which waits for the disk anyway: the next process to open the
 * database has to read the rest of the WAL. */
#define WAL_LEFT_BYTES (256 * KIB)
#define BUSY_MS        30000

int db_fail(struct db *db, struct err *err, const char *doing)
{
	int code = sqlite3_extended_errcode(db->sql);
	const char *msg = sqlite3_errmsg(db->sql);

	switch (code & 0xff) {
	case SQLITE_FULL:
		return err_set(err, ERR_NO_SPACE, "%s: no space left for the database %s", doing,
			       db->path);
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return err_set(err, ERR_READ_ONLY, "%s: the database %s can't be written to", doing,
			       db->path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(err, ERR_BUSY, "%s: another program holds the database %s", doing,
			       db->path);
	case SQLITE_ERROR: /* statements are literals that fit this version's schema: so the schema
			      is damaged */
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_set(err, ERR_CORRUPT,
			       "%s: the database %s is damaged (%s); move it away and run again: "
			       "results are kept in the store and found there",
			       doing, db->path, msg);
	default:
		return err_set(err, ERR_IO, "%s: database %s: %s", doing, db->path, msg);
	}
}

int db_exec(struct db *db, const char *text, struct err *err)
{
	return sqlite3_exec(db->sql, text, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : db_fail(db, err, "cannot use the database");
}

/* Transactions. */

int db_begin(struct db *db, struct err *err)
{
	struct stat st;

	assert(db->writable && !db->in_txn);
	db_snapshot_end(db);
	if (db->lock_fd >= 0 && fs_lock(db->lock_fd, true, err) < 0)
		return err_wrap(err, "database %s", db->path);
	/* Data written into a file without a name would be lost. */
	if (db->lock_fd >= 0 && db->ino &&
	    (stat(db->path, &st) < 0 || st.st_dev != db->dev || st.st_ino != db->ino)) {
		fs_unlock(db->lock_fd);
		return err_set(err, ERR_BUSY,
			       "`cairn store reindex` has replaced the database %s meanwhile; run "
			       "the command again",
			       db->path);
	}
	if (db_exec(db, "BEGIN IMMEDIATE", err) < 0) {
		if (db->lock_fd >= 0)
			fs_unlock(db->lock_fd);
		return -1;
	}
	db->in_txn = true;
	return 0;
}

void db_limit_wal(struct db *db, uint64_t bytes)
{
	db->wal.max_bytes = bytes;
}

void db_limit_cache(struct db *db, uint64_t bytes)
{
	char text[64];

	snprintf(text, sizeof(text), "PRAGMA cache_size=-%llu", (unsigned long long)(bytes / KIB));
	sqlite3_exec(db->sql, text, NULL, NULL, NULL); /* on failure it is only slower */
}

const char *db_path(const struct db *db)
{
	return db->path;
}

bool db_in_transaction(const struct db *db)
{
	return db->in_txn;
}

void db_snapshot(struct db *db)
{
	if (!db->in_txn && !db->in_snapshot)
		db->in_snapshot = sqlite3_exec(db->sql, "BEGIN", NULL, NULL, NULL) == SQLITE_OK;
}

void db_snapshot_end(struct db *db)
{
	if (db->in_snapshot)
		sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL);
	db->in_snapshot = false;
}

/* Called by SQLite after a commit, with the frames that the WAL has now. */
static int on_commit(void *arg, sqlite3 *sql, const char *name, int frames)
{
	struct db *db = arg;

	db->wal.bytes = (uint64_t)frames * WAL_FRAME_BYTES;
	if (db->wal.bytes < db->wal.begun || db->wal.begun == 0) /* it began anew, or we did */
		db->wal.begun = db->wal.bytes;
	return SQLITE_OK;
}

/* Makes the disk begin to write what the WAL got, and doesn't wait: a checkpoint waits for all of
 * it. */
static void begin_to_write(struct db *db)
{
	_cleanup_(freep) char *wal = xasprintf("%s-wal", db->path);
	_cleanup_(fd_closep) int fd = open(wal, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)sync_file_range(fd, (off_t)db->wal.begun,
				      (off_t)(db->wal.bytes - db->wal.begun),
				      SYNC_FILE_RANGE_WRITE);
	db->wal.begun = db->wal.bytes;
}

/* Never waits for readers: it is called with the lock held. */
static bool checkpoint(struct db *db, int mode)
{
	bool whole;

	sqlite3_busy_timeout(db->sql, 0);
	whole = sqlite3_wal_checkpoint_v2(db->sql, NULL, mode, NULL, NULL) == SQLITE_OK;
	sqlite3_busy_timeout(db->sql, BUSY_MS);
	return whole;
}

/* On a thread with a run to execute. The WAL is written over from its beginning, not cut: cutting
 * waits for its pages that are on their way to the disk, and a file that grows costs more than one
 * that is written over. When readers prevent a full checkpoint, the next try is later, since each
 * costs disk flushes. */
static void checkpoint_if_due(struct db *db)
{
	if (db->wal.bytes >= db->wal.begun + WAL_STEP_BYTES)
		begin_to_write(db);
	if (db->wal.bytes <= MAX(db->wal.max_bytes, db->wal.retry_bytes))
		return;
	if (checkpoint(db, SQLITE_CHECKPOINT_RESTART))
		db->wal.bytes = db->wal.begun = db->wal.retry_bytes = 0;
	else
		db->wal.retry_bytes = db->wal.bytes + WAL_MAX_BYTES;
}

/* At the end of a run. When readers prevent it, the next try is after the file has grown by as much
 * again. */
static void cut_wal(struct db *db)
{
	_cleanup_(freep) char *wal = xasprintf("%s-wal", db->path);
	struct stat st;

	if (stat(wal, &st) < 0)
		return;
	if ((uint64_t)st.st_size < db->wal.left_bytes)
		db->wal.left_bytes = 0; /* another process has cut it */
	if ((uint64_t)st.st_size <= db->wal.left_bytes + WAL_LEFT_BYTES)
		return;
	if (checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE))
		db->wal.bytes = db->wal.begun = db->wal.retry_bytes = db->wal.left_bytes = 0;
	else
		db->wal.left_bytes = (uint64_t)st.st_size;
}

static int end_txn(struct db *db, const char *how, void (*look_after_wal)(struct db *db),
		   struct err *err)
{
	int r;

	assert(db->in_txn);
	r = db_exec(db, how, err);
	if (r < 0)
		sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
	db->in_txn = false;
	if (db->lock_fd >= 0) {
		if (r == 0)
			look_after_wal(db);
		fs_unlock(db->lock_fd);
	}
	return r;
}

int db_commit(struct db *db, struct err *err)
{
	return end_txn(db, "COMMIT", checkpoint_if_due, err);
}

int db_commit_durable(struct db *db, struct err *err)
{
	_cleanup_(freep) char *wal = xasprintf("%s-wal", db->path);
	_cleanup_(fd_closep) int fd = -1;

	if (end_txn(db, "COMMIT", cut_wal, err) < 0)
		return -1;
	if (db->lock_fd < 0)
		return 0;
	fd = open(wal, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fdatasync(fd) < 0)
		return err_errno(err, "cannot make the database %s durable", db->path);
	return 0;
}

void db_rollback(struct db *db)
{
	if (db->in_txn)
		end_txn(db, "ROLLBACK", checkpoint_if_due, NULL);
}

int db_finish(struct db *db, int r, struct err *err)
{
	if (r >= 0)
		return db_commit(db, err) < 0 ? -1 : r;
	db_rollback(db);
	return r;
}

int db_finish_durable(struct db *db, int r, struct err *err)
{
	if (r >= 0)
		return db_commit_durable(db, err) < 0 ? -1 : r;
	db_rollback(db);
	return r;
}

/* Opening. */

static int read_pragma(struct db *db, const char *text, int64_t *ret, struct err *err)
{
	sqlite3_stmt *s = NULL;
	bool there = sqlite3_prepare_v2(db->sql, text, -1, &s, NULL) == SQLITE_OK &&
		     sqlite3_step(s) == SQLITE_ROW;

	if (there)
		*ret = sqlite3_column_int64(s, 0);
	else
		db_fail(db, err, "cannot open");
	sqlite3_finalize(s);
	return there ? 0 : -1;
}

static int check_identity(struct db *db, int64_t *ret_version, struct err *err)
{
	int64_t app, tables = 0;
	int r;

	/* In one snapshot: between two of them another process may have made the database. */
	db_snapshot(db);
	r = read_pragma(db, "PRAGMA application_id", &app, err);
	if (r == 0)
		r = read_pragma(db, "PRAGMA user_version", ret_version, err);
	if (r == 0 && app != DB_APPLICATION_ID)
		r = read_pragma(db, "SELECT count(*) FROM sqlite_schema", &tables, err);
	db_snapshot_end(db);
	if (r < 0)
		return -1;
	if (app != DB_APPLICATION_ID && (app != 0 || tables != 0))
		return err_set(err, ERR_CORRUPT,
			       "%s is a database of another program; move it away", db->path);
	if (*ret_version > (int64_t)ARRAY_LEN(db_migrations))
		return err_set(err, ERR_NEWER,
			       "the database %s was written by a newer cairn (version %lld, this "
			       "one knows %zu); upgrade cairn",
			       db->path, (long long)*ret_version, ARRAY_LEN(db_migrations));
	return 0;
}

static int migrate(struct db *db, struct err *err)
{
	char pragma[64];
	int64_t version;
	int r;

	if (check_identity(db, &version, err) < 0)
		return -1;
	if (version == (int64_t)ARRAY_LEN(db_migrations))
		return 0;
	if (!db->writable)
		return version == 0 ? err_set(err, ERR_NOT_FOUND,
					      "the database %s is empty: nothing was run here yet",
					      db->path)
				    : err_set(err, ERR_INVALID,
					      "the database %s is of an older version; any command "
					      "that writes (cairn run) upgrades it",
					      db->path);
	if (db_begin(db, err) < 0)
		return -1;
	/* Another process may have migrated it while we waited. */
	r = check_identity(db, &version, err);
	for (; r == 0 && version < (int64_t)ARRAY_LEN(db_migrations); version++)
		r = db_exec(db, db_migrations[version], err);
	if (r == 0) {
		snprintf(pragma, sizeof(pragma), "PRAGMA application_id=%d; PRAGMA user_version=%d",
			 DB_APPLICATION_ID, (int)version);
		r = db_exec(db, pragma, err);
	}
	return db_finish(db, r, err) < 0 ? err_wrap(err, "upgrading") : 0;
}

/* The journal mode belongs to the file. When two processes change it at the same moment, SQLite
 * doesn't wait: both have read the file already, so it returns SQLITE_BUSY at once. The lock makes
 * them take turns. */
static int set_journal_mode(struct db *db, struct err *err)
{
	bool want_wal = !fs_network_name(db->path);
	const char *set = want_wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=TRUNCATE";
	sqlite3_stmt *s = NULL;
	bool is_wal = false;
	int r;

	if (sqlite3_prepare_v2(db->sql, "PRAGMA journal_mode", -1, &s, NULL) == SQLITE_OK &&
	    sqlite3_step(s) == SQLITE_ROW)
		is_wal = str_eq((const char *)sqlite3_column_text(s, 0), "wal");
	sqlite3_finalize(s);
	if (is_wal == want_wal)
		return db_exec(db, set, err);
	if (fs_lock(db->lock_fd, true, err) < 0)
		return err_wrap(err, "database %s", db->path);
	r = db_exec(db, set, err);
	fs_unlock(db->lock_fd);
	return r;
}

static int configure(struct db *db, struct err *err)
{
	struct stat st;

	sqlite3_busy_timeout(db->sql, BUSY_MS);
	sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (str_eq(db->path, ":memory:"))
		return 0;
	if (db->writable && set_journal_mode(db, err) < 0)
		return -1;
	if (db_exec(db,
		    "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA "
		    "cache_size=-65536; PRAGMA mmap_size=0",
		    err) < 0)
		return -1;
	db->wal.max_bytes = WAL_MAX_BYTES;
	sqlite3_wal_hook(db->sql, on_commit, db); /* `wal_autocheckpoint` has removed any */
	if (db->lock_fd >= 0 && stat(db->path, &st) == 0) {
		db->dev = st.st_dev;
		db->ino = st.st_ino;
	}
	return 0;
}

static int open_file(struct db *db, const char *path, struct err *err)
{
	int flags =
		db->writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
	int r;

	if (!db->writable && access(path, F_OK) < 0)
		return err_set(err, ERR_NOT_FOUND, "nothing was run here yet (there is no %s)",
			       path);
	/* Readers of a WAL write its shared memory. Without permission for that, the existing data
	 * can still be read. */
	r = sqlite3_open_v2(path, &db->sql, flags | SQLITE_OPEN_NOMUTEX, NULL);
	if (r != SQLITE_OK && !db->writable) {
		sqlite3_close(db->sql);
		r = sqlite3_open_v2(path, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
				    NULL);
	}
	return r == SQLITE_OK ? 0 : db_fail(db, err, "cannot open");
}

int db_open(const char *path, enum db_open_flags flags, struct db **ret, struct err *err)
{
	_cleanup_(freep) char *lock = xasprintf("%s.lock", path);
	struct db *db = xcalloc(1, sizeof(*db));

	db->path = xstrdup(path);
	db->lock_fd = -1;
	db->writable = flags & DB_WRITE;
	if (db->writable && !str_eq(path, ":memory:")) {
		db->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (db->lock_fd < 0) {
			if (errno == EROFS || errno == EACCES)
				err_set(err, ERR_READ_ONLY, "%s can't be written to", lock);
			else
				err_errno(err, "cannot open %s", lock);
			db_close(db);
			return -1;
		}
	}
	if (open_file(db, path, err) < 0 || configure(db, err) < 0 || migrate(db, err) < 0) {
		db_close(db);
		return -1;
	}
	*ret = db;
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	db_rollback(db);
	db_drop_statements(db);
	sqlite3_close(db->sql);
	fd_closep(&db->lock_fd);
	free(db->path);
	free(db);
}

int db_version(struct db *db, int64_t *ret, struct err *err)
{
	return db_get(db, "PRAGMA data_version", DB_IN(), NULL, DB_OUT(ret), err) < 0 ? -1 : 0;
}

int db_check(struct db *db, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const char *found = NULL;

	if (db_get(db, "PRAGMA integrity_check(1)", DB_IN(), arena, DB_OUT(&found), err) < 0)
		return -1;
	if (found && !str_eq(found, "ok"))
		return err_set(
			err, ERR_CORRUPT,
			"the database %s is damaged: %s; move it away and run again: results "
			"are kept in the store",
			db->path, found);
	return 0;
}

int db_settle(struct db *db, struct err *err)
{
	return sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) ==
			       SQLITE_OK
		       ? 0
		       : db_fail(db, err, "cannot set the old database aside");
}
