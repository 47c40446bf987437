/* runners/image/images.c — the images of a run: each name is resolved once.
 *
 * images_resolve() works in three steps. sort_out() answers known names and those with a digest,
 * and finds a registry client for each other name. Then registries are asked on up to
 * WORKERS_MAX threads. Then all answers go into `known`, also when another question failed.
 *
 * Each set of pull secrets has its own registry client (`registries`, by their names), because a
 * client tries the credentials that it was made with. Secrets are read from the cluster once, given
 * to the client and wiped.
 *
 * The maps belong to the calling thread; a worker touches only its question, and the registry
 * client is thread-safe. resolve.c asks a registry; docker_config.c finds the credentials.
 */
#include "runners/image/images.h"

#include <stdio.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/map.h"
#include "base/os/process/command.h"
#include "base/os/work.h"

#define WORKERS_MAX 8
#define CONFIG_MAX  (1 * MIB) /* the API server's own limit of a Secret */

struct images {
	struct images_options o;
	/* Names of Secrets, one a line → struct registry * with their credentials. */
	struct map *registries;
	struct map *known; /* name → char *ref */
};

struct images *images_new(const struct images_options *o)
{
	struct images *i = xcalloc(1, sizeof(*i));

	i->o = *o;
	i->known = map_new();
	i->registries = map_new();
	return i;
}

void images_free(struct images *i)
{
	if (!i)
		return;
	for (size_t k = 0; k < map_len(i->known); k++)
		free(map_at(i->known, k, NULL, NULL));
	map_free(i->known);
	for (size_t k = 0; k < map_len(i->registries); k++)
		registry_free(map_at(i->registries, k, NULL, NULL));
	map_free(i->registries);
	free(i);
}

const char *images_platform(void)
{
#if defined(__aarch64__)
	return "linux/arm64";
#elif defined(__riscv)
	return "linux/riscv64";
#elif defined(__powerpc64__)
	return "linux/ppc64le";
#elif defined(__s390x__)
	return "linux/s390x";
#else
	return "linux/amd64";
#endif
}

/* Pull secrets. */

struct secret_texts {
	VEC(struct docker_text) v; /* ends with an empty one */
};

static void secret_texts_wipe(struct secret_texts *t)
{
	for (size_t i = 0; i < t->v.n; i++) {
		char *text = (char *)t->v.v[i].text; /* NULL in the last one */

		if (text)
			explicit_bzero(text, strlen(text));
		free(text);
		free((char *)t->v.v[i].name);
	}
	VEC_FREE(&t->v);
}

static int take_secret(const json_t *secret, const char *name, struct secret_texts *t,
		       struct err *err)
{
	static const char *const keys[] = { ".dockerconfigjson", ".dockercfg" };
	const json_t *data = json_object_get(secret, "data");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *text = json_string_value(json_object_get(data, keys[i]));
		struct str plain = { 0 };

		if (!text)
			continue;
		if (strlen(text) > CONFIG_MAX * 2 ||
		    base64_decode(&plain, text, strlen(text), NULL) < 0 || plain.len == 0) {
			str_wipe(&plain);
			return err_set(err, ERR_INVALID,
				       "%s of image pull secret %s is not base64 of a Docker "
				       "configuration",
				       keys[i], name);
		}
		VEC_PUSH(&t->v, ((struct docker_text){ xasprintf("image pull secret `%s`", name),
						       xstrndup(plain.s, plain.len) }));
		str_wipe(&plain);
		return 0;
	}
	return 0;
}

/* A Secret that is missing or unreadable is no error: Docker's configuration may have the
 * credentials, or none may be needed. The kubelet reads the Secret itself. */
static int read_secret(const struct images *i, const char *name, struct secret_texts *t,
		       struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "GET" };
	struct kube_client *client;
	struct err why = { 0 };
	const char *ns;
	int r;

	if (i->o.client(i->o.arg, &client, &ns, err) < 0)
		return -1;
	kube_add_path(&path, "", "v1", ns, "secrets", name);
	call.path = path.s;
	r = kube_do(client, &call, &why);
	if (r == 0)
		r = take_secret(call.json, name, t, err);
	else
		r = why.code == ERR_NOT_FOUND || why.code == ERR_INVALID
			    ? 0
			    : err_set(err, why.code, "reading image pull secret %s: %s", name,
				      why.msg);
	kube_call_deinit(&call);
	return r;
}

static int read_secrets(const struct images *i, const char *const *names, struct secret_texts *t,
			struct err *err)
{
	for (; i->o.client && names && *names; names++)
		if (read_secret(i, *names, t, err) < 0)
			return -1;
	return 0;
}

/* The client with the credentials of these Secrets. */
static int open_registry(struct images *i, const char *const *own, struct registry **ret,
			 struct err *err)
{
	_cleanup_(str_deinit) struct str who = { 0 };
	_cleanup_(secret_texts_wipe) struct secret_texts t = { .v = { 0 } };

	str_add(&who, "");
	for (const char *const *name = own; name && *name; name++)
		str_addf(&who, "%s\n", *name);
	if ((*ret = map_get_str(i->registries, who.s)))
		return 0;
	if (read_secrets(i, own, &t, err) < 0 || read_secrets(i, i->o.pull_secrets, &t, err) < 0)
		return -1;
	VEC_PUSH(&t.v, (struct docker_text){ 0 });
	if (registry_new(&(struct registry_options){ .docker_configs = t.v.v,
						     .plain_http = i->o.plain_http,
						     .ca_pem = i->o.ca_pem,
						     .retry_for_ns = i->o.retry_for_ns },
			 ret, err) < 0)
		return -1;
	*map_slot_str(i->registries, who.s) = *ret;
	return 0;
}

/* Asking. */

struct question {
	const char *name;
	size_t number; /* index in the caller's list */
	struct registry *registry;
	struct image_ref ref; /* in the caller's arena */
	char *answer;
	struct err err;
};

struct batch {
	struct arena *arena; /* for the references */
	struct question *v;
	size_t n;
};

static char *pinned(const struct image_ref *r, const char *digest)
{
	struct str out = { 0 };

	image_ref_add(&out,
		      &(struct image_ref){ .host = r->host, .path = r->path, .digest = digest });
	return str_take(&out);
}

static int ask(void *arg, size_t i, struct err *err)
{
	struct question *q = &((struct batch *)arg)->v[i];
	char digest[IMAGE_DIGEST_MAX];

	(void)err; /* each question has its own */
	if (registry_resolve(q->registry, q->name, images_platform(), digest, NULL, &q->err) == 0)
		q->answer = pinned(&q->ref, digest);
	return 0;
}

/* Answers known names and those with a digest; puts the others into the batch. */
static int sort_out(struct images *i, const struct image_wanted *wanted, size_t n, struct batch *b,
		    size_t *ret_failed, struct err *err)
{
	for (size_t k = 0; k < n; k++) {
		struct question q = { .name = wanted[k].name, .number = k };

		*ret_failed = k;
		if (map_get_str(i->known, wanted[k].name))
			continue;
		if (image_ref_parse(q.name, b->arena, &q.ref, err) < 0)
			return -1;
		if (q.ref.digest) {
			*map_slot_str(i->known, q.name) = pinned(&q.ref, q.ref.digest);
			continue;
		}
		if (open_registry(i, wanted[k].pull_secrets, &q.registry, err) < 0)
			return -1;
		b->v[b->n++] = q;
	}
	return 0;
}

int images_resolve(struct images *i, const struct image_wanted *wanted, size_t n,
		   struct arena *arena, const char **ret_refs, size_t *ret_failed, struct err *err)
{
	_cleanup_(freep) struct question *q = xcalloc(n + 1, sizeof(*q));
	struct batch b = { .arena = arena, .v = q };

	if (sort_out(i, wanted, n, &b, ret_failed, err) < 0)
		return -1;
	work_each(WORKERS_MAX, b.n, true, ask, &b, NULL);
	for (size_t k = 0; k < b.n; k++) {
		void **slot = q[k].answer ? map_slot_str(i->known, q[k].name) : NULL;

		if (!slot)
			continue;
		free(*slot); /* the name came twice in one call */
		*slot = TAKE_PTR(q[k].answer);
	}
	for (size_t k = 0; k < b.n; k++) {
		if (!q[k].err.code)
			continue;
		*ret_failed = q[k].number;
		if (err)
			*err = q[k].err;
		return -1;
	}
	for (size_t k = 0; k < n; k++)
		ret_refs[k] = arena_strdup(arena, map_get_str(i->known, wanted[k].name));
	return 0;
}
