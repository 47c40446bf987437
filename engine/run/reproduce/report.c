/* engine/run/reproduce/report.c — compares the results of a reproduction with those of the past
 * run, and gives the verdict.
 *
 * It reads the two results tables side by side. add_step() goes through the steps in the order of
 * the DAG, through the past tasks of each, and then through tasks that only the new run has.
 * judge() handles tasks with results on both sides; judge_absent() says why a task wasn't executed
 * now. compare.c compares outputs; metrics are compared here with the step's tolerances. conclude()
 * takes the worst verdict and the first divergence.
 *
 * Invariants: `tasks` is in the order of the DAG, so the first that diverged is the first in the
 * list. `diverged` holds every step with a task that diverged or that read the output of one that
 * did. Entries of the tables point into them: they are copied into the arena before a table is
 * freed.
 *
 * Threads: the loop's, after the run's end. Not here: environments (environment.c), printing
 * (cli/).
 */
#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include "base/compare.h"
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "run/internal.h"

struct report {
	struct run *run;
	struct arena *arena;
	const struct results *was, *is;
	struct map *made;     /* task → struct result_entry * of the new table */
	struct map *attempts; /* task → its last attempt_row * in the new run */
	struct map *diverged; /* steps with a task that diverged or followed one that did; a set */
	struct comparer comparer;
	VEC(struct reproduced_task) tasks;
	struct reproduction *rep;
};

/* Metrics. */

static double tolerance_of(const struct step *s, const char *metric, double was)
{
	for (size_t i = 0; i < s->measured->n_tolerances; i++)
		if (str_eq(s->measured->tolerances[i].metric, metric))
			return s->measured->tolerances[i].relative
				       ? s->measured->tolerances[i].bound * fabs(was)
				       : s->measured->tolerances[i].bound;
	return 0;
}

/* Both lists are sorted by name. */
static void compare_metrics(struct report *rp, const struct step *s, const struct result_entry *was,
			    const struct result_entry *is, struct reproduced_task *t)
{
	size_t n_was = was ? was->n_metrics : 0, n_is = is ? is->n_metrics : 0, i = 0, k = 0;

	t->metrics = arena_alloc(rp->arena, (n_was + n_is + 1) * sizeof(*t->metrics));
	while (i < n_was || k < n_is) {
		struct reproduced_metric *m = &t->metrics[t->n_metrics++];
		struct metric_value a = { 0 }, b = { 0 };
		int order;

		*m = (struct reproduced_metric){ 0 };
		if (i < n_was)
			results_metric(was, i, &a);
		if (k < n_is)
			results_metric(is, k, &b);
		order = i == n_was ? 1 : k == n_is ? -1 : strcmp(a.name, b.name);
		m->name = arena_strdup(rp->arena, order <= 0 ? a.name : b.name);
		m->had = order <= 0;
		m->has = order >= 0;
		m->was = m->had ? a.value : 0;
		m->is = m->has ? b.value : 0;
		i += m->had;
		k += m->has;
		m->tolerance = m->had ? tolerance_of(s, m->name, m->was) : 0;
		if (!m->had)
			m->verdict = VERDICT_EXTRA;
		else if (!m->has)
			m->verdict = VERDICT_MISSING;
		else if (compare_same(m->was, m->is))
			m->verdict = VERDICT_IDENTICAL;
		else
			m->verdict = fabs(m->is - m->was) <= m->tolerance ? VERDICT_TOLERATED
									  : VERDICT_DIFFERENT;
	}
}

/* Outputs. */

static const struct content_id none = { .kind = CONTENT_NONE };

static struct content_id output_named(const struct results *r, const struct result_entry *e,
				      const char *name)
{
	struct content_id id = none;

	for (size_t i = 0; e && i < e->n_outputs; i++)
		if (str_eq(results_output_name(r, e, i), name))
			results_output(e, i, &id);
	return id;
}

static int compare_outputs(struct report *rp, const struct step *s, const struct result_entry *was,
			   const struct result_entry *is, struct reproduced_task *t,
			   struct err *err)
{
	t->outputs = arena_alloc(rp->arena, (s->n_outputs + 1) * sizeof(*t->outputs));
	for (size_t i = 0; i < s->n_outputs; i++) {
		struct reproduced_output *o = &t->outputs[t->n_outputs];

		*o = (struct reproduced_output){
			.name = arena_strdup(rp->arena, s->outputs[i].name),
			.was = output_named(rp->was, was, s->outputs[i].name),
			.is = output_named(rp->is, is, s->outputs[i].name)
		};
		if (o->was.kind == CONTENT_NONE && o->is.kind == CONTENT_NONE)
			continue;
		if (compare_contents(&rp->comparer, &o->was, &o->is, &o->result, err) < 0)
			return err_wrap(err, "comparing output `%s` of %s", o->name, t->task);
		t->n_outputs++;
	}
	return 0;
}

/* Tasks. */

static enum compare_verdict worst_of(const struct reproduced_task *t)
{
	enum compare_verdict v = VERDICT_IDENTICAL;

	for (size_t i = 0; i < t->n_outputs; i++)
		v = MAX(v, t->outputs[i].result.verdict);
	for (size_t i = 0; i < t->n_metrics; i++)
		v = MAX(v, t->metrics[i].verdict);
	return v;
}

static const char *failure_of(const struct report *rp, const char *task)
{
	const struct attempt_row *a = map_get_str(rp->attempts, task);

	return a && a->message ? a->message : "no attempt of it ended well";
}

/* Both runs have a result. */
static int judge_made(struct report *rp, const struct step *s, const struct result_entry *was,
		      const struct result_entry *is, struct reproduced_task *t, struct err *err)
{
	enum compare_verdict v;

	if (compare_outputs(rp, s, was, is, t, err) < 0)
		return -1;
	compare_metrics(rp, s, was, is, t);
	v = worst_of(t);
	t->verdict = v == VERDICT_UNKNOWN    ? NOT_COMPARABLE
		     : v > VERDICT_TOLERATED ? DIVERGED
					     : REPRODUCED;
	if (v == VERDICT_UNKNOWN)
		t->why = "what it made then is not whole in the store any more";
	if (was->state != is->state) {
		t->verdict = MAX(t->verdict, DIVERGED);
		t->why = was->state == RESULT_FAILED
				 ? "failed its gate then, and holds it now"
				 : arena_strdup(rp->arena, failure_of(rp, t->task));
	}
	return 0;
}

/* A task whose gate failed has results all the same: outputs, or metrics if it has none. */
static bool has_made(const struct step *s, const struct result_entry *e)
{
	return e->state == RESULT_SUCCEEDED ||
	       (e->state == RESULT_FAILED && (s->n_outputs ? e->n_outputs : e->n_metrics));
}

static void set(struct reproduced_task *t, enum reproduce_verdict v, const char *why)
{
	t->verdict = v;
	t->why = why;
}

/* The task wasn't executed now. */
static void judge_absent(struct report *rp, const struct step *s, const struct result_entry *was,
			 const struct result_entry *is, struct reproduced_task *t)
{
	const struct run_options *o = rp->run->o;
	const char *why = plan_lost(rp->run->plan, t->task);

	if (!why)
		why = plan_lost(rp->run->plan, s->name);
	if (reproduce_leaves_out(o, t->step, t->task))
		set(t, NOT_SELECTED, "left out (--skip)");
	else if (why)
		set(t, NOT_COMPARABLE, arena_strdup(rp->arena, why));
	else if (was->state == RESULT_SKIPPED)
		set(t, NOT_SELECTED, is ? "skipped then as now" : "skipped then");
	else if (was->state == RESULT_BLOCKED)
		set(t, NOT_SELECTED, "not executed then");
	else if (!is && o->kind == RUN_CHAINED && !o->tasks.n_only)
		set(t, DIVERGED, "there is no such task now");
	else if (!is)
		set(t, NOT_SELECTED, NULL);
	else if (is->state == RESULT_SKIPPED)
		set(t, DIVERGED, "executed then, skipped now");
	else
		set(t, NOT_COMPARABLE, "something that it needs could not be made again");
}

static int judge(struct report *rp, const struct step *s, const struct result_entry *was,
		 const struct result_entry *is, struct reproduced_task *t, struct err *err)
{
	if (!is || is->state == RESULT_SKIPPED || is->state == RESULT_BLOCKED) {
		judge_absent(rp, s, was, is, t);
		return 0;
	}
	if (was->state == RESULT_SKIPPED || was->state == RESULT_BLOCKED) {
		set(t, DIVERGED,
		    was->state == RESULT_SKIPPED ? "skipped then, executed now"
						 : "not executed then, executed now");
		return 0;
	}
	if (has_made(s, was) && has_made(s, is))
		return judge_made(rp, s, was, is, t, err);
	if (has_made(s, was))
		set(t, NOT_COMPARABLE, arena_strdup(rp->arena, failure_of(rp, t->task)));
	else if (has_made(s, is))
		set(t, DIVERGED, "failed then, ends well now");
	else
		set(t, REPRODUCED,
		    arena_printf(rp->arena, "failed then as now: %s", failure_of(rp, t->task)));
	return 0;
}

/* Whether the task reads from a step that diverged. When its key is the same as in the past run,
 * its inputs are the same too. */
static bool follows_divergence(struct report *rp, const struct step *s,
			       const struct result_entry *was, const struct result_entry *is)
{
	if (rp->run->o->kind != RUN_CHAINED || (is && digest_eq(&was->key, &is->key)))
		return false;
	for (size_t i = 0; i < s->n_deps; i++)
		if (map_get_str(rp->diverged, rp->run->pipeline->steps[s->deps[i].step].name))
			return true;
	return false;
}

static int add_task(struct report *rp, const struct step *s, const struct result_entry *was,
		    struct err *err)
{
	const struct result_entry *is = map_get_str(rp->made, was->task);
	struct reproduced_task t = { .task = arena_strdup(rp->arena, was->task),
				     .step = arena_strdup(rp->arena, was->step),
				     .was_duration_ns = was->duration_ns,
				     .duration_ns = is ? is->duration_ns : 0 };

	if (judge(rp, s, was, is, &t, err) < 0)
		return -1;
	t.after_divergence = follows_divergence(rp, s, was, is);
	if (t.verdict == DIVERGED || t.after_divergence)
		*map_slot_str(rp->diverged, s->name) = rp;
	VEC_PUSH(&rp->tasks, t);
	return 0;
}

/* Tasks that only the new run has: `each` over a list that changed. */
static void add_extra(struct report *rp, const struct step *s, const struct map *known)
{
	struct results_cursor c;
	struct result_entry e;

	if (!results_seek_step(rp->is, s->name, &c))
		return;
	while (results_next(&c, &e) && str_eq(e.step, s->name)) {
		struct reproduced_task t = { .task = arena_strdup(rp->arena, e.task),
					     .step = s->name,
					     .duration_ns = e.duration_ns,
					     .verdict = DIVERGED,
					     .why = "there was no such task then" };

		if (map_get_str(known, e.task) || e.state == RESULT_SKIPPED ||
		    e.state == RESULT_BLOCKED)
			continue;
		t.step = arena_strdup(rp->arena, s->name);
		*map_slot_str(rp->diverged, s->name) = rp;
		VEC_PUSH(&rp->tasks, t);
	}
}

static int add_step(struct report *rp, const struct step *s, struct err *err)
{
	_cleanup_(map_freep) struct map *known = map_new();
	struct results_cursor c;
	struct result_entry e;

	if (s->finally) /* it acts, and isn't made again */
		return 0;
	if (results_seek_step(rp->was, s->name, &c))
		while (results_next(&c, &e) && str_eq(e.step, s->name)) {
			*map_slot_str(known, e.task) = rp;
			if (add_task(rp, s, &e, err) < 0)
				return -1;
		}
	add_extra(rp, s, known);
	return 0;
}

/* The verdict of the run. */

static enum compare_verdict verdict_of(const struct reproduced_task *t)
{
	switch (t->verdict) {
	case DIVERGED:
		return VERDICT_DIFFERENT;
	case NOT_COMPARABLE:
		return VERDICT_UNKNOWN;
	case REPRODUCED:
		return worst_of(t);
	default:
		return VERDICT_IDENTICAL;
	}
}

/* Tasks are in the order of the DAG, so the first that diverged is the first in the list. */
static void conclude(struct report *rp)
{
	struct reproduction *rep = rp->rep;

	rep->tasks = arena_alloc(rp->arena, (rp->tasks.n + 1) * sizeof(*rep->tasks));
	if (rp->tasks.n)
		memcpy(rep->tasks, rp->tasks.v, rp->tasks.n * sizeof(*rep->tasks));
	rep->n_tasks = rep->first = rp->tasks.n;
	rep->verdict = VERDICT_UNKNOWN; /* no tasks, no verdict */
	for (size_t i = 0; i < rep->n_tasks; i++)
		if (rep->tasks[i].verdict != NOT_SELECTED)
			rep->verdict = VERDICT_IDENTICAL;
	for (size_t i = rep->n_tasks; i-- > 0;) {
		rep->verdict = MAX(rep->verdict, verdict_of(&rep->tasks[i]));
		if (rep->tasks[i].verdict == DIVERGED)
			rep->first = i;
	}
}

static int fill(struct report *rp, struct err *err)
{
	const struct pipeline *p = rp->run->pipeline;
	struct attempt_row *rows;
	struct results_cursor c;
	struct result_entry e;
	size_t n;

	results_first(rp->is, &c);
	while (results_next(&c, &e))
		*map_slot_str(rp->made, e.task) = arena_memdup(rp->arena, &e, sizeof(e));
	if (record_run_attempts(rp->run->ctx->db, rp->run->row.rowid, rp->arena, &rows, &n, err) <
	    0)
		return -1;
	for (size_t i = 0; i < n; i++)
		*map_slot_str(rp->attempts, rows[i].task) = &rows[i];

	for (size_t i = 0; i < p->n_steps; i++)
		if (add_step(rp, &p->steps[p->order[i]], err) < 0)
			return -1;
	conclude(rp);
	return reproduce_environment(rp->run, rp->rep, err);
}

/* A directory for the normaliser's files during the comparison. Also removes directories that dead
 * engines left. */
static char *make_temp(const struct run *r, struct err *err)
{
	const char *state_dir = r->ctx->config->state_dir;
	char *dir = xasprintf("%s/compare-%d-XXXXXX", state_dir, (int)getpid());
	DIR *d = opendir(state_dir);
	struct dirent *e;
	int pid;

	while (d && fs_next(d, state_dir, &e, NULL) > 0)
		if (sscanf(e->d_name, "compare-%d-", &pid) == 1 && process_start_time(pid) == 0)
			fs_remove_tree_at(dirfd(d), e->d_name, NULL);
	if (d)
		closedir(d);
	if (mkdtemp(dir))
		return dir;
	err_errno(err, "cannot make %s", dir);
	free(dir);
	return NULL;
}

int reproduce_report(struct run *r, struct reproduction **ret, struct err *err)
{
	struct report rp = { .run = r, .arena = r->arena, .was = r->past->results };
	_cleanup_(freep) char *temp = NULL;
	struct results *is = NULL;
	int result;

	assert(r->past->results);
	if (r->row.state != RUN_SUCCEEDED && r->row.state != RUN_FAILED)
		return 0;
	temp = make_temp(r, err);
	if (!temp)
		return -1;
	if (results_open(r->ctx->store, &r->row.results, &is, err) < 0) {
		fs_remove_tree(temp, NULL);
		return -1;
	}
	rp.is = is;
	rp.made = map_new();
	rp.attempts = map_new();
	rp.diverged = map_new();
	rp.comparer =
		(struct comparer){ r->ctx->store,
				   r->ctx->steps_here ? r->ctx->steps_here : r->ctx->steps_program,
				   temp, r->arena };
	rp.rep = arena_alloc(r->arena, sizeof(*rp.rep));
	*rp.rep = (struct reproduction){ .original = r->past->hash,
					 .was = *r->past->manifest.run,
					 .is = r->row,
					 .mode = r->o->kind == RUN_CHAINED ? REPRODUCE_CHAINED
									   : REPRODUCE_ISOLATED };
	result = fill(&rp, err);
	if (result == 0)
		*ret = rp.rep;
	VEC_FREE(&rp.tasks);
	map_free(rp.made);
	map_free(rp.attempts);
	map_free(rp.diverged);
	results_free(is);
	fs_remove_tree(temp, NULL);
	return result;
}
