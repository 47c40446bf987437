/* From a ready task to an attempt: lease on its key, a last look at what is on record, slots, rows in the journal. */
#include "base/fs.h"
#include "run/attempt.h"
#include "run/internal.h"
#include "run/secret.h"

static struct clock *clock_of(const struct run *r)
{
	return loop_clock(r->ctx->loop);
}

struct task_history *history_of(struct run *r, struct plan_task *t, bool make)
{
	struct task_history *h = map_get(r->history, &t, sizeof(t));

	if (!h && make) {
		h = arena_alloc(r->arena, sizeof(*h));
		h->memory_factor = 1;
		*map_slot(r->history, &t, sizeof(t), NULL) = h;
	}
	return h;
}

static uint64_t offset_of(const void *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, sizeof(v));
	return v & FS_LOCK_OFFSET_MAX;
}

/* --- giving back --------------------------------------------------------------------------------------------------------- */

void active_release(struct active *a)
{
	struct run *r = a->run;

	slots_give(&r->slots, &a->attempt.resources);
	if (a->has_lease) {
		*map_slot(r->running_keys, a->task->key.b, DIGEST_BYTES, NULL) = NULL;
		if (r->ctx->leases_fd >= 0)
			fs_unlock_range(r->ctx->leases_fd, offset_of(a->task->key.b));
	}
	group_leave(a);
	for (size_t i = 0; i < a->n_waiting; i++)
		plan_requeue(r->plan, a->waiting[i]);
	a->n_waiting = 0;
	if (r->deferred.n)
		r->defer_due = true;
}

void active_free(struct active *a)
{
	if (!a)
		return;
	str_deinit(&a->command.key_record);
	free(a->label);
	free(a->waiting);
	arena_free(a->arena);
	free(a);
}

/* --- waiting ------------------------------------------------------------------------------------------------------------- */

static void defer_over(void *arg)
{
	struct run *r = arg;

	r->defer_timer = NULL;
	r->defer_due = r->wake = true;
}

/* Nobody tells us when another engine lets go of a key: look again soon. */
int start_later(struct run *r, struct plan_task *t)
{
	struct clock *c = clock_of(r);

	VEC_PUSH(&r->deferred, t);
	if (!r->defer_timer)
		r->defer_timer = loop_add_timer(r->ctx->loop, c->mono_ns(c) + 50 * NS_PER_MS, defer_over, r);
	return 0;
}

static int wait_for_same_key(struct active *running, struct plan_task *t)
{
	running->waiting = xreallocarray(running->waiting, running->n_waiting + 1, sizeof(t));
	running->waiting[running->n_waiting++] = t;
	return 0;
}

/* 0 had, 1 another engine has it, -1 error. */
static int take_lease(struct run *r, struct plan_task *t, struct err *err)
{
	if (r->ctx->leases_fd < 0)
		return 0;
	return fs_lock_range_try(r->ctx->leases_fd, offset_of(t->key.b), err);
}

static void drop_lease(struct run *r, struct plan_task *t)
{
	if (r->ctx->leases_fd >= 0)
		fs_unlock_range(r->ctx->leases_fd, offset_of(t->key.b));
}

/* --- making the attempt ----------------------------------------------------------------------------------------------------- */

static int fill_secrets(struct run *r, struct active *a, struct err *err)
{
	const char **v = arena_alloc(a->arena, (a->step->n_secrets + 1) * sizeof(*v));
	_cleanup_(str_deinit) struct str value = { 0 };

	for (size_t i = 0; i < a->step->n_secrets; i++) {
		str_reset(&value);
		if (secret_get(r->ctx->config, a->step->secrets[i], &value, err) < 0)
			return -1;
		v[i] = arena_printf(a->arena, "%s=%s", a->step->secrets[i], value.len ? value.s : "");
	}
	a->attempt.secrets = v;
	return 0;
}

static const char *const *shell_argv(struct active *a)
{
	const char *const words[] = { "/bin/sh", NULL };
	const char *shell = getenv("SHELL");
	const char **v = arena_memdup(a->arena, words, sizeof(words));

	if (shell && *shell == '/')
		v[0] = shell;
	return v;
}

static bool wants_shell(const struct run *r, const struct active *a)
{
	return r->o->shell_step && (str_eq(r->o->shell_step, a->label) || str_eq(r->o->shell_step, a->step->name));
}

/* Checkpoints are kept under it. A reproduction goes on from its own, and from nobody else's. */
static const struct digest *checkpoint_key(struct run *r, struct active *a)
{
	struct digest *d;
	char *text;

	if (!r->past)
		return &a->task->key;
	d = arena_alloc(a->arena, sizeof(*d));
	text = arena_printf(a->arena, "%s %s", r->row.id, a->label);
	digest_bytes(text, strlen(text), d);
	return d;
}

static int fill_attempt(struct run *r, struct active *a, struct err *err)
{
	struct task_history *h = history_of(r, a->task, false);
	const struct runner_resources given = a->attempt.resources;

	attempt_of_step(a->step, &a->command, a->arena, &a->attempt);
	a->attempt.run_id = r->row.id;
	a->attempt.task = a->label;
	a->attempt.number = h ? h->attempts + 1 : r->ctx->runner->ops->durable ? earlier_number(r, a->label) + 1 : 1;
	a->attempt.key = checkpoint_key(r, a);
	a->attempt.resources = given;
	a->attempt.keep_workspace = r->o->keep_workspace;
	if (wants_shell(r, a)) {
		a->attempt.shell = true;
		a->attempt.argv = shell_argv(a);
		a->attempt.timeout_ns = 0;
	}
	/* Elsewhere a program is given what is kept there under the name. */
	return r->ctx->runner->ops->durable ? 0 : fill_secrets(r, a, err);
}

/* What the row says, and why the task runs. The attempt that an earlier engine submitted and that goes on where it runs keeps its own. */
static int describe(struct run *r, struct active *a, struct err *err)
{
	struct clock *c = clock_of(r);
	_cleanup_(str_deinit) struct str reason = { 0 };
	struct attempt_row *earlier = earlier_row(r, a);

	if (earlier) {
		a->row = *earlier;
		a->told = earlier->waiting;
		a->taken_up = true;
		a->attempt.number = earlier->number;
		return 0;
	}
	a->row = (struct attempt_row){ .run = r->row.rowid, .task = a->label, .step = a->step->name, .number = a->attempt.number,
				       .key = a->task->key, .started_ns = c->wall_ns(c), .image = a->attempt.image };
	str_add(&reason, "");
	if (a->attempt.number > 1)
		str_add(&reason, history_of(r, a->task, false) ? "retry" : REASON_RESUMED);
	else if (r->past)
		str_addf(&reason, "reproduces %s", r->past->manifest.run->id);
	else if (plan_task_reason(r->plan, a->task, &a->command.key_record, &reason, err) < 0)
		return -1;
	a->row.reason = arena_strndup(a->arena, reason.s, reason.len);
	return 0;
}

static int write_row(struct run *r, struct active *a, struct err *err)
{
	struct db *db = r->ctx->db;

	if (!a->taken_up && (record_attempt_start(db, &a->row, err) < 0 ||
			     (a->attempt.number == 1 && record_key(db, &a->task->key, a->command.key_record.s, a->command.key_record.len, err) < 0) ||
			     (a->task->miss == MISS_BLOBS_GONE && record_forget(db, &a->task->key, err) < 0)))
		return -1;
	a->attempt.id = (uint64_t)a->row.id;
	return 0;
}

int start_write_rows(struct run *r, struct err *err)
{
	for (size_t i = 0; i < r->to_close.n; i++)
		if (earlier_close_changed(r, r->to_close.v[i], err) < 0)
			return -1;
	r->to_close.n = 0;
	for (size_t i = 0; i < r->to_write.n; i++)
		if (write_row(r, r->to_write.v[i], err) < 0)
			return -1;
	return 0;
}

/* Asked for anew means from the beginning; a resumed run has begun already. */
static bool begins_anew(const struct run *r, const struct active *a)
{
	if (!a->step->checkpoint || !a->task->forced || a->attempt.number != 1)
		return false;
	for (size_t i = 0; i < r->n_earlier; i++)
		if (str_eq(r->earlier[i].task, a->label))
			return false;
	return true;
}

void start_rows_written(struct run *r)
{
	const struct runner_ops *ops = r->ctx->runner->ops;

	for (size_t i = 0; i < r->to_write.n; i++) {
		struct active *a = r->to_write.v[i];

		*map_slot(r->actives, &a->attempt.id, sizeof(a->attempt.id), NULL) = a;
		if (a->fails_at_once) {
			VEC_PUSH(&r->ended, a);
			continue;
		}
		if (begins_anew(r, a) && ops->drop_checkpoint)
			ops->drop_checkpoint(r->ctx->runner, a->attempt.key);
		VEC_PUSH(&r->to_submit, a);
	}
	r->to_write.n = 0;
}

/* An attempt that can't even begin (a secret that isn't there, too few GPUs) fails like one that ran. */
static int fail_at_once(struct run *r, struct active *a, enum failure_class class, struct err *why, struct err *err)
{
	struct clock *c = clock_of(r);

	if (describe(r, a, err) < 0)
		return -1;
	a->fails_at_once = true;
	a->result = (struct runner_result){ .failure = class, .exit_status = -1, .started_ns = a->row.started_ns, .ended_ns = c->wall_ns(c), .err = *why };
	VEC_PUSH(&r->to_write, a);
	r->n_running++;
	return 1;
}

static struct active *active_new(struct run *r, struct plan_task *t)
{
	struct active *a = xcalloc(1, sizeof(*a));
	struct str label = { 0 };

	a->run = r;
	a->task = t;
	a->step = &r->pipeline->steps[t->step];
	a->arena = arena_new();
	plan_task_label(r->plan, t, &label);
	a->label = str_take(&label);
	return a;
}

static int begin(struct run *r, struct active *a, struct err *err)
{
	struct err why = { 0 };

	if (fill_attempt(r, a, &why) < 0)
		return fail_at_once(r, a, FAILURE_FAILED, &why, err);
	if (describe(r, a, err) < 0)
		return -1;
	VEC_PUSH(&r->to_write, a);
	r->n_running++;
	return 1;
}

static void tell_waiting(struct run *r, struct plan_task *t)
{
	_cleanup_(str_deinit) struct str text = { 0 }, label = { 0 };

	if (r->told_waiting)
		return;
	r->told_waiting = true;
	plan_task_label(r->plan, t, &label);
	str_addf(&text, "%s is being executed by another run: waiting for its result", label.s);
	OBSERVE(r, notice, text.s);
}

/* Holds the key from here on, or nothing. 1 go on, 0 it waits or became a hit, -1 error. */
static int claim_key(struct run *r, struct plan_task *t, struct err *err)
{
	struct active *same;
	int busy;

	if (!r->pipeline->steps[t->step].cache || r->past) /* what a reproduction executes answers for nobody */
		return 1;
	same = map_get(r->running_keys, t->key.b, DIGEST_BYTES);
	if (same)
		return wait_for_same_key(same, t);
	busy = take_lease(r, t, err);
	if (busy < 0)
		return -1;
	if (busy) {
		tell_waiting(r, t);
		return start_later(r, t);
	}
	busy = plan_task_lookup(r->plan, t, err);
	if (busy == 0)
		return 1;
	drop_lease(r, t);
	return busy < 0 ? -1 : 0;
}

static int park(struct run *r, struct plan_task *t)
{
	VEC_PUSH(&r->parked, t);
	return 0;
}

/* It had failed for good before the engine died: that stands. */
static void fail_as_before(struct run *r, struct plan_task *t, const struct attempt_row *last)
{
	if (!r->row.message)
		r->row.message = arena_printf(r->arena, "%s: %s", last->task, last->message ? last->message : failure_class_name(last->failure));
	r->failed_itself |= last->failure != FAILURE_STORE;
	plan_task_end(r->plan, t, TASK_STATE_FAILED, NULL, NULL, 0, last->ended_ns - last->started_ns, last->id);
}

/* Slots and a place in its group, or it waits for them. Takes `a` over when it starts. */
static int find_room(struct run *r, struct active *a, struct err *err)
{
	struct task_history *h = history_of(r, a->task, false);
	struct err why = { 0 };
	int result;

	if (slots_want(&r->slots, &a->step->resources, MAX(a->step->distributed.nodes, 1), h ? h->memory_factor : 1, &a->attempt.resources, &why) < 0) {
		a->attempt.resources = (struct runner_resources){ 0 };
		r->slots.jobs_used++;
		return fail_at_once(r, a, FAILURE_UNSCHEDULABLE, &why, err);
	}
	result = group_enter(r, a, err);
	if (result <= 0)
		return result;
	if (!slots_take(&r->slots, &a->attempt.resources)) {
		group_take_back(a);
		return park(r, a->task);
	}
	result = begin(r, a, err);
	if (result < 0) {
		slots_give(&r->slots, &a->attempt.resources);
		group_take_back(a);
	}
	return result;
}

static int try_task(struct run *r, struct plan_task *t, bool *ret_has_place, struct err *err)
{
	const struct attempt_row *last;
	struct active *a;
	int result;

	if (!history_of(r, t, false) && earlier_history(r, t, &last)) {
		fail_as_before(r, t, last);
		return 0;
	}
	result = claim_key(r, t, err);
	if (result <= 0)
		return result;
	if (r->stopping && !may_go_on(r, t)) { /* it waited for another's result, and there is none */
		if (r->pipeline->steps[t->step].cache && !r->past)
			drop_lease(r, t);
		plan_task_end(r->plan, t, TASK_STATE_BLOCKED, NULL, NULL, 0, 0, 0);
		return 0;
	}
	a = active_new(r, t);
	a->has_lease = a->step->cache && !r->past;
	result = plan_task_command(r->plan, t, a->arena, &a->command, err) < 0 ? -1 : 1;
	if (result > 0 && r->past)
		result = reproduce_admit(r, a, err);
	if (result == 2) /* what it reads may come back */
		result = start_later(r, t);
	else if (result > 0)
		result = find_room(r, a, err);
	if (result > 0) {
		if (a->has_lease)
			*map_slot(r->running_keys, t->key.b, DIGEST_BYTES, NULL) = a;
		*ret_has_place = a->group != NULL;
		return 1;
	}
	if (a->has_lease)
		drop_lease(r, t);
	active_free(a);
	return result;
}

int start_task(struct run *r, struct plan_task *t, struct err *err)
{
	bool waits, has_place = false;
	struct group *g = group_before(r, t, &waits);
	int result;

	if (waits)
		return 0;
	result = try_task(r, t, &has_place, err);
	if (result >= 0)
		group_after(r, g, t, has_place);
	return result;
}
