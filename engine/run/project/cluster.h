/* engine/run/project/cluster.h — a project's cluster as cairn.yaml describes it: how to reach it,
 * and what pods need there. */
#ifndef CAIRN_RUN_PROJECT_CLUSTER_H
#define CAIRN_RUN_PROJECT_CLUSTER_H

#include "model/config/config.h"
#include "run/run.h"
#include "runners/kubernetes/api/client.h"
#include "runners/kubernetes/job/job.h"

/* Strings in `arena`. */
int cluster_access(const struct config *c, struct arena *arena, struct kube_access *ret,
		   struct err *err);
/* Strings in `arena`; the placement is borrowed from `c`. ERR_INVALID: cairn.yaml lacks what pods
 * need, such as Cairn's image or a store that they can reach. Makes the file `project-id` in the
 * state directory when it is missing: it tells this project's Jobs from those of others. */
int cluster_profile(const struct config *c, const struct kube_access *a, struct arena *arena,
		    struct kube_profile *ret, struct err *err);

/* The cluster as the options of a run name it; borrows from both. */
struct run_cluster cluster_name(const struct config *c, const struct kube_access *a);

/* Access, profile and a client. Don't move the struct while it is open. */
struct cluster {
	struct arena *arena;
	struct kube_access access;
	struct kube_profile profile;
	struct kube_client *client;
};
/* The configuration of the cluster on which a run's Jobs are, whatever is chosen now; its strings
 * are those of `c` and `where` (NULL: not on record, so the chosen one). ERR_INVALID: cairn.yaml
 * doesn't name that cluster any more. */
int cluster_of_run(struct config *c, const struct run_cluster *where, struct err *err);
/* The cluster of a run, from its options. `c` must outlive *ret. On failure there is nothing to
 * close. */
int cluster_open(const struct config *c, const char *options_json,
		 const struct kube_client_options *o, struct cluster *ret, struct err *err);
void cluster_close(struct cluster *k);

#endif
