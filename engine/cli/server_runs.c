/* `cairn runs --server`: the same conditions, asked of a server elsewhere. */
#include <string.h>
#include "base/text.h"
#include "cli/runs_table.h"
#include "cli/server.h"

#define PAGE_MAX  500
#define PAGES_MAX 100000 /* of a server that never says it was the last */

static void add_text(struct str *path, const char *name, const char *value)
{
	if (!value)
		return;
	str_addf(path, "&%s=", name);
	http_escape(path, value, strlen(value), false);
}

static int add_time(struct str *path, const struct cli_args *args, const char *name, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	int64_t ns = 0;

	if (runs_parse_when(name, cli_value(args, name), &ns, err) < 0)
		return -1;
	if (ns)
		text_add_time(&text, ns, 3);
	add_text(path, name, text.s);
	return 0;
}

/* "&state=failed&…" */
static int add_conditions(struct str *path, const struct cli_args *args, struct err *err)
{
	static const char *const same[] = { "pipeline", "state", "schedule", "tag", "commit", "sort", "param", "metric" };

	if (cli_count(args, "param") > 1 || cli_count(args, "metric") > 1)
		return err_set(err, ERR_USAGE, "a server takes one --param and one --metric");
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		add_text(path, same[i], cli_value(args, same[i]));
	return add_time(path, args, "since", err) < 0 || add_time(path, args, "until", err) < 0 ? -1 : 0;
}

static int read_page(struct server *s, const char *conditions, uint64_t limit, struct str *cursor, json_t *runs, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	_cleanup_(json_decrefp) json_t *page = NULL;
	const char *next;
	json_t *list;

	str_addf(&path, "/api/v1/runs?limit=%llu%s", (unsigned long long)limit, conditions);
	if (cursor->len)
		str_addf(&path, "&cursor=%s", cursor->s);
	if (server_ask(s, "GET", path.s, NULL, true, &page, err) < 0)
		return -1;
	if (json_get_array(page, "runs", &list, err) < 0 || json_get_str_opt(page, "next", NULL, &next, err) < 0)
		return err_wrap(err, "%s: its answer", s->url);
	json_array_extend(runs, list);
	str_reset(cursor);
	if (next && strspn(next, "0123456789") == strlen(next))
		str_add(cursor, next);
	return 0;
}

/* `limit` 0: all. */
static int read_runs(struct server *s, const char *conditions, uint64_t limit, json_t *runs, struct err *err)
{
	_cleanup_(str_deinit) struct str cursor = { 0 };
	unsigned pages = 0;
	uint64_t left;

	do {
		left = limit ? limit - json_array_size(runs) : PAGE_MAX;
		if (read_page(s, conditions, MIN(left, (uint64_t)PAGE_MAX), &cursor, runs, err) < 0)
			return -1;
	} while (cursor.len && ++pages < PAGES_MAX && (!limit || json_array_size(runs) < limit));
	return 0;
}

static const char *text_of(struct cli *cli, const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? cli_text(cli, s) : NULL;
}

static const char *names_of(struct cli *cli, const json_t *run)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const json_t *tags = json_object_get(run, "tags");

	for (size_t i = 0; i < json_array_size(tags); i++) {
		const char *tag = json_string_value(json_array_get(tags, i));

		str_addf(&text, "%s%s", i ? ", " : "", tag ? cli_text(cli, tag) : "");
	}
	return text.len ? arena_strndup(cli->arena, text.s, text.len) : "";
}

static void add_row(struct table *t, struct cli *cli, const json_t *run)
{
	const json_t *counts = json_object_get(run, "counts");
	const char *hash = text_of(cli, run, "hash"), *started = json_string_value(json_object_get(run, "started")), *id = text_of(cli, run, "id");
	const char *state = text_of(cli, run, "state");
	struct runs_line line = { .id = id ? id : "?", .hash = "", .state = state ? state : "?", .names = names_of(cli, run), .message = text_of(cli, run, "message"),
				  .took_ns = json_integer_value(json_object_get(run, "duration_ns")),
				  .executed = (uint64_t)json_integer_value(json_object_get(counts, "executed")),
				  .hits = (uint64_t)json_integer_value(json_object_get(counts, "hits")) };

	if (hash)
		line.hash = arena_printf(cli->arena, "%.12s", hash + (str_has_prefix(hash, "sha256:") ? 7 : 0));
	if (started && text_parse_time(started, &line.started_ns, NULL) < 0)
		line.started_ns = 0;
	runs_table_add(t, cli, &line);
}

static void print_runs(struct cli *cli, const json_t *runs)
{
	_cleanup_(table_freep) struct table *t = runs_table_new();

	for (size_t i = 0; i < json_array_size(runs); i++)
		add_row(t, cli, json_array_get(runs, i));
	table_print(t, cli);
}

int server_runs(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(str_deinit) struct str conditions = { 0 };
	json_t *runs = json_array();
	struct server s = { 0 };
	uint64_t limit = 20;
	struct err err = { 0 };
	int r = cli_uint(args, "limit", 0, UINT32_MAX, &limit, &err);

	str_add(&conditions, "");
	if (r == 0)
		r = add_conditions(&conditions, args, &err);
	if (r == 0)
		r = server_open(cli, args, &s, &err);
	if (r == 0)
		r = read_runs(&s, conditions.s, limit, runs, &err);
	server_close(&s);
	if (r == 0 && cli->json)
		cli_print_json(cli, json_pack("{s:O}", "runs", runs));
	else if (r == 0)
		print_runs(cli, runs);
	json_decref(runs);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
