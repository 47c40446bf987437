/* run/cluster.h — a project's cluster as cairn.yaml describes it: how to reach it, and what pods
 * need there. */
#ifndef CAIRN_RUN_CLUSTER_H
#define CAIRN_RUN_CLUSTER_H

#include "model/config.h"
#include "runners/kubernetes/api/client.h"
#include "runners/kubernetes/job/job.h"

/* Strings in `arena`. */
int cluster_access(const struct config *c, struct arena *arena, struct kube_access *ret,
		   struct err *err);
/* Strings in `arena`; the placement is lent by `c`. ERR_INVALID: cairn.yaml lacks what pods need,
 * such as Cairn's image or a store that they reach. Makes the file `project-id` in the state
 * directory when it isn't there: what tells this project's Jobs from others'. */
int cluster_profile(const struct config *c, const struct kube_access *a, struct arena *arena,
		    struct kube_profile *ret, struct err *err);

/* Both, and a client. The struct may not be moved while it is open. */
struct cluster {
	struct arena *arena;
	struct kube_access access;
	struct kube_profile profile;
	struct kube_client *client;
};
/* `c` outlives it. On failure there is nothing to close. */
int cluster_open(const struct config *c, const struct kube_client_options *o, struct cluster *ret,
		 struct err *err);
void cluster_close(struct cluster *k);

#endif
