/* engine/model/step/placement.c — reads where a step runs on a cluster into one JSON object, and
 * reports what no cluster would accept.
 *
 * The table `placement_keys` has a reader for each key of `kubernetes`; volumes and resources have
 * their own entry points. Names are checked against the rules of Kubernetes for objects and labels.
 * Parts that go to the cluster unchanged (affinity, topology_spread, pod_template) are copied by
 * yaml_to_json(), and only their outer keys are checked. Nothing may depend on an expression: the
 * object is the same for all tasks of a step.
 *
 * A template must not reach the store's credentials in the sidecar. What the file itself shows is
 * refused here, at its line, and the rest when the pod is made (runners/kubernetes/job/template.c).
 * Readers only set keys of the object; step_placement.c layers the objects of the defaults, the
 * step file and the step.
 */
#include "model/step/placement.h"
#include <assert.h>
#include "base/text/yaml_json.h"
#include "model/read.h"

#define LABEL_VALUE_MAX 63
#define ANNOTATION_MAX  (64 * KIB)
/* More pods of one operator are a typing error. */
#define WORKERS_MAX     10000
#define OBJECT_NAME_MAX 253

/* Names and texts. */

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* [a-z0-9]([a-z0-9.-]*[a-z0-9])?, RFC 1123. */
static bool is_object_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((is_alnum(s[i]) && !(s[i] >= 'A' && s[i] <= 'Z')) ||
		      (strchr("-.", s[i]) && i > 0 && i + 1 < n)))
			return false;
	return n > 0 && n <= OBJECT_NAME_MAX;
}

/* Letters, digits, `-`, `_` and `.`, the first and the last a letter or digit: a label's value
 * (also empty), or its name. */
static bool is_label_text(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_alnum(s[i]) && !(strchr("-_.", s[i]) && i > 0 && i + 1 < n))
			return false;
	return n <= LABEL_VALUE_MAX;
}

/* [prefix/]name */
static bool is_label_key(const char *s)
{
	const char *slash = strchr(s, '/'), *name = slash ? slash + 1 : s;

	return (!slash || is_object_name(s, (size_t)(slash - s))) && *name &&
	       is_label_text(name, strlen(name));
}

static bool has_expression(const struct doc *d, const struct yaml_node *n, const char *what)
{
	if (n->kind != YAML_KIND_SCALAR || !template_text_has_expr(n->text, n->len))
		return false;
	doc_error(d, n, "%s can't depend on expressions", what);
	return true;
}

bool placement_read_name(const struct doc *d, const struct yaml_node *n, const char *what,
			 const char **ret)
{
	if (!doc_want_scalar(d, n, what) || has_expression(d, n, what))
		return false;
	if (!is_object_name(n->text, n->len)) {
		doc_error(d, n,
			  "%s: `%.80s` can't be the name of an object: use lower-case letters, "
			  "digits, `-` and `.`, with a letter or digit at both ends",
			  what, n->text);
		return false;
	}
	*ret = doc_text(d, n);
	return true;
}

static void set_text(json_t *into, const char *key, const struct yaml_node *n)
{
	json_object_set_new(into, key, json_stringn(n->text, n->len));
}

/* For parts that go to the cluster unchanged: no expression may stand anywhere in them. */
static bool is_literal(const struct doc *d, const struct yaml_node *n, const char *what)
{
	bool ok = true;

	if (n->kind == YAML_KIND_SEQ)
		for (size_t i = 0; i < n->len; i++)
			ok &= is_literal(d, n->items[i], what);
	else if (n->kind == YAML_KIND_MAP)
		for (size_t i = 0; i < n->len; i++)
			ok &= is_literal(d, n->pairs[i].value, what);
	else
		ok = !has_expression(d, n, what);
	return ok;
}

/* The keys of `kubernetes`. */

struct placement_key {
	const char *name;
	void (*read)(const struct doc *d, const struct yaml_node *n, const char *key, json_t *into);
};

static void read_object_name(const struct doc *d, const struct yaml_node *n, const char *key,
			     json_t *into)
{
	char what[64];
	const char *name;

	snprintf(what, sizeof(what), "`%s`", key);
	if (placement_read_name(d, n, what, &name))
		json_object_set_new(into, key, json_string(name));
}

static void read_object_names(const struct doc *d, const struct yaml_node *n, const char *key,
			      json_t *into)
{
	json_t *list;
	char what[64];
	const char *name;

	snprintf(what, sizeof(what), "`%s`", key);
	if (!doc_want_list(d, n, what))
		return;
	list = json_array();
	for (size_t i = 0; i < n->len; i++)
		if (placement_read_name(d, n->items[i], what, &name))
			json_array_append_new(list, json_string(name));
	json_object_set_new(into, key, list);
}

/* Numbers and booleans are allowed as values; in the cluster they are text. */
static void read_text_map(const struct doc *d, const struct yaml_node *n, const char *key,
			  json_t *into)
{
	bool notes = strcmp(key, "annotations") == 0;
	json_t *map;
	char what[64];

	snprintf(what, sizeof(what), "`%s`", key);
	if (!doc_want_map(d, n, what))
		return;
	map = json_object();
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *k = n->pairs[i].key, *v = n->pairs[i].value;

		if (!is_label_key(k->text))
			doc_error(d, k,
				  "%s: `%.80s` can't be a key: [prefix/]name, at most 63 letters, "
				  "digits, `-`, `_` and `.`",
				  what, k->text);
		else if (str_has_prefix(k->text, "cairn.internal/") ||
			 str_has_prefix(k->text, "batch.kubernetes.io/"))
			doc_error(d, k, "%s: `%.80s` is set by Cairn or Kubernetes itself", what,
				  k->text);
		else if (v->kind != YAML_KIND_SCALAR || yaml_is_null(v))
			doc_error(d, v, "%s: a value must be text, not %s", what, yaml_describe(v));
		else if (notes ? v->len > ANNOTATION_MAX : !is_label_text(v->text, v->len))
			doc_error(d, v,
				  notes ? "%s: the value is too long"
					: "%s: a value has at most 63 letters, digits, `-`, `_` "
					  "and `.`",
				  what);
		else if (!has_expression(d, v, what))
			set_text(map, k->text, v);
	}
	json_object_set_new(into, key, map);
}

static void read_toleration(const struct doc *d, const struct yaml_node *n, json_t *list)
{
	static const char *const keys[] = { "key", "operator", "value", "effect",
					    "tolerationSeconds" };
	static const char *const operators[] = { "Exists", "Equal" };
	static const char *const effects[] = { "NoSchedule", "PreferNoSchedule", "NoExecute" };
	const struct yaml_node *v, *value;
	const char *operator_ = "Equal", *effect = NULL;
	int64_t seconds;
	json_t *t;

	if (!doc_want_map(d, n, "a toleration"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	t = json_object();
	if ((v = yaml_get(n, "key")) && doc_want_scalar(d, v, "`key`") &&
	    !has_expression(d, v, "`key`"))
		set_text(t, "key", v);
	if ((v = yaml_get(n, "operator")) &&
	    read_choice(d, v, "`operator`", operators, ARRAY_LEN(operators), &operator_))
		set_text(t, "operator", v);
	if ((value = yaml_get(n, "value")) && doc_want_scalar(d, value, "`value`") &&
	    !has_expression(d, value, "`value`"))
		set_text(t, "value", value);
	if ((v = yaml_get(n, "effect")) &&
	    read_choice(d, v, "`effect`", effects, ARRAY_LEN(effects), &effect))
		set_text(t, "effect", v);
	if ((v = yaml_get(n, "tolerationSeconds")) &&
	    read_count(d, v, "`tolerationSeconds`", 0, INT32_MAX, &seconds))
		json_object_set_new(t, "tolerationSeconds", json_integer(seconds));
	if (strcmp(operator_, "Exists") == 0 && value)
		doc_error(d, value, "a toleration with `operator: Exists` has no `value`");
	if (strcmp(operator_, "Equal") == 0 && !yaml_get(n, "key"))
		doc_error(d, n, "a toleration has a `key`, or `operator: Exists` for all");
	json_array_append_new(list, t);
}

static void read_tolerations(const struct doc *d, const struct yaml_node *n, const char *key,
			     json_t *into)
{
	json_t *list;

	if (!doc_want_list(d, n, "`tolerations`"))
		return;
	list = json_array();
	for (size_t i = 0; i < n->len; i++)
		read_toleration(d, n->items[i], list);
	json_object_set_new(into, key, list);
}

static void read_affinity(const struct doc *d, const struct yaml_node *n, const char *key,
			  json_t *into)
{
	static const char *const keys[] = { "nodeAffinity", "podAffinity", "podAntiAffinity" };

	if (!doc_want_map(d, n, "`affinity`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	for (size_t i = 0; i < n->len; i++)
		doc_want_map(d, n->pairs[i].value, "an affinity");
	if (is_literal(d, n, "`affinity`"))
		json_object_set_new(into, key, yaml_to_json(n));
}

static void read_spread(const struct doc *d, const struct yaml_node *n, const char *key,
			json_t *into)
{
	static const char *const keys[] = { "maxSkew",           "topologyKey",
					    "whenUnsatisfiable", "labelSelector",
					    "minDomains",        "nodeAffinityPolicy",
					    "nodeTaintsPolicy",  "matchLabelKeys" };

	if (!doc_want_list(d, n, "`topology_spread`"))
		return;
	for (size_t i = 0; i < n->len; i++) {
		if (!doc_want_map(d, n->items[i], "an item of `topology_spread`"))
			continue;
		doc_check_keys(d, n->items[i], keys, ARRAY_LEN(keys));
		for (size_t k = 0; k < 3; k++)
			if (!yaml_get(n->items[i], keys[k]))
				doc_error(d, n->items[i],
					  "an item of `topology_spread` has no `%s`", keys[k]);
	}
	if (is_literal(d, n, "`topology_spread`"))
		json_object_set_new(into, key, yaml_to_json(n));
}

/* The runner's table of kinds has the same names (runners/kubernetes/job/kind.c):
 * tests/unit/runners/test_job.c compares it with the schema, and schema_parity the schema with
 * this.
 */
static void read_as(const struct doc *d, const struct yaml_node *n, const char *key, json_t *into)
{
	static const char *const kinds[] = { "job",    "pytorchjob",      "tfjob",  "xgboostjob",
					     "jaxjob", "mpijob",          "jobset", "trainjob",
					     "rayjob", "sparkapplication" };
	const char *as;

	if (read_choice(d, n, "`as`", kinds, ARRAY_LEN(kinds), &as))
		json_object_set_new(into, key, json_string(as));
}

bool placement_kind_has_workers(const char *as)
{
	return str_eq(as, "rayjob") || str_eq(as, "sparkapplication");
}

void placement_check_shared(const struct doc *d, const struct yaml_node *n, const char *where)
{
	const struct yaml_node *as = yaml_get(n, "as"), *workers = yaml_get(n, "workers");

	if (as && as->kind == YAML_KIND_SCALAR && placement_kind_has_workers(as->text))
		doc_error(
			d, as,
			"in %s `as` is for steps over several nodes: name `%.40s` at the step that "
			"starts it",
			where, as->text);
	if (workers)
		doc_error(d, workers, "in %s there is no `workers`: it goes with `as` at a step",
			  where);
}

static void read_workers(const struct doc *d, const struct yaml_node *n, const char *key,
			 json_t *into)
{
	int64_t workers;

	if (read_count(d, n, "`workers`", 1, WORKERS_MAX, &workers))
		json_object_set_new(into, key, json_integer(workers));
}

static void read_token(const struct doc *d, const struct yaml_node *n, const char *key,
		       json_t *into)
{
	bool token = false;

	read_bool(d, n, "`token`", &token);
	json_object_set_new(into, key, json_boolean(token));
}

/* Refuses, at its line, what no cairn.yaml can allow; the rest is checked against the whole pod
 * (job/template.c). */
static void check_template_spec(const struct doc *d, const struct yaml_node *spec)
{
	static const char *const shared[] = { "shareProcessNamespace", "hostPID" };
	const struct yaml_node *list = yaml_get(spec, "initContainers"), *v;

	for (size_t i = 0; i < ARRAY_LEN(shared); i++)
		if ((v = yaml_get(spec, shared[i])) && !str_eq(v->text, "false"))
			doc_error(
				d, v,
				"`%s` would let a program read the store's credentials out of the "
				"sidecar",
				shared[i]);
	for (size_t i = 0; list && list->kind == YAML_KIND_SEQ && i < list->len; i++) {
		const struct yaml_node *c = list->items[i];

		if (c->kind != YAML_KIND_MAP || !(v = yaml_get(c, "name")) ||
		    !str_eq(v->text, "cairn"))
			continue;
		for (size_t k = 0; k < c->len; k++)
			if (!str_eq(c->pairs[k].key->text, "name") &&
			    !str_eq(c->pairs[k].key->text, "resources"))
				doc_error(
					d, c->pairs[k].key,
					"a template can't change `%.60s` of Cairn's own container, "
					"which has the store's credentials",
					c->pairs[k].key->text);
	}
}

static void read_template_object(const struct doc *d, const struct yaml_node *n, const char *key,
				 json_t *into)
{
	static const char *const keys[] = { "metadata", "spec" };

	if (!doc_want_map(d, n, "`pod_template`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	for (size_t i = 0; i < n->len; i++)
		if (doc_want_map(d, n->pairs[i].value, "`metadata` or `spec` of a pod template") &&
		    str_eq(n->pairs[i].key->text, "spec"))
			check_template_spec(d, n->pairs[i].value);
	if (is_literal(d, n, "`pod_template`"))
		json_object_set_new(into, key, yaml_to_json(n));
}

static const struct placement_key placement_keys[] = {
	{ "affinity", read_affinity },
	{ "annotations", read_text_map },
	{ "as", read_as },
	{ "env_from", read_object_names },
	{ "image_pull_secrets", read_object_names },
	{ "labels", read_text_map },
	{ "node_selector", read_text_map },
	{ "pod_template", read_template_object },
	{ "priority_class", read_object_name },
	{ "queue", read_object_name },
	{ "runtime_class", read_object_name },
	{ "service_account", read_object_name },
	{ "token", read_token },
	{ "tolerations", read_tolerations },
	{ "topology_spread", read_spread },
	{ "workers", read_workers },
};

#define OTHERS_MAX 32

void placement_read_kubernetes(const struct doc *d, const struct yaml_node *n,
			       const char *const *others, size_t n_others, json_t *into)
{
	const char *names[ARRAY_LEN(placement_keys) + OTHERS_MAX];
	size_t n_names = 0;

	if (!doc_want_map(d, n, "`kubernetes`"))
		return;
	for (size_t i = 0; i < ARRAY_LEN(placement_keys); i++)
		names[n_names++] = placement_keys[i].name;
	assert(n_others <= OTHERS_MAX);
	for (size_t i = 0; i < n_others; i++)
		names[n_names++] = others[i];
	doc_check_keys(d, n, names, n_names);
	for (size_t i = 0; i < ARRAY_LEN(placement_keys); i++) {
		const struct yaml_node *v = yaml_get(n, placement_keys[i].name);

		if (v)
			placement_keys[i].read(d, v, placement_keys[i].name, into);
	}
}

/* Volumes. */

static void read_size(const struct doc *d, const struct yaml_node *n, const char *what,
		      const char *key, json_t *into)
{
	uint64_t bytes;

	if (!read_bytes(d, n, what, &bytes))
		return;
	if (bytes == 0 || bytes > INT64_MAX)
		doc_error(d, n, "%s must be more than 0", what);
	else
		json_object_set_new(into, key, json_integer((json_int_t)bytes));
}

/* Reads the kind of the volume: one of four. */
static void read_source(const struct doc *d, const struct yaml_node *name,
			const struct yaml_node *n, json_t *into)
{
	static const char *const kinds[] = { "claim", "config_map", "secret", "size" };
	const struct yaml_node *v, *found = NULL;
	bool memory = false;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (!(v = yaml_get(n, kinds[i])))
			continue;
		if (found)
			doc_error(d, v,
				  "volume `%.60s` is more than one thing: it has one of claim, "
				  "config_map, secret and size",
				  name->text);
		found = v;
		if (strcmp(kinds[i], "size") == 0)
			read_size(d, v, "`size`", "size_bytes", into);
		else
			read_object_name(d, v, kinds[i], into);
	}
	if (!found)
		doc_error(d, name,
			  "volume `%.60s` has no `claim`, `config_map`, `secret` or `size`",
			  name->text);
	if (!(v = yaml_get(n, "memory")))
		return;
	read_bool(d, v, "`memory`", &memory);
	if (memory && found && !yaml_get(n, "size"))
		doc_error(d, v, "`memory` goes with `size`: an empty directory in memory");
	json_object_set_new(into, "memory", json_boolean(memory));
}

static json_t *read_volume(const struct doc *d, const struct yaml_node *name,
			   const struct yaml_node *n)
{
	static const char *const keys[] = { "claim",  "config_map", "secret",   "size",
					    "memory", "mount",      "sub_path", "read_only" };
	const struct yaml_node *v;
	bool read_only = false;
	json_t *j = json_object();

	if (!doc_want_map(d, n, "a volume"))
		return j;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	read_source(d, name, n, j);
	if (!(v = yaml_get(n, "mount"))) {
		doc_error(d, name, "volume `%.60s` has no `mount`", name->text);
	} else if (doc_want_text(d, v, "`mount`") && !has_expression(d, v, "`mount`")) {
		if (v->text[0] == '/' && v->text[1] && !strchr(v->text, ':'))
			set_text(j, "mount", v);
		else
			doc_error(d, v,
				  "`mount` must be an absolute path in the container, such as "
				  "/scratch");
	}
	if ((v = yaml_get(n, "sub_path")) && doc_want_text(d, v, "`sub_path`") &&
	    !has_expression(d, v, "`sub_path`")) {
		if (v->text[0] == '/' || strcmp(v->text, "..") == 0 ||
		    str_has_prefix(v->text, "../") || str_has_suffix(v->text, "/..") ||
		    strstr(v->text, "/../"))
			doc_error(d, v, "`sub_path` must be a path inside the volume");
		else
			set_text(j, "sub_path", v);
	}
	if ((v = yaml_get(n, "read_only")))
		read_bool(d, v, "`read_only`", &read_only);
	if (read_only)
		json_object_set_new(j, "read_only", json_true());
	return j;
}

void placement_read_volumes(const struct doc *d, const struct yaml_node *n, json_t *into)
{
	json_t *all;

	if (!doc_want_map(d, n, "`volumes`"))
		return;
	all = json_object();
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;

		if (doc_check_name(d, key, NAME_PIPELINE, "volume") &&
		    key->text[key->len - 1] == '-')
			doc_error(d, key, "volume `%.60s`: the name can't end in `-`", key->text);
		json_object_set_new(all, key->text, read_volume(d, key, n->pairs[i].value));
	}
	json_object_set_new(into, "volumes", all);
}

/* Resources. */

static void read_gpu_type(const struct doc *d, const struct yaml_node *n, json_t *into)
{
	if (!doc_want_text(d, n, "`gpu_type`") || has_expression(d, n, "`gpu_type`"))
		return;
	if (!is_label_key(n->text))
		doc_error(d, n,
			  "`gpu_type`: `%.80s` is neither a resource, such as "
			  "nvidia.com/mig-1g.10gb or "
			  "amd.com/gpu, nor a product, such as nvidia-l4",
			  n->text);
	else
		set_text(into, "gpu_type", n);
}

static void read_extended(const struct doc *d, const struct yaml_node *key,
			  const struct yaml_node *n, json_t *into)
{
	json_t *all = json_object_get(into, "extended");
	char what[LABEL_VALUE_MAX + 4];
	int64_t v;

	snprintf(what, sizeof(what), "`%.60s`", key->text);
	if (!is_label_key(key->text)) {
		doc_error(d, key, "`%.80s` can't be the name of a resource: domain/name",
			  key->text);
		return;
	}
	if (!read_count(d, n, what, 1, 1000000, &v))
		return;
	if (!all)
		json_object_set_new(into, "extended", all = json_object());
	json_object_set_new(all, key->text, json_integer(v));
}

bool placement_read_resource(const struct doc *d, const struct yaml_node *key,
			     const struct yaml_node *value, json_t *into)
{
	if (strcmp(key->text, "gpu_type") == 0)
		read_gpu_type(d, value, into);
	else if (strcmp(key->text, "shm") == 0)
		read_size(d, value, "`shm`", "shm_bytes", into);
	else if (strcmp(key->text, "disk") == 0)
		read_size(d, value, "`disk`", "disk_bytes", into);
	else if (strchr(key->text, '/'))
		read_extended(d, key, value, into);
	else
		return false;
	return true;
}

void placement_drop_resources(json_t *placement)
{
	static const char *const keys[] = { "gpu_type", "shm_bytes", "disk_bytes", "extended" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		json_object_del(placement, keys[i]);
}

const char *placement_arch(const json_t *placement)
{
	return json_string_value(
		json_object_get(json_object_get(placement, "node_selector"), "kubernetes.io/arch"));
}
