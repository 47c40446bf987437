/* engine/record/db.c — opening, locking, migrating, transactions.
 *
 * Writers take the lock file before BEGIN IMMEDIATE and keep it through COMMIT and a checkpoint if one is due; nobody else
 * checkpoints. That keeps clear of the WAL-reset bug of SQLite 3.7.0–3.51.2 (fixed in 3.51.3).
 */
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "base/fs.h"
#include "record/internal.h"
#include "record/schema.h"

/* A checkpoint moves this much from the WAL at once: large enough to be rare, small enough to take some ten milliseconds. */
#define WAL_MAX_BYTES (8 * MIB)
/* At the end of a run, when the disk is waited for anyway: who opens the database next reads what is left in the WAL. */
#define WAL_LEFT_BYTES (256 * KIB)
#define BUSY_MS 30000

int db_fail(struct db *db, struct err *err, const char *doing)
{
	int code = sqlite3_extended_errcode(db->sql);
	const char *msg = sqlite3_errmsg(db->sql);

	switch (code & 0xff) {
	case SQLITE_FULL:
		return err_set(err, ERR_NO_SPACE, "%s: no space left for the database %s", doing, db->path);
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return err_set(err, ERR_READ_ONLY, "%s: the database %s can't be written to", doing, db->path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(err, ERR_BUSY, "%s: another program holds the database %s", doing, db->path);
	case SQLITE_ERROR: /* statements are literals that a sound database of this version takes: its schema isn't that */
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_set(err, ERR_CORRUPT,
			       "%s: the database %s is damaged (%s); move it away and run again: results are kept in the store and found there", doing, db->path,
			       msg);
	default:
		return err_set(err, ERR_IO, "%s: database %s: %s", doing, db->path, msg);
	}
}

/* --- statements ------------------------------------------------------------------------------------------------------- */

/* The place of the one that was asked for longest ago and that nobody can be using any more. Of DB_STATEMENTS_MAX at most DB_STATEMENTS_KEPT were
 * asked for lately; that all others are in the middle of their rows takes as many nested loops. */
static size_t place_for_statement(struct db *db)
{
	size_t oldest = DB_STATEMENTS_MAX;

	if (db->n_cache < DB_STATEMENTS_MAX)
		return db->n_cache++;
	for (size_t i = 0; i < db->n_cache; i++)
		if (!sqlite3_stmt_busy(db->cache[i].stmt) && db->cache[i].used + DB_STATEMENTS_KEPT < db->n_asked &&
		    (oldest == DB_STATEMENTS_MAX || db->cache[i].used < db->cache[oldest].used))
			oldest = i;
	if (oldest == DB_STATEMENTS_MAX)
		abort(); /* statements are never reset: a defect */
	sqlite3_finalize(db->cache[oldest].stmt);
	return oldest;
}

sqlite3_stmt *db_prepare(struct db *db, const char *text, struct err *err)
{
	sqlite3_stmt *s;
	size_t i;

	db->n_asked++;
	for (i = 0; i < db->n_cache; i++)
		if (db->cache[i].text == text) {
			sqlite3_reset(db->cache[i].stmt);
			sqlite3_clear_bindings(db->cache[i].stmt);
			db->cache[i].used = db->n_asked;
			return db->cache[i].stmt;
		}
	if (sqlite3_prepare_v3(db->sql, text, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) != SQLITE_OK) {
		db_fail(db, err, "cannot ask");
		return NULL;
	}
	i = place_for_statement(db);
	db->cache[i].text = text;
	db->cache[i].stmt = s;
	db->cache[i].used = db->n_asked;
	return s;
}

int db_step(struct db *db, sqlite3_stmt *s, struct err *err)
{
	int r = sqlite3_step(s);

	if (r == SQLITE_ROW)
		return 1;
	if (r == SQLITE_DONE)
		return 0;
	db_fail(db, err, sqlite3_stmt_readonly(s) ? "cannot read" : "cannot record");
	sqlite3_reset(s);
	return -1;
}

int db_run(struct db *db, sqlite3_stmt *s, struct err *err)
{
	int r = db_step(db, s, err);

	sqlite3_reset(s);
	return r < 0 ? -1 : 0;
}

int db_exec(struct db *db, const char *text, struct err *err)
{
	return sqlite3_exec(db->sql, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(db, err, "cannot use the database");
}

void bind_text(sqlite3_stmt *s, int i, const char *text)
{
	if (text)
		sqlite3_bind_text(s, i, text, -1, SQLITE_TRANSIENT);
}

void bind_digest(sqlite3_stmt *s, int i, const struct digest *d)
{
	sqlite3_bind_blob(s, i, d->b, DIGEST_BYTES, SQLITE_TRANSIENT);
}

void bind_id(sqlite3_stmt *s, int i, const struct content_id *id)
{
	uint8_t bytes[1 + 8 + DIGEST_BYTES];

	if (id->kind == CONTENT_NONE)
		return;
	bytes[0] = id->kind;
	for (int k = 0; k < 8; k++)
		bytes[1 + k] = (uint8_t)(id->size_bytes >> (8 * k));
	memcpy(bytes + 9, id->digest.b, DIGEST_BYTES);
	sqlite3_bind_blob(s, i, bytes, sizeof(bytes), SQLITE_TRANSIENT);
}

const char *column_text(sqlite3_stmt *s, int i, struct arena *arena)
{
	const unsigned char *t = sqlite3_column_text(s, i);

	return t ? arena_strdup(arena, (const char *)t) : NULL;
}

bool column_digest(sqlite3_stmt *s, int i, struct digest *ret)
{
	const void *b = sqlite3_column_blob(s, i);

	if (!b || sqlite3_column_bytes(s, i) != DIGEST_BYTES)
		return false;
	memcpy(ret->b, b, DIGEST_BYTES);
	return true;
}

bool column_id(sqlite3_stmt *s, int i, struct content_id *ret)
{
	const uint8_t *b = sqlite3_column_blob(s, i);

	memset(ret, 0, sizeof(*ret));
	if (!b || sqlite3_column_bytes(s, i) != 1 + 8 + DIGEST_BYTES || b[0] < CONTENT_BLOB || b[0] > CONTENT_KIND_MAX)
		return false;
	ret->kind = b[0];
	for (int k = 7; k >= 0; k--)
		ret->size_bytes = ret->size_bytes << 8 | b[1 + k];
	memcpy(ret->digest.b, b + 9, DIGEST_BYTES);
	return true;
}

/* --- transactions ------------------------------------------------------------------------------------------------------- */

/* What would be written into a file that has lost its name would be lost. */
static bool was_replaced(const struct db *db)
{
	struct stat st;

	return db->lock_fd >= 0 && db->ino && (stat(db->path, &st) < 0 || st.st_dev != db->dev || st.st_ino != db->ino);
}

int db_begin(struct db *db, struct err *err)
{
	if (db->in_txn)
		abort(); /* they don't nest */
	if (db->lock_fd >= 0 && fs_lock(db->lock_fd, true, err) < 0)
		return err_wrap(err, "database %s", db->path);
	if (was_replaced(db)) {
		fs_unlock(db->lock_fd);
		return err_set(err, ERR_BUSY, "the database %s was built anew meanwhile (cairn store reindex); start again", db->path);
	}
	if (db_exec(db, "BEGIN IMMEDIATE", err) < 0) {
		if (db->lock_fd >= 0)
			fs_unlock(db->lock_fd);
		return -1;
	}
	db->in_txn = true;
	return 0;
}

void db_limit_cache(struct db *db, uint64_t bytes)
{
	char text[64];

	snprintf(text, sizeof(text), "PRAGMA cache_size=-%llu", (unsigned long long)(bytes / KIB));
	sqlite3_exec(db->sql, text, NULL, NULL, NULL); /* it is only slower without */
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

/* Still under the lock, on a thread that has a run to carry on: a checkpoint never waits for anybody. What readers keep from being moved or truncated is left to a later one,
 * which is tried when the WAL has grown by as much again, for each costs a flush of the disk. */
static void checkpoint_if_due(struct db *db, uint64_t max_bytes)
{
	_cleanup_(freep) char *wal = xasprintf("%s-wal", db->path);
	struct stat st;

	if (stat(wal, &st) < 0)
		return;
	if ((uint64_t)st.st_size < db->wal_left_bytes)
		db->wal_left_bytes = 0; /* another process emptied it */
	if ((uint64_t)st.st_size <= db->wal_left_bytes + max_bytes)
		return;
	sqlite3_busy_timeout(db->sql, 0);
	db->wal_left_bytes = sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK ? 0 : (uint64_t)st.st_size;
	sqlite3_busy_timeout(db->sql, BUSY_MS);
}

static int end_txn(struct db *db, const char *how, uint64_t wal_max_bytes, struct err *err)
{
	int r = db_exec(db, how, err);

	if (r < 0)
		sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
	db->in_txn = false;
	if (db->lock_fd >= 0) {
		if (r == 0)
			checkpoint_if_due(db, wal_max_bytes);
		fs_unlock(db->lock_fd);
	}
	return r;
}

int db_commit(struct db *db, struct err *err)
{
	return end_txn(db, "COMMIT", WAL_MAX_BYTES, err);
}

int db_commit_durable(struct db *db, struct err *err)
{
	_cleanup_(freep) char *wal = xasprintf("%s-wal", db->path);
	_cleanup_(fd_closep) int fd = -1;

	if (end_txn(db, "COMMIT", WAL_LEFT_BYTES, err) < 0)
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
		end_txn(db, "ROLLBACK", WAL_MAX_BYTES, NULL);
}

/* --- opening -------------------------------------------------------------------------------------------------------------- */

static int read_pragma(struct db *db, const char *text, int64_t *ret, struct err *err)
{
	sqlite3_stmt *s;
	int r;

	if (sqlite3_prepare_v2(db->sql, text, -1, &s, NULL) != SQLITE_OK)
		return db_fail(db, err, "cannot open");
	r = db_step(db, s, err);
	*ret = r > 0 ? sqlite3_column_int64(s, 0) : 0;
	sqlite3_finalize(s);
	return r < 0 ? -1 : 0;
}

static int check_identity(struct db *db, int64_t *ret_version, struct err *err)
{
	int64_t app, tables;

	if (read_pragma(db, "PRAGMA application_id", &app, err) < 0 || read_pragma(db, "PRAGMA user_version", ret_version, err) < 0)
		return -1;
	if (app != DB_APPLICATION_ID) {
		if (read_pragma(db, "SELECT count(*) FROM sqlite_schema", &tables, err) < 0)
			return -1;
		if (app != 0 || tables != 0)
			return err_set(err, ERR_CORRUPT, "%s is a database of another program; move it away", db->path);
	}
	if (*ret_version > (int64_t)ARRAY_LEN(db_migrations))
		return err_set(err, ERR_NEWER, "the database %s was written by a newer cairn (version %lld, this one knows %zu); upgrade cairn", db->path,
			       (long long)*ret_version, ARRAY_LEN(db_migrations));
	return 0;
}

static int migrate_locked(struct db *db, struct err *err)
{
	char pragma[64];
	int64_t version;

	if (check_identity(db, &version, err) < 0) /* another process may have done it while we waited */
		return -1;
	for (; version < (int64_t)ARRAY_LEN(db_migrations); version++)
		if (db_exec(db, db_migrations[version], err) < 0)
			return -1;
	snprintf(pragma, sizeof(pragma), "PRAGMA application_id=%d; PRAGMA user_version=%d", DB_APPLICATION_ID, (int)version);
	return db_exec(db, pragma, err);
}

static int migrate(struct db *db, struct err *err)
{
	int64_t version;

	if (check_identity(db, &version, err) < 0)
		return -1;
	if (version == (int64_t)ARRAY_LEN(db_migrations))
		return 0;
	if (!db->writable)
		return version == 0 ? err_set(err, ERR_NOT_FOUND, "the database %s is empty: nothing was run here yet", db->path) :
				      err_set(err, ERR_INVALID, "the database %s is of an older version; any command that writes (cairn run) upgrades it", db->path);
	if (db_begin(db, err) < 0)
		return -1;
	if (migrate_locked(db, err) < 0) {
		db_rollback(db);
		return err_wrap(err, "upgrading");
	}
	return db_commit(db, err);
}

static int configure(struct db *db, struct err *err)
{
	bool memory = db->lock_fd < 0 && str_eq(db->path, ":memory:");

	sqlite3_busy_timeout(db->sql, BUSY_MS);
	sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (memory)
		return 0;
	if (db->writable && db_exec(db, fs_network_name(db->path) ? "PRAGMA journal_mode=TRUNCATE" : "PRAGMA journal_mode=WAL", err) < 0)
		return -1;
	return db_exec(db, "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-65536; PRAGMA mmap_size=0", err);
}

static int open_file(struct db *db, const char *path, struct err *err)
{
	int flags = db->writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
	int r;

	if (!db->writable && access(path, F_OK) < 0)
		return err_set(err, ERR_NOT_FOUND, "nothing was run here yet (there is no %s)", path);
	/* Readers of a WAL write its shared memory; where they may not, what is there can still be read. */
	r = sqlite3_open_v2(path, &db->sql, flags | SQLITE_OPEN_NOMUTEX, NULL);
	if (r != SQLITE_OK && !db->writable) {
		sqlite3_close(db->sql);
		r = sqlite3_open_v2(path, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
	}
	return r == SQLITE_OK ? 0 : db_fail(db, err, "cannot open");
}

static int open_lock(struct db *db, const char *path, struct err *err)
{
	_cleanup_(freep) char *lock = xasprintf("%s.lock", path);

	db->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (db->lock_fd >= 0)
		return 0;
	if (errno == EROFS || errno == EACCES)
		return err_set(err, ERR_READ_ONLY, "%s can't be written to", lock);
	return err_errno(err, "cannot open %s", lock);
}

static void remember_file(struct db *db)
{
	struct stat st;

	if (db->lock_fd < 0 || stat(db->path, &st) < 0)
		return;
	db->dev = st.st_dev;
	db->ino = st.st_ino;
}

int db_open(const char *path, enum db_open_flags flags, struct db **ret, struct err *err)
{
	struct db *db = xcalloc(1, sizeof(*db));
	bool memory = str_eq(path, ":memory:");

	db->path = xstrdup(path);
	db->lock_fd = -1;
	db->writable = flags & DB_WRITE;
	if ((db->writable && !memory && open_lock(db, path, err) < 0) || open_file(db, path, err) < 0 || configure(db, err) < 0 ||
	    (remember_file(db), migrate(db, err)) < 0) {
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
	for (size_t i = 0; i < db->n_cache; i++)
		sqlite3_finalize(db->cache[i].stmt);
	sqlite3_close(db->sql);
	fd_closep(&db->lock_fd);
	free(db->path);
	free(db);
}

int db_check(struct db *db, struct err *err)
{
	sqlite3_stmt *s;
	int r;

	if (sqlite3_prepare_v2(db->sql, "PRAGMA integrity_check(1)", -1, &s, NULL) != SQLITE_OK)
		return db_fail(db, err, "cannot check");
	r = db_step(db, s, err);
	if (r > 0 && !str_eq((const char *)sqlite3_column_text(s, 0), "ok"))
		r = err_set(err, ERR_CORRUPT, "the database %s is damaged: %s; move it away and run again: results are kept in the store", db->path,
			    (const char *)sqlite3_column_text(s, 0));
	sqlite3_finalize(s);
	return r < 0 ? -1 : 0;
}
