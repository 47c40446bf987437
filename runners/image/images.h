/* runners/image/images.h — the images of a run. Each name is resolved once, several at a time.
 *
 * Credentials are tried in this order (registry.h): the image pull Secrets of the cluster that are
 * named and that the account may read (an image's own before those for all images), then Docker's
 * configuration. A name with a digest needs no request to a registry. Any thread; one call at a
 * time.
 */
#ifndef CAIRN_RUNNERS_IMAGE_IMAGES_H
#define CAIRN_RUNNERS_IMAGE_IMAGES_H

#include "base/mem.h"
#include "runners/image/registry.h"
#include "runners/kubernetes/api/client.h"

/* All borrowed until images_free(). */
struct images_options {
	/* Gives the client that reads Secrets, and their namespace. Called only when there are
	 * Secrets to read. */
	int (*client)(void *arg, struct kube_client **ret, const char **ret_namespace,
		      struct err *err);
	void *arg;
	const char *const *pull_secrets; /* for all images: names, NULL-terminated; or NULL */
	const char *const *plain_http;   /* as in registry_options */
	const char *ca_pem;
	int64_t retry_for_ns;
};
struct images;
struct images *images_new(const struct images_options *o);
void images_free(struct images *i); /* NULL is fine */

struct image_wanted {
	const char *name;
	const char *const *pull_secrets; /* its own, NULL-terminated; or NULL */
};
/* Gives "registry/name@sha256:…" for each, in `arena`. *ret_failed: the index of the failed one. */
int images_resolve(struct images *i, const struct image_wanted *wanted, size_t n,
		   struct arena *arena, const char **ret_refs, size_t *ret_failed, struct err *err);

/* This machine's platform, like "linux/amd64". */
const char *images_platform(void);

#endif
