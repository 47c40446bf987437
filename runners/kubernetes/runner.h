/* runners/kubernetes/runner.h — attempts as Jobs on a cluster: struct runner_ops "kubernetes".
 *
 * submit() puts the specification and the attempt's inputs into the shared store, and creates the
 * Job. The Job's name depends only on the attempt, so a second submit (after a crash) finds it and
 * takes it up. Attempts that are submitted within 20 ms (half a second when many wait for their
 * pods) are made together, and similar ones become one Job with a pod for each (job.h). Each run
 * has one watch of Jobs and one of pods; no object of the API server is polled. The watches'
 * objects go through facts.h. When an attempt has ended, its result is reported. The Job is deleted
 * only when the engine says that the ends of all its attempts are on record (settled()), so kill -9
 * loses nothing. A Job's time to live is only a safety net.
 *
 * Blocking requests run on a pool of workers; state belongs to the loop's thread. Requests per Job:
 * create and delete; two more for the Service and NetworkPolicy of several nodes; one more for a
 * log that the sidecar couldn't save; one every ten seconds for the numbers of a training that
 * somebody watches.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_RUNNER_H
#define CAIRN_RUNNERS_KUBERNETES_RUNNER_H

#include "runners/kubernetes/api/client.h"
#include "runners/kubernetes/job/job.h"

struct runner_kubernetes_options {
	const struct kube_access *access; /* outlives the runner, as the profile does */
	const struct kube_profile *profile;
	struct kube_client_options client;
	struct runner_staging staging; /* publish, fetch, put_log, drop_checkpoint are used */
	unsigned n_workers;            /* 0: 8 */
	/* How long the runner waits … */
	/* For a node or a quota, before the attempt fails as `unschedulable`; 0: 15 min. */
	int64_t schedule_within_ns;
	int64_t image_within_ns; /* for an image; 0: 5 min */
	/* For all pods of several nodes, after the first has started; 0: 10 min. */
	int64_t gang_within_ns;
	/* For a deleted pod to disappear, after its grace time; then it counts as lost; 0: 30 s. */
	int64_t lost_within_ns;
	/* How often it asks for the numbers of a training, when events.metric is set or it is
	 * watched; 0: 10 s. */
	int64_t series_every_ns;
};
int runner_kubernetes_new(struct loop *l, const struct runner_kubernetes_options *o,
			  struct runner **ret, struct err *err);

struct kube_log {
	const char *namespace_, *project;
	uint64_t attempt_id;
	unsigned index; /* of its pod, when it has several */
	bool follow;    /* false: only what is printed so far */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	void *arg;
};
/* For `cairn logs -f`: gives `sink` all output of `main` in the attempt's pod, until it ends (0) or
 * `sink` returns != 0. A broken stream resumes where it ended. Blocks; any thread. ERR_NOT_FOUND:
 * there is no such pod (any more). */
int kube_follow_log(struct kube_client *c, const struct kube_log *log, struct err *err);

/* Deletes all Jobs of a run whose engine is dead; *ret_n: how many. Their pods get their grace
 * time. */
int kube_delete_run(struct kube_client *c, const char *namespace_, const char *project,
		    const char *run_id, size_t *ret_n, struct err *err);

#endif
