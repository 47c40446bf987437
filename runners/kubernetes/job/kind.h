/* runners/kubernetes/job/kind.h — the kinds of object that can own the pods of a step.
 *
 * A step over several nodes is a Job, or, with `kubernetes: {as: pytorchjob}`, an object of an
 * operator that a platform has. The pods are the same: the same template, found by the same labels,
 * judged by the same facts. What differs is one row of a table: how the object is called, where the
 * template stands in it, how its main container must be called, which label counts its pods, and
 * which conditions end it. A new kind is a new row; the model has its name, too
 * (engine/model/step/placement.c).
 *
 * Kinds with a `worker` are for a step with one node. The program's pod is Ray's head or Spark's
 * driver. Workers beside it, as many as `kubernetes.workers` says, are the operator's: they have
 * the step's image, resources and placement, but none of Cairn's containers, and no attempt knows
 * them.
 *
 * Pods of an operator have no stable host names, or different ones. So each has a headless Service
 * of ours (kube_gang_objects()). Between the object and a pod there may be others (a JobSet makes
 * Jobs), so a pod of an operator belongs to an object with the same owner annotation; a Job's pod
 * belongs to the Job that controls it.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_KIND_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_KIND_H

#include <stdbool.h>
#include <stddef.h>

#define KUBE_KINDS 10

struct kube_kind {
	const char *as;   /* "pytorchjob": in `kubernetes.as`, and in the pods' annotation
			     KUBE_NOTE_AS */
	const char *kind; /* "PyTorchJob" */
	const char *group, *version, *resource;
	const char *main;  /* how the operator wants the container of the program to be called */
	const char *index; /* the label that counts the pods; NULL: there is one */
	const char *done, *failed; /* the conditions that end it well, or not */
	/* The object's `spec` as JSON. "$pod" is the template of a pod, "$rest" that of a group
	 * whose first pod is node 1, "$worker" that of a worker, "$job" the spec of a Job; "$name"
	 * is the object's; "$nodes", "$others" (one fewer), "$workers" and "$ttl" are numbers.
	 * "$cores", "$memory", "$overhead" and "$image" are Spark's words for the step's resources
	 * and image; what a step doesn't say is left out. NULL: the spec is "$job" itself. */
	const char *spec;
	/* An object of the same name, group and version that must exist before: how it is called,
	 * and its `spec`. NULL: none. It belongs to the object as soon as that exists. */
	const char *base, *base_resource, *base_spec;
	/* How the container of a worker is called; NULL: a kind for several nodes. */
	const char *worker;
	const char *notes;     /* the object's annotations, as JSON; NULL: none */
	const char *pod_notes; /* those of the program's pod, likewise */
	const char *env;       /* a variable more of the program, as JSON; NULL: none */
	/* What its program does with the account that it needs; NULL: it needs none. */
	const char *needs_account;
	/* The way in `status` to a text that says what `done` and `failed` say, where an operator
	 * writes no conditions; NULL: it writes conditions. */
	const char *state;
};
extern const struct kube_kind kube_kinds[KUBE_KINDS]; /* the first is the Job */

/* NULL when there is none of that name. */
const struct kube_kind *kube_kind_of(const char *as);
static inline size_t kube_kind_number(const struct kube_kind *k)
{
	return (size_t)(k - kube_kinds);
}
static inline bool kube_kind_is_job(const struct kube_kind *k)
{
	return k == kube_kinds;
}
/* Whether the kind can own the pods of a step with so many nodes. */
static inline bool kube_kind_takes(const struct kube_kind *k, unsigned nodes)
{
	return kube_kind_is_job(k) || (k->worker != NULL) == (nodes <= 1);
}

#endif
