/* runners/image/images.h — the images of a run: each name is asked for once, several at a time.
 *
 * Credentials, in the order in which they are tried (registry.h): the image pull Secrets of the
 * cluster, an image's own before all images', if they are named and the account may read them, then
 * Docker's configuration. A name that has a digest isn't asked about at all: then no registry has
 * to be there. Any thread; one call at a time.
 */
#ifndef CAIRN_RUNNERS_IMAGE_IMAGES_H
#define CAIRN_RUNNERS_IMAGE_IMAGES_H

#include "base/mem.h"
#include "runners/image/registry.h"
#include "runners/kubernetes/api/client.h"

/* All borrowed until images_free(). */
struct images_options {
	/* The client that reads Secrets, asked for when there are some to read first;
	 * *ret_namespace: where. */
	int (*client)(void *arg, struct kube_client **ret, const char **ret_namespace,
		      struct err *err);
	void *arg;
	const char *const *pull_secrets; /* for all images: names, NULL-terminated; or NULL */
	const char *const *plain_http;   /* as in registry_options */
	const char *ca_pem;
	int64_t patience_ns;
};
struct images;
struct images *images_new(const struct images_options *o);
void images_free(struct images *i); /* NULL is fine */

struct image_wanted {
	const char *name;
	const char *const *pull_secrets; /* its own, NULL-terminated; or NULL */
};
/* "registry/name@sha256:…" of each, in `arena`. *ret_failed: the index of the one that the error is
 * about. */
int images_resolve(struct images *i, const struct image_wanted *wanted, size_t n,
		   struct arena *arena, const char **ret_refs, size_t *ret_failed, struct err *err);

/* "linux/amd64": this machine's own. */
const char *images_platform(void);

#endif
