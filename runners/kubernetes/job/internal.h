/* runners/kubernetes/job/internal.h — declarations that the files of this folder share (job.h);
 * nothing else includes it.
 *
 * Each Job has one pod_build. Its functions read the first attempt and the joined placement, fill
 * the lists, and then put them together. The lists are new references that belong to it.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_INTERNAL_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_INTERNAL_H

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/text/text.h"
#include "runners/kubernetes/job/job.h"
#include "runners/kubernetes/job/pod_spec.h"

/* The user of both containers: each reads the other's files. */
#define KUBE_USER 10001
/* How long a pod stays on a node that isn't ready. */
#define KUBE_TOLERATE_S 60
/* etcd's limit is 1.5 MiB, and the server adds to what we send. */
#define KUBE_OBJECT_MAX    (1 * MIB)
#define KUBE_PATH_MAX      4096
#define KUBE_VOLUME_SHARED "cairn"
#define KUBE_VOLUME_TOKEN  "account-token"
#define KUBE_VOLUME_CACHE  "cairn-cache"
/* The pod's uid, after which its directory in the cache is called (engine/pod/views.c). */
#define KUBE_ENV_UID "CAIRN_POD_UID"

struct pod_build {
	const struct kube_job *job;
	const struct kube_profile *p;
	const struct runner_attempt *a; /* the first */
	const struct kube_kind *kind;   /* the Job, or what owns the pods instead */
	char name[64];                  /* of that object */
	char service[72];               /* of several nodes: by which the pods find each other */
	json_t *placement;              /* cairn.yaml's and the step's, joined */
	json_t *labels, *annotations;   /* of the pod */
	json_t *selector, *tolerations; /* nodeSelector, tolerations */
	json_t *affinity;               /* NULL: none */
	json_t *volumes, *main_mounts, *sidecar_mounts;
	bool mounts;            /* inputs are mounted out of the node's cache */
	size_t per_pod, n_pods; /* attempts of each pod, in order; n_pods is 1 for a gang, too */
};

/* job/placement.c */

/* New reference: `defaults` (or NULL) overlaid by the step's text (or NULL). Maps of names are
 * joined, lists concatenated, templates kept in order as the list "pod_templates". For all else the
 * step's value wins. */
int kube_placement_join(const json_t *defaults, const char *placement_json, json_t **ret,
			struct err *err);
const char *kube_placement_str(const json_t *placement, const char *key); /* NULL: not set */
uint64_t kube_placement_uint(const json_t *placement, const char *key);   /* 0: not set */
/* Adds the placement's labels, annotations, node selector, tolerations and affinity to the build;
 * then what the cloud needs. */
int kube_place(struct pod_build *b, struct err *err);
/* The object member `key`; created if it isn't an object. Borrowed. */
json_t *kube_object_in(json_t *o, const char *key);
/* job/cloud.c: selector, tolerations, affinity, annotations for spot and GPU pools of
 * profile.cloud. */
int kube_place_cloud(struct pod_build *b, struct err *err);
bool kube_gpu_type_is_resource(
	const char *gpu_type); /* "nvidia.com/mig-1g.10gb"; a product isn't, like "nvidia-l4" */

/* What owns the pods of `a`, which is the Job where `as` is for another number of nodes.
 * ERR_INVALID: `as` names no kind. */
int kube_placement_kind(const json_t *placement, const struct runner_attempt *a,
			const struct kube_kind **ret, struct err *err);

/* job/gang.c: for an elastic gang, an affinity by which the others get a place only after node 0.
 */
void kube_place_first_node_first(struct pod_build *b);

/* kube_job_check_kind() of a joined placement. */
int kube_placement_check_kind(const json_t *placement, const char *store_account,
			      const struct kube_kind *kind, struct err *err);

/* job/job.c */
int kube_build_init(struct pod_build *b, const struct kube_job *j, struct err *err);
void kube_build_deinit(struct pod_build *b);
json_t *kube_metadata(const struct pod_build *b);                   /* new reference */
json_t *kube_job_spec(const struct pod_build *b, json_t *template); /* new reference */
int64_t kube_ttl_s(const struct pod_build *b);
/* job/kind.c: new references: the `spec` of the build's kind around the pod, and that of its base.
 */
json_t *kube_kind_spec(const struct pod_build *b, json_t *template);
json_t *kube_kind_base_spec(const struct pod_build *b, const json_t *template);
/* job/volumes.c: fills volumes and mounts. */
int kube_add_volumes(struct pod_build *b, struct err *err);
/* job/pod.c: new references. */
int kube_containers(struct pod_build *b, json_t **ret_main, json_t **ret_sidecar, struct err *err);
/* job/template.c */
int kube_merge_templates(const struct pod_build *b, json_t *template, struct err *err);
void kube_set_str(json_t *object, const char *key, const char *value); /* NULL: omitted */

#endif
