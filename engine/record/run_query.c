#include "base/json.h"
#include "base/text.h"
#include "record/internal.h"
#include "record/results.h"
#include "record/run_query.h"

/* Metrics of one table that can be found: a table with more is data. Those of the last steps come first. */
#define SET_METRICS_MAX 10000

/* --- making things findable ------------------------------------------------------------------------------------------------- */

static int add_param(struct db *db, int64_t run, const char *name, const json_t *v, struct err *err)
{
	sqlite3_stmt *s;

	if (!json_is_number(v) && !json_is_string(v) && !json_is_boolean(v))
		return 0;
	s = db_prepare(db, "INSERT OR REPLACE INTO run_param (run, name, value) VALUES (?,?,?)", err);
	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	bind_text(s, 2, name);
	if (json_is_string(v))
		bind_text(s, 3, json_string_value(v));
	else if (json_is_boolean(v))
		bind_text(s, 3, json_is_true(v) ? "true" : "false");
	else if (json_is_integer(v))
		sqlite3_bind_int64(s, 3, json_integer_value(v));
	else
		sqlite3_bind_double(s, 3, json_real_value(v));
	return db_run(db, s, err);
}

int record_run_params(struct db *db, const struct run_row *r, struct err *err)
{
	json_t *params = r->params_json ? json_loads(r->params_json, 0, NULL) : NULL, *v;
	const char *name;
	int result = 0;

	json_object_foreach (params, name, v)
		if (result == 0)
			result = add_param(db, r->rowid, name, v, err);
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
		sqlite3_stmt *s = db_prepare(a->db, "INSERT OR IGNORE INTO set_metric (result_set, name, task, step, value) VALUES (?,?,?,?,?)", err);

		if (!s)
			return -1;
		results_metric(e, i, &m);
		if (m.value != m.value)
			continue;
		sqlite3_bind_int64(s, 1, a->set);
		bind_text(s, 2, m.name);
		bind_text(s, 3, e->task);
		bind_text(s, 4, e->step);
		sqlite3_bind_double(s, 5, m.value);
		if (db_run(a->db, s, err) < 0)
			return -1;
		a->n++;
	}
	return 0;
}

/* Step by step from the last one: what a pipeline is for comes at its end. */
static int add_metrics(struct metric_adder *a, const struct results *res, struct err *err)
{
	for (size_t step = results_n_steps(res); step-- > 0;) {
		struct results_cursor c;
		struct result_entry e;

		if (!results_seek_step(res, results_step_name(res, step), &c))
			continue;
		while (a->n < SET_METRICS_MAX && results_next(&c, &e) && e.step_index == step)
			if (add_entry(a, &e, err) < 0)
				return -1;
	}
	return 0;
}

/* Row of `result_set`; *ret_new when nothing is known of it yet. */
static int result_set(struct db *db, const struct content_id *results, int64_t *ret, bool *ret_new, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT id FROM result_set WHERE results = ?", err);
	int r;

	if (!s)
		return -1;
	bind_id(s, 1, results);
	r = db_step(db, s, err);
	*ret_new = r == 0;
	if (r > 0)
		*ret = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	if (r != 0)
		return r < 0 ? -1 : 0;
	s = db_prepare(db, "INSERT INTO result_set (results) VALUES (?)", err);
	if (!s)
		return -1;
	bind_id(s, 1, results);
	if (db_run(db, s, err) < 0)
		return -1;
	*ret = sqlite3_last_insert_rowid(db->sql);
	return 0;
}

int record_run_results(struct db *db, struct store *store, const struct run_row *r, struct err *err)
{
	struct metric_adder a = { .db = db };
	struct results *res;
	sqlite3_stmt *s;
	bool is_new;
	int result = 0;

	if (r->results.kind == CONTENT_NONE)
		return 0;
	if (result_set(db, &r->results, &a.set, &is_new, err) < 0)
		return -1;
	s = db_prepare(db, "UPDATE run SET result_set = ? WHERE rowid_ = ?", err);
	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, a.set);
	sqlite3_bind_int64(s, 2, r->rowid);
	if (db_run(db, s, err) < 0 || (is_new && results_open(store, &r->results, &res, err) < 0))
		return -1;
	if (is_new) {
		result = add_metrics(&a, res, err);
		results_free(res);
	}
	return result;
}

/* --- conditions ---------------------------------------------------------------------------------------------------------------- */

static const struct { const char *text; enum run_operator op; } operators[] = {
	{ ">=", RUN_GE }, { "<=", RUN_LE }, { "!=", RUN_NE }, { "==", RUN_EQ }, { ">", RUN_GT }, { "<", RUN_LT }, { "=", RUN_EQ },
};

int run_condition_parse(const char *text, struct arena *arena, struct run_condition *ret, struct err *err)
{
	size_t n = strcspn(text, "<>=!");
	const char *op = NULL;

	*ret = (struct run_condition){ .name = arena_strndup(arena, text, n) };
	for (size_t i = 0; i < ARRAY_LEN(operators) && !op; i++)
		if (str_has_prefix(text + n, operators[i].text)) {
			op = operators[i].text;
			ret->op = operators[i].op;
		}
	if (n == 0 || !op || !text[n + strlen(op)])
		return err_set(err, ERR_USAGE, "`%s`: write NAME, an operator (= != < <= > >=) and a value, such as 'accuracy>=0.9'", text);
	ret->text = arena_strdup(arena, text + n + strlen(op));
	ret->is_number = text_parse_double(ret->text, &ret->number);
	return 0;
}

bool run_condition_holds(const struct run_condition *c, int order)
{
	switch (c->op) {
	case RUN_EQ:
		return order == 0;
	case RUN_NE:
		return order != 0;
	case RUN_LT:
		return order < 0;
	case RUN_LE:
		return order <= 0;
	case RUN_GT:
		return order > 0;
	case RUN_GE:
		return order >= 0;
	}
	return false;
}

/* --- the query --------------------------------------------------------------------------------------------------------------------- */

/* A condition that so many things meet is asked of each run in turn, newest first: the first ones come soon. One that few meet is asked first, and gives
 * the runs. */
#define COMMON 2000

struct builder {
	struct db *db;
	struct str sql;
	struct {
		enum { BIND_TEXT, BIND_INT, BIND_NUMBER } kind;
		const char *text;
		int64_t number;
		double real;
	} binds[9 + 6 * RUN_CONDITIONS_MAX];
	int n;
};

static void bind_a_text(struct builder *b, const char *text)
{
	b->binds[b->n].kind = BIND_TEXT;
	b->binds[b->n++].text = text;
}

static void bind_a_number(struct builder *b, const struct run_condition *c)
{
	b->binds[b->n].kind = c->is_number ? BIND_NUMBER : BIND_TEXT;
	b->binds[b->n].real = c->number;
	b->binds[b->n++].text = c->text;
}

static void bind_an_int(struct builder *b, int64_t v)
{
	b->binds[b->n].kind = BIND_INT;
	b->binds[b->n++].number = v;
}

static void where(struct builder *b, const char *sql)
{
	str_addf(&b->sql, "%s %s", strstr(b->sql.s, " WHERE ") ? " AND" : " WHERE", sql);
}

static const char *operator_text(enum run_operator op)
{
	static const char *const text[] = { [RUN_EQ] = "=", [RUN_NE] = "<>", [RUN_LT] = "<", [RUN_LE] = "<=", [RUN_GT] = ">", [RUN_GE] = ">=" };

	return text[op];
}

/* Do more than COMMON rows come? `sql` has the name and the value as its first two places. */
static bool is_common(struct builder *b, const char *rows, const struct run_condition *c)
{
	_cleanup_(str_deinit) struct str sql = { 0 };
	sqlite3_stmt *s;
	bool common;

	str_addf(&sql, "SELECT count(*) FROM (SELECT 1 FROM %s WHERE name = ? AND value %s ? LIMIT %d)", rows, operator_text(c->op), COMMON + 1);
	if (sqlite3_prepare_v2(b->db->sql, sql.s, -1, &s, NULL) != SQLITE_OK)
		return false;
	bind_text(s, 1, c->name);
	if (c->is_number)
		sqlite3_bind_double(s, 2, c->number);
	else
		bind_text(s, 2, c->text);
	common = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int(s, 0) > COMMON;
	sqlite3_finalize(s);
	return common;
}

/* Numbers sort before texts in SQLite: each is only held against its own kind. A value that reads as a number may also be meant as text ("007"). */
static void where_param(struct builder *b, const struct run_condition *c)
{
	where(b, is_common(b, "run_param", c) ? "EXISTS (SELECT 1 FROM run_param WHERE run_param.run = run.rowid_ AND name = ? AND (value " :
						"run.rowid_ IN (SELECT run FROM run_param WHERE name = ? AND (value ");
	bind_a_text(b, c->name);
	str_addf(&b->sql, "%s ? AND typeof(value) %s 'text'", operator_text(c->op), c->is_number ? "<>" : "=");
	bind_a_number(b, c);
	if (c->is_number && (c->op == RUN_EQ || c->op == RUN_NE)) {
		str_addf(&b->sql, " OR typeof(value) = 'text' AND value %s ?", operator_text(c->op));
		bind_a_text(b, c->text);
	}
	str_add(&b->sql, "))");
}

/* The part behind the first dot: what the metric would be called if the part before it is a step. */
static const char *behind_step(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && dot[1] ? dot + 1 : NULL;
}

/* By the table's own key: the plus keeps SQLite from looking through all that have such a value, for each run. */
static void where_common_metric(struct builder *b, const struct run_condition *c)
{
	const char *rest = behind_step(c->name);
	_cleanup_(str_deinit) struct str sql = { 0 };

	str_addf(&sql, "EXISTS (SELECT 1 FROM set_metric m WHERE m.result_set = run.result_set AND +m.value %s ? AND (m.name = ?%s))", operator_text(c->op),
		 rest ? " OR m.name = ? AND m.step = substr(?, 1, ?)" : "");
	where(b, sql.s);
	bind_a_number(b, c);
	bind_a_text(b, c->name);
	if (!rest)
		return;
	bind_a_text(b, rest);
	bind_a_text(b, c->name);
	bind_an_int(b, rest - 1 - c->name);
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

	str_addf(&b->sql, "SELECT result_set FROM set_metric WHERE name = ? AND value %s ?", operator_text(c->op));
	bind_a_text(b, c->name);
	bind_a_number(b, c);
	if (!rest)
		return;
	str_addf(&b->sql, " UNION ALL SELECT result_set FROM set_metric WHERE name = ? AND value %s ? AND step = substr(?, 1, ?)", operator_text(c->op));
	bind_a_text(b, rest);
	bind_a_number(b, c);
	bind_a_text(b, c->name);
	bind_an_int(b, rest - 1 - c->name);
}

static void add_conditions(struct builder *b, const struct run_query *q)
{
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

static void add_filters(struct builder *b, const struct run_query *q)
{
	if (q->pipeline) {
		where(b, "run.pipeline = ?");
		bind_a_text(b, q->pipeline);
	}
	if (q->has_state) {
		where(b, "run.state = ?");
		bind_an_int(b, q->state);
	}
	if (q->schedule) {
		where(b, "run.schedule = ?");
		bind_a_text(b, q->schedule);
	}
	if (q->commit) {
		where(b, "run.git_commit >= ? AND run.git_commit < ? || 'g'");
		bind_a_text(b, q->commit);
		bind_a_text(b, q->commit);
	}
	if (q->since_ns) {
		where(b, "run.started_ns >= ?");
		bind_an_int(b, q->since_ns);
	}
	if (q->until_ns) {
		where(b, "run.started_ns < ?");
		bind_an_int(b, q->until_ns);
	}
	if (q->before) {
		where(b, "run.rowid_ < ?");
		bind_an_int(b, q->before);
	}
	/* A name that was moved away from a run doesn't find it any more. */
	if (q->tag) {
		where(b, "run.hash = (SELECT run FROM tag WHERE name = ? ORDER BY at_ns DESC, digest DESC LIMIT 1)");
		bind_a_text(b, q->tag);
	}
	add_conditions(b, q);
}

/* Is there a condition that few runs meet? */
static bool few_meet(struct builder *b, const struct run_query *q)
{
	for (size_t i = 0; i < q->n_params; i++)
		if (!is_common(b, "run_param", &q->params[i]))
			return true;
	for (size_t i = 0; i < q->n_metrics; i++)
		if (!metric_is_common(b, &q->metrics[i]))
			return true;
	return q->tag || q->commit;
}

/* By a metric, each run once, by the best of its tasks: the metric's index in order, until enough runs have come; or, when few can come, those, and then sorted. */
static void build_sorted(struct builder *b, const struct run_query *q)
{
	str_addf(&b->sql, "SELECT " RUN_COLUMNS " FROM %s ON run.result_set = set_metric.result_set WHERE set_metric.name = ?",
		 few_meet(b, q) ? "run CROSS JOIN set_metric" : "set_metric CROSS JOIN run");
	bind_a_text(b, q->sort);
	add_filters(b, q);
	str_addf(&b->sql, " ORDER BY set_metric.value %s", q->largest_first ? "DESC" : "ASC");
}

static void build(struct builder *b, const struct run_query *q)
{
	if (q->sort) {
		build_sorted(b, q);
		return;
	}
	str_add(&b->sql, "SELECT " RUN_COLUMNS " FROM run");
	add_filters(b, q);
	str_add(&b->sql, (q->since_ns || q->until_ns) && !q->paged ? " ORDER BY run.started_ns DESC, run.rowid_ DESC" : " ORDER BY run.rowid_ DESC");
}

static void bind_all(sqlite3_stmt *s, const struct builder *b)
{
	for (int i = 0; i < b->n; i++) {
		if (b->binds[i].kind == BIND_TEXT)
			bind_text(s, i + 1, b->binds[i].text);
		else if (b->binds[i].kind == BIND_INT)
			sqlite3_bind_int64(s, i + 1, b->binds[i].number);
		else
			sqlite3_bind_double(s, i + 1, b->binds[i].real);
	}
}

static bool has_row(const struct run_row *v, size_t n, int64_t rowid)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].rowid == rowid)
			return true;
	return false;
}

int record_query_runs(struct db *db, const struct run_query *q, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err)
{
	struct builder b = { .db = db };
	VEC(struct run_row) out = { 0 };
	sqlite3_stmt *s;
	int r;

	if (q->n_params > RUN_CONDITIONS_MAX || q->n_metrics > RUN_CONDITIONS_MAX)
		return err_set(err, ERR_USAGE, "at most %d conditions of a kind", RUN_CONDITIONS_MAX);
	build(&b, q);
	r = sqlite3_prepare_v2(db->sql, b.sql.s, -1, &s, NULL);
	str_deinit(&b.sql);
	if (r != SQLITE_OK)
		return db_fail(db, err, "cannot ask");
	bind_all(s, &b);
	while ((!q->limit || out.n < q->limit) && (r = db_step(db, s, err)) > 0) {
		if (!q->sort || !has_row(out.v, out.n, sqlite3_column_int64(s, 0)))
			read_run_row(s, arena, VEC_ADD(&out));
	}
	sqlite3_finalize(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r < 0 ? -1 : 0;
}
