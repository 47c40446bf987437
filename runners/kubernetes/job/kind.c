/* runners/kubernetes/job/kind.c — the table of kinds (kind.h), and how an operator's object is made
 * from a row.
 *
 * The specification of a row is JSON with placeholders, which fill() replaces. Sources of the rows:
 * kubeflow/training-operator v1.9 (pkg/apis/kubeflow.org/v1, pkg/webhooks), kubeflow/mpi-operator
 * v0.7 (pkg/controller), kubernetes-sigs/jobset v0.10 (api/jobset/v1alpha2). The golden objects are
 * held against the operators' own schemas by tests/cluster/checks/operators.t.
 *
 * An operator never restarts a pod (`restartPolicy: Never`), because the engine makes another
 * attempt. When one pod has failed, it deletes the others (`cleanPodPolicy: Running`): that frees
 * the nodes also while no engine runs.
 *
 * Pure functions, any thread.
 */
#include "runners/kubernetes/job/internal.h"

#define REPLICA_INDEX "training.kubeflow.org/replica-index"
#define ENDS          "\"cleanPodPolicy\":\"Running\",\"ttlSecondsAfterFinished\":\"$ttl\""
#define POLICY        "\"runPolicy\":{" ENDS "}"
#define REPLICAS(n, template) \
	"{\"replicas\":\"" n "\",\"restartPolicy\":\"Never\",\"template\":\"" template "\"}"

const struct kube_kind kube_kinds[KUBE_KINDS] = {
	{ "job", "Job", "batch", "v1", "jobs", KUBE_MAIN, KUBE_INDEX, "Complete", "Failed", NULL },
	{ "pytorchjob", "PyTorchJob", "kubeflow.org", "v1", "pytorchjobs", "pytorch", REPLICA_INDEX,
	  "Succeeded", "Failed",
	  "{" POLICY ",\"pytorchReplicaSpecs\":{\"Worker\":" REPLICAS("$nodes", "$pod") "}}" },
	{ "tfjob", "TFJob", "kubeflow.org", "v1", "tfjobs", "tensorflow", REPLICA_INDEX,
	  "Succeeded", "Failed",
	  "{" POLICY ",\"tfReplicaSpecs\":{\"Worker\":" REPLICAS("$nodes", "$pod") "}}" },
	{ "xgboostjob", "XGBoostJob", "kubeflow.org", "v1", "xgboostjobs", "xgboost", REPLICA_INDEX,
	  "Succeeded", "Failed",
	  "{" POLICY ",\"xgbReplicaSpecs\":{\"Master\":" REPLICAS(
		  "$one", "$pod") ",\"Worker\":" REPLICAS("$others", "$rest") "}}" },
	{ "jaxjob", "JAXJob", "kubeflow.org", "v1", "jaxjobs", "jax", REPLICA_INDEX, "Succeeded",
	  "Failed",
	  "{" POLICY ",\"jaxReplicaSpecs\":{\"Worker\":" REPLICAS("$nodes", "$pod") "}}" },
	/* The launcher is node 0, and the operator then counts workers from 1. `MPICH` only selects
	 * variables that the operator sets: those for Open MPI would mislead our own mpirun. */
	{ "mpijob", "MPIJob", "kubeflow.org", "v2beta1", "mpijobs", "mpi", REPLICA_INDEX,
	  "Succeeded", "Failed",
	  "{\"runPolicy\":{" ENDS
	  ",\"backoffLimit\":0},\"runLauncherAsWorker\":true,\"mpiImplementation\":\"MPICH\","
	  "\"sshAuthMountPath\":\"/tmp/.ssh\",\"mpiReplicaSpecs\":{\"Launcher\":" REPLICAS(
		  "$one", "$pod") ",\"Worker\":" REPLICAS("$others", "$pod") "}}" },
	{ "jobset", "JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets", KUBE_MAIN, KUBE_INDEX,
	  "Completed", "Failed",
	  "{\"ttlSecondsAfterFinished\":\"$ttl\",\"failurePolicy\":{\"maxRestarts\":0},"
	  "\"replicatedJobs\":[{\"name\":\"w\",\"replicas\":1,\"template\":{\"spec\":\"$job\"}}]"
	  "}" },
};

const struct kube_kind *kube_kind_of(const char *as)
{
	for (size_t i = 0; i < KUBE_KINDS; i++)
		if (str_eq(kube_kinds[i].as, as))
			return &kube_kinds[i];
	return NULL;
}

/* Templates. */

static void add_env(json_t *container, json_t *variable)
{
	json_array_append_new(json_object_get(container, "env"), variable);
}

/* `first`: the number of the group's first node. */
static json_t *template_for(const struct pod_build *b, const json_t *template, unsigned first)
{
	json_t *t = json_deep_copy(template), *spec = json_object_get(t, "spec"), *c,
	       *meta = json_object_get(t, "metadata");
	_cleanup_(freep) char *path = xasprintf("metadata.labels['%s']", b->kind->index);
	size_t i;

	json_array_foreach(json_object_get(spec, "containers"), i,
			   c) if (str_eq(json_string_value(json_object_get(c, "name")), KUBE_MAIN))
		json_object_set_new(c, "name", json_string(b->kind->main));
	json_object_set_new(json_object_get(meta, "annotations"), KUBE_NOTE_AS,
			    json_string(b->kind->as));
	json_object_set_new(json_object_get(meta, "labels"), KUBE_LABEL_FIRST,
			    json_sprintf("%u", first));
	c = json_array_get(json_object_get(spec, "initContainers"), 0); /* the sidecar */
	if (!str_eq(b->kind->index, KUBE_INDEX)) /* Kubernetes sets it for its own */
		add_env(c, json_pack("{s:s, s:{s:{s:s}}}", "name", "JOB_COMPLETION_INDEX",
				     "valueFrom", "fieldRef", "fieldPath", path));
	if (first)
		add_env(c, json_pack("{s:s, s:o}", "name", "CAIRN_POD_FIRST", "value",
				     json_sprintf("%u", first)));
	return t;
}

/* The object. */

struct filling {
	const struct pod_build *b;
	const json_t *template;
};

static json_t *value_of(const struct filling *f, const char *name)
{
	const struct pod_build *b = f->b;
	unsigned nodes = b->a->on.gang.nodes;

	if (str_eq(name, "$pod"))
		return template_for(b, f->template, 0);
	if (str_eq(name, "$rest"))
		return template_for(b, f->template, 1);
	if (str_eq(name, "$job")) {
		json_t *template = template_for(b, f->template, 0),
		       *spec = kube_job_spec(b, template);

		json_decref(template);
		return spec;
	}
	if (str_eq(name, "$ttl"))
		return json_integer(kube_ttl_s(b));
	return json_integer(str_eq(name, "$nodes")    ? nodes
			    : str_eq(name, "$others") ? nodes - 1
						      : 1);
}

static json_t *fill(const struct filling *f, const json_t *from)
{
	const char *key;
	json_t *v, *to;
	size_t i;

	if (json_is_string(from) && *json_string_value(from) == '$')
		return value_of(f, json_string_value(from));
	if (json_is_array(from)) {
		to = json_array();
		json_array_foreach((json_t *)from, i, v) json_array_append_new(to, fill(f, v));
		return to;
	}
	if (!json_is_object(from))
		return json_incref((json_t *)from);
	to = json_object();
	json_object_foreach((json_t *)from, key, v) json_object_set_new(to, key, fill(f, v));
	return to;
}

json_t *kube_kind_spec(const struct pod_build *b, json_t *template)
{
	_cleanup_(json_decrefp) json_t *row = NULL;
	const struct filling f = { b, template };

	if (!b->kind->spec)
		return kube_job_spec(b, template);
	row = json_loads(b->kind->spec, 0, NULL);
	assert(row); /* a row of ours */
	return fill(&f, row);
}
