/* engine/cli/serve/follow.c — `cairn status`, `logs` and `cancel` with --server.
 *
 * Each command turns its options into requests of the API and prints the answers as its local
 * counterpart does. find_run() first turns a name such as `last` into an id, so that all requests
 * of a command concern the same run.
 *
 * `logs` lists what has a log and lets logs_choose() decide, as without a server; the server cuts
 * and streams each log. `cancel` is sent once and never repeated.
 *
 * Invariant: data from a server may be hostile: cli_text() for text, LIST_MAX for lists,
 * cli_print_log() for logs.
 */
#include <string.h>
#include "cli/cli.h"
#include "cli/past/past.h"
#include "cli/serve/server.h"
#include "record/facts.h"

/* Enough for a million tasks with a few tries each. A server that never ends its list must not fill
 * our memory. */
#define LIST_MAX 4000000

static void add_run(struct str *path, const char *run)
{
	str_add(path, "/api/v1/runs/");
	http_escape(path, run, strlen(run), false);
}

struct list_query {
	const char *run, *list;     /* "attempts", "tasks" */
	const char *filter, *value; /* only entries where this parameter is `value`; or NULL */
};

/* Adds all pages of a run's list to `all`. */
static int read_list(struct server *s, const struct list_query *q, json_t *all, struct err *err)
{
	_cleanup_(str_deinit) struct str next = { 0 };

	do {
		_cleanup_(str_deinit) struct str path = { 0 };
		_cleanup_(json_decrefp) json_t *page = NULL;
		const char *cursor;
		json_t *some;

		add_run(&path, q->run);
		str_addf(&path, "/%s?limit=500", q->list);
		server_add_param(&path, q->filter, q->value);
		server_add_param(&path, "cursor", next.len ? next.s : NULL);
		if (server_ask(s, "GET", path.s, NULL, true, &page, err) < 0 ||
		    json_get_array(page, q->list, &some, err) < 0 ||
		    json_get_str_opt(page, "next", NULL, &cursor, err) < 0 ||
		    server_next_page(s, cursor, &next, err) < 0)
			return -1;
		json_array_extend(all, some);
		if (cursor && json_array_size(all) >= LIST_MAX)
			return err_set(err, ERR_TOO_LARGE, "%s: run %s has more than %d %s", s->url,
				       q->run, LIST_MAX, q->list);
	} while (next.len);
	return 0;
}

/* The run that `name` means now: for the next request, `last` may be another one. */
static int find_run(struct server *s, const char *name, json_t **ret, const char **ret_id,
		    struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	_cleanup_(json_decrefp) json_t *run = NULL;

	add_run(&path, name);
	if (server_ask(s, "GET", path.s, NULL, true, &run, err) < 0 ||
	    json_get_str(run, "id", ret_id, err) < 0)
		return -1;
	*ret = json_incref(run);
	return 0;
}

/* Status. */

int server_status(struct cli *cli, const struct cli_args *args, json_t **ret, const char **ret_next,
		  struct err *err)
{
	const char *name = cli_operand(args, 0) ? cli_operand(args, 0) : "last";
	_cleanup_(json_decrefp) json_t *run = NULL, *attempts = json_array();
	struct server s = { 0 };
	json_t *exports;
	const char *id;
	int r = server_open(cli, args, &s, err);

	if (r == 0)
		r = find_run(&s, name, &run, &id, err);
	if (r == 0)
		r = read_list(&s, &(struct list_query){ id, "attempts" }, attempts, err);
	server_close(&s);
	if (r < 0)
		return -1;
	exports = json_incref(json_object_get(run, "exports"));
	json_object_del(run, "exports");
	*ret = json_pack("{s:O, s:O, s:o}", "run", run, "tasks", attempts, "exports",
			 exports ? exports : json_array());
	*ret_next = str_eq(json_string_value(json_object_get(run, "state")), "interrupted")
			    ? "it waits: the server goes on with it by itself"
			    : NULL;
	return 0;
}

/* Logs. */

/* Lists all logs, or those that the operands name: hits into `tasks`, then attempts. */
static int read_logged(struct server *s, const char *run, const struct cli_args *args, bool hits,
		       json_t *tasks, json_t *attempts, struct err *err)
{
	if (args->n_operands == 0)
		return read_list(s, &(struct list_query){ run, "attempts" }, attempts, err);
	for (size_t i = 0; i < args->n_operands; i++) {
		const char *name = args->operands[i];
		const struct list_query task = { run, "tasks", "task", name },
					step = { run, "tasks", "step", name },
					tries = { run, "attempts", "task", name };

		if ((hits && (read_list(s, &task, tasks, err) < 0 ||
			      read_list(s, &step, tasks, err) < 0)) ||
		    read_list(s, &tries, attempts, err) < 0)
			return -1;
	}
	return 0;
}

static void add_logged(logged_list *all, const json_t *list, bool attempts)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		struct logged l = { .task = json_string_value(json_object_get(o, "task")),
				    .step = json_string_value(json_object_get(o, "step")) };
		const char *state = json_string_value(json_object_get(o, "state")),
			   *failure = json_string_value(json_object_get(o, "failure"));

		if (attempts) {
			l.attempt = (uint64_t)MAX(cli_member_int(o, "attempt"), 1);
			l.running = str_eq(state, "running");
			l.unfinished = !str_eq(state, "succeeded") && !str_eq(failure, "cancelled");
		}
		if (l.task && (attempts || str_eq(state, "executed") || str_eq(state, "hit")))
			VEC_PUSH(all, l);
	}
}

static int print_log(struct cli *cli, struct server *s, const char *run,
		     const struct logs_options *o, const char *task, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };

	add_run(&path, run);
	str_add(&path, "/log");
	server_add_param(&path, "task", task);
	if (o->attempt)
		str_addf(&path, "&attempt=%llu", (unsigned long long)o->attempt);
	if (o->part.lines)
		str_addf(&path, "&lines=%llu", (unsigned long long)o->part.lines);
	if (o->part.of_rank)
		str_addf(&path, "&rank=%u", o->part.rank);
	if (o->follow)
		str_add(&path, "&follow=true");
	return server_stream(s, cli, path.s, err);
}

int server_logs(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(json_decrefp) json_t *tasks = json_array(), *attempts = json_array(), *run = NULL;
	const char *id = cli_value(args, "run") ? cli_value(args, "run") : "last";
	struct logs_options o;
	struct server s = { 0 };
	logged_list logs = { 0 };
	struct err err = { 0 };
	int r = logs_options(args, &o, &err), code = CLI_OK;
	bool together;

	if (r == 0)
		r = server_open(cli, args, &s, &err);
	if (r == 0)
		r = find_run(&s, id, &run, &id, &err);
	if (r == 0)
		r = read_logged(&s, id, args, !o.attempt, tasks, attempts, &err);
	if (r == 0) {
		add_logged(&logs, tasks, false);
		add_logged(&logs, attempts, true);
		r = logs_choose(args, o.attempt, id, &logs, &err);
	}
	together = r == 0 && logs_are_followed(&o, &logs);
	for (size_t i = 0; r == 0 && i < logs.n; i++) {
		if (together && logs.v[i].running)
			continue;
		if (logs.n > 1)
			logs_print_head(cli, &logs.v[i]);
		r = print_log(cli, &s, id, &o, logs.v[i].task, &err);
	}
	if (r == 0 && together)
		code = logs_follow(cli, args, id, &logs, NULL);
	VEC_FREE(&logs);
	server_close(&s);
	return r < 0 ? cli_fail(cli, &err) : code;
}

/* Cancel. */

int server_cancel(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(json_decrefp) json_t *body = json_pack("{s:b}", "now", cli_flag(args, "now")),
				       *done = json_array();
	struct server s = { 0 };
	struct err err = { 0 };
	int r;

	if (args->n_operands == 0)
		return cli_usage_error(cli, "name the run: --server needs it");
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
	if (r == 0 && cli->json)
		cli_print_json(cli, "cairn.cancel/1", json_pack("{s:O}", "cancelled", done));
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

/* Approve. */

int server_approve(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(json_decrefp) json_t *body = json_pack(
		"{s:o, s:b, s:o}", "task", facts_text(args->operands[1]), "approve",
		!cli_flag(args, "refuse"), "message", facts_text(cli_value(args, "message")));
	_cleanup_(json_decrefp) json_t *answer = NULL;
	_cleanup_(str_deinit) struct str path = { 0 };
	struct server s = { 0 };
	struct err err = { 0 };
	int r = server_open(cli, args, &s, &err);

	if (!cli_value(args, "message"))
		json_object_del(body, "message");
	add_run(&path, args->operands[0]);
	str_add(&path, "/approve");
	if (r == 0)
		r = server_ask(&s, "POST", path.s, body, false, &answer, &err);
	server_close(&s);
	if (r < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		cli_print_json(cli, "cairn.approve/1", json_incref(answer));
	else
		cli_printf(cli, "%s of %s: %s\n", cli_text(cli, args->operands[1]),
			   cli_text(cli, args->operands[0]),
			   cli_flag(args, "refuse") ? "refused" : "approved");
	return CLI_OK;
}
