/* engine/record/manifest/reindex.c — rebuilds the database from the store, and imports single runs
 * from it.
 *
 * A reindex has three passes. read_and_build() loads every manifest and keeps id, times and hash
 * (struct entry); when a run has several manifests, the last counts. build() goes through the
 * entries in the order of their start and imports each manifest, or copies the run from the old
 * database when only that has it. write_rest() copies rows that belong to no run, and takes in the
 * names.
 *
 * The new database is built as PATH.reindex without waiting for the disk, is checked and made
 * durable, and replaces the old one in one rename (replace()). When attempts of several runs have
 * the same numbers, the build ends with IMPORT_CLASH and is repeated with new numbers.
 *
 * Invariants: from the lock (PATH.lock) to the rename no other process writes; a handle on the old
 * database finds out at its next transaction (db_begin()). No WAL stays beside a database that it
 * doesn't belong to. An unreadable manifest is left out with a warning.
 *
 * Threads: the caller's; the new database has no other user. Not here: rows of one run (import.c),
 * rows that no manifest has (carry.c).
 */
#include "record/manifest/reindex.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "record/db_sql.h"
#include "record/manifest/carry.h"
#include "record/manifest/import.h"
#include "record/manifest/tag_store.h"
#include "record/rows/firings.h"
#include "storage/remote/tier.h"

#define RUNS_PER_TRANSACTION 500
/* Manifests that are announced to a shared store at a time (store_expect). */
#define EXPECTED_AT_ONCE 1000

struct entry {
	struct digest hash;
	const char *id;
	int64_t started_ns, ended_ns;
	int64_t old_row; /* row of a run that only the old database has; 0: a manifest */
	bool id_taken;   /* the old database has another run with this id */
};

struct reindex {
	struct store *s;
	struct db *db;
	const struct reindex_options *o;
	struct reindex_result *res;
	struct arena *arena;
	struct digest *hashes; /* of all manifests */
	size_t n_hashes;
	VEC(struct entry) entries;
	enum import_ids ids;
	bool has_old;
};

static void warn(const struct reindex *x, const char *text)
{
	if (x->o->on_warning)
		x->o->on_warning(x->o->arg, text);
}

/* Manifests. */

int record_store_runs(struct store *s, const char *prefix, struct digest *ret, size_t max,
		      size_t *ret_n, struct err *err)
{
	_cleanup_(freep) struct digest *names = NULL;
	char hex[DIGEST_HEX_MAX];
	size_t n;

	*ret_n = 0;
	if (tier_names(s, STORE_RUN, &names, &n, err) < 0)
		return -1;
	if (str_has_prefix(prefix, "sha256:"))
		prefix += 7;
	for (size_t i = 0; i < n; i++) {
		if (!str_has_prefix(digest_hex(&names[i], hex), prefix))
			continue;
		if (*ret_n < max)
			ret[*ret_n] = names[i];
		++*ret_n;
	}
	return 0;
}

static int read_entry(struct reindex *x, const struct digest *hash, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct entry en = { .hash = *hash };
	struct err e = { 0 };
	struct manifest m;

	if (manifest_load(x->s, hash, arena, &m, &e) < 0) {
		char hex[DIGEST_HEX_MAX];

		if (!manifest_is_damage(&e))
			return err_pass(err, &e);
		x->res->damaged++;
		warn(x, arena_printf(arena, "run %.12s is left out: %s", digest_hex(hash, hex),
				     e.msg));
		return 0;
	}
	en.id = arena_strdup(x->arena, m.run->id);
	en.started_ns = m.run->started_ns;
	en.ended_ns = m.run->ended_ns;
	VEC_PUSH(&x->entries, en);
	return 0;
}

/* Groups the manifests of a run, the last one first. */
static int by_run(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->id, y->id);

	if (c || x->started_ns != y->started_ns)
		return c ? c : x->started_ns < y->started_ns ? -1 : 1;
	if (x->ended_ns != y->ended_ns)
		return x->ended_ns > y->ended_ns ? -1 : 1;
	return memcmp(y->hash.b, x->hash.b, DIGEST_BYTES);
}

/* A resumed run has a manifest of each end: the last one counts. */
static void drop_superseded(struct reindex *x)
{
	size_t n = 0;

	if (x->entries.n)
		qsort(x->entries.v, x->entries.n, sizeof(*x->entries.v), by_run);
	for (size_t i = 0; i < x->entries.n; i++) {
		const struct entry *e = &x->entries.v[i];

		if (n && str_eq(e->id, x->entries.v[n - 1].id) &&
		    e->started_ns == x->entries.v[n - 1].started_ns)
			x->res->superseded++;
		else
			x->entries.v[n++] = *e;
	}
	x->entries.n = n;
}

/* The old database. */

static int by_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->started_ns != y->started_ns)
		return x->started_ns < y->started_ns ? -1 : 1;
	return x->old_row != y->old_row ? (x->old_row < y->old_row ? -1 : 1) : strcmp(x->id, y->id);
}

/* A run of the old database keeps its id, even if others' manifests have the same one. A run that
 * was imported under a changed id is imported again instead. Manifests with the same id are
 * adjacent (drop_superseded). */
static int add_old_runs(struct reindex *x, struct err *err)
{
	_cleanup_(map_freep) struct map *first_of = map_new(), *hashes = map_new();
	size_t n_manifests = x->entries.n, n;
	struct carry_run *runs;

	if (carry_list(x->db, x->arena, &runs, &n, err) < 0)
		return -1;
	for (size_t i = n_manifests; i-- > 0;) {
		struct entry *m = &x->entries.v[i];

		*map_slot_str(first_of, m->id) = (void *)(uintptr_t)(i + 1);
		*map_slot(hashes, m->hash.b, DIGEST_BYTES, NULL) = m;
	}
	for (size_t i = 0; i < n; i++) {
		struct entry en = { .id = runs[i].id,
				    .started_ns = runs[i].started_ns,
				    .old_row = runs[i].rowid };
		size_t at = (size_t)(uintptr_t)map_get_str(first_of, runs[i].id);
		bool has_manifest = false;

		for (; at && at <= n_manifests && str_eq(x->entries.v[at - 1].id, en.id); at++) {
			struct entry *m = &x->entries.v[at - 1];

			m->id_taken = m->started_ns != en.started_ns;
			if (m->id_taken)
				continue;
			has_manifest = true;
			if (runs[i].unfinished)
				*m = en;
		}
		if (!has_manifest &&
		    !(runs[i].has_hash && map_get(hashes, runs[i].hash.b, DIGEST_BYTES)))
			VEC_PUSH(&x->entries, en);
	}
	return 0;
}

/* Migrates the old database to this version. 1: there is none, or it can't be read. */
static int prepare_old(struct reindex *x, const char *path, struct err *err)
{
	struct err e = { 0 };
	struct db *db = NULL;
	int r;

	if (access(path, F_OK) < 0)
		return 1;
	r = db_open(path, DB_WRITE, &db, &e) < 0 || db_check(db, &e) < 0 ? -1 : 0;
	db_close(db);
	if (r == 0)
		return 0;
	if (e.code != ERR_CORRUPT && e.code != ERR_NEWER)
		return err_pass(err, &e);
	warn(x, "the old database can't be read: what no manifest has (runs that didn't end, "
		"schedules) won't be in the new one");
	return 1;
}

/* Checks that no run executes and no server has the database open. */
static int check_idle(struct reindex *x, const char *path, struct err *err)
{
	struct clock *clock = clock_system();
	const char *server = NULL;
	struct run_row *rows;
	struct db *db;
	size_t n;
	int r;

	if (db_open(path, DB_READ, &db, err) < 0)
		return -1;
	r = record_running(db, x->arena, &rows, &n, err);
	if (r == 0)
		r = record_server_any(db, clock->wall_ns(clock), x->arena, &server, err);
	db_close(db);
	if (r == 0 && server)
		return err_set(
			err, ERR_BUSY,
			"`cairn serve` (%s) is at work in this project; reindex when it has ended",
			server);
	for (size_t i = 0; i < n && r == 0; i++) {
		enum run_engine engine = record_run_engine(&rows[i]);

		if (engine == RUN_ENGINE_LIVES || engine == RUN_ENGINE_ELSEWHERE)
			r = err_set(err, ERR_BUSY,
				    "run %s is going on%s%s; reindex when it has ended", rows[i].id,
				    engine == RUN_ENGINE_ELSEWHERE ? " on " : "",
				    engine == RUN_ENGINE_ELSEWHERE ? rows[i].engine.host : "");
	}
	return r;
}

/* Building. */

static int write_entry(struct reindex *x, const struct entry *en, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct err e = { 0 };
	const char *lost = NULL;
	struct manifest m;
	int r;

	if (en->old_row) {
		x->res->carried++;
		return carry_one(x->db, en->old_row, err) < 0 ? -1 : IMPORT_DONE;
	}
	if (manifest_load(x->s, &en->hash, arena, &m, &e) < 0) {
		x->res->damaged += manifest_is_damage(&e);
		return manifest_is_damage(&e) ? IMPORT_KNOWN : err_pass(err, &e);
	}
	if (en->id_taken) {
		struct run_row run = *m.run;
		char hex[DIGEST_HEX_MAX];

		run.id = arena_printf(arena, "%s-%.6s", run.id, digest_hex(&en->hash, hex));
		m.run = arena_memdup(arena, &run, sizeof(run));
	}
	r = manifest_import(x->db, x->s, &m, x->ids, arena, &x->res->attempts, &lost, err);
	if (r == IMPORT_DONE && lost)
		warn(x, arena_printf(arena, "run %s: attempts are left out: %s", m.run->id, lost));
	x->res->runs += r == IMPORT_DONE;
	return r;
}

/* IMPORT_CLASH: numbers of attempts are taken; this transaction wrote nothing. */
static int write_all(struct reindex *x, struct err *err)
{
	for (size_t at = 0, end; at < x->entries.n; at = end) {
		int r = 0;

		end = MIN(at + RUNS_PER_TRANSACTION, x->entries.n);
		if (db_begin(x->db, err) < 0)
			return -1;
		for (size_t i = at; i < end && r >= 0 && r != IMPORT_CLASH; i++)
			r = write_entry(x, &x->entries.v[i], err);
		if (r == IMPORT_CLASH)
			db_rollback(x->db);
		else
			r = db_finish(x->db, MIN(r, 0), err);
		if (r != 0)
			return r;
		if (x->o->on_progress)
			x->o->on_progress(x->o->arg, end, x->entries.n);
	}
	return 0;
}

static int write_rest(struct reindex *x, struct err *err)
{
	int n;

	if (x->has_old &&
	    (db_begin(x->db, err) < 0 || db_finish(x->db, carry_rest(x->db, err), err) < 0 ||
	     carry_detach(x->db, err) < 0))
		return -1;
	n = tag_store_take_in(x->db, x->s, err);
	x->res->tags = n < 0 ? 0 : (uint64_t)n;
	return n < 0 ? -1 : 0;
}

static void remove_database(const char *path)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal", ".lock" };

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		_cleanup_(freep) char *one = xasprintf("%s%s", path, suffixes[i]);

		unlink(one);
	}
}

/* 0: built and durable; IMPORT_CLASH; -1. */
static int build(struct reindex *x, const char *path, const char *old_path, struct err *err)
{
	int r;

	remove_database(path);
	x->res->runs = x->res->attempts = x->res->carried = 0;
	if (db_open(path, DB_WRITE, &x->db, err) < 0 ||
	    db_exec(x->db, "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=OFF", err) < 0 ||
	    (x->has_old && carry_attach(x->db, old_path, err) < 0))
		r = -1;
	else
		r = 0;
	if (r == 0 && x->has_old && x->ids == IMPORT_KEEP_IDS)
		r = add_old_runs(x, err);
	if (r == 0 && x->entries.n)
		qsort(x->entries.v, x->entries.n, sizeof(*x->entries.v), by_start);
	if (r == 0)
		r = write_all(x, err);
	if (r == 0)
		r = write_rest(x, err);
	if (r == 0)
		r = db_check(x->db, err);
	db_close(x->db);
	x->db = NULL;
	return r;
}

/* Replacing the old one. */

/* Call it with the lock of all writers. SQLite would use a WAL of the old database for the new one,
 * so it is removed first. */
static int replace(struct reindex *x, const char *path, const char *built, struct err *err)
{
	_cleanup_(freep) char *before = xasprintf("%s.before-reindex", path),
			      *wal = xasprintf("%s-wal", path), *shm = xasprintf("%s-shm", path),
			      *wal_before = xasprintf("%s-wal", before), *dir = fs_dirname(path);
	_cleanup_(db_closep) struct db *old = NULL;
	_cleanup_(fd_closep) int fd = -1;

	/* Move the old WAL into its file, so that the file alone is complete. */
	if (x->has_old && (db_open(path, DB_READ, &old, err) < 0 || db_settle(old, err) < 0))
		return -1;
	db_close(TAKE_PTR(old));
	remove_database(before);
	if (access(path, F_OK) == 0) {
		if (link(path, before) < 0)
			return err_errno(err, "cannot keep the old database as %s", before);
		x->res->kept_old = true;
		if (!x->has_old && rename(wal, wal_before) < 0 && errno != ENOENT)
			return err_errno(err, "cannot keep %s", wal);
		unlink(wal);
		unlink(shm);
	}
	fd = open(built, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return err_errno(err, "cannot make %s durable", built);
	if (rename(built, path) < 0)
		return err_errno(err, "cannot put the new database in place of %s", path);
	return fs_sync_dir_at(AT_FDCWD, dir, err);
}

static int read_and_build(struct reindex *x, const char *path, const char *built, struct err *err)
{
	int r;

	if (tier_names(x->s, STORE_RUN, &x->hashes, &x->n_hashes, err) < 0)
		return -1;
	for (size_t i = 0; i < x->n_hashes; i++) {
		if (i % EXPECTED_AT_ONCE == 0)
			store_expect(x->s, STORE_RUN, x->hashes + i,
				     MIN(x->n_hashes - i, EXPECTED_AT_ONCE));
		if (read_entry(x, &x->hashes[i], err) < 0)
			return -1;
	}
	drop_superseded(x);
	x->ids = IMPORT_KEEP_IDS;
	r = build(x, built, path, err);
	if (r == IMPORT_CLASH) {
		x->res->renumbered = true;
		x->ids = IMPORT_NEW_IDS;
		r = build(x, built, path, err);
	}
	return r;
}

int record_reindex(const char *path, struct store *s, const struct reindex_options *o,
		   struct reindex_result *ret, struct err *err)
{
	_cleanup_(freep) char *lock_path = xasprintf("%s.lock", path),
			      *built = xasprintf("%s.reindex", path),
			      *built_lock = xasprintf("%s.lock", built);
	_cleanup_(fd_closep) int lock = -1;
	struct reindex x = { .s = s, .o = o, .res = ret, .arena = arena_new() };
	int r;

	*ret = (struct reindex_result){ 0 };
	r = prepare_old(&x, path, err);
	x.has_old = r == 0;
	/* From here on no other process writes. Handles on the old file find out in db_begin(). */
	if (r >= 0)
		r = fs_lock_path(lock_path, true, &lock, err);
	if (r >= 0 && x.has_old)
		r = check_idle(&x, path, err);
	if (r >= 0)
		r = read_and_build(&x, path, built, err);
	if (r >= 0)
		r = replace(&x, path, built, err);
	unlink(built_lock);
	if (r < 0)
		remove_database(built);
	free(x.hashes);
	VEC_FREE(&x.entries);
	arena_free(x.arena);
	return r < 0 ? -1 : 0;
}

/* One run. */

int record_import_run(struct db *db, struct store *s, const struct digest *hash,
		      struct arena *arena, struct run_row *ret, struct err *err)
{
	struct manifest m;
	const char *lost = NULL;
	uint64_t attempts = 0;
	int r;

	if (manifest_load(s, hash, arena, &m, err) < 0 || db_begin(db, err) < 0)
		return -1;
	r = manifest_import(db, s, &m, IMPORT_IDS_IF_FREE, arena, &attempts, &lost, err);
	if (db_finish(db, r, err) < 0)
		return -1;
	*ret = *m.run;
	return r == IMPORT_DONE;
}
