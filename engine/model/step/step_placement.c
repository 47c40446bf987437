/* What a step needs of its machine, and where on a cluster it runs (placement.h). */
#include "model/read.h"
#include "model/step/placement.h"

/* Placement. */

/* The placement so far, including the defaults, as an object. It is kept as text, since few steps
 * have one.
 */
static json_t *placement_begin(const struct reader *r)
{
	json_t *j =
		r->s->machine->place.json ? json_loads(r->s->machine->place.json, 0, NULL) : NULL;

	return j ? j : json_object();
}

static void placement_end(struct reader *r, json_t *j)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	json_add_canonical(&text, j);
	r->b->parts->machine.place.json =
		json_object_size(j) ? arena_strdup(r->l->arena, text.s) : NULL;
	json_decref(j);
}

void step_read_spot(struct reader *r, const struct yaml_node *n)
{
	json_t *j = placement_begin(r);
	static const char *const keys[] = { "preempted" };
	const struct yaml_node *v;
	bool spot = false;
	int64_t times;

	json_object_del(j, "spot");
	if (n->kind != YAML_KIND_MAP) {
		read_bool(r->d, n, "`spot`", &spot);
		if (spot)
			json_object_set_new(j, "spot", json_true());
		placement_end(r, j);
		return;
	}
	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	if (!(v = yaml_get(n, "preempted")))
		doc_error(r->d, n,
			  "`spot` needs `preempted`: after so many times it goes to nodes "
			  "that aren't spot");
	else if (read_count(r->d, v, "`preempted`", 1, 1000, &times))
		json_object_set_new(j, "spot", json_pack("{s:I}", "preempted", (json_int_t)times));
	placement_end(r, j);
}

void step_read_volumes(struct reader *r, const struct yaml_node *n)
{
	json_t *j = placement_begin(r);

	json_object_del(j, "volumes");
	placement_read_volumes(r->d, n, j);
	if (json_object_size(json_object_get(j, "volumes")) == 0)
		json_object_del(j, "volumes");
	placement_end(r, j);
}

/* Merges key by key: a step states only what differs from the defaults. */
void step_read_kubernetes(struct reader *r, const struct yaml_node *n)
{
	json_t *j = placement_begin(r);

	placement_read_kubernetes(r->d, n, NULL, 0, j);
	if (r->context == CONTEXT_DEFAULTS)
		placement_check_shared(r->d, n, "`defaults`");
	placement_end(r, j);
}

/* Resources. */

void step_read_resources(struct reader *r, const struct yaml_node *n)
{
	static const char *const names[] = { "cpu", "memory", "gpu", "gpu_type", "shm", "disk" };
	static const enum step_setting which[] = { SETTING_CPU,      SETTING_MEMORY, SETTING_GPU,
						   SETTING_GPU_TYPE, SETTING_SHM,    SETTING_DISK };
	json_t *placement;

	if (!doc_want_map(r->d, n, "`resources`"))
		return;
	placement = placement_begin(r);
	placement_drop_resources(placement);
	r->b->parts->machine.resources = (struct resources_decl){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(which); i++)
		r->b->parts->settings[which[i]] = NULL;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		size_t k = 0;

		while (k < ARRAY_LEN(names) && !str_eq(key->text, names[k]))
			k++;
		if (k < ARRAY_LEN(names))
			setting_read(r, which[k], n->pairs[i].value, placement);
		else if (!placement_read_resource(r->d, key, n->pairs[i].value, placement))
			doc_error(r->d, key, "unknown key `%.60s`%s", key->text,
				  loader_suggest_key(r->l, key->text, names, ARRAY_LEN(names)));
	}
	resources_check(r->d, n, r->s, placement);
	placement_end(r, placement);
}
