/* engine/serve/api/run/graph.c — a run as a graph of its steps, and as a timeline of its tasks.
 *
 * Both come from the view. The graph has one node a step, with counts of its tasks by state, so its
 * size doesn't depend on fan-out. The timeline has an array for each task, with times relative to
 * the run's start, so that ten thousand of them stay small. Of a larger run than BARS_MAX it has
 * only the tasks that began: those cost time, and a run of a million hits has a few of them.
 *
 * Threads: the pool's.
 */
#include <string.h>
#include "serve/api/run/views.h"

#define BARS_MAX 100000

static json_t *counts_json(const struct view_step *s)
{
	static const struct {
		const char *name;
		enum view_state state;
	} names[] = { { "waiting", VIEW_WAITING },   { "running", VIEW_RUNNING },
		      { "executed", VIEW_EXECUTED }, { "hits", VIEW_HIT },
		      { "failed", VIEW_FAILED },     { "skipped", VIEW_SKIPPED },
		      { "blocked", VIEW_BLOCKED },   { "cancelled", VIEW_CANCELLED } };
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		json_object_set_new(o, names[i].name,
				    json_integer((json_int_t)s->counts[names[i].state]));
	return o;
}

static json_t *needs_json(const struct run_view *v, const struct view_step *s)
{
	json_t *list = json_array();

	for (size_t i = 0; s->decl && i < s->decl->n_deps; i++)
		json_array_append_new(list,
				      facts_text(v->pipeline->steps[s->decl->deps[i].step].name));
	return list;
}

static json_t *step_json(const struct viewed *v, const struct view_step *s)
{
	const struct step *d = s->decl;
	const char *slash = strrchr(s->name, '/'), *uses = !d                   ? NULL
							   : d->program.builtin ? d->program.builtin
							   : d->program.step_file
								   ? d->program.step_file
								   : NULL;
	bool critical = false;
	json_t *o = json_object();

	for (size_t i = 0; i < s->n; i++)
		critical |= v->critical[s->first + i];
	json_object_set_new(o, "step", facts_text(s->name));
	json_object_set_new(o, "kind",
			    json_string(d && d->approve ? "approve"
					: uses          ? "uses"
							: "run"));
	json_object_set_new(o, "uses", facts_text(uses));
	json_object_set_new(o, "description", facts_text(d ? d->description : NULL));
	json_object_set_new(o, "needs", needs_json(v->v, s));
	json_object_set_new(o, "tasks", s->expanded ? json_integer((json_int_t)s->n) : json_null());
	json_object_set_new(o, "counts", counts_json(s));
	json_object_set_new(o, "started", facts_time(s->started_ns));
	json_object_set_new(o, "ended", facts_time(s->ended_ns));
	json_object_set_new(o, "duration_ns",
			    json_integer(s->ended_ns ? s->ended_ns - s->started_ns : 0));
	json_object_set_new(o, "critical", json_boolean(critical));
	json_object_set_new(o, "group",
			    slash ? json_name(s->name, (size_t)(slash - s->name)) : json_null());
	json_object_set_new(o, "finally", json_boolean(d && d->finally));
	return o;
}

static void add_edges(const struct run_view *v, const struct view_step *s, json_t *edges)
{
	for (size_t i = 0; s->decl && i < s->decl->n_deps; i++) {
		const struct step_dep *d = &s->decl->deps[i];
		const struct view_step *from = view_find_step(v, v->pipeline->steps[d->step].name);

		json_array_append_new(edges, json_pack("{s:o, s:o, s:b, s:I}", "from",
						       facts_text(v->pipeline->steps[d->step].name),
						       "to", facts_text(s->name), "data", d->data,
						       "tasks", (json_int_t)(from ? from->n : 0)));
	}
}

/* The steps that read the pipeline's input of this name. */
static json_t *readers_of(const struct pipeline *p, const char *input)
{
	json_t *list = json_array();

	for (size_t i = 0; p && i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		bool reads = s->tasks->each && !s->tasks->each->values &&
			     s->tasks->each->from.kind == REF_PIPELINE_INPUT &&
			     str_eq(p->inputs[s->tasks->each->from.index].name, input);

		for (size_t k = 0; k < s->n_inputs; k++)
			reads |= s->inputs[k].from.kind == REF_PIPELINE_INPUT &&
				 str_eq(p->inputs[s->inputs[k].from.index].name, input);
		if (reads)
			json_array_append_new(list, facts_text(s->name));
	}
	return list;
}

static json_t *inputs_json(const struct viewed *v, struct err *err)
{
	struct run_input_row *rows;
	json_t *list;
	size_t n;

	if (record_run_inputs(v->a->db, v->v->run.rowid, v->a->arena, &rows, &n, err) < 0)
		return NULL;
	list = json_array();
	for (size_t i = 0; i < n; i++) {
		const char *name = rows[i].name;

		if (!str_has_prefix(name, "input:"))
			continue;
		name += strlen("input:");
		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:o, s:o}", "name", facts_text(name),
						"origin", facts_text(rows[i].origin), "content",
						facts_content(&rows[i].id), "steps",
						readers_of(v->v->pipeline, name)));
	}
	return list;
}

void api_run_graph(struct api *a)
{
	json_t *steps, *edges, *inputs;
	struct err err = { 0 };
	struct viewed v;

	if (!api_view(a, &v))
		return;
	inputs = inputs_json(&v, &err);
	if (!inputs) {
		web_problem_err(a->x, &err);
	} else {
		steps = json_array();
		edges = json_array();
		for (size_t i = 0; i < v.v->n_steps; i++) {
			json_array_append_new(steps, step_json(&v, &v.v->steps[i]));
			add_edges(v.v, &v.v->steps[i], edges);
		}
		web_answer_json(a->x, 200,
				json_pack("{s:o, s:o, s:o, s:o}", "run", facts_text(v.v->run.id),
					  "steps", steps, "edges", edges, "inputs", inputs));
	}
	api_view_return(&v);
}

/* Timeline. */

struct bars {
	const struct viewed *v;
	json_t *rows;
	uint32_t *row_of; /* of each task: its row + 1; 0: none */
};

static bool has_bar(const struct run_view *v, const struct view_task *t)
{
	return t->n_attempts || v->n_tasks <= BARS_MAX;
}

static json_t *since(const struct run_view *v, int64_t at_ns)
{
	return at_ns ? json_integer(at_ns - v->run.started_ns) : json_null();
}

static json_t *bar_json(const struct bars *b, const struct view_task *t)
{
	const struct run_view *run = b->v->v;
	const struct view_need *need = &b->v->needs[t - run->tasks];
	/* What a waiting task waits for hasn't ended: its need isn't known yet. */
	uint32_t last =
		need->last && t->state != VIEW_WAITING ? b->row_of[need->last - run->tasks] : 0;
	json_t *row = json_array();

	json_array_append_new(row, facts_text(t->name));
	json_array_append_new(row, json_integer(t->step));
	json_array_append_new(row, since(run, t->n_attempts ? t->started_ns : 0));
	json_array_append_new(row, since(run, t->n_attempts ? t->ended_ns : 0));
	json_array_append_new(row, json_string(view_state_name(t->state)));
	json_array_append_new(
		row,
		json_integer(t->n_attempts ? MAX(t->first_started_ns - need->ready_ns, 0) : 0));
	json_array_append_new(row, last ? json_integer(last - 1) : json_null());
	json_array_append_new(row, json_integer(t->state == VIEW_HIT ? MAX(t->duration_ns, 0) : 0));
	return row;
}

static json_t *bars_json(const struct viewed *v)
{
	const struct run_view *run = v->v;
	struct bars b = { v, json_array(),
			  arena_alloc(v->a->arena, (run->n_tasks + 1) * sizeof(*b.row_of)) };
	uint32_t n = 0;

	for (size_t i = 0; i < run->n_tasks; i++)
		b.row_of[i] = has_bar(run, &run->tasks[i]) ? ++n : 0;
	for (size_t i = 0; i < run->n_tasks; i++)
		if (b.row_of[i])
			json_array_append_new(b.rows, bar_json(&b, &run->tasks[i]));
	return b.rows;
}

void api_run_timeline(struct api *a)
{
	json_t *steps, *critical;
	int64_t saved_ns = 0;
	struct viewed v;

	if (!api_view(a, &v))
		return;
	steps = json_array();
	critical = json_array();
	for (size_t i = 0; i < v.v->n_tasks; i++)
		saved_ns += v.v->tasks[i].state == VIEW_HIT ? v.v->tasks[i].duration_ns : 0;
	for (size_t i = 0; i < v.v->n_steps; i++)
		json_array_append_new(steps, facts_text(v.v->steps[i].name));
	for (size_t i = v.n_path; i-- > 0;)
		json_array_append_new(critical, facts_text(v.path[i]->name));
	web_answer_json(a->x, 200,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "start",
				  facts_time(v.v->run.started_ns), "end",
				  facts_time(v.v->run.ended_ns), "rows", bars_json(&v), "steps",
				  steps, "critical", critical, "saved_ns", (json_int_t)saved_ns));
	api_view_return(&v);
}
