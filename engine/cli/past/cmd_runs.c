/* engine/cli/past/cmd_runs.c — `cairn runs`: the options become one query, the rows a table.
 *
 * The options are parsed into a struct run_query (record/run_query.h) for the database; with
 * --server serve/runs.c asks a server. Both return the same JSON, which --json prints and from
 * which the table is made.
 *
 * `died` is no state of the database, where such a run is still running. So read_runs() reads all
 * rows in that state, looks at each process, and applies the limit afterwards.
 *
 * Invariant: everything is read in one snapshot of the database, which ends before anything is
 * printed.
 */
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/cli.h"
#include "cli/past/past.h"
#include "cli/render/table.h"
#include "cli/serve/server.h"
#include "record/facts.h"
#include "record/rows/tags.h"
#include "record/run_query.h"

/* The parsed query. */

int runs_parse_when(const char *option, const char *text, int64_t *ret, struct err *err)
{
	int64_t ago;

	if (!text)
		return 0;
	if (text_parse_duration(text, &ago, NULL) == 0) {
		*ret = MAX(clock_wall_ns() - ago, 1);
		return 0;
	}
	if (text_parse_time(text, ret, NULL) == 0 && *ret > 0)
		return 0;
	return err_set(err, ERR_USAGE,
		       "--%s needs a duration such as 2d, a date such as 2025-03-01, or a time "
		       "such as 2025-03-01T12:00Z, not `%s`",
		       option, text);
}

static int parse_conditions(struct cli *cli, const struct cli_args *args, const char *option,
			    const struct run_condition **ret, size_t *ret_n, struct err *err)
{
	size_t n = cli_count(args, option);
	struct run_condition *v = arena_alloc(cli->arena, (n + 1) * sizeof(*v));

	for (size_t i = 0; i < n; i++)
		if (run_condition_parse(cli_value_at(args, option, (unsigned)i), cli->arena, &v[i],
					err) < 0)
			return err_wrap(err, "--%s", option);
	for (size_t i = 0; i < n; i++)
		if (str_eq(option, "metric") && !v[i].is_number)
			return err_set(
				err, ERR_USAGE,
				"--metric `%s`: a metric is compared with a number, not `%s`",
				v[i].name, v[i].text);
	*ret = v;
	*ret_n = n;
	return 0;
}

static int parse(struct cli *cli, const struct cli_args *args, struct run_query *q, struct err *err)
{
	const char *sort = cli_value(args, "sort"), *state = cli_value(args, "state"),
		   *commit = cli_value(args, "commit");

	*q = (struct run_query){
		.pipeline = cli_value(args, "pipeline"),
		.schedule = cli_value(args, "schedule"),
		.sweep = cli_value(args, "sweep"),
		.tag = cli_value(args, "tag"),
		.commit = commit,
		.has_state = state != NULL,
		.state = RUN_RUNNING, /* in the database, a run that "died" also has this state */
		.limit = 20
	};
	for (int s = RUN_RUNNING; state && s <= RUN_INTERRUPTED; s++)
		if (str_eq(state, run_state_name((enum run_state)s)))
			q->state = (enum run_state)s;
	if (sort) {
		q->largest_first = *sort == '-';
		q->sort = sort + q->largest_first;
	}
	if (commit && (strlen(commit) < 4 || strspn(commit, "0123456789abcdef") != strlen(commit)))
		return err_set(err, ERR_USAGE,
			       "--commit needs at least four hex digits of a commit, not `%s`",
			       commit);
	if (cli_uint(args, "limit", 0, UINT32_MAX, &q->limit, err) < 0 ||
	    runs_parse_when("since", cli_value(args, "since"), &q->since_ns, err) < 0 ||
	    runs_parse_when("until", cli_value(args, "until"), &q->until_ns, err) < 0)
		return -1;
	if (parse_conditions(cli, args, "param", &q->params, &q->n_params, err) < 0)
		return -1;
	return parse_conditions(cli, args, "metric", &q->metrics, &q->n_metrics, err);
}

/* The metrics that --sort and --metric name, each once. The largest value counts where the largest
 * come first. */
static int add_metrics(struct db *db, const struct run_query *q, const struct run_row *run,
		       json_t *o, struct err *err)
{
	json_t *metrics = json_object();
	double v;

	json_object_set_new(o, "metrics", metrics);
	for (size_t i = 0; i <= q->n_metrics; i++) {
		const char *name = i ? q->metrics[i - 1].name : q->sort;
		bool largest = i ? q->metrics[i - 1].op >= COMPARE_GT : q->largest_first;
		int r = name && !json_object_get(metrics, name)
				? record_run_metric(db, run, name, largest, &v, err)
				: 0;

		if (r < 0)
			return -1;
		if (r > 0)
			json_object_set_new(metrics, name, facts_number(v));
	}
	return 0;
}

/* Columns: metrics of the question; params of the question, and with --sweep those in which the
 * trials differ. */
struct shown {
	VEC(const char *) params;
	VEC(const char *) metrics;
};

static void show(struct cli *cli, const json_t *of, const char *member, const json_t *runs,
		 bool all, struct shown *ret)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)of, name, v)
	{
		bool differs = all;

		for (size_t i = 0; i < json_array_size(runs) && !differs; i++)
			differs = !json_equal(
				v, json_object_get(json_object_get(json_array_get(runs, i), member),
						   name));
		if (differs && str_eq(member, "params"))
			VEC_PUSH(&ret->params, arena_strdup(cli->arena, name));
		else if (differs)
			VEC_PUSH(&ret->metrics, arena_strdup(cli->arena, name));
	}
}

static void choose_shown(struct cli *cli, const struct cli_args *args, const json_t *runs,
			 struct shown *ret)
{
	json_t *metrics = json_object(), *asked = json_object();

	for (size_t i = 0; i < json_array_size(runs); i++)
		json_object_update(metrics, json_object_get(json_array_get(runs, i), "metrics"));
	show(cli, metrics, "metrics", runs, true, ret);
	for (unsigned i = 0; i < cli_count(args, "param"); i++) {
		const char *text = cli_value_at(args, "param", i);

		json_object_set_new(asked, arena_strndup(cli->arena, text, strcspn(text, "<>=!")),
				    json_null());
	}
	show(cli, asked, "params", runs, true, ret);
	if (cli_value(args, "sweep") && cli_count(args, "param") == 0 && json_array_size(runs))
		show(cli, json_object_get(json_array_get(runs, 0), "params"), "params", runs, false,
		     ret);
	json_decref(metrics);
	json_decref(asked);
}

static void add_value(struct table *t, enum cli_style style, const json_t *v)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_add(&s, "");
	if (json_is_string(v))
		str_add(&s, json_string_value(v));
	else if (json_is_real(v))
		str_addf(&s, "%.6g", json_real_value(v));
	else if (v && !json_is_null(v))
		json_add_canonical(&s, v);
	table_cell(t, style, "%s", s.s);
}

static void add_row(struct table *t, struct cli *cli, const json_t *run, const struct shown *shown)
{
	const json_t *counts = json_object_get(run, "counts");
	const char *id = cli_member(cli, run, "id"), *hash = cli_member(cli, run, "hash"),
		   *state = cli_member(cli, run, "state"),
		   *message = cli_member(cli, run, "message"),
		   *waiting = cli_member(cli, run, "waiting"),
		   *started = json_string_value(json_object_get(run, "started"));
	int64_t took_ns = cli_member_int(run, "duration_ns"), started_ns;
	const json_t *tags = json_object_get(run, "tags");
	_cleanup_(str_deinit) struct str names = { 0 }; /* "fashion/best, v2" */
	const char *reproduces = cli_member(cli, run, "reproduces");
	const json_t *trial = json_object_get(run, "trial");

	if (reproduces)
		str_addf(&names, "reproduces %s", cli_short_hash(cli, reproduces));
	if (json_is_object(trial))
		str_addf(&names, "%s, trial %lld", cli_member(cli, trial, "sweep"),
			 (long long)cli_member_int(trial, "number"));
	if (cli_cause(cli, run))
		str_addf(&names, "%s%s", names.len ? ", " : "", cli_cause(cli, run));
	for (size_t i = 0; i < json_array_size(tags); i++) {
		const char *tag = json_string_value(json_array_get(tags, i));

		str_addf(&names, "%s%s", names.len ? ", " : "", tag ? cli_text(cli, tag) : "");
	}
	table_cell(t, STYLE_BOLD, "%s", id ? id : "?");
	table_cell(t, STYLE_DIM, "%s", hash ? cli_short_hash(cli, hash) : "");
	table_cell(t, cli_state_style(state), "%s", state ? state : "?");
	table_cell(t, STYLE_PLAIN, "%s",
		   started && text_parse_time(started, &started_ns, NULL) == 0
			   ? cli_ago(cli, started_ns)
			   : "");
	table_cell(t, STYLE_PLAIN, "%s", took_ns ? cli_duration(cli, took_ns) : "");
	table_cell(t, STYLE_PLAIN, "%lld", (long long)cli_member_int(counts, "executed"));
	table_cell(t, STYLE_PLAIN, "%lld", (long long)cli_member_int(counts, "hits"));
	for (size_t i = 0; i < shown->params.n; i++)
		add_value(t, STYLE_CYAN,
			  json_object_get(json_object_get(run, "params"), shown->params.v[i]));
	for (size_t i = 0; i < shown->metrics.n; i++)
		add_value(t, STYLE_PLAIN,
			  json_object_get(json_object_get(run, "metrics"), shown->metrics.v[i]));
	if (waiting)
		str_addf(&names, "%s%s", names.len ? ", " : "", waiting);
	table_cell(t, message ? STYLE_RED : STYLE_CYAN, "%s%s%s", names.len ? names.s : "",
		   names.len && message ? ": " : "", message ? message : "");
}

/* Reads everything before anything is printed: a pager that waits must not keep a snapshot open. */
static int read_runs(struct cli *cli, const struct cli_args *args, json_t **ret,
		     struct nondeterminism_row **ret_odd, size_t *ret_n_odd, struct err *err)
{
	const char *state = cli_value(args, "state");
	uint64_t limit;
	struct run_query q;
	struct run_row *rows;
	struct db *db;
	json_t *runs;
	size_t n;
	int r;

	if (server_unused(args, err) < 0 || parse(cli, args, &q, err) < 0 ||
	    cli_db(cli, DB_READ, &db, err) < 0)
		return -1;
	db_snapshot(db);
	/* No query can tell whether an engine lives, so all runs in this state are checked; there
	 * are never many. */
	limit = q.limit;
	if (q.has_state && q.state == RUN_RUNNING)
		q.limit = 0;
	r = record_query_runs(db, &q, cli->arena, &rows, &n, err);
	if (r == 0 && record_nondeterminism(db, cli->arena, ret_odd, ret_n_odd, NULL) < 0)
		*ret_n_odd = 0;
	runs = json_array();
	for (size_t i = 0; r == 0 && i < n && (!limit || json_array_size(runs) < limit); i++)
		if (!state || str_eq(facts_state(&rows[i]), state)) {
			json_t *o = facts_named_run(db, &rows[i], cli->arena);

			json_array_append_new(runs, o);
			if (q.sort || q.n_metrics)
				r = add_metrics(db, &q, &rows[i], o, err);
		}
	db_snapshot_end(db);
	*ret = runs;
	return r;
}

int cmd_runs(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(json_decrefp) json_t *runs = NULL;
	static const char *const left[] = { "run", "hash", "state", "started" }, *const right[] = {
		"took", "executed", "hits"
	};
	_cleanup_(table_freep) struct table *t = table_new();
	struct nondeterminism_row *odd = NULL;
	struct shown shown = { 0 };
	struct err err = { 0 };
	size_t n_odd = 0;

	if (cli_flag(args, "server") ? server_runs(cli, args, &runs, &err) < 0
				     : read_runs(cli, args, &runs, &odd, &n_odd, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, "cairn.runs/1", json_pack("{s:O}", "runs", runs));
		return CLI_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(left); i++)
		table_column(t, left[i], 0);
	for (size_t i = 0; i < ARRAY_LEN(right); i++)
		table_column(t, right[i], TABLE_RIGHT);
	choose_shown(cli, args, runs, &shown);
	for (size_t i = 0; i < shown.params.n; i++)
		table_column(t, cli_text(cli, shown.params.v[i]), 0);
	for (size_t i = 0; i < shown.metrics.n; i++)
		table_column(t, cli_text(cli, shown.metrics.v[i]), TABLE_RIGHT);
	table_column(t, "", TABLE_CUT);
	for (size_t i = 0; i < json_array_size(runs); i++)
		add_row(t, cli, json_array_get(runs, i), &shown);
	table_print(t, cli);
	VEC_FREE(&shown.params);
	VEC_FREE(&shown.metrics);
	for (size_t i = 0; i < n_odd; i++)
		cli_printf(cli,
			   "%snondeterministic%s: %s gave %llu different results under one key\n",
			   cli_style(cli, STYLE_YELLOW), cli_style(cli, STYLE_PLAIN),
			   cli_text(cli, odd[i].task), (unsigned long long)odd[i].n_results);
	return CLI_OK;
}
