/* `cairn status`, `logs` and `cancel` of a run that a server elsewhere has: --server. */
#include <string.h>
#include "cli/server.h"
#include "cli/table.h"

static void add_run(struct str *path, const char *run)
{
	str_add(path, "/api/v1/runs/");
	http_escape(path, run, strlen(run), false);
}

static const char *text_of(struct cli *cli, const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? cli_text(cli, s) : NULL;
}

static int64_t number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* All pages of its attempts, a new array. */
static int read_attempts(struct server *s, const char *run, json_t **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str next = { 0 };
	json_t *all = json_array();

	do {
		_cleanup_(str_deinit) struct str path = { 0 };
		_cleanup_(json_decrefp) json_t *page = NULL;
		const char *cursor;
		json_t *list;

		add_run(&path, run);
		str_add(&path, "/attempts?limit=500");
		if (next.len)
			str_addf(&path, "&cursor=%s", next.s);
		if (server_ask(s, "GET", path.s, NULL, true, &page, err) < 0 || json_get_array(page, "attempts", &list, err) < 0 ||
		    json_get_str_opt(page, "next", NULL, &cursor, err) < 0) {
			json_decref(all);
			return -1;
		}
		json_array_extend(all, list);
		str_reset(&next);
		if (cursor && strspn(cursor, "0123456789") == strlen(cursor))
			str_add(&next, cursor);
	} while (next.len && json_array_size(all) < 1000000);
	*ret = all;
	return 0;
}

/* --- status ------------------------------------------------------------------------------------------------------------------ */

static enum cli_style style_of(const char *state)
{
	return str_eq(state, "succeeded") ? STYLE_GREEN : str_eq(state, "running") ? STYLE_BLUE : str_eq(state, "failed") || str_eq(state, "died") ? STYLE_RED : STYLE_YELLOW;
}

static void print_run(struct cli *cli, const json_t *run)
{
	const json_t *c = json_object_get(run, "counts");
	const char *state = text_of(cli, run, "state"), *hash = text_of(cli, run, "hash"), *message = text_of(cli, run, "message");

	cli_printf(cli, "%s%s%s %s%s%s, %s\n", cli_style(cli, STYLE_BOLD), text_of(cli, run, "id"), cli_style(cli, STYLE_PLAIN), cli_style(cli, style_of(state)), state,
		   cli_style(cli, STYLE_PLAIN), cli_duration(cli, number_of(run, "duration_ns")));
	if (hash)
		cli_printf(cli, "  run hash %.12s\n", hash + (str_has_prefix(hash, "sha256:") ? 7 : 0));
	if (number_of(c, "total"))
		cli_printf(cli, "  %lld tasks: %lld executed, %lld hits, %lld failed, %lld skipped, %lld blocked\n", (long long)number_of(c, "total"),
			   (long long)number_of(c, "executed"), (long long)number_of(c, "hits"), (long long)number_of(c, "failed"), (long long)number_of(c, "skipped"),
			   (long long)number_of(c, "blocked"));
	if (message)
		cli_printf(cli, "  %s\n", message);
	if (str_eq(state, "interrupted"))
		cli_printf(cli, "  it waits: the server goes on with it by itself\n");
}

static void print_attempts(struct cli *cli, const json_t *attempts)
{
	_cleanup_(table_freep) struct table *t = table_new();
	size_t i, done = 0;
	json_t *a;

	table_column(t, "", 0);
	table_column(t, "task", TABLE_CUT);
	table_column(t, "took", TABLE_RIGHT);
	table_column(t, "", TABLE_CUT);
	json_array_foreach(attempts, i, a) {
		const char *state = text_of(cli, a, "state"), *failure = text_of(cli, a, "failure"), *message = text_of(cli, a, "message"), *reason = text_of(cli, a, "reason");
		bool well = str_eq(state, "succeeded");

		done += well;
		if (well && cli->verbosity < 1)
			continue;
		table_cell(t, failure ? STYLE_RED : style_of(state), "%s", failure ? failure : state ? state : "?");
		table_cell(t, STYLE_PLAIN, "%s%s", text_of(cli, a, "task"), number_of(a, "attempt") > 1 ? " (again)" : "");
		table_cell(t, STYLE_PLAIN, "%s", cli_duration(cli, number_of(a, "duration_ns")));
		table_cell(t, STYLE_DIM, "%s", message ? message : reason ? reason : "");
	}
	cli_printf(cli, "  %zu attempts ended well\n", done);
	if (table_rows(t))
		table_print(t, cli);
}

int server_status(struct cli *cli, const struct cli_args *args)
{
	const char *name = cli_operand(args, 0) ? cli_operand(args, 0) : "last";
	_cleanup_(json_decrefp) json_t *run = NULL, *attempts = NULL;
	_cleanup_(str_deinit) struct str path = { 0 };
	struct server s;
	struct err err = { 0 };
	int r = server_open(cli, args, &s, &err);

	add_run(&path, name);
	if (r == 0)
		r = server_ask(&s, "GET", path.s, NULL, true, &run, &err);
	if (r == 0)
		r = read_attempts(&s, name, &attempts, &err);
	server_close(&s);
	if (r < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, json_pack("{s:O, s:O, s:[]}", "run", run, "tasks", attempts, "exports"));
	} else {
		print_run(cli, run);
		print_attempts(cli, attempts);
	}
	return CLI_OK;
}

/* --- logs ---------------------------------------------------------------------------------------------------------------------- */

static bool is_known(const json_t *tasks, const char *task)
{
	for (size_t i = 0; i < json_array_size(tasks); i++)
		if (str_eq(json_string_value(json_array_get(tasks, i)), task))
			return true;
	return false;
}

/* Those of the state (NULL: any), each once: a new array. */
static json_t *tasks_in(const json_t *attempts, const char *state)
{
	json_t *out = json_array();

	for (size_t i = 0; i < json_array_size(attempts); i++) {
		const json_t *a = json_array_get(attempts, i);
		const char *task = json_string_value(json_object_get(a, "task"));

		if (task && (!state || str_eq(json_string_value(json_object_get(a, "state")), state)) && !is_known(out, task))
			json_array_append_new(out, json_string(task));
	}
	return out;
}

/* As `cairn logs` does: what runs (-f) or failed, or the only one that there is. */
static int choose(struct server *s, const char *run, bool follow, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *attempts = NULL, *some = NULL, *all = NULL;

	if (read_attempts(s, run, &attempts, err) < 0)
		return -1;
	some = tasks_in(attempts, follow ? "running" : "failed");
	all = tasks_in(attempts, NULL);
	if (json_array_size(some) && (!follow || json_array_size(some) == 1))
		*ret = json_incref(some);
	else if (json_array_size(all) == 1)
		*ret = json_incref(all);
	else
		return err_set(err, ERR_INVALID,
			       json_array_size(all) ? "run %s has %zu tasks so far: name one (`cairn status --server` lists them)" : "run %s has no tasks yet", run,
			       json_array_size(all));
	return 0;
}

struct wanted {
	const char *run;
	struct log_wanted part;
	uint64_t attempt; /* 0: the last */
	bool follow, headed;
};

static int print_log(struct cli *cli, struct server *s, const struct wanted *w, const char *task, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };

	add_run(&path, w->run);
	str_add(&path, "/log?task=");
	http_escape(&path, task, strlen(task), false);
	if (w->attempt)
		str_addf(&path, "&attempt=%llu", (unsigned long long)w->attempt);
	if (w->part.lines)
		str_addf(&path, "&lines=%llu", (unsigned long long)w->part.lines);
	if (w->part.of_rank)
		str_addf(&path, "&rank=%u", w->part.rank);
	if (w->follow)
		str_add(&path, "&follow=true");
	if (w->headed)
		cli_printf(cli, "==> %s <==\n", cli_text(cli, task));
	return server_stream(s, cli, path.s, err);
}

int server_logs(struct cli *cli, const struct cli_args *args)
{
	struct wanted w = { .run = cli_value(args, "run") ? cli_value(args, "run") : "last", .follow = cli_flag(args, "follow") };
	_cleanup_(json_decrefp) json_t *tasks = json_array();
	struct server s = { 0 };
	struct err err = { 0 };
	int r = logs_wanted(args, &w.part, &w.attempt, &err);

	for (size_t i = 0; i < args->n_operands; i++)
		json_array_append_new(tasks, json_string(args->operands[i]));
	if (r == 0)
		r = server_open(cli, args, &s, &err);
	if (r == 0 && args->n_operands == 0) {
		json_decref(tasks);
		tasks = NULL;
		r = choose(&s, w.run, w.follow, &tasks, &err);
	}
	w.headed = json_array_size(tasks) > 1;
	for (size_t i = 0; r == 0 && i < json_array_size(tasks); i++)
		r = print_log(cli, &s, &w, json_string_value(json_array_get(tasks, i)), &err);
	server_close(&s);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

/* --- cancel ---------------------------------------------------------------------------------------------------------------------- */

int server_cancel(struct cli *cli, const struct cli_args *args)
{
	json_t *body, *done = json_array();
	struct server s = { 0 };
	struct err err = { 0 };
	int r;

	if (args->n_operands == 0) {
		json_decref(done);
		return cli_usage_error(cli, "which run? With --server it must be named");
	}
	body = json_pack("{s:b}", "now", cli_flag(args, "now"));
	r = server_open(cli, args, &s, &err);
	for (size_t i = 0; r == 0 && i < args->n_operands; i++) {
		_cleanup_(str_deinit) struct str path = { 0 };
		_cleanup_(json_decrefp) json_t *answer = NULL;

		add_run(&path, args->operands[i]);
		str_add(&path, "/cancel");
		r = server_ask(&s, "POST", path.s, body, false, &answer, &err);
		if (r < 0)
			break;
		json_array_append_new(done, json_string(args->operands[i]));
		if (!cli->json)
			cli_printf(cli, "%s: asked to stop\n", args->operands[i]);
	}
	server_close(&s);
	json_decref(body);
	if (r == 0 && cli->json)
		cli_print_json(cli, json_pack("{s:O}", "cancelled", done));
	json_decref(done);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
