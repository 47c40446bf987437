/* runners/kubernetes/job/light.h — pods without a sidecar, for attempts that read and make little.
 *
 * A light pod has only the container `main`. The engine puts what the pod needs into a ConfigMap:
 * for each pod its plan, and the files of its workspace (init/light.h). The static helper comes in
 * another ConfigMap, which all light pods of a namespace share. What the program leaves comes back
 * as the container's termination message, and the engine puts it into the store. So nothing in the
 * pod has credentials of the store, and Cairn's image isn't pulled.
 *
 * A message has room for some 2 KB. Attempts are light only if the step's last ones left no more
 * (runner_cluster.small). If one leaves more, it ends as `lost` with ERR_TOO_LARGE, and its retry
 * has a sidecar, as all retries do. A log that is longer comes from the API.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_LIGHT_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_LIGHT_H

#include "runners/kubernetes/job/job.h"
#include "runners/kubernetes/job/pod_spec.h"

/* The helper, for ConfigMaps: `bytes` are borrowed. bytes NULL: no pod is light. */
struct kube_light_program {
	const void *bytes;
	size_t n;
	const char *arch; /* "amd64": nodes that can run it */
};

/* Names of the two ConfigMaps of a Job. */
struct kube_light {
	char program[64], plans[128];
};

/* Whether the attempt's pod may be light. */
bool kube_light_suits(const struct kube_profile *p, const struct runner_attempt *a,
		      const struct kube_light_program *program);
/* New reference; fills in the name, which holds the digest of the content. Immutable, because
 * whoever could change it would run as every step. */
json_t *kube_light_program(const struct kube_profile *p, const struct kube_light_program *program,
			   struct kube_light *ret);
/* Likewise, of the Job's plans. Reads code and inputs by staging->prepare(). 1: they are too large.
 */
int kube_light_plans(const struct kube_job *j, const struct runner_staging *staging,
		     struct kube_light *ret_names, json_t **ret, struct err *err);

/* A result, taken in. */
struct kube_light_result {
	struct pod_result result;
	/* The end of the log; all of it if it is as long. */
	const char *log;
	size_t n_log;
	uint64_t log_bytes;
};
/* Reads `main`'s message about `a`, and puts outputs into the store by staging->collect(). Hostile
 * input: ERR_INVALID says what is wrong. Texts are in `arena`. */
int kube_light_take(const char *message, const struct runner_attempt *a,
		    const struct runner_staging *staging, struct arena *arena,
		    struct kube_light_result *ret, struct err *err);

#endif
