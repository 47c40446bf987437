/* Attempts, what they read and made, and results by key. */
#include "record/internal.h"

int attempt_insert(struct db *db, struct attempt_row *a, int64_t id, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "INSERT INTO attempt (id, run, task, step, pipeline, number, key, started_ns, reason, image)"
				     " SELECT ?9, ?1, ?2, ?3, pipeline, ?4, ?5, ?6, ?7, ?8 FROM run WHERE rowid_ = ?1 ON CONFLICT DO NOTHING",
				     err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, a->run);
	bind_text(s, 2, a->task);
	bind_text(s, 3, a->step);
	sqlite3_bind_int64(s, 4, a->number);
	bind_digest(s, 5, &a->key);
	sqlite3_bind_int64(s, 6, a->started_ns);
	bind_text(s, 7, a->reason);
	bind_text(s, 8, a->image);
	if (id)
		sqlite3_bind_int64(s, 9, id);
	if (db_run(db, s, err) < 0)
		return -1;
	if (sqlite3_changes(db->sql) == 0)
		return 1;
	a->id = sqlite3_last_insert_rowid(db->sql);
	return 0;
}

int record_attempt_start(struct db *db, struct attempt_row *a, struct err *err)
{
	int r = attempt_insert(db, a, 0, err);

	return r > 0 ? err_set(err, ERR_EXISTS, "attempt %u of %s is on record already", (unsigned)a->number, a->task) : r;
}

int record_attempt_end(struct db *db, const struct attempt_row *a, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "UPDATE attempt SET started_ns=?, ended_ns=?, failure=?, exit_status=?, signo=?, max_rss_bytes=?, cpu_ns=?, log=?, node=?,"
				     " message=?, workspace=?, continues=?, waiting=NULL WHERE id=?",
				     err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, a->started_ns);
	sqlite3_bind_int64(s, 2, a->ended_ns);
	sqlite3_bind_int(s, 3, a->failure);
	sqlite3_bind_int(s, 4, a->exit_status);
	sqlite3_bind_int(s, 5, a->signo);
	sqlite3_bind_int64(s, 6, (int64_t)a->max_rss_bytes);
	sqlite3_bind_int64(s, 7, a->cpu_ns);
	bind_id(s, 8, &a->log);
	bind_text(s, 9, a->node);
	bind_text(s, 10, a->message);
	bind_text(s, 11, a->workspace);
	bind_text(s, 12, a->continues);
	sqlite3_bind_int64(s, 13, a->id);
	return db_run(db, s, err);
}

int record_attempt_waiting(struct db *db, int64_t id, const char *why, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE attempt SET waiting = ? WHERE id = ? AND ended_ns = 0", err);

	if (!s)
		return -1;
	bind_text(s, 1, why);
	sqlite3_bind_int64(s, 2, id);
	return db_run(db, s, err);
}

int record_key(struct db *db, const struct digest *key, const void *bytes, size_t n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT OR IGNORE INTO key_record (key, bytes) VALUES (?,?)", err);

	if (!s)
		return -1;
	bind_digest(s, 1, key);
	sqlite3_bind_blob64(s, 2, bytes, n, SQLITE_STATIC);
	return db_run(db, s, err);
}

int record_key_bytes(struct db *db, const struct digest *key, struct str *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT bytes FROM key_record WHERE key = ?", err);
	int r;

	if (!s)
		return -1;
	bind_digest(s, 1, key);
	r = db_step(db, s, err);
	if (r > 0)
		str_addn(ret, sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0));
	sqlite3_reset(s);
	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "this key is not on record");
	return r < 0 ? -1 : 0;
}

int content_row_find(struct db *db, const struct content_id *id, int64_t *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT id FROM content WHERE digest = ? AND kind = ?", err);
	int r;

	if (!s)
		return -1;
	bind_digest(s, 1, &id->digest);
	sqlite3_bind_int(s, 2, id->kind);
	r = db_step(db, s, err);
	if (r > 0)
		*ret = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	return r;
}

/* The same, made when it is new. */
static int content_row(struct db *db, const struct content_id *id, int64_t *ret, struct err *err)
{
	int r = content_row_find(db, id, ret, err);
	sqlite3_stmt *s;

	if (r != 0)
		return r < 0 ? -1 : 0;
	s = db_prepare(db, "INSERT INTO content (digest, kind, size) VALUES (?,?,?)", err);
	if (!s)
		return -1;
	bind_digest(s, 1, &id->digest);
	sqlite3_bind_int(s, 2, id->kind);
	sqlite3_bind_int64(s, 3, (int64_t)id->size_bytes);
	if (db_run(db, s, err) < 0)
		return -1;
	*ret = sqlite3_last_insert_rowid(db->sql);
	return 0;
}

static int add_io(struct db *db, int64_t attempt, int dir, const struct named_content *v, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		sqlite3_stmt *s;
		int64_t content;

		if (v[i].id.kind == CONTENT_NONE)
			continue;
		if (content_row(db, &v[i].id, &content, err) < 0)
			return -1;
		s = db_prepare(db, "INSERT OR REPLACE INTO io (attempt, dir, name, content) VALUES (?,?,?,?)", err);
		if (!s)
			return -1;
		sqlite3_bind_int64(s, 1, attempt);
		sqlite3_bind_int(s, 2, dir);
		bind_text(s, 3, v[i].name);
		sqlite3_bind_int64(s, 4, content);
		if (db_run(db, s, err) < 0)
			return -1;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named_content *)a)->name, ((const struct named_content *)b)->name);
}

/* One digest for all outputs: whether two observations agree is then one comparison. */
static void outputs_digest(const struct named_content *v, size_t n, struct digest *ret)
{
	struct named_content *sorted = xcalloc(n + 1, sizeof(*sorted));
	struct str text = { 0 };

	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), by_name);
	str_add(&text, "");
	for (size_t i = 0; i < n; i++) {
		str_add_field(&text, sorted[i].name, strlen(sorted[i].name));
		str_addc(&text, (char)sorted[i].id.kind);
		str_addn(&text, sorted[i].id.digest.b, DIGEST_BYTES);
	}
	digest_bytes(text.s, text.len, ret);
	str_deinit(&text);
	free(sorted);
}

static int contradicted(struct db *db, const struct digest *key, const struct digest *outputs, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT 1 FROM result WHERE key = ? AND outputs <> ? LIMIT 1", err);
	int r;

	if (!s)
		return -1;
	bind_digest(s, 1, key);
	bind_digest(s, 2, outputs);
	r = db_step(db, s, err);
	sqlite3_reset(s);
	return r;
}

static int note_nondeterminism(struct db *db, const struct digest *key, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT OR IGNORE INTO nondeterministic (key) VALUES (?)", err);

	if (!s)
		return -1;
	bind_digest(s, 1, key);
	return db_run(db, s, err);
}

int record_result(struct db *db, int64_t attempt, const struct digest *key, bool cacheable, const struct named_content *inputs, size_t n_inputs,
		  const struct named_content *outputs, size_t n_outputs, struct err *err)
{
	struct digest d;
	sqlite3_stmt *s;
	int other;

	if (add_io(db, attempt, 0, inputs, n_inputs, err) < 0 || add_io(db, attempt, 1, outputs, n_outputs, err) < 0)
		return -1;
	outputs_digest(outputs, n_outputs, &d);
	other = contradicted(db, key, &d, err);
	s = other < 0 ? NULL : db_prepare(db, "INSERT OR REPLACE INTO result (attempt, key, cacheable, outputs) VALUES (?,?,?,?)", err);
	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, attempt);
	bind_digest(s, 2, key);
	sqlite3_bind_int(s, 3, cacheable);
	bind_digest(s, 4, &d);
	if (db_run(db, s, err) < 0 || (other && note_nondeterminism(db, key, err) < 0))
		return -1;
	return other;
}

int record_metrics(struct db *db, int64_t attempt, const struct metric_value *m, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		sqlite3_stmt *s = db_prepare(db, "INSERT OR REPLACE INTO metric (attempt, name, value) VALUES (?,?,?)", err);

		if (!s)
			return -1;
		sqlite3_bind_int64(s, 1, attempt);
		bind_text(s, 2, m[i].name);
		sqlite3_bind_double(s, 3, m[i].value);
		/* SQLite has no NaN: it would be null, which the table refuses. */
		if (m[i].value == m[i].value && db_run(db, s, err) < 0)
			return -1;
	}
	return 0;
}

int record_forget(struct db *db, const struct digest *key, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE result SET cacheable = 0 WHERE key = ?", err);

	if (!s)
		return -1;
	bind_digest(s, 1, key);
	return db_run(db, s, err);
}

/* --- reading ------------------------------------------------------------------------------------------------------------- */

static int read_io(struct db *db, int64_t attempt, int dir, struct arena *arena, struct named_content **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT io.name, content.digest, content.kind, content.size FROM io JOIN content ON content.id = io.content"
					 " WHERE io.attempt = ? AND io.dir = ? ORDER BY io.name", err);
	VEC(struct named_content) out = { 0 };
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, attempt);
	sqlite3_bind_int(s, 2, dir);
	while ((r = db_step(db, s, err)) > 0) {
		struct named_content c = { .name = column_text(s, 0, arena) };

		c.id.kind = (uint8_t)sqlite3_column_int(s, 2);
		c.id.size_bytes = (uint64_t)sqlite3_column_int64(s, 3);
		if (c.name && column_digest(s, 1, &c.id.digest) && c.id.kind >= CONTENT_BLOB && c.id.kind <= CONTENT_KIND_MAX)
			VEC_PUSH(&out, c);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

static int read_metrics(struct db *db, int64_t attempt, struct arena *arena, struct metric_value **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT name, value FROM metric WHERE attempt = ? ORDER BY name", err);
	VEC(struct metric_value) out = { 0 };
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, attempt);
	while ((r = db_step(db, s, err)) > 0) {
		struct metric_value m = { column_text(s, 0, arena), sqlite3_column_double(s, 1) };

		VEC_PUSH(&out, m);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_each_end(struct db *db, int64_t run, int (*fn)(void *arg, const struct attempt_end *e, struct err *err), void *arg, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT id, ended_ns, task, key, failure FROM attempt WHERE run = ? ORDER BY id", err);
	int r, stopped = 0;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	while (stopped == 0 && (r = db_step(db, s, err)) > 0) {
		struct attempt_end e = { .id = sqlite3_column_int64(s, 0), .ended_ns = sqlite3_column_int64(s, 1),
					 .task = (const char *)sqlite3_column_text(s, 2), .failure = (enum failure_class)sqlite3_column_int(s, 4) };

		if (!e.task || !column_digest(s, 3, &e.key))
			e = (struct attempt_end){ .id = e.id, .task = "?" };
		stopped = fn(arg, &e, err);
	}
	sqlite3_reset(s);
	return stopped ? stopped : r;
}

int record_each_uncached_step(struct db *db, int64_t run, int (*fn)(void *arg, const char *step), void *arg, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT DISTINCT attempt.step FROM attempt JOIN result ON result.attempt = attempt.id"
					 " WHERE attempt.run = ? AND result.cacheable = 0", err);
	int r = 0, stopped = 0;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	while (stopped == 0 && (r = db_step(db, s, err)) > 0)
		stopped = fn(arg, (const char *)sqlite3_column_text(s, 0));
	sqlite3_reset(s);
	return stopped ? stopped : r;
}

static int attempt_duration(struct db *db, int64_t attempt, int64_t *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT ended_ns - started_ns FROM attempt WHERE id = ?", err);
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, attempt);
	r = db_step(db, s, err);
	*ret = r > 0 ? MAX(sqlite3_column_int64(s, 0), 0) : 0;
	sqlite3_reset(s);
	return r < 0 ? -1 : 0;
}

int record_outputs(struct db *db, int64_t attempt, struct arena *arena, struct cached_result *ret, struct err *err)
{
	*ret = (struct cached_result){ .attempt = attempt };
	if (attempt_duration(db, attempt, &ret->duration_ns, err) < 0 || read_io(db, attempt, 1, arena, &ret->outputs, &ret->n_outputs, err) < 0)
		return -1;
	return read_metrics(db, attempt, arena, &ret->metrics, &ret->n_metrics, err);
}

int record_inputs(struct db *db, int64_t attempt, struct arena *arena, struct named_content **ret, size_t *ret_n, struct err *err)
{
	return read_io(db, attempt, 0, arena, ret, ret_n, err);
}

int record_lookup(struct db *db, const struct digest *key, struct arena *arena, struct cached_result *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT attempt FROM result WHERE key = ? AND cacheable = 1 ORDER BY attempt LIMIT 1", err);
	int64_t attempt = 0;
	int r;

	if (!s)
		return -1;
	bind_digest(s, 1, key);
	r = db_step(db, s, err);
	if (r > 0)
		attempt = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	if (r <= 0)
		return r;
	return record_outputs(db, attempt, arena, ret, err) < 0 ? -1 : 1;
}

void read_attempt_row(sqlite3_stmt *s, struct arena *arena, struct attempt_row *ret)
{
	*ret = (struct attempt_row){
		.id = sqlite3_column_int64(s, 0),	  .run = sqlite3_column_int64(s, 1),	     .task = column_text(s, 2, arena),
		.step = column_text(s, 3, arena),	  .number = (uint32_t)sqlite3_column_int64(s, 4), .started_ns = sqlite3_column_int64(s, 6),
		.ended_ns = sqlite3_column_int64(s, 7),	  .failure = (enum failure_class)sqlite3_column_int(s, 8),
		.exit_status = sqlite3_column_int(s, 9),  .signo = sqlite3_column_int(s, 10),	     .max_rss_bytes = (uint64_t)sqlite3_column_int64(s, 11),
		.cpu_ns = sqlite3_column_int64(s, 12),	  .node = column_text(s, 14, arena),	     .message = column_text(s, 15, arena),
		.workspace = column_text(s, 16, arena),	  .reason = column_text(s, 17, arena),
		.continues = column_text(s, 18, arena),	  .waiting = column_text(s, 19, arena),	     .image = column_text(s, 20, arena),
	};
	column_digest(s, 5, &ret->key);
	column_id(s, 13, &ret->log);
	if ((unsigned)ret->failure >= FAILURE_CLASSES)
		ret->failure = FAILURE_LOST;
}

int read_attempt_rows(struct db *db, sqlite3_stmt *s, struct arena *arena, struct attempt_row **ret, size_t *ret_n, struct err *err)
{
	VEC(struct attempt_row) out = { 0 };
	int r;

	while ((r = db_step(db, s, err)) > 0)
		read_attempt_row(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_run_attempts(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE run = ? ORDER BY id", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	return read_attempt_rows(db, s, arena, ret, ret_n, err);
}

int record_attempt(struct db *db, int64_t id, struct arena *arena, struct attempt_row *ret, struct run_row *ret_run, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE id = ?", err);
	sqlite3_stmt *of = db_prepare(db, "SELECT " RUN_COLUMNS " FROM run WHERE rowid_ = ?", err);
	int r;

	if (!s || !of)
		return -1;
	sqlite3_bind_int64(s, 1, id);
	r = db_step(db, s, err);
	if (r > 0) {
		read_attempt_row(s, arena, ret);
		sqlite3_bind_int64(of, 1, ret->run);
		r = db_step(db, of, err);
		if (r > 0)
			read_run_row(of, arena, ret_run);
		sqlite3_reset(of);
	}
	sqlite3_reset(s);
	return r;
}

int record_previous_attempt(struct db *db, const char *pipeline, const char *task, int64_t before_attempt, struct arena *arena, struct attempt_row *ret,
			    struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE pipeline = ? AND task = ? AND id < ? AND ended_ns > 0"
					 " ORDER BY id DESC LIMIT 1", err);
	int r;

	if (!s)
		return -1;
	bind_text(s, 1, pipeline);
	bind_text(s, 2, task);
	sqlite3_bind_int64(s, 3, before_attempt ? before_attempt : INT64_MAX);
	r = db_step(db, s, err);
	if (r > 0)
		read_attempt_row(s, arena, ret);
	sqlite3_reset(s);
	return r;
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int record_step_duration(struct db *db, const char *pipeline, const char *step, int64_t *ret_ns, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT ended_ns - started_ns FROM attempt WHERE pipeline = ? AND step = ? AND failure = 0 AND ended_ns > 0"
					 " ORDER BY id DESC LIMIT 20", err);
	int64_t v[20];
	size_t n = 0;
	int r;

	if (!s)
		return -1;
	bind_text(s, 1, pipeline);
	bind_text(s, 2, step);
	while ((r = db_step(db, s, err)) > 0 && n < ARRAY_LEN(v))
		v[n++] = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	if (r < 0 || n == 0)
		return r < 0 ? -1 : 0;
	qsort(v, n, sizeof(*v), by_number);
	*ret_ns = v[n / 2];
	return 1;
}

int record_nondeterminism(struct db *db, struct arena *arena, struct nondeterminism_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT result.key, max(attempt.task), count(DISTINCT result.outputs) FROM nondeterministic JOIN result"
					 " ON result.key = nondeterministic.key JOIN attempt ON attempt.id = result.attempt GROUP BY result.key ORDER BY 2", err);
	VEC(struct nondeterminism_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0) {
		struct nondeterminism_row row = { .task = column_text(s, 1, arena), .n_results = (uint64_t)sqlite3_column_int64(s, 2) };

		if (row.task && column_digest(s, 0, &row.key))
			VEC_PUSH(&out, row);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}
