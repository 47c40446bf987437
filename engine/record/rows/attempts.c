/* engine/record/rows/attempts.c — rows of attempts, their inputs and outputs, and results by key.
 *
 * `content` has each content once; `io` says which attempt read or made it under which name.
 * `result` is one observation: the first cacheable one of a key counts, and a second one with other
 * outputs is recorded as nondeterminism in the same transaction. Invariants: an attempt's id is
 * never used again; a waiting attempt has no end. Threads: the thread of the handle. Not here:
 * pages of attempts (rows/pages.c), whole records for manifests (rows/attempt_record.c).
 */
#include "record/rows/attempts.h"
#include <assert.h>
#include "record/rows/rows.h"

int attempt_insert(struct db *db, struct attempt_row *a, int64_t id, struct err *err)
{
	int n = db_change(db,
			  "INSERT INTO attempt (id, run, task, step, pipeline, number, key, "
			  "started_ns, reason, image, approval) SELECT ?9, ?1, ?2, ?3, pipeline, "
			  "?4, ?5, ?6, ?7, ?8, ?10 FROM run WHERE rowid_ = ?1 ON CONFLICT DO "
			  "NOTHING",
			  DB_IN(a->run, a->task, a->step, a->number, &a->key, a->started_ns,
				a->reason, a->image, id ? db_int(id) : db_text(NULL), a->approval),
			  err);

	if (n <= 0)
		return n < 0 ? -1 : 1;
	a->id = db_last_rowid(db);
	return 0;
}

int record_attempt_start(struct db *db, struct attempt_row *a, struct err *err)
{
	int r = attempt_insert(db, a, 0, err);

	return r > 0 ? err_set(err, ERR_EXISTS, "attempt %u of %s is on record already",
			       (unsigned)a->number, a->task)
		     : r;
}

int record_attempt_end(struct db *db, const struct attempt_row *a, struct err *err)
{
	assert(a->id > 0);
	return db_do(db,
		     "UPDATE attempt SET started_ns=?, ended_ns=?, failure=?, exit_status=?, "
		     "signo=?, max_rss_bytes=?, cpu_ns=?, log=?, node=?, message=?, "
		     "workspace=?, continues=?, waiting=NULL WHERE id=?",
		     DB_IN(a->started_ns, a->ended_ns, a->failure, a->exit_status, a->signo,
			   a->max_rss_bytes, a->cpu_ns, &a->log, a->node, a->message, a->workspace,
			   a->continues, a->id),
		     err);
}

int record_attempt_waiting(struct db *db, int64_t id, const char *why, struct err *err)
{
	return db_do(db, "UPDATE attempt SET waiting = ? WHERE id = ? AND ended_ns = 0",
		     DB_IN(why, id), err);
}

int record_key(struct db *db, const struct digest *key, const void *bytes, size_t n,
	       struct err *err)
{
	return db_do(db, "INSERT OR IGNORE INTO key_record (key, bytes) VALUES (?,?)",
		     DB_IN(key, db_bytes(bytes, n)), err);
}

int record_key_bytes(struct db *db, const struct digest *key, struct str *ret, struct err *err)
{
	int r = db_get(db, "SELECT bytes FROM key_record WHERE key = ?", DB_IN(key), NULL,
		       DB_OUT(ret), err);

	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "this key is not on record");
	return MIN(r, 0);
}

int content_row_find(struct db *db, const struct content_id *id, int64_t *ret, struct err *err)
{
	return db_get(db, "SELECT id FROM content WHERE digest = ? AND kind = ?",
		      DB_IN(&id->digest, id->kind), NULL, DB_OUT(ret), err);
}

static int add_io(struct db *db, int64_t attempt, int dir, const struct named_content *v, size_t n,
		  struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct content_id *id = &v[i].id;
		int64_t content;
		int r;

		if (id->kind == CONTENT_NONE)
			continue;
		r = content_row_find(db, id, &content, err);
		if (r == 0) {
			r = db_do(db, "INSERT INTO content (digest, kind, size) VALUES (?,?,?)",
				  DB_IN(&id->digest, id->kind, id->size_bytes), err);
			content = db_last_rowid(db);
		}
		if (r < 0 || db_do(db,
				   "INSERT OR REPLACE INTO io (attempt, dir, name, content) VALUES "
				   "(?,?,?,?)",
				   DB_IN(attempt, dir, v[i].name, content), err) < 0)
			return -1;
	}
	return 0;
}

int named_content_by_name(const void *a, const void *b)
{
	return strcmp(((const struct named_content *)a)->name,
		      ((const struct named_content *)b)->name);
}

/* One digest for all outputs, so that one comparison tells whether two observations agree. */
static void outputs_digest(const struct named_content *v, size_t n, struct digest *ret)
{
	_cleanup_(freep) struct named_content *sorted = xcalloc(n + 1, sizeof(*sorted));
	_cleanup_(str_deinit) struct str text = { 0 };

	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), named_content_by_name);
	str_add(&text, "");
	for (size_t i = 0; i < n; i++) {
		str_add_field(&text, sorted[i].name, strlen(sorted[i].name));
		str_addc(&text, (char)sorted[i].id.kind);
		str_addn(&text, sorted[i].id.digest.b, DIGEST_BYTES);
	}
	digest_bytes(text.s, text.len, ret);
}

int record_result(struct db *db, const struct observation *o, struct err *err)
{
	struct digest d;
	int one, other;

	assert(o->attempt > 0);
	if (add_io(db, o->attempt, 0, o->inputs, o->n_inputs, err) < 0 ||
	    add_io(db, o->attempt, 1, o->outputs, o->n_outputs, err) < 0)
		return -1;
	outputs_digest(o->outputs, o->n_outputs, &d);
	other = db_get(db, "SELECT 1 FROM result WHERE key = ? AND outputs <> ? LIMIT 1",
		       DB_IN(o->key, &d), NULL, DB_OUT(&one), err);
	if (other < 0 ||
	    db_do(db,
		  "INSERT OR REPLACE INTO result (attempt, key, cacheable, outputs) VALUES "
		  "(?,?,?,?)",
		  DB_IN(o->attempt, o->key, o->cacheable, &d), err) < 0 ||
	    (other && db_do(db, "INSERT OR IGNORE INTO nondeterministic (key) VALUES (?)",
			    DB_IN(o->key), err) < 0))
		return -1;
	return other;
}

int record_metrics(struct db *db, int64_t attempt, const struct metric_value *m, size_t n,
		   struct err *err)
{
	for (size_t i = 0; i < n; i++)
		/* SQLite has no NaN: it would become NULL, which the table refuses. */
		if (m[i].value == m[i].value &&
		    db_do(db, "INSERT OR REPLACE INTO metric (attempt, name, value) VALUES (?,?,?)",
			  DB_IN(attempt, m[i].name, m[i].value), err) < 0)
			return -1;
	return 0;
}

int record_forget(struct db *db, const struct digest *key, struct err *err)
{
	return db_do(db, "UPDATE result SET cacheable = 0 WHERE key = ?", DB_IN(key), err);
}

/* Reading. */

static bool has_kind(void *row)
{
	const struct named_content *c = row;

	return c->id.kind >= CONTENT_BLOB && c->id.kind <= CONTENT_KIND_MAX;
}

static const struct db_row named_content_of_columns =
	DB_ROW(struct named_content, has_kind, DB_NEEDED(struct named_content, name),
	       DB_NEEDED(struct named_content, id.digest), DB_COLUMN(struct named_content, id.kind),
	       DB_COLUMN(struct named_content, id.size_bytes));

static int read_io(struct db *db, int64_t attempt, int dir, struct arena *arena,
		   struct named_content **ret, size_t *ret_n, struct err *err)
{
	return db_get_rows(
		db,
		"SELECT io.name, content.digest, content.kind, content.size FROM io JOIN content "
		"ON content.id = io.content WHERE io.attempt = ? AND io.dir = ? ORDER BY io.name",
		DB_IN(attempt, dir), arena, &named_content_of_columns, ret, ret_n, err);
}

static const struct db_row metric_value_of_columns =
	DB_ROW(struct metric_value, NULL, DB_COLUMN(struct metric_value, name),
	       DB_COLUMN(struct metric_value, value));

int record_each_end(struct db *db, int64_t run,
		    int (*fn)(void *arg, const struct attempt_end *e, struct err *err), void *arg,
		    struct err *err)
{
	struct attempt_end e;
	struct db_query q;
	int r = 0, stopped = 0;

	if (db_query(db, &q,
		     "SELECT id, ended_ns, task, key, failure, started_ns, step FROM attempt WHERE "
		     "run = ? ORDER BY id",
		     DB_IN(run), NULL, err) < 0)
		return -1;
	while (stopped == 0 && (r = db_next(&q,
					    DB_OUT(&e.id, &e.ended_ns, &e.task, &e.key, &e.failure,
						   &e.started_ns, &e.step),
					    err)) > 0) {
		if (!db_has(&q, 2) || !db_has(&q, 3))
			e = (struct attempt_end){ .id = e.id, .task = "?", .step = "?" };
		stopped = fn(arg, &e, err);
	}
	db_end(&q);
	return stopped ? stopped : r;
}

int record_each_uncached_step(struct db *db, int64_t run, int (*fn)(void *arg, const char *step),
			      void *arg, struct err *err)
{
	struct db_query q;
	const char *step;
	int r = 0, stopped = 0;

	if (db_query(db, &q,
		     "SELECT DISTINCT attempt.step FROM attempt JOIN result ON result.attempt = "
		     "attempt.id WHERE attempt.run = ? AND result.cacheable = 0",
		     DB_IN(run), NULL, err) < 0)
		return -1;
	while (stopped == 0 && (r = db_next(&q, DB_OUT(&step), err)) > 0)
		stopped = fn(arg, step);
	db_end(&q);
	return stopped ? stopped : r;
}

int record_outputs(struct db *db, int64_t attempt, struct arena *arena, struct cached_result *ret,
		   struct err *err)
{
	int64_t ns = 0;

	*ret = (struct cached_result){ .attempt = attempt };
	if (db_get(db, "SELECT ended_ns - started_ns FROM attempt WHERE id = ?", DB_IN(attempt),
		   NULL, DB_OUT(&ns), err) < 0 ||
	    read_io(db, attempt, 1, arena, &ret->outputs, &ret->n_outputs, err) < 0)
		return -1;
	ret->duration_ns = MAX(ns, 0);
	return db_get_rows(db, "SELECT name, value FROM metric WHERE attempt = ? ORDER BY name",
			   DB_IN(attempt), arena, &metric_value_of_columns, &ret->metrics,
			   &ret->n_metrics, err);
}

int record_inputs(struct db *db, int64_t attempt, struct arena *arena, struct named_content **ret,
		  size_t *ret_n, struct err *err)
{
	return read_io(db, attempt, 0, arena, ret, ret_n, err);
}

int record_lookup(struct db *db, const struct digest *key, struct arena *arena,
		  struct cached_result *ret, struct err *err)
{
	int64_t attempt;
	int r = db_get(db,
		       "SELECT attempt FROM result WHERE key = ? AND cacheable = 1 "
		       "ORDER BY attempt LIMIT 1",
		       DB_IN(key), NULL, DB_OUT(&attempt), err);

	if (r <= 0)
		return r;
	return record_outputs(db, attempt, arena, ret, err) < 0 ? -1 : 1;
}

static bool finish_attempt(void *row)
{
	struct attempt_row *a = row;

	if ((unsigned)a->failure >= FAILURE_CLASSES)
		a->failure = FAILURE_LOST;
	return true;
}

#define C(field) DB_COLUMN(struct attempt_row, field)
const struct db_row attempt_of_columns =
	DB_ROW(struct attempt_row, finish_attempt, C(id), C(run), C(task), C(step), C(number),
	       C(key), C(started_ns), C(ended_ns), C(failure), C(exit_status), C(signo),
	       C(max_rss_bytes), C(cpu_ns), C(log), C(node), C(message), C(workspace), C(reason),
	       C(continues), C(waiting), C(image), C(approval));
#undef C

int record_run_attempts(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret,
			size_t *ret_n, struct err *err)
{
	return db_get_rows(db, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE run = ? ORDER BY id",
			   DB_IN(run), arena, &attempt_of_columns, ret, ret_n, err);
}

int record_attempt(struct db *db, int64_t id, struct arena *arena, struct attempt_row *ret,
		   struct run_row *ret_run, struct err *err)
{
	int r = db_get_row(db, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE id = ?", DB_IN(id),
			   arena, &attempt_of_columns, ret, err);

	return r <= 0 ? r
		      : db_get_row(db, "SELECT " RUN_COLUMNS " FROM run WHERE rowid_ = ?",
				   DB_IN(ret->run), arena, &run_of_columns, ret_run, err);
}

int record_previous_attempt(struct db *db, const char *pipeline, const char *task,
			    int64_t before_attempt, struct arena *arena, struct attempt_row *ret,
			    struct err *err)
{
	return db_get_row(db,
			  "SELECT " ATTEMPT_COLUMNS
			  " FROM attempt WHERE pipeline = ? AND task = ? AND id < ? AND "
			  "ended_ns > 0 ORDER BY id DESC LIMIT 1",
			  DB_IN(pipeline, task, before_attempt ? before_attempt : INT64_MAX), arena,
			  &attempt_of_columns, ret, err);
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int record_step_duration(struct db *db, const char *pipeline, const char *step, int64_t *ret_ns,
			 struct err *err)
{
	struct db_query q;
	int64_t v[20];
	size_t n = 0;
	int r = 0;

	if (db_query(db, &q,
		     "SELECT ended_ns - started_ns FROM attempt WHERE pipeline = ? AND step "
		     "= ? AND failure = 0 AND ended_ns > 0 ORDER BY id DESC LIMIT 20",
		     DB_IN(pipeline, step), NULL, err) < 0)
		return -1;
	while (n < ARRAY_LEN(v) && (r = db_next(&q, DB_OUT(&v[n]), err)) > 0)
		n++;
	db_end(&q);
	if (r < 0 || n == 0)
		return r < 0 ? -1 : 0;
	qsort(v, n, sizeof(*v), by_number);
	*ret_ns = v[n / 2];
	return 1;
}

/* The inner query bounds what is looked at: a content may have been read any number of times. */
int record_readers(struct db *db, const struct content_id *id, const char *options_json,
		   struct arena *arena, const char **ret, size_t max, size_t *ret_n,
		   struct err *err)
{
	struct db_query q;
	const char *node;
	size_t n = 0;
	int r = 0;

	if (db_query(
		    db, &q,
		    "SELECT attempt.node FROM (SELECT io.attempt FROM content JOIN io ON "
		    "io.content = content.id AND io.dir = 0 WHERE content.digest = ? AND "
		    "content.kind = ? ORDER BY io.attempt DESC LIMIT 64) AS newest JOIN attempt ON "
		    "attempt.id = newest.attempt JOIN run ON run.rowid_ = attempt.run WHERE "
		    "attempt.node IS NOT NULL AND json_extract(run.options_json, '$.cluster') IS "
		    "json_extract(?, '$.cluster') GROUP BY attempt.node ORDER BY "
		    "max(attempt.id) DESC",
		    DB_IN(&id->digest, id->kind, options_json), arena, err) < 0)
		return -1;
	while (n < max && (r = db_next(&q, DB_OUT(&node), err)) > 0)
		ret[n++] = node;
	db_end(&q);
	if (r < 0)
		return -1;
	*ret_n = n;
	return 0;
}

static const struct db_row nondeterminism_of_columns =
	DB_ROW(struct nondeterminism_row, NULL, DB_NEEDED(struct nondeterminism_row, key),
	       DB_NEEDED(struct nondeterminism_row, task),
	       DB_COLUMN(struct nondeterminism_row, n_results));

int record_nondeterminism(struct db *db, struct arena *arena, struct nondeterminism_row **ret,
			  size_t *ret_n, struct err *err)
{
	/* CROSS JOIN: from the few such keys to their results. SQLite, which counts no rows, would
	 * go through the results of all time. */
	return db_get_rows(
		db,
		"SELECT result.key, max(attempt.task), count(DISTINCT result.outputs) FROM "
		"nondeterministic CROSS JOIN result ON result.key = nondeterministic.key JOIN "
		"attempt ON attempt.id = result.attempt GROUP BY result.key ORDER BY 2",
		DB_IN(), arena, &nondeterminism_of_columns, ret, ret_n, err);
}
