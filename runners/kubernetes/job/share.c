/* runners/kubernetes/job/share.c — which attempts share a Job, and which of these a pod. */
#include <assert.h>
#include "runners/kubernetes/init/protocol.h"
#include "runners/kubernetes/job/internal.h"

/* Each pod reads the specification of all attempts. This limits the inputs and outputs in it. */
#define SHARED_PATHS_MAX 16384

static bool same_names(const char *const *a, const char *const *b)
{
	for (; a && b && *a && *b; a++, b++) {
		size_t n = strcspn(*a, "=");

		if (n != strcspn(*b, "=") || strncmp(*a, *b, n) != 0)
			return false;
	}
	return (a && *a) == (b && *b);
}

/* Pods of a Job share one template, which names the mounts of inputs, and secrets. */
static bool same_template(const struct runner_attempt *a, const struct runner_attempt *b)
{
	if (a->n_inputs != b->n_inputs || !same_names(a->secrets, b->secrets))
		return false;
	for (size_t i = 0; i < a->n_inputs; i++)
		if (strcmp(a->inputs[i].path, b->inputs[i].path) != 0 ||
		    !str_eq(a->inputs[i].volume, b->inputs[i].volume))
			return false;
	return true;
}

bool kube_job_takes(const struct runner_attempt *first, const struct runner_attempt *a,
		    bool one_pod)
{
	assert(first->run_id && a->run_id);
	return str_eq(first->run_id, a->run_id) && str_eq(first->on.step, a->on.step) &&
	       str_eq(first->on.image, a->on.image) &&
	       str_eq(first->on.placement_json, a->on.placement_json) &&
	       first->on.pack == a->on.pack && first->on.disrupted == a->on.disrupted &&
	       first->on.copies == a->on.copies &&
	       first->resources.cpu_milli == a->resources.cpu_milli &&
	       first->resources.memory_bytes == a->resources.memory_bytes &&
	       first->resources.gpus == a->resources.gpus && first->grace_ns == a->grace_ns &&
	       first->on.gang.nodes <= 1 && a->on.gang.nodes <= 1 &&
	       (one_pod || same_template(first, a));
}

/* A queue admits a Job as a whole, so independent pods would have to wait for each other there. */
static bool is_queued(const struct kube_profile *p, const struct runner_attempt *a)
{
	_cleanup_(json_decrefp) json_t *placement = NULL;

	return kube_placement_join(p->placement, a->on.placement_json, &placement, NULL) < 0 ||
	       kube_placement_str(placement, "queue");
}

void kube_job_capacity(const struct kube_profile *p, const struct runner_attempt *a,
		       struct kube_capacity *ret)
{
	size_t paths = 1 + a->n_inputs + a->n_outputs, most = KUBE_JOB_ATTEMPTS_MAX;

	*ret = (struct kube_capacity){ .pods = 1, .per_pod = 1 };
	if (a->on.gang.nodes > 1 || !kube_kind_is_job(kube_job_kind(p, a)))
		return;
	ret->per_pod = MIN(MAX((size_t)a->on.pack, (size_t)1), (size_t)INIT_PROGRAMS_MAX);
	most = MIN(most, SHARED_PATHS_MAX / paths) / ret->per_pod;
	ret->pods = MAX(MIN((size_t)(p->array ? p->array : KUBE_ARRAY_DEFAULT), most), (size_t)1);
	if (ret->pods > 1 && is_queued(p, a))
		ret->pods = 1;
}
