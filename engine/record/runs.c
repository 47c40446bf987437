/* Runs in the database. */
#include <sys/random.h>
#include "base/process.h"
#include "record/internal.h"
#include "record/run_query.h"
#include "record/tags.h"

const char *run_state_name(enum run_state s)
{
	static const char *const names[] = { "running", "succeeded", "failed", "cancelled", "interrupted" };

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "unknown";
}

enum run_engine record_run_engine(const struct run_row *r)
{
	char host[256] = "";

	if (r->state != RUN_RUNNING)
		return RUN_ENGINE_NONE;
	gethostname(host, sizeof(host) - 1);
	if (!r->host || !str_eq(r->host, host))
		return RUN_ENGINE_ELSEWHERE;
	/* The number may be another process's by now; one that isn't there "started" at 0. */
	return r->pid > 0 && r->pid_start && process_start_time(r->pid) == r->pid_start ? RUN_ENGINE_LIVES : RUN_ENGINE_DIED;
}

/* Pipeline name and five letters; no vowels and no look-alikes, so that ids are neither words nor misread. */
static void make_id(struct run_row *r, struct arena *arena)
{
	static const char letters[] = "23456789bcdfghjkmnpqrstvwxz";
	uint64_t rnd;
	char suffix[6];

	if (getrandom(&rnd, sizeof(rnd), 0) != sizeof(rnd))
		rnd = (uint64_t)r->started_ns * 0x9e3779b97f4a7c15ULL;
	for (int i = 0; i < 5; i++, rnd /= sizeof(letters) - 1)
		suffix[i] = letters[rnd % (sizeof(letters) - 1)];
	suffix[5] = '\0';
	r->id = arena_printf(arena, "%s-%s", r->pipeline, suffix);
}

static void bind_run(sqlite3_stmt *s, const struct run_row *r)
{
	bind_text(s, 1, r->id);
	bind_text(s, 2, r->pipeline);
	bind_text(s, 3, r->path);
	sqlite3_bind_int(s, 4, r->state);
	sqlite3_bind_int64(s, 5, r->started_ns);
	bind_id(s, 6, &r->pipeline_blob);
	bind_text(s, 7, r->params_json);
	bind_text(s, 8, r->options_json);
	bind_text(s, 9, r->git_commit);
	sqlite3_bind_int(s, 10, r->git_dirty);
	sqlite3_bind_int(s, 11, r->pid);
	sqlite3_bind_int64(s, 12, (int64_t)r->pid_start);
	bind_text(s, 13, r->host);
	bind_text(s, 14, r->schedule);
	sqlite3_bind_int64(s, 15, r->nominal_ns);
	if (r->has_reproduces)
		bind_digest(s, 16, &r->reproduces);
	bind_text(s, 17, r->git_remote);
	bind_text(s, 18, r->git_submodules);
}

int record_run_insert(struct db *db, struct run_row *r, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "INSERT INTO run (id, pipeline, path, state, started_ns, pipeline_blob, params_json, options_json, git_commit,"
				     " git_dirty, pid, pid_start, host, schedule, nominal_ns, reproduces, git_remote, git_submodules)"
				     " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
				     err);

	if (!s)
		return -1;
	bind_run(s, r);
	if (db_run(db, s, err) < 0)
		return -1;
	if (sqlite3_changes(db->sql) == 0)
		return 1;
	r->rowid = sqlite3_last_insert_rowid(db->sql);
	return record_run_params(db, r, err);
}

int record_run_add(struct db *db, struct run_row *r, struct arena *arena, struct err *err)
{
	for (int tries = 0; tries < 100; tries++) {
		int taken;

		make_id(r, arena);
		taken = record_run_insert(db, r, err);
		if (taken <= 0)
			return taken;
	}
	return err_set(err, ERR_EXISTS, "no free run id was found for pipeline %s", r->pipeline);
}

int record_run_input(struct db *db, int64_t run, const char *name, const char *origin, const struct content_id *id, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT OR REPLACE INTO run_input (run, name, origin, content) VALUES (?,?,?,?)", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	bind_text(s, 2, name);
	bind_text(s, 3, origin);
	bind_id(s, 4, id);
	return db_run(db, s, err);
}

int record_run_inputs(struct db *db, int64_t run, struct arena *arena, struct run_input_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT name, origin, content FROM run_input WHERE run = ? ORDER BY name", err);
	VEC(struct run_input_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	while ((r = db_step(db, s, err)) > 0) {
		struct run_input_row row = { column_text(s, 0, arena), column_text(s, 1, arena), { .kind = CONTENT_NONE } };

		if (row.name && column_id(s, 2, &row.id))
			VEC_PUSH(&out, row);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_run_update(struct db *db, const struct run_row *r, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "UPDATE run SET state=?, ended_ns=?, hash=?, results=?, total=?, executed=?, hits=?, failed=?, skipped=?, blocked=?,"
				     " saved_ns=?, message=?, pid=?, pid_start=?, host=? WHERE rowid_=?",
				     err);

	if (!s)
		return -1;
	sqlite3_bind_int(s, 1, r->state);
	sqlite3_bind_int64(s, 2, r->ended_ns);
	if (r->has_hash)
		bind_digest(s, 3, &r->hash);
	bind_id(s, 4, &r->results);
	sqlite3_bind_int64(s, 5, (int64_t)r->counts.total);
	sqlite3_bind_int64(s, 6, (int64_t)r->counts.executed);
	sqlite3_bind_int64(s, 7, (int64_t)r->counts.hits);
	sqlite3_bind_int64(s, 8, (int64_t)r->counts.failed);
	sqlite3_bind_int64(s, 9, (int64_t)r->counts.skipped);
	sqlite3_bind_int64(s, 10, (int64_t)r->counts.blocked);
	sqlite3_bind_int64(s, 11, r->counts.saved_ns);
	bind_text(s, 12, r->message);
	sqlite3_bind_int(s, 13, r->pid);
	sqlite3_bind_int64(s, 14, (int64_t)r->pid_start);
	bind_text(s, 15, r->host);
	sqlite3_bind_int64(s, 16, r->rowid);
	return db_run(db, s, err);
}

int record_run_request_cancel(struct db *db, int64_t run, bool now, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE run SET cancel = max(cancel, ?) WHERE rowid_ = ?", err);

	if (!s)
		return -1;
	sqlite3_bind_int(s, 1, now ? 2 : 1);
	sqlite3_bind_int64(s, 2, run);
	return db_run(db, s, err);
}

int record_run_forget_cancel(struct db *db, int64_t run, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE run SET cancel = 0 WHERE rowid_ = ?", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	return db_run(db, s, err);
}

int record_run_set_options(struct db *db, int64_t run, const char *options_json, struct err *err)
{
	sqlite3_stmt *s =
		db_prepare(db, "UPDATE run SET options_json = ? WHERE rowid_ = ?", err);

	if (!s)
		return -1;
	bind_text(s, 1, options_json);
	sqlite3_bind_int64(s, 2, run);
	return db_run(db, s, err);
}

void read_run_row(sqlite3_stmt *s, struct arena *arena, struct run_row *ret)
{
	int cancel = sqlite3_column_int(s, 22);

	*ret = (struct run_row){
		.rowid = sqlite3_column_int64(s, 0),	.id = column_text(s, 1, arena),	      .pipeline = column_text(s, 2, arena),
		.path = column_text(s, 3, arena),	.state = (enum run_state)sqlite3_column_int(s, 4),
		.started_ns = sqlite3_column_int64(s, 5), .ended_ns = sqlite3_column_int64(s, 6), .params_json = column_text(s, 10, arena),
		.options_json = column_text(s, 11, arena), .git_commit = column_text(s, 19, arena), .git_dirty = sqlite3_column_int(s, 20),
		.message = column_text(s, 21, arena),	.cancel_requested = cancel > 0,	      .cancel_now = cancel > 1,
		.pid = sqlite3_column_int(s, 23),	.pid_start = (uint64_t)sqlite3_column_int64(s, 24), .host = column_text(s, 25, arena),
		.schedule = column_text(s, 26, arena),	.nominal_ns = sqlite3_column_int64(s, 27), .git_remote = column_text(s, 29, arena),
	};
	ret->git_submodules = column_text(s, 30, arena);
	ret->has_reproduces = column_digest(s, 28, &ret->reproduces);
	ret->has_hash = column_digest(s, 7, &ret->hash);
	column_id(s, 8, &ret->pipeline_blob);
	column_id(s, 9, &ret->results);
	ret->counts = (struct run_counts){
		.total = (uint64_t)sqlite3_column_int64(s, 12),	  .executed = (uint64_t)sqlite3_column_int64(s, 13),
		.hits = (uint64_t)sqlite3_column_int64(s, 14),	  .failed = (uint64_t)sqlite3_column_int64(s, 15),
		.skipped = (uint64_t)sqlite3_column_int64(s, 16), .blocked = (uint64_t)sqlite3_column_int64(s, 17),
		.saved_ns = sqlite3_column_int64(s, 18),
	};
}

/* One row of a statement whose columns are RUN_COLUMNS; 1 found, 0 none. */
static int one_run(struct db *db, sqlite3_stmt *s, struct arena *arena, struct run_row *ret, struct err *err)
{
	int r = db_step(db, s, err);

	if (r > 0)
		read_run_row(s, arena, ret);
	sqlite3_reset(s);
	return r;
}

int record_last_results(struct db *db, const char *pipeline, struct arena *arena, struct run_row *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE pipeline = ? AND results IS NOT NULL AND reproduces IS NULL ORDER BY rowid_ DESC LIMIT 1", err);

	if (!s)
		return -1;
	bind_text(s, 1, pipeline);
	return one_run(db, s, arena, ret, err);
}

static int newest_run(struct db *db, const char *pipeline, struct arena *arena, struct run_row *ret, struct err *err)
{
	sqlite3_stmt *s = pipeline ? db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE pipeline = ? ORDER BY rowid_ DESC LIMIT 1", err) :
				     db_prepare(db, "SELECT " RUN_COLUMNS " FROM run ORDER BY rowid_ DESC LIMIT 1", err);

	if (!s)
		return -1;
	bind_text(s, 1, pipeline);
	return one_run(db, s, arena, ret, err);
}

static int run_by_id(struct db *db, const char *id, struct arena *arena, struct run_row *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE id = ?", err);

	if (!s)
		return -1;
	bind_text(s, 1, id);
	return one_run(db, s, arena, ret, err);
}

int record_run_by_hash(struct db *db, const struct digest *hash, struct arena *arena, struct run_row *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE hash = ? ORDER BY rowid_ LIMIT 1", err);

	if (!s)
		return -1;
	bind_digest(s, 1, hash);
	return one_run(db, s, arena, ret, err);
}

/* A run that was taken up again after it was named has another hash now: it is still the one that was meant. */
static int tagged_run(struct db *db, const char *name, struct arena *arena, struct run_row *ret, struct err *err)
{
	struct tag_row tag;
	char hex[DIGEST_HEX_MAX];
	int r = record_tag_find(db, name, arena, &tag, err);

	if (r <= 0 || !tag.has_run)
		return r < 0 ? -1 : 0;
	r = record_run_by_hash(db, &tag.run, arena, ret, err);
	if (r == 0 && tag.run_id)
		r = run_by_id(db, tag.run_id, arena, ret, err);
	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "`%s` means run %.12s, which this project doesn't know; `cairn store reindex` takes in what is in the store", name,
			       digest_hex(&tag.run, hex));
	return r;
}

int record_find_run_named(struct db *db, const char *what, struct arena *arena, struct run_row *ret, struct err *err)
{
	struct digest hash;
	int r;

	if (str_eq(what, "last"))
		return newest_run(db, NULL, arena, ret, err);
	if (str_has_prefix(what, "last:"))
		return newest_run(db, what + 5, arena, ret, err);
	if (digest_parse(what, &hash, NULL) == 0)
		return record_run_by_hash(db, &hash, arena, ret, err);
	r = run_by_id(db, what, arena, ret, err);
	return r != 0 ? r : tagged_run(db, what, arena, ret, err);
}

/* Runs whose id or hash begins so, newest first, at most 20. */
static int runs_that_begin(struct db *db, const char *what, sqlite3_stmt **ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "SELECT " RUN_COLUMNS " FROM run WHERE rowid_ IN (SELECT rowid_ FROM run WHERE id >= ?1 AND id < ?1 || char(1114111) UNION"
				     " SELECT rowid_ FROM run WHERE hash BETWEEN ?2 AND ?3) ORDER BY rowid_ DESC LIMIT 20",
				     err);
	struct digest first, last;

	if (!s)
		return -1;
	if (!str_has_prefix(what, "sha256:"))
		bind_text(s, 1, what);
	if (digest_prefix_range(what, &first, &last)) {
		bind_digest(s, 2, &first);
		bind_digest(s, 3, &last);
	}
	*ret = s;
	return 0;
}

static int ambiguous(struct db *db, sqlite3_stmt *s, const char *what, const struct run_row *first, struct arena *arena, struct err *err)
{
	struct run_row other;
	struct str ids = { 0 };
	int r;

	str_add(&ids, first->id);
	do {
		read_run_row(s, arena, &other);
		str_addf(&ids, ", %s", other.id);
	} while ((r = db_step(db, s, err)) > 0 && ids.len < 300);
	sqlite3_reset(s);
	err_set(err, ERR_INVALID, "`%s` could be any of %s: give more of it", what, ids.s);
	str_deinit(&ids);
	return -1;
}

static int run_that_begins(struct db *db, const char *what, struct arena *arena, struct run_row *ret, struct err *err)
{
	sqlite3_stmt *s;
	int r, more;

	if (!*what || runs_that_begin(db, what, &s, err) < 0)
		return *what ? -1 : 0;
	r = db_step(db, s, err);
	if (r > 0)
		read_run_row(s, arena, ret);
	more = r > 0 ? db_step(db, s, err) : r;
	if (more > 0)
		return ambiguous(db, s, what, ret, arena, err);
	sqlite3_reset(s);
	return more < 0 ? -1 : r;
}

int record_find_run(struct db *db, const char *what, struct arena *arena, struct run_row *ret, struct err *err)
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

static int read_runs(struct db *db, sqlite3_stmt *s, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err)
{
	VEC(struct run_row) out = { 0 };
	int r;

	while ((r = db_step(db, s, err)) > 0)
		read_run_row(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_running(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE state = 0 ORDER BY rowid_", err);

	return s ? read_runs(db, s, arena, ret, ret_n, err) : -1;
}

int record_resumable(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE state IN (0, 4) ORDER BY rowid_ DESC LIMIT 100", err);

	return s ? read_runs(db, s, arena, ret, ret_n, err) : -1;
}

int record_all_runs(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run ORDER BY rowid_ DESC", err);

	return s ? read_runs(db, s, arena, ret, ret_n, err) : -1;
}
