/* Records of objects outside, from bytes: what is accepted is canonical, and says nothing that
 * can't be asked for. */
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "storage/origin/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_reference: %s\n", what);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str again = { 0 };
	struct reference_options o;
	struct reference r;

	if (reference_decode(data, size, arena, &r, NULL) < 0)
		return 0;
	must(*r.uri && *r.version && strlen(r.uri) <= REFERENCE_URI_MAX,
	     "an empty or endless text");
	must(reference_options_parse(r.options, arena, &o), "options that can't be read");
	reference_encode(&r, &again);
	must(again.len == size && memcmp(again.s, data, size) == 0, "it isn't canonical");
	return 0;
}
