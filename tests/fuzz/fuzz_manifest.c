/* A run manifest from a store: what it names is found, or it is refused. */
#include <assert.h>
#include "record/manifest.h"
#include "storage/maintain.h"

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
	if (store_put(s, STORE_RUN, &d, data, size, NULL) < 0 || manifest_load(s, &d, arena, &m, NULL) < 0)
		return;
	assert(m.run->id && m.run->pipeline && run_state_name(m.run->state));
	for (size_t i = 0; i < m.n_inputs; i++)
		assert(m.inputs[i].name);
	for (size_t i = 0; i < m.n_code; i++)
		assert(m.code[i].step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct store_gc_sink sink = { on_content, on_key, NULL };
	_cleanup_(store_freep) struct store *s = NULL;

	if (store_open("memory:", true, &s, NULL) < 0)
		return 0;
	manifest_refs(data, size, on_content, NULL, NULL);
	manifest_walk(s, data, size, &sink, NULL);
	load(s, data, size);
	return 0;
}
