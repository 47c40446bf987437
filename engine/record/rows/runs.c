/* engine/record/rows/runs.c — rows of runs: written when a run begins and ends, found by any name
 * that users give.
 *
 * A name is tried in this order: `last`, a whole hash, an id, a tag; last as the beginning of an id
 * or hash, which only one run may have. Invariants: an id is never given twice in a project; a
 * taken id inserts nothing (record_run_insert()). Threads: the thread of the handle. Not here:
 * queries by params and metrics (run_query.c), names (rows/tags.c).
 */
#include "record/rows/runs.h"
#include <assert.h>
#include "base/os/machine.h"
#include "base/os/process/process.h"
#include "record/facts.h"
#include "record/rows/rows.h"
#include "record/rows/tags.h"
#include "record/run_query.h"

const char *run_state_name(enum run_state s)
{
	static const char *const names[] = { "running", "succeeded", "failed", "cancelled",
					     "interrupted" };

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "unknown";
}

enum run_engine record_run_engine(const struct run_row *r)
{
	char host[MACHINE_NAME_BYTES];

	if (r->state != RUN_RUNNING)
		return RUN_ENGINE_NONE;
	if (!r->engine.host) /* each engine writes its host before anything else */
		return RUN_ENGINE_DIED;
	if (!str_eq(r->engine.host, machine_name(host)))
		return RUN_ENGINE_ELSEWHERE;
	/* The pid may belong to another process by now. The start time of a missing process reads
	 * as 0. */
	return r->engine.pid > 0 && r->engine.start &&
			       process_start_time(r->engine.pid) == r->engine.start
		       ? RUN_ENGINE_LIVES
		       : RUN_ENGINE_DIED;
}

int record_run_insert(struct db *db, struct run_row *r, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_trial trial = { 0 };
	int n;

	facts_trial(r->options_json, arena, &trial);
	n = db_change(db,
		      "INSERT INTO run (id, pipeline, path, state, started_ns, pipeline_blob, "
		      "params_json, options_json, git_commit, git_dirty, pid, pid_start, "
		      "host, schedule, nominal_ns, reproduces, git_remote, git_submodules, sweep, "
		      "git_author) "
		      "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
		      DB_IN(r->id, r->pipeline, r->path, r->state, r->started_ns, &r->pipeline_blob,
			    r->params_json, r->options_json, r->git.commit, r->git.dirty,
			    r->engine.pid, r->engine.start, r->engine.host, r->schedule,
			    r->nominal_ns, r->has_reproduces ? &r->reproduces : NULL, r->git.remote,
			    r->git.submodules, trial.sweep, r->git.author),
		      err);
	if (n <= 0)
		return n < 0 ? -1 : 1;
	r->rowid = db_last_rowid(db);
	return record_run_params(db, r, err);
}

int record_run_add(struct db *db, struct run_row *r, struct arena *arena, struct err *err)
{
	char suffix[RANDOM_LETTERS + 1];

	for (int tries = 0; tries < 100; tries++) {
		int taken;

		random_letters(suffix);
		r->id = arena_printf(arena, "%s-%s", r->pipeline, suffix);
		taken = record_run_insert(db, r, err);
		if (taken <= 0)
			return taken;
	}
	return err_set(err, ERR_EXISTS, "no free run id was found for pipeline %s", r->pipeline);
}

int record_run_input(struct db *db, int64_t run, const char *name, const char *origin,
		     const struct content_id *id, struct err *err)
{
	return db_do(
		db,
		"INSERT OR REPLACE INTO run_input (run, name, origin, content) VALUES (?,?,?,?)",
		DB_IN(run, name, origin, id), err);
}

const struct db_row run_input_of_columns =
	DB_ROW(struct run_input_row, NULL, DB_NEEDED(struct run_input_row, name),
	       DB_COLUMN(struct run_input_row, origin), DB_NEEDED(struct run_input_row, id));

int record_run_inputs(struct db *db, int64_t run, struct arena *arena, struct run_input_row **ret,
		      size_t *ret_n, struct err *err)
{
	return db_get_rows(
		db, "SELECT name, origin, content FROM run_input WHERE run = ? ORDER BY name",
		DB_IN(run), arena, &run_input_of_columns, ret, ret_n, err);
}

int record_run_update(struct db *db, const struct run_row *r, struct err *err)
{
	const struct run_counts *c = &r->counts;

	assert(r->rowid > 0);
	return db_do(db,
		     "UPDATE run SET state=?, ended_ns=?, hash=?, results=?, total=?, "
		     "executed=?, hits=?, failed=?, skipped=?, blocked=?, saved_ns=?, "
		     "message=?, pid=?, pid_start=?, host=?, plan_digest=? WHERE rowid_=?",
		     DB_IN(r->state, r->ended_ns, r->has_hash ? &r->hash : NULL, &r->results,
			   c->total, c->executed, c->hits, c->failed, c->skipped, c->blocked,
			   c->saved_ns, r->message, r->engine.pid, r->engine.start, r->engine.host,
			   r->has_plan_digest ? &r->plan_digest : NULL, r->rowid),
		     err);
}

int record_run_request_cancel(struct db *db, int64_t run, bool now, struct err *err)
{
	return db_do(db, "UPDATE run SET cancel = max(cancel, ?) WHERE rowid_ = ?",
		     DB_IN(now ? 2 : 1, run), err);
}

int record_run_forget_cancel(struct db *db, int64_t run, struct err *err)
{
	return db_do(db, "UPDATE run SET cancel = 0 WHERE rowid_ = ?", DB_IN(run), err);
}

int record_run_set_options(struct db *db, int64_t run, const char *options_json, struct err *err)
{
	return db_do(db, "UPDATE run SET options_json = ? WHERE rowid_ = ?",
		     DB_IN(options_json, run), err);
}

#define C(field) DB_COLUMN(struct run_row, field)
const struct db_row run_of_columns = DB_ROW(
	struct run_row, NULL, C(rowid), C(id), C(pipeline), C(path), C(state), C(started_ns),
	C(ended_ns), DB_OPTIONAL(struct run_row, hash, has_hash), C(pipeline_blob), C(results),
	C(params_json), C(options_json), C(counts.total), C(counts.executed), C(counts.hits),
	C(counts.failed), C(counts.skipped), C(counts.blocked), C(counts.saved_ns), C(git.commit),
	C(git.dirty), C(message), C(cancel_requested), C(cancel_now), C(engine.pid),
	C(engine.start), C(engine.host), C(schedule), C(nominal_ns),
	DB_OPTIONAL(struct run_row, reproduces, has_reproduces), C(git.remote), C(git.submodules),
	C(git.author), DB_OPTIONAL(struct run_row, plan_digest, has_plan_digest));
#undef C

int record_last_results(struct db *db, const char *pipeline, struct arena *arena,
			struct run_row *ret, struct err *err)
{
	return db_get_row(db,
			  "SELECT " RUN_COLUMNS
			  " FROM run WHERE pipeline = ? AND results IS NOT NULL AND "
			  "reproduces IS NULL ORDER BY rowid_ DESC LIMIT 1",
			  DB_IN(pipeline), arena, &run_of_columns, ret, err);
}

/* There is no index by path. */
int record_last_results_of(struct db *db, const char *path, struct arena *arena,
			   struct run_row *ret, struct err *err)
{
	return db_get_row(db,
			  "SELECT " RUN_COLUMNS " FROM run WHERE rowid_ > (SELECT max(rowid_) FROM "
			  "run) - 100 AND path = ? AND results IS NOT NULL AND reproduces IS NULL "
			  "ORDER BY rowid_ DESC LIMIT 1",
			  DB_IN(path), arena, &run_of_columns, ret, err);
}

int record_run_before(struct db *db, const struct run_row *run, bool succeeded, struct arena *arena,
		      struct run_row *ret, struct err *err)
{
	return db_get_row(db,
			  "SELECT " RUN_COLUMNS
			  " FROM run WHERE pipeline = ? AND rowid_ < ? AND state IN (?, ?) AND "
			  "schedule IS NULL AND sweep IS NULL AND reproduces IS NULL ORDER BY "
			  "rowid_ DESC LIMIT 1",
			  DB_IN(run->pipeline, run->rowid, RUN_SUCCEEDED,
				succeeded ? RUN_SUCCEEDED : RUN_FAILED),
			  arena, &run_of_columns, ret, err);
}

int record_run_by_id(struct db *db, const char *id, struct arena *arena, struct run_row *ret,
		     struct err *err)
{
	return db_get_row(db, "SELECT " RUN_COLUMNS " FROM run WHERE id = ?", DB_IN(id), arena,
			  &run_of_columns, ret, err);
}

int record_run_by_hash(struct db *db, const struct digest *hash, struct arena *arena,
		       struct run_row *ret, struct err *err)
{
	return db_get_row(db,
			  "SELECT " RUN_COLUMNS " FROM run WHERE hash = ? ORDER BY rowid_ LIMIT 1",
			  DB_IN(hash), arena, &run_of_columns, ret, err);
}

/* A run that was resumed after it got a name has another hash now: the name still means it. */
static int tagged_run(struct db *db, const char *name, struct arena *arena, struct run_row *ret,
		      struct err *err)
{
	struct tag_row tag;
	char hex[DIGEST_HEX_MAX];
	int r = record_tag_find(db, name, arena, &tag, err);

	if (r <= 0 || !tag.has_run)
		return r < 0 ? -1 : 0;
	r = record_run_by_hash(db, &tag.run, arena, ret, err);
	if (r == 0 && tag.run_id)
		r = record_run_by_id(db, tag.run_id, arena, ret, err);
	if (r == 0)
		return err_set(err, ERR_NOT_FOUND,
			       "`%s` means run %.12s, which this project doesn't know; `cairn "
			       "store reindex` takes in what is in the store",
			       name, digest_hex(&tag.run, hex));
	return r;
}

int record_find_run_named(struct db *db, const char *what, struct arena *arena, struct run_row *ret,
			  struct err *err)
{
	struct digest hash;
	int r;

	if (str_eq(what, "last"))
		return db_get_row(db,
				  "SELECT " RUN_COLUMNS " FROM run ORDER BY rowid_ DESC LIMIT 1",
				  DB_IN(), arena, &run_of_columns, ret, err);
	if (str_has_prefix(what, "last:"))
		return db_get_row(db,
				  "SELECT " RUN_COLUMNS
				  " FROM run WHERE pipeline = ? ORDER BY rowid_ DESC LIMIT 1",
				  DB_IN(what + 5), arena, &run_of_columns, ret, err);
	if (digest_parse(what, &hash, NULL) == 0)
		return record_run_by_hash(db, &hash, arena, ret, err);
	r = record_run_by_id(db, what, arena, ret, err);
	return r != 0 ? r : tagged_run(db, what, arena, ret, err);
}

/* The run whose id or hash begins with `what`. */
static int run_that_begins(struct db *db, const char *what, struct arena *arena,
			   struct run_row *ret, struct err *err)
{
	const char *id = str_has_prefix(what, "sha256:") ? NULL : what;
	_cleanup_(str_deinit) struct str ids = { 0 };
	struct digest first, last;
	struct run_row *rows;
	bool is_hash = digest_prefix_range(what, &first, &last);
	size_t n;

	if (!*what)
		return 0;
	if (db_get_rows(db,
			"SELECT " RUN_COLUMNS
			" FROM run WHERE rowid_ IN (SELECT rowid_ FROM run WHERE id >= ?1 AND "
			"id < ?1 || char(1114111) UNION SELECT rowid_ FROM run WHERE hash "
			"BETWEEN ?2 AND ?3) ORDER BY rowid_ DESC LIMIT 20",
			DB_IN(id, is_hash ? &first : NULL, is_hash ? &last : NULL), arena,
			&run_of_columns, &rows, &n, err) < 0)
		return -1;
	if (n == 0)
		return 0;
	*ret = rows[0];
	if (n == 1)
		return 1;
	str_add(&ids, rows[0].id);
	for (size_t i = 1; i < n && ids.len < 300; i++)
		str_addf(&ids, ", %s", rows[i].id);
	return err_set(err, ERR_INVALID, "`%s` could be any of %s: give more of it", what, ids.s);
}

int record_find_run(struct db *db, const char *what, struct arena *arena, struct run_row *ret,
		    struct err *err)
{
	int r = record_find_run_named(db, what, arena, ret, err);

	if (r == 0 && !str_has_prefix(what, "last:") && !str_eq(what, "last"))
		r = run_that_begins(db, what, arena, ret, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (str_eq(what, "last"))
		return err_set(err, ERR_NOT_FOUND, "nothing was run here yet");
	if (str_has_prefix(what, "last:"))
		return err_set(err, ERR_NOT_FOUND, "pipeline %s was not run here yet", what + 5);
	return err_set(err, ERR_NOT_FOUND, "no run `%s` here; `cairn runs` lists them", what);
}

int record_running(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n,
		   struct err *err)
{
	return db_get_rows(db, "SELECT " RUN_COLUMNS " FROM run WHERE state = 0 ORDER BY rowid_",
			   DB_IN(), arena, &run_of_columns, ret, ret_n, err);
}

int record_resumable(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n,
		     struct err *err)
{
	return db_get_rows(db,
			   "SELECT " RUN_COLUMNS
			   " FROM run WHERE state IN (0, 4) ORDER BY rowid_ DESC LIMIT 100",
			   DB_IN(), arena, &run_of_columns, ret, ret_n, err);
}

int record_all_runs(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n,
		    struct err *err)
{
	return db_get_rows(db, "SELECT " RUN_COLUMNS " FROM run ORDER BY rowid_ DESC", DB_IN(),
			   arena, &run_of_columns, ret, ret_n, err);
}
