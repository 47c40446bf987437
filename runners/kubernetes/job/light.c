/* runners/kubernetes/job/light.c — the ConfigMaps of light pods, and their results.
 *
 * The workspace of each attempt is laid out in a temporary directory, as it would be on this
 * machine, and packed. A result is unpacked into such a directory, from which the outputs are taken
 * as from a local workspace: the same checks, the same bytes. Both have limits before anything is
 * read: inputs by staging->takes(), results by the message's length.
 *
 * Names of ConfigMaps hold the digest of their content. So one that an earlier engine left, for
 * other attempts under the same Job's name, is never taken for ours.
 *
 * Any thread; no state. requests.c makes the objects, end.c asks for results.
 */
#include "runners/kubernetes/job/light.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/crypto/base64.h"
#include "base/os/fs.h"
#include "runners/kubernetes/init/light.h"
#include "runners/kubernetes/job/internal.h"

/* A ConfigMap has at most 1 MiB, but etcd keeps those of all Jobs that wait or run. */
#define PLANS_MAX   (128 * KIB)
#define PROGRAM_MAX (1000 * KIB)
/* More names than that aren't small, and each output is looked at. */
#define OUTPUTS_MAX 64

bool kube_light_suits(const struct kube_profile *p, const struct runner_attempt *a,
		      const struct kube_light_program *program)
{
	_cleanup_(json_decrefp) json_t *placement = NULL;
	const char *arch;

	if (!program->bytes || program->n > PROGRAM_MAX || !a->on.small || a->number > 1 ||
	    a->on.gang.nodes > 1 || a->on.pack > 1 || a->checkpoint_path || a->series_path ||
	    a->n_outputs > OUTPUTS_MAX ||
	    kube_placement_join(p->placement, a->on.placement_json, &placement, NULL) < 0)
		return false;
	for (size_t i = 0; i < a->n_inputs; i++)
		if (a->inputs[i].volume)
			return false;
	arch = json_string_value(
		json_object_get(json_object_get(placement, "node_selector"), "kubernetes.io/arch"));
	return str_eq(arch ? arch : p->arch, program->arch) &&
	       kube_kind_is_job(kube_job_kind(p, a)) &&
	       json_array_size(json_object_get(placement, "pod_templates")) == 0;
}

/* ConfigMaps. */

static json_t *base64(const void *bytes, size_t n)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	base64_add(&text, bytes, n);
	return json_stringn(text.s ? text.s : "", text.len);
}

/* Labels and annotations as every object's, because policies may demand them. */
static json_t *config_map(const struct pod_build *b, const char *name, json_t *data)
{
	json_t *meta = kube_metadata(b);

	json_object_set_new(meta, "name", json_string(name));
	return json_pack("{s:s, s:s, s:o, s:b, s:o}", "apiVersion", "v1", "kind", "ConfigMap",
			 "metadata", meta, "immutable", 1, "binaryData", data);
}

json_t *kube_light_program(const struct kube_profile *p, const struct kube_light_program *program,
			   struct kube_light *ret)
{
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	digest_bytes(program->bytes, program->n, &d);
	snprintf(ret->program, sizeof(ret->program), "cairn-init-%.16s", digest_hex(&d, hex));
	return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:b, s:{s:o}}", "apiVersion", "v1",
			 "kind", "ConfigMap", "metadata", "name", ret->program, "namespace",
			 p->namespace_, "labels", KUBE_LABEL_MANAGED, "cairn", "immutable", 1,
			 "binaryData", "cairn-init", base64(program->bytes, program->n));
}

/* A directory that goes with its scope. */
struct scratch {
	char *path;
	int fd;
};

static void scratch_deinit(struct scratch *s)
{
	if (s->path)
		(void)fs_remove_tree(s->path, NULL);
	free(s->path);
	fd_closep(&s->fd);
}

static int scratch_make(struct scratch *ret, struct err *err)
{
	const char *dir = getenv("TMPDIR");

	ret->path = xasprintf("%s/cairn-light-XXXXXX", dir && *dir == '/' ? dir : "/tmp");
	if (!mkdtemp(ret->path)) {
		err_errno(err, "cannot make %s", ret->path);
		free(ret->path);
		ret->path = NULL;
		return -1;
	}
	ret->fd = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ret->fd < 0 ? err_errno(err, "cannot open %s", ret->path) : 0;
}

static int are_large(const struct runner_attempt *a, const struct runner_staging *s,
		     struct err *err)
{
	bool large = false;
	int r = a->code ? s->takes(s->arg, a->code, PLANS_MAX, &large, err) : 0;

	for (size_t i = 0; i < a->n_inputs && r == 0 && !large; i++)
		r = s->takes(s->arg, &a->inputs[i].id, PLANS_MAX, &large, err);
	return r < 0 ? -1 : large;
}

static int pack_workspace(const struct runner_attempt *a, const struct runner_staging *s,
			  struct parcel *out, struct err *err)
{
	_cleanup_(scratch_deinit) struct scratch w = { .fd = -1 };
	struct runner_placing placing = { .want = RUNNER_PLACE_COPIES };
	int r = are_large(a, s, err);

	if (r != 0)
		return r;
	if (scratch_make(&w, err) < 0 || s->prepare(s->arg, a, w.fd, &placing, err) < 0)
		return -1;
	r = parcel_add_all(out, w.fd);
	return r < 0 ? err_errno(err, "packing the workspace of %s", a->task) : r;
}

static int add_plan(const struct runner_attempt *a, const struct runner_staging *s,
		    struct arena *arena, struct str *bytes, struct str *ret, struct err *err)
{
	struct parcel workspace = { .bytes = bytes, .max = PLANS_MAX };
	const char *outputs[OUTPUTS_MAX + 2];
	struct init_program program;
	size_t n = 0;
	int r = pack_workspace(a, s, &workspace, err);

	for (size_t i = 0; i < a->n_outputs; i++)
		outputs[n++] = a->outputs[i].path;
	if (a->metrics_path)
		outputs[n++] = a->metrics_path;
	outputs[n] = NULL;
	if (r == 0) {
		pod_program(a, POD_ROOT, 0, NULL, arena, &program);
		light_plan_encode(&program, outputs, &workspace.entries, ret);
	}
	str_deinit(&workspace.entries);
	return r;
}

int kube_light_plans(const struct kube_job *j, const struct runner_staging *staging,
		     struct kube_light *ret_names, json_t **ret, struct err *err)
{
	_cleanup_(kube_build_deinit) struct pod_build b = { 0 };
	_cleanup_(json_decrefp) json_t *data = json_object();
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 }, all = { 0 };
	char index[24], hex[DIGEST_HEX_MAX];
	struct digest d;

	for (size_t i = 0; i < j->n; i++) {
		_cleanup_(str_deinit) struct str plan = { 0 };
		int r = add_plan(j->attempts[i], staging, arena, &bytes, &plan, err);

		if (r != 0)
			return r;
		str_add_field(&all, plan.s, plan.len);
		if (all.len + bytes.len > PLANS_MAX)
			return 1;
		snprintf(index, sizeof(index), "%zu", i);
		json_object_set_new(data, index, base64(plan.s, plan.len));
	}
	str_addn(&all, bytes.s, bytes.len);
	json_object_set_new(data, LIGHT_BYTES, base64(bytes.s, bytes.len));
	if (kube_build_init(&b, j, err) < 0)
		return -1;
	digest_bytes(all.s, all.len, &d);
	snprintf(ret_names->plans, sizeof(ret_names->plans), "%s-%.12s", b.name,
		 digest_hex(&d, hex));
	*ret = config_map(&b, ret_names->plans, json_incref(data));
	return 0;
}

/* Results. */

static void fail(struct pod_result *p, enum failure_class class, const struct err *e)
{
	p->r.failure = class;
	p->r.err = *e;
	p->n_outputs = 0;
}

/* As the sidecar does (engine/pod/collect.c). */
static void take_outputs(const struct light_result *l, const struct runner_attempt *a,
			 const struct runner_staging *s, struct arena *arena, struct pod_result *p)
{
	_cleanup_(scratch_deinit) struct scratch w = { .fd = -1 };
	struct content_id *ids = arena_alloc(arena, (a->n_outputs + 1) * sizeof(*ids));
	_cleanup_(str_deinit) struct str metrics = { 0 };
	struct err e = { 0 };
	int r = scratch_make(&w, &e);
	bool theirs;

	if (r == 0 && parcel_lay(w.fd, l->entries, l->n_entries, l->bytes, l->n_bytes) < 0)
		r = err_errno(&e, "unpacking what the program left");
	if (r == 0 && a->metrics_path)
		r = pod_metrics_read(w.fd, a->metrics_path, &metrics, &e);
	if (r == 0)
		r = s->collect(s->arg, a, w.fd, RUNNER_PLACE_COPIES, ids, &e);
	if (r < 0) {
		theirs = e.code == ERR_NOT_FOUND || e.code == ERR_INVALID ||
			 e.code == ERR_TOO_LARGE || e.code == ERR_CHANGED;
		fail(p, theirs ? FAILURE_OUTPUT : FAILURE_STORE, &e);
		return;
	}
	p->r.outputs = ids;
	p->n_outputs = a->n_outputs;
	if (a->metrics_path)
		p->r.metrics_json = arena_strdup(arena, metrics.s);
}

int kube_light_take(const char *message, const struct runner_attempt *a,
		    const struct runner_staging *staging, struct arena *arena,
		    struct kube_light_result *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str raw = { 0 };
	struct err e = { 0 };
	struct light_result l;
	const size_t skip = strlen(LIGHT_PREFIX);
	const char *kept;

	*ret = (struct kube_light_result){ .result = { .attempt_id = a->id } };
	if (!str_has_prefix(message, LIGHT_PREFIX) ||
	    base64_decode(&raw, message + skip, strlen(message + skip), NULL) < 0)
		return err_set(err, ERR_INVALID, "the pod's result was not written by cairn");
	kept = arena_memdup(arena, raw.s ? raw.s : "", raw.len + 1);
	if (light_result_decode(kept, raw.len, &l) < 0)
		return err_set(err, ERR_INVALID, "the pod's result is malformed");
	pod_result_take_exit(&ret->result, &l.exit, a->timeout_ns);
	ret->log = l.log;
	ret->n_log = l.n_log;
	ret->log_bytes = l.log_bytes;
	if (ret->result.r.failure != FAILURE_NONE)
		return 0;
	if (l.too_large) {
		err_set(&e, ERR_TOO_LARGE,
			"it left more than fits into the message of a pod without a sidecar; the "
			"next attempt has one");
		fail(&ret->result, FAILURE_LOST, &e);
		return 0;
	}
	take_outputs(&l, a, staging, arena, &ret->result);
	return 0;
}
