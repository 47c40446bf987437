/* runners/image/registry.h — a client of container registries (HTTP API): resolves tags to digests
 * and pushes images.
 *
 * Sources: OCI Distribution Specification 1.1 (end points, digests, chunked and monolithic
 * uploads), OCI Image Specification 1.1 (manifest, index, config), Docker Registry v2 token
 * authentication (WWW-Authenticate: Bearer realm, service, scope). Answers may be hostile: their
 * size is bounded and their digests are checked.
 *
 * Errors: ERR_NOT_FOUND (no such image or tag), ERR_INVALID (not a reference; credentials refused;
 * a malformed answer), ERR_IO (no answer after retries).
 */
#ifndef CAIRN_RUNNERS_IMAGE_REGISTRY_H
#define CAIRN_RUNNERS_IMAGE_REGISTRY_H

#include "base/mem.h"
#include "base/text/json.h"
#include "base/text/str.h"
#include "runners/image/layout.h"

/* "team/train:2.4", "registry.example:5000/team/train@sha256:…". The default host is docker.io, the
 * default tag latest. In `arena`. */
struct image_ref {
	const char *host, *path, *tag, *digest; /* tag or digest may be NULL */
};
int image_ref_parse(const char *text, struct arena *arena, struct image_ref *ret, struct err *err);
void image_ref_add(struct str *out, const struct image_ref *r); /* in full, as a pod names it */

/* The credentials for registries. They come from texts (the .dockerconfigjson of a cluster's image
 * pull secrets) first, then from Docker's config.json in DOCKER_CONFIG or ~/.docker ("auths" with
 * auth, username/password, identitytoken; credHelpers, credsStore: docker-credential-X get). When a
 * registry refuses one (401, 403), the next one for the image is tried, as the kubelet does. */
struct docker_text {
	const char *name; /* for errors: "image pull secret x" */
	const char *text; /* JSON */
};
struct registry_options {
	const struct docker_text *docker_configs; /* ends with a NULL text; or NULL */
	/* Hosts that speak HTTP; NULL-terminated. Loopback hosts fall back to HTTP when they don't
	 * speak TLS. */
	const char *const *plain_http;
	const char *ca_pem;   /* or NULL */
	int64_t retry_for_ns; /* 0: 30 s */
};
struct registry;
int registry_new(const struct registry_options *o, struct registry **ret, struct err *err);
void registry_free(struct registry *r); /* NULL is fine */

/* The digest that `ref` stands for now, "sha256:…", as a pod names it. When there is an index, it
 * is the index's digest, so that any node finds its own image. ret_platform_digest: the digest of
 * the manifest for `platform` ("linux/amd64"); ERR_NOT_FOUND when there is none. NULL: it isn't
 * needed, and the digest that the registry announces is enough (HEAD, which no registry counts as a
 * pull). Any thread. */
int registry_resolve(struct registry *r, const char *ref, const char *platform,
		     char ret_digest[IMAGE_DIGEST_MAX], char *ret_platform_digest, struct err *err);

/* Pushes an OCI layout (a directory, layout.h) as `ref`: the blobs that the registry lacks, then
 * the manifest. */
int registry_push(struct registry *r, const char *layout_dir, const char *ref,
		  char ret_digest[IMAGE_DIGEST_MAX], struct err *err);

#endif
