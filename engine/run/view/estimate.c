/* engine/run/view/estimate.c — how long a run will still take, from how long its steps took before.
 *
 * A task is expected to take the median of its step in past runs. The rest of the run takes at
 * least as long as all that is left, shared by the places to run, and at least as long as the
 * longest path through the steps that are left. What running tasks have done already is taken off.
 * A step whose tasks aren't known yet counts as one task. One step without a median makes the whole
 * unknown: half an estimate is a wrong one.
 *
 * Threads: the loop's. It looks at every step, so at most once a second. */
#include "run/internal.h"
#include "run/view/live.h"

struct step_rest {
	int64_t median_ns; /* in past runs; 0: not read, or unknown */
	uint64_t running;
	int64_t done_ns;     /* by its running tasks, each at most the median */
	int64_t youngest_ns; /* what the one that began last has done */
	int64_t path_ns;     /* until this step ends, if nothing waits for a place */
};

static void add_running(struct run *r, struct step_rest *rest)
{
	int64_t now = run_wall_ns(r);

	for (const struct task *t = r->tasks.in[PHASE_RUNNING].first; t; t = t->after) {
		struct step_rest *s = &rest[t->plan->step];
		int64_t done = MIN(MAX(now - t->attempt->row.started_ns, 0), s->median_ns);

		s->youngest_ns = s->running++ ? MIN(s->youngest_ns, done) : done;
		s->done_ns += done;
	}
}

/* False: nobody knows. */
static bool read_medians(struct run *r, struct step_rest *rest)
{
	for (size_t i = 0; i < plan_n_steps(r->plan); i++) {
		const struct step *s = &r->pipeline->steps[i];
		struct step_rest *m = &rest[i];

		m->running = 0;
		m->done_ns = m->youngest_ns = m->path_ns = 0;
		if (s->approve || m->median_ns) /* nobody knows how long a person takes */
			continue;
		if (plan_step_left(r->plan, i) == 0 &&
		    (plan_step_expanded(r->plan, i) || !plan_step_selected(r->plan, i)))
			continue;
		if (record_step_duration(r->ctx->db, r->pipeline->name, s->name, &m->median_ns,
					 NULL) <= 0) {
			m->median_ns = 0;
			return false;
		}
	}
	return true;
}

static int64_t rest_of(struct run *r, struct step_rest *rest)
{
	int64_t work = 0, longest = 0;

	for (size_t i = 0; i < plan_n_steps(r->plan); i++) {
		const uint32_t k = r->pipeline->order[i];
		const struct step *s = &r->pipeline->steps[k];
		struct step_rest *m = &rest[k];
		bool open = !plan_step_expanded(r->plan, k) && plan_step_selected(r->plan, k);
		uint64_t left = plan_step_left(r->plan, k) + open;

		for (size_t d = 0; d < s->n_deps; d++)
			m->path_ns = MAX(m->path_ns, rest[s->deps[d].step].path_ns);
		if (!left)
			continue;
		work += m->median_ns * (int64_t)left - m->done_ns;
		m->path_ns += m->median_ns - (left > m->running ? 0 : m->youngest_ns);
		longest = MAX(longest, m->path_ns);
	}
	return MAX(work / MAX(r->slots.jobs, 1), longest);
}

void run_estimate(struct run *r)
{
	int64_t now = run_mono_ns(r);

	if (r->estimate.at_ns && now - r->estimate.at_ns < NS_PER_S)
		return;
	r->estimate.at_ns = now;
	r->estimate.remaining_ns = -1;
	if (!r->estimate.rest)
		r->estimate.rest =
			arena_alloc(r->arena, plan_n_steps(r->plan) * sizeof(*r->estimate.rest));
	if (!read_medians(r, r->estimate.rest))
		return;
	add_running(r, r->estimate.rest);
	r->estimate.remaining_ns = rest_of(r, r->estimate.rest);
}

int64_t run_expected_end_ns(struct run *r)
{
	run_estimate(r);
	return r->estimate.remaining_ns < 0 ? 0
					    : run_wall_ns(r) + r->estimate.remaining_ns -
						      (run_mono_ns(r) - r->estimate.at_ns);
}
