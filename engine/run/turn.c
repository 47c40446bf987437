/* engine/run/turn.c — one turn of a run: records and applies what happened, then begins what can
 * begin.
 *
 * The states of a task are the phases of run/task.h. Outside events come as callbacks of the loop,
 * which only note them and wake the run: reports of the runner, timers (for a retry, or for another
 * look at other engines' keys and places), signals. When the loop has nothing else to do,
 * run_turn() handles all of them together:
 *
 *   1. ends   judge them (metrics, gates; may read stores), then write them in one transaction
 *   2. apply  update plan and phases: no I/O
 *   3. act    resolve the plan, look at tasks (start.c), take leases
 *   4. starts write the rows of what began in one transaction
 *   5. submit pass them to the runner
 *
 * Stores and disks are read in 3. Transactions hold rows only, so that another run of the project
 * never waits for a store or disk that this one uses.
 *
 * The cost of an event doesn't grow with the number of tasks. Woken tasks are on lists, and each
 * turn looks at those, at up to LOOK_AHEAD parked ones, and at as many of the plan's ready tasks as
 * there is room for (or as come to wait in a line, once each).
 *
 * Invariants: everything that is applied, given back, reported or submitted is on record first. A
 * kill at any point leaves rows from which run_resume() goes on. Act is idempotent: a task that
 * can't begin stays in its phase. For the rest see task_check_all() and the head of group.c.
 *
 * Threads: the loop's; only hashing, copying and records (publish.c) have workers. Not here:
 * beginning and ending the run (run.c, finish.c).
 */
#include <signal.h>
#include "plan/values.h"
#include "run/internal.h"
#include "run/task/secret.h"
#include "run/view/live.h"
#include "run/view/watched.h"
#include "runners/series/series.h"

/* Parked tasks that one turn tries, when the first ones don't fit. */
#define LOOK_AHEAD 64
/* After this many others began before it, a large task goes before everything else. */
#define PATIENCE 256

/* Reports of the runner. */

static struct attempt *running(struct run *r, uint64_t attempt_id)
{
	struct task *t = map_get(r->tasks.by_attempt, &attempt_id, sizeof(attempt_id));

	return t && task_phase(t) == PHASE_RUNNING ? t->attempt : NULL;
}

void run_on_started(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid)
{
	struct attempt *a = running(arg, attempt_id);

	if (a)
		a->row.started_ns = wall_ns;
}

/* Stops a trial that others beat. */
static void stop_early(struct run *r, struct attempt *a, double value)
{
	const struct early_stop *s = &r->o->stop;
	size_t n = 0;

	if (!a->has_best || (s->maximize ? value > a->series_best : value < a->series_best))
		a->series_best = value;
	a->has_best = true;
	while (a->has_step && n < s->n && s->points[n].at <= a->series_step)
		n++;
	if (n == 0 || r->end.interrupted ||
	    (s->maximize ? a->series_best >= s->points[n - 1].than
			 : a->series_best <= s->points[n - 1].than))
		return;
	r->row.message =
		arena_printf(r->arena,
			     RUN_STOPPED_EARLY "the best %s up to step %.6g is %.6g, half of "
					       "the trials before had %s %.6g by then",
			     s->metric, a->series_step, a->series_best,
			     s->maximize ? "at least" : "at most", s->points[n - 1].than);
	OBSERVE(r, notice, r->row.message);
	r->end.interrupted = r->end.stopped_early = r->wake = true;
	run_cancel_attempts(r, true);
}

void run_on_metric(void *arg, uint64_t attempt_id, const char *name, double value)
{
	struct run *r = arg;
	struct attempt *a = running(r, attempt_id);

	if (str_eq(name, SERIES_STEP)) {
		if (a) {
			a->series_step = value;
			a->has_step = true;
		}
		return;
	}
	OBSERVE(r, metric, attempt_id, name, value);
	if (a && r->o->stop.n && str_eq(a->step->name, r->o->stop.step) &&
	    str_eq(name, r->o->stop.metric))
		stop_early(r, a, value);
}

/* The next turn writes it, for other processes; observers get it at once. */
void run_on_waiting(void *arg, uint64_t attempt_id, const char *why)
{
	struct run *r = arg;
	struct attempt *a = running(r, attempt_id);

	if (!a || str_eq(a->waiting_for, why))
		return;
	a->waiting_for = why ? arena_strdup(a->arena, why) : NULL;
	VEC_PUSH(&r->journal.changed, a);
	r->wake = true;
	OBSERVE(r, waiting, attempt_id, a->label, why);
}

/* The next program begins while the outputs of this one are taken in: that takes a short task as
 * long as its program. As many as may run at once may be taken in; they hold workspaces and memory.
 * With one place at a time tasks don't overlap, so that none begins after one that fails. */
void run_on_exited(void *arg, uint64_t attempt_id)
{
	struct run *r = arg;
	struct attempt *a = running(r, attempt_id);

	if (!a || r->slots.jobs == 1 || r->slots.taking_in >= r->slots.jobs)
		return;
	slots_give(&r->slots, &a->given.resources);
	r->slots.taking_in++;
	a->gave_back = true;
	r->wake = true;
}

static const char *keep(struct arena *arena, const char *s)
{
	return s ? arena_strdup(arena, s) : NULL;
}

void run_on_finished(void *arg, uint64_t attempt_id, struct runner_result *result)
{
	const enum failure_class f = result->failure;
	struct run *r = arg;
	struct attempt *a = running(r, attempt_id);
	struct runner_result *res;

	if (!a)
		return;
	res = attempt_ended(a, result);
	if (result->outputs)
		res->outputs = arena_memdup(a->arena, result->outputs,
					    (a->step->n_outputs + 1) * sizeof(*result->outputs));
	res->metrics_json = (char *)keep(a->arena, result->metrics_json);
	res->log_tail = (char *)keep(a->arena, result->log_tail);
	res->workspace = (char *)keep(a->arena, result->workspace);
	res->continues = (char *)keep(a->arena, result->continues);
	res->undeclared = (char *)keep(a->arena, result->undeclared);
	res->node = keep(a->arena, result->node);
	a->waiting_for = NULL;
	task_set_phase(a->task, PHASE_ENDED);
	r->wake = true;
	if (!r->ctx->runner->ops->durable)
		return;
	/* Another process put the outputs into the store. They exist for any reader, so a lookup
	 * that missed them must be repeated. */
	store_refresh(r->ctx->store, STORE_ACTION, NULL, 0, NULL);
	if ((f == FAILURE_NONE || f == FAILURE_GATE) && res->outputs)
		store_note_present(r->ctx->store, res->outputs, a->step->n_outputs);
	else if (f == FAILURE_STORE) /* perhaps it lacked content that another process reported */
		store_note_present(r->ctx->store, NULL, 0);
}

/* An attempt's end. */

/* Values go into commands, keys and records, where nothing masks a secret. */
static int refuse_secrets(const struct attempt *a, const struct value *v, struct err *err)
{
	for (size_t i = 0; i < a->step->reads->n_secrets && a->given.secrets; i++) {
		const char *name = a->step->reads->secrets[i], *word = a->given.secrets[i],
			   *secret = strchr(word, '=');

		if (secret && secret_is_maskable(secret + 1, strlen(secret + 1)) &&
		    values_hold(v, secret + 1))
			return err_set(err, ERR_INVALID,
				       "`values` file %s holds the secret %s: values are kept, "
				       "shown and put into commands",
				       a->step->measured->values, name);
	}
	return 0;
}

static int check_values(struct run *r, struct attempt *a, struct err *err)
{
	const struct step *s = a->step;
	_cleanup_(freep) char *what = xasprintf("`values` file %s", s->measured->values);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct value v;
	size_t i = 0;

	while (i < s->n_outputs && !str_eq(s->outputs[i].name, STEP_VALUES_OUTPUT))
		i++;
	if (i == s->n_outputs || !a->result->outputs)
		return 0;
	if (a->result->outputs[i].size_bytes > VALUES_MAX_BYTES) /* the parser says so */
		return values_parse(what, "", VALUES_MAX_BYTES + 1, a->arena, &v, err);
	if (content_read(r->ctx->store, &a->result->outputs[i], VALUES_MAX_BYTES, &text, err) < 0) {
		a->result->failure = FAILURE_STORE;
		return err_wrap(err, "%s", what);
	}
	if (values_parse(what, text.len ? text.s : "", text.len, a->arena, &v, err) < 0)
		return -1;
	return refuse_secrets(a, &v, err);
}

/* Once a step: its tasks write the same members. */
static void report_text_metrics(struct run *r, const struct attempt *a)
{
	const char *name = a->task->plan->index == 0
				   ? metrics_first_text(a->result->metrics_json, a->arena)
				   : NULL;

	if (name)
		run_notice(r,
			   "%s: `%.100s` in %s is text, which is no metric and isn't kept; "
			   "`values: FILE` keeps text that later steps use",
			   a->step->name, name, a->step->measured->metrics);
}

/* Metrics and values that can't be read, gates that don't hold, and a loop without end turn a
 * success into a failure. */
static void judge(struct run *r, struct attempt *a)
{
	struct runner_result *res = a->result;
	bool last;

	if (res->failure != FAILURE_NONE || a->given.local.shell)
		return;
	if (a->step->measured->values && check_values(r, a, &res->err) < 0) {
		if (res->failure == FAILURE_NONE)
			res->failure = FAILURE_OUTPUT;
		return;
	}
	if (res->metrics_json &&
	    metrics_parse(res->metrics_json, a->arena, &a->metrics, &a->n_metrics, &res->err) < 0)
		res->failure = FAILURE_OUTPUT;
	else if (metrics_gate(a->step, a->metrics, a->n_metrics, &res->err) < 0)
		res->failure = FAILURE_GATE;
	else if (plan_judge_round(r->plan, a->task->plan, res->outputs, a->metrics, a->n_metrics,
				  &last, &res->err) < 0)
		res->failure = res->err.code == ERR_FAILED ? FAILURE_GATE : FAILURE_OUTPUT;
	if (res->metrics_json && a->step->measured->metrics && res->failure == FAILURE_NONE)
		report_text_metrics(r, a);
}

static bool has_result(const struct attempt *a)
{
	return (a->result->failure == FAILURE_NONE || a->result->failure == FAILURE_GATE) &&
	       !a->given.local.shell;
}

static int write_end(struct run *r, struct attempt *a, struct err *err)
{
	const struct runner_result *res = a->result;
	struct named_content *in, *out;
	size_t n_in = 0, n_out = a->step->n_outputs;
	int differs;

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
	a->row.message = res->failure == FAILURE_NONE ? a->said : res->err.msg;
	if (record_attempt_end(r->ctx->db, &a->row, err) < 0)
		return -1;
	if (!has_result(a))
		return 0;
	in = arena_alloc(a->arena, (a->command.n_inputs + a->n_sources + 1) * sizeof(*in));
	out = arena_alloc(a->arena, (n_out + 1) * sizeof(*out));
	for (size_t i = 0; i < a->command.n_inputs; i++)
		in[n_in++] = (struct named_content){ a->command.inputs[i].name,
						     a->command.inputs[i].id };
	in[n_in++] = (struct named_content){ "(code)", a->command.code };
	for (size_t i = 0; i < a->n_sources; i++)
		in[n_in++] = a->sources[i];
	for (size_t i = 0; i < n_out; i++)
		out[i] = (struct named_content){ a->step->outputs[i].name, res->outputs[i] };
	differs = record_result(r->ctx->db,
				&(struct observation){ .attempt = a->row.id,
						       .key = &a->task->plan->key,
						       .cacheable = a->step->cache && !r->past,
						       .inputs = in,
						       .n_inputs = n_in,
						       .outputs = out,
						       .n_outputs = n_out },
				err);
	a->differs = differs > 0;
	return differs < 0 ? -1
			   : record_metrics(r->ctx->db, a->row.id, a->metrics, a->n_metrics, err);
}

/* Retries. */

static void backed_off(void *arg)
{
	struct task *t = arg;

	t->history->timer = NULL;
	task_set_phase(t, PHASE_READY);
	t->run->wake = true;
}

static bool may_retry(struct run *r, struct attempt *a, int64_t *ret_delay_ns)
{
	const struct retry_policy *p = &a->step->policy->retry;
	struct task_history *h = task_history_of(a->task);
	enum failure_class f = a->result->failure;
	int64_t low = p->backoff_min_ns, high;
	uint64_t seed = a->given.id;

	h->attempts = a->given.number;
	/* Missing content stays missing: a reproduction doesn't make it again. */
	if (r->past && f == FAILURE_STORE)
		return false;
	if (f == FAILURE_CANCELLED || f == FAILURE_GATE || a->given.local.shell ||
	    (r->end.stopping && !a->step->finally))
		return false;
	if (f == FAILURE_UNSCHEDULABLE && !r->ctx->runner->ops->durable)
		return false; /* this machine won't get larger */
	if (f == FAILURE_STORE && a->result->err.code == ERR_CHANGED)
		return false; /* an origin no longer has the pinned content */
	if (h->failures[f]++ >= p->budget[f])
		return false;
	if (f == FAILURE_OOM && p->oom_memory_factor > 1)
		h->memory_factor *= p->oom_memory_factor;
	/* Full jitter: between the first delay and its doubled value. Two gangs that blocked each
	 * other must not do so again, so they need different delays. */
	high = backoff_ns(low, p->backoff_max_ns, h->failures[f] + (f == FAILURE_UNSCHEDULABLE));
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	*ret_delay_ns = high <= low ? low : low + (int64_t)((seed >> 11) % (uint64_t)(high - low));
	return true;
}

/* Apply. */

/* Tasks behind one that goes on are handled when that one has ended. */
static void block_all(struct run *r, struct task_list *l)
{
	struct task *next;

	for (struct task *t = l->first; t; t = next) {
		next = t->after;
		if (plan_may_begin(r->plan, t->plan))
			continue;
		if (l->phase == PHASE_BACKING_OFF)
			loop_remove(r->ctx->loop, TAKE_PTR(t->history->timer));
		plan_task_end(r->plan, t->plan,
			      &(struct task_result){ .state = TASK_STATE_BLOCKED });
		start_task_over(t, false);
	}
}

static void block_waiting(struct run *r)
{
	static const enum task_phase waiting[] = { PHASE_READY, PHASE_PARKED, PHASE_ELSEWHERE,
						   PHASE_BACKING_OFF };

	for (size_t i = 0; i < map_len(r->tasks.groups); i++)
		block_all(r, group_line(map_at(r->tasks.groups, i, NULL, NULL)));
	for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
		block_all(r, &r->tasks.in[waiting[i]]);
}

static void stop_starting(struct run *r)
{
	if (r->end.stopping)
		return;
	r->end.stopping = true;
	plan_stop(r->plan);
	block_waiting(r);
}

/* Updates the plan and the task's phase after its attempt. *ret_delay_ns: until the retry, or
 * -1. */
static void apply_end(struct run *r, struct task *t, int64_t *ret_delay_ns)
{
	struct attempt *a = t->attempt;
	const struct runner_result *res = a->result;
	const enum failure_class f = res->failure;
	const bool retry = f != FAILURE_NONE && may_retry(r, a, ret_delay_ns);

	if (!retry)
		*ret_delay_ns = -1;
	t->attempt = NULL;
	task_set_phase(t, retry ? PHASE_BACKING_OFF : PHASE_PLANNED);
	if (retry) {
		t->history->content_failed = f == FAILURE_STORE;
		t->history->timer =
			loop_add_timer(r->ctx->loop, run_mono_ns(r) + *ret_delay_ns, backed_off, t);
	} else if (a->given.local.shell && f == FAILURE_NONE) {
		plan_task_end(r->plan, t->plan,
			      &(struct task_result){ .state = TASK_STATE_BLOCKED });
	} else if (f != FAILURE_CANCELLED) {
		const struct task_result end = { .state = f == FAILURE_NONE ? TASK_STATE_DONE
									    : TASK_STATE_FAILED,
						 .outputs = has_result(a) ? res->outputs : NULL,
						 .metrics = a->metrics,
						 .n_metrics = a->n_metrics,
						 .duration_ns = res->ended_ns - res->started_ns,
						 .attempt = a->row.id };

		plan_task_end(r->plan, t->plan, &end);
	}
	if (f == FAILURE_NONE || f == FAILURE_CANCELLED || retry)
		return;
	if (a->step->policy->continue_on_error) {
		run_notice(r, "%s failed, and the run goes on: `continue_on_error`", a->label);
		return;
	}
	if (!r->end.failed)
		r->row.message = arena_printf(r->arena, "%s: %s", a->label, res->err.msg);
	r->end.failed = true;
	r->end.itself |= f != FAILURE_STORE;
	if (!r->o->keep_going && a->step->policy->fail_fast)
		stop_starting(r);
}

/* Acts on an end that is on record and applied. Takes ownership of `a`. */
static void act_on_end(struct run *r, struct task *t, struct attempt *a, int64_t delay_ns)
{
	const struct runner_ops *ops = r->ctx->runner->ops;
	const struct runner_result *res = a->result;
	const enum failure_class f = res->failure;

	if (a->differs)
		run_notice(r,
			   "%s is not deterministic: the same key gave other bytes before (`cairn "
			   "why %s`)",
			   a->label, a->label);
	for (const char *s = res->undeclared; s && *s; s += strcspn(s, "\n") + 1)
		run_notice(r, "%s: %.*s", a->label, (int)strcspn(s, "\n"), s);
	if (res->undeclared && !*res->undeclared)
		run_notice(r, "%s: reads nothing that isn't declared", a->label);
	if (has_result(a) && a->step->cache)
		publisher_add(r->publisher, a);
	if (has_result(a)) {
		pack_learn(r, t);
		near_learn(r->near, &a->given, a->result->node);
	}
	if (has_result(a) && a->step->checkpoint && ops->drop_checkpoint)
		ops->drop_checkpoint(r->ctx->runner, a->given.key);
	OBSERVE(r, attempt_ended, a->given.id, &res->log);
	if (f != FAILURE_NONE && f != FAILURE_CANCELLED)
		OBSERVE(r, attempt_failed, a->given.id, a->label, a->given.number, res,
			delay_ns >= 0, MAX(delay_ns, 0));
	if (delay_ns < 0 && !(a->given.local.shell && f == FAILURE_NONE))
		OBSERVE(r, task_ended, a->given.id, a->label,
			f == FAILURE_NONE        ? OUTCOME_DONE
			: f == FAILURE_CANCELLED ? OUTCOME_CANCELLED
						 : OUTCOME_FAILED,
			res->ended_ns - res->started_ns);
	*map_slot(r->tasks.by_attempt, &a->given.id, sizeof(a->given.id), NULL) = NULL;
	if (!a->asks) {
		VEC_PUSH(&r->journal.settled, a->given.id);
		if (a->gave_back)
			r->slots.taking_in--;
		else
			slots_give(&r->slots, &a->given.resources);
	}
	start_give_back(t, has_result(a));
	attempt_free(a);
}

/* Act. */

static bool may_begin_more(const struct run *r)
{
	const struct task_list *parked = &r->tasks.in[PHASE_PARKED];
	bool too_often = r->tasks.passed == parked->first && r->tasks.passed_over >= PATIENCE;

	return r->slots.jobs_used < r->slots.jobs &&
	       (!parked->first || (parked->n < LOOK_AHEAD && !too_often));
}

/* Parked tasks first, then woken ones, then the plan's ready ones. */
static int look_at_all(struct run *r, struct err *err)
{
	struct task *next;

	for (struct task *t = r->tasks.in[PHASE_PARKED].first;
	     t && r->slots.jobs_used < r->slots.jobs; t = next) {
		next = t->after;
		if (start_task(r, t, err) < 0)
			return -1;
	}
	while (may_begin_more(r)) {
		struct task *t = r->tasks.in[PHASE_READY].first;

		if (!t) {
			struct plan_task *ready = plan_take_ready(r->plan);

			if (!ready)
				return 0;
			t = task_of(r, ready);
			task_set_phase(t, PHASE_READY);
		}
		if (start_task(r, t, err) < 0)
			return -1;
	}
	return 0;
}

/* A task may end here: it is a hit, or its inputs are lost. That affects other tasks, so the plan
 * is resolved again. */
static int act(struct run *r, struct err *err)
{
	struct run_counts c;
	uint64_t ended;

	do {
		int resolved;

		/* The snapshot misses what others record from now on. claim() in start.c looks that
		 * up when a task holds its key. */
		db_snapshot(r->ctx->db);
		resolved = plan_resolve(r->plan, err);
		db_snapshot_end(r->ctx->db);
		if (resolved < 0)
			return -1;
		plan_count(r->plan, &c);
		ended = c.hits + c.failed;
		if (r->end.interrupted && !r->end.finally)
			return 0;
		/* A hit failed a gate, or a task had failed before an engine died. */
		if (c.failed > plan_n_tolerated(r->plan) && !r->end.failed) {
			r->end.failed = true;
			if (!r->row.message)
				r->row.message = plan_gate_message(r->plan);
			if (r->row.message)
				OBSERVE(r, notice, r->row.message);
		}
		if (!r->o->keep_going && plan_must_stop(r->plan))
			stop_starting(r);
		/* Nothing begins before an earlier failure is known. */
		if (!r->earlier.looked_at && !r->o->keep_going && earlier_failed(r))
			stop_starting(r);
		r->earlier.looked_at = true;
		if (look_at_all(r, err) < 0)
			return -1;
		plan_count(r->plan, &c);
	} while (plan_unresolved(r->plan) || c.hits + c.failed != ended);
	return 0;
}

/* The turn. */

static int write_ends(struct run *r, struct err *err)
{
	for (size_t i = 0; i < r->journal.changed.n; i++) {
		struct attempt *a = r->journal.changed.v[i];

		if (str_eq(a->reported, a->waiting_for))
			continue;
		if (record_attempt_waiting(r->ctx->db, a->row.id, a->waiting_for, err) < 0)
			return -1;
		a->reported = a->waiting_for;
	}
	r->journal.changed.n = 0;
	for (struct task *t = r->tasks.in[PHASE_ENDED].first; t; t = t->after)
		if (write_end(r, t->attempt, err) < 0)
			return -1;
	return 0;
}

int run_in_transaction(struct run *r, int (*write)(struct run *r, struct err *err), struct err *err)
{
	return db_begin(r->ctx->db, err) < 0 ? -1 : db_finish(r->ctx->db, write(r, err), err);
}

static int take_ends(struct run *r, struct err *err)
{
	struct task_list *ended = &r->tasks.in[PHASE_ENDED];
	struct task *t;

	if (ended->n == 0 && r->journal.changed.n == 0)
		return 0;
	for (t = ended->first; t; t = t->after) {
		struct attempt *a = t->attempt;

		judge(r, a);
		if (has_result(a) && plan_task_sources(r->plan, t->plan, a->arena, &a->sources,
						       &a->n_sources, err) < 0)
			return -1;
	}
	if (run_in_transaction(r, write_ends, err) < 0)
		return -1;
	while ((t = ended->first)) {
		struct attempt *a = t->attempt;
		int64_t delay_ns;

		apply_end(r, t, &delay_ns);
		act_on_end(r, t, a, delay_ns);
	}
	return 0;
}

static int submit_starts(struct run *r, struct err *err)
{
	const struct runner_ops *ops = r->ctx->runner->ops;

	if ((r->tasks.in[PHASE_BEGUN].n || r->journal.to_close.n) &&
	    run_in_transaction(r, start_write_rows, err) < 0)
		return -1;
	for (size_t i = 0; ops->settled && i < r->journal.settled.n; i++) {
		ops->settled(r->ctx->runner, r->journal.settled.v[i]);
		if (ops->durable)
			watched_settled(r, r->journal.settled.v[i]);
	}
	r->journal.settled.n = 0;
	start_submit(r);
	return 0;
}

/* A cancelled run has this long for its steps of `finally`. */
#define FINALLY_NS (5LL * 60 * NS_PER_S)

static void finally_too_long(void *arg)
{
	struct run *r = arg;

	r->end.finally_timer = NULL;
	if (r->end.done || r->end.at_once)
		return;
	OBSERVE(r, notice, "the steps of `finally` took more than 5 minutes: stopping them");
	r->end.at_once = r->wake = true;
	run_cancel_attempts(r, true);
}

static void go_on_with_finally(struct run *r)
{
	r->end.finally = r->wake = true;
	r->end.finally_timer =
		loop_add_timer(r->ctx->loop, run_mono_ns(r) + FINALLY_NS, finally_too_long, r);
}

/* The run was cancelled, and all that ran has stopped: everything else ends as blocked, and the
 * steps of `finally` begin. False: there are none, or they may not begin any more. */
static bool begin_finally(struct run *r)
{
	if (r->end.finally || r->end.at_once || r->past || !plan_has_finally(r->plan))
		return false;
	if (earlier_close(r, &r->end.fatal) < 0) /* attempts elsewhere that nobody took up */
		return false;
	plan_cancel(r->plan);
	for (struct task *t = r->tasks.in[PHASE_PLANNED].first; t; t = t->after) {
		if (t->plan->state != TASK_TAKEN)
			continue;
		t->plan->cancelled = true;
		plan_task_end(r->plan, t->plan,
			      &(struct task_result){ .state = TASK_STATE_BLOCKED });
	}
	block_waiting(r);
	OBSERVE(r, notice, "steps of `finally` run; interrupt again to stop them");
	go_on_with_finally(r);
	return true;
}

void run_turn(void *arg)
{
	struct run *r = arg;
	const struct run_tasks *t = &r->tasks;
	struct err *err = &r->end.fatal;
	struct run_counts c;

	if (r->end.done || !r->wake)
		return;
	r->wake = false;
	do {
		if (take_ends(r, err) < 0 || act(r, err) < 0 || submit_starts(r, err) < 0) {
			r->end.done = true;
			return;
		}
	} while (t->in[PHASE_ENDED].n); /* attempts that failed at once */
	task_check_all(r);
	live_changed(r);
	if (r->ctx->observer && r->ctx->observer->progress) {
		plan_count(r->plan, &c);
		run_estimate(r);
		OBSERVE(r, progress, &c, t->in[PHASE_RUNNING].n, r->estimate.remaining_ns);
	}
	if (r->end.interrupted && (r->end.at_once || !r->end.finally))
		r->end.done = t->in[PHASE_RUNNING].n == 0 && !begin_finally(r);
	else
		r->end.done = t->in[PHASE_PLANNED].n == t->n && plan_n_ready(r->plan) == 0;
}

/* Stopping. */

bool run_cancel_requested(struct run *r)
{
	struct run_row now;

	return record_run_by_id(r->ctx->db, r->row.id, r->arena, &now, NULL) > 0 &&
	       now.cancel_requested;
}

void run_cancel_attempts(struct run *r, bool gentle)
{
	struct task *next;

	for (struct task *t = r->tasks.in[PHASE_RUNNING].first; t; t = next) {
		next = t->after; /* it may end at once */
		if (t->attempt->asks)
			approve_cancel(t);
		else
			r->ctx->runner->ops->cancel(r->ctx->runner, t->attempt->given.id, gentle);
	}
}

void run_on_signal(void *arg, int signo)
{
	struct run *r = arg;
	const bool now = r->end.interrupted;

	if (r->end.done) {
		if (!r->end.reported && !r->end.fatal.code)
			OBSERVE(r, notice,
				"all tasks have ended and their results are being stored: "
				"interrupt again to end at once; `cairn resume` does the rest");
		r->end.reported = true;
		return;
	}
	if (r->end.at_once)
		return;
	/* A stopped service (its pod moves, its machine restarts) doesn't mean that remote attempts
	 * should stop. They go on, and a resumed run takes them up. */
	if (signo != SIGINT && !now && r->ctx->runner->ops->durable && !run_cancel_requested(r)) {
		err_set(&r->end.fatal, ERR_CANCELLED,
			"the engine was asked to stop; what it started goes on");
		r->end.done = true;
		return;
	}
	/* `steps` have ended: nothing is left to stop but what runs in any case. */
	if (!now && plan_in_finally(r->plan) && plan_has_finally(r->plan)) {
		OBSERVE(r, notice, "steps of `finally` run; interrupt again to stop them");
		r->end.interrupted = true;
		go_on_with_finally(r);
		return;
	}
	OBSERVE(r, notice,
		now ? "stopping at once"
		    : "stopping: running tasks get their grace time; interrupt again to stop at "
		      "once");
	r->end.interrupted = r->wake = true;
	r->end.at_once = now;
	run_cancel_attempts(r, !now);
}
