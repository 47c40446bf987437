/* runners/kubernetes/job/kind.c — the table of kinds (kind.h), and how an operator's object is made
 * from a row.
 *
 * The specification of a row is JSON with placeholders, which fill() replaces. Sources of the rows:
 * kubeflow/training-operator v1.9 (pkg/apis/kubeflow.org/v1, pkg/webhooks), kubeflow/mpi-operator
 * v0.7 (pkg/controller), kubernetes-sigs/jobset v0.10 (api/jobset/v1alpha2), kubeflow/trainer v2.3
 * (pkg/runtime, pkg/webhooks), ray-project/kuberay v1.6 (ray-operator/controllers/ray),
 * kubeflow/spark-operator v2.5 (internal/controller/sparkapplication). The golden objects are held
 * against the operators' own schemas by tests/cluster/checks/objects.t.
 *
 * An operator never restarts a pod (`restartPolicy: Never`), because the engine makes another
 * attempt. When one pod has failed, it deletes the others (`cleanPodPolicy: Running`): that frees
 * the nodes also while no engine runs.
 *
 * Pure functions, any thread.
 */
#include "base/macros.h"
#include "runners/kubernetes/job/internal.h"

#define REPLICA_INDEX "training.kubeflow.org/replica-index"
#define ENDS          "\"cleanPodPolicy\":\"Running\",\"ttlSecondsAfterFinished\":\"$ttl\""
#define POLICY        "\"runPolicy\":{" ENDS "}"
#define REPLICAS(n, template) \
	"{\"replicas\":\"" n "\",\"restartPolicy\":\"Never\",\"template\":\"" template "\"}"
#define JOBSET                                                                         \
	"{\"ttlSecondsAfterFinished\":\"$ttl\",\"failurePolicy\":{\"maxRestarts\":0}," \
	"\"replicatedJobs\":[{\"name\":\"w\",\"replicas\":1,\"template\":{\"spec\":\"$job\"}}]}"
#define SPARK(template)                                                                            \
	"\"cores\":\"$cores\",\"coreRequest\":\"$cpu\",\"memory\":\"$memory\",\"memoryOverhead\":" \
	"\"$overhead\",\"template\":\"" template "\""

const struct kube_kind kube_kinds[KUBE_KINDS] = {
	{ "job", "Job", "batch", "v1", "jobs", KUBE_MAIN, KUBE_INDEX, "Complete", "Failed" },
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
	  "Completed", "Failed", JOBSET },
	/* A TrainJob has no pod template of its own: it names a runtime, from which Trainer makes a
	 * JobSet. Without a policy for a framework in it, Trainer changes nothing in the pods. */
	{ "trainjob", "TrainJob", "trainer.kubeflow.org", "v1alpha1", "trainjobs", KUBE_MAIN,
	  KUBE_INDEX, "Complete", "Failed",
	  "{\"runtimeRef\":{\"apiGroup\":\"trainer.kubeflow.org\",\"kind\":\"TrainingRuntime\","
	  "\"name\":\"$name\"}}",
	  .base = "TrainingRuntime", .base_resource = "trainingruntimes",
	  .base_spec = "{\"template\":{\"spec\":" JOBSET "}}" },
	/* The program starts Ray's head itself, and may submit itself as the Ray job whose id the
	 * object knows; then Ray's dashboard and the object's status show it. KubeRay deletes a
	 * head that has ended; one annotation keeps it from making another, and one from changing
	 * the head's command. The latter is the pod's: on the object it would hold for workers,
	 * whose command KubeRay must make. Workers make the head's temporary directory, too, so it
	 * must be one that they have. Workers are freed some minutes after the Ray job, also while
	 * no engine runs. */
	{ "rayjob", "RayJob", "ray.io", "v1", "rayjobs", "ray-head", NULL, "Complete", "Failed",
	  "{\"submissionMode\":\"InteractiveMode\",\"jobId\":\"$name\","
	  "\"shutdownAfterJobFinishes\":true,\"ttlSecondsAfterFinished\":600,\"rayClusterSpec\":{"
	  "\"headGroupSpec\":{\"rayStartParams\":{\"dashboard-host\":\"0.0.0.0\"},\"template\":"
	  "\"$pod\"},\"workerGroupSpecs\":[{\"groupName\":\"workers\",\"replicas\":\"$workers\","
	  "\"minReplicas\":\"$workers\",\"maxReplicas\":\"$workers\",\"rayStartParams\":{},"
	  "\"template\":\"$worker\"}]}}",
	  .worker = "ray-worker", .notes = "{\"ray.io/disable-provisioned-head-restart\":\"true\"}",
	  .pod_notes = "{\"ray.io/overwrite-container-cmd\":\"true\"}",
	  .env = "{\"name\":\"RAY_TMPDIR\",\"value\":\"/tmp\"}", .state = "jobDeploymentStatus" },
	/* The operator's spark-submit makes the driver's pod from the template and adds arguments
	 * for an image's own entry point; cairn-init takes no notice of them, and the program
	 * starts the driver with the properties that Spark has mounted. The version only says that
	 * templates are known (Spark 3). */
	{ "sparkapplication", "SparkApplication", "sparkoperator.k8s.io", "v1beta2",
	  "sparkapplications", "spark-kubernetes-driver", NULL, "COMPLETED", "FAILED",
	  "{\"type\":\"Python\",\"mode\":\"cluster\",\"sparkVersion\":\"3.5.0\",\"image\":"
	  "\"$image\",\"mainApplicationFile\":\"local:///dev/null\",\"restartPolicy\":{\"type\":"
	  "\"Never\"},\"timeToLiveSeconds\":\"$ttl\",\"driver\":{\"serviceAccount\":\"$"
	  "account\"," SPARK("$pod") "},\"executor\":{\"instances\":\"$workers\"," SPARK(
		  "$worker") "}}",
	  .worker = "spark-kubernetes-executor",
	  .needs_account = "the driver makes the pods of its executors",
	  .state = "applicationState.state" },
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

static json_t *named(const json_t *list, const char *name)
{
	json_t *item;
	size_t i;

	json_array_foreach(list, i,
			   item) if (str_eq(json_string_value(json_object_get(item, "name")),
					    name)) return item;
	return NULL;
}

/* `first`: the number of the group's first node. */
static json_t *template_for(const struct pod_build *b, const json_t *template, unsigned first)
{
	json_t *t = json_deep_copy(template), *spec = json_object_get(t, "spec"), *c,
	       *meta = json_object_get(t, "metadata");

	c = named(json_object_get(spec, "containers"), KUBE_MAIN);
	json_object_set_new(c, "name", json_string(b->kind->main));
	if (b->kind->worker) { /* what an operator adds to the command isn't for us */
		json_array_append_new(json_object_get(c, "command"), json_string("--"));
		add_env(c, json_pack("{s:s, s:s}", "name", "CAIRN_OBJECT", "value", b->name));
	}
	if (b->kind->env)
		add_env(c, json_loads(b->kind->env, 0, NULL));
	if (b->kind->pod_notes) {
		_cleanup_(json_decrefp) json_t *notes = json_loads(b->kind->pod_notes, 0, NULL);

		json_object_update(json_object_get(meta, "annotations"), notes);
	}
	json_object_set_new(json_object_get(meta, "annotations"), KUBE_NOTE_AS,
			    json_string(b->kind->as));
	json_object_set_new(json_object_get(meta, "labels"), KUBE_LABEL_FIRST,
			    json_sprintf("%u", first));
	c = json_array_get(json_object_get(spec, "initContainers"), 0); /* the sidecar */
	if (b->kind->index && !str_eq(b->kind->index, KUBE_INDEX)) /* Kubernetes sets its own */
		add_env(c, json_pack("{s:s, s:{s:{s:o}}}", "name", "JOB_COMPLETION_INDEX",
				     "valueFrom", "fieldRef", "fieldPath",
				     json_sprintf("metadata.labels['%s']", b->kind->index)));
	if (first)
		add_env(c, json_pack("{s:s, s:o}", "name", "CAIRN_POD_FIRST", "value",
				     json_sprintf("%u", first)));
	return t;
}

/* Of a worker: keeps what its container mounts, without what only the program has. */
static void keep_volumes(json_t *container, json_t *spec)
{
	json_t *mounts = json_object_get(container, "volumeMounts"),
	       *volumes = json_object_get(spec, "volumes");

	for (size_t i = json_array_size(mounts); i-- > 0;) {
		const char *name =
			json_string_value(json_object_get(json_array_get(mounts, i), "name"));

		if (str_eq(name, KUBE_VOLUME_SHARED) || str_eq(name, KUBE_VOLUME_TOKEN) ||
		    str_eq(name, KUBE_VOLUME_CACHE))
			json_array_remove(mounts, i);
	}
	for (size_t i = json_array_size(volumes); i-- > 0;)
		if (!named(mounts,
			   json_string_value(json_object_get(json_array_get(volumes, i), "name"))))
			json_array_remove(volumes, i);
}

/* A worker has the program's image, environment and place, and nothing of Cairn's: no files, no
 * sidecar, and none of the store's credentials. Without the label of the attempt, nobody takes it
 * for a pod of it. Its operator restarts it. */
static json_t *template_of_worker(const struct pod_build *b, const json_t *template)
{
	json_t *t = json_deep_copy(template), *spec = json_object_get(t, "spec"), *c,
	       *labels = json_object_get(json_object_get(t, "metadata"), "labels");

	json_object_del(labels, KUBE_LABEL_ATTEMPT);
	json_object_set_new(json_object_get(t, "metadata"), "annotations",
			    json_incref(json_object_get(b->placement, "annotations")));
	if (!json_object_get(b->placement, "annotations"))
		json_object_del(json_object_get(t, "metadata"), "annotations");
	c = json_incref(named(json_object_get(spec, "containers"), KUBE_MAIN));
	json_object_set_new(c, "name", json_string(b->kind->worker));
	json_object_del(c, "command");
	json_object_del(c, "workingDir");
	keep_volumes(c, spec);
	json_object_set_new(spec, "containers", json_pack("[o]", c));
	json_object_del(spec, "initContainers");
	json_object_del(spec, "restartPolicy");
	json_object_del(spec, "serviceAccountName"); /* the store's, perhaps */
	kube_set_str(spec, "serviceAccountName",
		     kube_placement_str(b->placement, "service_account"));
	return t;
}

/* The object. */

struct filling {
	const struct pod_build *b;
	const json_t *template;
};

/* Spark divides a container's memory into the heap and the rest, which is most of a Python
 * program. */
static json_t *spark_memory(uint64_t bytes, bool rest)
{
	uint64_t heap = bytes / MIB / 2;

	return bytes < 2 * MIB
		       ? NULL
		       : json_sprintf("%llum",
				      (unsigned long long)(rest ? bytes / MIB - heap : heap));
}

/* A new reference; NULL: the step doesn't say it. */
static json_t *value_of(const struct filling *f, const char *name)
{
	const struct pod_build *b = f->b;
	const struct runner_resources *want = &b->a->resources;
	const char *image = b->a->on.image ? b->a->on.image : b->p->cairn_image,
		   *account = json_string_value(json_object_get(
			   json_object_get(f->template, "spec"), "serviceAccountName"));
	unsigned nodes = b->a->on.gang.nodes;

	if (str_eq(name, "$pod"))
		return template_for(b, f->template, 0);
	if (str_eq(name, "$rest"))
		return template_for(b, f->template, 1);
	if (str_eq(name, "$worker"))
		return template_of_worker(b, f->template);
	if (str_eq(name, "$job")) {
		json_t *template = template_for(b, f->template, 0),
		       *spec = kube_job_spec(b, template);

		json_decref(template);
		return spec;
	}
	if (str_eq(name, "$name"))
		return json_string(b->name);
	if (str_eq(name, "$image"))
		return json_string(image);
	if (str_eq(name, "$account"))
		return account ? json_string(account) : NULL;
	if (str_eq(name, "$cores"))
		return want->cpu_milli ? json_integer((want->cpu_milli + 999) / 1000) : NULL;
	if (str_eq(name, "$cpu"))
		return want->cpu_milli ? json_sprintf("%um", want->cpu_milli) : NULL;
	if (str_eq(name, "$memory") || str_eq(name, "$overhead"))
		return spark_memory(want->memory_bytes, str_eq(name, "$overhead"));
	if (str_eq(name, "$ttl"))
		return json_integer(kube_ttl_s(b));
	if (str_eq(name, "$workers"))
		return json_integer(
			(json_int_t)MAX(kube_placement_uint(b->placement, "workers"), (uint64_t)1));
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
	json_object_foreach((json_t *)from, key, v)
	{
		json_t *filled = fill(f, v);

		if (filled)
			json_object_set_new(to, key, filled);
	}
	return to;
}

static json_t *fill_row(const struct pod_build *b, const json_t *template, const char *spec)
{
	_cleanup_(json_decrefp) json_t *row = json_loads(spec, 0, NULL);
	const struct filling f = { b, template };

	assert(row); /* a row of ours */
	return fill(&f, row);
}

json_t *kube_kind_spec(const struct pod_build *b, json_t *template)
{
	return b->kind->spec ? fill_row(b, template, b->kind->spec) : kube_job_spec(b, template);
}

json_t *kube_kind_base_spec(const struct pod_build *b, const json_t *template)
{
	assert(b->kind->base);
	return fill_row(b, template, b->kind->base_spec);
}
