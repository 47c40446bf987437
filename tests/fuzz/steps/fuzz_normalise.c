/* Normalisers: the first two bytes say how long the first file is. Whatever the bytes are: nothing
 * crashes, the order of the two doesn't change the verdict, a file is never different from itself,
 * and equal after normalisation is named. */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "steps/normalise/normalise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_normalise: %s\n", what);
	abort();
}

static enum normalised_verdict ask(struct span a, struct span b)
{
	struct normalise_job j = { .arena = arena_new(), .bytes_max = 4 * MIB };
	enum normalised_verdict v;
	struct normalised r;

	normalise_spans(&j, a, b, &r);
	v = r.verdict;
	must(v == NORMALISED_NOT || (r.normaliser && *r.normaliser && r.detail),
	     "a verdict without its reason");
	must(j.bytes <= j.bytes_max, "more than allowed was unpacked");
	must(j.depth == 0, "the depth isn't where it began");
	arena_free(j.arena);
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span a, b;

	if (size < 2)
		return 0;
	a.n = MIN((size_t)(data[0] | data[1] << 8), size - 2);
	a.p = data + 2;
	b = (struct span){ a.p + a.n, size - 2 - a.n };
	must(ask(a, b) == ask(b, a), "the verdict depends on the order");
	must(ask(a, a) != NORMALISED_DIFFERENT && ask(b, b) != NORMALISED_DIFFERENT,
	     "a file differs from itself");
	return 0;
}
