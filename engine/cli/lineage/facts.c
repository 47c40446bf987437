/* engine/cli/lineage/facts.c — what the records hold besides the edges.
 *
 * Two parts. lineage_facts_read() decodes from a key record what people want to see: params, seed,
 * tools, code, built-in step. A database that was rebuilt has no key records; then there are no
 * facts, and that is no error.
 *
 * lineage_affected() lists the outputs that a walk down reached, with the names of runs that hold
 * them. Names are of runs, not of outputs, so note_tags() reads the tasks of every named run and
 * marks the outputs that it shares. All names are read: a limit would make a named output look
 * nameless.
 *
 * Invariant: two attempts that made the same content share one struct content_names. Each named run
 * is read into an arena of its own, since there may be one every night.
 */
#include <assert.h>
#include <string.h>
#include "cli/lineage/lineage.h"
#include "model/expr/value.h"
#include "plan/key/key.h"
#include "record/rows/tags.h"
#include "storage/action.h"

/* Keys. */

static void take_fact(struct cli *cli, const struct key_fact *f, struct lineage_facts *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(freep) char *name = xstrndup(f->name, f->name_len);
	const char *path;

	if (f->kind == KEY_PARAM || f->kind == KEY_SEED) {
		value_canonical_text(f->value, f->value_len, &text);
		json_object_set_new(ret->params, f->kind == KEY_SEED ? "(seed)" : name,
				    json_name(text.s ? text.s : "", text.len));
	} else if (f->kind == KEY_TOOL) {
		json_object_set_new(
			ret->tools, name,
			json_name(f->value, MIN(strcspn(f->value, "\n"), f->value_len)));
	} else if (f->kind == KEY_BUILTIN) {
		ret->builtin = arena_printf(cli->arena, "%.*s %.*s", (int)f->name_len, f->name,
					    (int)MIN(f->value_len, 20), f->value);
	} else if (f->kind == KEY_CODE) {
		ret->has_code = key_fact_content(f, &path, &ret->code);
	}
}

int lineage_facts_read(struct cli *cli, struct db *db, const struct digest *key,
		       struct lineage_facts *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(freep) struct key_fact *facts = NULL;
	struct err why = { 0 };
	size_t n;

	*ret = (struct lineage_facts){ .params = json_object(), .tools = json_object() };
	/* A database that was rebuilt has no key records: then there are no facts. */
	if (record_key_bytes(db, key, &bytes, &why) < 0 ||
	    key_record_decode(bytes.s, bytes.len, &facts, &n, &why) < 0) {
		if (why.code != ERR_IO)
			return 0;
		lineage_facts_deinit(ret);
		return err_pass(err, &why);
	}
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

/* Names of runs that hold what is affected. */

/* Of one content, which several attempts may have made. */
struct content_names {
	struct str text;  /* "a, b, c" */
	const char *last; /* the name that was added last */
	const char *kept; /* the text in the arena */
};

/* Notes that a run with this name has the output, whether it made it or took it from the cache. */
static void note_tag(const struct map *by_digest, const struct content_id *output, const char *tag)
{
	struct content_names *c = map_get(by_digest, output->digest.b, DIGEST_BYTES);

	if (!c || c->last == tag)
		return;
	str_addf(&c->text, "%s%s", c->text.len ? ", " : "", tag);
	c->last = tag;
}

/* Reads all names: with a limit, a named output could look nameless. */
static int note_tags(struct cli *cli, struct db *db, const struct map *by_digest, struct err *err)
{
	struct tag_row *tags;
	struct store *s = NULL;
	struct err why = { 0 };
	size_t n, n_tasks;

	if (record_tags(db, NULL, cli->arena, &tags, &n, err) < 0)
		return -1;
	if (n && cli_store(cli, false, &s, &why) < 0)
		cli_warn(cli, "names of runs can't be read: %s", why.msg);
	for (size_t i = 0; i < n && s; i++) {
		_cleanup_(arena_freep) struct arena *arena =
			arena_new(); /* there may be a name for every night */
		struct facts_task *tasks;
		struct run_row run;
		char hex[DIGEST_HEX_MAX];

		/* A run that only another project has on record, or whose table is gone, can't be
		 * read.
		 */
		if (record_find_run(db, digest_hex(&tags[i].run, hex), arena, &run, NULL) < 0 ||
		    facts_read_tasks(db, s, &run, arena, &tasks, &n_tasks, NULL) < 0)
			continue;
		for (size_t t = 0; t < n_tasks; t++)
			for (size_t k = 0; k < tasks[t].n_outputs; k++)
				note_tag(by_digest, &tasks[t].outputs[k].id, tags[i].name);
	}
	return 0;
}

int lineage_affected(struct cli *cli, struct db *db, const struct lineage_graph *g,
		     struct affected **ret, size_t *ret_n, struct err *err)
{
	struct affected *v = arena_alloc(cli->arena, (g->edges.n + 1) * sizeof(*v));
	_cleanup_(freep) struct content_names *names = xcalloc(g->edges.n + 1, sizeof(*names));
	_cleanup_(map_freep) struct map *by_digest = map_new();
	size_t n = 0, n_names = 0;
	int r;

	assert(g->direction == LINEAGE_DOWN);
	for (size_t i = 0; i < g->edges.n; i++) {
		const struct lineage_node *from = &g->nodes.v[g->edges.v[i].from],
					  *to = &g->nodes.v[g->edges.v[i].to];
		bool is_new;
		void **slot;

		if (!from->is_attempt)
			continue;
		v[n] = (struct affected){ from, g->edges.v[i].name,
					  arena_memdup(cli->arena, &to->id, sizeof(to->id)), "" };
		slot = map_slot(by_digest, v[n++].id->digest.b, DIGEST_BYTES, &is_new);
		if (is_new)
			*slot = &names[n_names++];
	}
	r = n ? note_tags(cli, db, by_digest, err) : 0;
	for (size_t i = 0; i < n; i++) {
		struct content_names *c = map_get(by_digest, v[i].id->digest.b, DIGEST_BYTES);

		if (!c->kept)
			c->kept = c->text.len ? arena_strdup(cli->arena, c->text.s) : "";
		v[i].tags = c->kept;
	}
	for (size_t i = 0; i < n_names; i++)
		str_deinit(&names[i].text);
	*ret = v;
	*ret_n = n;
	return r;
}
