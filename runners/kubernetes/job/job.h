/* runners/kubernetes/job/job.h — makes the objects for attempts as JSON: pure functions.
 *
 * One Job for an attempt: backoffLimit 0, because the engine retries; a podFailurePolicy that ends
 * it at once when its pod is disrupted (preempted, evicted), so that the Job's conditions hold the
 * reason; a time to live as a safety net only. Several nodes: an Indexed Job, a headless Service
 * and a NetworkPolicy, both owned by the Job; or another object that owns the pods (kind.h).
 *
 * Attempts of one step that are ready together share a Job, an array: an Indexed Job whose pod i
 * executes the i-th attempt (or the i-th pack, one attempt after the other). This halves the work
 * of the control plane compared with a Job for each. Each index fails on its own
 * (backoffLimitPerIndex 0).
 *
 * The pod has two containers. First the native sidecar `cairn` (initContainers, restartPolicy
 * Always) from Cairn's own image, which has the credentials of the store. Then `main` from the
 * step's image, whose first process is the static helper. It has neither those credentials nor a
 * service account's token. Both pass `restricted` Pod Security. Then come presets of the cloud, the
 * step's settings, and last the templates of cairn.yaml and of the step, merged strategically
 * (merge.h).
 *
 * Environment: the sidecar gets CAIRN_POD_SPEC (pod_content_write()). With several pods, both
 * containers get JOB_COMPLETION_INDEX (from Kubernetes) and CAIRN_POD_SERVICE: rank r is the host
 * $CAIRN_POD_SERVICE-r.$CAIRN_POD_SERVICE. Under another kind it is the service $CAIRN_POD_SERVICE,
 * in which `%u` stands for r, and only the sidecar knows the index (kind.c).
 *
 * Source of the rules: pkg/apis/batch/validation (Kubernetes 1.31), pod-security-admission/policy.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_JOB_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_JOB_H

#include "base/mem.h"
#include "base/text/json.h"
#include "runners/kubernetes/job/kind.h"
#include "runners/runner.h"

/* Labels on every object that we make. Selectors for watches: KUBE_LABEL_RUN. */
#define KUBE_LABEL_MANAGED "app.kubernetes.io/managed-by" /* = "cairn" */
#define KUBE_LABEL_PROJECT "cairn.internal/project"
#define KUBE_LABEL_RUN     "cairn.internal/run"
#define KUBE_LABEL_STEP    "cairn.internal/step"
#define KUBE_LABEL_ATTEMPT "cairn.internal/attempt" /* id of the (first) attempt */
/* Annotations of Jobs: kube_job_owner() (a Job of our name without it isn't ours) and the
 * specification's content id. Of Jobs and pods: the task, for people; for several attempts, their
 * ids: in one pod "12 13 14", in several "12 13,14 15". The owner is also on pods of an operator's
 * object, which have no other tie to it that we could check. */
#define KUBE_NOTE_OWNER    "cairn.internal/owner"
#define KUBE_NOTE_TASK     "cairn.internal/task"
#define KUBE_NOTE_SPEC     "cairn.internal/spec"
#define KUBE_NOTE_ATTEMPTS "cairn.internal/attempts"
/* Of the pods of an operator's object (kind.h): which kind (annotation), and the number of the
 * first node of its group (label). */
#define KUBE_NOTE_AS     "cairn.internal/as"
#define KUBE_LABEL_FIRST "cairn.internal/first"
/* Label and annotation that Kubernetes gives the pods of an Indexed Job. */
#define KUBE_INDEX "batch.kubernetes.io/job-completion-index"
/* Where the sidecar finds store_ca; the value of its CAIRN_STORE_CA. */
#define KUBE_STORE_CA "/etc/cairn/ca/ca.crt"
/* Where the sidecar finds the node's cache. */
#define KUBE_CACHE            "/var/cache/cairn"
#define KUBE_JOB_ATTEMPTS_MAX 1024
#define KUBE_ARRAY_DEFAULT    64
/* How long the end of a step waits for an unreachable store: a night, and the morning in which
 * somebody repairs it. */
#define KUBE_SAVE_DEFAULT_NS (12 * 3600 * NS_PER_S)
/* What a pod waits for before its program runs. */
#define KUBE_SCHEDULE_DEFAULT_NS (15 * 60 * NS_PER_S)
#define KUBE_IMAGE_DEFAULT_NS    (5 * 60 * NS_PER_S)
#define KUBE_GANG_DEFAULT_NS     (10 * 60 * NS_PER_S)
#define KUBE_MAIN                "main"
#define KUBE_SIDECAR             "cairn"

/* Settings that all pods of a project share. engine/run/project/cluster.c makes it from cairn.yaml;
 * NULL or 0: not set. Everything is borrowed and outlives the runner. */
struct kube_profile {
	const char *project; /* 16 hexadecimal digits that identify the project's database */
	const char *namespace_;
	const char *cairn_image;       /* for the sidecar and for built-in steps */
	const char *image_pull_policy; /* "IfNotPresent" */
	const char *store_uri;
	const char *const *store_env; /* "NAME=value", NULL-terminated: how `cairn pod` finds the
					 store (engine/pod/pod.h); no secret */
	const char *store_secret;     /* Secret whose entries are the sidecar's environment */
	const char *store_account;    /* its token is the sidecar's alone: web identity */
	const char *store_ca;         /* ConfigMap with the entry ca.crt */
	/* PersistentVolumeClaim that is mounted at store_uri, which is then a directory. */
	const char *store_claim;
	const char
		*secrets;  /* Secret that holds the steps' secrets by name; NULL: "cairn-secrets" */
	const char *cloud; /* "gke", "eks", "aks" */
	const char *arch;  /* of the platform in the keys, "amd64": only nodes of it; NULL: any */
	/* cairn.yaml's settings for all steps, in the form of runner_attempt.placement_json
	 * (model/step/placement.h); a step's own settings win. */
	const json_t *placement;
	/* Most pods of a Job, when attempts of a step are ready together; 1: a Job for each; 0:
	 * KUBE_ARRAY_DEFAULT. */
	uint32_t array;
	int64_t ttl_s; /* after the end; 0: a day */
	/* The sidecar's time to save things when a pod must go, added to the step's grace time; 0:
	 * 60 s. */
	int64_t upload_ns;
	/* How long the sidecar waits for an unreachable store after the program has ended; 0:
	 * KUBE_SAVE_DEFAULT_NS. */
	int64_t save_ns;
	/* How long the runner lets a pod wait before its program runs, in all; 0: the defaults
	 * together. */
	int64_t wait_ns;
	/* The node's cache: a directory of each node, or a claim; NULL, NULL: none. */
	const char *cache_path, *cache_claim;
	uint64_t cache_bytes;            /* 0: the sidecar's default */
	struct runner_resources sidecar; /* 0: 10m; requests 32Mi, limit 96Mi */
};

/* "train-fold-0-3f2a…": at most 52 characters, a DNS label, the same for the same run, task and
 * attempt number. */
void kube_job_name(const struct runner_attempt *a, char ret[64]);
char *kube_job_owner(const struct kube_profile *p,
		     const struct runner_attempt *a); /* the caller frees */
/* A label selector for all objects of the project (not ""), or for those with more labels (fmt, or
 * NULL): KUBE_LABEL_RUN "=%s". The caller frees. */
char *kube_selector(const char *project, const char *fmt, ...) _printf_(2, 3);

/* Its pods are replaced while others go on. One pod alone has nobody to go on. */
static inline bool kube_is_elastic(const struct runner_attempt *a)
{
	return a->on.gang.nodes > 1 && a->on.gang.min_nodes > 0;
}

struct kube_job {
	const struct kube_profile *profile;
	const struct runner_attempt *const *attempts; /* the first one gives the name */
	size_t n;
	size_t per_pod; /* attempts of a pod; 0: one pod (or one gang) executes all */
	const struct content_id *spec; /* of pod_spec_write() */
};
/* New references. ERR_INVALID: the step's settings contradict each other or the templates (the
 * message says which); ERR_UNSUPPORTED. */
int kube_job_object(const struct kube_job *j, json_t **ret, struct err *err);
/* Chooses the inputs of the Job that main mounts out of the node's cache. Sets ret_attempts (j->n
 * places, may be j->attempts) to copies in `arena` that have it in runner_input.view, or to the
 * attempts themselves. Of the staging it uses takes(), whose errors it gives. */
int kube_job_choose_views(const struct kube_job *j, const struct runner_staging *staging,
			  struct arena *arena, const struct runner_attempt **ret_attempts,
			  struct err *err);
/* What must exist before the object (kind.h, `base`), or *ret is NULL. */
int kube_base_object(const struct kube_job *j, json_t **ret, struct err *err);
/* How many attempts like `a` one Job may hold: so many pods, so many attempts in each. */
struct kube_capacity {
	size_t pods, per_pod;
};
void kube_job_capacity(const struct kube_profile *p, const struct runner_attempt *a,
		       struct kube_capacity *ret);
/* Whether `a` may share the Job of `first`: in the same pod (one_pod), or in a pod of its own. */
bool kube_job_takes(const struct runner_attempt *first, const struct runner_attempt *a,
		    bool one_pod);
/* ERR_INVALID: the kind of object that the placement names lacks something. Of the profile it reads
 * `placement` and `store_account`; of the attempt only `on`. */
int kube_job_check_kind(const struct kube_profile *p, const struct runner_attempt *a,
			struct err *err);
/* What owns the attempt's pods. A placement that isn't valid gives the Job: kube_job_object() says
 * what is wrong with it. */
const struct kube_kind *kube_job_kind(const struct kube_profile *p, const struct runner_attempt *a);
/* *ret: new reference, a list. For several nodes: Services, then what to add to the base object
 * (kind and metadata alone), then a NetworkPolicy; all owned by the object of that uid (NULL: for
 * display, without the second). It is empty for one node. */
int kube_gang_objects(const struct kube_job *j, const char *owner_uid, json_t **ret,
		      struct err *err);

#endif
