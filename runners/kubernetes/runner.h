/* runners/kubernetes/runner.h — attempts as Jobs on a cluster: struct runner_ops "kubernetes".
 *
 * submit() puts the specification and what the attempt reads into the shared store, and creates the
 * Job, under a name of its own that is the same whoever creates it: submitted again (after a
 * crash), it is found there and taken up. What is submitted within 20 ms (where many wait for their
 * pods, half a second) is made together, and what of it is alike becomes one Job with a pod for
 * each (job.h). One watch of Jobs and one of pods a run, none of the API server's objects is
 * polled. What is seen goes through facts.h; when an attempt has ended, its result is reported, and
 * the Job is deleted once the engine says that the ends of all its attempts are on record
 * (settled()), not before: kill -9 loses nothing. The time to live of a Job is only a net below
 * that.
 *
 * Blocking requests run on a pool of workers; state belongs to the loop's thread. Requests a Job:
 * create and delete; the Service and NetworkPolicy of several nodes two more; a log where the
 * sidecar couldn't save it one more; of a training that somebody watches, one every ten seconds for
 * its newest numbers.
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
	/* How long is waited … */
	int64_t schedule_within_ns; /* for a node or a quota, before the attempt fails as
				       `unschedulable`; 0: 15 min */
	int64_t image_within_ns;    /* for an image; 0: 5 min */
	int64_t gang_within_ns; /* for all pods of several nodes, after the first has started; 0: 10
				   min */
	int64_t lost_within_ns; /* for a pod that was deleted to be gone, after its grace time: then
				   it counts as lost; 0: 30 s */
	int64_t series_every_ns; /* the newest numbers of a training are asked for so often, when
				    events.metric is set; 0: 10 s */
};
int runner_kubernetes_new(struct loop *l, const struct runner_kubernetes_options *o,
			  struct runner **ret, struct err *err);

struct kube_log {
	const char *namespace_, *project;
	uint64_t attempt_id;
	unsigned index; /* of its pod, where it has several */
	bool follow;    /* false: only what there is so far */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	void *arg;
};
/* For `cairn logs -f`: gives `sink` what `main` of the attempt's pod has printed and goes on to
 * print, until it ends (0) or `sink` returns != 0. A stream that breaks off is taken up where it
 * ended. Blocks; any thread. ERR_NOT_FOUND: there is no such pod (any more). */
int kube_follow_log(struct kube_client *c, const struct kube_log *log, struct err *err);

/* Deletes all Jobs of a run whose engine is dead; *ret_n: how many. Their pods get their grace
 * time. */
int kube_delete_run(struct kube_client *c, const char *namespace_, const char *project,
		    const char *run_id, size_t *ret_n, struct err *err);

#endif
