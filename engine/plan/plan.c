/* engine/plan/plan.c — resolving tasks in waves.
 *
 * A batch is made of tasks whose `pending` is 0. Some end without a key (end_without_key()); the
 * others are keyed and looked up (look_up()). The content of hits is checked for the whole batch at
 * once, since asking the store costs more than computing keys. Then each task is a hit and ends, or
 * is ready (end_or_ready()). Tasks that end ready further tasks, or let steps expand
 * (expand_again). This repeats until neither is left.
 *
 * Invariants: a task is put in `to_key` exactly once, when its `pending` reaches 0; every ended
 * task has told its dependents, once; `counts` agrees with the tasks' states. A revived task
 * (past/absent.c), whose content is made again, still counts as ended for its dependents. Only the
 * tasks that wait for its bytes learn of its second end, unless it fails or is left out.
 * plan_prove_ended() checks this at the end of a run.
 *
 * One thread. engine/run has attempts, leases and retries; the plan only learns how tasks end.
 */
#include <assert.h>
#include "base/text/text.h"
#include "plan/code/code.h"

/* Tasks keyed and looked up together. Bounds the memory of a batch; large enough that one existence
 * check covers many tasks. */
#define KEY_BATCH_MAX 16384

/* Life. */

int plan_expand_all(struct plan *p, struct err *err)
{
	/* While `steps` go on, those of `finally` that can't be expanded yet aren't looked at. */
	const bool look = p->ordinary.run_state || p->ordinary.n_expanded < p->ordinary.n;

	for (size_t i = 0; look && i < p->n_steps && p->n_expanded < p->n_steps; i++)
		if (plan_expand_step(p, p->ctx.pipeline->order[i], err) < 0)
			return -1;
	return 0;
}

/* Steps of `finally`. */

/* The tasks of `finally` wait for one thing more than what they refer to: this. */
static void begin_finally(struct plan *p)
{
	p->ordinary.run_state = p->cancelled ? "cancelled"
				: p->counts.failed + p->counts.blocked > p->ordinary.n_tolerated
					? "failed"
					: "succeeded";
	for (size_t i = 0; i < p->n_steps; i++) {
		struct plan_step *s = &p->steps[i];

		for (size_t k = 0; s->decl->finally && k < s->n_tasks; k++)
			if (--s->tasks[k].pending == 0)
				queue_push(&p->to_key, &s->tasks[k]);
	}
	p->expand_again = true;
}

void plan_count_open(struct plan *p, const struct step *s, int64_t change)
{
	if (s->finally)
		return;
	p->ordinary.open += (uint64_t)change;
	if (p->ordinary.open == 0 && !p->ordinary.run_state)
		begin_finally(p);
}

static void begin_step(struct plan *p, size_t i)
{
	const struct step *decl = &p->ctx.pipeline->steps[i];
	const bool fans = decl->tasks->matrix.n_axes || decl->tasks->each || decl->tasks->repeat ||
			  step_has_settings(decl);

	p->steps[i].decl = decl;
	p->steps[i].fan = fans ? arena_alloc(p->arena, sizeof(*p->steps[i].fan)) : &p->no_fan;
	p->steps[p->ctx.pipeline->order[i]].rank = (uint32_t)i;
}

/* Lists all dependents in one array, step after step. */
static void link_dependents(struct plan *p)
{
	struct plan_dependent *next;
	size_t n = 0;

	for (size_t i = 0; i < p->n_steps; i++)
		for (size_t d = 0; d < p->steps[i].decl->n_deps; d++, n++)
			p->steps[p->steps[i].decl->deps[d].step].n_dependents++;
	next = arena_alloc(p->arena, n * sizeof(*next));
	for (size_t i = 0; i < p->n_steps; i++) {
		p->steps[i].dependents = next;
		next += p->steps[i].n_dependents;
		p->steps[i].n_dependents = 0;
	}
	for (size_t i = 0; i < p->n_steps; i++)
		for (size_t d = 0; d < p->steps[i].decl->n_deps; d++) {
			struct plan_step *u = &p->steps[p->steps[i].decl->deps[d].step];

			u->dependents[u->n_dependents++] =
				(struct plan_dependent){ (uint32_t)i, (uint32_t)d };
		}
}

int plan_new(const struct plan_context *ctx, const struct plan_options *o, struct plan **ret,
	     struct err *err)
{
	_cleanup_(plan_freep) struct plan *p = xcalloc(1, sizeof(*p));
	const struct pipeline *pl = ctx->pipeline;

	assert(ctx->config && ctx->pipeline && ctx->store);
	p->ctx = *ctx;
	p->options = *o;
	p->arena = arena_new();
	p->pins.by_name = map_new();
	p->pins.images = map_new();
	p->code = code_new(p);
	p->n_steps = pl->n_steps;
	for (size_t i = 0; i < pl->n_steps; i++)
		p->ordinary.n += !pl->steps[i].finally;
	p->ordinary.open = p->ordinary.n;
	p->steps = arena_alloc(p->arena, (pl->n_steps + 1) * sizeof(*p->steps));
	p->pins.input_ids = arena_alloc(p->arena, (pl->n_inputs + 1) * sizeof(*p->pins.input_ids));
	p->pins.input_uris =
		arena_alloc(p->arena, (pl->n_inputs + 1) * sizeof(*p->pins.input_uris));
	for (size_t i = 0; i < pl->n_steps; i++)
		begin_step(p, i);
	link_dependents(p);
	if (ctx->recorded)
		replay_new(p);
	if (plan_select_tasks(p, err) < 0 || plan_settle_known(p, err) < 0 ||
	    plan_pin_sources(p, err) < 0 || lookup_open(p, err) < 0 || plan_expand_all(p, err) < 0)
		return -1;
	*ret = TAKE_PTR(p);
	return 0;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	lookup_close(p);
	replay_free(p);
	map_free(p->lost);
	map_free(p->values);
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];

		free(s->fan->axis_index);
		free(s->named ? s->named->only.v : NULL);
		free(s->named ? s->named->forced.v : NULL);
	}
	free(p->to_key.v);
	free(p->ready.v);
	VEC_FREE(&p->pins.all);
	VEC_FREE(&p->absent.waits);
	map_free(p->pins.by_name);
	map_free(p->pins.images);
	code_free(p->code);
	str_deinit(&p->scratch);
	str_deinit(&p->key.script);
	str_deinit(&p->key.record);
	arena_free(p->arena);
	free(p);
}

/* Ending tasks. */

/* The first rounds of this step that are in the group. */
static size_t down_size(const struct plan_step *s, const struct plan_dep *d, uint32_t group)
{
	const struct dep_match *m = d->match;

	return m ? m->down_start[group + 1] - m->down_start[group] : s->n_loops;
}

static size_t down_task(const struct plan_dep *d, uint32_t group, size_t i)
{
	return d->match ? d->match->down_tasks[d->match->down_start[group] + i] : i;
}

static void group_ended(struct plan *p, struct plan_step *s, struct plan_dep *d, uint32_t group)
{
	const struct dep_group *g = &d->groups[group];
	size_t n = down_size(s, d, group);

	for (size_t i = 0; i < n; i++) {
		struct plan_task *t = &s->tasks[down_task(d, group, i)];

		t->need_failed |= g->failed;
		t->need_skipped |= g->skipped && (d->decl->data || d->decl->metrics);
		if (--t->pending == 0)
			queue_push(&p->to_key, t);
	}
}

static bool group_all_skipped(const struct plan *p, const struct plan_dep *d, uint32_t group)
{
	size_t n = dep_group_size(p, d, group);

	for (size_t i = 0; i < n; i++)
		if (!task_left_out(p, dep_group_task(p, d, group, i)))
			return false;
	return n > 0;
}

static void notify_dependents(struct plan *p, const struct plan_task *t)
{
	struct plan_step *u = &p->steps[t->step];

	for (size_t i = 0; i < u->n_dependents; i++) {
		struct plan_step *s = &p->steps[u->dependents[i].step];
		struct plan_dep *d;
		uint32_t g;

		if (!s->expanded)
			continue;
		d = &s->deps[u->dependents[i].dep];
		g = dep_group_of_upstream(d, t);
		d->groups[g].failed |= task_went_wrong(p, t);
		if (--d->groups[g].remaining == 0) {
			d->groups[g].skipped = group_all_skipped(p, d, g);
			group_ended(p, s, d, g);
		}
	}
}

/* A revived task failed, or was left out. Its dependents counted its first end; those that haven't
 * begun learn of the second. */
static void notify_bad_end(struct plan *p, const struct plan_task *t)
{
	struct plan_step *u = &p->steps[t->step];

	for (size_t i = 0; i < u->n_dependents; i++) {
		struct plan_step *s = &p->steps[u->dependents[i].step];
		struct plan_dep *d = s->expanded ? &s->deps[u->dependents[i].dep] : NULL;
		uint32_t group = d ? dep_group_of_upstream(d, t) : 0;
		struct dep_group *g;

		if (!d)
			continue;
		g = &d->groups[group];
		g->failed |= task_went_wrong(p, t);
		g->skipped = g->remaining == 0 && group_all_skipped(p, d, group);
		for (size_t k = 0; k < down_size(s, d, group) && g->remaining == 0; k++) {
			struct plan_task *w = plan_newest(s, down_task(d, group, k));

			w->need_failed |= w->state == TASK_WAITING && g->failed;
			w->need_skipped |= w->state == TASK_WAITING && g->skipped &&
					   (d->decl->data || d->decl->metrics);
		}
	}
}

static void count_state(struct plan *p, enum task_state state, int64_t duration_ns)
{
	switch (state) {
	case TASK_STATE_HIT:
		p->counts.hits++;
		p->counts.saved_ns += duration_ns;
		break;
	case TASK_STATE_DONE:
		p->counts.executed++;
		break;
	case TASK_STATE_FAILED:
		p->counts.failed++;
		break;
	case TASK_STATE_SKIPPED:
		p->counts.skipped++;
		break;
	case TASK_STATE_BLOCKED:
		p->counts.blocked++;
		break;
	case TASK_STATE_UNSELECTED:
		p->counts.total--;
		break;
	default:
		break;
	}
}

static void tell_spared(struct plan *p, const struct plan_task *t)
{
	plan_task_label(p, t, &p->scratch);
	p->ctx.spared(p->ctx.arg, p->scratch.s, (enum task_state)t->state,
		      t->state == TASK_STATE_HIT ? t->duration_ns : 0);
}

void plan_end_task(struct plan *p, struct plan_task *t, enum task_state state)
{
	struct plan_step *s = &p->steps[t->step];
	struct err why = { 0 };

	assert(task_state_ended(state));
	if (s->decl->tasks->repeat && !replay_goes(p) && !t->reported &&
	    (state == TASK_STATE_HIT || state == TASK_STATE_DONE) &&
	    plan_next_round(p, t, &why) < 0) { /* it was judged before, and now can't be */
		p->gate_message = arena_strdup(p->arena, why.msg);
		state = TASK_STATE_FAILED;
	}
	t->state = (uint8_t)state;
	s->n_ended++;
	count_state(p, state, t->duration_ns);
	p->ordinary.n_tolerated += task_tolerated(p, t);
	p->ordinary.must_stop |=
		state == TASK_STATE_FAILED && s->decl->policy->fail_fast && !task_tolerated(p, t);
	if (p->ctx.spared &&
	    (state == TASK_STATE_HIT || state == TASK_STATE_SKIPPED || state == TASK_STATE_BLOCKED))
		tell_spared(p, t);
	if (replay_goes(p))
		return; /* its dependents used the recorded end */
	plan_count_open(p, s->decl, -1);
	if (!plan_is_last_round(p, t))
		; /* the last one will tell */
	else if (!t->reported)
		notify_dependents(p, t);
	else if (state != TASK_STATE_HIT && state != TASK_STATE_DONE)
		notify_bad_end(p, t);
	t->reported = true;
	if (t->revived)
		absent_returned(p, t);
	if (s->n_ended == s->n_tasks)
		p->expand_again = true;
}

void plan_task_end(struct plan *p, struct plan_task *t, const struct task_result *end)
{
	size_t n = p->steps[t->step].decl->n_outputs;

	if (replay_goes(p)) {
		replay_end(p, t, end);
		plan_end_task(p, t, end->state);
		return;
	}
	if (end->outputs)
		t->outputs = n ? arena_memdup(p->arena, end->outputs, n * sizeof(*end->outputs))
			       : arena_alloc(p->arena, sizeof(*end->outputs));
	t->n_metrics = (uint32_t)end->n_metrics;
	t->metrics = arena_alloc(p->arena, (end->n_metrics + 1) * sizeof(*t->metrics));
	for (size_t i = 0; i < end->n_metrics; i++)
		t->metrics[i] = (struct metric_value){ arena_strdup(p->arena, end->metrics[i].name),
						       end->metrics[i].value };
	t->duration_ns = end->duration_ns;
	t->attempt = end->attempt;
	plan_end_task(p, t, end->state);
}

/* Lost content. */

void plan_mark_lost(struct plan *p, const char *name, const char *why)
{
	if (!p->lost)
		p->lost = map_new();
	*map_slot_str(p->lost, name) = arena_strdup(p->arena, why);
}

void plan_lose(struct plan *p, struct plan_task *t, const char *why)
{
	plan_task_label(p, t, &p->scratch);
	plan_mark_lost(p, p->scratch.s, why);
	plan_end_task(p, t, TASK_STATE_BLOCKED);
}

const char *plan_lost(const struct plan *p, const char *task_or_step)
{
	return p->lost ? map_get_str(p->lost, task_or_step) : NULL;
}

/* Keys and hits. */

int plan_task_key(struct plan *p, struct plan_task *t, struct arena *arena, struct err *err)
{
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct task_input *inputs = NULL;
	int r = plan_task_inputs(p, t, arena, &inputs, &sc.n_inputs, err);

	sc.inputs = inputs;
	str_reset(&p->key.script);
	if (r == 0)
		r = command_script(&sc, &p->key.script, err);
	if (r == 0)
		r = command_key_record(&sc, p->key.script.s, &p->key.record, err);
	if (r == 0)
		digest_bytes(p->key.record.s, p->key.record.len, &t->key);
	return r;
}

bool plan_may_begin(struct plan *p, const struct plan_task *t)
{
	const struct step *s = p->steps[t->step].decl;
	bool reads_state = false;

	if (!p->stopped || s->finally)
		return true;
	if (p->cancelled)
		return false;
	for (size_t i = 0; i < s->n_deps; i++)
		reads_state |= s->deps[i].state;
	if (reads_state || (s->condition && expr_handles_failure(s->condition)))
		return true;
	if (!p->ctx.begun)
		return false;
	plan_task_label(p, t, &p->scratch);
	return p->ctx.begun(p->ctx.arg, p->scratch.s);
}

/* Whether a failure of the needed step blocks this one. A step of `finally` begins whatever the end
 * of `steps` was, and `steps.X.state` is there to be asked; without content nothing can begin. */
static bool dep_blocks(const struct plan *p, const struct step *s, const struct step_dep *d)
{
	return d->data || d->metrics ||
	       (d->order && !(s->finally && !p->steps[d->step].decl->finally));
}

/* `handles`: always() and failed() let a step run after failures, but not without content that was
 * never made. */
static bool is_blocked(struct plan *p, const struct plan_task *t, bool handles)
{
	const struct step *s = p->steps[t->step].decl;
	const struct plan_task *before = plan_round_before(p, t);

	if (before && before->state != TASK_STATE_HIT && before->state != TASK_STATE_DONE)
		return true;
	for (size_t i = 0; i < s->n_deps && t->need_failed; i++) {
		struct plan_dep *d = &p->steps[t->step].deps[i];

		if (d->groups[dep_group_of(d, t)].failed &&
		    (handles ? (d->decl->data || d->decl->metrics) &&
				       (d->decl->values || !dep_gathers(p, d))
			     : dep_blocks(p, s, d->decl)))
			return true;
	}
	return t->need_failed && p->steps[t->step].stands_in;
}

/* Ends tasks that need no key: 1 ended, 0 goes on. */
static int end_without_key(struct plan *p, struct plan_task *t, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	bool handles = s->condition && expr_handles_failure(s->condition) &&
		       !p->steps[t->step].stands_in,
	     wanted = true;

	if (t->unselected) {
		plan_end_task(p, t, TASK_STATE_UNSELECTED);
		return 1;
	}
	if (is_blocked(p, t, handles) || !plan_may_begin(p, t)) {
		plan_end_task(p, t, TASK_STATE_BLOCKED);
		return 1;
	}
	if (t->need_skipped) {
		plan_end_task(p, t, TASK_STATE_SKIPPED);
		return 1;
	}
	if (s->condition && t->round <= 1 && scope_condition(p, t, &wanted, err) < 0)
		return -1;
	if (!wanted) {
		plan_end_task(p, t, TASK_STATE_SKIPPED);
		return 1;
	}
	return 0;
}

/* Gates are checked at each hit: a changed bound doesn't train again, and a recorded result that
 * fails its gate fails it again. So is `until`. */
static void end_hit(struct plan *p, struct plan_task *t, const struct lookup_hit *hit)
{
	struct err why = { 0 };
	bool last, gate = metrics_gate(p->steps[t->step].decl, hit->metrics, hit->n_metrics,
				       &why) == 0 &&
			  plan_judge_round(p, t, hit->outputs, hit->metrics, hit->n_metrics, &last,
					   &why) == 0;

	if (!gate && !p->gate_message && !p->steps[t->step].decl->policy->continue_on_error) {
		plan_task_label(p, t, &p->scratch);
		p->gate_message = arena_printf(p->arena, "%s (its result is on record): %s",
					       p->scratch.s, why.msg);
	}
	t->outputs = hit->outputs;
	t->metrics = hit->metrics;
	t->n_metrics = (uint32_t)hit->n_metrics;
	t->duration_ns = hit->duration_ns;
	t->attempt = hit->attempt;
	t->from_store = hit->from_store;
	t->miss = MISS_NONE;
	plan_end_task(p, t, gate ? TASK_STATE_HIT : TASK_STATE_FAILED);
}

int plan_make_ready(struct plan *p, struct plan_task *t, struct err *err)
{
	int waits;

	if (p->steps[t->step].lookup_only) {
		plan_task_label(p, t, &p->scratch);
		return err_set(err, ERR_INVALID,
			       "%s comes before --from and is not on record; run it first, or "
			       "leave --from out",
			       p->scratch.s);
	}
	waits = p->absent.n ? absent_needed(p, t, err) : 0;
	if (waits != 0)
		return waits < 0 ? -1 : 0;
	t->state = TASK_READY;
	queue_push(&p->ready, t);
	return 0;
}

/* What making keys may hold: little, so that it stays in the processor's cache. */
#define KEYS_SCRATCH_BYTES (256 * KIB)

struct key_batch {
	VEC(struct plan_task *) tasks;
	VEC(struct lookup_hit) hits;
	VEC(struct content_id) ids;
};

static int make_keys(struct plan *p, struct key_batch *w, struct err *err)
{
	struct arena *arena = arena_new();
	struct err why = { 0 };
	int r = 0;

	while (p->to_key.n && w->tasks.n < KEY_BATCH_MAX && r >= 0) {
		struct plan_task *t = queue_pop(&p->to_key);

		r = end_without_key(p, t, err);
		if (r != 0)
			continue;
		r = plan_task_key(p, t, arena, p->ctx.again ? &why : err);
		if (r < 0 && p->ctx.again) {
			plan_lose(p, t, why.msg);
			r = 0;
			continue;
		}
		if (r < 0)
			break;
		VEC_PUSH(&w->tasks, t);
		if (arena_bytes(arena) > KEYS_SCRATCH_BYTES) {
			arena_free(arena);
			arena = arena_new();
		}
	}
	arena_free(arena);
	return r < 0 ? -1 : 0;
}

/* Keys the next batch, looks it up, and asks the store which content of its hits is present. */
static int look_up(struct plan *p, struct key_batch *w, bool **ret_present, struct err *err)
{
	w->tasks.n = w->hits.n = w->ids.n = 0;
	if (make_keys(p, w, err) < 0 || lookup_expect(p, w->tasks.v, w->tasks.n, err) < 0)
		return -1;
	for (size_t k = 0; k < w->tasks.n; k++) {
		struct plan_task *t = w->tasks.v[k];
		struct lookup_hit hit;

		if (lookup_task(p, t, &hit, err) < 0)
			return -1;
		VEC_PUSH(&w->hits, hit);
		for (size_t i = 0; hit.found && i < p->steps[t->step].decl->n_outputs; i++)
			VEC_PUSH(&w->ids, hit.outputs[i]);
	}
	*ret_present = xcalloc(w->ids.n + 1, sizeof(**ret_present));
	return w->ids.n ? content_complete(p->ctx.store, w->ids.v, w->ids.n, *ret_present, err) : 0;
}

static int end_or_ready(struct plan *p, struct key_batch *w, const bool *present, struct err *err)
{
	size_t at = 0;

	for (size_t i = 0; i < w->tasks.n; i++) {
		struct plan_task *t = w->tasks.v[i];
		size_t n = w->hits.v[i].found ? p->steps[t->step].decl->n_outputs : 0;
		bool complete = true;

		for (size_t k = 0; k < n; k++)
			complete &= present[at++];
		if (w->hits.v[i].found &&
		    (complete || (!t->revived && absent_may_stay(p, t, &w->hits.v[i])))) {
			t->absent = !complete;
			p->absent.n += !complete;
			end_hit(p, t, &w->hits.v[i]);
			t->absent &= t->state == TASK_STATE_HIT;
			continue;
		}
		if (w->hits.v[i].found)
			t->miss = MISS_BLOBS_GONE;
		if (plan_make_ready(p, t, err) < 0)
			return -1;
	}
	return 0;
}

int plan_resolve(struct plan *p, struct err *err)
{
	struct key_batch w = { 0 };
	int r = 0;

	if (p->replay)
		return replay_resolve(p, err);
	if (p->standing.stands)
		standing_tell(p);
	while (r == 0 && (p->to_key.n || p->expand_again)) {
		_cleanup_(freep) bool *present = NULL;

		if (p->expand_again) {
			p->expand_again = false;
			r = plan_expand_all(p, err);
		}
		if (r == 0)
			r = look_up(p, &w, &present, err);
		if (r == 0)
			r = end_or_ready(p, &w, present, err);
	}
	VEC_FREE(&w.tasks);
	VEC_FREE(&w.hits);
	VEC_FREE(&w.ids);
	return r;
}

int plan_content_there(struct store *s, const struct content_id *ids, size_t n, struct err *err)
{
	_cleanup_(freep) bool *present = xcalloc(n + 1, sizeof(*present));

	if (n && content_complete(s, ids, n, present, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!present[i])
			return 0;
	return 1;
}

int plan_task_lookup(struct plan *p, struct plan_task *t, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct lookup_hit hit = { 0 };
	int there;

	assert(t->state == TASK_TAKEN);
	if (!s->cache || t->forced)
		return 0;
	if (lookup_recorded(p, t, &hit, err) < 0)
		return -1;
	if (!hit.found)
		return 0;
	there = plan_content_there(p->ctx.store, hit.outputs, s->n_outputs, err);
	if (there <= 0)
		return there;
	end_hit(p, t, &hit);
	return 1;
}

/* The proof that all tasks have ended. */

#define SHOWN_WITHOUT_END 10

int plan_prove_ended(struct plan *p, struct err *err)
{
	_cleanup_(str_deinit) struct str list = { 0 };
	struct run_counts seen = { 0 }, *said = &p->counts;
	size_t open = 0;

	for (size_t s = 0; s < p->n_steps; s++) {
		const struct plan_step *ps = &p->steps[s];

		if (!ps->expanded && open++ < SHOWN_WITHOUT_END)
			str_addf(&list, "%s%s (never expanded)", list.len ? ", " : "",
				 ps->decl->name);
		for (size_t i = 0; ps->expanded && i < ps->n_tasks; i++) {
			const struct plan_task *t = &ps->tasks[i];

			seen.total += t->state != TASK_STATE_UNSELECTED;
			seen.hits += t->state == TASK_STATE_HIT;
			seen.executed += t->state == TASK_STATE_DONE;
			seen.failed += t->state == TASK_STATE_FAILED;
			seen.skipped += t->state == TASK_STATE_SKIPPED;
			seen.blocked += t->state == TASK_STATE_BLOCKED;
			if (task_state_ended(t->state) || open++ >= SHOWN_WITHOUT_END)
				continue;
			plan_task_label(p, t, &p->scratch);
			str_addf(&list, "%s%s", list.len ? ", " : "", p->scratch.s);
		}
	}
	if (open)
		return err_set(err, ERR_IO,
			       "internal error: the run came to its end, but %zu of its tasks did "
			       "not: %s%s",
			       open, list.s, open > SHOWN_WITHOUT_END ? ", …" : "");
	/* A replay counts only what it executed again; a plan that stands has no tasks. */
	if (replay_goes(p) || p->standing.stands)
		return 0;
	if (seen.total != said->total || seen.hits != said->hits ||
	    seen.executed != said->executed || seen.failed != said->failed ||
	    seen.skipped != said->skipped || seen.blocked != said->blocked)
		return err_set(err, ERR_IO,
			       "internal error: the run's counts are not those of its tasks: %llu "
			       "of %llu ended",
			       (unsigned long long)(said->hits + said->executed + said->failed +
						    said->skipped + said->blocked),
			       (unsigned long long)said->total);
	return 0;
}

void plan_stop(struct plan *p)
{
	size_t n = p->ready.n;

	p->stopped = true;
	while (n--) {
		struct plan_task *t = queue_pop(&p->ready);

		if (plan_may_begin(p, t))
			queue_push(&p->ready, t);
		else
			plan_end_task(p, t, TASK_STATE_BLOCKED);
	}
}

void plan_cancel(struct plan *p)
{
	p->cancelled = true;
	plan_stop(p);
}

bool plan_has_finally(const struct plan *p)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].decl->finally && p->steps[i].selected)
			return true;
	return false;
}

bool plan_in_finally(const struct plan *p)
{
	return p->ordinary.run_state != NULL;
}

bool plan_must_stop(const struct plan *p)
{
	return p->ordinary.must_stop;
}

uint64_t plan_n_tolerated(const struct plan *p)
{
	return p->ordinary.n_tolerated;
}

void plan_add_failed(struct plan *p, bool tolerated, struct str *out)
{
	for (size_t i = 0; i < p->n_steps; i++)
		for (size_t k = 0; k < p->steps[i].n_tasks; k++) {
			const struct plan_task *t = &p->steps[i].tasks[k];

			if (t->state != TASK_STATE_FAILED || task_tolerated(p, t) != tolerated)
				continue;
			plan_task_label(p, t, &p->scratch);
			str_addf(out, "%s%s", out->len ? ", " : "", p->scratch.s);
		}
}

/* Looking into a plan. */

struct plan_task *plan_take_ready(struct plan *p)
{
	struct plan_task *t = queue_pop(&p->ready);

	if (t)
		t->state = TASK_TAKEN;
	return t;
}

const char *plan_gate_message(const struct plan *p)
{
	return p->gate_message;
}

bool plan_unresolved(const struct plan *p)
{
	return !p->replay && (p->to_key.n || p->expand_again);
}

size_t plan_n_ready(const struct plan *p)
{
	return p->ready.n;
}

const struct pipeline *plan_pipeline(const struct plan *p)
{
	return p->ctx.pipeline;
}

size_t plan_n_steps(const struct plan *p)
{
	return p->n_steps;
}

bool plan_step_expanded(const struct plan *p, size_t step)
{
	return p->steps[step].expanded;
}

bool plan_step_selected(const struct plan *p, size_t step)
{
	return p->steps[step].selected;
}

size_t plan_n_tasks(const struct plan *p, size_t step)
{
	return p->steps[step].n_tasks;
}

size_t plan_step_left(const struct plan *p, size_t step)
{
	return p->steps[step].n_tasks - p->steps[step].n_ended;
}

struct plan_task *plan_task_at(const struct plan *p, size_t step, size_t index)
{
	assert(step < p->n_steps && index < p->steps[step].n_tasks);
	return &p->steps[step].tasks[index];
}

void plan_count(const struct plan *p, struct run_counts *ret)
{
	*ret = p->counts;
}

const struct plan_pin *plan_pins(const struct plan *p, size_t *ret_n)
{
	*ret_n = p->pins.all.n;
	return p->pins.all.v;
}

struct content_id plan_step_code(const struct plan *p, size_t step)
{
	const struct plan_code *code = p->steps[step].facts.code;

	return code ? code->tree : (struct content_id){ .kind = CONTENT_NONE };
}

const struct plan_code_file *plan_step_code_files(const struct plan *p, size_t step, size_t *ret_n)
{
	const struct plan_code *code = p->steps[step].facts.code;

	*ret_n = code ? code->n_files : 0;
	return code ? code->files : NULL;
}

static enum result_state result_state_of(enum task_state s)
{
	switch (s) {
	case TASK_STATE_HIT:
	case TASK_STATE_DONE:
		return RESULT_SUCCEEDED;
	case TASK_STATE_SKIPPED:
	case TASK_STATE_UNSELECTED:
		return RESULT_SKIPPED;
	case TASK_STATE_FAILED:
		return RESULT_FAILED;
	default:
		return RESULT_BLOCKED;
	}
}

int plan_store_results(struct plan *p, struct store *s, struct content_id *ret, struct err *err)
{
	struct results_writer *w;
	VEC(const char *) names = { 0 };
	int r;

	if (p->standing.stands) {
		*ret = p->standing.results;
		return 0;
	}
	w = results_writer_new(p->previous.table);
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *ps = &p->steps[i];

		names.n = 0;
		for (size_t k = 0; k < ps->decl->n_outputs; k++)
			VEC_PUSH(&names, ps->decl->outputs[k].name);
		results_writer_step(w, ps->decl->name, names.n, names.v);
		for (size_t k = 0; k < ps->n_tasks; k++) {
			const struct plan_task *t = &ps->tasks[k];
			struct task_result res = { (enum task_state)t->state,
						   t->outputs,
						   t->metrics,
						   t->n_metrics,
						   t->duration_ns,
						   t->attempt };

			if (t->state == TASK_STATE_UNSELECTED ||
			    (p->replay && !replay_result(p, t, &res)))
				continue;
			plan_task_label(p, t, &p->scratch);
			results_writer_task(w, p->scratch.s, result_state_of(res.state), &t->key,
					    res.duration_ns, res.attempt, res.outputs, res.metrics,
					    res.n_metrics);
		}
	}
	r = results_writer_store(w, s, ret, err);
	results_writer_free(w);
	VEC_FREE(&names);
	return r;
}
