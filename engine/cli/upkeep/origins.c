/* Compares the inputs that past runs pinned with what is at their origins now. */
#include "cli/upkeep/origins.h"

#include "record/lineage/outside.h"
#include "storage/origin/origin.h"

/* Problems that are listed; the counts have all. */
#define SHOWN_MAX 100

struct asking {
	struct cli *cli;
	json_t *problems;
	size_t n;
};

static const char *const states[ORIGIN_STATES] = { "unchanged", "changed", "gone", "unreachable" };

static void on_problem(void *arg, const struct reference *r, enum origin_state state,
		       const char *why)
{
	struct asking *a = arg;

	if (a->n++ >= SHOWN_MAX)
		return;
	if (a->cli->json)
		json_array_append_new(a->problems,
				      json_pack("{s:o, s:s, s:o}", "uri",
						json_name(r->uri, strlen(r->uri)), "state",
						states[state], "why", json_name(why, strlen(why))));
	else
		cli_printf(a->cli, "origin %s: %s%s%s\n", states[state], cli_text(a->cli, r->uri),
			   *why ? ": " : "", cli_text(a->cli, why));
}

json_t *origins_check(struct cli *cli, struct store *s)
{
	struct asking a = { .cli = cli, .problems = json_array() };
	struct origin_check c = { .on_problem = on_problem, .arg = &a };
	struct run_input_row *rows = NULL;
	json_t *out = json_object();
	uint64_t all = 0;
	size_t n = 0;
	struct db *db;

	if (cli_db(cli, DB_READ, &db, NULL) < 0 ||
	    record_origins(db, cli->arena, &rows, &n, NULL) < 0)
		n = 0; /* nothing was run in this project */
	for (size_t i = 0; i < n; i++) {
		struct err e = { 0 };

		if (origin_check(s, &rows[i].id, &c, &e) < 0 &&
		    e.code != ERR_NOT_FOUND) /* forgotten with its run */
			on_problem(&a, &(struct reference){ .uri = rows[i].origin },
				   ORIGIN_UNREACHABLE, e.msg);
	}
	for (int i = 0; i < ORIGIN_STATES; i++) {
		all += c.n[i];
		json_object_set_new(out, states[i], json_integer((json_int_t)c.n[i]));
	}
	if (all && !cli->json) {
		cli_printf(cli,
			   "%llu reference%s asked for at their origins:", (unsigned long long)all,
			   all == 1 ? "" : "s");
		for (int i = 0, said = 0; i < ORIGIN_STATES; i++)
			if (c.n[i])
				cli_printf(cli, "%s %llu %s", said++ ? "," : "",
					   (unsigned long long)c.n[i], states[i]);
		cli_printf(cli, "\n");
	}
	json_object_set_new(out, "problems", a.problems);
	return out;
}
