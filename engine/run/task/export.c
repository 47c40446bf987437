/* engine/run/task/export.c — copies outputs with `export` to their places when all tasks have
 * ended.
 *
 * Outputs of every successful task are exported, executed or hit, unless the same content is there
 * already. The database records each export, and a mark at the place says whether it is still
 * there. A bucket's mark is read only when the task was executed. For a hit the record is enough,
 * so that a run that executes nothing makes no request for each task.
 *
 * The order: one job for each output (add_all()), the jobs on a pool of one worker (carry_out()),
 * one transaction with the results (write_down()), then the failures.
 *
 * A place in the project is reached without following links, and never lies in cairn's state. One
 * engine of the project at a time writes to places of this machine (`export.lock`).
 *
 * Invariants: of two outputs with one place only the first is exported, and the second is an error;
 * so is an output whose place lies in that of another.
 * An output that can't be exported makes the run fail; its task's result stays, so the next run
 * retries only the export. A reproduction, a shell and an interrupted run export nothing.
 *
 * Threads: the loop's, and the worker, which touches only its job, the store and `stop`. Not here:
 * writing to places (storage/export.c).
 */
#include "storage/export.h"
#include <stdatomic.h>
#include "base/os/fs.h"
#include "record/lineage/outside.h"
#include "run/internal.h"

struct job {
	struct exporter *x;
	struct export_request request;
	char *place;
	const char *shown; /* `place` as people write it: in the project, relative */
	int result;
	struct err err;
	struct export_done done;
	bool recorded; /* the last export to that place had this content */
	bool skipped;  /* it is there already, or the run was stopped */
	bool stopped;
};

struct exporter {
	struct run *run;
	struct arena *arena;
	struct pool *pool;
	struct map *places; /* place → label of the task that exports to it */
	const char *lock;   /* a file: one engine at a time writes to places of this machine */
	VEC(struct job *) jobs;
	atomic_bool stop;
};

/* Why the output can't be exported to its place; NULL: it can. */
static const char *place_problem(struct exporter *x, const struct job *j)
{
	const struct run *r = x->run;
	const char *state = r->ctx->config->state_dir,
		   *problem = export_place_problem(j->request.uri);
	const struct input_decl *in;

	if (problem)
		return problem;
	if (*j->place == '/' && (fs_is_inside(state, j->place) || fs_is_inside(j->place, state)))
		return "it belongs to cairn's own state";
	in = j->request.within ? export_place_meets(r->pipeline->inputs, r->pipeline->n_inputs,
						    j->shown, true)
			       : NULL;
	return in && !str_eq(in->uri, ".")
		       ? arena_printf(x->arena,
				      "the input `%s` is there, and the next run would read it",
				      in->uri)
		       : NULL;
}

static int add_output(struct exporter *x, const struct plan_task *t, size_t i, struct err *err)
{
	struct run *r = x->run;
	const struct step_output *o = &r->pipeline->steps[t->step].outputs[i];
	const char *root = r->ctx->config->project_root, *uri, *problem;
	_cleanup_(str_deinit) struct str label = { 0 };
	_cleanup_(freep) char *below = NULL;
	struct job *j;
	void **slot;
	int done;

	if (plan_task_export(r->plan, t, i, x->arena, &uri, err) < 0)
		return -1;
	if (!uri)
		return 0;
	plan_task_label(r->plan, t, &label);
	j = arena_alloc(x->arena, sizeof(*j));
	j->x = x;
	j->request = (struct export_request){ .uri = uri,
					      .within = export_place_is_path(uri) ? root : NULL,
					      .name = fs_basename(o->path),
					      .id = t->outputs[i],
					      .pipeline = r->pipeline->name,
					      .output = o->name,
					      .run = r->row.id,
					      .task = arena_strndup(x->arena, label.s, label.len),
					      .now_ns = run_wall_ns(r) };
	j->place = export_place(&j->request);
	if (j->request.within)
		below = fs_relative(root, j->place);
	j->shown = below ? arena_strdup(x->arena, below) : j->place;
	VEC_PUSH(&x->jobs, j);
	problem = place_problem(x, j);
	if (problem) {
		j->result = err_set(&j->err, ERR_INVALID, "%s", problem);
		return 0;
	}
	slot = map_slot_str(x->places, j->place);
	if (*slot) { /* two exports would mix in one place */
		j->result = err_set(&j->err, ERR_INVALID, "task %s is exported to the same place",
				    (char *)*slot);
		return 0;
	}
	done = record_exported(r->ctx->db, j->place, &j->request.id, err);
	if (done < 0)
		return -1;
	*slot = (void *)(uintptr_t)j->request.task;
	j->recorded = done > 0;
	j->skipped = j->recorded && *j->place != '/' && t->state == TASK_STATE_HIT;
	return 0;
}

/* A directory that is replaced as a whole can't hold another export. */
static void find_nested(struct exporter *x)
{
	for (size_t i = 0; i < x->jobs.n; i++) {
		struct job *j = x->jobs.v[i];

		for (size_t n = strlen(j->place); *j->place == '/' && n > 1 && j->result == 0;) {
			const char *other;

			while (n > 1 && j->place[n - 1] != '/')
				n--;
			n--;
			other = n ? map_get(x->places, j->place, n) : NULL;
			if (other)
				j->result = err_set(&j->err, ERR_INVALID,
						    "it lies in the place to which task %s is "
						    "exported",
						    other);
		}
	}
}

static int add_all(struct exporter *x, struct err *err)
{
	struct run *r = x->run;

	for (size_t s = 0; s < plan_n_steps(r->plan); s++) {
		const struct step *decl = &r->pipeline->steps[s];
		bool any = false;

		for (size_t k = 0; k < decl->n_outputs; k++)
			any |= decl->outputs[k].export != NULL;
		for (size_t i = 0; any && i < plan_n_tasks(r->plan, s); i++) {
			const struct plan_task *t = plan_task_at(r->plan, s, i);

			if ((t->state != TASK_STATE_HIT && t->state != TASK_STATE_DONE) ||
			    !t->outputs || !plan_is_last_round(r->plan, t))
				continue;
			for (size_t k = 0; k < decl->n_outputs; k++)
				if (add_output(x, t, k, err) < 0)
					return -1;
		}
	}
	return 0;
}

/* On the pool's thread. */
static void export_one(void *arg)
{
	struct job *j = arg;
	struct err lost = { 0 }; /* dropped: the export itself will report it */
	_cleanup_(fd_closep) int lock = -1;

	if (*j->place == '/' && (j->result = fs_lock_path(j->x->lock, true, &lock, &j->err)) < 0)
		return;
	if (atomic_load(&j->x->stop))
		j->skipped = j->stopped = true;
	else if (j->recorded && content_is_exported(j->x->run->ctx->store, &j->request, &lost) > 0)
		j->skipped = true;
	else
		j->result = content_export(j->x->run->ctx->store, &j->request, &j->done, &j->err);
}

static void export_done(void *arg)
{
}

static int carry_out(struct exporter *x, struct err *err)
{
	struct run *r = x->run;
	bool any = false;

	for (size_t i = 0; i < x->jobs.n; i++)
		any |= x->jobs.v[i]->result == 0 && !x->jobs.v[i]->skipped;
	if (!any)
		return 0;
	if (pool_new(r->ctx->loop, loop_clock(r->ctx->loop)->is_virtual ? 0 : 1, &x->pool, err) < 0)
		return -1;
	for (size_t i = 0; i < x->jobs.n; i++)
		if (x->jobs.v[i]->result == 0 && !x->jobs.v[i]->skipped)
			pool_submit(x->pool, export_one, export_done, x->jobs.v[i]);
	while (pool_pending(x->pool)) {
		if (loop_turn(r->ctx->loop, -1, err) < 0)
			return -1;
		if (r->end.interrupted)
			atomic_store(&x->stop, true); /* the current export is finished */
	}
	return 0;
}

static int write_down(struct exporter *x, struct err *err)
{
	struct db *db = x->run->ctx->db;
	int r = 0;

	if (db_begin(db, err) < 0)
		return -1;
	for (size_t i = 0; i < x->jobs.n && r == 0; i++) {
		const struct job *j = x->jobs.v[i];
		struct export_row row = { .run = x->run->row.rowid,
					  .task = j->request.task,
					  .output = j->request.output,
					  .uri = j->place,
					  .id = j->request.id,
					  .at_ns = run_wall_ns(x->run) };

		row.message = j->result < 0 ? j->err.msg : NULL;
		if (!j->skipped)
			r = record_export(db, &row, err);
	}
	return db_finish(db, r, err);
}

static void tell(struct exporter *x)
{
	struct run *r = x->run;

	for (size_t i = 0; i < x->jobs.n; i++) {
		const struct job *j = x->jobs.v[i];
		const char *text;

		if (j->result == 0 && !j->stopped)
			OBSERVE(r, exported, j->request.task, j->request.output, j->shown);
		if (j->result == 0)
			continue;
		text = arena_printf(r->arena,
				    "store: output `%s` of %s could not be exported to %s: %s",
				    j->request.output, j->request.task, j->shown, j->err.msg);
		/* The place outside is wrong, but the store is fine. */
		r->end.failed = r->end.itself = true;
		if (r->row.message)
			OBSERVE(r, notice, text);
		else
			r->row.message = text;
	}
}

int run_export(struct run *r, struct err *err)
{
	struct exporter x = { .run = r, .arena = arena_new(), .places = map_new() };
	int result = 0;

	x.lock = arena_printf(x.arena, "%s/export.lock", r->ctx->config->state_dir);
	/* A reproduction never replaces exported files. */
	if (!r->end.interrupted && !r->o->shell_step && !r->past)
		result = add_all(&x, err);
	if (result == 0)
		find_nested(&x);
	if (result == 0 && x.jobs.n)
		result = carry_out(&x, err);
	if (result == 0 && x.jobs.n)
		result = write_down(&x, err);
	if (result == 0)
		tell(&x);
	pool_free(x.pool);
	for (size_t i = 0; i < x.jobs.n; i++)
		free(x.jobs.v[i]->place);
	VEC_FREE(&x.jobs);
	map_free(x.places);
	arena_free(x.arena);
	return result;
}
