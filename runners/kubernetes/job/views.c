/* runners/kubernetes/job/views.c — which inputs main mounts out of the node's cache, and as which
 * view of its pod. engine/pod/views.c makes the views.
 *
 * All pods of a Job have one template, and it names the views. A place is input k of the i-th
 * attempt of each pod. It is mounted if that is worth more than a copy (MOUNTS_WORTH_BYTES) in one
 * of the pods; then what the others have there is mounted, too, whatever its size. Places that have
 * the same content, in each pod, share a view. So a pack reads a data set of all its tasks once.
 * Views are counted from 1 in the order of places: a pod meets them in this order.
 *
 * Nothing is mounted for a task of which an attempt ended as FAILURE_STORE, so a cache that is
 * broken costs it one attempt. Other failures have nothing to do with the cache.
 *
 * Pure functions but for takes(), any thread.
 */
#include "runners/kubernetes/job/internal.h"
#include "runners/mounts.h"

struct place {
	size_t attempt, input;
};

struct choice {
	const struct kube_job *j;
	size_t per_pod;
	const struct runner_staging *staging;
	VEC(struct place) views;
};

static bool may_mount(const struct kube_job *j, const struct runner_staging *s)
{
	const struct kube_profile *p = j->profile;

	if (!(p->cache_path || p->cache_claim) || p->store_claim || !s->takes)
		return false;
	for (size_t i = 0; i < j->n; i++)
		if (j->attempts[i]->on.copies)
			return false;
	return true;
}

static const struct runner_input *input_at(const struct kube_job *j, size_t attempt, size_t input)
{
	/* Pods with one template have as many inputs (kube_job_takes()). */
	assert(input < j->attempts[attempt]->n_inputs);
	return &j->attempts[attempt]->inputs[input];
}

static int is_worth_it(const struct choice *c, struct place at, bool *ret, struct err *err)
{
	bool large = false;

	*ret = false;
	for (size_t i = at.attempt; i < c->j->n; i += c->per_pod) {
		const struct runner_input *in = input_at(c->j, i, at.input);

		if (in->volume || (in->id.kind != CONTENT_TREE && !content_is_file(&in->id)))
			return 0;
		if (!large && c->staging->takes(c->staging->arg, &in->id, MOUNTS_WORTH_BYTES,
						&large, err) < 0)
			return err_wrap(err, "looking at input `%s`", in->name);
	}
	*ret = large;
	return 0;
}

static bool is_same(const struct choice *c, struct place first, struct place at)
{
	for (; at.attempt < c->j->n; first.attempt += c->per_pod, at.attempt += c->per_pod)
		if (!content_id_eq(&input_at(c->j, first.attempt, first.input)->id,
				   &input_at(c->j, at.attempt, at.input)->id))
			return false;
	return true;
}

/* An object that is small enough (KUBE_OBJECT_MAX) has a few thousand places. */
static uint32_t view_of(struct choice *c, struct place at)
{
	for (size_t i = 0; i < c->views.n; i++)
		if (is_same(c, c->views.v[i], at))
			return (uint32_t)i + 1;
	VEC_PUSH(&c->views, at);
	return (uint32_t)c->views.n;
}

/* Chooses for the i-th attempt of each pod. `v`: the inputs of the first pod's, to be filled in. */
static int choose(struct choice *c, size_t i, struct runner_input *v, struct err *err)
{
	for (size_t k = 0; k < c->j->attempts[i]->n_inputs; k++) {
		bool worth;

		if (is_worth_it(c, (struct place){ i, k }, &worth, err) < 0)
			return -1;
		v[k].view = worth ? view_of(c, (struct place){ i, k }) : 0;
	}
	return 0;
}

int kube_job_choose_views(const struct kube_job *j, const struct runner_staging *staging,
			  struct arena *arena, const struct runner_attempt **ret_attempts,
			  struct err *err)
{
	struct choice c = { .j = j,
			    .per_pod = j->per_pod ? MIN(j->per_pod, j->n) : j->n,
			    .staging = staging };
	struct runner_attempt *copies = arena_alloc(arena, j->n * sizeof(*copies));
	bool may = may_mount(j, staging);
	int r = 0;

	for (size_t i = 0; i < j->n && may && r == 0; i++) {
		size_t n = j->attempts[i]->n_inputs;
		struct runner_input *v =
			arena_memdup(arena, j->attempts[i]->inputs, n * sizeof(*v));

		copies[i] = *j->attempts[i];
		copies[i].inputs = v;
		if (i < c.per_pod)
			r = choose(&c, i, v, err);
		for (size_t k = 0; k < n && i >= c.per_pod; k++)
			v[k].view = copies[i % c.per_pod].inputs[k].view;
	}
	for (size_t i = 0; i < j->n && r == 0; i++)
		ret_attempts[i] = c.views.n ? &copies[i] : j->attempts[i];
	VEC_FREE(&c.views);
	return r;
}
