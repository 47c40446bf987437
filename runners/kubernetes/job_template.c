/* The pod templates of cairn.yaml and the step, merged into the pod that was made; and that what it works by is still there then. */
#include "runners/kubernetes/job_internal.h"
#include "runners/kubernetes/merge.h"

static json_t *find_named(const json_t *list, const char *name, size_t *ret_at)
{
	json_t *item;
	size_t i;

	json_array_foreach (list, i, item) {
		const char *s = json_string_value(json_object_get(item, "name"));

		if (s && strcmp(s, name) == 0) {
			*ret_at = i;
			return item;
		}
	}
	return NULL;
}

/* Nobody may start before it: it lays out what they work on, and is told to end after them. */
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

static int check_same(const json_t *before, const json_t *after, const char *const *keys, size_t n, const char *what, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		json_t *a = json_object_get(before, keys[i]), *b = json_object_get(after, keys[i]);

		if (a != b && !json_equal(a, b))
			return err_set(err, ERR_INVALID, "it changes `%s` of %s, by which Cairn works", keys[i], what);
	}
	return 0;
}

static int check_container(const json_t *before, const json_t *after, const char *list, const char *name, struct err *err)
{
	static const char *const keys[] = { "command", "args", "restartPolicy", "startupProbe", "workingDir", "terminationMessagePath", "terminationMessagePolicy", "lifecycle" };
	size_t at = 0, n_keys = ARRAY_LEN(keys) - str_eq(name, KUBE_MAIN); /* main may have hooks */
	const json_t *was = find_named(json_object_get(before, list), name, &at), *is = find_named(json_object_get(after, list), name, &at);
	char what[64];

	snprintf(what, sizeof(what), "the container `%s`", name);
	if (!is)
		return err_set(err, ERR_INVALID, "it removes %s", what);
	if (!find_named(json_object_get(is, "volumeMounts"), KUBE_VOLUME_SHARED, &at))
		return err_set(err, ERR_INVALID, "it removes the volume `" KUBE_VOLUME_SHARED "` from %s", what);
	return check_same(was, is, keys, n_keys, what, err);
}

static int check_labels(const json_t *before, const json_t *after, struct err *err)
{
	static const char *const keys[] = { KUBE_LABEL_MANAGED, KUBE_LABEL_PROJECT, KUBE_LABEL_RUN, KUBE_LABEL_STEP, KUBE_LABEL_ATTEMPT };

	return check_same(json_object_get(before, "labels"), json_object_get(after, "labels"), keys, ARRAY_LEN(keys), "the labels", err);
}

static int check_works(const json_t *before, const json_t *after, struct err *err)
{
	static const char *const keys[] = { "restartPolicy", "subdomain", "hostname", "automountServiceAccountToken" };
	const json_t *was = json_object_get(before, "spec"), *is = json_object_get(after, "spec");

	if (check_same(was, is, keys, ARRAY_LEN(keys), "the pod", err) < 0 || check_container(was, is, "initContainers", KUBE_SIDECAR, err) < 0 ||
	    check_container(was, is, "containers", KUBE_MAIN, err) < 0)
		return -1;
	return check_labels(json_object_get(before, "metadata"), json_object_get(after, "metadata"), err);
}

int kube_merge_templates(const struct pod_build *b, json_t *template, struct err *err)
{
	_cleanup_(json_decrefp) json_t *before = NULL;
	const json_t *templates = json_object_get(b->placement, "pod_templates");
	json_t *t;
	size_t i;

	if (json_array_size(templates) == 0)
		return 0;
	before = json_deep_copy(template);
	json_array_foreach (templates, i, t)
		if (kube_merge_template(template, t, err) < 0)
			return err_wrap(err, "`kubernetes.pod_template`");
	put_sidecar_first(json_object_get(template, "spec"));
	if (check_works(before, template, err) < 0)
		return err_wrap(err, "`kubernetes.pod_template`");
	return 0;
}
