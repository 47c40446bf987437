/* engine/record/run_query.c — finding runs by their params, metrics, state, time and names.
 *
 * The text of a query is built from the requested conditions; values are bound in order and never
 * become part of the text. The number of rows that meet each condition decides which comes first,
 * so that both a rare metric and a common one take milliseconds among a million runs. Invariants: a
 * results table is read once, however many runs have it. Threads: the thread of the handle. Not
 * here: how runs are printed or paged (serve/, cli/).
 */
#include "record/run_query.h"
#include <assert.h>
#include "base/text/json.h"
#include "base/text/text.h"
#include "record/manifest/results.h"
#include "record/rows/rows.h"

/* Searchable metrics of one table: a table with more holds data. The last steps come first. */
#define SET_METRICS_MAX 10000

/* Adding params and metrics to the index. */

static int add_param(struct db *db, int64_t run, const char *name, const json_t *v, struct err *err)
{
	struct db_value value;

	if (json_is_string(v))
		value = db_text(json_string_value(v));
	else if (json_is_boolean(v))
		value = db_text(json_is_true(v) ? "true" : "false");
	else if (json_is_integer(v))
		value = db_int(json_integer_value(v));
	else if (json_is_real(v))
		value = db_double(json_real_value(v));
	else
		return 0;
	return db_do(db, "INSERT OR REPLACE INTO run_param (run, name, value) VALUES (?,?,?)",
		     DB_IN(run, name, value), err);
}

int record_run_params(struct db *db, const struct run_row *r, struct err *err)
{
	json_t *params = r->params_json ? json_loads(r->params_json, 0, NULL) : NULL, *v;
	const char *name;
	int result = 0;

	json_object_foreach(params, name, v)
	{
		if (result == 0)
			result = add_param(db, r->rowid, name, v, err);
	}
	json_decref(params);
	return result;
}

struct metric_adder {
	struct db *db;
	int64_t set;
	size_t n;
};

static int add_entry(struct metric_adder *a, const struct result_entry *e, struct err *err)
{
	for (size_t i = 0; i < e->n_metrics && a->n < SET_METRICS_MAX; i++) {
		struct metric_value m;

		results_metric(e, i, &m);
		if (m.value != m.value)
			continue;
		if (db_do(a->db,
			  "INSERT OR IGNORE INTO set_metric (result_set, name, task, step, value) "
			  "VALUES (?,?,?,?,?)",
			  DB_IN(a->set, m.name, e->task, e->step, m.value), err) < 0)
			return -1;
		a->n++;
	}
	return 0;
}

/* From the last step backwards: a pipeline's results come at its end. */
static int add_metrics(struct metric_adder *a, const struct results *res, struct err *err)
{
	for (size_t step = results_n_steps(res); step-- > 0;) {
		struct results_cursor c;
		struct result_entry e;

		results_nth_step(res, step, &c);
		while (a->n < SET_METRICS_MAX && results_next(&c, &e) && e.step_index == step)
			if (add_entry(a, &e, err) < 0)
				return -1;
	}
	return 0;
}

int record_run_results(struct db *db, struct store *store, const struct run_row *r, struct err *err)
{
	struct metric_adder a = { .db = db };
	struct results *res;
	int known, result;

	if (r->results.kind == CONTENT_NONE)
		return 0;
	known = db_get(db, "SELECT id FROM result_set WHERE results = ?", DB_IN(&r->results), NULL,
		       DB_OUT(&a.set), err);
	if (known == 0) {
		if (db_do(db, "INSERT INTO result_set (results) VALUES (?)", DB_IN(&r->results),
			  err) < 0)
			return -1;
		a.set = db_last_rowid(db);
	}
	if (known < 0 || db_do(db, "UPDATE run SET result_set = ? WHERE rowid_ = ?",
			       DB_IN(a.set, r->rowid), err) < 0)
		return -1;
	if (known)
		return 0;
	if (results_open(store, &r->results, &res, err) < 0)
		return -1;
	result = add_metrics(&a, res, err);
	results_free(res);
	return result;
}

/* Conditions. */

int run_condition_parse(const char *text, struct arena *arena, struct run_condition *ret,
			struct err *err)
{
	size_t n = strcspn(text, "<>=!"), op;

	*ret = (struct run_condition){ .name = arena_strndup(arena, text, n) };
	op = compare_parse(text + n, &ret->op);
	if (!op && text[n] == '=') {
		ret->op = COMPARE_EQ;
		op = 1;
	}
	if (n == 0 || !op || !text[n + op] || strchr("<>=!", text[n + op]))
		return err_set(err, ERR_USAGE,
			       "`%s`: write NAME, an operator (= != < <= > >=) and a value, such "
			       "as 'accuracy>=0.9'",
			       text);
	ret->text = arena_strdup(arena, text + n + op);
	ret->is_number = text_parse_double(ret->text, &ret->number);
	return 0;
}

/* The query. */

/* A condition with more rows than this is checked for each run in turn, newest first: the first
 * matches come soon. One with fewer rows is evaluated first, and gives the runs. */
#define COMMON 2000

struct builder {
	struct db *db;
	struct str sql, pattern;
	struct db_value
		values[20 + 6 * RUN_CONDITIONS_MAX + 1]; /* with DB_END after the last one */
	size_t n;
};

/* Adds the next value. */
#define ADD(b, value) ((b)->values[(b)->n++] = DB_VALUE(value))

static struct db_value value_of(const struct run_condition *c)
{
	return c->is_number ? db_double(c->number) : db_text(c->text);
}

static void where(struct builder *b, const char *sql)
{
	str_addf(&b->sql, "%s %s", strstr(b->sql.s, " WHERE ") ? " AND" : " WHERE", sql);
}

static const char *operator_text(enum compare_op op)
{
	static const char *const text[] = {
		[COMPARE_EQ] = "=",  [COMPARE_NE] = "<>", [COMPARE_LT] = "<",
		[COMPARE_LE] = "<=", [COMPARE_GT] = ">",  [COMPARE_GE] = ">="
	};

	assert((unsigned)op < ARRAY_LEN(text));
	return text[op];
}

/* Whether the condition has more than COMMON rows. */
static bool is_common(struct builder *b, const char *rows, const struct run_condition *c)
{
	_cleanup_(str_deinit) struct str sql = { 0 };
	struct db_query q;
	int64_t n = 0;

	str_addf(&sql,
		 "SELECT count(*) FROM (SELECT 1 FROM %s WHERE name = ? AND value %s ? LIMIT %d)",
		 rows, operator_text(c->op), COMMON + 1);
	if (db_query_built(b->db, &q, sql.s, DB_IN(c->name, value_of(c)), NULL, NULL) < 0)
		return false;
	db_next(&q, DB_OUT(&n), NULL);
	db_end(&q);
	return n > COMMON;
}

/* SQLite sorts numbers before texts: so each kind is compared only with itself. A value that reads
 * as a number may also be meant as text ("007"). */
static void where_param(struct builder *b, const struct run_condition *c)
{
	where(b, is_common(b, "run_param", c)
			 ? "EXISTS (SELECT 1 FROM run_param WHERE run_param.run = run.rowid_ AND "
			   "name = ? AND (value "
			 : "run.rowid_ IN (SELECT run FROM run_param WHERE name = ? AND (value ");
	ADD(b, c->name);
	str_addf(&b->sql, "%s ? AND typeof(value) %s 'text'", operator_text(c->op),
		 c->is_number ? "<>" : "=");
	ADD(b, value_of(c));
	if (c->is_number && (c->op == COMPARE_EQ || c->op == COMPARE_NE)) {
		str_addf(&b->sql, " OR typeof(value) = 'text' AND value %s ?",
			 operator_text(c->op));
		ADD(b, c->text);
	}
	str_add(&b->sql, "))");
}

/* The part after the first dot: the metric's name if the part before the dot is a step. */
static const char *behind_step(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && dot[1] ? dot + 1 : NULL;
}

/* Uses the table's own key: the plus keeps SQLite from using the index on values for each run. */
static void where_common_metric(struct builder *b, const struct run_condition *c)
{
	const char *rest = behind_step(c->name);
	_cleanup_(str_deinit) struct str sql = { 0 };

	str_addf(&sql,
		 "EXISTS (SELECT 1 FROM set_metric m WHERE m.result_set = run.result_set AND "
		 "+m.value %s ? AND (m.name = ?%s))",
		 operator_text(c->op), rest ? " OR m.name = ? AND m.step = substr(?, 1, ?)" : "");
	where(b, sql.s);
	ADD(b, value_of(c));
	ADD(b, c->name);
	if (!rest)
		return;
	ADD(b, rest);
	ADD(b, c->name);
	ADD(b, rest - 1 - c->name);
}

static bool metric_is_common(struct builder *b, const struct run_condition *c)
{
	struct run_condition rest = *c;

	rest.name = behind_step(c->name);
	return is_common(b, "set_metric", c) || (rest.name && is_common(b, "set_metric", &rest));
}

/* "evaluate.accuracy" is the metric of that name, or `accuracy` of the step `evaluate`. */
static void metric_sets(struct builder *b, const struct run_condition *c)
{
	const char *rest = behind_step(c->name);

	str_addf(&b->sql, "SELECT result_set FROM set_metric WHERE name = ? AND value %s ?",
		 operator_text(c->op));
	ADD(b, c->name);
	ADD(b, value_of(c));
	if (!rest)
		return;
	str_addf(&b->sql,
		 " UNION ALL SELECT result_set FROM set_metric WHERE name = ? AND value %s ? AND "
		 "step = substr(?, 1, ?)",
		 operator_text(c->op));
	ADD(b, rest);
	ADD(b, value_of(c));
	ADD(b, c->name);
	ADD(b, rest - 1 - c->name);
}

int record_run_metric(struct db *db, const struct run_row *run, const char *name, bool largest,
		      double *ret, struct err *err)
{
	const char *rest = behind_step(name);
	const char *step = rest ? name : NULL;
	int64_t step_len = rest ? rest - 1 - name : 0;

	return db_get(
		db,
		largest ? "SELECT value FROM set_metric WHERE result_set = (SELECT result_set "
			  "FROM run WHERE rowid_ = ?1) AND (name = ?2 OR name = ?3 AND step "
			  "= substr(?4, 1, ?5)) ORDER BY value DESC LIMIT 1"
			: "SELECT value FROM set_metric WHERE result_set = (SELECT result_set "
			  "FROM run WHERE rowid_ = ?1) AND (name = ?2 OR name = ?3 AND step "
			  "= substr(?4, 1, ?5)) ORDER BY value LIMIT 1",
		DB_IN(run->rowid, name, rest, step, step_len), NULL, DB_OUT(ret), err);
}

/* The text with wildcards around it, its own ones escaped. */
static void add_pattern(struct str *out, const char *text)
{
	str_addc(out, '%');
	for (const char *at = text; *at; at++) {
		if (strchr("%_\\", *at))
			str_addc(out, '\\');
		str_addc(out, *at);
	}
	str_addc(out, '%');
}

static void where_text(struct builder *b, const char *text)
{
	static const char *const columns[] = { "run.id",         "hex(run.hash)",   "run.pipeline",
					       "run.path",       "run.params_json", "run.message",
					       "run.git_commit", "run.schedule" };
	static const char like[] = " LIKE ? ESCAPE '\\'";

	str_reset(&b->pattern);
	add_pattern(&b->pattern, text);
	where(b, "(");
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		str_addf(&b->sql, "%s%s OR ", columns[i], like);
		ADD(b, (const char *)b->pattern.s);
	}
	str_addf(&b->sql, "EXISTS (SELECT 1 FROM tag WHERE tag.run = run.hash AND tag.name%s))",
		 like);
	ADD(b, (const char *)b->pattern.s);
}

static void add_filters(struct builder *b, const struct run_query *q)
{
	const struct {
		bool asked;
		const char *sql;
		struct db_value value;
	} filters[] = {
		{ q->pipeline, "run.pipeline = ?", db_text(q->pipeline) },
		{ q->has_state, "run.state = ?", db_int(q->state) },
		{ q->schedule, "run.schedule = ?", db_text(q->schedule) },
		{ q->sweep, "run.sweep = ?", db_text(q->sweep) },
		{ q->commit, "run.git_commit >= ?", db_text(q->commit) },
		{ q->commit, "run.git_commit < ? || 'g'", db_text(q->commit) },
		{ q->since_ns, "run.started_ns >= ?", db_int(q->since_ns) },
		{ q->until_ns, "run.started_ns < ?", db_int(q->until_ns) },
		{ q->before, "run.rowid_ < ?", db_int(q->before) },
		{ q->after, "run.rowid_ > ?", db_int(q->after) },
		/* A run that lost the name to another isn't found by it. */
		{ q->tag,
		  "run.hash = (SELECT run FROM tag WHERE name = ? ORDER BY at_ns DESC, digest DESC "
		  "LIMIT 1)",
		  db_text(q->tag) },
	};

	for (size_t i = 0; i < ARRAY_LEN(filters); i++)
		if (filters[i].asked) {
			where(b, filters[i].sql);
			ADD(b, filters[i].value);
		}
	if (q->text)
		where_text(b, q->text);
	for (size_t i = 0; i < q->n_params; i++)
		where_param(b, &q->params[i]);
	for (size_t i = 0; i < q->n_metrics; i++) {
		if (metric_is_common(b, &q->metrics[i])) {
			where_common_metric(b, &q->metrics[i]);
			continue;
		}
		where(b, "run.result_set IN (");
		metric_sets(b, &q->metrics[i]);
		str_addc(&b->sql, ')');
	}
}

/* Whether the query has a condition that few runs meet. */
static bool few_meet(struct builder *b, const struct run_query *q)
{
	for (size_t i = 0; i < q->n_params; i++)
		if (!is_common(b, "run_param", &q->params[i]))
			return true;
	for (size_t i = 0; i < q->n_metrics; i++)
		if (!metric_is_common(b, &q->metrics[i]))
			return true;
	return q->tag || q->commit || q->sweep;
}

/* Sorts by a metric; each run once, by the best of its tasks. Reads the metric's index in order
 * until there are enough runs; or, when few can match, finds those and sorts them. */
static void build(struct builder *b, const struct run_query *q)
{
	if (q->sort) {
		str_addf(&b->sql,
			 "SELECT " RUN_COLUMNS " FROM %s ON run.result_set = "
			 "set_metric.result_set WHERE set_metric.name = ?",
			 few_meet(b, q) ? "run CROSS JOIN set_metric"
					: "set_metric CROSS JOIN run");
		ADD(b, q->sort);
		add_filters(b, q);
		str_addf(&b->sql, " ORDER BY set_metric.value %s",
			 q->largest_first ? "DESC" : "ASC");
	} else {
		str_add(&b->sql, "SELECT " RUN_COLUMNS " FROM run");
		add_filters(b, q);
		str_add(&b->sql, (q->since_ns || q->until_ns) && !q->paged
					 ? " ORDER BY run.started_ns DESC, run.rowid_ DESC"
					 : " ORDER BY run.rowid_ DESC");
	}
}

static bool has_row(const struct run_row *v, size_t n, int64_t rowid)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].rowid == rowid)
			return true;
	return false;
}

int record_query_runs(struct db *db, const struct run_query *q, struct arena *arena,
		      struct run_row **ret, size_t *ret_n, struct err *err)
{
	struct builder b = { .db = db };
	VEC(struct run_row) out = { 0 };
	struct db_query rows;
	int r = 1;

	if (q->n_params > RUN_CONDITIONS_MAX || q->n_metrics > RUN_CONDITIONS_MAX)
		return err_set(err, ERR_USAGE, "at most %d conditions of a kind",
			       RUN_CONDITIONS_MAX);
	build(&b, q);
	if (db_query_built(db, &rows, b.sql.s, b.values, arena, err) < 0)
		r = -1;
	str_deinit(&b.sql);
	while (r > 0 && (!q->limit || out.n < q->limit)) {
		struct run_row *row = VEC_ADD(&out);

		r = db_next_row(&rows, &run_of_columns, row, err);
		if (r <= 0 || (q->sort && has_row(out.v, out.n - 1, row->rowid)))
			out.n--;
	}
	db_end(&rows);
	str_deinit(&b.pattern);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return MIN(r, 0);
}

int record_count_runs(struct db *db, const struct run_query *q, uint64_t *ret, struct err *err)
{
	/* Each is answered from an index alone. */
	if (q->text || q->sweep || q->tag || q->commit || q->since_ns || q->until_ns || q->sort ||
	    q->n_params || q->n_metrics ||
	    (q->pipeline != NULL) + (q->schedule != NULL) + (q->has_state ? 1 : 0) > 1)
		return 0;
	if (q->pipeline)
		return db_get(db, "SELECT count(*) FROM run WHERE pipeline = ?", DB_IN(q->pipeline),
			      NULL, DB_OUT(ret), err);
	if (q->schedule)
		return db_get(db, "SELECT count(*) FROM run WHERE schedule = ?", DB_IN(q->schedule),
			      NULL, DB_OUT(ret), err);
	if (q->has_state)
		return db_get(db, "SELECT count(*) FROM run WHERE state = ?", DB_IN(q->state), NULL,
			      DB_OUT(ret), err);
	return db_get(db, "SELECT count(*) FROM run", DB_IN(), NULL, DB_OUT(ret), err);
}

int record_newest_run(struct db *db, int64_t *ret, struct err *err)
{
	*ret = 0;
	return MIN(db_get(db, "SELECT rowid_ FROM run ORDER BY rowid_ DESC LIMIT 1", DB_IN(), NULL,
			  DB_OUT(ret), err),
		   0);
}

int record_each_run_metric(struct db *db, int64_t run, uint64_t max,
			   void (*fn)(void *arg, const char *task, const char *name, double value),
			   void *arg, struct err *err)
{
	const char *task, *name;
	struct db_query q;
	double value;
	int r;

	if (db_query(db, &q,
		     "SELECT task, name, value FROM set_metric WHERE result_set = (SELECT "
		     "result_set FROM run WHERE rowid_ = ?) LIMIT ?",
		     DB_IN(run, max), NULL, err) < 0)
		return -1;
	while ((r = db_next(&q, DB_OUT(&task, &name, &value), err)) > 0)
		fn(arg, task, name, value);
	return r;
}

#define C(field) DB_COLUMN(struct run_stretch, field)
static const struct db_row run_stretch_of_columns =
	DB_ROW(struct run_stretch, NULL, C(begin_ns), C(runs), C(failed), C(executed), C(hits),
	       C(saved_ns));
#undef C

int record_run_stretches(struct db *db, int64_t since_ns, int64_t stretch_ns, struct arena *arena,
			 struct run_stretch **ret, size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT started_ns / ?2 * ?2, count(*), sum(state = 2), sum(executed), "
			   "sum(hits), sum(saved_ns) FROM run WHERE started_ns >= ?1 GROUP BY 1 "
			   "ORDER BY 1",
			   DB_IN(since_ns, stretch_ns), arena, &run_stretch_of_columns, ret, ret_n,
			   err);
}
