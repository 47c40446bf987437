/* An action record from a shared store: refused or decoded, and what is decoded encodes to the same bytes. */
#include <assert.h>
#include "base/mem.h"
#include "storage/action.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *arena = arena_new();
	struct action_record r;
	struct str again = { 0 };

	if (action_decode(data, size, arena, &r, NULL) == 0) {
		action_encode(&r, &again);
		assert(again.len == size && memcmp(again.s, data, size) == 0);
	}
	str_deinit(&again);
	arena_free(arena);
	return 0;
}
