/* engine/run/view/tasks.c — a run as its steps and tasks.
 *
 * view_open() collects tasks from one of three places: the results table of a run that has ended by
 * itself; else the file of its engine (live.c); else only the attempts. Then add_attempt() goes
 * through the attempts in the database, which are newer than that file, and conclude() decides each
 * task's state. At last the tasks are put next to the others of their step.
 *
 * Invariants: names of tasks are unique in a view. Every task has a step. A task that has no
 * attempt without an end isn't running, and none is running when the run's engine is gone. Memory:
 * about 200 bytes a task, besides the table.
 *
 * Threads: the caller's; the view doesn't change afterwards. Not here: who needs what (needs.c),
 * JSON for the API (serve/api/).
 */
#include "run/view/tasks.h"
#include <assert.h>
#include <string.h>
#include "run/reproduce/reproduce.h"
#include "run/run.h"

static const char *const state_names[VIEW_STATES] = {
	"waiting", "running", "executed", "hit", "failed", "skipped", "blocked", "cancelled"
};

const char *view_state_name(enum view_state s)
{
	assert((unsigned)s < VIEW_STATES);
	return state_names[s];
}

bool view_state_parse(const char *name, enum view_state *ret)
{
	for (size_t i = 0; i < VIEW_STATES; i++)
		if (str_eq(state_names[i], name)) {
			*ret = (enum view_state)i;
			return true;
		}
	return false;
}

/* Collecting. */

/* What a task's last attempt says. */
struct last_attempt {
	bool running, failed, cancelled, succeeded;
};

struct collecting {
	struct run_view *v;
	VEC(struct view_step) steps;
	VEC(struct view_task) tasks;
	struct map *by_name;    /* task → index + 1 */
	struct map *step_names; /* step → index + 1 */
	bool live;              /* states of tasks without a table are known */
	bool left;              /* attempts without an end are lost */
	/* Of the task with the same index. */
	VEC(struct last_attempt) last;
};

static uint32_t step_index(struct collecting *c, const char *name)
{
	void **slot = map_slot_str(c->step_names, name);

	if (!*slot) {
		struct view_step *s = VEC_ADD(&c->steps);

		s->name = arena_strdup(c->v->arena, name);
		s->expanded = true;
		*slot = (void *)(uintptr_t)c->steps.n;
	}
	return (uint32_t)((uintptr_t)*slot - 1);
}

/* The new or known task of this name. */
static size_t task_index(struct collecting *c, const char *name, const char *step)
{
	bool is_new;
	void **slot = map_slot(c->by_name, name, strlen(name), &is_new);

	if (is_new) {
		struct view_task *t = VEC_ADD(&c->tasks);

		VEC_ADD(&c->last);
		t->name = arena_strdup(c->v->arena, name);
		t->step = step_index(c, step);
		*slot = (void *)(uintptr_t)c->tasks.n;
	}
	return (size_t)((uintptr_t)*slot - 1);
}

/* Valid until the next one. */
static struct view_task *known_task(struct collecting *c, const char *name, const char *step)
{
	size_t i = task_index(c, name, step);

	return &c->tasks.v[i];
}

/* Steps of the pipeline in topological order, so that those without a task are there. */
static void add_declared(struct collecting *c)
{
	const struct pipeline *p = c->v->pipeline;

	for (size_t i = 0; p && i < p->n_steps; i++) {
		const struct step *s = &p->steps[p->order[i]];
		uint32_t k = step_index(c, s->name);

		c->steps.v[k].decl = s;
		c->steps.v[k].expanded = false;
	}
}

static void add_result(struct collecting *c, const struct results_cursor *place,
		       const struct result_entry *e)
{
	static const enum view_state states[] = { [RESULT_SUCCEEDED] = VIEW_HIT,
						  [RESULT_FAILED] = VIEW_FAILED,
						  [RESULT_SKIPPED] = VIEW_SKIPPED,
						  [RESULT_BLOCKED] = VIEW_BLOCKED };
	struct view_task *t = known_task(c, e->task, e->step);

	t->place = *place;
	t->key = e->key;
	t->duration_ns = e->duration_ns;
	t->state = (unsigned)e->state < ARRAY_LEN(states) ? states[e->state] : VIEW_BLOCKED;
	c->steps.v[t->step].expanded = true;
}

static int add_results(struct collecting *c, struct store *s, struct err *err)
{
	struct results_cursor at, before;
	struct result_entry e;

	if (results_open(s, &c->v->run.results, &c->v->results, err) < 0)
		return err_wrap(err, "results of run %s", c->v->run.id);
	results_first(c->v->results, &at);
	for (before = at; results_next(&at, &e); before = at)
		add_result(c, &before, &e);
	return 0;
}

static void add_live(struct collecting *c, const struct live *l)
{
	static const struct {
		enum live_state live;
		enum view_state view;
	} states[] = { { LIVE_HIT, VIEW_HIT },         { LIVE_DONE, VIEW_EXECUTED },
		       { LIVE_FAILED, VIEW_FAILED },   { LIVE_SKIPPED, VIEW_SKIPPED },
		       { LIVE_BLOCKED, VIEW_BLOCKED }, { LIVE_CANCELLED, VIEW_CANCELLED } };

	for (size_t i = 0; i < l->n_steps; i++) {
		uint32_t k = step_index(c, l->steps[i].name);

		c->steps.v[k].expanded = l->steps[i].expanded;
		for (size_t n = 0; n < l->steps[i].n_tasks; n++) {
			const struct live_task *from = &l->steps[i].tasks[n];
			struct view_task *t = known_task(c, from->name, l->steps[i].name);

			t->key = from->key;
			t->duration_ns = from->duration_ns;
			t->phase = from->state;
			for (size_t s = 0; s < ARRAY_LEN(states); s++)
				if (states[s].live == from->state)
					t->state = states[s].view;
		}
	}
}

static int add_attempt(void *arg, const struct attempt_end *e, struct err *err)
{
	struct collecting *c = arg;
	size_t i = task_index(c, e->task, e->step);
	struct view_task *t = &c->tasks.v[i];

	if (!t->n_attempts++)
		t->first_started_ns = e->started_ns;
	t->attempt = e->id;
	t->started_ns = e->started_ns;
	t->ended_ns = e->ended_ns;
	t->key = e->key;
	c->steps.v[t->step].expanded = true;
	c->last.v[i] = (struct last_attempt){
		.running = !e->ended_ns,
		.succeeded = e->ended_ns && e->failure == FAILURE_NONE,
		.cancelled = e->failure == FAILURE_CANCELLED,
		.failed = e->failure != FAILURE_NONE,
	};
	return 0;
}

/* Whether the engine was about to try it again when it last told of it. */
static bool is_tried_again(const struct view_task *t)
{
	return t->phase && strchr("wrklmey", t->phase);
}

static void conclude(struct collecting *c, size_t i)
{
	struct view_task *t = &c->tasks.v[i];
	const struct last_attempt *last = &c->last.v[i];
	bool ended = c->v->run.results.kind != CONTENT_NONE;

	if (last->succeeded || (t->n_attempts && t->state == VIEW_EXECUTED))
		t->duration_ns = t->ended_ns - t->started_ns;
	if (ended) {
		if (t->state == VIEW_HIT && last->succeeded)
			t->state = VIEW_EXECUTED;
		else if (last->cancelled && (t->state == VIEW_FAILED || t->state == VIEW_BLOCKED))
			t->state = VIEW_CANCELLED;
	} else if (last->running) {
		t->state = c->left ? VIEW_WAITING : VIEW_RUNNING;
		t->phase = 0;
	} else if (last->succeeded) {
		t->state = VIEW_EXECUTED;
	} else if (last->cancelled) {
		t->state = VIEW_CANCELLED;
	} else if (last->failed && t->state == VIEW_WAITING && !is_tried_again(t)) {
		t->state = VIEW_FAILED;
	}
	if (c->v->run.state == RUN_CANCELLED && t->state == VIEW_WAITING)
		t->state = t->n_attempts ? VIEW_CANCELLED : VIEW_BLOCKED;
}

/* Puts the tasks of each step next to one another, in the order of the steps. */
static void arrange(struct collecting *c)
{
	struct run_view *v = c->v;
	size_t *next = arena_alloc(v->arena, (c->steps.n + 1) * sizeof(*next)), at = 0;

	for (size_t i = 0; i < c->tasks.n; i++)
		c->steps.v[c->tasks.v[i].step].n++;
	for (size_t i = 0; i < c->steps.n; i++) {
		c->steps.v[i].first = next[i] = at;
		at += c->steps.v[i].n;
	}
	v->n_tasks = c->tasks.n;
	v->tasks = arena_alloc(v->arena, (v->n_tasks + 1) * sizeof(*v->tasks));
	for (size_t i = 0; i < c->tasks.n; i++) {
		const struct view_task *t = &c->tasks.v[i];

		*map_slot_str(c->by_name, t->name) = &v->tasks[next[t->step]];
		v->tasks[next[t->step]++] = *t;
	}
	v->by_name = c->by_name;
	v->step_names = c->step_names;
	c->by_name = c->step_names = NULL;
	VEC_TO_ARENA(&c->steps, v->arena, &v->steps, &v->n_steps);
}

static void sum_up(struct run_view *v)
{
	for (size_t i = 0; i < v->n_tasks; i++) {
		const struct view_task *t = &v->tasks[i];
		struct view_step *s = &v->steps[t->step];

		s->counts[t->state]++;
		if (t->first_started_ns && (!s->started_ns || t->first_started_ns < s->started_ns))
			s->started_ns = t->first_started_ns;
		s->ended_ns = MAX(s->ended_ns, t->ended_ns);
	}
	for (size_t i = 0; i < v->n_steps; i++)
		if (v->steps[i].counts[VIEW_RUNNING] || v->steps[i].counts[VIEW_WAITING] ||
		    !v->steps[i].expanded)
			v->steps[i].ended_ns = 0;
}

static void copy_run(struct run_view *v, const struct run_row *run)
{
	struct run_row *r = &v->run;
	const char **const texts[] = { &r->id,           &r->pipeline,       &r->path,
				       &r->message,      &r->schedule,       &r->params_json,
				       &r->options_json, &r->git.commit,     &r->git.author,
				       &r->git.remote,   &r->git.submodules, &r->engine.host };

	*r = *run;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (*texts[i])
			*texts[i] = arena_strdup(v->arena, *texts[i]);
}

static int collect(struct collecting *c, struct db *db, struct store *s, const char *state_dir,
		   struct err *err)
{
	_cleanup_(arena_freep) struct arena *scratch = arena_new();
	struct run_view *v = c->v;
	struct live live;

	if (s && v->run.pipeline_blob.kind &&
	    pipeline_files_load(s, &v->run.pipeline_blob, v->run.path, &v->pipeline, NULL) < 0)
		v->pipeline = NULL;
	add_declared(c);
	if (v->run.results.kind ? add_results(c, s, err) < 0 : false)
		return -1;
	if (!v->run.results.kind && live_read(state_dir, v->run.id, scratch, &live))
		add_live(c, &live);
	if (record_each_end(db, v->run.rowid, add_attempt, c, err) < 0)
		return -1;
	for (size_t i = 0; i < c->tasks.n; i++)
		conclude(c, i);
	return 0;
}

int view_open(struct db *db, struct store *s, const char *state_dir, const struct run_row *run,
	      struct run_view **ret, struct err *err)
{
	struct run_view *v = xcalloc(1, sizeof(*v));
	struct collecting c = { .v = v, .by_name = map_new(), .step_names = map_new() };
	int r;

	assert(s || !run->results.kind);
	v->arena = arena_new();
	copy_run(v, run);
	c.left = run_is_left(run);
	r = collect(&c, db, s, state_dir, err);
	if (r == 0) {
		arrange(&c);
		sum_up(v);
		*ret = v;
	} else {
		view_free(v);
	}
	VEC_FREE(&c.steps);
	VEC_FREE(&c.tasks);
	VEC_FREE(&c.last);
	map_free(c.by_name);
	map_free(c.step_names);
	return r;
}

void view_free(struct run_view *v)
{
	if (!v)
		return;
	map_free(v->by_name);
	map_free(v->step_names);
	results_free(v->results);
	pipeline_free(v->pipeline);
	arena_free(v->arena);
	free(v);
}

/* Finding. */

const struct view_task *view_find(const struct run_view *v, const char *task)
{
	return map_get_str(v->by_name, task);
}

const struct view_step *view_find_step(const struct run_view *v, const char *name)
{
	uintptr_t i = (uintptr_t)map_get_str(v->step_names, name);

	return i ? &v->steps[i - 1] : NULL;
}

/* On demand. */

static bool has_key(const struct view_task *t)
{
	static const struct digest none;

	return !digest_eq(&t->key, &none);
}

int view_results(const struct run_view *v, struct db *db, const struct view_task *t,
		 struct arena *arena, struct facts_task *ret, struct err *err)
{
	struct cached_result made = { 0 };
	struct results_cursor at = t->place;
	struct result_entry e;
	int r = 0;

	if (at.r && results_next(&at, &e)) {
		facts_of_entry(v->results, &e, arena, ret);
		return 0;
	}
	*ret = (struct facts_task){ .task = t->name,
				    .step = v->steps[t->step].name,
				    .key = t->key,
				    .duration_ns = t->duration_ns };
	ret->state = t->state == VIEW_EXECUTED || t->state == VIEW_HIT ? RESULT_SUCCEEDED
		     : t->state == VIEW_FAILED                         ? RESULT_FAILED
		     : t->state == VIEW_SKIPPED                        ? RESULT_SKIPPED
								       : RESULT_BLOCKED;
	if (t->state == VIEW_HIT && has_key(t))
		r = record_lookup(db, &t->key, arena, &made, err);
	else if (t->attempt)
		r = record_outputs(db, t->attempt, arena, &made, err);
	ret->outputs = made.outputs;
	ret->n_outputs = made.n_outputs;
	ret->metrics = made.metrics;
	ret->n_metrics = made.n_metrics;
	return MIN(r, 0);
}

int view_made_in(const struct run_view *v, struct db *db, const struct view_task *t,
		 struct arena *arena, const char **ret, struct err *err)
{
	struct cached_result hit;
	struct attempt_row a;
	struct run_row of;
	int r = has_key(t) ? record_lookup(db, &t->key, arena, &hit, err) : 0;

	*ret = NULL;
	if (r > 0)
		r = record_attempt(db, hit.attempt, arena, &a, &of, err);
	if (r > 0)
		*ret = of.id;
	return MIN(r, 0);
}

/* How the tasks of a step ended. */
static bool all_of(const struct view_step *s, enum view_state a, enum view_state b)
{
	return s->n && s->counts[a] + (a == b ? 0 : s->counts[b]) == s->n;
}

/* Of a skipped or blocked task. The first need that explains it. */
static const char *reason_of_end(const struct run_view *v, const struct view_task *t,
				 const struct step *s, struct arena *arena)
{
	for (size_t i = 0; i < s->n_deps; i++) {
		const struct step *of_step = &v->pipeline->steps[s->deps[i].step];
		bool content = s->deps[i].data || s->deps[i].metrics;
		const char *needed = of_step->name;
		const struct view_step *e = view_find_step(v, needed);
		const char *of = e && e->n > 1 ? "a task of " : "";

		if (!e || (!content && (!s->deps[i].order || s->finally)))
			continue; /* it didn't hold the task up */
		if (t->state == VIEW_SKIPPED && content && e->counts[VIEW_FAILED] &&
		    of_step->policy->continue_on_error && all_of(e, VIEW_SKIPPED, VIEW_FAILED))
			return arena_printf(arena,
					    "%s`%s` failed (`continue_on_error`) and made nothing "
					    "to read",
					    of, needed);
		if (t->state == VIEW_SKIPPED && content && all_of(e, VIEW_SKIPPED, VIEW_SKIPPED))
			return arena_printf(arena, "`%s` was skipped", needed);
		if (t->state == VIEW_BLOCKED && e->counts[VIEW_FAILED] &&
		    !of_step->policy->continue_on_error)
			return arena_printf(arena, "%s`%s` failed", of, needed);
		if (t->state == VIEW_BLOCKED && e->counts[VIEW_BLOCKED])
			return arena_printf(arena, "%s`%s` wasn't run", of, needed);
	}
	return t->state == VIEW_BLOCKED ? "the run stopped before it began"
	       : s->condition           ? "its `if` was false"
					: "what it needs was skipped";
}

static const char *reason_to_wait(const struct run_view *v, const struct view_task *t,
				  const struct step *s, struct arena *arena)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	switch (t->phase) {
	case LIVE_BEHIND:
		return "another task with the same key goes first";
	case LIVE_LINE:
		return "waits for a place in its concurrency group";
	case LIVE_ROOM:
		return "waits for room: other tasks of this run go first";
	case LIVE_ELSEWHERE:
		return "another run executes it, or its environment is being made";
	case LIVE_RETRY:
		return "failed, and waits for its retry";
	case LIVE_READY:
		return "ready to begin";
	case LIVE_TAKEN:
		return "begins";
	default:
		break;
	}
	if (!s)
		return NULL;
	if (s->finally)
		return "begins when all of `steps` have ended";
	for (size_t i = 0; i < s->n_deps; i++) {
		const struct view_step *e =
			view_find_step(v, v->pipeline->steps[s->deps[i].step].name);

		if (e && (!e->expanded || e->counts[VIEW_WAITING] || e->counts[VIEW_RUNNING]))
			str_addf(&out, "%s%s", out.len ? ", " : "needs ", e->name);
	}
	return out.len ? arena_strndup(arena, out.s, out.len) : NULL;
}

const char *view_reason(const struct run_view *v, const struct view_task *t, struct arena *arena)
{
	const struct step *s = v->steps[t->step].decl;

	if (t->state == VIEW_WAITING)
		return reason_to_wait(v, t, s, arena);
	if (t->state == VIEW_FAILED && !t->n_attempts)
		return "its result on record doesn't pass its gate, or doesn't end its loop";
	if ((t->state == VIEW_SKIPPED || t->state == VIEW_BLOCKED) && s)
		return reason_of_end(v, t, s, arena);
	return NULL;
}

int view_spared_json(const struct run_view *v, struct db *db, json_t **ret, struct err *err)
{
	json_t *list = json_array();

	for (size_t i = 0; v->results && i < v->n_tasks; i++) {
		_cleanup_(arena_freep) struct arena *arena = NULL;
		const struct view_task *t = &v->tasks[i];
		bool hit = t->state == VIEW_HIT;
		const char *run = NULL;

		if (t->n_attempts)
			continue;
		arena = arena_new();
		if (hit && view_made_in(v, db, t, arena, &run, err) < 0) {
			json_decref(list);
			return -1;
		}
		json_array_append_new(
			list,
			json_pack("{s:o, s:o, s:s, s:o, s:o, s:I}", "task", facts_text(t->name),
				  "step", facts_text(v->steps[t->step].name), "state",
				  view_state_name(t->state), "made_by", facts_text(run), "reason",
				  facts_text(view_reason(v, t, arena)), "duration_ns",
				  (json_int_t)(hit ? t->duration_ns : 0)));
	}
	*ret = list;
	return 0;
}
