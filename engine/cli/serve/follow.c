/* engine/cli/serve/follow.c — `cairn status`, `logs` and `cancel` with --server.
 *
 * Each command turns its options into requests of the API and prints the answers as its local
 * counterpart does. find_run() turns a name such as `last` into an id first, so that all requests
 * of a command mean the same run.
 *
 * `logs` without operands chooses the tasks here, from the list of attempts; the server cuts and
 * streams each log. `cancel` is sent once and never repeated.
 *
 * Invariant: what a server sends is hostile: cli_text() for text, ATTEMPTS_MAX for lists,
 * cli_print_log() for logs.
 */
#include <string.h>
#include "cli/serve/server.h"

/* A million tasks with a few tries each. A server that never ends its list must not fill our
 * memory. */
#define ATTEMPTS_MAX 4000000

static void add_run(struct str *path, const char *run)
{
	str_add(path, "/api/v1/runs/");
	http_escape(path, run, strlen(run), false);
}

/* All pages of its attempts, a new array. */
static int read_attempts(struct server *s, const char *run, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *all = json_array();
	_cleanup_(str_deinit) struct str next = { 0 };

	do {
		_cleanup_(str_deinit) struct str path = { 0 };
		_cleanup_(json_decrefp) json_t *page = NULL;
		const char *cursor;
		json_t *list;

		add_run(&path, run);
		str_add(&path, "/attempts?limit=500");
		if (next.len) {
			str_add(&path, "&cursor=");
			http_escape(&path, next.s, next.len, false);
		}
		if (server_ask(s, "GET", path.s, NULL, true, &page, err) < 0 ||
		    json_get_array(page, "attempts", &list, err) < 0 ||
		    json_get_str_opt(page, "next", NULL, &cursor, err) < 0 ||
		    server_next_page(s, cursor, &next, err) < 0)
			return -1;
		json_array_extend(all, list);
		if (cursor && json_array_size(all) >= ATTEMPTS_MAX)
			return err_set(err, ERR_TOO_LARGE, "%s: run %s has more than %d attempts",
				       s->url, run, ATTEMPTS_MAX);
	} while (next.len);
	*ret = json_incref(all);
	return 0;
}

/* The run that `name` means now. Another one may be the last before the next request. */
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
	_cleanup_(json_decrefp) json_t *run = NULL, *attempts = NULL;
	struct server s = { 0 };
	json_t *exports;
	const char *id;
	int r = server_open(cli, args, &s, err);

	if (r == 0)
		r = find_run(&s, name, &run, &id, err);
	if (r == 0)
		r = read_attempts(&s, id, &attempts, err);
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

		if (task &&
		    (!state || str_eq(json_string_value(json_object_get(a, "state")), state)) &&
		    !is_known(out, task))
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
			       json_array_size(all) ? "run %s has %zu tasks so far: name one "
						      "(`cairn status --server` lists them)"
						    : "run %s has no tasks yet",
			       run, json_array_size(all));
	return 0;
}

struct wanted {
	const char *run;
	struct log_wanted part;
	uint64_t attempt; /* 0: the last */
	bool follow, headed;
};

static int print_log(struct cli *cli, struct server *s, const struct wanted *w, const char *task,
		     struct err *err)
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
	struct wanted w = { .run = cli_value(args, "run") ? cli_value(args, "run") : "last",
			    .follow = cli_flag(args, "follow") };
	_cleanup_(json_decrefp) json_t *tasks = json_array(), *run = NULL;
	struct server s = { 0 };
	struct err err = { 0 };
	int r = server_logs_wanted(args, &w.part, &w.attempt, &err);

	for (size_t i = 0; i < args->n_operands; i++)
		json_array_append_new(tasks, json_string(args->operands[i]));
	if (r == 0)
		r = server_open(cli, args, &s, &err);
	if (r == 0)
		r = find_run(&s, w.run, &run, &w.run, &err);
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

/* Cancel. */

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
