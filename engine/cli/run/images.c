#include "cli/run/images.h"

#include "model/step/placement.h"
#include "run/project/cluster.h"
#include "runners/image/images.h"
#include "runners/kubernetes/api/client.h"

struct cli_images {
	const struct config *config;
	struct arena *arena;
	struct kube_access access;
	struct kube_client *client; /* set once there were pull secrets to read */
	struct images *images;
	struct plan_images plan;
	const char *own;
};

static int resolve(void *arg, const struct plan_image_wanted *wanted, size_t n, struct arena *arena,
		   const char **ret_refs, size_t *ret_failed, struct err *err)
{
	_cleanup_(freep) struct image_wanted *v = xcalloc(n + 1, sizeof(*v));
	struct cli_images *i = arg;

	for (size_t k = 0; k < n; k++)
		v[k] = (struct image_wanted){ wanted[k].name, wanted[k].pull_secrets };
	return images_resolve(i->images, v, n, arena, ret_refs, ret_failed, err);
}

/* In a pod's form: [{"name": …}]. */
static const char *const *pull_secrets(const struct config *c, struct arena *arena)
{
	const json_t *list = c->kubernetes.placement ? json_object_get(c->kubernetes.placement,
								       "image_pull_secrets")
						     : NULL;
	const char **v = arena_alloc(arena, (json_array_size(list) + 1) * sizeof(*v));
	json_t *entry;
	size_t i, n = 0;

	json_array_foreach((json_t *)list, i, entry)
	{
		const char *name = json_string_value(
			json_is_object(entry) ? json_object_get(entry, "name") : entry);

		if (name)
			v[n++] = name;
	}
	return v;
}

/* The nodes' platform if cairn.yaml selects nodes by it; else this machine's. */
static const char *platform(const struct config *c, struct arena *arena)
{
	const char *arch = placement_arch(c->kubernetes.placement);

	return arch ? arena_printf(arena, "linux/%s", arch) : images_platform();
}

const char *cli_images_arch(const struct config *c, struct arena *arena)
{
	const char *slash = strchr(platform(c, arena), '/');

	return slash ? arena_strndup(arena, slash + 1, strcspn(slash + 1, "/")) : NULL;
}

static int client(void *arg, struct kube_client **ret, const char **ret_namespace, struct err *err)
{
	struct cli_images *i = arg;

	if (!i->client &&
	    (cluster_access(i->config, i->arena, &i->access, err) < 0 ||
	     kube_client_new(&i->access,
			     &(struct kube_client_options){ .retry_for_ns = 10 * NS_PER_S },
			     &i->client, err) < 0))
		return -1;
	*ret = i->client;
	*ret_namespace = i->access.namespace_;
	return 0;
}

struct cli_images *cli_images_new(const struct config *c)
{
	struct cli_images *i = xcalloc(1, sizeof(*i));
	struct images_options o = { .plain_http = c->kubernetes.registries,
				    .client = client,
				    .arg = i };

	i->config = c;
	i->arena = arena_new();
	o.pull_secrets = pull_secrets(c, i->arena);
	i->images = images_new(&o);
	i->plan = (struct plan_images){ .resolve = resolve,
					.platform = platform(c, i->arena),
					.arg = i };
	return i;
}

void cli_images_free(struct cli_images *i)
{
	if (!i)
		return;
	images_free(i->images);
	kube_client_free(i->client);
	arena_free(i->arena);
	free(i);
}

const struct plan_images *cli_images_plan(const struct cli_images *i)
{
	return i ? &i->plan : NULL;
}

int cli_images_own(struct cli_images *i, const char **ret, struct err *err)
{
	const struct image_wanted own = { i->config->kubernetes.image, NULL };
	size_t failed;

	if (!own.name)
		return err_set(
			err, ERR_USAGE,
			"cairn.yaml doesn't name the image that pods have Cairn from: make one "
			"(`cairn image --push REGISTRY/NAME:TAG`) and name it as kubernetes.image");
	if (!i->own && images_resolve(i->images, &own, 1, i->arena, &i->own, &failed, err) < 0)
		return err_wrap(err, "kubernetes.image");
	*ret = i->own;
	return 0;
}
