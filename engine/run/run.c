/* engine/run/run.c — a run from its start, or from where its engine died, to its end.
 *
 * run_start(), run_begin() (a reproduction) and run_resume() differ in where params, pins and the
 * row come from; all go on to execute(). It connects the runner's events, hooks run_turn() into the
 * loop, and turns the loop until `end.done`. Then earlier_close() and run_finish() write the end.
 *
 * Invariants: the row and the pins are committed before the first turn. An error that the run can't
 * survive is in `end.fatal`: attempts on this machine are stopped, those of a durable runner go on,
 * and the row says RUN_INTERRUPTED with the reason, so that the run can be resumed. A dead
 * attempt's workspace is cleared only when its engine is known to be gone (clear_leftover()).
 *
 * Threads: the loop's. Not here: moving tasks (turn.c, start.c), writing the end (finish.c),
 * judging a reproduction (reproduce/).
 */
#include <signal.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/os/process/process.h"
#include "base/os/stop.h"
#include "record/rows/firings.h"
#include "run/internal.h"
#include "run/view/live.h"
#include "run/view/watched.h"

/* Init and deinit. */

void run_init(struct run *r, const struct run_context *ctx, const struct pipeline *p,
	      const struct run_options *o, struct arena *arena)
{
	*r = (struct run){
		.ctx = ctx, .pipeline = p, .o = o, .arena = arena, .estimate.remaining_ns = -1
	};
	for (size_t i = 0; i < PHASES; i++)
		r->tasks.in[i].phase = i;
	r->tasks.by_attempt = map_new();
	r->tasks.by_key = map_new();
	r->tasks.groups = map_new();
	r->earlier.done = map_new();
	r->earlier.open = map_new();
	r->earlier.past = map_new();
	r->params = arena_alloc(arena, (pipeline_n_values(p) + 1) * sizeof(*r->params));
	slots_init(&r->slots, ctx->config, o->jobs, ctx->runner && ctx->runner->ops->durable);
}

void run_deinit(struct run *r)
{
	loop_remove_idle(r->ctx->loop, run_turn, r);
	live_end(r);
	watched_deinit(r);
	if (r->signals.listens)
		stop_unlisten();
	for (size_t i = 0; i < ARRAY_LEN(r->signals.sources); i++)
		loop_remove(r->ctx->loop, r->signals.sources[i]);
	loop_remove(r->ctx->loop, r->tasks.look_again);
	loop_remove(r->ctx->loop, r->end.finally_timer);
	loop_remove(r->ctx->loop, r->approvals.timer);
	environments_free(r);
	near_free(r->near);
	publisher_free(r->publisher);
	for (size_t i = 0; i < PHASES; i++)
		for (struct task *t = r->tasks.in[i].first; t; t = t->after) {
			if (i == PHASE_BACKING_OFF)
				loop_remove(r->ctx->loop, t->history->timer);
			attempt_free(t->attempt);
		}
	VEC_FREE(&r->journal.changed);
	VEC_FREE(&r->journal.to_close);
	VEC_FREE(&r->journal.settled);
	map_free(r->tasks.by_attempt);
	map_free(r->tasks.by_key);
	map_free(r->tasks.groups);
	map_free(r->earlier.done);
	map_free(r->earlier.open);
	map_free(r->earlier.past);
	map_free(r->earlier.steps);
	map_free(r->approvals.past);
	plan_free(r->plan);
}

/* Planning. */

static int run_result(void *arg, const char *task, const struct digest *key, int64_t *ret_attempt)
{
	struct run *r = arg;
	struct attempt_row *a = map_get_str(r->earlier.done, task);

	if (!a || !digest_eq(&a->key, key) || earlier_acts_again(r, a))
		return 0;
	*ret_attempt = a->id;
	return 1;
}

static bool begun(void *arg, const char *task)
{
	return earlier_stands(arg, task);
}

static void spared(void *arg, const char *task, enum task_state state, int64_t duration_ns)
{
	struct run *r = arg;

	OBSERVE(r, task_spared, task,
		state == TASK_STATE_HIT       ? OUTCOME_HIT
		: state == TASK_STATE_SKIPPED ? OUTCOME_SKIPPED
					      : OUTCOME_BLOCKED,
		duration_ns);
}

struct plan_context run_plan_context(struct run *r)
{
	return (struct plan_context){ .config = r->past ? &r->past->config : r->ctx->config,
				      .pipeline = r->pipeline,
				      .params = r->params,
				      .store = r->ctx->store,
				      .db = r->ctx->db,
				      .ahead = r->ctx->ahead,
				      .cache = r->ctx->cache,
				      .steps_program = r->ctx->steps_program,
				      .launch_program = r->ctx->launch_program,
				      .images = r->ctx->images,
				      .run_id = &r->row.id,
				      .schedule = r->o->firing.times,
				      .arg = r };
}

static int make_plan(struct run *r, const struct plan_pin *pins, size_t n_pins, struct err *err)
{
	const struct run_options *o = r->o;
	struct plan_context pc = run_plan_context(r);
	struct plan_options po = { .select = o->select,
				   .hash_threads = r->ctx->hash_threads,
				   .may_stand =
					   o->kind == RUN_NEW && !store_is_shared(r->ctx->store) };
	static const char *const everything[] = { "*" };
	const char *shell[] = { o->shell_step };
	size_t n;

	pc.pins = pins;
	pc.n_pins = n_pins;
	pc.run_result = map_len(r->earlier.done) ? run_result : NULL;
	pc.begun = map_len(r->earlier.past) ? begun : NULL;
	pc.again = r->past != NULL;
	/* A reproduction tells of all its tasks at its end. */
	pc.spared = !r->past && r->ctx->observer && r->ctx->observer->task_spared ? spared : NULL;
	if (o->kind == RUN_ISOLATED) {
		pc.recorded = r->past->results;
		po.only = o->tasks.only;
		po.n_only = o->tasks.n_only;
		po.skip = o->tasks.skip;
		po.n_skip = o->tasks.n_skip;
	} else if (o->kind == RUN_CHAINED) {
		po.select.force = everything;
		po.select.n_force = 1;
	}
	if (o->shell_step) { /* execute that task even if cached, and what it needs */
		char *step = arena_strndup(r->arena, o->shell_step, strcspn(o->shell_step, "["));

		if (pipeline_find_steps(r->pipeline, step, &n) &&
		    !pipeline_find_step(r->pipeline, step))
			return err_set(err, ERR_INVALID,
				       "`%s` uses a pipeline: name one of its steps, as %s", step,
				       pipeline_find_steps(r->pipeline, step, &n)->name);
		po.select.targets = arena_memdup(r->arena, shell, sizeof(shell));
		po.select.n_targets = 1;
		shell[0] = step;
		po.select.force = arena_memdup(r->arena, shell, sizeof(shell));
		po.select.n_force = 1;
	}
	for (size_t i = 0; o->shell_step && i < r->pipeline->n_steps; i++)
		if (r->pipeline->steps[i].approve &&
		    str_eq(r->pipeline->steps[i].name, po.select.targets[0]))
			return err_set(err, ERR_INVALID,
				       "`%s` has no workspace for a shell: it waits for a person",
				       po.select.targets[0]);
	if (o->n_audit && r->ctx->runner->ops->durable)
		return err_set(err, ERR_INVALID,
			       "--audit watches programs of this machine; on %s nothing is told",
			       r->ctx->runner->ops->name);
	for (size_t i = 0; i < o->n_audit; i++)
		if (!str_eq(o->audit[i], "*") && !pipeline_find_steps(r->pipeline, o->audit[i], &n))
			return err_set(err, ERR_INVALID, "--audit: pipeline %s has no step `%s`",
				       r->pipeline->name, o->audit[i]);
	if (plan_new(&pc, &po, &r->plan, err) < 0)
		return -1;
	return r->ctx->cache ? statcache_save(r->ctx->cache, err) : 0;
}

/* The run's own rows. */

static void fill_engine(struct run *r)
{
	char host[MACHINE_NAME_BYTES];

	r->row.engine.pid = (int32_t)getpid();
	r->row.engine.start = process_start_time(getpid());
	r->row.engine.host = arena_strdup(r->arena, machine_name(host));
}

static int write_pins(struct run *r, size_t from, struct err *err)
{
	size_t n;
	const struct plan_pin *pins = plan_pins(r->plan, &n);

	for (size_t i = from; i < n; i++)
		if (record_run_input(r->ctx->db, r->row.rowid, pins[i].name, pins[i].origin,
				     &pins[i].id, err) < 0)
			return -1;
	return 0;
}

/* A firing has one run: one transaction writes both rows. */
static int write_start(struct run *r, struct err *err)
{
	struct firing_begin b = { .path = r->row.path,
				  .schedule = r->row.schedule,
				  .nominal_ns = r->row.nominal_ns,
				  .wall_ns = r->row.started_ns,
				  .cause = r->o->firing.cause,
				  .again = r->o->firing.again };

	if (record_run_add(r->ctx->db, &r->row, r->arena, err) < 0)
		return -1;
	b.run = r->row.id;
	if (r->row.schedule && record_firing_begin(r->ctx->db, &b, r->arena, err) < 0)
		return -1;
	return write_pins(r, 0, err);
}

/* Workspaces that dead engines left. */

/* Clears the attempt of a workspace that was found, unless its engine lives or a user asked to keep
 * it. An attempt that isn't on record may be another engine's, about to be written. */
static int clear_leftover(struct run *r, int64_t id, struct err *err)
{
	const struct runner_ops *ops = r->ctx->runner->ops;
	struct attempt_row a;
	struct run_row of;
	enum run_engine engine;
	int found = record_attempt(r->ctx->db, id, r->arena, &a, &of, err);

	if (found <= 0)
		return found;
	engine = record_run_engine(&of);
	if (engine == RUN_ENGINE_LIVES || engine == RUN_ENGINE_ELSEWHERE ||
	    (a.ended_ns && a.workspace))
		return 0;
	if (a.ended_ns == 0 && ops->durable)
		return 0; /* it lives; its run resumes it or is cancelled */
	if (a.ended_ns == 0) {
		struct runner_attempt gone = { .id = (uint64_t)id,
					       .task = a.task,
					       .run_id = of.id };

		return ops->adopt(r->ctx->runner, &gone, err);
	}
	if (ops->forget)
		ops->forget(r->ctx->runner, (uint64_t)id);
	return 0;
}

static int clear_leftovers(struct run *r, struct err *err)
{
	const struct runner_ops *ops = r->ctx->runner->ops;
	_cleanup_(freep) uint64_t *ids = NULL;
	size_t n = ops->leftovers ? ops->leftovers(r->ctx->runner, &ids) : 0;

	for (size_t i = 0; i < n; i++)
		if (clear_leftover(r, (int64_t)ids[i], err) < 0)
			return err_wrap(err, "clearing what a dead engine left");
	return 0;
}

/* Executing. */

static int watch_signals(struct run *r, struct err *err)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	_cleanup_(str_deinit) struct str last_words = { 0 };

	if (!r->ctx->handle_signals)
		return 0;
	/* Nothing takes time on a virtual clock, but signals from another thread would come at any
	 * time. The loop delivers them instead. */
	for (size_t i = 0; loop_clock(r->ctx->loop)->is_virtual && i < ARRAY_LEN(signals); i++)
		if (loop_add_signal(r->ctx->loop, signals[i], run_on_signal, r,
				    &r->signals.sources[i], err) < 0)
			return -1;
	if (loop_clock(r->ctx->loop)->is_virtual)
		return 0;
	str_addf(&last_words,
		 "cairn: ended at once; the run can go on where it stopped: cairn resume %s",
		 r->row.id);
	r->signals.listens = true;
	return stop_listen(r->ctx->loop, last_words.s, run_on_signal, r, err);
}

/* Of some thousand attempts. To read as much again after a crash takes two tenths of a second. */
#define RUN_WAL_BYTES (64 * MIB)

static int execute(struct run *r, struct err *err)
{
	/* A pod is queried for metrics only when this terminal shows them, they may stop the run,
	 * or others look at them (view/watched.h). */
	bool watched = r->o->stop.n || (r->ctx->observer && r->ctx->observer->metric);
	int turned = 1;

	r->ctx->runner->events = (struct runner_events){ .started = run_on_started,
							 .metric = watched ? run_on_metric : NULL,
							 .watched = watched_now,
							 .points = watched_points,
							 .finished = run_on_finished,
							 .waiting = run_on_waiting,
							 .exited = run_on_exited,
							 .arg = r };
	if (r->ctx->runner->ops->durable)
		r->near = near_new(r->ctx->config, r->ctx->db, r->ctx->cluster, r->arena);
	db_limit_wal(r->ctx->db, RUN_WAL_BYTES);
	if (publisher_new(r, &r->publisher, err) < 0 || watch_signals(r, err) < 0)
		return -1;
	if (run_notices_of(r) &&
	    run_notices_of(r)->begin(run_notices_of(r)->arg, r->pipeline, &r->row, err) < 0)
		return -1;
	loop_add_idle(r->ctx->loop, run_turn, r);
	r->wake = true;
	run_turn(r);
	if (r->tasks.in[PHASE_RUNNING].n)
		publisher_begin(r->publisher);
	while (!r->end.done && turned > 0)
		turned = loop_turn(r->ctx->loop, -1, &r->end.fatal);
	if (turned == 0 && !r->end.done && r->end.fatal.code == ERR_NONE)
		err_set(&r->end.fatal, ERR_IO, "the run came to a halt with tasks left; resume it");
	if (r->end.fatal.code) {
		r->end.done = true;
		/* An engine that ends leaves nothing running on this machine. Attempts of a durable
		 * runner go on for the resumed run. */
		if (!r->ctx->runner->ops->durable) {
			run_cancel_attempts(r, false);
			while (r->tasks.in[PHASE_RUNNING].n &&
			       loop_turn(r->ctx->loop, 5 * NS_PER_S, NULL) > 0)
				;
		}
		*err = r->end.fatal;
		return -1;
	}
	return earlier_close(r, err) < 0 ? -1 : run_finish(r, err);
}

static int write_row(struct run *r, struct err *err)
{
	return record_run_update(r->ctx->db, &r->row, err);
}

static int execute_and_tell(struct run *r, struct run_row *ret, struct err *err)
{
	int result = execute(r, err);

	if (result < 0) { /* it stays resumable, and says why it stopped */
		plan_count(r->plan, &r->row.counts);
		r->row.state = RUN_INTERRUPTED;
		r->row.message = err->msg;
		r->row.ended_ns = run_wall_ns(r);
		r->row.engine.pid = 0;
		run_in_transaction(r, write_row, NULL);
	}
	if (r->row.message)
		r->row.message = arena_strdup(r->arena, r->row.message);
	*ret = r->row;
	OBSERVE(r, ended, &r->row);
	return result;
}

/* Start. */

static int write_start_and_execute(struct run *r, struct run_row *ret, struct err *err)
{
	if (run_in_transaction(r, write_start, err) < 0)
		return -1;
	OBSERVE(r, started, &r->row, 0);
	return execute_and_tell(r, ret, err);
}

static const char *durable_name(const struct run *r)
{
	const struct runner_ops *ops = r->ctx->runner->ops;

	return ops->durable ? ops->name : NULL;
}

static int start(struct run *r, struct run_row *ret, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct run_options o = *r->o;
	struct git_query *git;
	int result;

	if (params_resolve(r->pipeline, r->o->overrides, r->o->n_overrides, r->arena, r->params,
			   diags, err) < 0)
		return -1;
	r->row = (struct run_row){ .state = RUN_RUNNING, .started_ns = run_wall_ns(r) };
	if (r->o->firing.times) {
		r->row.schedule = r->o->firing.times->name;
		r->row.nominal_ns = r->o->firing.nominal_ns;
	}
	o.runner = durable_name(r);
	o.cluster = r->ctx->cluster;
	fill_engine(r);
	if (row_describe(r->ctx, r->pipeline, r->params, &o, r->arena, &r->row, err) < 0)
		return -1;
	git = git_query_start(r->ctx->config->project_root, r->ctx->config->state_dir);
	result = make_plan(r, NULL, 0, err) < 0 || clear_leftovers(r, err) < 0 ? -1 : 0;
	row_add_git(&r->row, git, r->arena);
	return result < 0 ? -1 : write_start_and_execute(r, ret, err);
}

int run_begin(struct run *r, const struct plan_pin *pins, size_t n_pins, struct run_row *ret,
	      struct err *err)
{
	struct run_options o = *r->o;

	o.runner = durable_name(r);
	o.cluster = r->ctx->cluster;
	r->row.options_json = options_to_json(&o, r->arena);
	fill_engine(r);
	if (make_plan(r, pins, n_pins, err) < 0 || clear_leftovers(r, err) < 0)
		return -1;
	return write_start_and_execute(r, ret, err);
}

int run_start(const struct run_context *ctx, const struct pipeline *p, const struct run_options *o,
	      struct arena *arena, struct run_row *ret, struct err *err)
{
	struct run r;
	int result;

	*ret = (struct run_row){ 0 };
	run_init(&r, ctx, p, o, arena);
	result = start(&r, ret, err);
	run_deinit(&r);
	return result;
}

/* Resume. */

static int write_new_pins(struct run *r, struct err *err)
{
	return write_pins(r, r->earlier.n_pins, err);
}

static int resume(struct run *r, struct run_row *ret, struct err *err)
{
	const struct run_row seen = r->row;
	struct run_input_row *rows;
	struct plan_pin *pins;
	size_t n;

	r->earlier.seen = &seen;
	if (params_from_json(r->pipeline, r->row.params_json, r->arena, r->params, err) < 0 ||
	    record_run_inputs(r->ctx->db, r->row.rowid, r->arena, &rows, &r->earlier.n_pins, err) <
		    0)
		return -1;
	pins = arena_alloc(r->arena, (r->earlier.n_pins + 1) * sizeof(*pins));
	for (size_t i = 0; i < r->earlier.n_pins; i++)
		pins[i] = (struct plan_pin){ rows[i].name, rows[i].origin ? rows[i].origin : "",
					     rows[i].id };
	r->earlier.goes_on = r->ctx->runner->ops->durable &&
			     (r->row.state == RUN_RUNNING ||
			      (r->row.state == RUN_INTERRUPTED && !r->row.has_hash));
	/* The engine died before it could carry out a cancel request: attempts that go on elsewhere
	 * are ended now. A run that was already cancelled has been resumed by request. */
	r->end.interrupted = r->row.cancel_requested && r->row.state == RUN_RUNNING &&
			     r->ctx->runner->ops->durable;
	r->row.state = RUN_RUNNING;
	r->row.ended_ns = 0;
	r->row.message = NULL;
	fill_engine(r);
	if (earlier_adopt(r, err) < 0 || make_plan(r, pins, r->earlier.n_pins, err) < 0)
		return -1;
	/* A run that was handed over has no pins for tool versions and image digests. Those found
	 * here hold from now on. */
	plan_pins(r->plan, &n);
	if (n > r->earlier.n_pins &&
	    (store_sync(r->ctx->store, err) < 0 || run_in_transaction(r, write_new_pins, err) < 0))
		return -1;
	OBSERVE(r, started, &r->row, 0);
	return execute_and_tell(r, ret, err);
}

int run_resume(const struct run_context *ctx, const char *run_id, unsigned jobs,
	       struct arena *arena, struct run_row *ret, struct reproduction **ret_reproduction,
	       struct err *err)
{
	struct config config = *ctx->config;
	struct run_context here = *ctx;
	_cleanup_(past_run_deinit) struct past_run past = { 0 };
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct run_options o;
	struct run_row row;
	struct run r;
	int result;

	*ret = (struct run_row){ 0 };
	*ret_reproduction = NULL;
	if (record_find_run(ctx->db, run_id, arena, &row, err) < 0)
		return -1;
	if (record_run_engine(&row) == RUN_ENGINE_LIVES)
		return err_set(err, ERR_BUSY,
			       "run %s is still running (process %d); `cairn status %s` shows it",
			       row.id, row.engine.pid, row.id);
	if (row.state == RUN_SUCCEEDED && row.has_reproduces)
		return err_set(err, ERR_INVALID,
			       "reproduction %s has ended: `cairn reproduce` does it once more",
			       row.id);
	if (row.state == RUN_SUCCEEDED)
		return err_set(err, ERR_INVALID, "run %s has succeeded: there is nothing to resume",
			       row.id);
	if (options_from_json(row.options_json, arena, &o, err) < 0)
		return err_wrap(err, "run %s", row.id);
	if (jobs)
		o.jobs = jobs;
	if (o.runner && !str_eq(o.runner, ctx->runner->ops->name))
		return err_set(err, ERR_INVALID,
			       "run %s executes on %s, and what it started may go on there: cairn "
			       "resume --on %s %s",
			       row.id, o.runner, o.runner, row.id);
	if (o.cluster && ctx->cluster && !str_eq(o.cluster->name, ctx->cluster->name))
		return err_set(err, ERR_INVALID,
			       "run %s executes on the cluster %s, and what it started may go on "
			       "there: cairn resume --on %s %s",
			       row.id, o.cluster->name ? o.cluster->name : "that cairn.yaml names",
			       o.cluster->name ? o.cluster->name : "kubernetes", row.id);
	if (o.request) { /* its keys use the salt of the project that it came from */
		config.salt = o.salt;
		here.config = &config;
		ctx = &here;
	}
	if (o.kind != RUN_NEW && past_run_load(ctx, &row.reproduces, o.salt, arena, &past, err) < 0)
		return err_wrap(err, "run %s reproduces a past one", row.id);
	if (pipeline_files_load(ctx->store, &row.pipeline_blob, row.path, &p, err) < 0)
		return -1;
	run_init(&r, ctx, p, &o, arena);
	r.row = row;
	r.past = o.kind != RUN_NEW ? &past : NULL;
	result = resume(&r, ret, err);
	if (result == 0 && r.past)
		result = reproduce_report(&r, ret_reproduction, err);
	run_deinit(&r);
	return result;
}
