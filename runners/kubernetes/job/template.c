/* runners/kubernetes/job/template.c — merges the pod templates of cairn.yaml and the step into the
 * pod, and checks the result.
 *
 * kube_merge_templates() keeps a copy of the original pod, merges each template in order (merge.c),
 * and then compares the result with the copy: the parts that Cairn needs must be unchanged
 * (check_works()). check_apart() checks only the result, also without templates, because `env_from`
 * and `volumes` name Secrets and claims, too.
 *
 * A pipeline's author must not get the store's credentials or a token through a template. The
 * sidecar stays as Cairn made it, except for its resources. No other container reads the store's
 * Secret or mounts what only the sidecar has. Processes and hosts aren't shared, because a program
 * of the same user could read the sidecar's environment. Other Secrets are the namespace's task.
 *
 * So a new field of the pod that Cairn relies on must go into one of the lists of keys here.
 */
#include "runners/kubernetes/job/internal.h"
#include "runners/kubernetes/job/merge.h"

static json_t *find_named(const json_t *list, const char *name, size_t *ret_at)
{
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *s = json_string_value(json_object_get(item, "name"));

		if (s && strcmp(s, name) == 0) {
			*ret_at = i;
			return item;
		}
	}
	return NULL;
}

/* The sidecar starts first, because it prepares the others' files, and ends after them. */
static void put_sidecar_first(json_t *spec)
{
	json_t *list = json_object_get(spec, "initContainers"), *sidecar;
	size_t at = 0;

	sidecar = find_named(list, KUBE_SIDECAR, &at);
	if (!sidecar || at == 0)
		return;
	json_incref(sidecar);
	json_array_remove(list, at);
	json_array_insert_new(list, 0, sidecar);
}

static bool are_same(const json_t *a, const json_t *b)
{
	return a == b || json_equal(a, b);
}

static int check_same(const json_t *before, const json_t *after, const char *const *keys, size_t n,
		      const char *what, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		json_t *a = json_object_get(before, keys[i]), *b = json_object_get(after, keys[i]);

		if (!are_same(a, b))
			return err_set(err, ERR_INVALID,
				       "it changes `%s` of %s, which Cairn relies on", keys[i],
				       what);
	}
	return 0;
}

static int check_container(const json_t *before, const json_t *after, const char *list,
			   const char *name, struct err *err)
{
	static const char *const keys[] = { "command",
					    "args",
					    "restartPolicy",
					    "startupProbe",
					    "workingDir",
					    "terminationMessagePath",
					    "terminationMessagePolicy",
					    "lifecycle" };
	size_t at = 0, n_keys = ARRAY_LEN(keys) - str_eq(name, KUBE_MAIN); /* main may have hooks */
	const json_t *was = find_named(json_object_get(before, list), name, &at),
		     *is = find_named(json_object_get(after, list), name, &at);
	char what[64];

	snprintf(what, sizeof(what), "the container `%s`", name);
	if (!is)
		return err_set(err, ERR_INVALID, "it removes %s", what);
	if (!find_named(json_object_get(is, "volumeMounts"), KUBE_VOLUME_SHARED, &at))
		return err_set(err, ERR_INVALID,
			       "it removes the volume `" KUBE_VOLUME_SHARED "` from %s", what);
	/* It decides which pod's directory of the cache is mounted. */
	if (!are_same(find_named(json_object_get(was, "env"), KUBE_ENV_UID, &at),
		      find_named(json_object_get(is, "env"), KUBE_ENV_UID, &at)))
		return err_set(err, ERR_INVALID, "it changes the variable " KUBE_ENV_UID " of %s",
			       what);
	return check_same(was, is, keys, n_keys, what, err);
}

/* It must be unchanged except for its resources, which cairn.yaml or a template may set. */
static int check_sidecar(const json_t *before, const json_t *after, struct err *err)
{
	_cleanup_(json_decrefp) json_t *was = NULL, *is = NULL;
	const char *key;
	json_t *v;
	size_t at = 0;

	was = json_copy(find_named(json_object_get(before, "initContainers"), KUBE_SIDECAR, &at));
	is = json_copy(find_named(json_object_get(after, "initContainers"), KUBE_SIDECAR, &at));
	if (!is)
		return err_set(err, ERR_INVALID, "it removes the container `" KUBE_SIDECAR "`");
	json_object_del(was, "resources");
	json_object_del(is, "resources");
	json_object_foreach(is, key, v) if (
		!json_equal(json_object_get(was, key),
			    v)) return err_set(err, ERR_INVALID,
					       "it changes `%s` of the container `" KUBE_SIDECAR
					       "`, which has the store's credentials",
					       key);
	json_object_foreach(was, key, v) if (!json_object_get(is, key)) return err_set(
		err, ERR_INVALID,
		"it removes `%s` of the container `" KUBE_SIDECAR
		"`, which has the store's credentials",
		key);
	return 0;
}

/* In any form in which a pod can name a Secret: secretRef, secretKeyRef, secret,
 * nodePublishSecretRef, …
 */
static bool names_secret(const json_t *tree, const char *secret, bool below)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_array(tree)) {
		json_array_foreach((json_t *)tree, i,
				   v) if (names_secret(v, secret, below)) return true;
		return false;
	}
	json_object_foreach((json_t *)tree, key, v)
	{
		bool ref = strstr(key, "secret") || strstr(key, "Secret");

		if (json_is_string(v) ? (ref || (below && str_eq(key, "name"))) &&
						str_eq(json_string_value(v), secret)
				      : names_secret(v, secret, ref))
			return true;
	}
	return false;
}

static bool has_token(const json_t *tree)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_array(tree)) {
		json_array_foreach((json_t *)tree, i, v) if (has_token(v)) return true;
		return false;
	}
	json_object_foreach((json_t *)tree, key,
			    v) if (str_eq(key, "serviceAccountToken") || has_token(v)) return true;
	return false;
}

static const json_t *claim_of(const json_t *volume)
{
	return json_object_get(json_object_get(volume, "persistentVolumeClaim"), "claimName");
}

/* Whoever can write to the node's cache can make every pod of the node fetch its inputs again. */
static bool is_cache(const struct pod_build *b, const json_t *volume)
{
	const char *path =
		json_string_value(json_object_get(json_object_get(volume, "hostPath"), "path"));
	size_t n = b->p->cache_path ? strlen(b->p->cache_path) : 0;

	if (b->p->cache_claim && str_eq(json_string_value(claim_of(volume)), b->p->cache_claim))
		return true;
	return n && path && strncmp(path, b->p->cache_path, n) == 0 && strchr("/", path[n]);
}

/* Existing volumes are unchanged, and new ones hold neither a token nor the store's claim. */
static int check_volumes(const struct pod_build *b, const json_t *before, const json_t *after,
			 struct err *err)
{
	const json_t *was = json_object_get(before, "volumes"),
		     *is = json_object_get(after, "volumes");
	size_t i, at;
	json_t *v;

	json_array_foreach((json_t *)was, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));

		if (!json_equal(v, find_named(is, name, &at)))
			return err_set(err, ERR_INVALID,
				       "it changes the volume `%s`, which Cairn relies on", name);
	}
	json_array_foreach((json_t *)is, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));

		if (name && find_named(was, name, &at))
			continue;
		if (has_token(v))
			return err_set(
				err, ERR_INVALID,
				"the volume `%s` has a service account's token in it: a step that "
				"needs one says `service_account` and `token: true`",
				name ? name : "?");
		if (b->p->store_claim && str_eq(json_string_value(claim_of(v)), b->p->store_claim))
			return err_set(
				err, ERR_INVALID,
				"the volume `%s` is the store's, which the sidecar alone has",
				name ? name : "?");
	}
	return 0;
}

static bool is_of_main(const struct pod_build *b, const json_t *mount)
{
	json_t *m;
	size_t i;

	json_array_foreach(b->main_mounts, i, m) if (json_equal(m, mount)) return true;
	return false;
}

/* Of the cache, main has the mounts of its own inputs, and nothing else. */
static bool is_sidecars_mount(const struct pod_build *b, const char *container, const json_t *mount)
{
	const char *name = json_string_value(json_object_get(mount, "name"));
	size_t at = 0;

	if (str_eq(name, KUBE_VOLUME_CACHE))
		return !str_eq(container, KUBE_MAIN) || !is_of_main(b, mount);
	return name && find_named(b->sidecar_mounts, name, &at) &&
	       !find_named(b->main_mounts, name, &at);
}

/* Checks every pod, with templates or without, because `env_from` and `volumes` name Secrets and
 * claims, too. */
static int check_apart(const struct pod_build *b, const json_t *spec, struct err *err)
{
	static const char *const shared[] = { "shareProcessNamespace", "hostPID" };
	static const char *const lists[] = { "initContainers", "containers",
					     "ephemeralContainers" };
	const char *secret = b->p->store_secret;
	size_t i, at;
	json_t *c, *v;

	for (size_t k = 0; k < ARRAY_LEN(shared); k++)
		if (json_is_true(json_object_get(spec, shared[k])))
			return err_set(err, ERR_INVALID,
				       "`%s` would let a program read the store's credentials out "
				       "of the sidecar",
				       shared[k]);
	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		json_array_foreach(json_object_get(spec, lists[k]), i, c)
		{
			const char *name = json_string_value(json_object_get(c, "name"));
			json_t *mounts = json_object_get(c, "volumeMounts");

			if (k == 0 && str_eq(name, KUBE_SIDECAR))
				continue;
			if (secret && names_secret(c, secret, false))
				return err_set(
					err, ERR_INVALID,
					"the container `%s` may not read the Secret `%s`: it has "
					"the store's credentials (kubernetes.store_secret)",
					name ? name : "?", secret);
			for (size_t m = 0; m < json_array_size(mounts); m++) {
				v = json_object_get(json_array_get(mounts, m), "name");
				if (is_sidecars_mount(b, name, json_array_get(mounts, m)))
					return err_set(err, ERR_INVALID,
						       "the container `%s` may not mount `%s`, "
						       "which the sidecar alone has",
						       name ? name : "?", json_string_value(v));
			}
		}
	json_array_foreach(json_object_get(spec, "volumes"), i, v)
	{
		if (is_cache(b, v) &&
		    !find_named(b->sidecar_mounts, json_string_value(json_object_get(v, "name")),
				&at))
			return err_set(err, ERR_INVALID,
				       "no volume of a step may be the node's cache, which the "
				       "sidecar alone has (kubernetes.cache)");
	}
	if (secret && names_secret(json_object_get(spec, "volumes"), secret, false))
		return err_set(err, ERR_INVALID,
			       "no volume may hold the Secret `%s`: it has the store's credentials "
			       "(kubernetes.store_secret)",
			       secret);
	json_array_foreach(
		json_object_get(spec, "volumes"), i,
		v) if (b->p->store_claim &&
		       str_eq(json_string_value(claim_of(v)), b->p->store_claim) &&
		       !find_named(b->sidecar_mounts, json_string_value(json_object_get(v, "name")),
				   &at)) return err_set(err, ERR_INVALID,
							"no volume of a step may be the store's, "
							"`%s` (kubernetes.store_claim)",
							b->p->store_claim);
	return 0;
}

static int check_works(const struct pod_build *b, const json_t *before, const json_t *after,
		       struct err *err)
{
	static const char *const labels[] = { KUBE_LABEL_MANAGED, KUBE_LABEL_PROJECT,
					      KUBE_LABEL_RUN, KUBE_LABEL_STEP, KUBE_LABEL_ATTEMPT };
	static const char *const account = "serviceAccountName";
	static const char *const keys[] = { "restartPolicy", "subdomain", "hostname",
					    "automountServiceAccountToken" };
	const json_t *was = json_object_get(before, "spec"), *is = json_object_get(after, "spec");

	if (check_same(was, is, keys, ARRAY_LEN(keys), "the pod", err) < 0 ||
	    check_sidecar(was, is, err) < 0 ||
	    check_container(was, is, "containers", KUBE_MAIN, err) < 0 ||
	    check_volumes(b, was, is, err) < 0)
		return -1;
	if (b->p->store_account && check_same(was, is, &account, 1, "the pod", err) < 0)
		return -1;
	return check_same(json_object_get(json_object_get(before, "metadata"), "labels"),
			  json_object_get(json_object_get(after, "metadata"), "labels"), labels,
			  ARRAY_LEN(labels), "the labels", err);
}

int kube_merge_templates(const struct pod_build *b, json_t *template, struct err *err)
{
	_cleanup_(json_decrefp) json_t *before = NULL;
	const json_t *templates = json_object_get(b->placement, "pod_templates");
	json_t *t;
	size_t i;

	if (json_array_size(templates) == 0)
		return check_apart(b, json_object_get(template, "spec"), err);
	before = json_deep_copy(template);
	json_array_foreach(templates, i, t) if (kube_merge_template(template, t, err) <
						0) return err_wrap(err,
								   "`kubernetes.pod_template`");
	put_sidecar_first(json_object_get(template, "spec"));
	if (check_works(b, before, template, err) < 0)
		return err_wrap(err, "`kubernetes.pod_template`");
	return check_apart(b, json_object_get(template, "spec"), err);
}
