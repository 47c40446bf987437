/* engine/run/project/cluster.c — makes a project's cluster profile from its configuration.
 *
 * Mostly a list: struct config's `kubernetes` becomes a struct kube_profile, and the store's
 * options become the variables with which a pod's sidecar opens the same store. check_store()
 * refuses a store that pods can't reach.
 *
 * The project's id is 16 random hexadecimal digits in the file `project-id` of the state directory.
 * The file is made under a temporary name and then linked. So it is never partly written, and two
 * processes that make one at the same time both use the first one's. The id must not change while
 * Jobs of the project run: they are found by it.
 *
 * Any thread; nothing is kept between calls. Not here: requests to the cluster.
 */
#include "run/project/cluster.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/os/machine.h"

#define ID_DIGITS 16

int cluster_access(const struct config *c, struct arena *arena, struct kube_access *ret,
		   struct err *err)
{
	const struct kube_access_options o = { .kubeconfig = c->kubernetes.access.kubeconfig,
					       .foreign =
						       c->kubernetes.access.kubeconfig_is_projects,
					       .context = c->kubernetes.access.context,
					       .namespace_ = c->kubernetes.access.namespace_ };

	return kube_access_load(&o, arena, ret, err);
}

/* The project's id. */

/* Returns 1 when there is none yet. */
static int read_id(const char *path, char ret[ID_DIGITS + 1], struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 1 : err_errno(err, "cannot open %s", path);
	n = read(fd, ret, ID_DIGITS);
	if (n < 0)
		return err_errno(err, "cannot read %s", path);
	ret[n] = '\0';
	if (strspn(ret, "0123456789abcdef") != ID_DIGITS)
		return err_set(err, ERR_CORRUPT,
			       "%s doesn't hold an id of 16 hexadecimal digits: remove it when no "
			       "Job of this project runs",
			       path);
	return 0;
}

static int project_id(const struct config *c, struct arena *arena, const char **ret,
		      struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("%s/project-id", c->state_dir);
	_cleanup_(freep) char *temp = xasprintf("%s.%d", path, (int)getpid());
	char id[ID_DIGITS + 1], text[ID_DIGITS + 2];
	int r = read_id(path, id, err);

	if (r > 0) {
		snprintf(text, sizeof(text), "%016" PRIx64 "\n", random_u64());
		if (fs_mkdir_p(c->state_dir, err) < 0 ||
		    fs_write_atomic(temp, text, strlen(text), err) < 0)
			return -1;
		r = link(temp, path) < 0 && errno != EEXIST ? err_errno(err, "cannot make %s", path)
							    : 0;
		unlink(temp);
		if (r == 0)
			r = read_id(path, id, err);
	}
	if (r != 0)
		return -1;
	*ret = arena_strdup(arena, id);
	return 0;
}

/* How pods find the store. */

static bool is_bucket(const char *uri)
{
	return str_has_prefix(uri, "s3://") || str_has_prefix(uri, "gs://");
}

static int check_store(const struct config *c, struct err *err)
{
	if (is_bucket(c->store.uri) && c->kubernetes.store.claim)
		return err_set(err, ERR_INVALID,
			       "cairn.yaml: `kubernetes.store_claim` is for a store in a "
			       "directory, and `store` is %s",
			       c->store.uri);
	if (!is_bucket(c->store.uri) && !c->kubernetes.store.claim)
		return err_set(err, ERR_INVALID,
			       "pods can't reach the store %s: name an s3:// or gs:// one as "
			       "`store` in cairn.yaml, or its volume as `kubernetes.store_claim`",
			       c->store.uri);
	if (c->store.options.ca && !c->kubernetes.store.ca)
		return err_set(err, ERR_INVALID,
			       "the store's certificate is checked with %s, which pods don't have: "
			       "put it into a ConfigMap as ca.crt and name that as "
			       "`kubernetes.store_ca` in cairn.yaml",
			       c->store.options.ca);
	return 0;
}

static void add(struct arena *arena, const char **env, size_t *n, const char *name,
		const char *value)
{
	if (value)
		env[(*n)++] = arena_printf(arena, "%s=%s", name, value);
}

/* The store's address and options as on this machine, except where cairn.yaml sets others for
 * pods. */
static const char *const *store_env(const struct config *c, struct arena *arena)
{
	const char **env = arena_alloc(arena, 6 * sizeof(*env)),
		   *style = c->kubernetes.store.options.style;
	size_t n = 0;

	if (!style)
		style = c->store.options.style;
	add(arena, env, &n, "CAIRN_STORE", c->store.uri);
	add(arena, env, &n, "CAIRN_STORE_ENDPOINT",
	    c->kubernetes.store.options.endpoint ? c->kubernetes.store.options.endpoint
						 : c->store.options.endpoint);
	add(arena, env, &n, "CAIRN_STORE_REGION",
	    c->kubernetes.store.options.region ? c->kubernetes.store.options.region
					       : c->store.options.region);
	add(arena, env, &n, "CAIRN_STORE_STYLE", str_eq(style, "auto") ? NULL : style);
	add(arena, env, &n, "CAIRN_STORE_ANONYMOUS",
	    c->kubernetes.store.options.anonymous || c->store.options.anonymous ? "1" : NULL);
	return env;
}

static int64_t waits(const struct config *c)
{
	int64_t schedule = c->kubernetes.within.schedule_ns, image = c->kubernetes.within.image_ns,
		gang = c->kubernetes.within.gang_ns;

	return (schedule ? schedule : KUBE_SCHEDULE_DEFAULT_NS) +
	       (image ? image : KUBE_IMAGE_DEFAULT_NS) + (gang ? gang : KUBE_GANG_DEFAULT_NS);
}

int cluster_profile(const struct config *c, const struct kube_access *a, struct arena *arena,
		    struct kube_profile *ret, struct err *err)
{
	if (!c->kubernetes.image)
		return err_set(err, ERR_INVALID,
			       "cairn.yaml doesn't name Cairn's own image, whose sidecar each pod "
			       "needs: `cairn image` makes it; name it as `kubernetes.image`");
	if (check_store(c, err) < 0)
		return -1;
	*ret = (struct kube_profile){
		.namespace_ = a->namespace_,
		.cairn_image = c->kubernetes.image,
		.image_pull_policy = c->kubernetes.image_pull_policy,
		.store_uri = c->store.uri,
		.store_env = store_env(c, arena),
		.store_secret = c->kubernetes.store.secret,
		.store_account = c->kubernetes.store.account,
		.store_ca = c->kubernetes.store.ca,
		.store_claim = c->kubernetes.store.claim,
		.secrets = c->kubernetes.secrets,
		.cloud = c->kubernetes.cloud,
		.placement = c->kubernetes.placement,
		.array = c->kubernetes.array,
		.ttl_s = c->kubernetes.ttl_ns / NS_PER_S,
		.upload_ns = c->kubernetes.within.upload_ns,
		.save_ns = c->kubernetes.within.save_ns,
		.wait_ns = waits(c),
		.cache_path = c->kubernetes.cache.host_path,
		.cache_claim = c->kubernetes.cache.claim,
		.cache_bytes = c->kubernetes.cache.bytes,
		.sidecar = { .cpu_milli = c->kubernetes.sidecar.cpu_milli,
			     .memory_bytes = c->kubernetes.sidecar.memory_bytes },
	};
	return project_id(c, arena, &ret->project, err);
}

struct run_cluster cluster_name(const struct config *c, const struct kube_access *a)
{
	return (struct run_cluster){ c->clusters.chosen, a->context, a->namespace_ };
}

int cluster_of_run(struct config *c, const struct run_cluster *where, struct err *err)
{
	if (!where)
		return 0;
	if (config_choose_runner(c, where->name ? where->name : "kubernetes", NULL) < 0)
		return err_set(err, ERR_INVALID,
			       "the run is on the cluster %s, which `kubernetes.contexts` in "
			       "cairn.yaml doesn't name any more",
			       where->name);
	if (where->context)
		c->kubernetes.access.context = where->context;
	if (where->namespace_)
		c->kubernetes.access.namespace_ = where->namespace_;
	return 0;
}

int cluster_open(const struct config *c, const char *options_json,
		 const struct kube_client_options *o, struct cluster *ret, struct err *err)
{
	struct config of_run = *c;

	*ret = (struct cluster){ .arena = arena_new() };
	if (cluster_of_run(&of_run, run_cluster_of(options_json, ret->arena), err) < 0 ||
	    cluster_access(&of_run, ret->arena, &ret->access, err) < 0 ||
	    cluster_profile(&of_run, &ret->access, ret->arena, &ret->profile, err) < 0 ||
	    kube_client_new(&ret->access, o, &ret->client, err) < 0) {
		cluster_close(ret);
		return -1;
	}
	return 0;
}

void cluster_close(struct cluster *k)
{
	kube_client_free(k->client);
	arena_free(k->arena);
}
