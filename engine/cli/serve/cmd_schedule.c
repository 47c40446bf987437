/* engine/cli/serve/cmd_schedule.c — `cairn schedule list`, `next` and `history`: the schedules,
 * their next times, their past firings.
 *
 * Each command is a query and a table. `list` joins each schedule with its last firing and the
 * number of open ones. `next` merges the calendars: the earliest next time is taken, and that
 * schedule advances. `history` asks only the database, so it also shows schedules that are no
 * longer in any file.
 *
 * `list` says at its end when notices couldn't be delivered. A broken pipeline file doesn't hide
 * the others, but makes the exit code CLI_INVALID.
 */
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/render/table.h"
#include "cli/serve/schedules.h"
#include "record/facts.h"
#include "record/rows/notices.h"

/* List. */

struct listed {
	const struct schedule_entry *e;
	int64_t next_ns; /* nominal; CALENDAR_NEVER */
	bool has_last;
	struct firing last;
	size_t n_open;
};

static int look_up(struct cli *cli, const struct schedule_entry *e, int64_t now, struct listed *ret,
		   struct err *err)
{
	struct firing_filter last = { .path = e->path, .schedule = e->decl->name, .limit = 1 };
	struct firing_filter open = { .path = e->path, .schedule = e->decl->name, .open = true };
	struct firing *f;
	struct db *db;
	size_t n;

	*ret = (struct listed){
		.e = e,
		.next_ns = e->row.paused_ns ? CALENDAR_NEVER
					    : calendar_next(&e->calendar, MAX(now, e->row.seen_ns))
	};
	if (schedules_db(cli, &db, err) < 0)
		return -1;
	if (!db)
		return 0;
	if (record_firings(db, &last, cli->arena, &f, &n, err) < 0)
		return -1;
	ret->has_last = n > 0;
	if (n)
		ret->last = f[0];
	return record_firings(db, &open, cli->arena, &f, &ret->n_open, err);
}

static enum cli_style firing_style(enum firing_state s)
{
	switch (s) {
	case FIRING_SUCCEEDED:
		return STYLE_GREEN;
	case FIRING_FAILED:
	case FIRING_MISSED:
		return STYLE_RED;
	case FIRING_STARTED:
		return STYLE_BLUE;
	default:
		return STYLE_YELLOW;
	}
}

static json_t *firing_json(const struct firing *f)
{
	return json_pack("{s:o, s:o, s:o, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:I, s:o, s:o}",
			 "pipeline", facts_text(f->path), "schedule", facts_text(f->schedule),
			 "time", facts_time(f->nominal_ns), "cause", firing_cause_name(f->cause),
			 "state", firing_state_name(f->state), "starts", (int)f->number, "started",
			 facts_time(f->started_ns), "ended", facts_time(f->ended_ns), "run",
			 facts_text(f->run), "message", facts_text(f->message), "times",
			 (json_int_t)f->times, "first", facts_time(f->first_ns), "event",
			 facts_text(f->event));
}

static json_t *listed_json(const struct listed *l)
{
	const struct schedule_decl *d = l->e->decl;
	json_t *inputs = json_array();

	for (size_t i = 0; i < d->n_on_change; i++)
		json_array_append_new(inputs,
				      facts_text(l->e->pipeline->inputs[d->on_change[i]].name));
	return json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:i, s:o}",
			 "pipeline", facts_text(l->e->path), "name", facts_text(d->name), "cron",
			 facts_text(d->cron), "on", facts_event(&d->on), "timezone", d->timezone,
			 "on_change", inputs, "overlap", d->overlap, "catch_up", d->catch_up, "dst",
			 d->dst, "next", facts_time(l->next_ns == CALENDAR_NEVER ? 0 : l->next_ns),
			 "paused", facts_time(l->e->row.paused_ns), "open", (int)l->n_open, "last",
			 l->has_last ? firing_json(&l->last) : json_null());
}

static void add_listed(struct cli *cli, struct table *t, const struct schedule_list *all,
		       const struct listed *l)
{
	const struct schedule_entry *e = l->e;
	const struct event_decl *on = &e->decl->on;

	table_cell(t, STYLE_BOLD, "%s", schedules_name(cli, all, e));
	if (on->pipeline)
		table_cell(t, STYLE_PLAIN, "on %s: %s", on->pipeline, on->state);
	else if (on->webhook)
		table_cell(t, STYLE_PLAIN, "on webhook %s", on->webhook);
	else
		table_cell(t, STYLE_PLAIN, "%s%s%s", e->decl->cron ? e->decl->cron : "",
			   e->decl->cron && e->decl->n_on_change ? ", " : "",
			   e->decl->cron && !e->decl->n_on_change ? "" : "on change");
	table_cell(t, STYLE_DIM, "%s", e->decl->timezone);
	if (e->row.paused_ns)
		table_cell(t, STYLE_YELLOW, "paused %s", cli_ago(cli, e->row.paused_ns));
	else if (l->next_ns == CALENDAR_NEVER)
		table_cell(t, STYLE_DIM, "%s", e->decl->cron ? "never again" : "");
	else
		table_cell(t, STYLE_PLAIN, "%s (%s)", schedules_wall(cli, e, l->next_ns),
			   cli_ago(cli, l->next_ns));
	table_cell(t, l->has_last ? firing_style(l->last.state) : STYLE_DIM, "%s",
		   l->has_last ? firing_state_name(l->last.state) : "");
	table_cell(t, STYLE_PLAIN, "%s", l->has_last ? cli_ago(cli, l->last.nominal_ns) : "");
}

int cmd_schedule_list(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(table_freep) struct table *t = table_new();
	json_t *schedules = json_array();
	struct schedule_list all;
	uint64_t given_up = 0;
	struct err err = { 0 };
	struct db *db;
	int code = CLI_OK;

	table_column(t, "schedule", 0);
	table_column(t, "rule", 0);
	table_column(t, "time zone", 0);
	table_column(t, "next", 0);
	table_column(t, "last", 0);
	table_column(t, "", 0);
	if (schedules_open(cli, args->operands, args->n_operands, &all, &err) < 0)
		code = cli_fail(cli, &err);
	for (size_t i = 0; code == CLI_OK && i < all.n; i++) {
		struct listed l;

		if (look_up(cli, &all.v[i], schedules_now(), &l, &err) < 0) {
			code = cli_fail(cli, &err);
			break;
		}
		json_array_append_new(schedules, listed_json(&l));
		add_listed(cli, t, &all, &l);
	}
	if (code == CLI_OK && cli->json)
		cli_print_json(cli, "cairn.schedule-list/1",
			       json_pack("{s:O}", "schedules", schedules));
	else if (code == CLI_OK && all.n)
		table_print(t, cli);
	else if (code == CLI_OK && !all.broken)
		cli_note(cli, "no pipeline of this project has schedules");
	/* Undelivered notices of failures must be noticed without looking for them. */
	if (code == CLI_OK && schedules_db(cli, &db, NULL) == 0 && db &&
	    record_notice_count(db, NOTICE_GIVEN_UP, &given_up, NULL) == 0 && given_up)
		cli_note(cli, "%llu notice%s could not be delivered: cairn schedule notices",
			 (unsigned long long)given_up, given_up == 1 ? "" : "s");
	if (code == CLI_OK && all.broken)
		code = CLI_INVALID;
	json_decref(schedules);
	schedules_close(&all);
	return code;
}

/* Next. */

struct upcoming {
	const struct schedule_entry *e;
	int64_t at_ns;
};

/* The n earliest times: each time, the schedule with the earliest next time is taken. */
static size_t merge(const struct schedule_entry *const *v, size_t n_entries, int64_t from, size_t n,
		    struct upcoming *ret)
{
	int64_t *next = xcalloc(n_entries + 1, sizeof(*next));
	size_t count = 0;

	for (size_t i = 0; i < n_entries; i++)
		next[i] =
			v[i]->row.paused_ns ? CALENDAR_NEVER : calendar_next(&v[i]->calendar, from);
	for (; count < n; count++) {
		size_t best = 0;

		for (size_t i = 1; i < n_entries; i++)
			if (next[i] < next[best])
				best = i;
		if (n_entries == 0 || next[best] == CALENDAR_NEVER)
			break;
		ret[count] = (struct upcoming){ v[best], next[best] };
		next[best] = calendar_next(&v[best]->calendar, next[best]);
	}
	free(next);
	return count;
}

static void print_coming(struct cli *cli, const struct schedule_list *all, const struct upcoming *v,
			 size_t n)
{
	_cleanup_(table_freep) struct table *t = table_new();
	json_t *times = json_array();

	table_column(t, "schedule", 0);
	table_column(t, "local time", 0);
	table_column(t, "UTC", 0);
	table_column(t, "", 0);
	for (size_t i = 0; i < n; i++) {
		const struct schedule_entry *e = v[i].e;
		int64_t start = calendar_due(&e->calendar, e->path, e->decl->name, v[i].at_ns,
					     e->decl->jitter_ns);
		struct str utc = { 0 };

		text_add_time(&utc, v[i].at_ns, 0);
		table_cell(t, STYLE_BOLD, "%s", schedules_name(cli, all, e));
		table_cell(t, STYLE_PLAIN, "%s", schedules_wall(cli, e, v[i].at_ns));
		table_cell(t, STYLE_DIM, "%s", utc.s);
		table_cell(t, STYLE_PLAIN, "%s", cli_ago(cli, v[i].at_ns));
		str_deinit(&utc);
		json_array_append_new(
			times, json_pack("{s:o, s:o, s:o, s:o, s:s}", "pipeline",
					 facts_text(e->path), "schedule", facts_text(e->decl->name),
					 "time", facts_time(v[i].at_ns), "start", facts_time(start),
					 "local", schedules_wall(cli, e, v[i].at_ns)));
	}
	if (cli->json)
		cli_print_json(cli, "cairn.schedule-next/1", json_pack("{s:O}", "times", times));
	else if (n)
		table_print(t, cli);
	json_decref(times);
}

int cmd_schedule_next(struct cli *cli, const struct cli_args *args)
{
	int64_t from = schedules_now();
	const struct schedule_entry **v;
	struct schedule_list all = { 0 };
	struct upcoming *coming;
	struct err err = { 0 };
	uint64_t limit = 10;
	size_t n;
	int r = cli_uint(args, "limit", 1, 100000, &limit, &err);

	if (r == 0 && cli_value(args, "after"))
		r = text_parse_time(cli_value(args, "after"), &from, &err);
	if (r == 0)
		r = schedules_open(cli, NULL, 0, &all, &err);
	n = args->n_operands ? args->n_operands : all.n;
	v = arena_alloc(cli->arena, (n + 1) * sizeof(*v));
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!args->n_operands)
			v[i] = &all.v[i];
		else
			r = schedules_find(cli, &all, args->operands[i], &v[i], &err);
	if (r == 0) {
		coming = arena_alloc(cli->arena, (limit + 1) * sizeof(*coming));
		print_coming(cli, &all, coming, merge(v, n, from, limit, coming));
		r = all.broken ? CLI_INVALID : CLI_OK;
	} else {
		r = cli_fail(cli, &err);
	}
	schedules_close(&all);
	return r;
}

/* History. */

static void print_firings(struct cli *cli, const struct firing *f, size_t n)
{
	_cleanup_(table_freep) struct table *t = table_new();

	table_column(t, "schedule", 0);
	table_column(t, "time", 0);
	table_column(t, "cause", 0);
	table_column(t, "state", 0);
	table_column(t, "starts", TABLE_RIGHT);
	table_column(t, "took", TABLE_RIGHT);
	table_column(t, "run", 0);
	table_column(t, "", TABLE_CUT);
	for (size_t i = 0; i < n; i++) {
		struct str time = { 0 }, first = { 0 };

		text_add_time(&time, f[i].nominal_ns, 0);
		text_add_time(&first, f[i].first_ns, 0);
		table_cell(t, STYLE_BOLD, "%s", f[i].schedule);
		table_cell(t, STYLE_PLAIN, "%s", time.s);
		table_cell(t, STYLE_DIM, "%s", firing_cause_name(f[i].cause));
		table_cell(t, firing_style(f[i].state), "%s", firing_state_name(f[i].state));
		table_cell(t, STYLE_PLAIN, "%u", f[i].number);
		table_cell(t, STYLE_PLAIN, "%s",
			   f[i].started_ns && f[i].ended_ns
				   ? cli_duration(cli, f[i].ended_ns - f[i].started_ns)
				   : "");
		table_cell(t, STYLE_PLAIN, "%s", f[i].run ? f[i].run : "");
		if (f[i].event && !f[i].message)
			table_cell(t, STYLE_DIM, "%s%s",
				   firing_event_id(&f[i], FIRING_EVENT_RUN) ? "caused by run "
									    : "caused by ",
				   firing_event_id(&f[i], FIRING_EVENT_RUN)
					   ? firing_event_id(&f[i], FIRING_EVENT_RUN)
					   : f[i].event);
		else if (f[i].times > 1)
			table_cell(t, STYLE_DIM, "%s (%llu times since %s)",
				   f[i].message ? f[i].message : "with others before it",
				   (unsigned long long)f[i].times, first.s);
		else
			table_cell(t, STYLE_DIM, "%s", f[i].message ? f[i].message : "");
		str_deinit(&time);
		str_deinit(&first);
	}
	table_print(t, cli);
}

/* The operand is only a name, so schedules that are no longer in any file are shown, too. */
int cmd_schedule_history(struct cli *cli, const struct cli_args *args)
{
	const char *what = cli_operand(args, 0), *colon = what ? strrchr(what, ':') : NULL;
	struct firing_filter f = { .schedule = colon ? colon + 1 : what, .limit = 20 };
	struct err err = { 0 };
	struct firing *v = NULL;
	json_t *firings;
	struct db *db;
	size_t n = 0;

	f.path = colon ? arena_strndup(cli->arena, what, (size_t)(colon - what)) : NULL;
	if (cli_uint(args, "limit", 0, UINT32_MAX, &f.limit, &err) < 0 ||
	    schedules_db(cli, &db, &err) < 0 ||
	    (db && record_firings(db, &f, cli->arena, &v, &n, &err) < 0))
		return cli_fail(cli, &err);
	if (!cli->json) {
		if (n)
			print_firings(cli, v, n);
		else
			cli_note(cli, "nothing has fired here yet");
		return CLI_OK;
	}
	firings = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(firings, firing_json(&v[i]));
	cli_print_json(cli, "cairn.schedule-history/1", json_pack("{s:o}", "firings", firings));
	return CLI_OK;
}
