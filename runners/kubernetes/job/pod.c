/* runners/kubernetes/job/pod.c — the two containers of a pod: `main` and the sidecar.
 *
 * kube_containers() makes both from the build, whose mounts volumes.c has filled in. Each has its
 * image, command, environment, resources and the security context that `restricted` requires
 * (container()).
 *
 * The sidecar gets the store's credentials by envFrom. Its postStart hook keeps `main` from
 * starting before the helper is in place. `main` gets the steps' secrets only as references
 * (add_secrets()), so the object contains no secret value. "$(" in an environment value is doubled,
 * because Kubernetes would replace it. For packed attempts the pod requests the most that any of
 * them needs.
 */
#include "base/map.h"
#include "runners/kubernetes/job/internal.h"

/* Measured: at most 18 MiB for a few bytes, 54 for a GiB; 2 GiB are fetched and stored within 64.
 */
#define SIDECAR_CPU_MILLI  10
#define SIDECAR_MEMORY     (32 * MIB)
#define SIDECAR_MEMORY_MAX (96 * MIB)
/* For a step without its own setting: every node has room for it, and it may use more if it is
 * free. */
#define MAIN_CPU_MILLI 100
/* The sidecar's readiness shows that the store doesn't answer (engine/pod/pod.c). Short steps end
 * before the first probe. */
#define READY_AFTER_S 30
#define READY_EVERY_S 30

/* Resources. */

static json_t *quantity(uint64_t v)
{
	return json_sprintf("%llu", (unsigned long long)v);
}

/* Sets request and limit to the same value: overcommitted memory or devices would get it killed. */
static void set_both(json_t *resources, const char *name, uint64_t v)
{
	_cleanup_(json_decrefp) json_t *q = quantity(v);

	if (v == 0)
		return;
	json_object_set(json_object_get(resources, "requests"), name, q);
	json_object_set(json_object_get(resources, "limits"), name, q);
}

static json_t *resources_new(uint32_t cpu_milli, uint64_t memory_bytes)
{
	json_t *r = json_pack("{s:{}, s:{}}", "requests", "limits");

	if (cpu_milli)
		json_object_set_new(json_object_get(r, "requests"), "cpu",
				    json_sprintf("%um", cpu_milli));
	set_both(r, "memory", memory_bytes);
	return r;
}

bool kube_gpu_type_is_resource(const char *gpu_type)
{
	return gpu_type && strchr(gpu_type, '/');
}

static int main_resources(const struct pod_build *b, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *r = NULL;
	const struct runner_resources *want = &b->a->resources;
	const char *gpu_type = kube_placement_str(b->placement, "gpu_type"), *name;
	const char *gpu = kube_gpu_type_is_resource(gpu_type) ? gpu_type : "nvidia.com/gpu";
	const json_t *extended = json_object_get(b->placement, "extended");
	uint64_t memory = 0;
	json_t *v;

	for (size_t i = 0; i < b->job->n; i++) /* packed attempts run one after the other */
		memory = MAX(memory, b->job->attempts[i]->resources.memory_bytes);
	r = resources_new(want->cpu_milli ? want->cpu_milli : MAIN_CPU_MILLI, memory);
	set_both(r, "ephemeral-storage", kube_placement_uint(b->placement, "disk_bytes"));
	set_both(r, gpu, want->gpus);
	json_object_foreach((json_t *)extended, name, v)
	{
		if (want->gpus && strcmp(name, gpu) == 0)
			return err_set(err, ERR_INVALID,
				       "`resources` asks for %s twice: as `gpu` and by its name",
				       gpu);
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return err_set(err, ERR_INVALID, "`resources`: %s must be a whole number",
				       name);
		set_both(r, name, (uint64_t)json_integer_value(v));
	}
	if (json_object_size(json_object_get(r, "limits")) == 0)
		json_object_del(r, "limits");
	*ret = TAKE_PTR(r);
	return 0;
}

/* Each pod has a sidecar, so it requests what most of them need. A configured size is also the
 * limit. */
static json_t *sidecar_resources(const struct kube_profile *p)
{
	uint64_t said = p->sidecar.memory_bytes;
	json_t *r = resources_new(p->sidecar.cpu_milli ? p->sidecar.cpu_milli : SIDECAR_CPU_MILLI,
				  said ? said : SIDECAR_MEMORY);

	if (!said)
		json_object_set_new(json_object_get(r, "limits"), "memory",
				    quantity(SIDECAR_MEMORY_MAX));
	return r;
}

/* Environment. */

static void add_env(json_t *env, const char *name, size_t name_len, const char *value)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	for (; *value; value++) { /* "$(X)" would be replaced by the variable X */
		if (value[0] == '$' && value[1] == '(')
			str_addc(&text, '$');
		str_addc(&text, *value);
	}
	json_array_append_new(env, json_pack("{s:s%, s:s}", "name", name, name_len, "value",
					     text.s ? text.s : ""));
}

/* With a service for each pod, its number stands where engine/pod/gang.h wants it. */
static void add_both_env(const struct pod_build *b, json_t *env)
{
	_cleanup_(freep) char *service =
		xasprintf("%s%s", b->service, kube_kind_is_job(b->kind) ? "" : "-%u");

	if (b->a->on.gang.nodes > 1)
		add_env(env, "CAIRN_POD_SERVICE", strlen("CAIRN_POD_SERVICE"), service);
}

/* For the mounts of inputs (volumes.c). The kubelet also replaces it in the sidecar's command. */
static void add_uid(const struct pod_build *b, json_t *env)
{
	if (b->mounts)
		json_array_append_new(env, json_pack("{s:s, s:{s:{s:s}}}", "name", KUBE_ENV_UID,
						     "valueFrom", "fieldRef", "fieldPath",
						     "metadata.uid"));
}

/* Packed attempts may share a secret, which is added once. */
static void add_secrets(const struct pod_build *b, json_t *env)
{
	const char *secret = b->p->secrets ? b->p->secrets : "cairn-secrets";
	struct map *seen = map_new();

	for (size_t i = 0; i < b->job->n; i++)
		for (const char *const *s = b->job->attempts[i]->secrets; s && *s; s++) {
			size_t n = strcspn(*s, "=");
			_cleanup_(freep) char *name = xstrndup(*s, n);

			if (map_has(seen, name, n))
				continue;
			*map_slot(seen, name, n, NULL) = seen;
			json_array_append_new(env, json_pack("{s:s, s:{s:{s:s, s:s}}}", "name",
							     name, "valueFrom", "secretKeyRef",
							     "name", secret, "key", name));
		}
	map_free(seen);
}

static json_t *sidecar_env(const struct pod_build *b)
{
	_cleanup_(str_deinit) struct str spec = { 0 };
	json_t *env = json_array();

	pod_content_write(b->job->spec, &spec);
	add_env(env, "CAIRN_POD_SPEC", strlen("CAIRN_POD_SPEC"), spec.s);
	for (const char *const *e = b->p->store_env; e && *e; e++) {
		size_t n = strcspn(*e, "=");

		add_env(env, *e, n, (*e)[n] ? *e + n + 1 : "");
	}
	if (b->p->store_ca)
		add_env(env, "CAIRN_STORE_CA", strlen("CAIRN_STORE_CA"), KUBE_STORE_CA);
	if (b->p->store_account && str_has_prefix(b->p->store_uri, "s3://"))
		add_env(env, "AWS_WEB_IDENTITY_TOKEN_FILE", strlen("AWS_WEB_IDENTITY_TOKEN_FILE"),
			"/var/run/secrets/cairn/token");
	add_both_env(b, env);
	add_uid(b, env);
	return env;
}

/* Containers. */

/* What is said takes more room than what is left to its default: the API server notes for each
 * field of a pod who has set it. An image without a digest and with the tag `latest` is always
 * pulled by default. */
static json_t *container(const struct pod_build *b, const char *name, const char *image)
{
	json_t *c = json_pack("{s:s, s:s, s:{s:b, s:b, s:{s:[s]}}}", "name", name, "image", image,
			      "securityContext", "allowPrivilegeEscalation", 0,
			      "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL");
	bool pinned = strchr(image, '@') && !strstr(image, ":latest@");

	if (b->p->image_pull_policy || !pinned)
		kube_set_str(c, "imagePullPolicy",
			     b->p->image_pull_policy ? b->p->image_pull_policy : "IfNotPresent");
	return c;
}

static json_t *sidecar_container(const struct pod_build *b)
{
	json_t *c = container(b, KUBE_SIDECAR, b->p->cairn_image);
	int64_t save_ns = b->p->save_ns ? b->p->save_ns : KUBE_SAVE_DEFAULT_NS;

	json_t *command = json_pack("[s, s, s, o]", POD_CAIRN, "pod", "--save-within",
				    json_sprintf("%llds", (long long)(save_ns / NS_PER_S)));

	kube_set_str(c, "restartPolicy", "Always");
	if (b->p->cache_path || b->p->cache_claim) {
		json_array_append_new(command, json_string("--cache"));
		json_array_append_new(command, json_string(KUBE_CACHE));
	}
	if ((b->p->cache_path || b->p->cache_claim) && b->p->cache_bytes) {
		json_array_append_new(command, json_string("--cache-size"));
		json_array_append_new(command, quantity(b->p->cache_bytes));
	}
	if (b->mounts) {
		json_array_append_new(command, json_string("--mount-as"));
		json_array_append_new(command, json_string("$(" KUBE_ENV_UID ")"));
	}
	json_object_set_new(c, "command", command);
	json_object_set_new(c, "env", sidecar_env(b));
	if (b->p->store_secret)
		json_object_set_new(
			c, "envFrom",
			json_pack("[{s:{s:s}}]", "secretRef", "name", b->p->store_secret));
	json_object_set_new(c, "lifecycle",
			    json_pack("{s:{s:{s:[s, s, s]}}}", "postStart", "exec", "command",
				      POD_CAIRN, "pod", "--ready"));
	json_object_set_new(c, "readinessProbe",
			    json_pack("{s:{s:[s, s, s]}, s:i, s:i, s:i, s:i}", "exec", "command",
				      POD_CAIRN, "pod", "--well", "initialDelaySeconds",
				      READY_AFTER_S, "periodSeconds", READY_EVERY_S,
				      "timeoutSeconds", 10, "failureThreshold", 1));
	json_object_set_new(c, "resources", sidecar_resources(b->p));
	json_object_set_new(c, "volumeMounts", json_deep_copy(b->sidecar_mounts));
	return c;
}

static int main_container(const struct pod_build *b, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *c =
		container(b, KUBE_MAIN, b->a->on.image ? b->a->on.image : b->p->cairn_image);
	const json_t *env_from = json_object_get(b->placement, "env_from");
	char dir[64];
	json_t *resources = NULL, *env, *list, *name;
	size_t i;

	if (main_resources(b, &resources, err) < 0)
		return -1;
	snprintf(dir, sizeof(dir), POD_WORKSPACE_FMT, (size_t)0);
	json_object_set_new(c, "command", json_pack("[s]", POD_INIT));
	kube_set_str(c, "workingDir", dir);
	json_object_set_new(c, "env", env = json_array());
	/* The user has no entry in the image's passwd, and `/` can't be written to. */
	add_env(env, "HOME", 4, "/tmp");
	add_both_env(b, env);
	add_uid(b, env);
	add_secrets(b, env);
	json_object_set_new(c, "resources", resources);
	json_object_set_new(c, "volumeMounts", json_deep_copy(b->main_mounts));
	if (json_array_size(env_from)) {
		list = json_array();
		json_array_foreach(env_from, i, name) json_array_append_new(
			list, json_pack("{s:{s:O}}", "secretRef", "name", name));
		json_object_set_new(c, "envFrom", list);
	}
	*ret = TAKE_PTR(c);
	return 0;
}

int kube_containers(struct pod_build *b, json_t **ret_main, json_t **ret_sidecar, struct err *err)
{
	if (main_container(b, ret_main, err) < 0)
		return -1;
	*ret_sidecar = sidecar_container(b);
	return 0;
}
