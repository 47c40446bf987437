/* A key record out of the database: every fact stays inside of the bytes. */
#include <assert.h>
#include <stdlib.h>
#include "plan/key/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key_fact *facts;
	size_t n;

	if (key_record_decode(data, size, &facts, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct content_id id;
		const char *path;

		assert(facts[i].name >= (const char *)data &&
		       facts[i].value + facts[i].value_len <= (const char *)data + size);
		if (key_fact_content(&facts[i], &path, &id))
			assert(strlen(path) < facts[i].value_len);
		assert(key_fact_kind_name(facts[i].kind));
	}
	free(facts);
	return 0;
}
