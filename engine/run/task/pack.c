/* engine/run/task/pack.c — how many tasks of a step share a pod: `pack: N`, or `auto` for short
 * ones.
 *
 * A pod costs seconds that a short task doesn't need. A step is short when the median of its last
 * successful attempts is. They may be of this run, too: of a wide step that never ran, a few tasks
 * begin, and the others wait a moment for the end of one of these. A pod gets a few seconds of
 * work, and never so much that less than WIDTH_MIN pods would remain: a cluster with room for all
 * tasks would stand empty. A retry is alone, whatever the step says: a task that ends its pod (out
 * of memory) takes others with it only once.
 *
 * Sizes are powers of two: attempts that are submitted together have the same one and share a Job,
 * although fewer tasks are left for each.
 */
#include "run/internal.h"
#include "runners/mounts.h"

/* A few times what a pod costs. */
#define WORK_NS       (10 * NS_PER_S)
#define SIZE_MAX_AUTO 64
#define WIDTH_MIN     8
/* A pod holds the inputs of all its tasks from its start, each task copies of its own. Trees count
 * by their listings, the only size that is known without reading them: if they fill the node's
 * disk, the retry is alone. What all tasks mount out of the node's cache is there once, however
 * many share the pod, and doesn't count. */
#define INPUT_BYTES_MAX (1 * GIB)
/* A step without history is asked for again, but not for each of thousands of tasks. */
#define ASK_NS (1 * NS_PER_S)
/* Of a step without history that has so many tasks left, so many begin; the others wait so long:
 * less than anybody notices whose tasks aren't short. */
#define WIDE      64
#define FIRST_MAX 16
#define WAIT_NS   (10 * NS_PER_S)

struct step_pace {
	int64_t median_ns; /* 0: unknown */
	int64_t asked_ns;  /* 0: not since an attempt ended well */
	int64_t first_ns;  /* when its first attempt began in this run */
	unsigned n_begun;  /* before the median was known */
};

static struct step_pace *pace_of(struct run *r, size_t step)
{
	if (!r->paces)
		r->paces = arena_alloc(r->arena, plan_n_steps(r->plan) * sizeof(*r->paces));
	return &r->paces[step];
}

static int64_t median_ns(struct run *r, size_t step)
{
	struct step_pace *p = pace_of(r, step);
	int64_t now = run_mono_ns(r);

	if (p->median_ns || (p->asked_ns && now - p->asked_ns < ASK_NS))
		return p->median_ns;
	p->asked_ns = now;
	/* Without an answer the task has a pod of its own. */
	if (record_step_duration(r->ctx->db, r->pipeline->name, r->pipeline->steps[step].name,
				 &p->median_ns, NULL) <= 0)
		p->median_ns = 0;
	else
		p->median_ns = MAX(p->median_ns, NS_PER_MS);
	return p->median_ns;
}

static bool is_mounted_once(const struct run *r, size_t step, const struct runner_attempt *a,
			    size_t input)
{
	const struct config_kubernetes *k = &r->ctx->config->kubernetes;
	const struct content_id *id = &a->inputs[input].id;

	return (k->cache.host_path || k->cache.claim) &&
	       (id->kind == CONTENT_TREE || id->size_bytes >= MOUNTS_WORTH_BYTES) &&
	       plan_input_is_shared(r->plan, step, input);
}

static uint64_t input_bytes(const struct run *r, size_t step, const struct runner_attempt *a)
{
	uint64_t sum = 1;

	for (size_t i = 0; i < a->n_inputs; i++)
		if (!is_mounted_once(r, step, a, i))
			sum += a->inputs[i].id.size_bytes;
	return sum;
}

uint32_t pack_size(struct run *r, const struct attempt *a)
{
	const size_t step = a->task->plan->step;
	struct step_pace *p = pace_of(r, step);
	const size_t left = MIN(plan_step_left(r->plan, step), (size_t)MAX(r->slots.jobs, 1u));
	uint64_t most = MIN((uint64_t)SIZE_MAX_AUTO, left / WIDTH_MIN);
	int64_t each;
	uint32_t size = 1;

	if (p->n_begun++ == 0)
		p->first_ns = run_mono_ns(r);
	if (a->given.number > 1 || a->given.local.shell)
		return 1;
	if (a->step->machine->place.pack != PACK_AUTO)
		return a->step->machine->place.pack;
	if (a->given.on.gang.nodes > 1 || most < 2)
		return 1;
	each = median_ns(r, step);
	if (!each)
		return 1;
	most = MIN(most, (uint64_t)(WORK_NS / each));
	most = MIN(most, INPUT_BYTES_MAX / input_bytes(r, step, &a->given));
	while (size * 2 <= most)
		size *= 2;
	return size;
}

bool pack_must_wait(struct run *r, const struct task *t)
{
	const struct step *s = plan_task_step(r->plan, t->plan);
	const size_t step = t->plan->step;
	const struct step_pace *p = pace_of(r, step);

	if (!r->ctx->runner->ops->durable || s->machine->place.pack != PACK_AUTO ||
	    s->machine->distributed.nodes > 1 || t->history || p->n_begun < FIRST_MAX ||
	    plan_step_left(r->plan, step) < WIDE || median_ns(r, step) ||
	    run_mono_ns(r) - p->first_ns >= WAIT_NS)
		return false;
	start_recheck(r);
	return true;
}

void pack_learn(struct run *r, const struct task *t)
{
	pace_of(r, t->plan->step)->asked_ns = 0;
}
