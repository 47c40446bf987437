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
 * Invariants: of two outputs with one place only the first is exported, and the second is an error.
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
	struct export_ask ask;
	char *place;
	int result;
	struct err err;
	struct export_done done;
	bool recorded; /* the last export to that place had this content */
	bool skipped;
};

struct exporter {
	struct run *run;
	struct arena *arena;
	struct pool *pool;
	struct map *places; /* place → label of the task that exports to it */
	VEC(struct job *) jobs;
	atomic_bool stop;
};

static int add_output(struct exporter *x, const struct plan_task *t, size_t i, struct err *err)
{
	struct run *r = x->run;
	const struct step_output *o = &r->pipeline->steps[t->step].outputs[i];
	_cleanup_(str_deinit) struct str label = { 0 };
	const char *uri;
	struct job *j;
	void **slot;

	if (plan_task_export(r->plan, t, i, x->arena, &uri, err) < 0)
		return -1;
	if (!uri)
		return 0;
	plan_task_label(r->plan, t, &label);
	j = arena_alloc(x->arena, sizeof(*j));
	j->x = x;
	j->ask = (struct export_ask){ .uri = uri,
				      .name = fs_basename(o->path),
				      .id = t->outputs[i],
				      .pipeline = r->pipeline->name,
				      .output = o->name,
				      .run = r->row.id,
				      .task = arena_strndup(x->arena, label.s, label.len),
				      .now_ns = run_wall_ns(r) };
	j->place = export_place(&j->ask);
	VEC_PUSH(&x->jobs, j);
	slot = map_slot_str(x->places, j->place);
	if (*slot) { /* two exports would mix in one place */
		j->result = err_set(&j->err, ERR_INVALID, "task %s is exported to the same place",
				    (char *)*slot);
	} else {
		int done = record_exported(r->ctx->db, j->place, &j->ask.id, err);

		if (done < 0)
			return -1;
		*slot = (void *)(uintptr_t)j->ask.task;
		j->recorded = done > 0;
		j->skipped = j->recorded && *j->place != '/' && t->state == TASK_STATE_HIT;
	}
	return 0;
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

	if (atomic_load(&j->x->stop) ||
	    (j->recorded && content_is_exported(j->x->run->ctx->store, &j->ask, &lost) > 0))
		j->skipped = true;
	else
		j->result = content_export(j->x->run->ctx->store, &j->ask, &j->done, &j->err);
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
					  .task = j->ask.task,
					  .output = j->ask.output,
					  .uri = j->place,
					  .id = j->ask.id,
					  .at_ns = run_wall_ns(x->run) };

		row.message = j->result < 0 ? j->err.msg : NULL;
		if (!j->skipped)
			r = record_export(db, &row, err);
	}
	return db_finish(db, r, err);
}

static void tell_failures(struct exporter *x)
{
	struct run *r = x->run;

	for (size_t i = 0; i < x->jobs.n; i++) {
		const struct job *j = x->jobs.v[i];
		const char *text;

		if (j->result == 0)
			continue;
		text = arena_printf(r->arena,
				    "store: output `%s` of %s could not be exported to %s: %s",
				    j->ask.output, j->ask.task, j->place, j->err.msg);
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

	/* A reproduction never replaces exported files. */
	if (!r->end.interrupted && !r->o->shell_step && !r->past)
		result = add_all(&x, err);
	if (result == 0 && x.jobs.n)
		result = carry_out(&x, err);
	if (result == 0 && x.jobs.n)
		result = write_down(&x, err);
	if (result == 0)
		tell_failures(&x);
	pool_free(x.pool);
	for (size_t i = 0; i < x.jobs.n; i++)
		free(x.jobs.v[i]->place);
	VEC_FREE(&x.jobs);
	map_free(x.places);
	arena_free(x.arena);
	return result;
}
