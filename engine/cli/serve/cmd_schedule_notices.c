/* `cairn schedule notices`: notices that wait to be delivered, and those that were given up. */
#include "base/text/text.h"
#include "cli/render/table.h"
#include "cli/serve/schedules.h"
#include "record/facts.h"
#include "record/rows/notices.h"

/* A webhook's address may hold a token: only its host is shown. */
static const char *receiver_of(struct cli *cli, const struct notice_row *n)
{
	json_t *o = json_loads(n->receiver, 0, NULL);
	const char *command = json_string_value(json_object_get(o, "command")),
		   *url = json_string_value(json_object_get(o, "url"));
	const char *host = url ? strstr(url, "://") : NULL, *at, *text = "?";

	if (command) {
		text = arena_printf(cli->arena, "command %.60s", command);
	} else if (host) {
		host += 3;
		at = memchr(host, '@', strcspn(host, "/?#"));
		host = at ? at + 1 : host;
		text = arena_printf(cli->arena, "%.*s://%.*s", (int)(strstr(url, "://") - url), url,
				    (int)MIN(strcspn(host, "/?#"), 100u), host);
	}
	json_decref(o);
	return text;
}

static void add_notice(struct cli *cli, const struct notice_row *n, json_t *all, struct table *t)
{
	bool waits = n->state == NOTICE_WAITING;
	const char *receiver = receiver_of(cli, n);

	json_array_append_new(
		all,
		json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:i, s:o, s:o}", "delivery", n->id,
			  "state", waits ? "waiting" : "given-up", "pipeline", facts_text(n->path),
			  "schedule", facts_text(n->schedule), "event", n->event, "receiver",
			  receiver, "made", facts_time(n->made_ns), "tries", (int)n->tries, "ended",
			  facts_time(n->ended_ns), "message", facts_text(n->message)));
	table_cell(t, STYLE_BOLD, "%s", n->schedule ? n->schedule : n->path ? n->path : "");
	table_cell(t, STYLE_PLAIN, "%s", n->event);
	table_cell(t, STYLE_PLAIN, "%s", receiver);
	table_cell(t, waits ? STYLE_YELLOW : STYLE_RED, "%s", waits ? "waiting" : "given up");
	table_cell(t, STYLE_PLAIN, "%u", n->tries);
	table_cell(t, STYLE_PLAIN, "%s", cli_ago(cli, n->made_ns));
	table_cell(t, STYLE_DIM, "%s", n->message ? n->message : "");
}

int cmd_schedule_notices(struct cli *cli, const struct cli_args *args)
{
	static const enum notice_state states[] = { NOTICE_WAITING, NOTICE_GIVEN_UP };
	_cleanup_(table_freep) struct table *t = table_new();
	json_t *all = json_array();
	struct err err = { 0 };
	struct db *db;
	int r = schedules_db(cli, &db, &err);

	table_column(t, "schedule", 0);
	table_column(t, "event", 0);
	table_column(t, "to", 0);
	table_column(t, "state", 0);
	table_column(t, "tries", TABLE_RIGHT);
	table_column(t, "since", 0);
	table_column(t, "", TABLE_CUT);
	for (size_t i = 0; r == 0 && db && i < ARRAY_LEN(states); i++) {
		struct notice_row *v;
		size_t n;

		r = record_notices(db, states[i], 0, cli->arena, &v, &n, &err);
		for (size_t k = 0; r == 0 && k < n; k++)
			add_notice(cli, &v[k], all, t);
	}
	if (r == 0 && cli->json)
		cli_print_json(cli, "cairn.schedule-notices/1", json_pack("{s:O}", "notices", all));
	else if (r == 0 && table_rows(t))
		table_print(t, cli);
	else if (r == 0)
		cli_note(cli, "every notice has arrived");
	json_decref(all);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
