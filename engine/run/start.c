/* engine/run/start.c — from a ready task to an attempt. One call of start_task() makes the task
 * begin, end without an attempt, or wait.
 *
 * A task takes what it needs in this order. First what costs nothing: its key among this run's
 * tasks, a turn in its concurrency group, room on this machine. Then what needs disks and stores:
 * the lease on its key among engines, a lookup of others' records, its command, its place in the
 * group.
 *
 * Later in the turn start_write_rows() writes the rows of all tasks that have begun, and
 * start_submit() gives them to the runner.
 *
 * Invariants: a task that waits holds its key and nothing else; those behind it would only wait for
 * the same. After start_task() no task is READY. A task that can't even begin (a missing secret,
 * too few GPUs) has a row and an end like one that ran. No attempt is submitted before its row is
 * committed.
 *
 * Threads: the loop's. Not here: writing ends and retrying (turn.c), continuing earlier attempts
 * (earlier.c).
 */
#include <assert.h>
#include "base/os/fs.h"
#include "run/internal.h"
#include "run/task/attempt.h"
#include "run/task/secret.h"
#include "runners/audit.h"

static uint64_t offset_of(const void *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, sizeof(v));
	return v & FS_LOCK_OFFSET_MAX;
}

/* Keys. */

/* Whether tasks with the same key share one result. A reproduction never does. */
static bool shares_key(const struct task *t)
{
	return t->run->pipeline->steps[t->plan->step].cache && !t->run->past;
}

/* Returns false when another task of this run has the key: then this one waits behind it. */
static bool take_key(struct task *t)
{
	struct task **of =
		(struct task **)map_slot(t->run->tasks.by_key, t->plan->key.b, DIGEST_BYTES, NULL);

	if (*of && *of != t) {
		task_wait_behind(t, *of);
		return false;
	}
	*of = t;
	t->has_key = true;
	return true;
}

/* With a result, all tasks that have the same key use it. Without one, the first of them tries, and
 * the others wait behind it. */
static void give_key(struct task *t, bool has_result)
{
	struct task *next = t->behind ? t->behind->first : NULL;
	const bool inherits = next && t->has_key && !has_result;

	if (t->has_key)
		*map_slot(t->run->tasks.by_key, t->plan->key.b, DIGEST_BYTES, NULL) =
			inherits ? next : NULL;
	t->has_key = false;
	if (!inherits) {
		while (t->behind && t->behind->first)
			task_set_phase(t->behind->first, PHASE_READY);
		return;
	}
	assert(!next->behind || next->behind->n == 0);
	task_set_phase(next, PHASE_READY);
	next->has_key = true;
	next->behind = TAKE_PTR(t->behind);
}

static void drop_lease(struct task *t)
{
	if (t->has_lease && t->run->ctx->leases_fd >= 0)
		fs_unlock_range(t->run->ctx->leases_fd, offset_of(t->plan->key.b));
	t->has_lease = false;
}

void start_give_back(struct task *t, bool has_result)
{
	drop_lease(t);
	group_turn_over(t);
	group_leave(t);
	give_key(t, has_result);
}

void start_task_over(struct task *t, bool has_result)
{
	start_give_back(t, has_result);
	task_set_phase(t, PHASE_PLANNED);
}

static void look_again(void *arg)
{
	struct run *r = arg;
	struct task *t;

	r->tasks.look_again = NULL;
	while ((t = r->tasks.in[PHASE_ELSEWHERE].first))
		task_set_phase(t, PHASE_READY);
	group_recheck_all(r);
	r->wake = true;
}

void start_recheck(struct run *r)
{
	if (!r->tasks.look_again)
		r->tasks.look_again = loop_add_timer(r->ctx->loop, run_mono_ns(r) + 50 * NS_PER_MS,
						     look_again, r);
}

/* Making the attempt. */

static struct runner_audit audit_of(const struct run *r, const struct attempt *a)
{
	return (struct runner_audit){ .project_dir = r->ctx->config->project_root,
				      .program =
					      a->given.argv[0][0] == '/' ? a->given.argv[0] : NULL,
				      .packages = a->step->reads->n_env_files ||
						  a->step->reads->n_tools ||
						  a->step->reads->environment };
}

/* Audits on request, or when cairn.yaml asks for it and the step has never been executed. */
static int set_audit(struct run *r, struct attempt *a, struct err *err)
{
	struct runner_audit *audit;
	bool wanted = false;
	int64_t ns;
	int known = 1;

	for (size_t i = 0; i < r->o->n_audit; i++)
		wanted |= str_eq(r->o->audit[i], "*") ||
			  step_name_is_in(a->step->name, r->o->audit[i]);
	if (!wanted && r->ctx->config->audit)
		known = record_step_duration(r->ctx->db, r->pipeline->name, a->step->name, &ns,
					     err);
	if (known < 0)
		return -1;
	if (!wanted && known)
		return 0;
	audit = arena_alloc(a->arena, sizeof(*audit));
	*audit = audit_of(r, a);
	a->given.local.audit = audit;
	return 0;
}

/* A strict attempt is watched, so that its failure can say what was refused. */
static void set_sandbox(struct run *r, struct attempt *a)
{
	static const enum runner_network networks[] = { [NETWORK_HOST] = RUNNER_NETWORK_HOST,
							[NETWORK_LOOPBACK] =
								RUNNER_NETWORK_LOOPBACK,
							[NETWORK_NONE] = RUNNER_NETWORK_NONE };
	const struct step_sandbox s = plan_step_sandbox(r->plan, a->task->plan->step);
	const struct step_reads *reads = a->step->reads;
	struct runner_sandbox *box;
	struct runner_audit *audit;
	const char **tools;

	if (s.strictness != STRICTNESS_STRICT && s.network == NETWORK_HOST)
		return;
	tools = arena_alloc(a->arena, (reads->n_tools + 1) * sizeof(*tools));
	for (size_t i = 0; i < reads->n_tools; i++)
		tools[i] = reads->tools[i];
	box = arena_alloc(a->arena, sizeof(*box));
	*box = (struct runner_sandbox){ .strict = s.strictness == STRICTNESS_STRICT,
					.network = networks[s.network],
					.project_dir = r->ctx->config->project_root,
					.tools = tools };
	a->given.local.sandbox = box;
	if (!box->strict || a->given.local.shell || a->given.local.audit)
		return;
	audit = arena_alloc(a->arena, sizeof(*audit));
	*audit = audit_of(r, a);
	audit->refused = true;
	a->given.local.audit = audit;
}

/* Only pods can mount volumes of a cluster. */
static int check_volumes(const struct attempt *a, struct err *err)
{
	for (size_t i = 0; i < a->given.n_inputs; i++)
		if (a->given.inputs[i].volume)
			return err_set(err, ERR_INVALID,
				       "input `%s` is %s, a volume of a Kubernetes cluster, which "
				       "this machine can't read: execute the step there, with "
				       "`--on kubernetes`",
				       a->given.inputs[i].name, a->given.inputs[i].volume);
	return 0;
}

/* A step that submits to another cluster calls its work there by this name, in each attempt of the
 * task in this run: so one after a crash finds what the one before submitted. */
static void name_submission(struct run *r, struct attempt *a)
{
	const char *const *env = a->given.env, **more;
	_cleanup_(str_deinit) struct str text = { 0 };
	char hex[DIGEST_HEX_MAX];
	struct digest d;
	size_t n = 0;

	if (!step_is_launched(a->step) || step_has_ranks(a->step))
		return;
	str_add_field(&text, r->row.id, strlen(r->row.id));
	str_add_field(&text, a->label, strlen(a->label));
	digest_bytes(text.s, text.len, &d);
	while (env && env[n])
		n++;
	more = arena_alloc(a->arena, (n + 2) * sizeof(*more));
	for (size_t i = 0; i < n; i++)
		more[i] = env[i];
	more[n++] = arena_printf(a->arena, "CAIRN_SUBMISSION=cairn-%.20s", digest_hex(&d, hex));
	more[n] = NULL;
	a->given.env = more;
}

/* Fills in what the runner needs. */
static int fill_attempt(struct run *r, struct attempt *a, struct err *err)
{
	const struct runner_resources resources = a->given.resources;
	const struct task_history *h = a->task->history;
	const bool durable = r->ctx->runner->ops->durable;
	_cleanup_(str_deinit) struct str value = { 0 };
	const char *shell = getenv("SHELL"), **words;

	attempt_of_step(a->step, &a->command, a->arena, &a->given);
	if (!durable && check_volumes(a, err) < 0)
		return -1;
	a->given.run_id = r->row.id;
	a->given.task = a->label;
	a->given.number = h ? h->attempts + 1 : durable ? earlier_number(r, a->label) + 1 : 1;
	a->given.key = &a->task->plan->key;
	a->given.resources = resources;
	a->given.keep_workspace = r->o->keep_workspace;
	/* Checkpoints are kept by key: a reproduction gets a key of its own, and sees only
	 * its own. */
	if (r->past) {
		struct digest *d = arena_alloc(a->arena, sizeof(*d));
		const char *text = arena_printf(a->arena, "%s %s", r->row.id, a->label);

		digest_bytes(text, strlen(text), d);
		a->given.key = d;
	}
	if (r->o->shell_step &&
	    (str_eq(r->o->shell_step, a->label) || str_eq(r->o->shell_step, a->step->name))) {
		words = arena_alloc(a->arena, 2 * sizeof(*words));
		words[0] = shell && *shell == '/' ? shell : "/bin/sh";
		a->given.local.shell = true;
		a->given.argv = words;
		a->given.timeout_ns = 0;
	}
	if (a->step->approve)
		return 0;
	if (durable)
		a->given.on.pack = pack_size(r, a);
	if (durable && h) {
		a->given.on.disrupted = h->failures[FAILURE_PREEMPTED] + h->failures[FAILURE_LOST];
		a->given.on.copies = h->failures[FAILURE_STORE] > 0;
	}
	near_fill(r->near, a->arena, &a->given);
	if (!durable)
		a->given.env = environment_activate(r, a->task->plan, a->given.env, a->arena);
	name_submission(r, a);
	if (!durable && !a->given.local.shell && set_audit(r, a, err) < 0)
		return -1;
	if (!durable)
		set_sandbox(r, a);
	else if (plan_step_sandbox(r->plan, a->task->plan->step).strictness == STRICTNESS_STRICT)
		a->given.on.pack = 1; /* others in its pod would be seen */
	if (durable) /* elsewhere the runner passes the secret of that name that is kept there */
		return 0;
	words = arena_alloc(a->arena, (a->step->reads->n_secrets + 1) * sizeof(*words));
	for (size_t i = 0; i < a->step->reads->n_secrets; i++) {
		str_reset(&value);
		if (secret_get(r->ctx->config, a->step->reads->secrets[i], &value, err) < 0)
			return -1;
		words[i] = arena_printf(a->arena, "%s=%s", a->step->reads->secrets[i],
					value.len ? value.s : "");
	}
	a->given.secrets = words;
	return 0;
}

/* Fills in the row and the reason why the task runs. An attempt that an earlier engine submitted
 * and that still goes on keeps its own row. */
static int describe(struct run *r, struct attempt *a, struct err *err)
{
	_cleanup_(str_deinit) struct str reason = { 0 };
	struct attempt_row *earlier = earlier_row(r, a);

	if (earlier) {
		a->row = *earlier;
		a->reported = earlier->waiting;
		a->taken_up = true;
		a->given.number = earlier->number;
		return 0;
	}
	a->row = (struct attempt_row){ .run = r->row.rowid,
				       .task = a->label,
				       .step = a->step->name,
				       .number = a->given.number,
				       .key = a->task->plan->key,
				       .started_ns = run_wall_ns(r),
				       .image = a->given.on.image };
	str_add(&reason, "");
	if (a->given.number > 1)
		str_add(&reason, a->task->history ? "retry" : REASON_RESUMED);
	else if (r->past)
		str_addf(&reason, "reproduces %s", r->past->manifest.run->id);
	else if (plan_task_reason(r->plan, a->task->plan, &a->command.key_record, &reason, err) < 0)
		return -1;
	a->row.reason = arena_strndup(a->arena, reason.s, reason.len);
	return 0;
}

int start_write_rows(struct run *r, struct err *err)
{
	struct db *db = r->ctx->db;

	for (size_t i = 0; i < r->journal.to_close.n; i++)
		if (earlier_close_changed(r, r->journal.to_close.v[i], err) < 0)
			return -1;
	r->journal.to_close.n = 0;
	for (struct task *t = r->tasks.in[PHASE_BEGUN].first; t; t = t->after) {
		struct attempt *a = t->attempt;
		const struct str *key = &a->command.key_record;
		const bool asks = a->asks && !a->taken_up;

		if (!a->taken_up && (record_attempt_start(db, &a->row, err) < 0 ||
				     (a->given.number == 1 &&
				      record_key(db, &t->plan->key, key->s, key->len, err) < 0) ||
				     (t->plan->miss == MISS_BLOBS_GONE &&
				      record_forget(db, &t->plan->key, err) < 0)))
			return -1;
		if (asks &&
		    record_approval_ask(db, a->row.id, a->row.approval, a->waiting_for, err) < 0)
			return -1;
		if (asks && run_notices_of(r) &&
		    run_notices_of(r)->asks(run_notices_of(r)->arg, &r->row, &a->row,
					    a->waiting_for, err) < 0)
			return -1;
		a->given.id = (uint64_t)a->row.id;
	}
	return 0;
}

/* A forced task drops its checkpoint, unless this run has begun the task before. */
static bool begins_anew(const struct run *r, const struct attempt *a)
{
	bool begun = a->given.number != 1;

	for (size_t i = 0; i < r->earlier.n && !begun; i++)
		begun = str_eq(r->earlier.attempts[i].task, a->label);
	return !begun;
}

void start_submit(struct run *r)
{
	const struct runner_ops *ops = r->ctx->runner->ops;
	struct task *t;

	while ((t = r->tasks.in[PHASE_BEGUN].first)) {
		struct attempt *a = t->attempt;
		struct err e = { 0 };

		*map_slot(r->tasks.by_attempt, &a->given.id, sizeof(a->given.id), NULL) = t;
		if (a->fails_at_once) {
			task_set_phase(t, PHASE_ENDED);
			continue;
		}
		if (a->step->checkpoint && t->plan->forced && ops->drop_checkpoint &&
		    begins_anew(r, a))
			ops->drop_checkpoint(r->ctx->runner, a->given.key);
		OBSERVE(r, task_started, a->given.id, a->label, a->given.number, a->row.reason);
		if (a->asks) {
			approve_wait(t);
			continue;
		}
		task_set_phase(t, PHASE_RUNNING);
		if (ops->submit(r->ctx->runner, &a->given, &e) == 0)
			continue;
		attempt_ended(a, &(struct runner_result){ .failure = FAILURE_LOST,
							  .exit_status = -1,
							  .err = e,
							  .started_ns = a->row.started_ns,
							  .ended_ns = a->row.started_ns });
		task_set_phase(t, PHASE_ENDED);
	}
}

/* Takes ownership of `a`. An attempt that can't even begin (`lacks`: a missing secret, too few
 * GPUs) fails like one that ran. */
static int begin(struct task *t, struct attempt *a, enum failure_class class, struct err *lacks,
		 struct err *err)
{
	struct err why = { 0 };

	t->attempt = a;
	task_set_phase(t, PHASE_BEGUN);
	if (fill_attempt(t->run, a, &why) < 0 && !lacks->code)
		*lacks = why;
	if (describe(t->run, a, err) < 0 ||
	    (a->step->approve && approve_describe(t->run, a, err) < 0))
		return -1;
	a->fails_at_once = lacks->code != ERR_NONE;
	if (a->fails_at_once)
		attempt_ended(a, &(struct runner_result){ .failure = class,
							  .exit_status = -1,
							  .err = *lacks,
							  .started_ns = a->row.started_ns,
							  .ended_ns = run_wall_ns(t->run) });
	return 0;
}

/* Decide what a task does next. */

/* 1: this engine has the lease on the key, and no result exists yet. 0: the task waits, or is a
 * hit. */
static int claim(struct task *t, struct err *err)
{
	_cleanup_(str_deinit) struct str label = { 0 };
	struct run *r = t->run;
	int result = 0;

	if (r->ctx->leases_fd >= 0)
		result = fs_lock_range_try(r->ctx->leases_fd, offset_of(t->plan->key.b), err);
	if (result < 0)
		return -1;
	if (result > 0) {
		task_set_phase(t, PHASE_ELSEWHERE);
		start_recheck(r);
		if (!r->reported_waiting) {
			plan_task_label(r->plan, t->plan, &label);
			run_notice(r, "%s is being executed by another run: waiting for its result",
				   label.s);
		}
		r->reported_waiting = true;
		return 0;
	}
	t->has_lease = true;
	db_snapshot(r->ctx->db); /* what others recorded before we got the lease is in it */
	result = plan_task_lookup(r->plan, t->plan, err);
	if (result > 0)
		start_task_over(t, true);
	return result < 0 ? -1 : !result;
}

/* 1: *ret has everything that it needs except room. 0: the task waits or has ended. -1: error. */
static int prepare(struct task *t, struct attempt **ret, struct err *err)
{
	struct run *r = t->run;
	struct str label = { 0 };
	struct plan_task *after;
	struct attempt *a;
	int result;

	if (shares_key(t) && (result = claim(t, err)) <= 0)
		return result;
	/* It may have waited for another task's result, and got none. */
	if (!plan_may_begin(r->plan, t->plan)) {
		plan_task_end(r->plan, t->plan,
			      &(struct task_result){ .state = TASK_STATE_BLOCKED });
		start_task_over(t, false);
		return 0;
	}
	a = xcalloc(1, sizeof(*a));
	a->task = t;
	a->step = plan_task_step(r->plan, t->plan);
	a->arena = arena_new();
	plan_task_label(r->plan, t->plan, &label);
	a->label = str_take(&label);
	result = plan_task_command(r->plan, t->plan, a->arena, &a->command, err) < 0 ? -1 : 1;
	if (result > 0 && r->past)
		result = reproduce_admit(r, a, &after, err);
	if (result == 2)
		task_wait_behind(t, task_of(r, after));
	else if (result > 0)
		result = group_enter(t, a->command.concurrency_group, err);
	else if (result == 0)
		start_task_over(t, false);
	if (result == 1) {
		*ret = a;
		return 1;
	}
	attempt_free(a);
	return MIN(result, 0);
}

static int look(struct task *t, struct err *err)
{
	struct run *r = t->run;
	const struct step *s = plan_task_step(r->plan, t->plan);
	struct runner_resources resources;
	const struct attempt_row *last;
	enum failure_class class = FAILURE_FAILED;
	struct content_id log = { 0 };
	struct err lacks = { 0 };
	struct attempt *a;
	int result;

	if (t->history && t->history->content_failed) { /* missing content is made again first */
		t->history->content_failed = false;
		start_task_over(t, false);
		return plan_give_back(r->plan, t->plan, err);
	}
	/* It had failed for good before the engine died, and isn't retried. */
	if (!t->history && earlier_history(t, &last)) {
		if (!r->row.message && !s->policy->continue_on_error)
			r->row.message = arena_printf(
				r->arena, "%s: %s", last->task,
				last->message ? last->message : failure_class_name(last->failure));
		r->end.itself |= last->failure != FAILURE_STORE && !s->policy->continue_on_error;
		plan_task_end(
			r->plan, t->plan,
			&(struct task_result){ .state = TASK_STATE_FAILED,
					       .duration_ns = last->ended_ns - last->started_ns,
					       .attempt = last->id });
		start_task_over(t, false);
		return 0;
	}
	if (shares_key(t) && !take_key(t))
		return 0;
	if (!group_admits(t))
		return 0;
	if (s->approve) { /* nothing is executed */
		result = prepare(t, &a, err);
		return result <= 0 ? result : begin(t, a, class, &lacks, err);
	}
	result = plan_may_begin(r->plan, t->plan) ? environment_ready(t, &log, &lacks) : 1;
	if (result == 0)
		return 0;
	if (result > 0 &&
	    slots_want(&r->slots, &s->machine->resources,
		       distributed_nodes_here(&s->machine->distributed),
		       t->history ? t->history->memory_factor : 1, &resources, &lacks) < 0) {
		class = FAILURE_UNSCHEDULABLE;
		result = -1;
	}
	if (result < 0) /* it can't begin: its row says so, and needs only a place */
		resources = (struct runner_resources){ 0 };
	if ((result > 0 && pack_must_wait(r, t)) || !slots_take(&r->slots, &resources)) {
		if (task_phase(t) != PHASE_PARKED)
			task_set_phase(t, PHASE_PARKED);
		return 0;
	}
	result = prepare(t, &a, err);
	if (result <= 0) {
		slots_give(&r->slots, &resources);
		return result;
	}
	a->given.resources = resources;
	if (begin(t, a, class, &lacks, err) < 0)
		return -1;
	if (log.kind)
		a->result->log = log;
	return 0;
}

int start_task(struct run *r, struct task *t, struct err *err)
{
	const struct task *first = r->tasks.in[PHASE_PARKED].first;
	int looked;

	assert(task_phase(t) == PHASE_READY || task_phase(t) == PHASE_PARKED);
	looked = look(t, err);
	db_snapshot_end(r->ctx->db); /* of claim() */
	if (looked < 0)
		return -1;
	if (task_phase(t) != PHASE_BEGUN)
		drop_lease(t);
	group_turn_over(t);
	assert(task_phase(t) != PHASE_READY);
	if (first != r->tasks.passed)
		r->tasks.passed_over = 0;
	r->tasks.passed = first;
	r->tasks.passed_over += first && first != t && task_phase(t) == PHASE_BEGUN;
	return 0;
}
