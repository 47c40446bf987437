/* runners/kubernetes/job/merge.c — kubectl's `patch --type=strategic`, for the types in a pod
 * template.
 *
 * merge_map() walks patch and object together and knows the current shape. Which lists are merged,
 * and by which key, depends on the field: `fields` lists those of the API's types (patchStrategy
 * and patchMergeKey in k8s.io/api). Other lists are replaced.
 *
 * A list is merged in three steps: directives remove items (take_directives()), the others are
 * merged or added (merge_objects()), and the result is put in kubectl's order (put_in_order()).
 * That order is the patch's. Items that only the object has come in between: each stands before the
 * first patched item that followed it in the object.
 *
 * template.c decides what a template may change. Pure; after an error the object is half merged,
 * and callers drop it. Recursion is as deep as the patch, which its parser bounds.
 */
#include "runners/kubernetes/job/merge.h"
#include <string.h>

enum shape { SHAPE_OTHER, SHAPE_TEMPLATE, SHAPE_META, SHAPE_POD, SHAPE_CONTAINER };

static const struct field {
	enum shape of;
	const char *name;
	enum shape is;   /* shape of the value, or of a list's items */
	const char *key; /* of a merged list; "" when its items are plain values */
} fields[] = {
	{ SHAPE_TEMPLATE, "metadata", SHAPE_META, NULL },
	{ SHAPE_TEMPLATE, "spec", SHAPE_POD, NULL },
	{ SHAPE_META, "finalizers", SHAPE_OTHER, "" },
	{ SHAPE_META, "ownerReferences", SHAPE_OTHER, "uid" },
	{ SHAPE_POD, "containers", SHAPE_CONTAINER, "name" },
	{ SHAPE_POD, "initContainers", SHAPE_CONTAINER, "name" },
	{ SHAPE_POD, "ephemeralContainers", SHAPE_CONTAINER, "name" },
	{ SHAPE_POD, "volumes", SHAPE_OTHER, "name" },
	{ SHAPE_POD, "imagePullSecrets", SHAPE_OTHER, "name" },
	{ SHAPE_POD, "hostAliases", SHAPE_OTHER, "ip" },
	{ SHAPE_POD, "topologySpreadConstraints", SHAPE_OTHER, "topologyKey" },
	{ SHAPE_POD, "schedulingGates", SHAPE_OTHER, "name" },
	{ SHAPE_POD, "resourceClaims", SHAPE_OTHER, "name" },
	{ SHAPE_CONTAINER, "env", SHAPE_OTHER, "name" },
	{ SHAPE_CONTAINER, "ports", SHAPE_OTHER, "containerPort" },
	{ SHAPE_CONTAINER, "volumeMounts", SHAPE_OTHER, "mountPath" },
	{ SHAPE_CONTAINER, "volumeDevices", SHAPE_OTHER, "devicePath" },
};
static const struct field unknown = { SHAPE_OTHER, NULL, SHAPE_OTHER, NULL };

static const struct field *find_field(enum shape of, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].of == of && strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return &unknown;
}

static int merge_map(json_t *into, const json_t *patch, enum shape shape, struct err *err);

/* Directives. */

enum directive { DIRECTIVE_NONE, DIRECTIVE_REPLACE, DIRECTIVE_DELETE };

/* -1: unknown, or not allowed here. */
static int directive_of(const json_t *patch, enum directive *ret, struct err *err)
{
	const json_t *v = json_object_get(patch, "$patch");
	const char *text = json_string_value(v);

	*ret = DIRECTIVE_NONE;
	if (!v || (text && strcmp(text, "merge") == 0))
		return 0;
	if (text && strcmp(text, "replace") == 0)
		*ret = DIRECTIVE_REPLACE;
	else if (text && strcmp(text, "delete") == 0)
		*ret = DIRECTIVE_DELETE;
	else
		return err_set(err, ERR_INVALID, "`$patch` must be replace, delete or merge");
	return 0;
}

/* The items of a list that isn't merged, unchanged. New reference. */
static int plain_copy(const json_t *patch, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *out = NULL;
	json_t *v, *copy = NULL;
	size_t i;

	if (json_is_object(patch)) {
		out = json_object();
		if (merge_map(out, patch, SHAPE_OTHER, err) < 0)
			return -1;
	} else if (json_is_array(patch)) {
		out = json_array();
		json_array_foreach(patch, i, v)
		{
			if (plain_copy(v, &copy, err) < 0)
				return -1;
			json_array_append_new(out, copy);
		}
	} else {
		out = json_copy((json_t *)patch);
	}
	*ret = TAKE_PTR(out);
	return 0;
}

/* For a union: removes members that the patch doesn't name. */
static int retain_keys(json_t *into, const json_t *patch, struct err *err)
{
	const json_t *keep = json_object_get(patch, "$retainKeys");
	const char *key;
	json_t *v, *name;
	void *next;
	size_t i;

	if (!keep)
		return 0;
	if (!json_is_array(keep))
		return err_set(err, ERR_INVALID, "`$retainKeys` must be a list");
	json_object_foreach_safe(into, next, key, v)
	{
		bool kept = false;

		json_array_foreach(keep, i, name) kept |=
			json_is_string(name) && strcmp(json_string_value(name), key) == 0;
		if (!kept)
			json_object_del(into, key);
	}
	return 0;
}

/* Lists. */

/* The index; SIZE_MAX: there is none. */
static size_t find_by_key(const json_t *list, const char *key, const json_t *value)
{
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item) if (json_equal(json_object_get(item, key),
							 (json_t *)value)) return i;
	return SIZE_MAX;
}

/* Applies the patch's directives to `into`: they remove some items, or all. The patch's other items
 * go into *ret (borrowed). */
static int take_directives(json_t *into, const json_t *patch, const char *key, json_t *ret,
			   struct err *err)
{
	enum directive d;
	bool replace = false;
	json_t *item;
	size_t i;

	json_array_foreach(patch, i, item)
	{
		const json_t *value = json_object_get(item, key);

		if (!json_is_object(item))
			return err_set(err, ERR_INVALID,
				       "[%zu]: an item must be an object with `%s`, not %s", i, key,
				       json_describe(item));
		if (directive_of(item, &d, err) < 0)
			return err_wrap(err, "[%zu]", i);
		replace |= d == DIRECTIVE_REPLACE;
		if ((!value || json_is_null(value)) && d != DIRECTIVE_REPLACE)
			return err_set(err, ERR_INVALID,
				       "[%zu] has no `%s`, which identifies an item", i, key);
		if (d == DIRECTIVE_DELETE)
			for (size_t at; (at = find_by_key(into, key, value)) != SIZE_MAX;)
				json_array_remove(into, at);
		else if (d == DIRECTIVE_NONE)
			json_array_append(ret, item);
	}
	if (replace)
		json_array_clear(into);
	return 0;
}

/* Sorts the merged list `into` in kubectl's order. `before`: the keys' order in the object;
 * `patch`: in the patch. */
static void put_in_order(json_t *into, const json_t *before, const json_t *patch, const char *key)
{
	_cleanup_(json_decrefp) json_t *only = json_array(), *patched = json_array(),
				       *out = json_array();
	json_t *item;
	size_t i = 0, k = 0;

	json_array_foreach(into, i, item) if (find_by_key(patch, key, json_object_get(item, key)) ==
					      SIZE_MAX) json_array_append(only, item);
	json_array_foreach(patch, i, item)
	{
		size_t at = find_by_key(into, key, json_object_get(item, key));

		if (find_by_key(patched, key, json_object_get(item, key)) == SIZE_MAX)
			json_array_append(patched, json_array_get(into, at));
	}
	for (i = k = 0; i < json_array_size(only) || k < json_array_size(patched);) {
		size_t left =
			find_by_key(before, key, json_object_get(json_array_get(only, i), key));
		size_t right =
			find_by_key(before, key, json_object_get(json_array_get(patched, k), key));
		bool first = k == json_array_size(patched) ||
			     (i < json_array_size(only) && left != SIZE_MAX && right != SIZE_MAX &&
			      left < right);

		json_array_append(out,
				  first ? json_array_get(only, i++) : json_array_get(patched, k++));
	}
	json_array_clear(into);
	json_array_extend(into, out);
}

static int merge_objects(json_t *into, const json_t *patch, const struct field *f, struct err *err)
{
	_cleanup_(json_decrefp) json_t *items = json_array(), *before = NULL;
	json_t *item;
	size_t i;

	if (take_directives(into, patch, f->key, items, err) < 0)
		return -1;
	before = json_copy(into);
	json_array_foreach(items, i, item)
	{
		const json_t *value = json_object_get(item, f->key);
		const char *name = json_string_value(value);
		json_t *have = json_array_get(into, find_by_key(into, f->key, value));

		if (!have)
			json_array_append_new(into, have = json_object());
		if (merge_map(have, item, f->is, err) < 0)
			return name ? err_wrap(err, "[%s=%.60s]", f->key, name)
				    : err_wrap(err, "[%zu]", i);
	}
	put_in_order(into, before, items, f->key);
	return 0;
}

/* Maps. */

static int merge_member(json_t *into, const char *key, const json_t *v, const struct field *f,
			struct err *err)
{
	json_t *have = json_object_get(into, key), *copy = NULL;
	enum directive d;

	if (json_is_null(v)) {
		json_object_del(into, key);
		return 0;
	}
	if (json_is_object(v) && !json_is_object(have)) {
		if (directive_of(v, &d, err) < 0)
			return -1;
		if (d == DIRECTIVE_DELETE)
			return 0;
		json_object_set_new(into, key, have = json_object());
	}
	if (json_is_object(v))
		return merge_map(have, v, f->is, err);
	if (json_is_array(v) && f->key && *f->key) {
		if (!json_is_array(have))
			json_object_set_new(
				into, key, have = json_array()); /* its items may have directives */
		return merge_objects(have, v, f, err);
	}
	if (json_is_array(v) && json_is_array(have) && f->key) {
		json_array_add_new(have, v);
		return 0;
	}
	if (plain_copy(v, &copy, err) < 0)
		return -1;
	json_object_set_new(into, key, copy);
	return 0;
}

static int merge_map(json_t *into, const json_t *patch, enum shape shape, struct err *err)
{
	enum directive d;
	const char *key;
	json_t *v;

	if (directive_of(patch, &d, err) < 0)
		return -1;
	if (d != DIRECTIVE_NONE)
		json_object_clear(into);
	if (d == DIRECTIVE_DELETE)
		return 0;
	if (retain_keys(into, patch, err) < 0)
		return -1;
	json_object_foreach((json_t *)patch, key, v)
	{
		if (strcmp(key, "$patch") == 0 || strcmp(key, "$retainKeys") == 0)
			continue;
		if (*key == '$')
			return err_set(err, ERR_INVALID,
				       "`%.80s` has no meaning here: directives are $patch and "
				       "$retainKeys",
				       key);
		if (merge_member(into, key, v, find_field(shape, key), err) < 0)
			return err_wrap(err, "%.80s", key);
	}
	return 0;
}

int kube_merge_template(json_t *into, const json_t *patch, struct err *err)
{
	if (!json_is_object(patch))
		return err_set(err, ERR_INVALID, "a pod template must be an object, not %s",
			       json_describe(patch));
	return merge_map(into, patch, SHAPE_TEMPLATE, err);
}
