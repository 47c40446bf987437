/* `cairn runs`. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/facts.h"
#include "cli/runs_table.h"
#include "cli/server.h"
#include "record/run_query.h"
#include "record/tags.h"

/* --- what is asked for ------------------------------------------------------------------------------------------------------- */

static void parse_state(const char *word, struct run_query *q)
{
	q->has_state = word != NULL;
	q->state = RUN_RUNNING; /* "died" too: what the database has of such a run */
	for (int s = RUN_RUNNING; word && s <= RUN_INTERRUPTED; s++)
		if (str_eq(word, run_state_name((enum run_state)s)))
			q->state = (enum run_state)s;
}

int runs_parse_when(const char *option, const char *text, int64_t *ret, struct err *err)
{
	struct clock *c = clock_system();
	int64_t ago;

	if (!text)
		return 0;
	if (text_parse_duration(text, &ago, NULL) == 0) {
		*ret = MAX(c->wall_ns(c) - ago, 1);
		return 0;
	}
	if (text_parse_time(text, ret, NULL) == 0 && *ret > 0)
		return 0;
	return err_set(err, ERR_USAGE, "--%s wants a duration such as 2d, a date such as 2025-03-01, or a time such as 2025-03-01T12:00Z, not `%s`", option, text);
}

static int parse_conditions(struct cli *cli, const struct cli_args *args, const char *option, const struct run_condition **ret, size_t *ret_n, struct err *err)
{
	size_t n = cli_count(args, option);
	struct run_condition *v = arena_alloc(cli->arena, (n + 1) * sizeof(*v));

	for (size_t i = 0; i < n; i++)
		if (run_condition_parse(cli_value_at(args, option, (unsigned)i), cli->arena, &v[i], err) < 0)
			return err_wrap(err, "--%s", option);
	*ret = v;
	*ret_n = n;
	return 0;
}

static int parse_commit(const char *text, const char **ret, struct err *err)
{
	*ret = text;
	if (text && (strlen(text) < 4 || strspn(text, "0123456789abcdef") != strlen(text)))
		return err_set(err, ERR_USAGE, "--commit wants at least four hex digits of a commit, not `%s`", text);
	return 0;
}

static int parse(struct cli *cli, const struct cli_args *args, struct run_query *q, struct err *err)
{
	const char *sort = cli_value(args, "sort");

	*q = (struct run_query){ .pipeline = cli_value(args, "pipeline"), .schedule = cli_value(args, "schedule"), .tag = cli_value(args, "tag"), .limit = 20 };
	parse_state(cli_value(args, "state"), q);
	if (sort) {
		q->largest_first = *sort == '-';
		q->sort = sort + q->largest_first;
	}
	if (cli_uint(args, "limit", 0, UINT32_MAX, &q->limit, err) < 0 || parse_commit(cli_value(args, "commit"), &q->commit, err) < 0 ||
	    runs_parse_when("since", cli_value(args, "since"), &q->since_ns, err) < 0 || runs_parse_when("until", cli_value(args, "until"), &q->until_ns, err) < 0)
		return -1;
	return parse_conditions(cli, args, "param", &q->params, &q->n_params, err) < 0 ||
			       parse_conditions(cli, args, "metric", &q->metrics, &q->n_metrics, err) < 0 ?
		       -1 :
		       0;
}

/* Whether an engine lives no query can tell: all that say they run are looked at, and there are never many. */
static int list(struct cli *cli, struct db *db, const char *state, struct run_query *q, struct run_row **ret, size_t *ret_n, struct err *err)
{
	uint64_t limit = q->limit;
	size_t n, kept = 0;

	if (q->has_state && q->state == RUN_RUNNING)
		q->limit = 0;
	if (record_query_runs(db, q, cli->arena, ret, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && (!limit || kept < limit); i++)
		if (!state || str_eq(facts_state(&(*ret)[i]), state))
			(*ret)[kept++] = (*ret)[i];
	*ret_n = kept;
	return 0;
}

/* --- showing ------------------------------------------------------------------------------------------------------------------ */

/* Names of the run, for people: "fashion/best, v2"; "" when it has none. */
static const char *names_of(struct cli *cli, struct db *db, const struct run_row *r)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct tag_row *tags;
	size_t n;

	if (!r->has_hash || record_tags(db, &r->hash, cli->arena, &tags, &n, NULL) < 0)
		return "";
	for (size_t i = 0; i < n; i++)
		str_addf(&text, "%s%s", i ? ", " : "", tags[i].name);
	return text.len ? arena_strndup(cli->arena, text.s, text.len) : "";
}

static struct table *make_table(struct cli *cli, struct db *db, const struct run_row *rows, size_t n)
{
	struct table *t = runs_table_new();

	for (size_t i = 0; i < n; i++) {
		const struct run_row *r = &rows[i];
		const struct runs_line line = { .id = r->id, .hash = r->has_hash ? cli_hash(cli, &r->hash) : "", .state = facts_state(r), .names = names_of(cli, db, r),
						.message = r->message, .started_ns = r->started_ns, .took_ns = r->ended_ns ? r->ended_ns - r->started_ns : 0,
						.executed = r->counts.executed, .hits = r->counts.hits };

		runs_table_add(t, cli, &line);
	}
	return t;
}

/* All is read before anything is printed: a pager that isn't read must hold nobody's database up. */
static void print_runs(struct cli *cli, struct db *db, const struct run_row *rows, size_t n)
{
	_cleanup_(table_freep) struct table *t = make_table(cli, db, rows, n);
	struct nondeterminism_row *odd;
	size_t n_odd = 0;

	if (record_nondeterminism(db, cli->arena, &odd, &n_odd, NULL) < 0)
		n_odd = 0;
	db_snapshot_end(db);
	table_print(t, cli);
	for (size_t i = 0; i < n_odd; i++)
		cli_printf(cli, "%snondeterministic%s: %s gave %llu different results under one key\n", cli_style(cli, STYLE_YELLOW), cli_style(cli, STYLE_PLAIN),
			   cli_text(cli, odd[i].task), (unsigned long long)odd[i].n_results);
}

static void print_json(struct cli *cli, struct db *db, const struct run_row *rows, size_t n)
{
	json_t *runs = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(runs, facts_named_run(db, &rows[i], cli->arena));
	db_snapshot_end(db);
	cli_print_json(cli, json_pack("{s:o}", "runs", runs));
}

int cmd_runs(struct cli *cli, const struct cli_args *args)
{
	struct run_query q;
	struct run_row *rows;
	struct err err = { 0 };
	struct db *db;
	size_t n;

	if (cli_flag(args, "server"))
		return server_runs(cli, args);
	if (server_unused(args, &err) < 0 || parse(cli, args, &q, &err) < 0 || cli_db(cli, DB_READ, &db, &err) < 0)
		return cli_fail(cli, &err);
	db_snapshot(db);
	if (list(cli, db, cli_value(args, "state"), &q, &rows, &n, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		print_json(cli, db, rows, n);
		return CLI_OK;
	}
	print_runs(cli, db, rows, n);
	return CLI_OK;
}
