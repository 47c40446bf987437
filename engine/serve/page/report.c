/* engine/serve/page/report.c — runs as one HTML file.
 *
 * The API's own handlers are asked, without a server: a daemon with one project and nothing that
 * listens. So a report shows what the page would show, whatever is added to either. The answers go
 * as JSON into the template that the build has made of the page (web/tools/report.mjs); the page
 * finds them there (web/src/report/answers.ts knows the shape).
 *
 * A report of one run has each task's facts and the end of its log, those of failed tasks first, up
 * to the limits of report.h; a report of several has what a comparison shows, confusion matrices
 * too. What is left out is counted, and the page says so.
 *
 * Invariant: `<` never occurs in the data, so that no text of others ends the element that holds
 * it.
 *
 * Threads: the caller's. Not here: what an answer has (api/), the command (cli/past/cmd_report.c).
 */
#include "serve/page/report.h"
#include <assert.h>
#include <string.h>
#include "record/facts.h"
#include "serve/api/content/content.h"
#include "serve/api/log.h"
#include "serve/internal.h"
#include "serve/page/page.h"

struct report {
	struct daemon d;
	struct arena *arena;
	struct err *err;
	struct report_cut cut;
	uint64_t log_bytes;
};

/* Up to two parameters. NULL: the API's problem is the error. */
static json_t *ask(struct report *r, const char *path, const char *name, const char *value,
		   const char *name2, const char *value2)
{
	struct web_exchange x = { .method = "GET", .path = path, .arena = arena_new() };
	json_t *answer = NULL;
	const char *detail;

	if (name && value)
		x.params[x.n_params++] = (struct web_param){ name, value };
	if (name2 && value2)
		x.params[x.n_params++] = (struct web_param){ name2, value2 };
	api_ask(&r->d, &x);
	if (json_parse(path, x.out.s ? x.out.s : "", x.out.len, &answer, r->err) < 0) {
		answer = NULL;
	} else if (x.status != 200) {
		err_set(r->err, x.status == 404 ? ERR_NOT_FOUND : ERR_INVALID, "%s",
			json_get_str(answer, "detail", &detail, NULL) == 0 ? detail : path);
		json_decref(answer);
		answer = NULL;
	}
	str_deinit(&x.out);
	arena_free(x.arena);
	return answer;
}

/* What may be missing: null then. */
static json_t *ask_maybe(struct report *r, const char *path, const char *name, const char *value,
			 const char *name2, const char *value2)
{
	json_t *answer = ask(r, path, name, value, name2, value2);

	*r->err = (struct err){ 0 };
	return answer ? answer : json_null();
}

static const char *path_of(struct report *r, const char *run, const char *what)
{
	return arena_printf(r->arena, "/api/v1/runs/%s%s%s", run, *what ? "/" : "", what);
}

/* All rows of tasks, in the order of the API. */
static json_t *all_tasks(struct report *r, const char *run)
{
	json_t *all = json_array();
	const char *cursor = NULL;
	size_t total = 0;

	do {
		json_t *page = ask(r, path_of(r, run, "tasks"), "limit", "500", "cursor", cursor);

		if (!page) {
			json_decref(all);
			return NULL;
		}
		json_array_extend(all, json_object_get(page, "tasks"));
		total = (size_t)json_integer_value(json_object_get(page, "total"));
		cursor = json_string_value(json_object_get(page, "next"));
		cursor = cursor ? arena_strdup(r->arena, cursor) : NULL;
		json_decref(page);
	} while (cursor && json_array_size(all) < REPORT_TASKS_MAX);
	r->cut.tasks += total > json_array_size(all) ? total - json_array_size(all) : 0;
	return all;
}

static void add_detail(struct report *r, const char *run, const char *task, json_t *details,
		       json_t *logs)
{
	const char *from = arena_printf(r->arena, "-%d", REPORT_LOG_MAX);
	json_t *log;

	json_object_set_new(details, task,
			    ask_maybe(r, path_of(r, run, "task"), "task", task, NULL, NULL));
	if (r->log_bytes >= REPORT_LOGS_MAX)
		return;
	log = ask_maybe(r, arena_printf(r->arena, "/api/v1/runs/%s/log/range", run), "task", task,
			"offset", from);
	if (json_is_object(log)) {
		r->log_bytes += json_string_length(json_object_get(log, "text"));
		json_object_set(logs, task, log);
	}
	json_decref(log);
}

/* Failed tasks first, then what was executed, then the rest. */
static int rank_of(const json_t *row)
{
	const char *state = json_string_value(json_object_get(row, "state"));

	return str_eq(state, "failed") ? 0 : str_eq(state, "executed") ? 1 : 2;
}

static void add_details(struct report *r, const char *run, const json_t *tasks, json_t *into)
{
	json_t *details = json_object(), *logs = json_object();
	size_t n = 0;

	for (int rank = 0; rank < 3; rank++)
		for (size_t i = 0; i < json_array_size(tasks); i++) {
			const json_t *row = json_array_get(tasks, i);

			if (rank_of(row) != rank)
				continue;
			if (n++ < REPORT_DETAILS_MAX)
				add_detail(r, run, json_string_value(json_object_get(row, "task")),
					   details, logs);
			else
				r->cut.details++;
		}
	json_object_set_new(into, "details", details);
	json_object_set_new(into, "logs", logs);
}

static int add_run(struct report *r, const char *run, bool whole, json_t *runs)
{
	json_t *facts = ask(r, path_of(r, run, ""), NULL, NULL, NULL, NULL), *o, *tasks;
	const char *id;

	if (!facts)
		return -1;
	o = json_object();
	json_object_set_new(o, "run", facts);
	id = json_string_value(json_object_get(facts, "id"));
	json_object_set_new(runs, id, o);
	tasks = all_tasks(r, id);
	if (!tasks)
		return -1;
	json_object_set_new(o, "tasks", tasks);
	json_object_set_new(o, "graph",
			    ask_maybe(r, path_of(r, id, "graph"), NULL, NULL, NULL, NULL));
	json_object_set_new(o, "timeline",
			    ask_maybe(r, path_of(r, id, "timeline"), NULL, NULL, NULL, NULL));
	json_object_set_new(o, "metrics",
			    ask_maybe(r, path_of(r, id, "metrics"), "limit", "500", NULL, NULL));
	json_object_set_new(o, "series",
			    ask_maybe(r, path_of(r, id, "series"), "points", "300", NULL, NULL));
	if (whole)
		add_details(r, id, tasks, o);
	return 0;
}

/* Confusion matrices, which a comparison shows side by side: an output named so, or a table with
 * such a name in a directory. The page asks for them by the same rule (web/src/pages/compare.tsx).
 */

static bool is_confusion(const char *name)
{
	return strncasecmp(name, "confusion", strlen("confusion")) == 0 &&
	       (str_has_suffix(name, ".csv") || str_has_suffix(name, ".tsv"));
}

static bool add_table(struct report *r, const char *id, const char *path, json_t *contents)
{
	json_t *table = ask_maybe(r, arena_printf(r->arena, "/api/v1/content/%s/table", id),
				  "limit", "100", "path", path);
	bool found = json_is_object(table);

	if (found)
		json_object_set(contents,
				arena_printf(r->arena, "table %s%s%s", id, path ? " " : "",
					     path ? path : ""),
				table);
	json_decref(table);
	return found;
}

/* A directory: its entries, if one of them is a matrix. */
static bool add_from_tree(struct report *r, const char *id, json_t *contents)
{
	json_t *page = ask_maybe(r, arena_printf(r->arena, "/api/v1/content/%s/entries", id),
				 "limit", "200", NULL, NULL);
	const json_t *entries = json_object_get(page, "entries");
	bool found = false;

	for (size_t i = 0; i < json_array_size(entries) && !found; i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(entries, i), "name"));

		found = name && is_confusion(name) && add_table(r, id, name, contents);
	}
	if (found)
		json_object_set(contents, arena_printf(r->arena, "entries %s", id), page);
	json_decref(page);
	return found;
}

static bool add_from_task(struct report *r, const json_t *task, size_t *looks, json_t *contents)
{
	json_t *outputs = json_object_get(task, "outputs"), *content;
	const char *name;

	json_object_foreach(outputs, name, content)
	{
		const char *id = json_string_value(json_object_get(content, "id")),
			   *kind = json_string_value(json_object_get(content, "kind"));

		if (!id || (*looks)++ >= REPORT_LOOKS_MAX)
			continue;
		if (str_eq(kind, "tree")
			    ? add_from_tree(r, id, contents)
			    : strcasestr(name, "confusion") && add_table(r, id, NULL, contents))
			return true;
	}
	return false;
}

static json_t *add_confusions(struct report *r, json_t *of)
{
	json_t *contents = json_object(), *run;
	size_t tables = 0, looks = 0;
	const char *id;

	json_object_foreach(of, id, run)
	{
		const json_t *tasks = json_object_get(run, "tasks");
		bool found = false;

		for (size_t i = 0;
		     i < json_array_size(tasks) && !found && tables < REPORT_TABLES_MAX; i++)
			found = add_from_task(r, json_array_get(tasks, i), &looks, contents);
		tables += found;
	}
	return contents;
}

static json_t *gather(struct report *r, const char *const *runs, size_t n)
{
	json_t *data = json_object(), *of = json_object(), *compare = json_null(),
	       *ids = json_array();
	_cleanup_(str_deinit) struct str list = { 0 };
	const char *id;
	json_t *one;
	int failed = 0;

	for (size_t i = 0; i < n && failed == 0; i++) {
		failed = add_run(r, runs[i], n == 1, of);
		str_addf(&list, "%s%s", i ? "," : "", runs[i]);
	}
	json_object_foreach(of, id, one)
	{
		json_array_append_new(ids, json_string(id));
	}
	if (failed == 0 && n > 1) {
		compare = ask(r, "/api/v1/compare", "runs", list.s, NULL, NULL);
		failed = compare ? 0 : -1;
		if (compare)
			json_object_set_new(data, "contents", add_confusions(r, of));
	}
	json_object_set_new(data, "made", facts_time(clock_wall_ns()));
	json_object_set_new(data, "project", json_string(r->d.projects[0]->name));
	json_object_set_new(data, "runs", ids);
	json_object_set_new(data, "of", of);
	json_object_set_new(data, "compare", compare ? compare : json_null());
	json_object_set_new(data, "left_out",
			    json_pack("{s:I, s:I}", "tasks", (json_int_t)r->cut.tasks, "details",
				      (json_int_t)r->cut.details));
	if (failed == 0)
		return data;
	json_decref(data);
	return NULL;
}

#define PLACE "{\"cairn\":\"report\"}" /* in the template; web/tools/report.mjs writes it */

static void fill(struct str *out, const char *template, const json_t *data)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *at = strstr(template, PLACE);

	assert(at); /* our own bytes: only a defect of the build leaves it out */
	json_add_canonical(&text, data);
	str_addn(out, template, (size_t)(at - template));
	for (size_t i = 0; i < text.len; i++)
		if (text.s[i] == '<')
			str_add(out, "\\u003c");
		else
			str_addc(out, text.s[i]);
	str_add(out, at + strlen(PLACE));
}

int report_make(const char *dir, const char *const *runs, size_t n, struct str *out,
		struct report_cut *ret_cut, struct err *err)
{
	struct report r = { .err = err };
	_cleanup_(str_deinit) struct str template = { 0 };
	struct project *p;
	json_t *data;

	assert(n > 0 && n <= REPORT_RUNS_MAX);
	if (page_template(&template, err) < 0 || project_open(dir, &p, err) < 0)
		return -1;
	r.arena = arena_new();
	r.d.projects = &p;
	r.d.n_projects = 1;
	r.d.http.views = api_views_new();
	r.d.http.log_indexes = api_log_indexes_new();
	r.d.http.listings = api_listings_new();
	r.d.http.answers = api_kept_answers_new();
	pthread_mutex_init(&r.d.lock, NULL);
	data = gather(&r, runs, n);
	if (data)
		fill(out, template.s, data);
	json_decref(data);
	*ret_cut = r.cut;
	pthread_mutex_destroy(&r.d.lock);
	api_views_free(r.d.http.views);
	api_log_indexes_free(r.d.http.log_indexes);
	api_listings_free(r.d.http.listings);
	api_kept_answers_free(r.d.http.answers);
	arena_free(r.arena);
	project_free(p);
	return data ? 0 : -1;
}
