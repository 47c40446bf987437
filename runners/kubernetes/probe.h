/* runners/kubernetes/probe.h — asks a cluster what it supports and what the account may do there.
 * It creates nothing.
 *
 * It checks the version (1.31 or newer: Indexed Jobs, podFailurePolicy and native sidecars work),
 * each right that the runner needs (SelfSubjectAccessReview), operators' kinds of object, and Jobs
 * of the kinds that it makes (server-side dry run with fieldValidation=Strict, which includes
 * admission, quotas and Pod Security). It also checks the remaining quotas, and GPUs of the nodes,
 * if the account may list them.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_PROBE_H
#define CAIRN_RUNNERS_KUBERNETES_PROBE_H

#include "runners/kubernetes/api/client.h"

#define KUBE_VERSION_MIN_MAJOR 1
#define KUBE_VERSION_MIN_MINOR 31

enum kube_finding { KUBE_FINE, KUBE_WARNING, KUBE_PROBLEM };
/* `advice` may be NULL. Strings are lent for the call. */
typedef void (*kube_found_fn)(void *arg, enum kube_finding verdict, const char *name,
			      const char *detail, const char *advice);
struct kube_probe_options {
	const char *lease; /* that the project's servers share; or NULL */
	bool arrays;       /* tasks may share a Job (kube_profile.array isn't 1) */
	/* Names of kinds (job/kind.h) that steps name as `as`, but not the Job. */
	const char *const *kinds;
	size_t n_kinds;
};
/* Continues after each problem. A check that can't be made is a finding, too. */
void kube_probe(struct kube_client *c, const struct kube_probe_options *o, kube_found_fn found,
		void *arg);

#endif
