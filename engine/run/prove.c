/* engine/run/prove.c — the proof at a run's end.
 *
 * The plan says how each task ended; the journal says how each attempt ended. Before a run counts
 * as succeeded or failed, this compares the two once. That takes one query, or none when nothing
 * was executed. A difference is a defect of the engine: the run reports it, stays resumable, and
 * doesn't count as a success.
 *
 * A plan that stands (plan_stands()) has no tasks to look at. Builds with a sanitizer, which the
 * tests use, define CAIRN_PROVE: they make such a plan once more, task by task, and compare.
 */
#include <stdlib.h>
#include "run/internal.h"

#define SHOWN 10

struct proof {
	struct run *run;
	VEC(struct attempt_end) ends; /* by id; without task names */
	struct str list;
	size_t wrong;
};

static void complain(struct proof *p, const char *task, const char *what)
{
	if (p->wrong++ < SHOWN)
		str_addf(&p->list, "%s%s (%s)", p->list.len ? ", " : "", task, what);
}

static int take_end(void *arg, const struct attempt_end *e, struct err *err)
{
	struct proof *p = arg;

	if (e->ended_ns == 0)
		complain(p, e->task, "its attempt has no end on record");
	VEC_PUSH(&p->ends, *e);
	p->ends.v[p->ends.n - 1].task = NULL;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct attempt_end *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void check_task(struct proof *p, const struct plan_task *t)
{
	const struct attempt_end *e =
		p->ends.n ? bsearch(&(struct attempt_end){ .id = t->attempt }, p->ends.v, p->ends.n,
				    sizeof(*p->ends.v), by_id)
			  : NULL;
	const char *what = NULL;

	/* Only DONE needs an attempt of this run: other states may rest on another run's attempt,
	 * or on none. */
	if (t->state == TASK_STATE_DONE && !e)
		what = "executed, but no attempt of this run is on record";
	else if (t->state == TASK_STATE_DONE &&
		 (e->failure != FAILURE_NONE || !digest_eq(&e->key, &t->key)))
		what = "executed, but the record of its attempt says otherwise";
	else if (t->state == TASK_STATE_FAILED && e && e->failure == FAILURE_NONE &&
		 !plan_gate_message(p->run->plan) &&
		 !p->run->pipeline->steps[t->step].policy->continue_on_error)
		what = "failed, but its attempt is on record as a success";
	if (what) {
		_cleanup_(str_deinit) struct str label = { 0 };

		plan_task_label(p->run->plan, t, &label);
		complain(p, label.s, what);
	}
}

#ifdef CAIRN_PROVE
static int prove_standing(struct run *r, struct err *err)
{
	static const struct plan_pin none;
	struct plan_context pc = run_plan_context(r);
	_cleanup_(plan_freep) struct plan *p = NULL;
	struct content_id stands, made;
	struct run_counts a, b;

	pc.pins = plan_pins(r->plan, &pc.n_pins);
	pc.pins = pc.pins ? pc.pins : &none;
	if (plan_new(&pc, &(struct plan_options){ 0 }, &p, err) < 0 || plan_resolve(p, err) < 0 ||
	    plan_store_results(r->plan, r->ctx->store, &stands, err) < 0 ||
	    plan_store_results(p, r->ctx->store, &made, err) < 0)
		return -1;
	plan_count(r->plan, &a);
	plan_count(p, &b);
	if (!content_id_eq(&stands, &made) || plan_n_ready(p) || a.total != b.total ||
	    a.hits != b.hits || a.skipped != b.skipped || a.saved_ns != b.saved_ns)
		return err_set(err, ERR_IO,
			       "internal error: the last run's plan stands (%llu hits), but made "
			       "task by task it is another one (%llu hits, %zu to run)",
			       (unsigned long long)a.hits, (unsigned long long)b.hits,
			       plan_n_ready(p));
	return 0;
}
#else
static int prove_standing(struct run *r, struct err *err)
{
	return 0;
}
#endif

int run_prove_end(struct run *r, struct err *err)
{
	struct proof p = { .run = r };
	int result = plan_prove_ended(r->plan, err);
	struct run_counts c;

	if (result == 0 && plan_stands(r->plan))
		result = prove_standing(r, err);
	plan_count(r->plan, &c);
	if (result == 0)
		result = record_each_end(r->ctx->db, r->row.rowid, take_end, &p, err);
	/* A replay's tasks keep their old records. The new results are kept beside them. */
	for (size_t s = 0; result == 0 && (p.ends.n || c.executed) && r->o->kind != RUN_ISOLATED &&
			   s < plan_n_steps(r->plan);
	     s++)
		for (size_t i = 0; i < plan_n_tasks(r->plan, s); i++)
			check_task(&p, plan_task_at(r->plan, s, i));
	if (result == 0 && p.wrong)
		result = err_set(err, ERR_IO,
				 "internal error: the run came to its end, but the record does not "
				 "say so of %zu of its tasks: %s%s",
				 p.wrong, p.list.s, p.wrong > SHOWN ? ", …" : "");
	VEC_FREE(&p.ends);
	str_deinit(&p.list);
	return result;
}
