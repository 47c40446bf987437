/* What the records say beside the edges: what a key was made of, and which names hold what is affected. */
#include "cli/lineage.h"
#include "model/value.h"
#include "plan/key.h"
#include "record/tags.h"
#include "storage/action.h"

#define TAGS_MAX 500 /* runs with a name whose results are looked through */

/* --- keys ------------------------------------------------------------------------------------------------------------------------ */

static void set_text(json_t *o, const struct key_fact *f, const char *value, size_t n)
{
	char *name = xstrndup(f->name, f->name_len);

	json_object_set_new(o, name, json_name(value, n));
	free(name);
}

static void take_fact(struct cli *cli, const struct key_fact *f, struct lineage_facts *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *path;

	if (f->kind == KEY_PARAM || f->kind == KEY_SEED) {
		value_canonical_text(f->value, f->value_len, &text);
		if (f->kind == KEY_SEED)
			json_object_set_new(ret->params, "(seed)", json_name(text.s ? text.s : "", text.len));
		else
			set_text(ret->params, f, text.s ? text.s : "", text.len);
	} else if (f->kind == KEY_TOOL) {
		set_text(ret->tools, f, f->value, strcspn(f->value, "\n") < f->value_len ? strcspn(f->value, "\n") : f->value_len);
	} else if (f->kind == KEY_BUILTIN) {
		ret->builtin = arena_printf(cli->arena, "%.*s %.*s", (int)f->name_len, f->name, (int)MIN(f->value_len, 20), f->value);
	} else if (f->kind == KEY_CODE) {
		ret->has_code = key_fact_content(f, &path, &ret->code);
	}
}

int lineage_facts_read(struct cli *cli, struct db *db, const struct digest *key, struct lineage_facts *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(freep) struct key_fact *facts = NULL;
	struct err why = { 0 };
	size_t n;

	*ret = (struct lineage_facts){ .params = json_object(), .tools = json_object() };
	/* A database that was rebuilt has no key records: nothing is said then. */
	if (record_key_bytes(db, key, &bytes, &why) < 0 || key_record_decode(bytes.s, bytes.len, &facts, &n, &why) < 0)
		return why.code == ERR_IO ? err_set(err, why.code, "%s", why.msg) : 0;
	for (size_t i = 0; i < n; i++)
		take_fact(cli, &facts[i], ret);
	return 0;
}

void lineage_facts_deinit(struct lineage_facts *f)
{
	json_decref(f->params);
	json_decref(f->tools);
	*f = (struct lineage_facts){ 0 };
}

/* --- names that hold what is affected --------------------------------------------------------------------------------------------- */

/* Adds the name to each affected output that the run with it has, whether it made it or took it from the cache. */
static void note_tag(struct cli *cli, const struct tag_row *tag, const struct facts_task *tasks, size_t n_tasks, const struct map *by_digest)
{
	for (size_t t = 0; t < n_tasks; t++)
		for (size_t i = 0; i < tasks[t].n_outputs; i++) {
			const struct content_id *id = &tasks[t].outputs[i].id;
			struct affected *a = map_get(by_digest, id->digest.b, DIGEST_BYTES);

			if (a && !strstr(a->tags, tag->name))
				a->tags = arena_printf(cli->arena, "%s%s%s", a->tags, *a->tags ? ", " : "", tag->name);
		}
}

static int note_tags(struct cli *cli, struct db *db, const struct map *by_digest, struct err *err)
{
	struct tag_row *tags;
	size_t n, n_tasks;

	if (record_tags(db, NULL, cli->arena, &tags, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && i < TAGS_MAX; i++) {
		struct facts_task *tasks;
		struct run_row run;
		char hex[DIGEST_HEX_MAX];

		/* A run that is on record elsewhere only, or whose table is gone, can't be asked. */
		if (record_find_run(db, digest_hex(&tags[i].run, hex), cli->arena, &run, NULL) == 0 && facts_tasks(cli, db, &run, &tasks, &n_tasks, NULL) == 0)
			note_tag(cli, &tags[i], tasks, n_tasks, by_digest);
	}
	return 0;
}

int lineage_affected(struct cli *cli, struct db *db, const struct lineage_graph *g, struct affected **ret, size_t *ret_n, struct err *err)
{
	struct affected *v = arena_alloc(cli->arena, (g->edges.n + 1) * sizeof(*v));
	_cleanup_(map_freep) struct map *by_digest = map_new();
	size_t n = 0;

	for (size_t i = 0; i < g->edges.n; i++) {
		const struct lineage_node *from = &g->nodes.v[g->edges.v[i].from], *to = &g->nodes.v[g->edges.v[i].to];

		if (!from->is_attempt)
			continue;
		v[n] = (struct affected){ from, g->edges.v[i].name, arena_memdup(cli->arena, &to->id, sizeof(to->id)), "" };
		*map_slot(by_digest, to->id.digest.b, DIGEST_BYTES, NULL) = &v[n++];
	}
	*ret = v;
	*ret_n = n;
	return n ? note_tags(cli, db, by_digest, err) : 0;
}
