/* A run manifest from a store, a line of its attempts, a change of a name: what it names is found,
 * or it is refused. */
#include <assert.h>
#include "record/manifest/manifest.h"
#include "record/manifest/tag_store.h"
#include "storage/local/maintain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_content(void *arg, const struct content_id *id)
{
	assert(id->kind == CONTENT_BLOB || id->kind == CONTENT_TREE);
	return 0;
}

static int on_key(void *arg, const struct digest *key)
{
	return 0;
}

static void load(struct store *s, const uint8_t *data, size_t size)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct manifest m;
	struct digest d;

	digest_bytes(data, size, &d);
	if (store_put(s, STORE_RUN, &d, data, size, NULL) < 0 ||
	    manifest_load(s, &d, arena, &m, NULL) < 0)
		return;
	assert(m.run->id && m.run->pipeline && run_state_name(m.run->state));
	for (size_t i = 0; i < m.n_inputs; i++)
		assert(m.inputs[i].name);
	for (size_t i = 0; i < m.n_code; i++)
		assert(m.code[i].step);
	for (size_t i = 0; i < m.n_steps; i++)
		assert(m.steps[i].name);
	for (size_t i = 0; i < m.n_tools; i++)
		assert(m.tools[i].name && m.tools[i].value);
}

/* What was read is written as a line that reads the same. */
static int on_attempt(void *arg, const struct attempt_record *r, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str line = { 0 }, again = { 0 };
	struct attempt_record back;

	assert(r->row.task && r->row.step && r->row.id > 0 && r->row.number > 0 &&
	       (unsigned)r->row.failure < FAILURE_CLASSES);
	for (size_t i = 0; i < r->n_inputs; i++)
		assert(r->inputs[i].name && r->inputs[i].id.kind != CONTENT_NONE);
	attempt_record_encode(r, &line);
	assert(attempt_record_decode(line.s, line.len - 1, arena, &back, NULL) == 0);
	attempt_record_encode(&back, &again);
	assert(line.len == again.len && memcmp(line.s, again.s, line.len) == 0);
	return 0;
}

static void attempts(struct store *s, const uint8_t *data, size_t size)
{
	struct content_id id;

	if (content_put_bytes(s, data, size, &id, NULL) == 0)
		manifest_each_attempt(s, &id, on_attempt, NULL, NULL);
}

static void name_of_run(struct store *s, const uint8_t *data, size_t size)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct tag_row t;
	struct digest d;

	digest_bytes(data, size, &d);
	if (store_put(s, STORE_TAG, &d, data, size, NULL) >= 0 &&
	    tag_store_load(s, &d, arena, &t, NULL) == 0)
		assert(t.name && tag_name_check(t.name, NULL) == 0 && t.at_ns > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct closure_sink sink = { on_content, on_key, NULL };
	_cleanup_(store_freep) struct store *s = NULL;

	if (store_open("memory:", true, &s, NULL) < 0)
		return 0;
	manifest_refs(data, size, on_content, NULL, NULL);
	manifest_walk(s, data, size, &sink, NULL);
	load(s, data, size);
	attempts(s, data, size);
	name_of_run(s, data, size);
	return 0;
}
