/* engine/plan/past/standing.c — a plan that is the last run's once more, task for task.
 *
 * Planning is pure: the tasks, their keys and their hits follow from the pipeline, its params, the
 * pins and what cairn.yaml puts into keys. plan_digest() combines all of these. A run whose tasks
 * all succeeded or were skipped is recorded with this digest. While the digest stays the same and
 * the content of that run's results is complete, each task would be found again as it is in the
 * run's results table. Then the plan stands: no task is made, and the table is its result.
 *
 * Invariants: only a whole plan stands (may_stand()), for a caller that allowed it. Where something
 * else decides a result (the time of a schedule, `cache: false`, a person, an image that is named
 * by a value), no digest is recorded; nor with `repeat`, whose rounds are in the table as they
 * ended. Whatever is missing or damaged only means that the tasks are planned one by one.
 *
 * One thread. Not here: what a run does for each hit besides counting it (run.c says whether its
 * plan may stand).
 */
#include <assert.h>
#include "base/os/machine.h"
#include "plan/internal.h"

/* Content that is asked for together: enough for the threads of a store. */
#define CONTENT_BATCH 4096

static bool may_stand(const struct plan *p)
{
	const struct pipeline *pl = p->ctx.pipeline;
	bool may = p->options.may_stand && p->ctx.db && !p->replay && !p->ctx.again &&
		   !plan_is_resumed(p) && !p->ctx.run_result && !p->ctx.begun && !p->ctx.schedule &&
		   plan_selects_all(&p->options.select);

	for (size_t i = 0; i < pl->n_steps && may; i++) {
		const struct step *d = &pl->steps[i];

		may = d->cache && !d->approve && !d->root && !d->tasks->repeat;
		for (size_t k = 0; k < d->n_outputs; k++)
			may &= !d->outputs[k].export && !d->outputs[k].temp;
	}
	return may;
}

static void add_text(struct str *out, const char *text)
{
	str_addc(out, text ? '1' : '0');
	str_add_field(out, text ? text : "", text ? strlen(text) : 0);
}

static void add_content(struct str *out, const struct content_id *id)
{
	str_addn(out, &id->digest, sizeof(id->digest));
	str_add_u64(out, id->size_bytes);
	str_add_u32(out, (uint32_t)id->kind);
}

/* Length-prefixed, so that no two plans give the same bytes. */
static void make_digest(struct plan *p)
{
	_cleanup_(str_deinit) struct str all = { 0 }, value = { 0 };
	const struct plan_context *c = &p->ctx;

	machine_add_program(&all);
	str_addn(&all, &c->pipeline->digest, sizeof(c->pipeline->digest));
	add_text(&all, c->config->salt);
	add_text(&all, c->images ? c->images->platform : NULL);
	str_add_u32(&all, p->sandbox.strictness);
	str_add_u32(&all, p->sandbox.network);
	str_add_u64(&all, pipeline_n_values(c->pipeline));
	for (size_t i = 0; i < pipeline_n_values(c->pipeline); i++) {
		str_reset(&value);
		value_add_canonical(&value, &c->params[i]);
		str_add_field(&all, value.len ? value.s : "", value.len);
	}
	str_add_u64(&all, p->pins.all.n);
	for (size_t i = 0; i < p->pins.all.n; i++) {
		add_text(&all, p->pins.all.v[i].name);
		add_text(&all, p->pins.all.v[i].origin);
		add_content(&all, &p->pins.all.v[i].id);
	}
	digest_bytes(all.s, all.len, &p->standing.digest);
	p->standing.n_pins = p->pins.all.n;
	p->standing.known = true;
}

int standing_count(struct store *store, struct results *table, const struct content_id *id,
		   const atomic_bool *stop, struct run_counts *ret, struct err *err)
{
	VEC(struct content_id) ids = { 0 };
	struct results_cursor c;
	struct result_entry e;
	int good = 1;

	VEC_PUSH(&ids, *id);
	results_first(table, &c);
	while (good > 0 && results_next(&c, &e)) {
		const bool succeeded = e.state == RESULT_SUCCEEDED;

		ret->total++;
		ret->hits += succeeded;
		ret->saved_ns += succeeded ? e.duration_ns : 0;
		ret->skipped += e.state == RESULT_SKIPPED;
		good = succeeded || e.state == RESULT_SKIPPED;
		for (size_t i = 0; succeeded && i < e.n_outputs; i++) {
			struct content_id of;

			results_output(&e, i, &of);
			VEC_PUSH(&ids, of);
			good &= of.kind != CONTENT_NONE;
		}
		if (good > 0 && ids.n >= CONTENT_BATCH) {
			good = stop && atomic_load(stop)
				       ? 0
				       : plan_content_there(store, ids.v, ids.n, err);
			ids.n = 0;
		}
	}
	if (good > 0)
		good = plan_content_there(store, ids.v, ids.n, err);
	VEC_FREE(&ids);
	return good;
}

/* A table that is gone or damaged only costs time: the database knows the same. */
static void open_table(struct plan *p, const struct content_id *table)
{
	struct err ignored = { 0 };

	if (results_open(p->ctx.store, table, &p->previous.table, &ignored) < 0)
		p->previous.table = NULL;
}

int standing_look(struct plan *p, const struct run_row *last, struct err *err)
{
	struct run_counts counts = { 0 };
	bool same = false;
	int good = -1;

	if (may_stand(p)) {
		make_digest(p);
		same = last && last->has_plan_digest &&
		       digest_eq(&last->plan_digest, &p->standing.digest);
	}
	if (!last)
		return 0;
	p->previous.table = ahead_take(p->ctx.ahead, last, same, &counts, &good);
	if (!p->previous.table)
		open_table(p, &last->results);
	if (!same || !p->previous.table)
		return 0;
	if (good < 0) {
		counts = (struct run_counts){ 0 };
		good = standing_count(p->ctx.store, p->previous.table, &last->results, NULL,
				      &counts, err);
	}
	if (good < 0)
		return -1;
	/* Commands that only look show why a task is skipped. */
	if (good == 0 || (p->options.hash_only && counts.skipped))
		return 0;
	p->counts = counts;
	p->standing.results = last->results;
	p->standing.stands = true;
	for (size_t i = 0; i < p->n_steps; i++)
		p->steps[i].expanded = true;
	p->n_expanded = p->n_steps;
	p->ordinary.n_expanded = p->ordinary.n;
	p->ordinary.open = 0;
	p->ordinary.run_state = "succeeded";
	return 0;
}

void standing_tell(struct plan *p)
{
	struct results_cursor c;
	struct result_entry e;

	assert(p->standing.stands);
	if (p->standing.told)
		return;
	p->standing.told = true;
	results_first(p->previous.table, &c);
	while (p->ctx.spared && results_next(&c, &e))
		p->ctx.spared(p->ctx.arg, e.task,
			      e.state == RESULT_SUCCEEDED ? TASK_STATE_HIT : TASK_STATE_SKIPPED,
			      e.duration_ns);
}

bool plan_stands(const struct plan *p)
{
	return p->standing.stands;
}

bool plan_digest(const struct plan *p, struct digest *ret)
{
	const struct run_counts *c = &p->counts;

	if (!p->standing.known || p->absent.n || p->gate_message ||
	    p->pins.all.n != p->standing.n_pins || c->total == 0 ||
	    c->hits + c->executed + c->skipped != c->total)
		return false;
	*ret = p->standing.digest;
	return true;
}
