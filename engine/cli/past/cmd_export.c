/* engine/cli/past/cmd_export.c — `cairn export`: a run as OpenLineage, SLSA or RO-Crate.
 *
 * Finds the run or output, opens it with export_open(), and lets record/export/ write the format.
 * This file decides only where it goes: standard output, a file (atomically), a new directory, or a
 * URL.
 *
 * OpenLineage events are sent one by one, in their order, and the first that is refused ends it.
 * There is no retry: sending again is safe, since the same run gives the same events.
 */
#include "base/net/http.h"
#include "base/os/fs.h"
#include "cli/what.h"
#include "record/export/export.h"

#define ANSWER_MAX (1 * MIB)
#define POST_NS    (30 * NS_PER_S)

static bool is_url(const char *to)
{
	return str_has_prefix(to, "http://") || str_has_prefix(to, "https://");
}

static int post(struct http_client *c, const char *url, const char *const *headers,
		const json_t *event, struct err *err)
{
	_cleanup_(str_deinit) struct str body = { 0 };
	struct http_request r = { .method = "POST",
				  .url = url,
				  .headers = headers,
				  .body_fd = -1,
				  .max_bytes = ANSWER_MAX,
				  .timeout_ns = POST_NS };
	int result;

	json_add_canonical(&body, event);
	r.body = body.s;
	r.body_len = body.len;
	result = http_do(c, &r, err);
	if (result == 0 && (r.reply.status < 200 || r.reply.status > 299))
		result = err_set(err, ERR_IO, "%s answers %ld: %.200s", url, r.reply.status,
				 r.reply.body.s ? r.reply.body.s : "");
	http_request_deinit(&r);
	return result;
}

/* OpenLineage's clients read OPENLINEAGE_API_KEY, too. */
static int post_all(struct cli *cli, const char *url, const json_t *events, struct err *err)
{
	const char *key = getenv("OPENLINEAGE_API_KEY");
	const char *headers[] = {
		"Content-Type: application/json",
		key && *key ? arena_printf(cli->arena, "Authorization: Bearer %s", key) : NULL, NULL
	};
	struct http_client *c;
	json_t *event;
	size_t i;
	int r = 0;

	if (http_client_new(&(struct http_options){ 0 }, &c, err) < 0)
		return -1;
	json_array_foreach(events, i, event) if (r == 0) r = post(c, url, headers, event, err);
	http_client_free(c);
	return r;
}

static int openlineage(struct cli *cli, struct export_run *x, const struct cli_args *args,
		       const char *to, struct err *err)
{
	_cleanup_(str_deinit) struct str lines = { 0 };
	json_t *events, *event;
	size_t i;
	int r;

	if (export_openlineage(x, cli_value(args, "namespace"), &events, err) < 0)
		return -1;
	json_array_foreach(events, i, event)
	{
		json_add_canonical(&lines, event);
		str_addc(&lines, '\n');
	}
	r = is_url(to) ? post_all(cli, to, events, err) : cli_write_to(cli, to, &lines, err);
	if (r == 0 && !str_eq(to, "-"))
		cli_note(cli, "%zu events of %s to %s", json_array_size(events), x->run->id, to);
	json_decref(events);
	return r;
}

static int slsa(struct cli *cli, struct export_run *x, const struct what *w, const char *to,
		struct err *err)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	const struct facts_task *task = NULL;
	char *dumped;
	json_t *j;

	for (size_t i = 0; w->task && i < x->n_tasks; i++)
		if (str_eq(x->tasks[i].task, w->task->task))
			task = &x->tasks[i];
	if (export_slsa(x, task, w->kind == WHAT_CONTENT ? w->name : NULL, &j, err) < 0)
		return -1;
	dumped = json_dumps(j, JSON_INDENT(2) | JSON_SORT_KEYS);
	json_decref(j);
	str_addf(&s, "%s\n", dumped);
	free(dumped);
	return cli_write_to(cli, to, &s, err);
}

int cmd_export(struct cli *cli, const struct cli_args *args)
{
	const char *format = cli_value(args, "format"), *to = cli_value(args, "to"),
		   *text = cli_operand(args, 0), *crate = cli_new_dir(args, "to", cli->arena);
	struct export_run x = { 0 };
	struct err err = { 0 };
	struct store *store;
	struct what w;
	struct db *db;
	int r;

	if (!format)
		return cli_usage_error(cli, "name a format: --format openlineage|slsa|ro-crate");
	if (to && is_url(to) && !str_eq(format, "openlineage"))
		return cli_usage_error(cli, "only OpenLineage events can be sent to a URL");
	r = cli_db(cli, DB_READ, &db, &err);
	if (r == 0)
		r = cli_store(cli, false, &store, &err);
	if (r == 0)
		r = what_find(cli, db, text,
			      str_eq(format, "slsa") ? WHAT_RUN | WHAT_TASK | WHAT_CONTENT
						     : WHAT_RUN,
			      NULL, &w, &err);
	if (r == 0 && !w.has_run)
		r = err_set(&err, ERR_INVALID,
			    "name the output as RUN/TASK/OUTPUT: `%s` names only content, and an "
			    "export is about who made it",
			    text);
	if (r == 0)
		r = export_open(&x, db, store, &w.run, cli->arena, &err);
	if (r == 0 && str_eq(format, "openlineage"))
		r = openlineage(cli, &x, args, to ? to : "-", &err);
	else if (r == 0 && str_eq(format, "slsa"))
		r = slsa(cli, &x, &w, to ? to : "-", &err);
	else if (r == 0) {
		if (!crate)
			crate = arena_printf(cli->arena, "%s-crate", w.run.id);
		r = export_ro_crate(&x, crate, cli_value(args, "license"), &err);
		if (r == 0)
			cli_note(cli, "%s", crate);
	}
	export_close(&x);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
