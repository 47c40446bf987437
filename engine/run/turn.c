/* A turn of the run: what happened is journaled and applied, then what can be started is started. */
#include <signal.h>
#include "base/text.h"
#include "run/internal.h"

/* Tasks looked at in one turn for a place to run, when the first ones don't fit. */
#define LOOK_AHEAD 64
/* After so many others went first, a task that needs much gets its turn before anything else starts. */
#define PATIENCE 256

static struct clock *clock_of(const struct run *r)
{
	return loop_clock(r->ctx->loop);
}

/* --- what the runner says --------------------------------------------------------------------------------------------------- */

void run_on_started(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid)
{
	struct run *r = arg;
	struct active *a = map_get(r->actives, &attempt_id, sizeof(attempt_id));

	if (a)
		a->row.started_ns = wall_ns;
}

void run_on_metric(void *arg, uint64_t attempt_id, const char *name, double value)
{
	struct run *r = arg;

	OBSERVE(r, metric, attempt_id, name, value);
}

/* On record in the next turn, where other processes see it; what a person looks at is told at once. */
void run_on_waiting(void *arg, uint64_t attempt_id, const char *why)
{
	struct run *r = arg;
	struct active *a = map_get(r->actives, &attempt_id, sizeof(attempt_id));

	if (!a || str_eq(a->waiting_for, why))
		return;
	a->waiting_for = why ? arena_strdup(a->arena, why) : NULL;
	VEC_PUSH(&r->news, attempt_id);
	r->wake = true;
	OBSERVE(r, waiting, attempt_id, a->label, why);
}

static const char *keep(struct arena *arena, const char *s)
{
	return s ? arena_strdup(arena, s) : NULL;
}

/* What it made was put into the store by somebody else: it is there, whoever reads it next, and a look that misses something has to be a new one. */
static void learn_of_store(struct run *r, const struct active *a)
{
	enum failure_class f = a->result.failure;

	store_refresh(r->ctx->store, STORE_ACTION, NULL, 0, NULL);
	if ((f == FAILURE_NONE || f == FAILURE_GATE) && a->result.outputs)
		store_told(r->ctx->store, a->result.outputs, a->step->n_outputs);
	else if (f == FAILURE_STORE) /* perhaps it lacked what another had said to be there */
		store_told(r->ctx->store, NULL, 0);
}

void run_on_finished(void *arg, uint64_t attempt_id, struct runner_result *result)
{
	struct run *r = arg;
	struct active *a = map_get(r->actives, &attempt_id, sizeof(attempt_id));

	if (!a)
		return;
	a->result = *result;
	a->result.outputs = result->outputs ? arena_memdup(a->arena, result->outputs, (a->step->n_outputs + 1) * sizeof(*result->outputs)) : NULL;
	a->result.metrics_json = (char *)keep(a->arena, result->metrics_json);
	a->result.log_tail = (char *)keep(a->arena, result->log_tail);
	a->result.workspace = (char *)keep(a->arena, result->workspace);
	a->result.continues = (char *)keep(a->arena, result->continues);
	a->result.node = keep(a->arena, result->node);
	a->waiting_for = NULL;
	if (r->ctx->runner->ops->durable)
		learn_of_store(r, a);
	VEC_PUSH(&r->ended, a);
	r->wake = true;
}

/* --- an attempt's end ---------------------------------------------------------------------------------------------------------- */

/* Metrics that can't be read and gates that don't hold turn a success into a failure. */
static void judge(struct active *a)
{
	struct runner_result *res = &a->result;

	if (res->failure != FAILURE_NONE || a->attempt.shell)
		return;
	if (res->metrics_json && metrics_parse(res->metrics_json, a->arena, &a->metrics, &a->n_metrics, &res->err) < 0)
		res->failure = FAILURE_OUTPUT;
	else if (metrics_gate(a->step, a->metrics, a->n_metrics, &res->err) < 0)
		res->failure = FAILURE_GATE;
}

static bool has_result(const struct active *a)
{
	return (a->result.failure == FAILURE_NONE || a->result.failure == FAILURE_GATE) && !a->attempt.shell;
}

static int journal_result(struct run *r, struct active *a, struct err *err)
{
	size_t n = a->step->n_outputs;
	struct named_content *in, *out = arena_alloc(a->arena, (n + 1) * sizeof(*out)), *sources = a->sources;
	size_t n_sources = a->n_sources;
	int differs;

	in = arena_alloc(a->arena, (a->command.n_inputs + n_sources + 1) * sizeof(*in));
	for (size_t i = 0; i < a->command.n_inputs; i++)
		in[i] = (struct named_content){ a->command.inputs[i].name, a->command.inputs[i].id };
	in[a->command.n_inputs] = (struct named_content){ "(code)", a->command.code };
	if (n_sources)
		memcpy(in + a->command.n_inputs + 1, sources, n_sources * sizeof(*in));
	for (size_t i = 0; i < n; i++)
		out[i] = (struct named_content){ a->step->outputs[i].name, a->result.outputs[i] };
	differs = record_result(r->ctx->db, a->row.id, &a->task->key, a->step->cache && !r->past, in, a->command.n_inputs + 1 + n_sources, out, n, err);
	if (differs < 0 || record_metrics(r->ctx->db, a->row.id, a->metrics, a->n_metrics, err) < 0)
		return -1;
	if (differs > 0) {
		_cleanup_(str_deinit) struct str text = { 0 };

		str_addf(&text, "%s is not deterministic: the same key gave other bytes before (`cairn why %s`)", a->label, a->label);
		OBSERVE(r, notice, text.s);
	}
	return 0;
}

static int journal_end(struct run *r, struct active *a, struct err *err)
{
	const struct runner_result *res = &a->result;

	a->row.started_ns = res->started_ns;
	a->row.ended_ns = MAX(res->ended_ns, 1);
	a->row.failure = res->failure;
	a->row.exit_status = res->exit_status;
	a->row.signo = res->signo;
	a->row.max_rss_bytes = res->max_rss_bytes;
	a->row.cpu_ns = res->cpu_ns;
	a->row.log = res->log;
	a->row.node = res->node;
	a->row.workspace = res->workspace;
	a->row.continues = res->continues;
	a->row.message = res->failure == FAILURE_NONE ? NULL : res->err.msg;
	if (record_attempt_end(r->ctx->db, &a->row, err) < 0)
		return -1;
	return has_result(a) ? journal_result(r, a, err) : 0;
}

/* --- retries -------------------------------------------------------------------------------------------------------------------- */

static void retry_due(void *arg)
{
	struct retry *re = arg;

	re->timer = NULL;
	VEC_PUSH(&re->run->due, re);
	re->run->wake = true;
	re->run->n_retrying--;
}

/* Full jitter: anywhere between the first delay and what doubling has come to. */
static int64_t backoff(const struct retry_policy *p, uint32_t failures, uint64_t seed)
{
	int64_t high = p->backoff_min_ns;

	for (uint32_t i = 1; i < failures && high < p->backoff_max_ns; i++)
		high = MIN(high * 2, p->backoff_max_ns);
	if (high <= p->backoff_min_ns)
		return p->backoff_min_ns;
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return p->backoff_min_ns + (int64_t)((seed >> 11) % (uint64_t)(high - p->backoff_min_ns));
}

static bool may_retry(struct run *r, struct active *a, int64_t *ret_delay_ns)
{
	const struct retry_policy *p = &a->step->retry;
	struct task_history *h = history_of(r, a->task, true);
	enum failure_class f = a->result.failure;

	h->attempts = a->attempt.number;
	if (r->past && f == FAILURE_STORE) /* content that is gone stays gone: nothing makes it again here */
		return false;
	if (f == FAILURE_CANCELLED || f == FAILURE_GATE || a->attempt.shell || r->stopping)
		return false;
	if (f == FAILURE_UNSCHEDULABLE && !r->ctx->runner->ops->durable)
		return false; /* this machine won't grow */
	if (f == FAILURE_STORE && a->result.err.code == ERR_CHANGED)
		return false; /* an origin isn't again what was pinned */
	if (h->failures[f]++ >= p->budget[f])
		return false;
	if (f == FAILURE_OOM && p->oom_memory_factor > 1)
		h->memory_factor *= p->oom_memory_factor;
	/* What held two gangs up at once mustn't do so again: never the same moment for both. */
	*ret_delay_ns = backoff(p, h->failures[f] + (f == FAILURE_UNSCHEDULABLE), a->attempt.id);
	return true;
}

static void schedule_retry(struct run *r, struct active *a, int64_t delay_ns)
{
	struct retry *re = arena_alloc(r->arena, sizeof(*re));
	struct clock *c = clock_of(r);

	*re = (struct retry){ .run = r, .task = a->task, .failure = a->result.failure };
	r->n_retrying++;
	VEC_PUSH(&r->retries, re);
	re->timer = loop_add_timer(r->ctx->loop, c->mono_ns(c) + delay_ns, retry_due, re);
}

/* --- apply ------------------------------------------------------------------------------------------------------------------------ */

static bool handles_failure(const struct run *r, const struct plan_task *t)
{
	const struct step *s = &r->pipeline->steps[t->step];

	return s->condition && expr_handles_failure(s->condition);
}

/* What an earlier engine began goes on, as it would have there. */
bool may_go_on(const struct run *r, const struct plan_task *t)
{
	_cleanup_(str_deinit) struct str label = { 0 };

	if (handles_failure(r, t))
		return true;
	if (map_len(r->earlier_past) == 0)
		return false;
	plan_task_label(r->plan, t, &label);
	return earlier_stands(r, label.s);
}

/* Tasks that the run holds but hasn't started. */
static void block_all(struct run *r, struct plan_task **v, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		if (may_go_on(r, v[i]))
			v[kept++] = v[i];
		else
			plan_task_end(r->plan, v[i], TASK_STATE_BLOCKED, NULL, NULL, 0, 0, 0);
	}
	*n = kept;
}

/* Those whose time hasn't come don't hold the run's end up. */
static void block_retries(struct run *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->retries.n; i++) {
		struct retry *re = r->retries.v[i];

		if (!re->timer || handles_failure(r, re->task))
			continue;
		loop_remove(r->ctx->loop, re->timer);
		retry_due(re);
	}
	for (size_t i = 0; i < r->due.n; i++) {
		if (handles_failure(r, r->due.v[i]->task))
			r->due.v[kept++] = r->due.v[i];
		else
			plan_task_end(r->plan, r->due.v[i]->task, TASK_STATE_BLOCKED, NULL, NULL, 0, 0, 0);
	}
	r->due.n = kept;
}

static void stop_starting(struct run *r)
{
	if (r->stopping)
		return;
	r->stopping = true;
	plan_stop(r->plan);
	block_all(r, r->parked.v, &r->parked.n);
	block_all(r, r->deferred.v, &r->deferred.n);
	groups_stop(r);
	block_retries(r);
}

static void fail_task(struct run *r, struct active *a)
{
	if (!r->failed)
		r->row.message = arena_printf(r->arena, "%s: %s", a->label, a->result.err.msg);
	r->failed = true;
	r->failed_itself |= a->result.failure != FAILURE_STORE;
	plan_task_end(r->plan, a->task, TASK_STATE_FAILED, a->result.failure == FAILURE_GATE ? a->result.outputs : NULL, a->metrics, a->n_metrics,
		      a->result.ended_ns - a->result.started_ns, a->row.id);
	OBSERVE(r, task_ended, a->attempt.id, a->label, TASK_FAILED, a->result.ended_ns - a->result.started_ns);
	if (!r->o->keep_going)
		stop_starting(r);
}

static void apply_end(struct run *r, struct active *a)
{
	int64_t delay = 0, duration = a->result.ended_ns - a->result.started_ns;
	enum failure_class f = a->result.failure;
	bool retry = f != FAILURE_NONE && may_retry(r, a, &delay);

	if (has_result(a) && a->step->cache)
		publisher_add(r->publisher, a);
	if (has_result(a) && a->step->checkpoint && r->ctx->runner->ops->drop_checkpoint)
		r->ctx->runner->ops->drop_checkpoint(r->ctx->runner, a->attempt.key);
	if (f == FAILURE_NONE && a->attempt.shell) {
		plan_task_end(r->plan, a->task, TASK_STATE_BLOCKED, NULL, NULL, 0, 0, 0);
	} else if (f == FAILURE_NONE) {
		plan_task_end(r->plan, a->task, TASK_STATE_DONE, a->result.outputs, a->metrics, a->n_metrics, duration, a->row.id);
		OBSERVE(r, task_ended, a->attempt.id, a->label, TASK_DONE, duration);
	} else {
		if (f != FAILURE_CANCELLED)
			OBSERVE(r, attempt_failed, a->attempt.id, a->label, a->attempt.number, &a->result, retry, delay);
		if (retry)
			schedule_retry(r, a, delay);
		else if (f == FAILURE_CANCELLED)
			OBSERVE(r, task_ended, a->attempt.id, a->label, TASK_CANCELLED, duration);
		else
			fail_task(r, a);
	}
	*map_slot(r->actives, &a->attempt.id, sizeof(a->attempt.id), NULL) = NULL;
	VEC_PUSH(&r->settled, a->attempt.id);
	VEC_PUSH(&r->over, a);
	r->n_running--;
}

/* --- act ---------------------------------------------------------------------------------------------------------------------------- */

static int start_parked(struct run *r, struct err *err)
{
	__auto_type tried = VEC_TAKE(&r->parked);
	size_t started = 0;
	int result = 0;

	for (size_t i = 0; i < tried.n; i++) {
		int s;

		if (result < 0 || r->slots.jobs_used >= r->slots.jobs) {
			VEC_PUSH(&r->parked, tried.v[i]);
			continue;
		}
		s = start_task(r, tried.v[i], err);
		if (s < 0)
			result = -1;
		if (s > 0 && i == 0)
			r->passed_over = 0;
		started += s > 0 && i > 0;
	}
	r->passed_over += (unsigned)started;
	VEC_FREE(&tried);
	return result;
}

static int take_back(struct run *r, struct err *err)
{
	for (size_t i = 0; i < r->due.n; i++)
		if (plan_retry(r->plan, r->due.v[i]->task, r->due.v[i]->failure == FAILURE_STORE, err) < 0)
			return -1;
	r->due.n = 0;
	if (!r->defer_due)
		return 0;
	r->defer_due = false;
	for (size_t i = 0; i < r->deferred.n; i++)
		plan_requeue(r->plan, r->deferred.v[i]);
	r->deferred.n = 0;
	loop_remove(r->ctx->loop, r->defer_timer);
	r->defer_timer = NULL;
	return 0;
}

/* Starts all that has a place. A task may end here: it turns out to be a hit, or what it needs is lost. That concerns others: then the plan
 * is resolved again. */
static int act(struct run *r, struct err *err)
{
	bool again = true;

	if (take_back(r, err) < 0)
		return -1;
	while (again) {
		uint64_t hits;
		struct run_counts c;
		int resolved;

		/* What others have recorded since then is found when a task holds its key (claim_key). */
		db_snapshot(r->ctx->db);
		resolved = plan_resolve(r->plan, err);
		db_snapshot_end(r->ctx->db);
		if (resolved < 0)
			return -1;
		plan_count(r->plan, &c);
		hits = c.hits + c.failed;
		if (r->interrupted)
			return 0;
		if (c.failed && !r->failed) { /* a gate that a hit failed, or what had failed before an engine died */
			r->failed = true;
			if (!r->row.message)
				r->row.message = plan_gate_message(r->plan);
			if (r->row.message)
				OBSERVE(r, notice, r->row.message);
			if (!r->o->keep_going)
				stop_starting(r);
		}
		if (!r->looked_back && !r->o->keep_going && earlier_failed(r)) /* what has no place yet is not begun before that is told */
			stop_starting(r);
		r->looked_back = true;
		if (r->parked.n && start_parked(r, err) < 0)
			return -1;
		while (r->slots.jobs_used < r->slots.jobs && r->parked.n < LOOK_AHEAD && r->passed_over < PATIENCE) {
			struct plan_task *t = plan_take_ready(r->plan);

			if (!t)
				break;
			if (start_task(r, t, err) < 0)
				return -1;
			r->passed_over += r->parked.n > 0;
		}
		plan_count(r->plan, &c);
		again = plan_unresolved(r->plan) || c.hits + c.failed != hits;
	}
	return 0;
}

/* --- telling ---------------------------------------------------------------------------------------------------------------------------- */

/* Asked for once a step and run; 0 unknown. */
static int64_t median_of(struct run *r, size_t step)
{
	int64_t *m;

	if (!r->medians)
		r->medians = arena_alloc(r->arena, plan_n_steps(r->plan) * sizeof(*r->medians));
	m = &r->medians[step];
	if (*m == 0 && record_step_duration(r->ctx->db, r->pipeline->name, r->pipeline->steps[step].name, m, NULL) <= 0)
		*m = 0;
	return *m;
}

/* Medians of past runs times what is left, over the places to run. Not at every turn: it looks at every step. */
static void estimate(struct run *r)
{
	struct clock *c = clock_of(r);
	int64_t now = c->mono_ns(c), sum = 0;

	if (r->estimated_at_ns && now - r->estimated_at_ns < NS_PER_S)
		return;
	r->estimated_at_ns = now;
	r->remaining_ns = -1;
	for (size_t s = 0; s < plan_n_steps(r->plan); s++) {
		size_t left = plan_step_left(r->plan, s);

		if (left && median_of(r, s) == 0)
			return; /* one that nobody knows makes the whole unknown */
		sum += left ? median_of(r, s) * (int64_t)left : 0;
	}
	r->remaining_ns = sum / MAX(r->slots.jobs, 1);
}

static void tell_progress(struct run *r)
{
	struct run_counts c;

	if (!r->ctx->observer || !r->ctx->observer->progress)
		return;
	plan_count(r->plan, &c);
	estimate(r);
	OBSERVE(r, progress, &c, r->n_running, r->remaining_ns);
}

/* --- the turn ------------------------------------------------------------------------------------------------------------------------------ */

static void submit_all(struct run *r)
{
	for (size_t i = 0; i < r->to_submit.n; i++) {
		struct active *a = r->to_submit.v[i];
		struct err e = { 0 };

		OBSERVE(r, task_started, a->attempt.id, a->label, a->attempt.number, a->row.reason);
		a->submitted = true;
		if (r->ctx->runner->ops->submit(r->ctx->runner, &a->attempt, &e) < 0) {
			a->result = (struct runner_result){ .failure = FAILURE_LOST, .exit_status = -1, .started_ns = a->row.started_ns,
							    .ended_ns = a->row.started_ns, .err = e };
			VEC_PUSH(&r->ended, a);
		}
	}
	r->to_submit.n = 0;
}

static bool nothing_to_do(const struct run *r)
{
	return r->n_running == 0 && r->ended.n == 0 &&
	       (r->interrupted || (plan_n_ready(r->plan) == 0 && r->parked.n == 0 && r->deferred.n == 0 && r->n_in_line == 0 && r->due.n == 0 && r->n_retrying == 0));
}

static int journal_news(struct run *r, struct err *err)
{
	for (size_t i = 0; i < r->news.n; i++) {
		struct active *a = map_get(r->actives, &r->news.v[i], sizeof(r->news.v[i]));

		if (!a || str_eq(a->told, a->waiting_for))
			continue;
		if (record_attempt_waiting(r->ctx->db, a->row.id, a->waiting_for, err) < 0)
			return -1;
		a->told = a->waiting_for;
	}
	r->news.n = 0;
	return 0;
}

static void tell_settled(struct run *r)
{
	const struct runner_ops *ops = r->ctx->runner->ops;

	for (size_t i = 0; ops->settled && i < r->settled.n; i++)
		ops->settled(r->ctx->runner, r->settled.v[i]);
	r->settled.n = 0;
}

static int journal_and_apply(struct run *r, struct err *err)
{
	size_t n = r->ended.n;

	if (journal_news(r, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (journal_end(r, r->ended.v[i], err) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		apply_end(r, r->ended.v[i]);
	if (r->ended.n > n)
		memmove(r->ended.v, r->ended.v + n, (r->ended.n - n) * sizeof(*r->ended.v));
	r->ended.n -= n;
	return 0;
}

static int commit_ends(struct run *r, struct err *err)
{
	if (r->ended.n == 0 && r->news.n == 0)
		return 0;
	for (size_t i = 0; i < r->ended.n; i++) {
		struct active *a = r->ended.v[i];

		judge(a);
		if (has_result(a) && plan_task_sources(r->plan, a->task, a->arena, &a->sources, &a->n_sources, err) < 0)
			return -1;
	}
	if (db_begin(r->ctx->db, err) < 0)
		return -1;
	if (journal_and_apply(r, err) < 0) {
		db_rollback(r->ctx->db);
		return -1;
	}
	if (db_commit(r->ctx->db, err) < 0)
		return -1;
	/* Who waits for a key or a place finds what is on record of it by now. */
	for (size_t i = 0; i < r->over.n; i++) {
		active_release(r->over.v[i]);
		active_free(r->over.v[i]);
	}
	r->over.n = 0;
	return 0;
}

static int commit_starts(struct run *r, struct err *err)
{
	if (r->to_write.n == 0 && r->to_close.n == 0)
		return 0;
	if (db_begin(r->ctx->db, err) < 0)
		return -1;
	if (start_write_rows(r, err) < 0) {
		db_rollback(r->ctx->db);
		return -1;
	}
	if (db_commit(r->ctx->db, err) < 0)
		return -1;
	start_rows_written(r);
	return 0;
}

/* Ends are on record before anything relies on them; then what can start is looked for, which may ask stores and take long; then its rows are
 * written. Transactions hold rows only: another run of the project never waits for what this one waits for. */
void run_turn(void *arg)
{
	struct run *r = arg;
	struct err *err = &r->fatal;

	if (r->done || !r->wake)
		return;
	r->wake = false;
	do {
		if (commit_ends(r, err) < 0 || act(r, err) < 0 || commit_starts(r, err) < 0)
			break;
		tell_settled(r);
		submit_all(r);
	} while (r->ended.n); /* what failed at once */
	if (err->code == ERR_NONE)
		tell_progress(r);
	if (err->code != ERR_NONE || nothing_to_do(r))
		r->done = true;
}

/* --- stopping ---------------------------------------------------------------------------------------------------------------------------------- */

static bool cancel_requested(struct run *r)
{
	struct run_row now;

	return record_find_run_named(r->ctx->db, r->row.id, r->arena, &now, NULL) > 0 && now.cancel_requested;
}

/* A service that is stopped (its pod moves, its machine restarts) isn't a wish to stop what runs elsewhere: that goes on, and a resumed run takes it up. */
static bool leaves(struct run *r, int signo)
{
	if ((signo != SIGTERM && signo != SIGHUP) || r->interrupted || !r->ctx->runner->ops->durable || cancel_requested(r))
		return false;
	err_set(&r->fatal, ERR_CANCELLED, "the engine was told to end; what it started goes on");
	r->done = true;
	return true;
}

void run_on_signal(void *arg, int signo)
{
	struct run *r = arg;
	bool now = r->interrupted;

	if (r->done && !r->told_to_end && !r->fatal.code)
		OBSERVE(r, notice, "all tasks have ended and what they gave is being kept: once more ends at once, and cairn resume does the rest");
	r->told_to_end |= r->done;
	if (r->interrupted_now || r->done || leaves(r, signo))
		return;
	OBSERVE(r, notice, now ? "stopping at once" : "stopping: running tasks get their grace time; once more stops at once");
	r->interrupted = r->wake = true;
	r->interrupted_now = now;
	for (size_t i = 0; i < map_len(r->actives); i++) {
		struct active *a = map_at(r->actives, i, NULL, NULL);

		if (a && a->submitted)
			r->ctx->runner->ops->cancel(r->ctx->runner, a->attempt.id, !now);
	}
}
