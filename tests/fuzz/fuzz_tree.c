/* A tree listing from a store that somebody else wrote: refused or decoded, and what is decoded encodes to the same bytes. */
#include <assert.h>
#include "storage/content.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tree_builder *b;
	struct content_id id;
	struct digest want;
	struct tree *t;

	if (tree_decode(data, size, &t, NULL) < 0)
		return 0;
	b = tree_builder_new();
	for (size_t i = 0; i < tree_len(t); i++)
		assert(tree_builder_add(b, tree_at(t, i), NULL) == 0);
	assert(tree_builder_store(b, NULL, &id, NULL) == 0);
	digest_bytes(data, size, &want);
	assert(digest_eq(&want, &id.digest));
	tree_builder_free(b);
	tree_free(t);
	return 0;
}
