/* runners/kubernetes/job/cloud.c — presets for clouds: which nodes are spot, which have GPUs.
 *
 * For each cloud: labels that select such nodes, taints to tolerate there, and annotations that
 * keep autoscalers from moving a running pod. Labels and taints come from the clouds' own
 * documentation (GKE: spot VMs, GPUs; EKS: managed node groups and Karpenter; AKS: spot node
 * pools).
 *
 * A preset only adds: a label or an annotation that the step sets itself stays (select_node(),
 * note()), and a required affinity is combined with the step's (require_any()). The build belongs
 * to one thread.
 */
#include "runners/kubernetes/job/internal.h"

static void tolerate(struct pod_build *b, const char *key, const char *value)
{
	json_t *t = json_pack("{s:s, s:s, s:s}", "key", key, "operator", value ? "Equal" : "Exists",
			      "effect", "NoSchedule");

	kube_set_str(t, "value", value);
	json_array_append_new(b->tolerations, t);
}

/* The step's own setting wins. */
static void select_node(struct pod_build *b, const char *label, const char *value)
{
	if (!json_object_get(b->selector, label))
		kube_set_str(b->selector, label, value);
}

/* A copy of the step's term with the requirements of `mine` added. The server refuses a bad term.
 */
static json_t *both_terms(const json_t *theirs, const json_t *mine)
{
	json_t *both = json_deep_copy(theirs);

	if (!json_is_object(both))
		return both;
	if (!json_is_array(json_object_get(both, "matchExpressions")))
		json_object_set_new(both, "matchExpressions", json_array());
	json_array_extend(json_object_get(both, "matchExpressions"),
			  json_object_get(mine, "matchExpressions"));
	return both;
}

/* Requires nodes that meet any of `terms` (nodeSelectorTerms) and the step's affinity: each of its
 * terms is combined with each of ours. Consumes `terms`. */
static void require_any(struct pod_build *b, json_t *terms)
{
	json_t *required, *own, *out = json_array(), *mine, *theirs;
	size_t i, k;

	if (!b->affinity)
		b->affinity = json_object();
	required = kube_object_in(kube_object_in(b->affinity, "nodeAffinity"),
				  "requiredDuringSchedulingIgnoredDuringExecution");
	own = json_object_get(required, "nodeSelectorTerms");
	json_array_foreach(own, k, theirs) json_array_foreach(terms, i, mine)
		json_array_append_new(out, both_terms(theirs, mine));
	if (json_array_size(own) == 0)
		json_array_extend(out, terms);
	json_object_set_new(required, "nodeSelectorTerms", out);
	json_decref(terms);
}

static json_t *term(const char *label, const char *value)
{
	return json_pack("{s:[{s:s, s:s, s:[s]}]}", "matchExpressions", "key", label, "operator",
			 "In", "values", value);
}

/* What a cloud's spot nodes are labelled. */
static const struct spot_label {
	const char *cloud, *key, *value;
	bool taint; /* they have it as a taint, too */
} spot_labels[] = {
	{ "gke", "cloud.google.com/gke-spot", "true", true },
	{ "eks", "eks.amazonaws.com/capacityType", "SPOT", false }, /* node groups */
	{ "eks", "karpenter.sh/capacity-type", "spot", false },     /* Karpenter's nodes */
	{ "aks", "kubernetes.azure.com/scalesetpriority", "spot", true },
};

/* Only spot nodes, or none of them. A label without a taint is one of several that a spot node may
 * have. */
static void place_spot(struct pod_build *b, const char *cloud, bool wanted)
{
	json_t *any = json_array(), *none = json_array();

	for (size_t i = 0; i < ARRAY_LEN(spot_labels); i++) {
		const struct spot_label *l = &spot_labels[i];

		if (!str_eq(l->cloud, cloud))
			continue;
		if (!wanted) {
			json_array_append_new(none,
					      json_pack("{s:s, s:s, s:[s]}", "key", l->key,
							"operator", "NotIn", "values", l->value));
		} else if (l->taint) {
			select_node(b, l->key, l->value);
			tolerate(b, l->key, l->value);
		} else {
			json_array_append_new(any, term(l->key, l->value));
		}
	}
	if (json_array_size(none))
		json_array_append_new(any, json_pack("{s:O}", "matchExpressions", none));
	json_decref(none);
	if (json_array_size(any))
		require_any(b, any);
	else
		json_decref(any);
}

static void note(struct pod_build *b, const char *key, const char *value)
{
	if (!json_object_get(b->annotations, key))
		kube_set_str(b->annotations, key, value);
}

static void place_gke(struct pod_build *b, bool spot, const char *product)
{
	if (!spot) /* Autopilot refuses it on spot nodes */
		note(b, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false");
	if (product)
		select_node(b, "cloud.google.com/gke-accelerator", product);
}

static void place_eks(struct pod_build *b, const char *product)
{
	note(b, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false");
	note(b, "karpenter.sh/do-not-disrupt", "true");
	if (b->p->store_account) /* its webhook gives the account's identity to every container that
				    isn't listed here */
		note(b, "eks.amazonaws.com/skip-containers", b->kind->main);
	if (product)
		select_node(b, "nvidia.com/gpu.product", product);
}

static void place_aks(struct pod_build *b, const char *product)
{
	note(b, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false");
	if (product)
		select_node(b, "nvidia.com/gpu.product", product);
}

int kube_place_cloud(struct pod_build *b, struct err *err)
{
	const json_t *said = json_object_get(b->placement, "spot");
	uint64_t limit = kube_placement_uint(said, "preempted");
	bool disrupted = json_is_object(said) && b->a->on.disrupted >= limit,
	     spot = (json_is_true(said) || json_is_object(said)) && !disrupted;
	const char *cloud = b->p->cloud, *gpu_type = kube_placement_str(b->placement, "gpu_type");
	const char *product = gpu_type && !kube_gpu_type_is_resource(gpu_type) ? gpu_type : NULL;

	if (gpu_type && b->a->resources.gpus == 0)
		return err_set(err, ERR_INVALID,
			       "`resources.gpu_type` is `%s`, but no `gpu` is asked for", gpu_type);
	if (b->a->resources.gpus) { /* GPU nodes have a taint with the resource's name */
		tolerate(b,
			 kube_gpu_type_is_resource(gpu_type) &&
					 !str_has_prefix(gpu_type, "nvidia.com/")
				 ? gpu_type
				 : "nvidia.com/gpu",
			 NULL);
		if (str_eq(cloud, "aks"))
			tolerate(b, "sku", "gpu");
	}
	if (spot || disrupted)
		place_spot(b, cloud, spot);
	if (!cloud) {
		if (product)
			select_node(b, "nvidia.com/gpu.product", product);
	} else if (strcmp(cloud, "gke") == 0) {
		place_gke(b, spot, product);
	} else if (strcmp(cloud, "eks") == 0) {
		place_eks(b, product);
	} else if (strcmp(cloud, "aks") == 0) {
		place_aks(b, product);
	} else {
		return err_set(err, ERR_INVALID,
			       "`kubernetes.cloud`: `%.40s` isn't gke, eks or aks", cloud);
	}
	return 0;
}
