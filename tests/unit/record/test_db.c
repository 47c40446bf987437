/* record/db: writers that meet, writers that are killed, damaged, newer, older and foreign files.
 */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "core/seeds.h"
#include "record/internal.h"
#include "record/lineage/outside.h"
#include "record/rows/attempts.h"
#include "record/rows/firings.h"
#include "record/rows/notices.h"
#include "unit.h"

enum { ATTEMPTS = 3, WRITERS = 3, EACH = 60, KILLS = 25, MAKERS = 6, MAKINGS = 40 };

struct fixture {
	char dir[TEST_DIR_MAX];
	char *path;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_dir_in_memory(f->dir, sizeof(f->dir), "db");
	f->path = fs_join(f->dir, "cairn.db");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fs_remove_tree(f->dir, NULL), 0);
	free(f->path);
	free(f);
	return 0;
}

static struct db *open_db(const char *path)
{
	struct err err = { 0 };
	struct db *db;

	if (db_open(path, DB_WRITE, &db, &err) < 0)
		fail_msg("%s", err.msg);
	return db;
}

/* A run with its attempts, a key record and some content, in one transaction: all there or nothing.
 * `bulk` bytes make the log grow, so that checkpoints come. No assertions: child processes use it.
 */
static int write_one(struct db *db, uint64_t number, size_t bulk, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row run = { .pipeline = "p",
			       .started_ns = (int64_t)number + 1,
			       .params_json = "{}" };
	_cleanup_(freep) char *bytes = xcalloc(1, bulk + 1);

	if (db_begin(db, err) < 0)
		return -1;
	if (record_run_add(db, &run, arena, err) < 0)
		goto fail;
	for (uint32_t i = 0; i < ATTEMPTS; i++) {
		struct attempt_row a = {
			.run = run.rowid, .task = "t", .step = "t", .number = i + 1, .started_ns = 1
		};

		memcpy(a.key.b, &number, sizeof(number));
		if (record_attempt_start(db, &a, err) < 0)
			goto fail;
		if (i == 0 && record_key(db, &a.key, bytes, bulk, err) < 0)
			goto fail;
	}
	return db_commit(db, err);
fail:
	db_rollback(db);
	return -1;
}

static int64_t ask(const char *path, const char *sql)
{
	sqlite3 *raw;
	sqlite3_stmt *s;
	int64_t n;

	assert_int_equal(sqlite3_open_v2(path, &raw, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(raw, 30000);
	sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	n = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(raw);
	return n;
}

/* Runs without all of their attempts. */
#define HALVES \
	"SELECT count(*) FROM run WHERE (SELECT count(*) FROM attempt WHERE run = rowid_) != 3"

static void exec_raw(const char *path, const char *sql)
{
	char *message = NULL;
	sqlite3 *raw;

	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	if (sqlite3_exec(raw, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s", message);
	sqlite3_close(raw);
}

/* Several processes. */

static _Noreturn void run_writer(const char *path, uint64_t first, uint64_t n, size_t bulk, int say)
{
	struct err err = { 0 };
	struct db *db;

	if (db_open(path, DB_WRITE, &db, &err) < 0) {
		print_error("a writer can't open: %s\n", err.msg);
		_exit(2);
	}
	for (uint64_t i = 0; i < n; i++)
		if (write_one(db, first + i, bulk, &err) < 0 ||
		    (say >= 0 && write(say, "x", 1) != 1)) {
			print_error("a writer can't write: %s\n", err.msg);
			_exit(3);
		}
	db_close(db);
	_exit(0);
}

static pid_t start_writer(const char *path, uint64_t first, uint64_t n, size_t bulk, int say)
{
	pid_t pid = fork();

	if (pid == 0)
		run_writer(path, first, n, bulk, say);
	return pid;
}

/* They make and migrate the file at the same moment too. A reader sees whole transactions only. */
static void writers_that_meet_lose_nothing(void **state)
{
	struct fixture *f = *state;
	pid_t pids[WRITERS];
	int left = WRITERS, status;

	for (uint64_t i = 0; i < WRITERS; i++)
		pids[i] = start_writer(f->path, i * EACH, EACH, 100 * KIB, -1);
	while (left) {
		pid_t pid = waitpid(-1, &status, WNOHANG);
		struct db *db;

		if (pid > 0) {
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			left--;
		}
		if (db_open(f->path, DB_READ, &db, NULL) == 0) {
			assert_int_equal(ask(f->path, HALVES), 0);
			db_close(db);
		}
	}
	(void)pids;
	assert_int_equal(ask(f->path, "SELECT count(*) FROM run"), WRITERS * EACH);
	assert_int_equal(ask(f->path, "SELECT count(DISTINCT id) FROM run"), WRITERS * EACH);
	assert_int_equal(ask(f->path, "SELECT count(*) FROM key_record"), WRITERS * EACH);
	assert_int_equal(ask(f->path, HALVES), 0);
}

/* The database of a new project is made by whoever opens it first: all of them get it. */
static void those_who_make_it_together_all_have_it(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < MAKINGS; round += (int)seeds_stride(5)) {
		_cleanup_(freep) char *path = xasprintf("%s/%d.db", f->dir, round);
		pid_t pids[MAKERS];
		int gate[2], status;
		char c;

		assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
		for (int i = 0; i < MAKERS; i++) {
			pids[i] = fork();
			if (pids[i] == 0) {
				close(gate[1]);
				if (read(gate[0], &c, 1) != 0) /* its end opens the gate */
					_exit(4);
				run_writer(path, (uint64_t)i, 1, 0, -1);
			}
		}
		close(gate[0]);
		close(gate[1]);
		for (int i = 0; i < MAKERS; i++) {
			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		}
		assert_int_equal(ask(path, "SELECT count(*) FROM run"), MAKERS);
	}
}

/* Who opens it while another process makes it finds nothing there, or all of it. */
static void who_opens_while_it_is_made_finds_it_or_nothing(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < MAKINGS; round += (int)seeds_stride(5)) {
		_cleanup_(freep) char *path = xasprintf("%s/open%d.db", f->dir, round);
		struct db *db = NULL;
		pid_t pid = fork();
		int status;

		if (pid == 0)
			run_writer(path, 0, 1, 0, -1);
		while (!db) {
			struct err err = { 0 };

			if (db_open(path, DB_READ, &db, &err) < 0 && err.code != ERR_NOT_FOUND)
				fail_msg("%s", err.msg);
		}
		db_close(db);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* What a writer said was committed is there after kill -9, whole; what it was at is there whole or
 * not at all. */
static void a_killed_writer_leaves_whole_transactions(void **state)
{
	struct fixture *f = *state;
	uint64_t written = 0;

	for (int round = 0; round < (seeds_quick() ? KILLS / 5 : KILLS); round++) {
		uint64_t committed = 0, now;
		int fds[2], status;
		struct db *db;
		pid_t pid;
		char c;

		assert_int_equal(pipe(fds), 0);
		pid = start_writer(f->path, written, UINT64_MAX, round % 2 ? 900 * KIB : 100,
				   fds[1]); /* every second one checkpoints often */
		close(fds[1]);
		for (int i = 0; i < 1 + round % 12 && read(fds[0], &c, 1) == 1; i++)
			committed++;
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		while (read(fds[0], &c, 1) == 1)
			committed++;
		close(fds[0]);
		db = open_db(f->path);
		now = (uint64_t)ask(f->path, "SELECT count(*) FROM run");
		assert_true(now >= written + committed && now <= written + committed + 1);
		assert_int_equal(ask(f->path, HALVES), 0);
		assert_int_equal(db_check(db, NULL), 0);
		assert_int_equal(write_one(db, 1000000 + (uint64_t)round, 10, NULL),
				 0); /* its lock went with it */
		db_close(db);
		written = now + 1;
	}
}

/* The log grows up to its limit, is then written over, and is cut at the end of a run. */
static void the_log_has_a_limit(void **state)
{
	static const uint64_t limits[] = { 0, 16 * MIB }; /* 0: the default, 8 MiB */
	struct fixture *f = *state;
	_cleanup_(freep) char *wal = xasprintf("%s-wal", f->path);
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct db *db = open_db(f->path);
		const uint64_t limit = limits[i] ? limits[i] : 8 * MIB;
		uint64_t most = 0;

		if (limits[i])
			db_limit_wal(db, limits[i]);
		for (uint64_t k = 0; k < 40; k++) {
			assert_int_equal(write_one(db, 100 * i + k, 900 * KIB, NULL), 0);
			assert_int_equal(stat(wal, &st), 0);
			most = MAX(most, (uint64_t)st.st_size);
		}
		assert_in_range(most, limit, limit + 2 * MIB);
		assert_int_equal(db_begin(db, NULL), 0);
		assert_int_equal(db_commit_durable(db, NULL), 0);
		assert_int_equal(stat(wal, &st), 0);
		assert_in_range(st.st_size, 0, 256 * KIB);
		db_close(db);
		assert_int_equal(ask(f->path, "SELECT count(*) FROM run"), 40 * (i + 1));
		assert_int_equal(ask(f->path, HALVES), 0);
	}
}

static int64_t runs_seen(struct db *db)
{
	int64_t n = -1;

	assert_int_equal(db_get(db, "SELECT count(*) FROM run", DB_IN(), NULL, DB_OUT(&n), NULL),
			 1);
	return n;
}

/* Reads of a snapshot see its first read's moment. A transaction sees everything, also one that
 * begins while there is a snapshot. */
static void a_snapshot_ends_where_a_transaction_begins(void **state)
{
	struct fixture *f = *state;
	struct db *a = open_db(f->path), *b = open_db(f->path);

	db_snapshot(a);
	assert_int_equal(write_one(b, 1, 10, NULL), 0);
	assert_int_equal(runs_seen(a), 1); /* it is the first read */
	assert_int_equal(write_one(b, 2, 10, NULL), 0);
	assert_int_equal(runs_seen(a), 1);
	assert_int_equal(write_one(a, 3, 10, NULL), 0);
	assert_int_equal(runs_seen(a), 3);
	db_snapshot_end(a);
	assert_int_equal(runs_seen(b), 3);
	db_close(a);
	db_close(b);
}

static void what_is_not_committed_is_not_there(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row run = { .pipeline = "p", .started_ns = 1 };
	struct db *db = open_db(f->path);

	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	db_rollback(db);
	db_rollback(db); /* none open: nothing */
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	db_close(db);
	assert_int_equal(ask(f->path, "SELECT count(*) FROM run"), 0);
	db = open_db(f->path);
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	assert_int_equal(db_commit_durable(db, NULL), 0);
	db_close(db);
	assert_int_equal(ask(f->path, "SELECT count(*) FROM run"), 1);
}

/* Files that aren't right. */

static const struct {
	const char *sql;
	enum db_open_flags flags;
	enum err_code code;
	const char *words;
} refused[] = {
	{ "PRAGMA user_version=99", DB_WRITE, ERR_NEWER, "written by a newer cairn (version 99" },
	{ "PRAGMA user_version=99", DB_READ, ERR_NEWER, "upgrade cairn" },
	{ "PRAGMA application_id=7", DB_WRITE, ERR_CORRUPT, "another program" },
	{ "PRAGMA application_id=0", DB_WRITE, ERR_CORRUPT, "another program" },
};

static void newer_and_foreign_ones_are_refused_in_words(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct err err = { 0 };
		struct db *db = open_db(f->path);

		db_close(db);
		exec_raw(f->path, refused[i].sql);
		assert_int_equal(db_open(f->path, refused[i].flags, &db, &err), -1);
		assert_int_equal(err.code, refused[i].code);
		assert_non_null(strstr(err.msg, refused[i].words));
		assert_non_null(strstr(err.msg, f->path));
		assert_int_equal(fs_remove_tree(f->path, NULL), 0);
	}
}

static void what_is_not_there_or_no_file(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	struct db *db;

	assert_int_equal(db_open(f->path, DB_READ, &db, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "nothing was run here yet"));
	assert_int_equal(access(f->path, F_OK), -1);
	assert_int_equal(fs_write_atomic(f->path, "", 0, NULL), 0);
	assert_int_equal(db_open(f->path, DB_READ, &db, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(fs_remove_tree(f->path, NULL), 0);
	assert_int_equal(mkdir(f->path, 0755), 0);
	assert_int_equal(db_open(f->path, DB_WRITE, &db, &err), -1);
	assert_int_equal(err.code, ERR_IO);
	assert_int_equal(db_open(f->path, DB_READ, &db, &err), -1);
}

/* Every statement that reads. */
static int read_all(struct db *db, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row *runs, one;
	struct attempt_row *attempts, previous;
	struct run_input_row *inputs;
	struct nondeterminism_row *rows;
	struct cached_result result;
	size_t n, m;
	int64_t ns;

	if (record_all_runs(db, arena, &runs, &n, err) < 0 ||
	    record_last_results(db, "p", arena, &one, err) < 0 ||
	    record_step_duration(db, "p", "t", &ns, err) < 0 ||
	    record_nondeterminism(db, arena, &rows, &m, err) < 0 ||
	    record_previous_attempt(db, "p", "t", 0, arena, &previous, err) < 0)
		return -1;
	for (size_t i = 0; i < n && i < 20; i++) {
		if (record_run_attempts(db, runs[i].rowid, arena, &attempts, &m, err) < 0 ||
		    record_run_inputs(db, runs[i].rowid, arena, &inputs, &m, err) < 0)
			return -1;
		for (size_t k = 0; k < m; k++)
			if (record_lookup(db, &attempts[k].key, arena, &result, err) < 0)
				return -1;
	}
	return db_check(db, err);
}

static int open_and_use(const char *path, struct err *err)
{
	_cleanup_(db_closep) struct db *db = NULL;

	if (db_open(path, DB_WRITE, &db, err) < 0 || read_all(db, err) < 0)
		return -1;
	return write_one(db, 77, 5000, err);
}

static void put_copy(const struct fixture *f, const struct str *bytes, size_t n)
{
	_cleanup_(freep) char *wal = xasprintf("%s-wal", f->path),
			      *shm = xasprintf("%s-shm", f->path);

	unlink(wal);
	unlink(shm);
	assert_int_equal(fs_write_atomic(f->path, bytes->s, n, NULL), 0);
}

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* A healthy file of some dozen pages, all of it in the file itself. */
static void make_sample(struct fixture *f, struct str *ret)
{
	struct db *db = open_db(f->path);

	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(write_one(db, i, 700, NULL), 0);
	db_close(db);
	exec_raw(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
	assert_int_equal(fs_read_file(f->path, MIB, ret, NULL), 0);
	assert_true(ret->len > 20 * 4096);
}

/* One clear error, never a crash, and never words of SQLite's alone. */
static bool is_orderly(const struct err *err)
{
	return err->code == ERR_CORRUPT || err->code == ERR_NEWER || err->code == ERR_NOT_FOUND;
}

static void damage_is_an_error_in_words(void **state)
{
	struct fixture *f = *state;
	_cleanup_(str_deinit) struct str good = { 0 }, bad = { 0 };
	size_t found = 0;

	make_sample(f, &good);
	for (uint32_t round = 0; round < 400; round += (uint32_t)seeds_stride(7)) {
		uint32_t seed = round;
		struct err err = { 0 };
		size_t n = good.len,
		       at = round % 3 ? next(&seed) % n
				      : next(&seed) % 1024; /* every third in header and schema */

		str_reset(&bad);
		str_addn(&bad, good.s, good.len);
		if (round % 10 == 0)
			n = at;
		else
			for (size_t k = 0; k < 1 + round % 40 && at + k < n; k++)
				bad.s[at + k] = (char)next(&seed);
		put_copy(f, &bad, n);
		if (open_and_use(f->path, &err) < 0) {
			found++;
			if (!is_orderly(&err))
				fail_msg("round %u: code %d: %s", round, err.code, err.msg);
			assert_non_null(strstr(err.msg, f->path));
		}
	}
	assert_in_range(found, 60 / seeds_stride(7),
			399); /* data in the middle of a page may change unseen */
	put_copy(f, &good, good.len);
	assert_int_equal(open_and_use(f->path, NULL), 0);
}

/* Frames that don't sum up end the log: what was before them is there, whole. */
static void a_damaged_log_loses_its_end_only(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *wal = xasprintf("%s-wal", f->path);
	_cleanup_(str_deinit) struct str good = { 0 }, log = { 0 };
	struct db *db = open_db(f->path);
	size_t lost = 0;

	db_close(db);
	exec_raw(f->path, "PRAGMA wal_checkpoint(TRUNCATE)");
	db = open_db(f->path);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(write_one(db, i, 700, NULL), 0);
	db_close(db);
	assert_int_equal(fs_read_file(f->path, MIB, &good, NULL), 0);
	assert_int_equal(fs_read_file(wal, 4 * MIB, &log, NULL), 0);
	assert_true(log.len > 20 * 4096);
	for (uint32_t round = 0; round < 100; round++) {
		uint32_t seed = round + 1;
		size_t at = next(&seed) % log.len;
		int64_t runs;

		put_copy(f, &good, good.len);
		log.s[at] ^= 0x55;
		assert_int_equal(fs_write_atomic(wal, log.s, round % 2 ? log.len : at, NULL), 0);
		log.s[at] ^= 0x55;
		db = open_db(f->path);
		runs = ask(f->path, "SELECT count(*) FROM run");
		lost += runs < 20;
		assert_int_equal(ask(f->path, HALVES), 0);
		assert_int_equal(db_check(db, NULL), 0);
		assert_int_equal(write_one(db, 99, 10, NULL), 0);
		db_close(db);
	}
	assert_true(lost > 50);
}

/* Older ones. */

/* tests/unit/record/versions/N.sql: a database as version N wrote it. Whatever comes later has to
 * read it. */
static void stored_databases_of_older_versions_are_upgraded(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	for (int version = 1;; version++) {
		_cleanup_(freep) char *path =
			xasprintf("tests/unit/record/versions/%d.sql", version);
		_cleanup_(str_deinit) struct str dump = { 0 };
		struct cached_result result;
		struct attempt_row *attempts;
		struct run_row run, *runs;
		struct notice_row *notices;
		struct firing *firings;
		struct db *db;
		size_t n;

		if (access(path, F_OK) < 0) {
			assert_true(version > 1);
			break;
		}
		assert_int_equal(fs_read_file(path, MIB, &dump, NULL), 0);
		exec_raw(f->path, dump.s);
		assert_int_equal(ask(f->path, "PRAGMA user_version"), version);
		db = open_db(f->path);
		assert_int_equal(db_check(db, NULL), 0);
		assert_int_equal(record_all_runs(db, arena, &runs, &n, NULL), 0);
		assert_int_equal(n, 1);
		assert_int_equal(record_find_run(db, "small", arena, &run, NULL), 0);
		assert_string_equal(run.id, "small-bbbbb");
		assert_int_equal(run.state, RUN_SUCCEEDED);
		assert_string_equal(run.params_json, "{\"n\":3}");
		assert_int_equal(run.counts.executed, 1);
		assert_int_equal(record_run_attempts(db, run.rowid, arena, &attempts, &n, NULL), 0);
		assert_int_equal(n, 1);
		assert_string_equal(attempts[0].task, "train[fold=0]");
		assert_int_equal(record_lookup(db, &attempts[0].key, arena, &result, NULL), 1);
		assert_int_equal(result.n_outputs, 1);
		assert_int_equal(result.outputs[0].id.size_bytes, 5);
		assert_int_equal(result.n_metrics, 1);
		assert_true(result.metrics[0].value == 0.75);
		assert_null(attempts[0].waiting);
		if (version >= 4)
			assert_true(str_has_prefix(attempts[0].image,
						   "registry.example/train@sha256:2222"));
		else
			assert_null(attempts[0].image);
		if (version >= 3) {
			assert_int_equal(record_firings(db, &(struct firing_filter){ 0 }, arena,
							&firings, &n, NULL),
					 0);
			assert_int_equal(n, 1);
			assert_int_equal(firings[0].times, version >= 5 ? 3 : 1);
			assert_int_equal(firings[0].first_ns, version >= 5 ? 1699990000000000000
									   : firings[0].nominal_ns);
		}
		assert_int_equal(record_firings_unreported(db, arena, &firings, &n, NULL), 0);
		assert_int_equal(n, version >= 5);
		assert_int_equal(record_notices(db, NOTICE_WAITING, 0, arena, &notices, &n, NULL),
				 0);
		assert_int_equal(n, version >= 5);
		if (n)
			assert_string_equal(notices[0].message, "the receiver answered 503");
		assert_int_equal(write_one(db, 1, 10, NULL), 0);
		db_close(db);
		put_copy(f, &dump, 0);
	}
}

/* Attempts on a cluster. */

static void what_holds_up_an_attempt_is_on_record_until_its_end(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct db *db = open_db(f->path);
	struct run_row run = { .pipeline = "p",
			       .path = "p.yaml",
			       .started_ns = 1,
			       .params_json = "{}",
			       .options_json = "{}" };
	struct attempt_row a = { .task = "t",
				 .step = "s",
				 .number = 1,
				 .started_ns = 1,
				 .image = "r/i@sha256:00" },
			   *rows;
	size_t n;

	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	a.run = run.rowid;
	assert_int_equal(record_attempt_start(db, &a, NULL), 0);
	assert_int_equal(record_attempt_waiting(db, a.id, "no node has 2 nvidia.com/gpu", NULL), 0);
	assert_int_equal(record_run_attempts(db, run.rowid, arena, &rows, &n, NULL), 0);
	assert_string_equal(rows[0].waiting, "no node has 2 nvidia.com/gpu");
	assert_string_equal(rows[0].image, "r/i@sha256:00");
	a.ended_ns = 2;
	assert_int_equal(record_attempt_end(db, &a, NULL), 0);
	assert_int_equal(record_attempt_waiting(db, a.id, "too late", NULL), 0);
	assert_int_equal(record_run_attempts(db, run.rowid, arena, &rows, &n, NULL), 0);
	assert_null(rows[0].waiting);
	assert_string_equal(rows[0].image, "r/i@sha256:00");
	assert_int_equal(db_commit(db, NULL), 0);
	db_close(db);
}

/* Results and keys. */

static void result_of(struct db *db, int64_t run, unsigned key, unsigned content,
		      int64_t duration_ns, int want)
{
	struct attempt_row a = { .run = run,
				 .task = "t",
				 .step = "s",
				 .number = 1,
				 .started_ns = 1,
				 .key.b = { (uint8_t)key } };
	struct named_content out = {
		"o",
		{ .kind = CONTENT_BLOB, .size_bytes = content, .digest.b = { (uint8_t)content } }
	};

	assert_int_equal(record_attempt_start(db, &a, NULL), 0);
	a.ended_ns = 1 + duration_ns;
	assert_int_equal(record_attempt_end(db, &a, NULL), 0);
	assert_int_equal(record_result(db,
				       &(struct observation){ .attempt = a.id,
							      .key = &a.key,
							      .cacheable = true,
							      .outputs = &out,
							      .n_outputs = 1 },
				       NULL),
			 want);
}

static void the_first_observation_counts_and_a_second_one_is_noticed(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct db *db = open_db(":memory:");
	struct run_row run = { .pipeline = "p", .started_ns = 1 };
	struct digest one = { .b = { 1 } }, two = { .b = { 2 } };
	struct cached_result r;
	struct nondeterminism_row *rows;
	size_t n;
	int64_t ns;

	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	result_of(db, run.rowid, 1, 10, 5, 0);
	result_of(db, run.rowid, 1, 10, 7, 0);
	assert_int_equal(record_nondeterminism(db, arena, &rows, &n, NULL), 0);
	assert_int_equal(n, 0);
	result_of(db, run.rowid, 1, 11, 9, 1);
	result_of(db, run.rowid, 2, 11, 100, 0);
	assert_int_equal(db_commit(db, NULL), 0);
	assert_int_equal(record_lookup(db, &one, arena, &r, NULL), 1);
	assert_int_equal(r.outputs[0].id.size_bytes, 10); /* never silently the newest */
	assert_int_equal(record_nondeterminism(db, arena, &rows, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0].n_results, 2);
	assert_int_equal(rows[0].key.b[0], 1);
	assert_int_equal(record_step_duration(db, "p", "s", &ns, NULL), 1);
	assert_true(ns == 7 || ns == 9); /* a median of 5, 7, 9, 100 */
	assert_int_equal(record_step_duration(db, "p", "other", &ns, NULL), 0);
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_forget(db, &one, NULL), 0);
	assert_int_equal(db_commit(db, NULL), 0);
	assert_int_equal(record_lookup(db, &one, arena, &r, NULL), 0);
	assert_int_equal(record_lookup(db, &two, arena, &r, NULL), 1);
	db_close(db);
}

/* More statements than the cache holds: a query in the middle of its rows keeps its own, whatever
 * else is asked meanwhile, its own text included. */
static void a_statement_in_use_stays(void **state)
{
	struct fixture *f = *state;
	static char texts[200][64];
	struct db *db = open_db(f->path);
	struct db_query rows[100], again;
	int64_t v;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		snprintf(texts[i], sizeof(texts[i]), "SELECT %zu UNION SELECT 1000 ORDER BY 1", i);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(db_query(db, &rows[i], texts[i], DB_IN(), NULL, NULL), 0);
		assert_int_equal(db_next(&rows[i], DB_OUT(&v), NULL), 1);
		assert_int_equal(v, i);
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(db_get(db, texts[i], DB_IN(), NULL, DB_OUT(&v), NULL), 1);
		assert_int_equal(v, i);
	}
	assert_int_equal(db_query(db, &again, texts[0], DB_IN(), NULL, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(db_next(&rows[i], DB_OUT(&v), NULL), 1);
		assert_int_equal(v, 1000);
		assert_int_equal(db_next(&rows[i], DB_OUT(&v), NULL), 0);
		db_end(&rows[i]);
	}
	assert_int_equal(db_next(&again, DB_OUT(&v), NULL), 1);
	assert_int_equal(v, 0);
	db_end(&again);
	db_close(db);
}

struct typed {
	int64_t i64;
	uint64_t u64;
	uint32_t u32;
	int32_t i32;
	uint8_t u8;
	bool yes, has_digest;
	double real;
	enum run_state state;
	const char *text;
	struct digest digest;
	struct content_id id;
};
#define TYPED "i64, u64, u32, i32, u8, yes, real, state, text, digest, id"

static const struct db_row typed_of_columns = DB_ROW(
	struct typed, NULL, DB_COLUMN(struct typed, i64), DB_COLUMN(struct typed, u64),
	DB_COLUMN(struct typed, u32), DB_COLUMN(struct typed, i32), DB_COLUMN(struct typed, u8),
	DB_COLUMN(struct typed, yes), DB_COLUMN(struct typed, real), DB_COLUMN(struct typed, state),
	DB_COLUMN(struct typed, text), DB_OPTIONAL(struct typed, digest, has_digest),
	DB_COLUMN(struct typed, id));

/* Every type that can be bound comes back as it went, by places and as a struct. */
static void values_come_back_as_they_went(void **state)
{
	static const struct typed sent[] = {
		{ INT64_MIN,
		  UINT64_MAX,
		  UINT32_MAX,
		  INT32_MIN,
		  UINT8_MAX,
		  true,
		  true,
		  -0.5,
		  RUN_INTERRUPTED,
		  "\xce\xb8'\"?1",
		  { { 1, 2 } },
		  { { { 3 } }, UINT64_MAX, CONTENT_TREE } },
		{ .text = NULL }, /* NULLs where there can be some */
	};
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct db *db = open_db(":memory:");
	struct typed *got, t;
	size_t n;

	assert_int_equal(db_exec(db, "CREATE TEMP TABLE typed (" TYPED ")", NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(sent); i++) {
		const struct typed *s = &sent[i];

		assert_int_equal(db_change(db, "INSERT INTO typed VALUES (?,?,?,?,?,?,?,?,?,?,?)",
					   DB_IN(s->i64, s->u64, s->u32, s->i32, s->u8, s->yes,
						 s->real, s->state, s->text,
						 s->has_digest ? &s->digest : NULL, &s->id),
					   NULL),
				 1);
	}
	assert_int_equal(db_get_rows(db, "SELECT " TYPED " FROM typed ORDER BY rowid", DB_IN(),
				     arena, &typed_of_columns, &got, &n, NULL),
			 0);
	assert_int_equal(n, ARRAY_LEN(sent));
	for (size_t i = 0; i < n; i++) {
		struct typed want = sent[i];

		if (want.text) {
			assert_string_equal(got[i].text, want.text);
			want.text = got[i].text;
		}
		assert_memory_equal(&got[i].i64, &want.i64, offsetof(struct typed, yes));
		assert_true(got[i].yes == want.yes && got[i].has_digest == want.has_digest);
		assert_true(got[i].real == want.real && got[i].state == want.state);
		assert_ptr_equal(got[i].text, want.text);
		assert_true(digest_eq(&got[i].digest, &want.digest));
		assert_true(content_id_eq(&got[i].id, &want.id));
	}
	t = (struct typed){ 0 };
	assert_int_equal(db_get(db, "SELECT " TYPED " FROM typed WHERE i64 = ?", DB_IN(INT64_MIN),
				arena,
				DB_OUT(&t.i64, &t.u64, &t.u32, &t.i32, &t.u8, &t.yes, &t.real,
				       &t.state, &t.text, &t.digest, &t.id),
				NULL),
			 1);
	assert_true(t.u64 == UINT64_MAX && t.i32 == INT32_MIN && t.u8 == UINT8_MAX && t.yes &&
		    t.real == -0.5 && t.state == RUN_INTERRUPTED);
	assert_string_equal(t.text, sent[0].text);
	assert_true(digest_eq(&t.digest, &sent[0].digest) && content_id_eq(&t.id, &sent[0].id));
	db_close(db);
}

static const struct db_row needs_digest =
	DB_ROW(struct typed, NULL, DB_NEEDED(struct typed, digest));

/* What somebody else wrote into the database: columns that are NULL, of another type or of another
 * size read as nothing, and a row that lacks what it needs is passed over. */
static void hostile_columns_read_as_nothing(void **state)
{
	static const struct {
		const char *sql; /* of one column */
		bool digest, id, text;
		int64_t number;
	} cases[] = {
		{ "NULL" },
		{ "zeroblob(32)", .digest = true, .text = true },
		{ "zeroblob(31)", .text = true },
		{ "zeroblob(33)", .text = true },
		{ "zeroblob(41)", .text = true }, /* a kind of 0 */
		{ "zeroblob(0)", .text = true },
		{ "CAST(x'09' || zeroblob(40) AS BLOB)", .text = true }, /* a kind that isn't */
		{ "CAST(x'01' || zeroblob(40) AS BLOB)", .id = true, .text = true },
		{ "'12 apples'", .text = true, .number = 12 },
		{ "'abcdefghijklmnopqrstuvwxyz012345'", .digest = true, .text = true },
		{ "1.75", .text = true, .number = 1 },
		{ "9e99", .text = true, .number = INT64_MAX },
	};
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct db *db = open_db(":memory:");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *sql = xasprintf("SELECT v, v, v, v FROM (SELECT %s AS v)",
						       cases[i].sql),
				      *one = xasprintf("SELECT %s", cases[i].sql);
		struct digest digest, zero = { 0 };
		struct content_id id;
		const char *text;
		int64_t number;
		struct db_query q;
		struct typed t;

		assert_int_equal(db_query_built(db, &q, sql, DB_IN(), arena, NULL), 0);
		assert_int_equal(db_next(&q, DB_OUT(&digest, &id, &number, &text), NULL), 1);
		assert_int_equal(db_has(&q, 0), cases[i].digest);
		assert_int_equal(db_has(&q, 1), cases[i].id);
		assert_int_equal(db_has(&q, 3), cases[i].text);
		assert_true(cases[i].digest || digest_eq(&digest, &zero));
		assert_int_equal(id.kind, cases[i].id ? CONTENT_BLOB : CONTENT_NONE);
		assert_true(!text == !cases[i].text);
		assert_int_equal(number, cases[i].number);
		db_end(&q);
		assert_int_equal(db_query_built(db, &q, one, DB_IN(), arena, NULL), 0);
		assert_int_equal(db_next_row(&q, &needs_digest, &t, NULL), cases[i].digest);
		db_end(&q);
	}
	db_close(db);
}

/* What was exported last is what lies there, whatever the clock said meanwhile. */
static void clock_goes_back_between_exports(void **state)
{
	struct fixture *f = *state;
	struct db *db = open_db(f->path);
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const struct content_id first = { { { 1 } }, 1, CONTENT_BLOB },
				second = { { { 2 } }, 1, CONTENT_BLOB };
	const struct export_row rows[] = {
		{ .task = "a", .output = "o", .uri = "/place", .id = first, .at_ns = 100 },
		{ .task = "b", .output = "o", .uri = "/place", .id = second, .at_ns = 50 }
	};
	struct run_row run = { .pipeline = "p", .started_ns = 1, .params_json = "{}" };

	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct export_row e = rows[i];

		e.run = run.rowid;
		assert_int_equal(record_export(db, &e, NULL), 0);
	}
	assert_int_equal(db_commit(db, NULL), 0);
	assert_int_equal(record_exported(db, "/place", &first, NULL), 0);
	assert_int_equal(record_exported(db, "/place", &second, NULL), 1);
	db_close(db);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(writers_that_meet_lose_nothing),
		TEST(those_who_make_it_together_all_have_it),
		TEST(who_opens_while_it_is_made_finds_it_or_nothing),
		TEST(a_killed_writer_leaves_whole_transactions),
		TEST(the_log_has_a_limit),
		TEST(a_snapshot_ends_where_a_transaction_begins),
		TEST(what_is_not_committed_is_not_there),
		TEST(newer_and_foreign_ones_are_refused_in_words),
		TEST(what_is_not_there_or_no_file),
		TEST(damage_is_an_error_in_words),
		TEST(a_damaged_log_loses_its_end_only),
		TEST(stored_databases_of_older_versions_are_upgraded),
		TEST(what_holds_up_an_attempt_is_on_record_until_its_end),
		TEST(the_first_observation_counts_and_a_second_one_is_noticed),
		TEST(a_statement_in_use_stays),
		TEST(values_come_back_as_they_went),
		TEST(hostile_columns_read_as_nothing),
		TEST(clock_goes_back_between_exports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
