/* engine/cli/past/spared.c — tasks of a run that weren't executed: hits with the run that made the
 * result; skipped and blocked ones, and hits that failed, with the reason.
 *
 * The results table has their states. The reasons come from the pipeline as it was, since a skipped
 * task left nothing else: why() names the first need that explains the end. No state of its own;
 * reads only.
 */
#include "base/map.h"
#include "cli/past/past.h"
#include "cli/render/facts.h"
#include "run/reproduce/reproduce.h"

/* How the tasks of a step ended. */
struct step_ends {
	size_t n, skipped, failed, blocked;
};

struct spared {
	struct cli *cli;
	struct db *db;
	struct pipeline *pipeline; /* NULL: it can't be read any more */
	struct map *executed;      /* task → itself */
	struct map *steps;         /* name → struct step_ends * */
};

static struct step_ends *ends_of(struct spared *sp, const char *step)
{
	void **slot = map_slot_str(sp->steps, step);

	if (!*slot)
		*slot = arena_alloc(sp->cli->arena, sizeof(struct step_ends));
	return *slot;
}

static const struct step *step_named(const struct pipeline *p, const char *name)
{
	for (size_t i = 0; p && i < p->n_steps; i++)
		if (str_eq(p->steps[i].name, name))
			return &p->steps[i];
	return NULL;
}

/* NULL: not known. */
static const char *why(struct spared *sp, const struct facts_task *t)
{
	const struct step *s = step_named(sp->pipeline, t->step);

	for (size_t i = 0; s && i < s->n_deps; i++) {
		const struct step *of_step = &sp->pipeline->steps[s->deps[i].step];
		const bool content = s->deps[i].data || s->deps[i].metrics;
		const char *needed = of_step->name;
		const struct step_ends *e = ends_of(sp, needed);
		const char *of = e->n > 1 ? "a task of " : "";

		if (!content && (!s->deps[i].order || s->finally))
			continue; /* it didn't hold the task up */
		if (t->state == RESULT_SKIPPED && content && e->n && e->failed &&
		    of_step->continue_on_error && e->skipped + e->failed == e->n)
			return arena_printf(sp->cli->arena,
					    "%s`%s` failed (`continue_on_error`) and made nothing "
					    "to read",
					    of, needed);
		if (t->state == RESULT_SKIPPED && content && e->n && e->skipped == e->n)
			return arena_printf(sp->cli->arena, "`%s` was skipped", needed);
		if (t->state == RESULT_BLOCKED && e->failed && !of_step->continue_on_error)
			return arena_printf(sp->cli->arena, "%s`%s` failed", of, needed);
		if (t->state == RESULT_BLOCKED && e->blocked)
			return arena_printf(sp->cli->arena, "%s`%s` wasn't run", of, needed);
	}
	if (!s)
		return NULL;
	return t->state == RESULT_BLOCKED ? "the run stopped before it began"
	       : s->condition             ? "its `if` was false"
					  : "what it needs was skipped";
}

/* The run that made a hit's result, in this project; NULL: not known. */
static int made_in(struct spared *sp, const struct facts_task *t, const char **ret, struct err *err)
{
	struct cached_result hit;
	struct attempt_row a;
	struct run_row of;
	int r = record_lookup(sp->db, &t->key, sp->cli->arena, &hit, err);

	*ret = NULL;
	if (r > 0)
		r = record_attempt(sp->db, hit.attempt, sp->cli->arena, &a, &of, err);
	if (r > 0)
		*ret = of.id;
	return MIN(r, 0);
}

static int add(struct spared *sp, const struct facts_task *t, json_t *list, struct err *err)
{
	const char *run = NULL, *reason = NULL;

	if (map_get_str(sp->executed, t->task))
		return 0;
	if (t->state == RESULT_FAILED)
		reason = "its result on record doesn't pass its gate, or doesn't end its loop";
	else if (t->state != RESULT_SUCCEEDED)
		reason = why(sp, t);
	else if (made_in(sp, t, &run, err) < 0)
		return -1;
	json_array_append_new(
		list,
		json_pack("{s:o, s:o, s:s, s:o, s:o, s:I}", "task", facts_text(t->task), "step",
			  facts_text(t->step), "state",
			  t->state == RESULT_SUCCEEDED ? "hit" : facts_result_state(t->state),
			  "made_by", facts_text(run), "reason", facts_text(reason), "duration_ns",
			  (json_int_t)(t->state == RESULT_SUCCEEDED ? t->duration_ns : 0)));
	return 0;
}

int spared_tasks(struct cli *cli, struct db *db, const struct run_row *run,
		 const struct attempt_row *attempts, size_t n_attempts, json_t **ret,
		 struct err *err)
{
	struct spared sp = { .cli = cli, .db = db };
	struct facts_task *tasks = NULL;
	struct store *store;
	json_t *list = json_array();
	size_t n = 0;
	int r = 0;

	*ret = list;
	if (!run->results.kind)
		return 0;
	if (facts_tasks(cli, db, run, &tasks, &n, err) < 0 ||
	    cli_store(cli, false, &store, err) < 0) {
		json_decref(list);
		return -1;
	}
	if (run->counts.skipped + run->counts.blocked &&
	    pipeline_files_load(store, &run->pipeline_blob, run->path, &sp.pipeline, NULL) < 0)
		sp.pipeline = NULL;
	sp.executed = map_new();
	sp.steps = map_new();
	for (size_t i = 0; i < n_attempts; i++)
		*map_slot_str(sp.executed, attempts[i].task) = (void *)attempts[i].task;
	for (size_t i = 0; i < n; i++) {
		struct step_ends *e = ends_of(&sp, tasks[i].step);

		e->n++;
		e->skipped += tasks[i].state == RESULT_SKIPPED;
		e->failed += tasks[i].state == RESULT_FAILED;
		e->blocked += tasks[i].state == RESULT_BLOCKED;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add(&sp, &tasks[i], list, err);
	map_free(sp.executed);
	map_free(sp.steps);
	pipeline_free(sp.pipeline);
	if (r < 0)
		json_decref(list);
	return r;
}
