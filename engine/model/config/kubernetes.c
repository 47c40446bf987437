/* engine/model/config/kubernetes.c — reads `kubernetes` of cairn.yaml: which cluster, images, what
 * pods need to reach the store, limits.
 *
 * The block has two kinds of keys. placement.c reads those that hold for all steps, into one JSON
 * object. Those of struct config (`own_keys`) are read here. placement_read_kubernetes() comes
 * first and reports unknown keys of both kinds. check_together() is last: it refuses combinations
 * that are wrong for any cluster.
 *
 * An entry of `contexts` is such a block again. It is read over a copy of the one around it, so it
 * has all that it doesn't say itself.
 *
 * A kubeconfig that lies in the project, through symbolic links too, is marked as the project's:
 * the user didn't choose what it says.
 */
#include "base/os/fs.h"
#include "model/config/internal.h"
#include "model/step/placement.h"

static const char *const pull_policies[] = { "IfNotPresent", "Always", "Never" };
static const char *const clouds[] = { "gke", "eks", "aks" };

static const char *const own_keys[] = {
	"context",       "namespace",     "kubeconfig",      "image",        "image_pull_policy",
	"registries",    "store_secret",  "store_account",   "store_ca",     "store_claim",
	"store_options", "secrets",       "cloud",           "jobs",         "array",
	"sidecar",       "ttl",           "schedule_within", "image_within", "gang_within",
	"lost_within",   "upload_within", "requests",        "save_within",  "cache",
	"contexts",
};

void config_kubernetes_init(struct config *c)
{
	static const char *const none[] = { NULL };

	c->kubernetes.registries = none;
	c->clusters.placements = json_array();
	c->kubernetes.placement = json_object();
	json_array_append_new(c->clusters.placements, c->kubernetes.placement);
	c->clusters.unnamed = c->kubernetes;
}

/* A symbolic link counts as its target. A file that can't be found counts as the project's. */
static void read_kubeconfig(const struct doc *d, const struct yaml_node *v, struct config *c)
{
	const char *path = v->text[0] == '/'
				   ? doc_text(d, v)
				   : arena_printf(c->arena, "%s/%s", c->project_root, v->text);
	_cleanup_(freep) char *real = realpath(path, NULL), *root = realpath(c->project_root, NULL);

	c->kubernetes.access.kubeconfig = path;
	c->kubernetes.access.kubeconfig_is_projects = !real || !root || fs_is_inside(root, real);
}

static void read_registries(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	const char **list;
	size_t count = 0;

	if (!doc_want_list(d, n, "`registries`"))
		return;
	list = arena_alloc(c->arena, (n->len + 1) * sizeof(*list));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *v = n->items[i];

		if (!doc_want_text(d, v, "a registry"))
			continue;
		if (strspn(v->text,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") !=
		    v->len)
			doc_error(d, v, "`registries`: `%.80s` is not a host or host:port",
				  v->text);
		else
			list[count++] = doc_text(d, v);
	}
	c->kubernetes.registries = list;
}

/* The store. */

static void read_store(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	const struct {
		const char *key, **ret;
	} names[] = {
		{ "store_secret", &c->kubernetes.store.secret },
		{ "store_account", &c->kubernetes.store.account },
		{ "store_ca", &c->kubernetes.store.ca },
		{ "store_claim", &c->kubernetes.store.claim },
		{ "secrets", &c->kubernetes.secrets },
	};
	static const char *const keys[] = { "endpoint", "region", "style", "anonymous" };
	struct config_access a = { &c->kubernetes.store.options.endpoint,
				   &c->kubernetes.store.options.region,
				   &c->kubernetes.store.options.style,
				   &c->kubernetes.store.options.anonymous };
	const struct yaml_node *v;
	char what[32];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(what, sizeof(what), "`%s`", names[i].key);
		if ((v = yaml_get(n, names[i].key)))
			placement_read_name(d, v, what, names[i].ret);
	}
	if ((v = yaml_get(n, "store_options")) && doc_want_map(d, v, "`store_options`")) {
		doc_check_keys(d, v, keys, ARRAY_LEN(keys));
		config_read_access(d, v, &a);
	}
}

/* The node's cache. */

/* A directory in which everything else of the node lies, too, isn't for pods to write to. */
static bool is_own_dir(const char *path)
{
	static const char *const others[] = { "/",     "/bin",  "/boot",    "/dev",
					      "/etc",  "/home", "/lib",     "/proc",
					      "/root", "/run",  "/sbin",    "/sys",
					      "/usr",  "/var",  "/var/lib", "/var/run" };
	size_t n = strlen(path);

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (str_eq(path, others[i]))
			return false;
	return path[0] == '/' && path[n - 1] != '/' && !strchr(path, ':') && !strstr(path, "//") &&
	       !strstr(path, "/./") && !strstr(path, "/../") && !str_has_suffix(path, "/.") &&
	       !str_has_suffix(path, "/..");
}

static void read_cache(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	static const char *const keys[] = { "host_path", "claim", "size" };
	const struct yaml_node *path, *claim, *size;

	if (!doc_want_map(d, n, "`cache`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	c->kubernetes.cache.host_path = c->kubernetes.cache.claim = NULL;
	path = yaml_get(n, "host_path");
	claim = yaml_get(n, "claim");
	if (!path == !claim)
		doc_error(d, n,
			  "`cache` needs `host_path`, a directory of each node, or `claim`, "
			  "a PersistentVolumeClaim: one of them");
	if (path && doc_want_text(d, path, "`host_path`")) {
		if (is_own_dir(path->text))
			c->kubernetes.cache.host_path = doc_text(d, path);
		else
			doc_error(d, path,
				  "`host_path`: `%.200s` isn't the absolute path of a directory "
				  "for this alone, like /var/cache/cairn",
				  path->text);
	}
	if (claim)
		placement_read_name(d, claim, "`claim`", &c->kubernetes.cache.claim);
	if ((size = yaml_get(n, "size")) &&
	    read_bytes(d, size, "`size`", &c->kubernetes.cache.bytes) && !c->kubernetes.cache.bytes)
		doc_error(d, size, "`size` must be more than 0; leave it out for 20Gi");
}

/* Limits. */

static void read_limits(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	const struct {
		const char *key;
		int64_t *ret;
	} times[] = {
		{ "ttl", &c->kubernetes.ttl_ns },
		{ "schedule_within", &c->kubernetes.within.schedule_ns },
		{ "image_within", &c->kubernetes.within.image_ns },
		{ "gang_within", &c->kubernetes.within.gang_ns },
		{ "lost_within", &c->kubernetes.within.lost_ns },
		{ "upload_within", &c->kubernetes.within.upload_ns },
		{ "save_within", &c->kubernetes.within.save_ns },
	};
	static const char *const requests[] = { "per_second", "burst" };
	static const char *const sidecar[] = { "cpu", "memory" };
	const struct yaml_node *v, *rate;
	int64_t count;
	char what[32];

	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		snprintf(what, sizeof(what), "`%s`", times[i].key);
		if ((v = yaml_get(n, times[i].key)) && read_duration(d, v, what, times[i].ret) &&
		    *times[i].ret < NS_PER_S)
			doc_error(d, v,
				  "%s must be at least a second; leave it out for the default",
				  what);
	}
	if ((v = yaml_get(n, "jobs")) && read_count(d, v, "`jobs`", 1, CONFIG_JOBS_MAX, &count))
		c->kubernetes.jobs = (uint32_t)count;
	if ((v = yaml_get(n, "array")) && read_count(d, v, "`array`", 1, CONFIG_ARRAY_MAX, &count))
		c->kubernetes.array = (uint32_t)count;
	if ((v = yaml_get(n, "requests")) && doc_want_map(d, v, "`requests`")) {
		doc_check_keys(d, v, requests, ARRAY_LEN(requests));
		if ((rate = yaml_get(v, "per_second")) &&
		    read_count(d, rate, "`per_second`", 1, 100000, &count))
			c->kubernetes.access.requests_per_second = (uint32_t)count;
		if ((rate = yaml_get(v, "burst")) &&
		    read_count(d, rate, "`burst`", 1, 100000, &count))
			c->kubernetes.access.requests_burst = (uint32_t)count;
	}
	if ((v = yaml_get(n, "sidecar")) && doc_want_map(d, v, "`sidecar`")) {
		doc_check_keys(d, v, sidecar, ARRAY_LEN(sidecar));
		read_machine(d, v, "; leave it out for the default",
			     &c->kubernetes.sidecar.cpu_milli, &c->kubernetes.sidecar.memory_bytes);
	}
}

/* Checks keys that depend on each other, once all are read. In `contexts`, one of them may come
 * from the block around it. */
static void check_together(const struct doc *d, const struct yaml_node *n, const struct config *c)
{
	const json_t *placement = c->kubernetes.placement, *secret;
	const char *of_steps = json_string_value(json_object_get(placement, "service_account"));
	const struct yaml_node *v;
	size_t i;

	if (c->kubernetes.store.account && of_steps &&
	    strcmp(of_steps, c->kubernetes.store.account) != 0)
		doc_error(d, (v = yaml_get(n, "service_account")) ? v : n,
			  "a pod has one service account: `store_account` is another one");
	json_array_foreach(
		json_object_get(placement, "env_from"), i,
		secret) if (str_eq(json_string_value(secret), c->kubernetes.store.secret))
		doc_error(d, (v = yaml_get(n, "env_from")) ? v : n,
			  "`%s` has the store's credentials, which a step's program "
			  "doesn't get",
			  c->kubernetes.store.secret);
	if (c->kubernetes.store.claim &&
	    (c->kubernetes.cache.host_path || c->kubernetes.cache.claim))
		doc_error(
			d, (v = yaml_get(n, "cache")) ? v : n,
			"`cache` is for a store in a bucket: `store_claim` is in a volume already");
	if (c->kubernetes.store.claim &&
	    (c->kubernetes.store.secret || c->kubernetes.store.account))
		doc_error(d, (v = yaml_get(n, "store_claim")) ? v : n,
			  "`store_claim` is a store in a volume: it takes no credentials");
}

static void read_contexts(const struct doc *d, const struct yaml_node *n, struct config *c);

void config_read_kubernetes(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	const struct yaml_node *v;

	if (!doc_want_map(d, n, "`kubernetes`"))
		return;
	placement_read_kubernetes(d, n, own_keys, ARRAY_LEN(own_keys), c->kubernetes.placement);
	placement_check_shared(d, n, "cairn.yaml");
	if ((v = yaml_get(n, "context")) && doc_want_scalar(d, v, "`context`"))
		c->kubernetes.access.context = doc_text(d, v);
	if ((v = yaml_get(n, "namespace")))
		placement_read_name(d, v, "`namespace`", &c->kubernetes.access.namespace_);
	if ((v = yaml_get(n, "kubeconfig")) && doc_want_scalar(d, v, "`kubeconfig`"))
		read_kubeconfig(d, v, c);
	if ((v = yaml_get(n, "cloud")))
		read_choice(d, v, "`cloud`", clouds, ARRAY_LEN(clouds), &c->kubernetes.cloud);
	if ((v = yaml_get(n, "image")) && doc_check_image_name(d, v))
		c->kubernetes.image = doc_text(d, v);
	if ((v = yaml_get(n, "image_pull_policy")))
		read_choice(d, v, "`image_pull_policy`", pull_policies, ARRAY_LEN(pull_policies),
			    &c->kubernetes.image_pull_policy);
	if ((v = yaml_get(n, "registries")))
		read_registries(d, v, c);
	read_store(d, n, c);
	if ((v = yaml_get(n, "cache")))
		read_cache(d, v, c);
	read_limits(d, n, c);
	check_together(d, n, c);
	c->clusters.unnamed = c->kubernetes;
	if ((v = yaml_get(n, "contexts")))
		read_contexts(d, v, c);
}

static void read_contexts(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	struct config_cluster *list;

	if (!doc_want_map(d, n, "`contexts`"))
		return;
	list = arena_alloc(c->arena, (n->len + 1) * sizeof(*list));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *v = n->pairs[i].value;
		struct config_cluster *to = &list[c->clusters.n];
		struct config of = *c;

		if (!placement_read_name(d, key, "the name of a cluster", &to->name) ||
		    !doc_want_map(d, v, to->name))
			continue;
		if (str_eq(to->name, "local") || str_eq(to->name, "kubernetes")) {
			doc_error(d, key, "`contexts`: `%s` means something else after --on",
				  to->name);
			continue;
		}
		if (yaml_get(v, "contexts")) {
			doc_error(d, yaml_get(v, "contexts"), "`contexts` has no `contexts`");
			continue;
		}
		of.kubernetes.access.context = to->name;
		of.kubernetes.placement = json_deep_copy(c->kubernetes.placement);
		json_array_append_new(c->clusters.placements, of.kubernetes.placement);
		config_read_kubernetes(d, v, &of);
		to->kubernetes = of.kubernetes;
		c->clusters.n++;
	}
	c->clusters.v = list;
}
