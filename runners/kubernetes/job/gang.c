/* runners/kubernetes/job/gang.c — what else a step over several nodes needs: Services by which its
 * pods find each other, and a NetworkPolicy that keeps others away. All are owned by its object.
 * And in which order the pods of an elastic one get their places.
 *
 * Kubernetes gives the pods of an Indexed Job host names, so one headless Service is enough. Pods
 * of an operator's object get names from that operator, or none. For them there is a Service for
 * each pod, which selects it by the label that counts the pods. The operators' own Services won't
 * do: they don't know a pod until its program runs, and our programs wait for the addresses.
 */
#include "runners/kubernetes/job/internal.h"

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"

/* Kubernetes deletes it with its owner. */
static json_t *owned_metadata(const struct pod_build *b, const char *name, const char *owner_uid)
{
	json_t *m = kube_metadata(b);

	json_object_set_new(m, "name", json_string(name));
	if (owner_uid)
		json_object_set_new(
			m, "ownerReferences",
			json_pack("[{s:o, s:s, s:s, s:s}]", "apiVersion",
				  json_sprintf("%s/%s", b->kind->group, b->kind->version), "kind",
				  b->kind->kind, "name", b->name, "uid", owner_uid));
	return m;
}

static json_t *gang_selector(const struct pod_build *b)
{
	char id[24];

	snprintf(id, sizeof(id), "%llu", (unsigned long long)b->a->id);
	return json_pack("{s:s, s:s}", KUBE_LABEL_PROJECT,
			 json_string_value(json_object_get(b->labels, KUBE_LABEL_PROJECT)),
			 KUBE_LABEL_ATTEMPT, id);
}

/* Ranks look each other up before they are ready; without publishNotReadyAddresses, addresses come
 * too late. */
static json_t *service(const struct pod_build *b, const char *name, json_t *selector,
		       const char *owner_uid)
{
	return json_pack("{s:s, s:s, s:o, s:{s:s, s:b, s:o}}", "apiVersion", "v1", "kind",
			 "Service", "metadata", owned_metadata(b, name, owner_uid), "spec",
			 "clusterIP", "None", "publishNotReadyAddresses", 1, "selector", selector);
}

/* The group of node 0 may be one of its own (`$rest`, kind.h). */
static void add_services_of_nodes(const struct pod_build *b, const char *owner_uid, json_t *list)
{
	bool apart = b->kind->spec && strstr(b->kind->spec, "$rest");

	for (unsigned i = 0; i < b->a->on.gang.nodes; i++) {
		unsigned first = apart && i > 0;
		_cleanup_(freep) char *name = xasprintf("%s-%u", b->service, i);
		json_t *selector = gang_selector(b);

		json_object_set_new(selector, KUBE_LABEL_FIRST, json_sprintf("%u", first));
		json_object_set_new(selector, b->kind->index, json_sprintf("%u", i - first));
		json_array_append_new(list, service(b, name, selector, owner_uid));
	}
}

/* What makes Kubernetes delete the object that had to exist before with the one that it is for. */
static json_t *owned_base(const struct pod_build *b, const char *owner_uid)
{
	return json_pack("{s:o, s:s, s:o}", "apiVersion",
			 json_sprintf("%s/%s", b->kind->group, b->kind->version), "kind",
			 b->kind->base, "metadata", owned_metadata(b, b->name, owner_uid));
}

int kube_gang_objects(const struct kube_job *j, const char *owner_uid, json_t **ret,
		      struct err *err)
{
	_cleanup_(kube_build_deinit) struct pod_build b = { 0 };
	_cleanup_(json_decrefp) json_t *list = json_array();

	if (j->attempts[0]->on.gang.nodes > 1) {
		if (kube_build_init(&b, j, err) < 0)
			return err_wrap(err, "%s",
					j->attempts[0]->on.step ? j->attempts[0]->on.step
								: j->attempts[0]->task);
		json_array_append_new(list, service(&b, b.service, gang_selector(&b), owner_uid));
		if (!kube_kind_is_job(b.kind))
			add_services_of_nodes(&b, owner_uid, list);
		if (b.kind->base && owner_uid)
			json_array_append_new(list, owned_base(&b, owner_uid));
		/* Any port, because collectives choose theirs at random. */
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:o, s:{s:{s:o}, s:[s], s:[{s:[{s:{s:o}}]}]}}",
				  "apiVersion", "networking.k8s.io/v1", "kind", "NetworkPolicy",
				  "metadata", owned_metadata(&b, b.name, owner_uid), "spec",
				  "podSelector", "matchLabels", gang_selector(&b), "policyTypes",
				  "Ingress", "ingress", "from", "podSelector", "matchLabels",
				  gang_selector(&b)));
	}
	*ret = TAKE_PTR(list);
	return 0;
}

/* Node 0 keeps the rendezvous, so places that others hold are of no use while it has none. The
 * scheduler itself sees to the order, also while no engine runs: all have a required affinity to
 * the pod of node 0, within a domain that contains every node. Node 0 itself may go anywhere,
 * because Kubernetes lets a pod pass that is the first one its own terms match
 * (pkg/scheduler/framework/plugins/interpodaffinity, satisfyPodAffinity()). A pod must match all
 * terms at once, so this can't be added to terms of the step's own: they stay alone. */
void kube_place_first_node_first(struct pod_build *b)
{
	json_t *pods, *selector;

	if (!kube_is_elastic(b->a))
		return;
	if (!b->affinity)
		b->affinity = json_object();
	pods = kube_object_in(b->affinity, "podAffinity");
	if (json_array_size(json_object_get(pods, REQUIRED)))
		return;
	selector = gang_selector(b);
	json_object_set_new(selector, KUBE_INDEX, json_string("0"));
	json_object_set_new(pods, REQUIRED,
			    json_pack("[{s:{s:o}, s:s}]", "labelSelector", "matchLabels", selector,
				      "topologyKey", "kubernetes.io/os"));
}
