/* cairn.yaml and the CAIRN_* variables. */
#include "unit.h"

#include <string.h>
#include "base/os/fs.h"
#include "model/config/config.h"

static char *home;
static char dir[TEST_DIR_MAX];

static int enter_temp(void **state)
{
	test_dir(dir, sizeof(dir), "config");
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(fs_mkdir_p("sub/deep", NULL), 0);
	for (size_t i = 0; i < 4; i++)
		unsetenv((const char *const[]){ "CAIRN_STORE", "CAIRN_RUNNER", "CAIRN_JOBS",
						"CAIRN_DIR" }[i]);
	return 0;
}

static int leave_temp(void **state)
{
	assert_int_equal(chdir(home), 0);
	return fs_remove_tree(dir, NULL);
}

static void put(const char *text)
{
	assert_int_equal(fs_write_atomic("cairn.yaml", text, strlen(text), NULL), 0);
}

static struct config *load(const char *from, char **ret_said, struct err *err)
{
	struct diag_list *diags = diag_list_new();
	struct config *c = NULL;
	struct str said = { 0 };

	str_add(&said, "");
	config_load(from, diags, &c, err);
	diag_render(diags, &said);
	diag_list_free(diags);
	if (ret_said)
		*ret_said = str_take(&said);
	str_deinit(&said);
	return c;
}

static char *in_dir(const char *path)
{
	return xasprintf("%s/%s", dir, path);
}

static void assert_path(const char *got, const char *path)
{
	char *want = in_dir(path);

	assert_string_equal(got, want);
	free(want);
}

static void test_defaults(void **state)
{
	struct config *c;

	assert_int_equal(fs_mkdir_p(".cairn", NULL), 0);
	c = load("sub/deep", NULL, NULL);
	assert_non_null(c);
	assert_string_equal(c->project_root, dir);
	assert_path(c->state_dir, ".cairn");
	assert_path(c->store.uri, ".cairn/store");
	assert_string_equal(c->runner, "local");
	assert_null(c->salt);
	assert_int_equal(c->limits.jobs, 0);
	assert_int_equal(c->limits.gpus, -1);
	assert_int_equal(c->retention.runs, 0);
	config_free(c);
}

static void test_file(void **state)
{
	struct config *c;

	put("store: ../shared/./store\nrunner: kubernetes\nsalt: 2\njobs: 3\nresources: {cpu: 1.5, "
	    "memory: 2Gi, gpu: 0}\n"
	    "retention: {runs: 50, age: 90d}\nkubernetes: {namespace: x}\n");
	c = load("sub", NULL, NULL);
	assert_non_null(c);
	/* Beside the project, whose directory is in this one. */
	assert_int_equal(strncmp(c->store.uri, dir, (size_t)(strrchr(dir, '/') - dir)), 0);
	assert_string_equal(c->store.uri + (strrchr(dir, '/') - dir), "/shared/store");
	assert_string_equal(c->runner, "kubernetes");
	assert_string_equal(c->salt, "2");
	assert_int_equal(c->limits.jobs, 3);
	assert_int_equal(c->limits.cpu_milli, 1500);
	assert_int_equal(c->limits.memory_bytes, 2 * GIB);
	assert_int_equal(c->limits.gpus, 0);
	assert_int_equal(c->retention.runs, 50);
	assert_int_equal(c->retention.ns, 90LL * 86400 * NS_PER_S);
	config_free(c);

	put("store: s3://bucket/prefix\n");
	c = load(".", NULL, NULL);
	assert_string_equal(c->store.uri, "s3://bucket/prefix");
	assert_path(c->store.local, ".cairn/store");
	assert_string_equal(c->store.cache, "read-write");
	assert_int_equal(c->store.cache_bytes, 0);
	assert_null(c->store.options.endpoint);
	assert_string_equal(c->store.options.style, "auto");
	assert_string_equal(c->workspace, "auto");
	assert_path(config_store_dir(c), ".cairn/store");
	config_free(c);
	put("store: gs://bucket\ncache: read-only\ncache_size: 50Gi\nstore_options: {endpoint: "
	    "http://x:1, region: r, profile: p, style: path, ca: certs/ca.pem}\n");
	c = load("sub", NULL, NULL);
	assert_string_equal(c->store.cache, "read-only");
	assert_int_equal(c->store.cache_bytes, 50 * GIB);
	assert_string_equal(c->store.options.endpoint, "http://x:1");
	assert_string_equal(c->store.options.region, "r");
	assert_string_equal(c->store.options.profile, "p");
	assert_string_equal(c->store.options.style, "path");
	assert_path(c->store.options.ca, "certs/ca.pem");
	config_free(c);
	put("workspace: link\nstore: /elsewhere\n");
	c = load(".", NULL, NULL);
	assert_string_equal(c->workspace, "link");
	assert_string_equal(config_store_dir(c), "/elsewhere");
	config_free(c);
	put("");
	c = load(".", NULL, NULL);
	assert_non_null(c);
	config_free(c);
}

static void test_bad_store_options(void **state)
{
	static const char *const bad[][2] = {
		{ "cache: sometimes\n", "`cache`" },
		{ "cache_size: 0\n", "`cache_size` must be more than 0" },
		{ "cache_size: lots\n", "`cache_size`" },
		{ "workspace: hard\n",
		  "cairn.yaml:1:12: `workspace` must be auto, mount, link or copy, not `hard`" },
		{ "store_options: 3\n", "`store_options`" },
		{ "store_options: {endpoint: s3.example.org}\n",
		  "must begin with https:// or http://" },
		{ "store_options: {style: odd}\n", "`style`" },
		{ "store_options: {secret: x}\n", "secret" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char *said;

		put(bad[i][0]);
		assert_null(load(".", &said, NULL));
		if (!strstr(said, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], said);
		free(said);
	}
}

static void test_variables(void **state)
{
	struct config *c;
	char *said;

	put("store: in-file\njobs: 3\n");
	setenv("CAIRN_STORE", "here", 1);
	setenv("CAIRN_JOBS", "7", 1);
	setenv("CAIRN_RUNNER", "kubernetes", 1);
	setenv("CAIRN_DIR", "sub/state", 1);
	c = load("sub/deep", NULL, NULL);
	assert_path(c->store.uri, "here");
	assert_path(c->state_dir, "sub/state");
	assert_int_equal(c->limits.jobs, 7);
	assert_string_equal(c->runner, "kubernetes");
	config_free(c);

	setenv("CAIRN_STORE", "", 1);
	c = load(".", NULL, NULL);
	assert_path(c->store.uri, "in-file");
	config_free(c);

	setenv("CAIRN_STORE", "ftp://x", 1);
	setenv("CAIRN_JOBS", "many", 1);
	setenv("CAIRN_RUNNER", "slurm", 1);
	assert_null(load(".", &said, NULL));
	assert_non_null(strstr(
		said, "CAIRN_STORE: a store is a directory, s3://bucket/… or gs://bucket/…\n"));
	assert_non_null(strstr(said, "CAIRN_JOBS: must be a number of tasks to run at once\n"));
	assert_non_null(strstr(said, "CAIRN_RUNNER: must be local or kubernetes, not `slurm`\n"));
	free(said);
}

static const struct {
	const char *yaml, *want; /* each line behind "<dir>/cairn.yaml:" */
} bad_files[] = {
	{ "stroe: x\n", "1:1: unknown key `stroe` (did you mean `store`?)\n" },
	{ "runner: locla\n",
	  "1:9: `runner` must be local or kubernetes, not `locla` (did you mean `local`?)\n" },
	{ "store: http://x/y\n",
	  "1:8: `store`: `http://x/y`: a store is a directory, s3://bucket/… or gs://bucket/…\n" },
	{ "store: s3://\n",
	  "1:8: `store`: `s3://`: the name of the bucket is missing or too short\n" },
	{ "jobs: -1\n", "1:7: `jobs` must be from 0 to 100000\n" },
	{ "resources: {cpu: 0, gpus: 1}\n",
	  "1:18: `cpu` must be more than 0; leave it out for all that the machine has\n|1:21: "
	  "unknown key `gpus` (here it is `gpu`)\n" },
	{ "retention: {runs: 0, age: x}\n",
	  "1:19: `runs` must be from 1 to 9223372036854775807\n|1:27: `age`: `x` is not a duration "
	  "like 500ms, 10s, 5m, 1h30m or 2d\n" },
	{ "kubernetes: {as: rayjob, workers: 2}\n",
	  "1:18: in cairn.yaml `as` is for steps over several nodes: name `rayjob` at the step "
	  "that "
	  "starts it\n|1:35: in cairn.yaml there is no `workers`: it goes with `as` at a step\n" },
	{ "kubernetes: x\n", "1:13: `kubernetes` must be a mapping, not text\n" },
	{ "[a]\n", "1:1: cairn.yaml must be a mapping, not a list\n" },
	{ "store: x\nstore: y\n", "2:1: `store` is given twice; the first is at line 1\n" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		struct str want = { 0 };
		struct err err = { 0 };
		char *said;

		put(bad_files[i].yaml);
		assert_null(load(".", &said, &err));
		assert_int_equal(err.code, ERR_INVALID);
		str_addf(&want, "%s/cairn.yaml:", dir);
		for (const char *p = bad_files[i].want; *p; p++) {
			if (*p == '|')
				str_addf(&want, "%s/cairn.yaml:", dir);
			else
				str_addc(&want, *p);
		}
		assert_string_equal(said, want.s);
		free(said);
		str_deinit(&want);
	}
}

static void test_nowhere(void **state)
{
	struct err err = { 0 };

	assert_null(load("/proc", NULL, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "cairn init"));
}

static const char *const cluster_yaml =
	"kubernetes:\n"
	"  context: lab\n"
	"  namespace: ml\n"
	"  kubeconfig: conf/lab.yaml\n"
	"  image: registry.test:5000/cairn@sha256:0123\n"
	"  image_pull_policy: Always\n"
	"  registries: [\"registry.test:5000\"]\n"
	"  store_secret: s3\n"
	"  store_ca: ca\n"
	"  store_options: {endpoint: \"http://s3.test:7070\", style: path, anonymous: true}\n"
	"  secrets: mine\n"
	"  cloud: eks\n"
	"  jobs: 300\n"
	"  sidecar: {cpu: 50m, memory: 64Mi}\n"
	"  cache: {host_path: /var/cache/cairn, size: 50Gi}\n"
	"  ttl: 2h\n"
	"  schedule_within: 3s\n"
	"  image_within: 4s\n"
	"  gang_within: 5s\n"
	"  lost_within: 6s\n"
	"  upload_within: 7s\n"
	"  save_within: 8h\n"
	"  requests: {per_second: 100, burst: 200}\n"
	"  queue: team-a\n"
	"  node_selector: {spot: true}\n"
	"  image_pull_secrets: [pull]\n";

static void test_cluster(void **state)
{
	struct str placement = { 0 };
	struct config *c;

	put(cluster_yaml);
	assert_non_null(c = load(".", NULL, NULL));
	assert_string_equal(c->kubernetes.access.namespace_, "ml");
	assert_path(c->kubernetes.access.kubeconfig, "conf/lab.yaml");
	assert_string_equal(c->kubernetes.image, "registry.test:5000/cairn@sha256:0123");
	assert_string_equal(c->kubernetes.image_pull_policy, "Always");
	assert_string_equal(c->kubernetes.registries[0], "registry.test:5000");
	assert_null(c->kubernetes.registries[1]);
	assert_string_equal(c->kubernetes.store.secret, "s3");
	assert_null(c->kubernetes.store.account);
	assert_string_equal(c->kubernetes.store.ca, "ca");
	assert_string_equal(c->kubernetes.store.options.endpoint, "http://s3.test:7070");
	assert_string_equal(c->kubernetes.store.options.style, "path");
	assert_true(c->kubernetes.store.options.anonymous);
	assert_null(c->store.options.endpoint);
	assert_string_equal(c->kubernetes.secrets, "mine");
	assert_string_equal(c->kubernetes.cloud, "eks");
	assert_int_equal(c->kubernetes.jobs, 300);
	assert_int_equal(c->kubernetes.sidecar.cpu_milli, 50);
	assert_int_equal(c->kubernetes.sidecar.memory_bytes, 64 * MIB);
	assert_string_equal(c->kubernetes.cache.host_path, "/var/cache/cairn");
	assert_null(c->kubernetes.cache.claim);
	assert_int_equal(c->kubernetes.cache.bytes, 50 * GIB);
	assert_int_equal(c->kubernetes.ttl_ns, 7200 * NS_PER_S);
	assert_int_equal(c->kubernetes.within.schedule_ns, 3 * NS_PER_S);
	assert_int_equal(c->kubernetes.within.image_ns, 4 * NS_PER_S);
	assert_int_equal(c->kubernetes.within.gang_ns, 5 * NS_PER_S);
	assert_int_equal(c->kubernetes.within.lost_ns, 6 * NS_PER_S);
	assert_int_equal(c->kubernetes.within.upload_ns, 7 * NS_PER_S);
	assert_int_equal(c->kubernetes.within.save_ns, 8 * 3600 * NS_PER_S);
	assert_int_equal(c->kubernetes.access.requests_per_second, 100);
	assert_int_equal(c->kubernetes.access.requests_burst, 200);
	json_add_canonical(&placement, c->kubernetes.placement);
	assert_string_equal(placement.s, "{\"image_pull_secrets\":[\"pull\"],\"node_selector\":{"
					 "\"spot\":\"true\"},\"queue\":\"team-a\"}");
	str_deinit(&placement);
	config_free(c);
	put("");
	assert_non_null(c = load(".", NULL, NULL));
	assert_null(c->kubernetes.registries[0]);
	assert_null(c->ignore[0]);
	assert_int_equal(json_object_size(c->kubernetes.placement), 0);
	config_free(c);
}

static void test_bad_cluster(void **state)
{
	static const struct {
		const char *yaml, *want;
	} cases[] = {
		{ "ignore: [a, b/c]",
		  ":1:13: `ignore`: `b/c`: give a name, as `*.swp` or `__pycache__`" },
		{ "ignore: [\"***\"]", ":1:10: `ignore`: `***` would leave nothing" },
		{ "kubernetes: {imagee: x}",
		  ":1:14: unknown key `imagee` (did you mean `image`?)" },
		{ "kubernetes: {namespace: A_b}",
		  ":1:25: `namespace`: `A_b` can't be the name of an object" },
		{ "kubernetes: {image: \"a b\"}", ":1:21: `a b` is not the name of an image" },
		{ "kubernetes: {cloud: gcp}", ":1:21: `cloud` must be gke, eks or aks, not `gcp`" },
		{ "kubernetes: {registries: [\"http://x\"]}",
		  ":1:27: `registries`: `http://x` is not a host or host:port" },
		{ "kubernetes: {jobs: 0}", ":1:20: `jobs` must be from 1 to" },
		{ "kubernetes: {ttl: 1ms}", ":1:19: `ttl` must be at least a second" },
		{ "kubernetes: {sidecar: {memory: 0}}", ":1:32: `memory` must be more than 0" },
		{ "kubernetes: {cache: {size: 1Gi}}",
		  ":1:21: `cache` needs `host_path`, a directory of each node, or `claim`" },
		{ "kubernetes: {cache: {host_path: /a/b, claim: c}}", ":1:21: `cache` needs" },
		{ "kubernetes: {cache: {host_path: /etc}}",
		  ":1:33: `host_path`: `/etc` isn't the absolute path of a directory for this" },
		{ "kubernetes: {cache: {host_path: a/b}}", ":1:33: `host_path`: `a/b` isn't" },
		{ "kubernetes: {cache: {host_path: /a/../b}}", ":1:33: `host_path`: `/a/../b`" },
		{ "kubernetes: {cache: {claim: c, size: 0}}", ":1:38: `size` must be more than 0" },
		{ "kubernetes: {contexts: {local: {}}}",
		  ":1:25: `contexts`: `local` means something else after --on" },
		{ "kubernetes: {contexts: {G: {}}}", ":1:25: the name of a cluster: `G` can't be" },
		{ "kubernetes: {contexts: {g: {contexts: {}}}}", "`contexts` has no `contexts`" },
		{ "kubernetes: {contexts: {g: {namespac: a}}}",
		  ":1:29: unknown key `namespac` (did you mean `namespace`?)" },
		{ "kubernetes: {store_secret: a, contexts: {g: {store_claim: b}}}",
		  ":1:59: `store_claim` is a store in a volume" },
		{ "runner: gpo\nkubernetes: {contexts: {gpu: {}}}",
		  ":1:9: `runner` must be local, kubernetes or gpu, not `gpo` (did you mean "
		  "`gpu`" },
		{ "kubernetes: {store_claim: a, cache: {claim: c}}",
		  ":1:37: `cache` is for a store in a bucket" },
		{ "kubernetes: {requests: {per_second: 0}}", ":1:37: `per_second` must be from 1" },
		{ "kubernetes: {store_options: {endpoint: s3.test}}",
		  ":1:40: `endpoint`: `s3.test` must begin with" },
		{ "kubernetes: {store_account: a, service_account: b}",
		  ":1:49: a pod has one service account" },
		{ "kubernetes: {store_secret: a, env_from: a}",
		  ":1:41: `env_from` must be a list" },
		{ "kubernetes: {store_claim: a, store_secret: b}",
		  ":1:27: `store_claim` is a store in a volume" },
		{ "kubernetes: {tolerations: [{key: a, efect: x}]}",
		  ":1:37: unknown key `efect` (did you mean `effect`?)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *said = NULL;

		put(cases[i].yaml);
		assert_null(load(".", &said, NULL));
		if (!strstr(said, cases[i].want))
			fail_msg("%s: %s", cases[i].yaml, said);
		free(said);
	}
}

static void test_contexts(void **state)
{
	_cleanup_(str_deinit) struct str of_gpu = { 0 }, of_block = { 0 };
	struct err err = { 0 };
	struct config *c;

	put("runner: gpu\n"
	    "kubernetes:\n"
	    "  context: here\n"
	    "  namespace: ml\n"
	    "  queue: team-a\n"
	    "  node_selector: {disk: ssd}\n"
	    "  cache: {host_path: /var/cache/cairn, size: 1Gi}\n"
	    "  contexts:\n"
	    "    gpu: {namespace: gpus, node_selector: {gpu: a100}, cache: {claim: c}}\n"
	    "    lab: {context: lab_1}\n");
	c = load(".", NULL, NULL);
	assert_string_equal(c->runner, "kubernetes");
	assert_string_equal(c->clusters.chosen, "gpu");
	assert_string_equal(c->kubernetes.access.context, "gpu");
	assert_string_equal(c->kubernetes.access.namespace_, "gpus");
	assert_null(c->kubernetes.cache.host_path);
	assert_string_equal(c->kubernetes.cache.claim, "c");
	json_add_canonical(&of_gpu, c->kubernetes.placement);
	assert_string_equal(of_gpu.s,
			    "{\"node_selector\":{\"gpu\":\"a100\"},\"queue\":\"team-a\"}");

	assert_int_equal(config_choose_runner(c, "lab", &err), 0);
	assert_string_equal(c->kubernetes.access.context, "lab_1");
	assert_string_equal(c->kubernetes.access.namespace_, "ml");

	assert_int_equal(config_choose_runner(c, "kubernetes", &err), 0);
	assert_null(c->clusters.chosen);
	assert_string_equal(c->kubernetes.access.context, "here");
	json_add_canonical(&of_block, c->kubernetes.placement);
	assert_string_equal(of_block.s,
			    "{\"node_selector\":{\"disk\":\"ssd\"},\"queue\":\"team-a\"}");

	assert_true(config_choose_runner(c, "gup", &err) < 0);
	assert_int_equal(err.code, ERR_USAGE);
	assert_string_equal(err.msg, "must be local, kubernetes, gpu or lab, not `gup` (did you "
				     "mean `gpu`?)");
	assert_null(c->clusters.chosen); /* nothing has changed */
	config_free(c);
}

static void test_server(void **state)
{
	static const char *const bad[] = { "",           "x",          "ftp://x",    "http://",
					   "https:///",  "http://u@x", "http://x?q", "http://x#f",
					   "http://a b", "http://a\\b" };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct config *c;
	char *said = NULL;

	assert_string_equal(config_server_url(arena, "http://x:1", NULL), "http://x:1");
	assert_string_equal(config_server_url(arena, "https://x/at//", NULL), "https://x/at");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };

		assert_null(config_server_url(arena, bad[i], &err));
		assert_int_equal(err.code, ERR_USAGE);
	}
	put("serve: {url: \"http://x:1/\"}");
	assert_non_null(c = load(".", NULL, NULL));
	assert_string_equal(c->serve.url, "http://x:1");
	config_free(c);
	setenv("CAIRN_SERVER", "https://other//", 1);
	assert_non_null(c = load(".", NULL, NULL));
	assert_string_equal(c->serve.url, "https://other");
	config_free(c);
	setenv("CAIRN_SERVER", "other", 1);
	put("serve: {url: x}");
	assert_null(load(".", &said, NULL));
	assert_non_null(strstr(
		said, ":1:14: `url`: `x` must be http://HOST[:PORT] or https://HOST[:PORT]"));
	assert_non_null(strstr(
		said, "CAIRN_SERVER: `other` must be http://HOST[:PORT] or https://HOST[:PORT]"));
	free(said);
	unsetenv("CAIRN_SERVER");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cluster, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_bad_cluster, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_contexts, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_server, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_defaults, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_bad_store_options, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_file, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_variables, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_bad, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_nowhere, enter_temp, leave_temp),
	};
	int r;

	home = getcwd(NULL, 0);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(home);
	return r;
}
