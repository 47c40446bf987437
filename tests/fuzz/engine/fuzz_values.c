/* A `values` file, from bytes: what is read is written as JSON that reads back as the same, and
 * every path that the bytes name is found or told. */
#include <assert.h>
#include <string.h>
#include "plan/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *arena = arena_new();
	struct str json = { 0 }, canonical = { 0 }, text = { 0 };
	struct value v, again;
	const struct value *found;
	struct err err = { 0 };
	const char *eol = memchr(data, '\n', size); /* a path before the first line's end */
	size_t skip = eol ? (size_t)(eol - (const char *)data) + 1 : 0;

	if (values_parse("v", (const char *)data + skip, size - skip, arena, &v, &err) == 0) {
		value_add_json(&json, &v);
		assert(values_parse("again", json.s, json.len, arena, &again, &err) == 0);
		assert(value_eq(&v, &again));
		value_add_canonical(&canonical, &v);
		value_canonical_text(canonical.s, canonical.len, &text);
		if (skip > 1)
			values_at(&v, arena_strndup(arena, (const char *)data, skip - 1), &found,
				  &err);
		values_hold(&v, "a secret");
	}
	str_deinit(&json);
	str_deinit(&canonical);
	str_deinit(&text);
	arena_free(arena);
	return 0;
}
