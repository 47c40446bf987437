/* engine/record/internal.h — the open database, for the files of this folder. */
#ifndef CAIRN_RECORD_INTERNAL_H
#define CAIRN_RECORD_INTERNAL_H

#include <sqlite3.h>
#include <sys/stat.h>
#include "record/db.h"

enum { DB_STATEMENTS_MAX = 64, DB_STATEMENTS_KEPT = 32 };

struct db {
	sqlite3 *sql;
	char *path;
	int lock_fd; /* -1: in memory */
	bool in_txn, in_snapshot, writable;
	dev_t dev; /* of the file when it was opened: another one takes its place when it is built anew (reindex.h) */
	ino_t ino;
	struct {
		const char *text; /* the literal's address is the key */
		sqlite3_stmt *stmt;
		uint64_t used; /* when it was asked for last, counted in asks */
	} cache[DB_STATEMENTS_MAX];
	size_t n_cache;
	uint64_t n_asked;
	uint64_t wal_left_bytes; /* size of the WAL after a checkpoint that readers kept from emptying it; 0: it was emptied */
};

/* A cached statement for a string literal, reset and unbound. NULL on error. It is the caller's as long as it has rows to give (until it is reset), and
 * through the next DB_STATEMENTS_KEPT asks: a function may prepare several before it runs them. */
sqlite3_stmt *db_prepare(struct db *db, const char *text, struct err *err);
int db_fail(struct db *db, struct err *err, const char *doing);
/* Steps: 1 a row, 0 done, -1 error. */
int db_step(struct db *db, sqlite3_stmt *s, struct err *err);
/* For statements without rows: binds are done; steps and resets. */
int db_run(struct db *db, sqlite3_stmt *s, struct err *err);
int db_exec(struct db *db, const char *text, struct err *err);

void bind_text(sqlite3_stmt *s, int i, const char *text); /* NULL binds null */
void bind_digest(sqlite3_stmt *s, int i, const struct digest *d);
void bind_id(sqlite3_stmt *s, int i, const struct content_id *id); /* blob of 41 bytes; null for CONTENT_NONE */
const char *column_text(sqlite3_stmt *s, int i, struct arena *arena); /* NULL when null */
bool column_digest(sqlite3_stmt *s, int i, struct digest *ret);	     /* false when null or of another size */
bool column_id(sqlite3_stmt *s, int i, struct content_id *ret);	     /* likewise; then CONTENT_NONE */

/* Row of `content` for an id: 1 it has one, 0 it has none. */
int content_row_find(struct db *db, const struct content_id *id, int64_t *ret, struct err *err);
/* A new row, under `id` or the next one that is free (0); sets a->id. 1: the id is taken, or the run has an attempt of that task and number. */
int attempt_insert(struct db *db, struct attempt_row *a, int64_t id, struct err *err);
void read_attempt_row(sqlite3_stmt *s, struct arena *arena, struct attempt_row *ret);
/* All that the prepared statement gives; resets it. */
int read_attempt_rows(struct db *db, sqlite3_stmt *s, struct arena *arena, struct attempt_row **ret, size_t *ret_n, struct err *err);
void read_run_row(sqlite3_stmt *s, struct arena *arena, struct run_row *ret);

#define RUN_COLUMNS                                                                                                                     \
	"rowid_, id, pipeline, path, state, started_ns, ended_ns, hash, pipeline_blob, results, params_json, options_json, total, executed, "   \
	"hits, failed, skipped, blocked, saved_ns, git_commit, git_dirty, message, cancel, pid, pid_start, host, schedule, nominal_ns, reproduces, git_remote, "          \
	"git_submodules"
#define ATTEMPT_COLUMNS                                                                                                                 \
	"attempt.id, attempt.run, attempt.task, attempt.step, attempt.number, attempt.key, attempt.started_ns, attempt.ended_ns, "         \
	"attempt.failure, attempt.exit_status, attempt.signo, attempt.max_rss_bytes, attempt.cpu_ns, attempt.log, attempt.node, "          \
	"attempt.message, attempt.workspace, attempt.reason, attempt.continues, attempt.waiting, attempt.image"

#endif
