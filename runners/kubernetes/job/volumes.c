/* runners/kubernetes/job/volumes.c — volumes, and where each container mounts them.
 *
 * kube_add_volumes() adds in a fixed order, because later ones check what is mounted already
 * (is_mounted()): the shared directory, the inputs from it, the step's own volumes, /dev/shm, /tmp,
 * the account's token, and the sidecar's own volumes.
 *
 * An input is a read-only mount of a subPath of the shared directory, laid over the workspace. So
 * the program finds it in its place and can't change it, while the sidecar writes it through the
 * whole directory. An input that is a volume already is mounted there itself, and a large one out
 * of what the sidecar makes for this pod in the node's cache (engine/pod/views.c). The kubelet
 * follows no symbolic link there, and main has nothing else of the cache. Names of the step's
 * volumes have the prefix `vol-`; ours have none, so they never collide.
 *
 * template.c checks that templates respect this.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "base/text/text.h"
#include "runners/kubernetes/job/internal.h"

static void add_mount(json_t *mounts, const char *volume, const char *path)
{
	json_array_append_new(mounts, json_pack("{s:s, s:s}", "name", volume, "mountPath", path));
}

static void add_read_only(json_t *mounts, const char *volume, const char *path)
{
	json_array_append_new(mounts, json_pack("{s:s, s:s, s:b}", "name", volume, "mountPath",
						path, "readOnly", 1));
}

static void add_volume(struct pod_build *b, const char *name, const char *kind, json_t *source)
{
	json_array_append_new(b->volumes, json_pack("{s:s, s:o}", "name", name, kind, source));
}

static json_t *empty_dir(uint64_t size_bytes, bool memory)
{
	json_t *dir = json_object();

	if (memory)
		kube_set_str(dir, "medium", "Memory");
	if (size_bytes)
		json_object_set_new(dir, "sizeLimit",
				    json_sprintf("%llu", (unsigned long long)size_bytes));
	return dir;
}

static bool is_mounted(const json_t *mounts, const char *path)
{
	json_t *m;
	size_t i;

	json_array_foreach((json_t *)mounts, i,
			   m) if (strcmp(json_string_value(json_object_get(m, "mountPath")),
					 path) == 0) return true;
	return false;
}

/* Inputs. */

/* A volume that holds an input, which other inputs may share. *ret_sub: the path in it, or NULL. */
static const char *input_volume(struct pod_build *b, const char *uri, const char **ret_sub)
{
	static const char claim[] = "claim://", image[] = "image://";
	bool is_claim = str_has_prefix(uri, claim);
	const char *name = uri + (is_claim ? strlen(claim) : strlen(image)),
		   *path = text_volume_path(uri);
	size_t len = (size_t)(path - name);
	_cleanup_(json_decrefp) json_t *source =
		is_claim ? json_pack("{s:s%, s:b}", "claimName", name, len, "readOnly", 1)
			 : json_pack("{s:s%}", "reference", name, len);
	const char *kind = is_claim ? "persistentVolumeClaim" : "image";
	char full[32];
	json_t *v;
	size_t i;

	assert(is_claim || str_has_prefix(uri, image));
	*ret_sub = path[0] && path[1] ? path + 1 : NULL;
	json_array_foreach(
		b->volumes, i,
		v) if (json_equal(json_object_get(v, kind),
				  source)) return json_string_value(json_object_get(v, "name"));
	snprintf(full, sizeof(full), "input-%zu", json_array_size(b->volumes));
	add_volume(b, full, kind, json_incref(source));
	v = json_array_get(b->volumes, json_array_size(b->volumes) - 1);
	return json_string_value(json_object_get(v, "name"));
}

/* Over the writable workspace: inputs are in their places, read-only. */
static int mount_inputs(struct pod_build *b, size_t index, struct err *err)
{
	const struct runner_attempt *a = b->job->attempts[index];
	char of_pod[64];

	for (size_t i = 0; i < a->n_inputs; i++) {
		_cleanup_(freep) char *sub = xasprintf("%zu/w/%s", index, a->inputs[i].path),
				      *path = xasprintf(POD_ROOT "/%s", sub);
		const char *volume = KUBE_VOLUME_SHARED, *from = sub, *key = "subPath";

		if (strchr(path, ':'))
			return err_set(err, ERR_INVALID,
				       "input `%s`: Kubernetes can't mount a path with a colon: %s",
				       a->inputs[i].name, a->inputs[i].path);
		if (strlen(path) > KUBE_PATH_MAX)
			return err_set(err, ERR_INVALID, "input `%s`: its path is too long",
				       a->inputs[i].name);
		if (a->inputs[i].volume) {
			volume = input_volume(b, a->inputs[i].volume, &from);
		} else if (a->inputs[i].view) {
			volume = KUBE_VOLUME_CACHE;
			snprintf(of_pod, sizeof(of_pod), "pods/$(" KUBE_ENV_UID ")/%u",
				 a->inputs[i].view);
			from = of_pod;
			key = "subPathExpr";
			b->mounts = true;
		}
		json_array_append_new(b->main_mounts,
				      json_pack("{s:s, s:s, s:s*, s:b}", "name", volume,
						"mountPath", path, key, from, "readOnly", 1));
	}
	return 0;
}

/* The step's volumes. */

static const char *const taken[] = { POD_ROOT,      "/proc",      "/sys",
				     "/dev",        "/etc/cairn", "/var/run/secrets",
				     "/run/secrets" };

static int check_mount(const struct pod_build *b, const char *name, const char *path,
		       struct err *err)
{
	size_t n = strlen(path);

	if (path[0] != '/' || n < 2 || n > KUBE_PATH_MAX || path[n - 1] == '/' ||
	    strchr(path, ':') || strstr(path, "//") || strstr(path, "/./") ||
	    strstr(path, "/../") || str_has_suffix(path, "/..") || str_has_suffix(path, "/."))
		return err_set(err, ERR_INVALID,
			       "volume `%s`: `%.200s` isn't an absolute path that a volume can be "
			       "mounted at",
			       name, path);
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		size_t k = strlen(taken[i]);

		if (strncmp(path, taken[i], k) == 0 && (path[k] == '\0' || path[k] == '/') &&
		    strcmp(path, "/dev/shm") != 0)
			return err_set(err, ERR_INVALID,
				       "volume `%s`: nothing can be mounted below %s: that is "
				       "Cairn's or the system's",
				       name, taken[i]);
	}
	if (is_mounted(b->main_mounts, path))
		return err_set(err, ERR_INVALID, "volume `%s`: there is something else at %s", name,
			       path);
	return 0;
}

/* *ret_kind is the key in a pod's volume. */
static json_t *volume_source(const json_t *v, const char **ret_kind)
{
	const char *text;
	bool read_only = json_is_true(json_object_get(v, "read_only"));

	if ((text = json_string_value(json_object_get(v, "claim")))) {
		*ret_kind = "persistentVolumeClaim";
		return read_only ? json_pack("{s:s, s:b}", "claimName", text, "readOnly", 1)
				 : json_pack("{s:s}", "claimName", text);
	}
	if ((text = json_string_value(json_object_get(v, "config_map")))) {
		*ret_kind = "configMap";
		return json_pack("{s:s}", "name", text);
	}
	if ((text = json_string_value(json_object_get(v, "secret")))) {
		*ret_kind = "secret";
		return json_pack("{s:s, s:i}", "secretName", text, "defaultMode",
				 0440); /* fsGroup makes the group ours */
	}
	*ret_kind = "emptyDir";
	return empty_dir(kube_placement_uint(v, "size_bytes"),
			 json_is_true(json_object_get(v, "memory")));
}

static int add_step_volume(struct pod_build *b, const char *name, const json_t *v, struct err *err)
{
	_cleanup_(freep) char *full = xasprintf("vol-%s", name);
	const char *path, *sub, *kind;
	json_t *mount, *source;

	if (json_get_str(v, "mount", &path, err) < 0 ||
	    json_get_str_opt(v, "sub_path", NULL, &sub, err) < 0)
		return err_wrap(err, "volume `%s`", name);
	if (check_mount(b, name, path, err) < 0)
		return -1;
	source = volume_source(v, &kind);
	add_volume(b, full, kind, source);
	mount = json_pack("{s:s, s:s}", "name", full, "mountPath", path);
	kube_set_str(mount, "subPath", sub);
	if (json_is_true(json_object_get(v, "read_only")))
		json_object_set_new(mount, "readOnly", json_true());
	json_array_append_new(b->main_mounts, mount);
	return 0;
}

/* Memory, temporary files. */

/* A runtime gives 64 MiB: too little for data loaders that pass samples through it, and for
 * collectives. Its content counts as memory of the container. */
static int add_shm(struct pod_build *b, struct err *err)
{
	uint64_t shm = kube_placement_uint(b->placement, "shm_bytes"),
		 memory = b->a->resources.memory_bytes;

	if (shm && is_mounted(b->main_mounts, "/dev/shm"))
		return err_set(err, ERR_INVALID,
			       "`resources.shm`: a volume is mounted at /dev/shm, too");
	if (memory && shm > memory)
		return err_set(
			err, ERR_INVALID,
			"`resources.shm` is more than `resources.memory`, of which it is a part");
	if (is_mounted(b->main_mounts, "/dev/shm") ||
	    (!shm && !b->a->resources.gpus && b->a->on.gang.nodes <= 1))
		return 0;
	add_volume(b, "shm", "emptyDir", empty_dir(shm ? shm : memory / 2, true));
	add_mount(b->main_mounts, "shm", "/dev/shm");
	return 0;
}

/* The sidecar's. */

static void add_sidecar_volumes(struct pod_build *b)
{
	json_t *token;

	add_mount(b->sidecar_mounts, KUBE_VOLUME_SHARED, POD_ROOT);
	add_volume(b, "cairn-tmp", "emptyDir",
		   json_object()); /* private: the program mustn't see its content */
	add_mount(b->sidecar_mounts, "cairn-tmp", "/tmp");
	if (b->p->store_account) { /* a token that identifies the pod to the store's service */
		token = json_pack("{s:s, s:i}", "path", "token", "expirationSeconds", 3600);
		if (str_has_prefix(b->p->store_uri, "s3://"))
			kube_set_str(token, "audience", "sts.amazonaws.com");
		add_volume(b, "store-token", "projected",
			   json_pack("{s:[{s:o}]}", "sources", "serviceAccountToken", token));
		add_read_only(b->sidecar_mounts, "store-token", "/var/run/secrets/cairn");
	}
	if (b->p->store_ca) {
		add_volume(b, "store-ca", "configMap", json_pack("{s:s}", "name", b->p->store_ca));
		add_read_only(b->sidecar_mounts, "store-ca", "/etc/cairn/ca");
	}
	/* If the node's directory isn't there, it is made, as root's: the sidecar then goes on
	 * without it. With another type the pod would wait for it. */
	if (b->p->cache_path)
		add_volume(b, KUBE_VOLUME_CACHE, "hostPath",
			   json_pack("{s:s, s:s}", "path", b->p->cache_path, "type",
				     "DirectoryOrCreate"));
	else if (b->p->cache_claim)
		add_volume(b, KUBE_VOLUME_CACHE, "persistentVolumeClaim",
			   json_pack("{s:s}", "claimName", b->p->cache_claim));
	if (b->p->cache_path || b->p->cache_claim)
		add_mount(b->sidecar_mounts, KUBE_VOLUME_CACHE, KUBE_CACHE);
	if (b->p->store_claim) {
		add_volume(b, "store", "persistentVolumeClaim",
			   json_pack("{s:s}", "claimName", b->p->store_claim));
		add_mount(b->sidecar_mounts, "store", b->p->store_uri);
	}
}

/* The default token of an account in every pod; here only when the step asks for it. */
static void add_account_token(struct pod_build *b)
{
	json_t *sources;

	if (!json_is_true(json_object_get(b->placement, "token")))
		return;
	sources = json_pack("[{s:{s:s, s:i}}, {s:{s:s, s:[{s:s, s:s}]}}, {s:{s:[{s:s, s:{s:s}}]}}]",
			    "serviceAccountToken", "path", "token", "expirationSeconds", 3607,
			    "configMap", "name", "kube-root-ca.crt", "items", "key", "ca.crt",
			    "path", "ca.crt", "downwardAPI", "items", "path", "namespace",
			    "fieldRef", "fieldPath", "metadata.namespace");
	add_volume(b, KUBE_VOLUME_TOKEN, "projected", json_pack("{s:o}", "sources", sources));
	add_read_only(b->main_mounts, KUBE_VOLUME_TOKEN,
		      "/var/run/secrets/kubernetes.io/serviceaccount");
}

int kube_add_volumes(struct pod_build *b, struct err *err)
{
	json_t *of_step = json_object_get(b->placement, "volumes"), *v;
	const char *name;

	add_volume(b, KUBE_VOLUME_SHARED, "emptyDir",
		   empty_dir(kube_placement_uint(b->placement, "disk_bytes"), false));
	add_mount(b->main_mounts, KUBE_VOLUME_SHARED, POD_ROOT);
	for (size_t i = 0; i < b->per_pod; i++)
		if (mount_inputs(b, i, err) < 0)
			return -1;
	json_object_foreach(of_step, name, v)
	{
		if (add_step_volume(b, name, v, err) < 0)
			return -1;
	}
	if (add_shm(b, err) < 0)
		return -1;
	if (!is_mounted(b->main_mounts, "/tmp")) {
		add_volume(b, "tmp", "emptyDir", json_object());
		add_mount(b->main_mounts, "tmp", "/tmp");
	}
	add_account_token(b);
	add_sidecar_volumes(b);
	return 0;
}
