/* engine/cli/help/names.c — `cairn names`: what a completion script offers besides commands and
 * options.
 *
 * A script calls `cairn names KIND WORD...` with the words before the cursor. They are parsed with
 * the table of commands as far as they can be, so -C, the pipeline file and the run mean here what
 * they mean to the command itself. Names come from the pipeline, the database and the built-in
 * steps' table, one a line.
 *
 * Invariants: nothing is executed or written, not even the cache of parsed pipelines. Nothing goes
 * to standard error, and the exit code is 0: whoever presses Tab hasn't asked for an error. Only
 * names that no shell changes are printed (is_plain()); any other one is left out.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/help/help.h"
#include "record/rows/approvals.h"
#include "record/rows/tags.h"
#include "record/run_query.h"
#include "steps/spec/spec.h"

#define RUNS_OFFERED 20

/* What of the words decides the names. */
struct words {
	const char *pipeline, *run; /* or NULL */
};

/* Bash takes ':' and '@' for the ends of words. */
static bool is_plain(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./-";

	return *name && *name != '-' && name[strspn(name, plain)] == '\0';
}

static void offer(struct cli *cli, const char *name, const char *after)
{
	if (is_plain(name))
		fprintf(cli->out, "%s%s\n", name, after);
}

/* Names of the pipeline. */

static struct pipeline *load(struct cli *cli, const struct words *w)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	const char *path = w->pipeline ? w->pipeline : "pipeline.yaml";
	struct pipeline_load_options o = { 0 };
	const struct config *config;
	struct pipeline *p = NULL;
	struct err err = { 0 };
	struct stat st;

	/* Nobody may wait for a FIFO after Tab. */
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || cli_config(cli, &config, &err) < 0)
		return NULL;
	o.project_root = config->project_root;
	o.uses_dir = config->uses_dir; /* nothing is fetched after Tab */
	return pipeline_load(path, &o, diags, &p, &err) < 0 ? NULL : p;
}

static void offer_steps(struct cli *cli, const struct words *w)
{
	_cleanup_(pipeline_freep) struct pipeline *p = load(cli, w);

	for (size_t i = 0; p && i < p->n_steps; i++)
		offer(cli, p->steps[i].name, "");
}

static void offer_params(struct cli *cli, const struct words *w)
{
	_cleanup_(pipeline_freep) struct pipeline *p = load(cli, w);

	for (size_t i = 0; p && i < p->n_params; i++)
		offer(cli, p->params[i].name, "=");
}

static void offer_sweeps(struct cli *cli, const struct words *w)
{
	_cleanup_(pipeline_freep) struct pipeline *p = load(cli, w);

	for (size_t i = 0; p && i < p->n_sweeps; i++)
		offer(cli, p->sweeps[i].name, "");
}

/* Names of the database. */

static void offer_tags(struct cli *cli, const struct words *w)
{
	struct err err = { 0 };
	struct tag_row *v;
	struct db *db;
	size_t n;

	(void)w;
	if (cli_db(cli, DB_READ, &db, &err) < 0 ||
	    record_tags(db, NULL, cli->arena, &v, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		offer(cli, v[i].name, "");
}

static void offer_runs(struct cli *cli, const struct words *w)
{
	struct run_query q = { .limit = RUNS_OFFERED };
	struct err err = { 0 };
	struct run_row *v;
	struct db *db;
	size_t n;

	offer(cli, "last", "");
	if (cli_db(cli, DB_READ, &db, &err) < 0 ||
	    record_query_runs(db, &q, cli->arena, &v, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		offer(cli, v[i].id, "");
	offer_tags(cli, w);
}

/* What `get` takes: outputs of the pipeline, and runs. */
static void offer_outputs(struct cli *cli, const struct words *w)
{
	_cleanup_(pipeline_freep) struct pipeline *p = load(cli, w);

	for (size_t i = 0; p && i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];

		offer(cli, s->name, "");
		for (size_t k = 0; k < s->n_outputs; k++)
			offer(cli, arena_printf(cli->arena, "%s/%s", s->name, s->outputs[k].name),
			      "");
	}
	offer_runs(cli, w);
}

/* The run first, then its steps with an open question. A task's name has brackets, which shells
 * change; its step means it where it is the only one. */
static void offer_approvals(struct cli *cli, const struct words *w)
{
	struct attempt_row *v;
	struct err err = { 0 };
	struct run_row run;
	struct db *db;
	size_t n;

	if (!w->run) {
		offer_runs(cli, w);
		return;
	}
	if (cli_db(cli, DB_READ, &db, &err) < 0 ||
	    record_find_run(db, w->run, cli->arena, &run, &err) < 0 ||
	    record_approvals_open(db, run.rowid, cli->arena, &v, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		offer(cli, v[i].task, "");
	for (size_t i = 0; i < n && n == 1; i++)
		if (!is_plain(v[i].task))
			offer(cli, v[i].step, "");
}

static void offer_builtins(struct cli *cli, const struct words *w)
{
	size_t n;
	const struct step_spec *const *v = step_specs(&n);

	(void)w;
	for (size_t i = 0; i < n; i++)
		offer(cli, v[i]->name, "");
}

static void offer_runners(struct cli *cli, const struct words *w)
{
	const struct config *c;

	(void)w;
	offer(cli, "local", "");
	offer(cli, "kubernetes", "");
	for (size_t i = 0; cli_config(cli, &c, NULL) == 0 && i < c->clusters.n; i++)
		offer(cli, c->clusters.v[i].name, "");
}

/* The table. */

static const struct {
	struct help_names names;
	void (*offer)(struct cli *cli, const struct words *w);
} kinds[] = {
	[COMPLETE_RUN] = { { "runs" }, offer_runs },
	[COMPLETE_STEP] = { { "steps" }, offer_steps },
	[COMPLETE_PIPELINE_STEP] = { { "steps", .files = true }, offer_steps },
	[COMPLETE_PARAM] = { { "params", .open = true }, offer_params },
	[COMPLETE_SWEEP] = { { "sweeps" }, offer_sweeps },
	[COMPLETE_PIPELINE_SWEEP] = { { "sweeps", .files = true }, offer_sweeps },
	[COMPLETE_OUTPUT] = { { "outputs" }, offer_outputs },
	[COMPLETE_TAG] = { { "tags" }, offer_tags },
	[COMPLETE_APPROVAL] = { { "approvals" }, offer_approvals },
	[COMPLETE_BUILTIN] = { { "builtins" }, offer_builtins },
	[COMPLETE_RUNNER] = { { "runners" }, offer_runners },
};

const struct help_names *help_names(enum cli_completion what)
{
	return (size_t)what < ARRAY_LEN(kinds) && kinds[what].offer ? &kinds[what].names : NULL;
}

/* Words that end too early, as all do here, are an error of the parser, which keeps those before.
 * -1: there is no such directory. */
static int read_words(const struct cli_args *args, struct cli_args *typed, struct words *ret)
{
	struct err err = { 0 };
	const char *dir;

	/* The word KIND stands where a program's own name does. */
	(void)!cli_parse((int)args->n_operands, (char **)args->operands, typed, &err);
	dir = cli_value(typed, "directory");
	if (dir && chdir(dir) < 0)
		return -1;
	for (size_t i = 0; i < typed->n_operands && !ret->pipeline; i++)
		if (cli_is_pipeline_path(typed->operands[i]))
			ret->pipeline = typed->operands[i];
	ret->run = cli_operand(typed, 0);
	return 0;
}

int cmd_names(struct cli *cli, const struct cli_args *args)
{
	FILE *err = cli->err, *null = fopen("/dev/null", "we");
	struct cli_args typed = { 0 };
	struct words w = { 0 };

	if (!null)
		return CLI_OK;
	cli->err = null;
	if (read_words(args, &typed, &w) == 0)
		for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
			if (kinds[i].offer && str_eq(kinds[i].names.kind, args->operands[0])) {
				kinds[i].offer(cli, &w);
				break;
			}
	cli->err = err;
	fclose(null);
	cli_args_deinit(&typed);
	return CLI_OK;
}
