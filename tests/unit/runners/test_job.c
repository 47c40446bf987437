/* The objects of an attempt: golden files (job/NAME.yaml; CAIRN_GOLDEN=write writes them),
 * contradictions, and what must hold for any attempt. tests/cluster/checks/objects.t has a real API
 * server check the golden files. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/text/yaml_json.h"
#include "runners/kubernetes/job/job.h"
#include "runners/kubernetes/job/pod_spec.h"

static const struct content_id spec = { .digest = { { 0xab, 0xcd } },
					.kind = CONTENT_BLOB,
					.size_bytes = 321 };
static const struct digest key = { { 7 } };
static const char *const env[] = { "CAIRN_STORE=s3://bucket/prefix",
				   "CAIRN_STORE_ENDPOINT=http://s3.test:7070/$(HOME)", NULL };

static struct kube_profile lab(void)
{
	return (struct kube_profile){ .project = "0123456789abcdef",
				      .namespace_ = "ml",
				      .cairn_image = "registry.test/cairn:1",
				      .store_uri = "s3://bucket/prefix",
				      .store_env = env,
				      .store_secret = "store" };
}

static struct runner_attempt plain(void)
{
	return (struct runner_attempt){
		.id = 7,
		.run_id = "digits-7kq2m",
		.task = "train[fold=0]",
		.on.step = "train",
		.number = 1,
		.key = &key,
		.on.image = "registry.test/"
			    "train@sha256:"
			    "0123456789012345678901234567890123456789012345678901234567890123",
		.grace_ns = 30 * NS_PER_S,
		.resources = { .cpu_milli = 1500, .memory_bytes = GIB }
	};
}

/* Golden files. */

static const struct runner_input two_inputs[] = {
	{ .name = "data", .path = "inputs/data" }, { .name = "labels", .path = "inputs/labels.csv" }
};
static const char *const two_secrets[] = { "TOKEN=hidden", "KEY=hidden as well", NULL };

struct golden {
	const char *name;
	const char *placement, *defaults; /* of the step, of cairn.yaml */
	const char *cloud;
	uint32_t gpus;
	unsigned nodes;
	size_t packed;
	unsigned min_nodes;
	size_t many, per_pod; /* of an array */
	void (*more)(struct kube_profile *p, struct runner_attempt *a);
};

static void with_inputs(struct kube_profile *p, struct runner_attempt *a)
{
	a->inputs = two_inputs;
	a->n_inputs = 2;
	a->checkpoint_path = "ckpt";
}

static void with_timeout(struct kube_profile *p, struct runner_attempt *a)
{
	a->timeout_ns = 3600 * NS_PER_S;
	p->save_ns = 60 * NS_PER_S;
	p->wait_ns = 600 * NS_PER_S;
}

static void with_volumes(struct kube_profile *p, struct runner_attempt *a)
{
#define IMAGE            \
	"registry.test/" \
	"data@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	static const struct runner_input v[] = {
		{ "all", "inputs/all", { .kind = CONTENT_REFERENCE }, "claim://sets" },
		{ "part",
		  "inputs/part.tar",
		  { .kind = CONTENT_REFERENCE },
		  "claim://sets/a/b.tar" },
		{ "other", "inputs/other", { .kind = CONTENT_REFERENCE }, "claim://more/x" },
		{ "image", "inputs/image", { .kind = CONTENT_REFERENCE }, "image://" IMAGE },
		{ "below", "inputs/below", { .kind = CONTENT_REFERENCE }, "image://" IMAGE "/sub" },
	};

	a->inputs = v;
	a->n_inputs = ARRAY_LEN(v);
}

static void disrupted(struct kube_profile *p, struct runner_attempt *a)
{
	a->on.disrupted = 2;
}

static void with_secrets(struct kube_profile *p, struct runner_attempt *a)
{
	a->secrets = two_secrets;
	p->secrets = "mine";
}

static void built_in(struct kube_profile *p, struct runner_attempt *a)
{
	a->on.image = NULL;
	a->resources.memory_bytes = 0;
	a->resources.cpu_milli = 0;
	p->arch = "arm64";
	p->image_pull_policy = "Always";
	p->ttl_s = 60;
	p->upload_ns = 5 * NS_PER_S;
	p->sidecar = (struct runner_resources){ .cpu_milli = 10, .memory_bytes = 64 * MIB };
}

static void by_account(struct kube_profile *p, struct runner_attempt *a)
{
	p->store_secret = NULL;
	p->store_account = "cairn-store";
	p->store_ca = "store-ca";
}

static void with_cache(struct kube_profile *p, struct runner_attempt *a)
{
	p->cache_path = "/var/cache/cairn";
	p->cache_bytes = 50 * GIB;
}

/* Of three attempts the third has read nothing large before, and only four nodes are named. */
static void with_near(struct kube_profile *p, struct runner_attempt *a)
{
	static const struct runner_near near[] = { { "gke-pool-a-1", 100 },
						   { "gke-pool-a-2", 50 },
						   { "gke-pool-b-1", 1 } };
	static const struct runner_near other[] = { { "gke-pool-b-2", 100 },
						    { "gke-pool-a-2", 100 },
						    { "gke-pool-b-3", 0 } };

	a->on.near = a->id == 7 ? near : other;
	a->on.n_near = a->id > 8 ? 0 : 3;
}

/* Two of three, in a pod of its own each. */
static void with_mounts(struct kube_profile *p, struct runner_attempt *a)
{
	static const struct runner_input v[] = {
		{ "data", "inputs/data", { .kind = CONTENT_TREE }, .view = 1 },
		{ "labels", "inputs/labels.csv", { .kind = CONTENT_BLOB } },
		{ "shard", "inputs/shard.tar", { .kind = CONTENT_BLOB }, .view = 2 },
	};

	p->cache_path = "/var/cache/cairn";
	a->inputs = v;
	a->n_inputs = ARRAY_LEN(v);
}

/* The pods of an array of packs: their tasks read the same data, and each a shard of its own. */
static void with_pack_mounts(struct kube_profile *p, struct runner_attempt *a)
{
	static const struct runner_input first[] = {
		{ "data", "inputs/data", { .kind = CONTENT_TREE }, .view = 1 },
		{ "shard", "inputs/shard.tar", { .kind = CONTENT_BLOB }, .view = 2 },
	};
	static const struct runner_input second[] = {
		{ "data", "inputs/data", { .kind = CONTENT_TREE }, .view = 1 },
		{ "shard", "inputs/shard.tar", { .kind = CONTENT_BLOB }, .view = 3 },
	};

	p->cache_path = "/var/cache/cairn";
	a->inputs = a->id % 2 ? first : second;
	a->n_inputs = ARRAY_LEN(first);
}

static void with_claimed_cache(struct kube_profile *p, struct runner_attempt *a)
{
	p->cache_claim = "cache";
}

static void in_a_volume(struct kube_profile *p, struct runner_attempt *a)
{
	static const char *const dir_env[] = { "CAIRN_STORE=/shared/store", NULL };

	p->store_secret = NULL;
	p->store_uri = "/shared/store";
	p->store_env = dir_env;
	p->store_claim = "shared";
}

#define PLACES                                                                                     \
	"\"node_selector\":{\"disk\":\"ssd\"},\"tolerations\":[{\"key\":\"sku\",\"operator\":"     \
	"\"Equal\",\"value\":\"gpu\",\"effect\":\"NoSchedule\"}],"                                 \
	"\"affinity\":{\"podAntiAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[" \
	"{\"weight\":1,\"podAffinityTerm\":{\"topologyKey\":"                                      \
	"\"kubernetes.io/hostname\",\"labelSelector\":{\"matchLabels\":{\"cairn.internal/"         \
	"step\":\"train\"}}}}]}},"                                                                 \
	"\"topology_spread\":[{\"maxSkew\":1,\"topologyKey\":\"topology.kubernetes.io/"            \
	"zone\",\"whenUnsatisfiable\":\"ScheduleAnyway\"}],"                                       \
	"\"priority_class\":\"high\",\"runtime_class\":\"nvidia\",\"labels\":{\"team\":\"a\"},"    \
	"\"annotations\":{\"example.org/why\":\"any: text\"}"

static const struct golden goldens[] = {
	{ "plain" },
	{ "built-in", .more = built_in },
	{ "inputs", .more = with_inputs },
	{ "timeout", .more = with_timeout },
	{ "timeouts", .more = with_timeout, .many = 3, .per_pod = 1 },
	{ "input-volumes", .more = with_volumes },
	{ "secrets", "{\"env_from\":[\"wandb\"],\"image_pull_secrets\":[\"registry\"]}",
	  .more = with_secrets },
	{ "cache", .more = with_cache },
	{ "cache-claim", .more = with_claimed_cache },
	{ "cache-mounts", .more = with_mounts },
	{ "kinds/array-mounts", .more = with_mounts, .many = 2, .per_pod = 1 },
	{ "kinds/pack-mounts", .more = with_pack_mounts, .many = 3, .per_pod = 2 },
	{ "kinds/gang-mounts", .more = with_mounts, .nodes = 2 },
	{ "kinds/as-pytorchjob-mounts", "{\"as\":\"pytorchjob\"}", .more = with_mounts,
	  .nodes = 2 },
	{ "kinds/as-rayjob-mounts", "{\"as\":\"rayjob\"}", .more = with_mounts },
	{ "near",
	  "{\"affinity\":{\"nodeAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[{"
	  "\"weight\":7,\"preference\":{\"matchExpressions\":[{\"key\":\"disk\",\"operator\":"
	  "\"In\",\"values\":[\"ssd\"]}]}}]}}}",
	  .more = with_near, .many = 3, .per_pod = 1 },
	{ "hardware/gpu", .gpus = 2 },
	{ "hardware/gpu-product", "{\"gpu_type\":\"NVIDIA-A100\"}", .gpus = 1 },
	{ "hardware/gpu-gke", "{\"gpu_type\":\"nvidia-l4\"}", .cloud = "gke", .gpus = 1 },
	{ "hardware/gpu-eks", "{\"gpu_type\":\"NVIDIA-A10G\"}", .cloud = "eks", .gpus = 1 },
	{ "hardware/gpu-aks", "{\"gpu_type\":\"NVIDIA-A100\"}", .cloud = "aks", .gpus = 1 },
	{ "hardware/mig", "{\"gpu_type\":\"nvidia.com/mig-1g.10gb\",\"shm_bytes\":268435456}",
	  .gpus = 1 },
	{ "hardware/amd", "{\"gpu_type\":\"amd.com/gpu\"}", .gpus = 1 },
	{ "hardware/spot-gke", "{\"spot\":true}", .cloud = "gke" },
	{ "hardware/spot-eks",
	  "{\"spot\":true,\"affinity\":{\"nodeAffinity\":{"
	  "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{"
	  "\"matchExpressions\":[{\"key\":\"arch\",\"operator\":\"In\",\"values\":[\"arm\"]}]}]}}}"
	  "}",
	  .cloud = "eks" },
	{ "hardware/spot-aks", "{\"spot\":true}", .cloud = "aks" },
	{ "hardware/spot-anywhere", "{\"spot\":true}" },
	{ "hardware/spot-twice-gke", "{\"spot\":{\"preempted\":3}}", .cloud = "gke",
	  .more = disrupted },
	{ "hardware/spot-no-more-gke", "{\"spot\":{\"preempted\":2}}", .cloud = "gke",
	  .more = disrupted },
	{ "hardware/spot-no-more-eks", "{\"spot\":{\"preempted\":1}}", .cloud = "eks",
	  .more = disrupted },
	{ "hardware/spot-no-more-aks", "{\"spot\":{\"preempted\":2}}", .cloud = "aks",
	  .more = disrupted },
	{ "volumes",
	  "{\"volumes\":{\"scratch\":{\"claim\":\"scratch-pvc\",\"mount\":\"/"
	  "scratch\",\"read_only\":true,\"sub_path\":\"a\"},\"conf\":{\"config_map\":\"train-"
	  "conf\",\"mount\":\"/etc/train\"},\"keys\":{\"secret\":\"registry\",\"mount\":\"/"
	  "keys\"},\"fast\":{\"size_bytes\":1048576,\"memory\":true,\"mount\":\"/"
	  "fast\"},\"tmp\":{\"size_bytes\":2097152,\"mount\":\"/tmp\"}}}" },
	{ "resources",
	  "{\"disk_bytes\":21474836480,\"shm_bytes\":134217728,\"extended\":{\"rdma/ib\":1}}" },
	{ "places", "{" PLACES "}" },
	{ "account-token", "{\"service_account\":\"reader\",\"token\":true}" },
	{ "store-account", NULL, .cloud = "eks", .more = by_account },
	{ "store-claim", NULL, .more = in_a_volume },
	{ "kueue", "{\"queue\":\"team-a\"}",
	  "{\"queue\":\"everybody\",\"labels\":{\"team\":\"all\"}}" },
	{ "kinds/gang", .nodes = 4, .gpus = 2 },
	{ "kinds/elastic", .nodes = 8, .min_nodes = 2 },
	/* A step's own required affinity to pods stays alone. */
	{ "kinds/elastic-beside",
	  "{\"affinity\":{\"podAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
	  "\"topologyKey\":\"topology.kubernetes.io/zone\",\"labelSelector\":{\"matchLabels\":{"
	  "\"app\":\"data\"}}}]}}}",
	  .nodes = 3, .min_nodes = 1 },
	{ "kinds/as-pytorchjob", "{\"as\":\"pytorchjob\",\"queue\":\"team-a\"}", .nodes = 3,
	  .gpus = 1 },
	{ "kinds/as-tfjob", "{\"as\":\"tfjob\"}", .nodes = 3 },
	{ "kinds/as-xgboostjob", "{\"as\":\"xgboostjob\"}", .nodes = 3 },
	{ "kinds/as-jaxjob", NULL, "{\"as\":\"jaxjob\"}", .nodes = 3 },
	{ "kinds/as-mpijob", "{\"as\":\"mpijob\"}", .nodes = 3 },
	{ "kinds/as-jobset",
	  "{\"as\":\"jobset\",\"pod_template\":{\"spec\":{\"containers\":[{\"name\":"
	  "\"main\",\"env\":[{\"name\":\"EXTRA\",\"value\":\"1\"}]}]}}}",
	  .nodes = 3 },
	{ "kinds/as-trainjob", "{\"as\":\"trainjob\",\"queue\":\"team-a\"}", .nodes = 3 },
	{ "kinds/as-rayjob", "{\"as\":\"rayjob\",\"workers\":4,\"annotations\":{\"a\":\"b\"}}",
	  .gpus = 1, .more = with_secrets },
	{ "kinds/as-sparkapplication",
	  "{\"as\":\"sparkapplication\",\"service_account\":\"spark\",\"token\":true,"
	  "\"node_selector\":{\"disk\":\"ssd\"},\"volumes\":{\"scratch\":{\"claim\":\"s\","
	  "\"mount\":\"/scratch\"}}}" },
	{ "kinds/as-one-node", "{\"as\":\"pytorchjob\"}" },
	{ "kinds/packed", .packed = 3 },
	{ "kinds/array", .many = 3, .per_pod = 1, .more = with_inputs },
	{ "kinds/array-of-packs", .many = 5, .per_pod = 2, .more = with_inputs },
	{ "template",
	  "{\"pod_template\":{\"metadata\":{\"annotations\":{\"a\":\"b\"}},\"spec\":{"
	  "\"securityContext\":{\"runAsUser\":2000},\"containers\":[{\"name\":\"main\",\"env\":[{"
	  "\"name\":\"HOME\",\"value\":\"/"
	  "scratch\"},{\"name\":\"EXTRA\",\"value\":\"1\"}]}],\"tolerations\":null}}}",
	  "{\"pod_template\":{\"spec\":{\"priority\":null,\"dnsConfig\":{\"options\":[{\"name\":"
	  "\"ndots\",\"value\":\"2\"}]},\"initContainers\":[{\"name\":\"setup\",\"image\":"
	  "\"registry.test/"
	  "setup:1\",\"securityContext\":{\"allowPrivilegeEscalation\":false,\"capabilities\":{"
	  "\"drop\":[\"ALL\"]}}}]}}}" },
};

static json_t *parse(const char *text)
{
	json_t *j = NULL;

	if (text)
		assert_int_equal(json_parse("test", text, strlen(text), &j, NULL), 0);
	return j;
}

static void add_document(struct str *out, json_t *o)
{
	if (out->len)
		str_add(out, "---\n");
	yaml_add_json(out, o);
	json_decref(o);
}

/* The objects as one file. */
static void make(const struct golden *g, struct str *out)
{
	struct kube_profile p = lab();
	struct runner_attempt a[5];
	const struct runner_attempt *attempts[5];
	size_t n = g->packed ? g->packed : g->many ? g->many : 1, n_more = g->nodes ? 2 : 0;
	struct kube_job job = {
		.profile = &p, .attempts = attempts, .n = n, .per_pod = g->per_pod, .spec = &spec
	};
	json_t *defaults = parse(g->defaults), *base = NULL, *o = NULL, *more = NULL;
	const struct kube_kind *kind;
	struct err err = { 0 };

	p.cloud = g->cloud;
	p.placement = defaults;
	for (size_t i = 0; i < n; i++) {
		a[i] = plain();
		a[i].id += i;
		a[i].resources.gpus = g->gpus;
		a[i].on.placement_json = g->placement;
		a[i].on.pack = (uint32_t)g->packed;
		if (g->nodes)
			a[i].on.gang =
				(struct runner_gang){ "torch", g->nodes, 2, 0, g->min_nodes };
		if (g->packed)
			with_inputs(&p, &a[i]);
		if (g->more)
			g->more(&p, &a[i]);
		attempts[i] = &a[i];
	}
	if (kube_base_object(&job, &base, &err) < 0 || kube_job_object(&job, &o, &err) < 0 ||
	    kube_gang_objects(&job, g->nodes ? "0b5e7b7e-0000-4000-8000-000000000000" : NULL, &more,
			      &err) < 0)
		fail_msg("%s: %s", g->name, err.msg);
	kind = kube_job_kind(&p, attempts[0]);
	if (!kube_kind_is_job(kind))
		n_more += g->nodes + (kind->base != NULL); /* a Service for each */
	assert_int_equal(json_array_size(more), n_more);
	if (base)
		add_document(out, base);
	add_document(out, o);
	for (size_t i = 0; i < n_more; i++)
		add_document(out, json_incref(json_array_get(more, i)));
	json_decref(more);
	json_decref(defaults);
}

static void test_golden(void **state)
{
	const char *mode = getenv("CAIRN_GOLDEN");
	bool write = mode && strcmp(mode, "write") == 0;

	for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
		struct str got = { 0 }, want = { 0 };
		char *path = xasprintf("tests/unit/runners/job/%s.yaml", goldens[i].name);

		make(&goldens[i], &got);
		if (write)
			assert_int_equal(fs_write_atomic(path, got.s, got.len, NULL), 0);
		assert_int_equal(fs_read_file(path, MIB, &want, NULL), 0);
		if (strcmp(got.s, want.s) != 0)
			fail_msg("%s isn't what is made now (CAIRN_GOLDEN=write writes it "
				 "anew):\n%s",
				 path, got.s);
		str_deinit(&got);
		str_deinit(&want);
		free(path);
	}
}

/* A secret's value is never in an object. */
static void test_no_secret_values(void **state)
{
	struct str got = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(goldens); i++)
		make(&goldens[i], &got);
	assert_non_null(strstr(got.s, "TOKEN"));
	assert_null(strstr(got.s, "hidden"));
	str_deinit(&got);
}

/* Contradictions. */

static const struct bad {
	const char *placement, *want;
	uint32_t gpus;
	const char *store_account, *cloud;
	unsigned nodes, min_nodes;
	size_t packed;
	const char *input_path, *input_volume;
	uint32_t view; /* of the input, out of the node's cache */
	const char *cache_path, *cache_claim;
} bads[] = {
	{ "{\"volumes\":{\"a\":{\"claim\":\"cache\",\"mount\":\"/c\"}}}",
	  "no volume of a step may be the node's cache", .cache_claim = "cache" },
	{ "{\"pod_template\":{\"spec\":{\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":"
	  "\"/var/cache/cairn/x\"}}]}}}",
	  "no volume of a step may be the node's cache", .cache_path = "/var/cache/cairn" },
	{ "{\"pod_template\":{\"spec\":{\"volumes\":[{\"name\":\"cairn-cache\",\"emptyDir\":{}}]}}"
	  "}",
	  "it changes the volume `cairn-cache`", .cache_path = "/var/cache/cairn" },
	{ "{\"pod_template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"volumeMounts\":[{"
	  "\"name\":\"cairn-cache\",\"mountPath\":\"/x\"}]}]}}}",
	  "may not mount `cairn-cache`", .cache_claim = "cache" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/cairn/x\"}}}",
	  "volume `a`: nothing can be mounted below /cairn" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/cairn\"}}}",
	  "nothing can be mounted below /cairn" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/dev/x\"}}}", "below /dev" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/var/run/secrets/kubernetes.io/"
	  "serviceaccount\"}}}",
	  "below /var/run/secrets" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"x\"}}}", "isn't an absolute path" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/a/../b\"}}}",
	  "isn't an absolute path" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/\"}}}", "isn't an absolute path" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/"
	  "m\"},\"b\":{\"claim\":\"c\",\"mount\":\"/m\"}}}",
	  "volume `b`: there is something else at /m" },
	{ "{\"volumes\":{\"a\":{\"claim\":\"c\"}}}", "volume `a`: `mount` is missing" },
	{ "{\"volumes\":{\"a\":5}}", "volume `a`" },
	{ "{\"volumes\":{\"a\":{\"size_bytes\":5,\"mount\":\"/dev/shm\"}},\"shm_bytes\":5}",
	  "a volume is mounted at /dev/shm" },
	{ "{\"shm_bytes\":2147483648}", "`resources.shm` is more than `resources.memory`" },
	{ "{\"gpu_type\":\"amd.com/gpu\"}", "no `gpu` is asked for" },
	{ "{\"extended\":{\"nvidia.com/gpu\":1}}", "asks for nvidia.com/gpu twice", .gpus = 1 },
	{ "{\"labels\":{\"cairn.internal/run\":\"x\"}}", "`cairn.internal/run` is set by Cairn" },
	{ "{\"as\":\"sparkapplication\"}", "the driver makes the pods of its executors, so the "
					   "step needs `service_account: NAME`, an "
					   "account that may create, get, list, watch and delete "
					   "pods, services and config maps, and "
					   "`token: true`" },
	{ "{\"as\":\"sparkapplication\",\"service_account\":\"spark\"}",
	  "so the step needs `token: true`" },
	{ "{\"as\":\"sparkapplication\",\"token\":true}", "needs `service_account: NAME`" },
	{ "{\"service_account\":\"a\"}",
	  "a pod has one service account: the step wants `a`, the store `b`",
	  .store_account = "b" },
	{ "{\"pod_template\":{\"spec\":{\"restartPolicy\":\"OnFailure\"}}}",
	  "it changes `restartPolicy` of the pod" },
	{ "{\"pod_template\":{\"spec\":{\"automountServiceAccountToken\":true}}}",
	  "it changes `automountServiceAccountToken`" },
	{ "{\"pod_template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"command\":[\"x\"]}]}}"
	  "}",
	  "it changes `command` of the container `main`" },
	{ "{\"pod_template\":{\"spec\":{\"initContainers\":[{\"name\":\"cairn\",\"lifecycle\":null}"
	  "]}}}",
	  "it removes `lifecycle` of the container `cairn`" },
#define SIDECAR(more) \
	"{\"pod_template\":{\"spec\":{\"initContainers\":[{\"name\":\"cairn\"," more "}]}}}"
#define MAIN_WITH(more) \
	"{\"pod_template\":{\"spec\":{\"containers\":[{\"name\":\"main\"," more "}]}}}"
#define BESIDE(more)                                                                               \
	"{\"pod_template\":{\"spec\":{\"containers\":[{\"name\":\"x\",\"image\":\"y\"," more "}]}" \
	"}}"
#define VOLUME(source) "{\"pod_template\":{\"spec\":{\"volumes\":[{\"name\":\"v\"," source "}]}}}"
	{ SIDECAR("\"image\":\"evil\""), "it changes `image` of the container `cairn`" },
	{ SIDECAR("\"env\":[{\"name\":\"CAIRN_STORE_ENDPOINT\",\"value\":\"http://evil\"}]"),
	  "it changes `env` of the container `cairn`" },
	{ SIDECAR("\"envFrom\":[{\"secretRef\":{\"name\":\"other\"}}]"), "it changes `envFrom`" },
	{ SIDECAR("\"volumeMounts\":[{\"name\":\"x\",\"mountPath\":\"/usr/bin\"}]"),
	  "it changes `volumeMounts`" },
	{ MAIN_WITH("\"envFrom\":[{\"secretRef\":{\"name\":\"store\"}}]"),
	  "the container `main` may not read the Secret `store`" },
	{ MAIN_WITH("\"env\":[{\"name\":\"K\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"store\","
		    "\"key\":\"k\"}}}]"),
	  "the container `main` may not read the Secret `store`" },
	{ BESIDE("\"envFrom\":[{\"secretRef\":{\"name\":\"store\"}}]"),
	  "the container `x` may not read the Secret `store`" },
	{ MAIN_WITH("\"volumeMounts\":[{\"name\":\"cairn-tmp\",\"mountPath\":\"/x\"}]"),
	  "the container `main` may not mount `cairn-tmp`" },
	{ VOLUME("\"secret\":{\"secretName\":\"store\"}"),
	  "no volume may hold the Secret `store`" },
	{ VOLUME("\"projected\":{\"sources\":[{\"secret\":{\"name\":\"store\"}}]}"),
	  "no volume may hold the Secret `store`" },
	{ VOLUME("\"projected\":{\"sources\":[{\"serviceAccountToken\":{\"path\":\"t\"}}]}"),
	  "has a service account's token in it" },
	{ "{\"pod_template\":{\"spec\":{\"volumes\":[{\"name\":\"cairn\",\"emptyDir\":null,"
	  "\"hostPath\":{\"path\":\"/\"}}]}}}",
	  "it changes the volume `cairn`" },
	{ "{\"pod_template\":{\"spec\":{\"shareProcessNamespace\":true}}}",
	  "`shareProcessNamespace` would let" },
	{ "{\"pod_template\":{\"spec\":{\"hostPID\":true}}}", "`hostPID` would let" },
	{ "{\"env_from\":[\"store\"]}", "the container `main` may not read the Secret `store`" },
	{ "{\"volumes\":{\"k\":{\"secret\":\"store\",\"mount\":\"/k\"}}}",
	  "no volume may hold the Secret `store`" },
	{ "{\"pod_template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"$patch\":\"delete\"}]}"
	  "}}",
	  "it removes the container `main`" },
	{ "{\"pod_template\":{\"spec\":{\"initContainers\":null}}}",
	  "it removes the container `cairn`" },
	{ "{\"pod_template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"volumeMounts\":null}]}"
	  "}}",
	  "it removes the volume `cairn` from" },
	{ "{\"pod_template\":{\"metadata\":{\"labels\":{\"cairn.internal/attempt\":\"1\"}}}}",
	  "it changes `cairn.internal/attempt` of the labels" },
	{ "{\"pod_template\":{\"spec\":{\"containers\":[{\"image\":\"x\"}]}}}",
	  "`kubernetes.pod_template`: spec: containers: [0] has no `name`" },
	{ "{\"pod_template\":{\"spec\":{\"$patch\":\"x\"}}}", "`$patch` must be" },
	{ "{\"pod_template\":5}", "a pod template must be an object" },
	{ "[]", "must be an object" },
	{ "{", "placement" },
	{ NULL, "`kubernetes.cloud`: `moon`", .cloud = "moon" },
	{ NULL, "can't share its pods", .nodes = 2, .packed = 2 },
	{ "{\"as\":\"jobset\"}", "`kubernetes.as: jobset` needs a fixed number of nodes",
	  .nodes = 3, .min_nodes = 2 },
	{ NULL, "can't mount a path with a colon", .input_path = "a:b" },
	{ NULL, "no volume of a step may be the node's cache", .cache_claim = "cache",
	  .input_path = "a", .input_volume = "claim://cache/x" },
#define OUT_OF_CACHE .cache_path = "/var/cache/cairn", .input_path = "a", .view = 1
	{ MAIN_WITH("\"env\":[{\"name\":\"CAIRN_POD_UID\",\"valueFrom\":null,\"value\":\"x\"}]"),
	  "it changes the variable CAIRN_POD_UID of the container `main`", OUT_OF_CACHE },
	{ MAIN_WITH("\"volumeMounts\":[{\"name\":\"cairn-cache\",\"mountPath\":\"/x\"}]"),
	  "the container `main` may not mount `cairn-cache`", OUT_OF_CACHE },
	{ MAIN_WITH("\"volumeMounts\":[{\"mountPath\":\"/cairn/0/w/a\",\"readOnly\":false}]"),
	  "the container `main` may not mount `cairn-cache`", OUT_OF_CACHE },
	{ BESIDE("\"volumeMounts\":[{\"name\":\"cairn-cache\",\"mountPath\":\"/cairn/0/w/a\","
		 "\"subPathExpr\":\"pods/$(CAIRN_POD_UID)/1\",\"readOnly\":true}]"),
	  "the container `x` may not mount `cairn-cache`", OUT_OF_CACHE },
};

static void test_contradictions(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bads); i++) {
		const struct bad *b = &bads[i];
		struct runner_input in = { .name = "in",
					   .path = b->input_path,
					   .volume = b->input_volume,
					   .view = b->view };
		struct kube_profile p = lab();
		struct runner_attempt a = plain();
		const struct runner_attempt *attempts[2] = { &a, &a };
		struct kube_job job = { .profile = &p,
					.attempts = attempts,
					.n = b->packed ? b->packed : 1,
					.spec = &spec };
		struct err err = { 0 };
		json_t *o = NULL;

		a.on.placement_json = b->placement;
		a.resources.gpus = b->gpus;
		a.on.gang.nodes = b->nodes;
		a.on.gang.min_nodes = b->min_nodes;
		p.store_account = b->store_account;
		p.cache_path = b->cache_path;
		p.cache_claim = b->cache_claim;
		p.cloud = b->cloud;
		if (b->input_path) {
			a.inputs = &in;
			a.n_inputs = 1;
		}
		if (kube_job_object(&job, &o, &err) == 0 || o)
			fail_msg("%zu is taken: %s", i, b->want);
		if (!strstr(err.msg, b->want) || err.code != ERR_INVALID)
			fail_msg("%zu: %s", i, err.msg);
	}
}

static void test_too_large(void **state)
{
	struct runner_input *in = xcalloc(20000, sizeof(*in));
	struct kube_profile p = lab();
	struct runner_attempt a = plain();
	const struct runner_attempt *attempts = &a;
	struct kube_job job = { .profile = &p, .attempts = &attempts, .n = 1, .spec = &spec };
	struct err err = { 0 };
	json_t *o = NULL;

	for (size_t i = 0; i < 20000; i++)
		in[i] = (struct runner_input){ .name = "in", .path = "inputs/some-name" };
	a.inputs = in;
	a.n_inputs = 20000;
	assert_int_equal(kube_job_object(&job, &o, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	free(in);
}

/* Operators' objects. */

static void test_kinds_of_the_schema(void **state)
{
	_cleanup_(json_decrefp) json_t *schema = NULL;
	const json_t *names;

	assert_int_equal(json_read_file("pipelines/schema.json", 0, &schema, NULL), 0);
	names = json_object_get(schema, "$defs");
	for (const char *const *k =
		     (const char *const[]){ "placement", "properties", "as", "enum", NULL };
	     *k; k++)
		names = json_object_get(names, *k);
	assert_int_equal(json_array_size(names), KUBE_KINDS);
	for (size_t i = 0; i < KUBE_KINDS; i++)
		assert_string_equal(json_string_value(json_array_get(names, i)), kube_kinds[i].as);
	assert_null(kube_kind_of("pytorch"));
	assert_null(kube_kind_of(NULL));
}

/* Operators add to the name of the object, and labels have at most 63 characters. */
static void test_names_of_a_gang(void **state)
{
	struct runner_attempt a = plain();
	char name[64];

	a.task = "a-step-with-a-name-of-forty-characters-all[fold=0,lr=0.1]";
	a.on.gang.nodes = 2;
	kube_job_name(&a, name);
	assert_in_range(strlen(name), 30, 40);
	a.on.gang.nodes = 0;
	a.on.placement_json = "{\"as\":\"rayjob\"}"; /* KubeRay's limit is 47 */
	kube_job_name(&a, name);
	assert_in_range(strlen(name), 30, 40);
}

static void test_unknown_kind(void **state)
{
	struct kube_profile p = lab();
	struct runner_attempt a = plain();
	const struct runner_attempt *attempts[] = { &a };
	const struct kube_job job = { .profile = &p, .attempts = attempts, .n = 1, .spec = &spec };
	struct err err = { 0 };
	json_t *o = NULL;

	a.on.gang = (struct runner_gang){ "torch", 2, 1, 0 };
	a.on.placement_json = "{\"as\":\"pytorch\"}";
	assert_int_equal(kube_job_object(&job, &o, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "there is no kind `pytorch`"));
	assert_true(kube_kind_is_job(kube_job_kind(&p, &a)));
}

/* What must hold for any attempt. */

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((rnd_state >> 33) % n);
}

static void check_name(const char *name, size_t max)
{
	size_t n = strlen(name);

	assert_in_range(n, 1, max);
	assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-"), n);
	assert_in_range(name[0], 'a', 'z');
	assert_int_not_equal(name[n - 1], '-');
}

static void check_restricted(const json_t *container)
{
	const json_t *sc = json_object_get(container, "securityContext");

	assert_true(json_is_false(json_object_get(sc, "allowPrivilegeEscalation")));
	assert_true(json_is_true(json_object_get(sc, "readOnlyRootFilesystem")));
	assert_string_equal(
		json_string_value(json_array_get(
			json_object_get(json_object_get(sc, "capabilities"), "drop"), 0)),
		"ALL");
	assert_null(json_object_get(sc, "privileged"));
}

static void check_mounts(const json_t *container, const json_t *volumes)
{
	json_t *m, *other, *v, *mounts = json_object_get(container, "volumeMounts");
	size_t i, k;

	json_array_foreach(mounts, i, m)
	{
		bool found = false;

		json_array_foreach(volumes, k, v) found |=
			json_equal(json_object_get(v, "name"), json_object_get(m, "name"));
		assert_true(found);
		json_array_foreach(mounts, k, other)
			assert_true(i == k || !json_equal(json_object_get(other, "mountPath"),
							  json_object_get(m, "mountPath")));
	}
}

static void check_labels(const json_t *metadata)
{
	const char *k;
	json_t *v;

	json_object_foreach(json_object_get(metadata, "labels"), k, v)
	{
		size_t n = json_string_length(v);

		assert_in_range(n, 1, 63);
		assert_int_equal(
			strspn(json_string_value(v),
			       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."),
			n);
	}
}

static void check_job(const json_t *job)
{
	const json_t *template = json_object_get(json_object_get(job, "spec"), "template"),
		     *pod = json_object_get(template, "spec");
	const json_t *sc = json_object_get(pod, "securityContext");
	const char *lists[] = { "initContainers", "containers" };
	json_t *c;
	size_t i;

	check_name(json_string_value(json_object_get(json_object_get(job, "metadata"), "name")),
		   52);
	check_labels(json_object_get(job, "metadata"));
	check_labels(json_object_get(template, "metadata"));
	assert_true(json_is_true(json_object_get(sc, "runAsNonRoot")));
	assert_int_not_equal(json_integer_value(json_object_get(sc, "runAsUser")), 0);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(sc, "seccompProfile"), "type")),
		"RuntimeDefault");
	assert_true(json_is_false(json_object_get(pod, "automountServiceAccountToken")));
	for (size_t l = 0; l < 2; l++)
		json_array_foreach(json_object_get(pod, lists[l]), i, c)
		{
			check_restricted(c);
			check_mounts(c, json_object_get(pod, "volumes"));
		}
}

/* A text of any bytes, in a buffer of its own. */
static const char *noise(char *buf, size_t max)
{
	size_t n = 1 + rnd((uint32_t)max - 1);

	for (size_t i = 0; i < n; i++)
		buf[i] = (char)(rnd(3) ? 'a' + (char)rnd(26) : 1 + (char)rnd(126));
	buf[n] = '\0';
	return buf;
}

static void test_any_attempt(void **state)
{
	static const char *const placements[] = {
		NULL, "{\"spot\":true}", "{\"shm_bytes\":4096}",
		"{\"volumes\":{\"a\":{\"claim\":\"c\",\"mount\":\"/m\"}}}", "{" PLACES "}"
	};
	static const char *const clouds[] = { NULL, "gke", "eks", "aks" };
	char task[300], run[100], other[64], name[64];

	for (size_t i = 0; i < 3000; i++) {
		struct kube_profile p = lab();
		struct runner_attempt a = plain();
		const struct runner_attempt *attempts = &a;
		struct kube_job job = {
			.profile = &p, .attempts = &attempts, .n = 1, .spec = &spec
		};
		struct err err = { 0 };
		json_t *o = NULL;

		a.task = noise(task, 290);
		a.run_id = noise(run, 90);
		a.on.step = rnd(2) ? "train" : NULL;
		a.id = rnd(1000000);
		a.number = rnd(9) + 1;
		a.on.placement_json = placements[rnd(ARRAY_LEN(placements))];
		a.resources.gpus = rnd(3);
		a.on.gang.nodes = rnd(4);
		a.inputs = two_inputs;
		a.n_inputs = rnd(3);
		p.cloud = clouds[rnd(ARRAY_LEN(clouds))];
		if (kube_job_object(&job, &o, &err) < 0)
			fail_msg("%s: %s", a.on.placement_json, err.msg);
		check_job(o);
		json_decref(o);
		kube_job_name(&a, name);
		a.number++;
		kube_job_name(&a, other);
		assert_string_not_equal(name, other);
	}
}

/* What a cached model says is believed by nobody: any value anywhere gives an object or an error,
 * and no harm. */
static void test_hostile_placement(void **state)
{
	static const char *const keys[] = { "labels",
					    "annotations",
					    "node_selector",
					    "tolerations",
					    "affinity",
					    "topology_spread",
					    "priority_class",
					    "as",
					    "queue",
					    "service_account",
					    "token",
					    "env_from",
					    "image_pull_secrets",
					    "pod_template",
					    "volumes",
					    "extended",
					    "gpu_type",
					    "shm_bytes",
					    "disk_bytes",
					    "spot" };
	static const char *const values[] = {
		"5",
		"-5",
		"\"x\"",
		"null",
		"true",
		"[]",
		"[5]",
		"[[]]",
		"{}",
		"{\"a\":5}",
		"{\"a\":{}}",
		"{\"nodeAffinity\":5}",
		"{\"spec\":[]}",
		("{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
		 "\"nodeSelectorTerms\":[5,{\"matchExpressions\":5}]}}}"),
		"{\"metadata\":5}",
		"[{\"name\":5}]",
		"\"a/b\"",
		"9223372036854775807"
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		for (size_t k = 0; k < ARRAY_LEN(values); k++)
			for (size_t cloud = 0; cloud < 2; cloud++) {
				char *text =
					xasprintf("{\"spot\":true,\"%s\":%s}", keys[i], values[k]);
				struct kube_profile p = lab();
				struct runner_attempt a = plain();
				const struct runner_attempt *attempts = &a;
				struct kube_job job = {
					.profile = &p, .attempts = &attempts, .n = 1, .spec = &spec
				};
				struct err err = { 0 };
				json_t *o = NULL;

				a.on.placement_json =
					strcmp(keys[i], "spot") == 0 ? "{\"spot\":5}" : text;
				a.resources.gpus = 1;
				p.cloud = cloud ? "eks" : NULL;
				if (kube_job_object(&job, &o, &err) < 0)
					assert_int_not_equal(err.code, ERR_NONE);
				json_decref(o);
				free(text);
			}
}

/* What stands in a Job's one template must be so for all; a queue lets Jobs in as a whole. */
static void test_sharing(void **state)
{
	struct runner_input elsewhere[] = { two_inputs[0], two_inputs[1] };
	struct kube_profile p = lab();
	struct runner_attempt a = plain(), b = plain();
	struct kube_capacity room;

	b.id++;
	kube_job_capacity(&p, &a, &room);
	assert_int_equal(room.pods, KUBE_ARRAY_DEFAULT);
	assert_int_equal(room.per_pod, 1);
	assert_true(kube_job_takes(&a, &b, false));
	b.resources.memory_bytes++;
	assert_false(kube_job_takes(&a, &b, false));
	b = plain();
	b.on.image = "registry.test/other@sha256:1";
	assert_false(kube_job_takes(&a, &b, false));
	b = plain();
	with_inputs(&p, &a);
	with_inputs(&p, &b);
	elsewhere[1].path = "elsewhere";
	b.inputs = elsewhere;
	assert_false(kube_job_takes(&a, &b, false));
	assert_true(kube_job_takes(&a, &b, true)); /* in a pod each has mounts of its own */
	elsewhere[1] = two_inputs[1];
	assert_true(kube_job_takes(&a, &b, false));
	elsewhere[1].volume = "claim://data";
	assert_false(kube_job_takes(&a, &b, false));
	a.on.pack = 100;
	kube_job_capacity(&p, &a, &room);
	assert_int_equal(room.per_pod, 100);
	assert_int_equal(room.pods, KUBE_JOB_ATTEMPTS_MAX / 100);
	a.n_inputs = 1000000; /* one pod's, if need be */
	kube_job_capacity(&p, &a, &room);
	assert_int_equal(room.pods, 1);
	a = plain();
	a.on.placement_json = "{\"queue\":\"q\"}";
	kube_job_capacity(&p, &a, &room);
	assert_int_equal(room.pods, 1);
	a = plain();
	a.on.gang = (struct runner_gang){ "torch", 2, 1, 0 };
	kube_job_capacity(&p, &a, &room);
	assert_int_equal(room.pods * room.per_pod, 1);
	assert_false(kube_job_takes(&a, &a, true));
	p.array = 1;
	a = plain();
	kube_job_capacity(&p, &a, &room);
	assert_int_equal(room.pods, 1);
}

/* Which inputs are views, and which share one. */

#define LARGE (64 * MIB)

/* A row of inputs is text: a letter for the content (capital: a large one), `v` for a volume, `r`
 * for content that stays elsewhere. One attempt after the other; of each as many inputs. */
static const struct choice_case {
	const char *attempts[5];
	size_t per_pod;
	const char *want; /* the views, of all attempts */
	unsigned number, nodes;
	const char *store_claim;
	bool no_cache, copies;
} choices[] = {
	{ { "A" }, 1, "1" },
	{ { "a" }, 1, "0" },
	{ { "aB" }, 1, "01" },
	{ { "AA" }, 1, "11" }, /* the same content twice */
	{ { "Av" }, 1, "10" },
	{ { "Br" }, 1, "10" },
	{ { "A" }, 1, "1", .number = 2 },
	{ { "A" }, 1, "0", .number = 2, .copies = true },
	{ { "A" }, 1, "0", .no_cache = true },
	{ { "A" }, 1, "0", .store_claim = "shared" },
	{ { "AB" }, 1, "12", .nodes = 2 }, /* a gang */
	/* An array: the place is mounted in all pods. */
	{ { "A", "B", "C" }, 1, "111" },
	{ { "a", "B", "c" }, 1, "111" },
	{ { "a", "b", "c" }, 1, "000" },
	{ { "A", "r", "C" }, 1, "000" },
	{ { "AB", "CC" }, 1, "1212" },
	{ { "AA", "CC" }, 1, "1111" },
	/* A pod with all of them: each as it is. */
	{ { "A", "A", "A" }, 0, "111" },
	{ { "A", "B", "a" }, 0, "120" },
	{ { "AB", "AC", "aB" }, 0, "121302" },
	{ { "A", "AB", "C" }, 0, "1123" },
	{ { "r", "A" }, 0, "01" },
	/* Packs, the last one with fewer. */
	{ { "A", "A", "A", "A", "A" }, 2, "11111" },
	{ { "A", "B", "A", "B", "A" }, 2, "12121" },
	{ { "A", "A", "B", "B", "C" }, 2, "11111" },
	{ { "A", "A", "B", "C", "D" }, 2, "12121" },
	{ { "A", "a", "B", "b", "C" }, 2, "10101" },
	{ { "A", "b", "B", "A" }, 2, "1212" },
	/* What only the last pod has differently keeps them apart, if it has both. */
	{ { "A", "A", "C", "D" }, 2, "1212" },
};

static int fake_takes(void *arg, const struct content_id *id, uint64_t bytes, bool *ret,
		      struct err *err)
{
	*ret = id->size_bytes >= bytes;
	return arg ? err_set(err, ERR_NOT_FOUND, "it is gone") : 0;
}

static struct runner_input input_of(char c)
{
	struct runner_input in = { .name = "i", .path = "i" };

	in.id.kind = c == 'r' ? CONTENT_REFERENCE : c == 'A' ? CONTENT_TREE : CONTENT_BLOB;
	in.id.size_bytes = c >= 'A' && c <= 'Z' ? LARGE : LARGE - 1;
	in.volume = c == 'v' ? "claim://x" : NULL;
	digest_bytes(&c, 1, &in.id.digest);
	return in;
}

static void test_views(void **state)
{
	for (size_t c = 0; c < ARRAY_LEN(choices); c++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		const struct choice_case *row = &choices[c];
		struct kube_profile p = lab();
		struct runner_input in[5][4];
		struct runner_attempt a[5];
		const struct runner_attempt *attempts[5], *got[5];
		struct kube_job job = { .profile = &p,
					.attempts = attempts,
					.per_pod = row->per_pod };
		struct runner_staging staging = { .takes = fake_takes };
		char views[32];
		size_t n = 0;
		struct err err = { 0 };

		p.cache_path = row->no_cache ? NULL : "/var/cache/cairn";
		p.store_claim = row->store_claim;
		for (; job.n < 5 && row->attempts[job.n]; job.n++) {
			a[job.n] = plain();
			a[job.n].number = row->number ? row->number : 1;
			a[job.n].on.copies = row->copies;
			a[job.n].on.gang.nodes = row->nodes;
			a[job.n].n_inputs = strlen(row->attempts[job.n]);
			for (size_t k = 0; k < a[job.n].n_inputs; k++)
				in[job.n][k] = input_of(row->attempts[job.n][k]);
			a[job.n].inputs = in[job.n];
			attempts[job.n] = &a[job.n];
		}
		assert_int_equal(kube_job_choose_views(&job, &staging, arena, got, &err), 0);
		for (size_t i = 0; i < job.n; i++)
			for (size_t k = 0; k < a[i].n_inputs; k++)
				views[n++] = (char)('0' + got[i]->inputs[k].view);
		views[n] = '\0';
		if (strcmp(views, row->want) != 0)
			fail_msg("row %zu: %s, not %s", c, views, row->want);
		assert_int_equal(a[0].inputs[0].view, 0); /* the caller's stay as they are */
	}
}

static void test_views_of_lost_content(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct kube_profile p = lab();
	struct runner_input in = input_of('A');
	struct runner_attempt a = plain();
	const struct runner_attempt *attempts[1] = { &a };
	struct kube_job job = { .profile = &p, .attempts = attempts, .n = 1 };
	struct runner_staging staging = { .takes = fake_takes, .arg = &p };
	struct err err = { 0 };

	p.cache_claim = "cache";
	a.number = 1;
	a.inputs = &in;
	a.n_inputs = 1;
	assert_int_equal(kube_job_choose_views(&job, &staging, arena, attempts, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.msg, "looking at input `i`: it is gone");
}

static void test_owner(void **state)
{
	struct kube_profile p = lab();
	struct runner_attempt a = plain();
	char *one = kube_job_owner(&p, &a), *same = kube_job_owner(&p, &a), *other;

	assert_string_equal(one, same);
	p.project = "ffff456789abcdef";
	other = kube_job_owner(&p, &a);
	assert_string_not_equal(one, other);
	free(one);
	free(same);
	free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_no_secret_values),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_any_attempt),
		cmocka_unit_test(test_hostile_placement),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_sharing),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_views_of_lost_content),
		cmocka_unit_test(test_kinds_of_the_schema),
		cmocka_unit_test(test_names_of_a_gang),
		cmocka_unit_test(test_unknown_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
