/* runners/kubernetes/job/placement.c — where pods run: joins the settings of cairn.yaml and the
 * step, and makes labels, annotations, selectors, tolerations and affinity from them.
 *
 * kube_placement_join() lays the step's settings over cairn.yaml's. A value replaces one, with
 * three exceptions: maps and lists that say more together are joined (`joined_maps`,
 * `joined_lists`), and of pod templates each is kept, to be laid over the others in their order
 * (template.c).
 *
 * kube_place() then adds ours: the processor of the image, tolerations by which a lost node is
 * given up sooner, what the cloud's pools want (cloud.c), and a preference for nodes that hold the
 * inputs. Labels and annotations by which we find our objects can't be set by anybody else.
 *
 * Everything is pure; any thread.
 */
#include "runners/kubernetes/job/internal.h"

#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"

static const char *const joined_maps[] = { "labels", "annotations", "node_selector", "extended",
					   "volumes" };
static const char *const joined_lists[] = { "tolerations", "env_from", "image_pull_secrets" };

static void overlay(json_t *into, const char *key, json_t *v)
{
	json_t *have = json_object_get(into, key);

	if (strcmp(key, "pod_template") == 0) {
		if (!(have = json_object_get(into, "pod_templates")))
			json_object_set_new(into, "pod_templates", have = json_array());
		json_array_append(have, v);
	} else if (have && json_is_object(have) && json_is_object(v) &&
		   text_is_one_of(key, joined_maps, ARRAY_LEN(joined_maps))) {
		json_object_update(have, v);
	} else if (have && json_is_array(have) && json_is_array(v) &&
		   text_is_one_of(key, joined_lists, ARRAY_LEN(joined_lists))) {
		json_array_add_new(have, v);
	} else {
		json_object_set(into, key, v);
	}
}

int kube_placement_join(const json_t *defaults, const char *placement_json, json_t **ret,
			struct err *err)
{
	_cleanup_(json_decrefp) json_t *own = NULL, *first = NULL, *out = json_object();
	const char *key;
	json_t *v;

	if (placement_json &&
	    json_parse("placement", placement_json, strlen(placement_json), &own, err) < 0)
		return -1;
	if ((own && !json_is_object(own)) || (defaults && !json_is_object(defaults)))
		return err_set(err, ERR_INVALID, "a step's placement must be an object");
	first = json_deep_copy(defaults); /* a copy, because it changes below; NULL stays NULL */
	json_object_foreach(first, key, v) overlay(out, key, v);
	json_object_foreach(own, key, v) overlay(out, key, v);
	*ret = TAKE_PTR(out);
	return 0;
}

const char *kube_placement_str(const json_t *placement, const char *key)
{
	return json_string_value(json_object_get(placement, key));
}

uint64_t kube_placement_uint(const json_t *placement, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(placement, key));

	return v > 0 ? (uint64_t)v : 0;
}

int kube_placement_kind(const json_t *placement, const struct runner_attempt *a,
			const struct kube_kind **ret, struct err *err)
{
	const char *as = kube_placement_str(placement, "as");
	const struct kube_kind *kind = as ? kube_kind_of(as) : kube_kinds;

	if (!kind)
		return err_set(err, ERR_INVALID, "`kubernetes.as`: there is no kind `%.60s`", as);
	kind = kube_kind_takes(kind, a->on.gang.nodes) ? kind : kube_kinds;
	/* Only a Job's controller replaces pods as we need it. */
	if (a->on.gang.min_nodes && !kube_kind_is_job(kind))
		return err_set(err, ERR_INVALID,
			       "`kubernetes.as: %s` needs a fixed number of nodes; give this step, "
			       "which has `nodes: {min, max}`, `kubernetes: {as: job}`",
			       as);
	*ret = kind;
	return 0;
}

int kube_placement_check_kind(const json_t *placement, const char *store_account,
			      const struct kube_kind *kind, struct err *err)
{
	bool account = kube_placement_str(placement, "service_account") || store_account,
	     token = json_is_true(json_object_get(placement, "token"));

	if (!kind->needs_account || (account && token))
		return 0;
	return err_set(err, ERR_INVALID, "`kubernetes.as: %s`: %s, so the step needs %s%s%s",
		       kind->as, kind->needs_account,
		       account ? ""
			       : "`service_account: NAME`, an account that may create, get, list, "
				 "watch and delete pods, services and config maps",
		       account || token ? "" : ", and ",
		       token ? "" : "`token: true`, with which the program can use its account");
}

int kube_job_check_kind(const struct kube_profile *p, const struct runner_attempt *a,
			struct err *err)
{
	_cleanup_(json_decrefp) json_t *placement = NULL;
	const struct kube_kind *kind;

	if (kube_placement_join(p->placement, a->on.placement_json, &placement, err) < 0 ||
	    kube_placement_kind(placement, a, &kind, err) < 0)
		return -1;
	return kube_placement_check_kind(placement, p->store_account, kind, err);
}

/* Of a step with one node: only the step itself can name such a kind. */
static bool names_kind(const struct runner_attempt *a)
{
	return a->on.placement_json && strstr(a->on.placement_json, "\"as\"");
}

const struct kube_kind *kube_job_kind(const struct kube_profile *p, const struct runner_attempt *a)
{
	_cleanup_(json_decrefp) json_t *placement = NULL;
	const struct kube_kind *kind = kube_kinds;

	if ((a->on.gang.nodes <= 1 && !names_kind(a)) ||
	    kube_placement_join(p->placement, a->on.placement_json, &placement, NULL) < 0 ||
	    kube_placement_kind(placement, a, &kind, NULL) < 0)
		return kube_kinds;
	return kind;
}

/* Into the pod. */

json_t *kube_object_in(json_t *o, const char *key)
{
	if (!json_is_object(json_object_get(o, key)))
		json_object_set_new(o, key, json_object());
	return json_object_get(o, key);
}

/* Refuses our own keys: they tell to whom a pod belongs. */
static int add_notes(json_t *into, const json_t *from, const char *what, struct err *err)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)from, key, v)
	{
		if (str_has_prefix(key, "cairn.internal/") ||
		    strcmp(key, KUBE_LABEL_MANAGED) == 0 ||
		    str_has_prefix(key, "batch.kubernetes.io/"))
			return err_set(err, ERR_INVALID,
				       "`kubernetes.%s`: `%s` is set by Cairn or Kubernetes itself",
				       what, key);
		if (!str_has_prefix(key, "kueue.x-k8s.io/")) /* a queue admits the Job, so its pods
								must not queue again */
			json_object_set(into, key, v);
	}
	return 0;
}

/* A lost node's pods are deleted after a minute, not after Kubernetes' five. */
static void add_tolerations(struct pod_build *b)
{
	static const char *const keys[] = { "node.kubernetes.io/not-ready",
					    "node.kubernetes.io/unreachable" };
	json_t *own = json_object_get(b->placement, "tolerations");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		json_array_append_new(b->tolerations,
				      json_pack("{s:s, s:s, s:s, s:i}", "key", keys[i], "operator",
						"Exists", "effect", "NoExecute",
						"tolerationSeconds", KUBE_TOLERATE_S));
	json_array_add_new(b->tolerations, own);
}

/* Nodes that hold inputs already: a preference for each, as strong as the part of the inputs that
 * it has, of all attempts of the Job together. A node's name can only be asked for as a field, one
 * in a term; labels with it are only a custom. */
static void prefer_near(struct pod_build *b)
{
	_cleanup_(json_decrefp) json_t *sums = json_object();
	const char *node, *best;
	json_t *sum, *list, *affinity;

	for (size_t i = 0; i < b->job->n; i++)
		for (size_t k = 0; k < b->job->attempts[i]->on.n_near; k++) {
			const struct runner_near *near = &b->job->attempts[i]->on.near[k];

			json_object_set_new(
				sums, near->node,
				json_integer(json_integer_value(json_object_get(sums, near->node)) +
					     near->weight));
		}
	if (json_object_size(sums) == 0)
		return;
	if (!b->affinity)
		b->affinity = json_object();
	affinity = kube_object_in(b->affinity, "nodeAffinity");
	if (!json_is_array(json_object_get(affinity, PREFERRED)))
		json_object_set_new(affinity, PREFERRED, json_array());
	list = json_object_get(affinity, PREFERRED);
	for (size_t i = 0; i < RUNNER_NEAR_MAX && json_object_size(sums); i++) {
		json_int_t most = -1;

		best = NULL;
		json_object_foreach(sums, node, sum)
		{
			if (json_integer_value(sum) > most) {
				most = json_integer_value(sum);
				best = node;
			}
		}
		json_array_append_new(list,
				      json_pack("{s:I, s:{s:[{s:s, s:s, s:[s]}]}}", "weight",
						MAX(most / (json_int_t)b->job->n, 1), "preference",
						"matchFields", "key", "metadata.name", "operator",
						"In", "values", best));
		json_object_del(sums, best);
	}
}

int kube_place(struct pod_build *b, struct err *err)
{
	const json_t *selector = json_object_get(b->placement, "node_selector"),
		     *affinity = json_object_get(b->placement, "affinity");

	if (add_notes(b->labels, json_object_get(b->placement, "labels"), "labels", err) < 0 ||
	    add_notes(b->annotations, json_object_get(b->placement, "annotations"), "annotations",
		      err) < 0)
		return -1;
	if (b->p->arch) /* the key promises a platform; a step's own choice wins */
		kube_set_str(b->selector, "kubernetes.io/arch", b->p->arch);
	if (selector)
		json_object_update(b->selector, (json_t *)selector);
	if (json_is_object(affinity))
		b->affinity = json_deep_copy(affinity);
	add_tolerations(b);
	kube_place_first_node_first(b);
	prefer_near(b);
	return kube_place_cloud(b, err);
}
