/* engine/cli/serve/runs.c — the runs of `cairn runs --server`: the options become a query string,
 * the pages of the answer one list, which past/cmd_runs.c prints.
 *
 * Times are parsed here, so that `2d` means the same as without a server. The server isn't fully
 * trusted: PAGES_MAX bounds a list that never ends.
 */
#include <string.h>
#include "base/text/text.h"
#include "cli/past/past.h"
#include "cli/serve/server.h"

#define PAGE_MAX  500
#define PAGES_MAX 100000 /* limit for a server that never sends a last page */

static int add_time(struct str *path, const struct cli_args *args, const char *name,
		    struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	int64_t ns = 0;

	if (runs_parse_when(name, cli_value(args, name), &ns, err) < 0)
		return -1;
	if (ns)
		text_add_time(&text, ns, 3);
	server_add_param(path, name, text.s);
	return 0;
}

/* Makes the list's path, with the options as its query. */
static int make_path(struct str *path, const struct cli_args *args, struct err *err)
{
	static const char *const same[] = { "pipeline", "state", "schedule", "tag",
					    "commit",   "sort",  "param",    "metric" };

	if (cli_count(args, "param") > 1 || cli_count(args, "metric") > 1)
		return err_set(err, ERR_USAGE, "a server takes one --param and one --metric");
	if (cli_flag(args, "sweep"))
		return err_set(err, ERR_UNSUPPORTED,
			       "a server doesn't select the trials of a sweep: leave --sweep out; "
			       "`trial` of --json names them");
	str_add(path, "/api/v1/runs");
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		server_add_param(path, same[i], cli_value(args, same[i]));
	if (add_time(path, args, "since", err) < 0)
		return -1;
	return add_time(path, args, "until", err);
}

static int read_page(struct server *s, const char *list, uint64_t limit, struct str *cursor,
		     json_t *runs, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	_cleanup_(json_decrefp) json_t *page = NULL;
	const char *next;
	json_t *some;

	str_addf(&path, "%s%climit=%llu", list, strchr(list, '?') ? '&' : '?',
		 (unsigned long long)limit);
	server_add_param(&path, "cursor", cursor->len ? cursor->s : NULL);
	if (server_ask(s, "GET", path.s, NULL, true, &page, err) < 0)
		return -1;
	if (json_get_array(page, "runs", &some, err) < 0 ||
	    json_get_str_opt(page, "next", NULL, &next, err) < 0)
		return err_wrap(err, "%s: its answer", s->url);
	json_array_extend(runs, some);
	return server_next_page(s, next, cursor, err);
}

int server_runs(struct cli *cli, const struct cli_args *args, json_t **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 }, cursor = { 0 };
	_cleanup_(json_decrefp) json_t *runs = json_array();
	struct server s = { 0 };
	uint64_t limit = 20, pages = 0; /* limit 0: all */
	int r = cli_uint(args, "limit", 0, UINT32_MAX, &limit, err);

	if (r == 0)
		r = make_path(&path, args, err);
	if (r == 0)
		r = server_open(cli, args, &s, err);
	do {
		uint64_t left = limit ? limit - json_array_size(runs) : PAGE_MAX;

		if (r == 0)
			r = read_page(&s, path.s, MIN(left, (uint64_t)PAGE_MAX), &cursor, runs,
				      err);
		if (r == 0 && ++pages > PAGES_MAX)
			r = err_set(err, ERR_TOO_LARGE, "%s: its list of runs has no end", s.url);
	} while (r == 0 && cursor.len && (!limit || json_array_size(runs) < limit));
	server_close(&s);
	if (r == 0)
		*ret = json_incref(runs);
	return r;
}
