/* engine/plan/past/lookup.c — results on record.
 *
 * Three places are asked, the cheapest first. The pipeline's last results table is read in step
 * with the tasks, so that a million unchanged ones cost no query. Then the database. Then the
 * store's action records, made on another machine or before the database was lost. What this run
 * itself did before its engine died comes before all of them, also for tasks that the cache may not
 * answer.
 *
 * A place that is damaged, or has a record of another shape (other outputs), gives no result; only
 * the database can fail. For a shared store, the keys of a whole batch that the database doesn't
 * know are announced in one batch (lookup_expect()).
 *
 * plan.c checks whether the content of a result is still there.
 */
#include "plan/internal.h"
#include "storage/action.h"

/* How far the last table's tasks of one step were read: a cursor of it. */
struct previous_step {
	size_t at;
	uint32_t step;
	bool known;
};

static struct results_cursor cursor_of(const struct plan *p, const struct previous_step *prev)
{
	return (struct results_cursor){ p->previous.table, prev->at, prev->step };
}

/* The last table mostly has the same steps in the same order. */
static void find_steps(struct plan *p)
{
	const struct results *table = p->previous.table;
	size_t next = 0, n = results_n_steps(table);

	for (size_t i = 0; i < p->n_steps; i++) {
		const char *name = p->steps[i].decl->name;
		struct previous_step *prev = &p->previous.steps[i];
		struct results_cursor c = { 0 };

		prev->known = next < n && str_eq(results_step_name(table, next), name);
		if (prev->known)
			results_nth_step(table, next, &c);
		else
			prev->known = results_seek_step(table, name, &c);
		if (prev->known)
			next = c.step + 1;
		prev->at = c.at;
		prev->step = (uint32_t)c.step;
	}
}

/* The last table lists every task, but no result of a step that had `cache: false` then may be
 * used, even if the step caches now. */
static int forget_step(void *arg, const char *step)
{
	struct plan *p = arg;
	const struct step *s;

	if (!p->previous.by_name)
		p->previous.by_name = pipeline_steps_by_name(p->ctx.pipeline);
	s = step ? map_get_str(p->previous.by_name, step) : NULL;
	if (s)
		p->previous.steps[s->index].known = false;
	return 0;
}

int lookup_open(struct plan *p, struct err *err)
{
	struct run_row last = { 0 };
	int found;

	if (!p->ctx.db)
		return 0;
	found = record_last_results(p->ctx.db, p->ctx.pipeline->name, p->arena, &last, err);
	if (found < 0 || standing_look(p, found ? &last : NULL, err) < 0)
		return -1;
	if (!p->previous.table || p->standing.stands)
		return 0;
	p->previous.steps = xcalloc(p->n_steps + 1, sizeof(*p->previous.steps));
	find_steps(p);
	return record_each_uncached_step(p->ctx.db, last.rowid, forget_step, p, err);
}

void lookup_close(struct plan *p)
{
	results_free(p->previous.table);
	map_free(p->previous.by_name);
	free(p->previous.steps);
}

/* Reads on in the last table until the entry with the wanted key. Gives up after a few entries, so
 * that a changed step costs its database look-ups and nothing more. */
static bool find_previous(struct plan *p, const struct plan_task *t, struct result_entry *ret)
{
	struct previous_step *prev = &p->previous.steps[t->step];
	struct results_cursor c = cursor_of(p, prev);

	for (int ahead = 0; prev->known && ahead < 4; ahead++) {
		struct result_entry e;

		if (!results_next(&c, &e) || !str_eq(e.step, p->steps[t->step].decl->name))
			break;
		if (!digest_eq(&e.key, &t->key))
			continue;
		prev->at = c.at;
		*ret = e;
		return e.state == RESULT_SUCCEEDED || e.state == RESULT_FAILED;
	}
	if (prev->known) { /* keep pace with the tasks */
		struct result_entry e;

		c = cursor_of(p, prev);
		prev->known = results_next(&c, &e);
		prev->at = c.at;
		prev->step = (uint32_t)c.step;
	}
	return false;
}

static bool from_previous(struct plan *p, const struct plan_task *t, struct lookup_hit *ret)
{
	size_t n = p->steps[t->step].decl->n_outputs;
	struct result_entry e;

	if (!p->previous.table || !find_previous(p, t, &e) || e.n_outputs != n ||
	    (e.n_outputs == 0 && e.state != RESULT_SUCCEEDED))
		return false;
	ret->outputs = arena_alloc(p->arena, n * sizeof(*ret->outputs));
	for (size_t i = 0; i < n; i++) {
		if (!str_eq(results_output_name(p->previous.table, &e, i),
			    p->steps[t->step].decl->outputs[i].name))
			return false;
		results_output(&e, i, &ret->outputs[i]);
		if (ret->outputs[i].kind == CONTENT_NONE)
			return false;
	}
	ret->n_metrics = e.n_metrics;
	if (e.n_metrics)
		ret->metrics = arena_alloc(p->arena, e.n_metrics * sizeof(*ret->metrics));
	for (size_t i = 0; i < e.n_metrics; i++)
		results_metric(&e, i, &ret->metrics[i]);
	ret->duration_ns = e.duration_ns;
	ret->attempt = e.attempt;
	ret->found = true;
	return true;
}

/* A missing output means that the record is of another shape and can't be used. */
bool lookup_order_outputs(struct plan *p, const struct step *s, const struct named_content *named,
			  size_t n, struct content_id **ret)
{
	struct content_id *v = arena_alloc(p->arena, (s->n_outputs + 1) * sizeof(*v));

	for (size_t i = 0; i < s->n_outputs; i++) {
		size_t k = 0;

		while (k < n && !str_eq(named[k].name, s->outputs[i].name))
			k++;
		if (k == n)
			return false;
		v[i] = named[k].id;
	}
	*ret = v;
	return true;
}

static void take_result(struct plan *p, const struct step *s, const struct cached_result *r,
			struct lookup_hit *ret)
{
	ret->found = lookup_order_outputs(p, s, r->outputs, r->n_outputs, &ret->outputs);
	ret->metrics = r->metrics;
	ret->n_metrics = r->n_metrics;
	ret->duration_ns = r->duration_ns;
	ret->attempt = r->attempt;
}

/* A record that can't be read is no hit, and no error: the task runs and makes a new one. */
static void from_store(struct plan *p, const struct plan_task *t, struct lookup_hit *ret)
{
	const struct step *s = p->steps[t->step].decl;
	struct action_record a;
	struct err ignored = { 0 };
	_cleanup_(freep) struct named_content *named = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };

	if (action_get(p->ctx.store, &t->key, p->arena, &a, &ignored) < 0)
		return;
	if (a.metrics.kind != CONTENT_NONE &&
	    (content_read(p->ctx.store, &a.metrics, METRICS_MAX_BYTES, &text, &ignored) < 0 ||
	     metrics_parse(text.len ? text.s : "", p->arena, &ret->metrics, &ret->n_metrics,
			   &ignored) < 0))
		return;
	named = xcalloc(a.n_outputs + 1, sizeof(*named));
	for (size_t i = 0; i < a.n_outputs; i++)
		named[i] = (struct named_content){ a.outputs[i].name, a.outputs[i].id };
	ret->found = lookup_order_outputs(p, s, named, a.n_outputs, &ret->outputs);
	ret->duration_ns = a.ended_ns - a.started_ns;
	ret->from_store = true;
}

/* What this run itself did before its engine died counts also for tasks that the cache may not
 * answer. */
int lookup_this_run(struct plan *p, const struct plan_task *t, struct lookup_hit *ret,
		    struct err *err)
{
	struct cached_result r = { 0 };
	int64_t attempt;

	if (!p->ctx.run_result)
		return 0;
	plan_task_label(p, t, &p->scratch);
	if (p->ctx.run_result(p->ctx.arg, p->scratch.s, &t->key, &attempt) <= 0)
		return 0;
	if (record_outputs(p->ctx.db, attempt, p->arena, &r, err) < 0)
		return -1;
	take_result(p, p->steps[t->step].decl, &r, ret);
	return 0;
}

int lookup_recorded(struct plan *p, struct plan_task *t, struct lookup_hit *ret, struct err *err)
{
	struct cached_result r = { 0 };
	int found = p->ctx.db ? record_lookup(p->ctx.db, &t->key, p->arena, &r, err) : 0;

	if (found < 0)
		return -1;
	if (found)
		take_result(p, p->steps[t->step].decl, &r, ret);
	if (!ret->found && config_takes_results(p->ctx.config))
		from_store(p, t, ret);
	return 0;
}

/* Asks a shared store in one batch for what the database doesn't know. */
int lookup_expect(struct plan *p, struct plan_task *const *tasks, size_t n, struct err *err)
{
	_cleanup_(freep) struct digest *keys = NULL;
	size_t m = 0;

	if (n < 2 || !store_is_shared(p->ctx.store) || !config_takes_results(p->ctx.config))
		return 0;
	keys = xcalloc(n, sizeof(*keys));
	for (size_t i = 0; i < n; i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct cached_result r = { 0 };
		int found = 0;

		if (!p->steps[tasks[i]->step].decl->cache || tasks[i]->forced)
			continue;
		if (p->ctx.db &&
		    (found = record_lookup(p->ctx.db, &tasks[i]->key, arena, &r, err)) < 0)
			return -1;
		if (!found)
			keys[m++] = tasks[i]->key;
	}
	store_expect(p->ctx.store, STORE_ACTION, keys, m);
	return 0;
}

int lookup_task(struct plan *p, struct plan_task *t, struct lookup_hit *ret, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;

	*ret = (struct lookup_hit){ 0 };
	if (p->ctx.db && lookup_this_run(p, t, ret, err) < 0)
		return -1;
	if (ret->found)
		return 0;
	if (!s->cache || t->forced) {
		t->miss = t->forced ? MISS_FORCED : MISS_NO_CACHE;
		return 0;
	}
	t->miss = MISS_NEW;
	if (from_previous(p, t, ret))
		return 0;
	return lookup_recorded(p, t, ret, err);
}
