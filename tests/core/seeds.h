/* tests/core/seeds.h — which seeds a random model runs.
 *
 * Where it is fast (the clang build) it runs all that its file names; where ASan makes it five
 * times slower, a fifth; with TSan, a twentieth; in `tests/run --quick`, a fiftieth. What has a
 * stride is tried in full by ASan's build, and by TSan's with `tests/run --full`: which threads
 * there are doesn't depend on the entry.
 * CAIRN_TEST_SEEDS names others: `n` for one, `from-to` for a range without its end (long runs). */
#ifndef CAIRN_TESTS_CORE_SEEDS_H
#define CAIRN_TESTS_CORE_SEEDS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "unit.h"

#if defined(__SANITIZE_THREAD__)
#define SEEDS_PART 20
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS_PART 5
#else
#define SEEDS_PART 1
#endif

struct seeds {
	uint64_t from, to;
	bool given; /* by CAIRN_TEST_SEEDS */
};

/* Is this `tests/run --quick`? */
static inline bool seeds_quick(void)
{
	const char *quick = getenv("CAIRN_TEST_QUICK");

	return quick && strcmp(quick, "1") == 0;
}

static inline bool seeds_full(void)
{
	const char *full = getenv("CAIRN_TEST_FULL");

	return full && strcmp(full, "1") == 0;
}

/* What is left of n where a part does: of seeds, days, rounds; at least 1. */
static inline uint64_t seeds_part(uint64_t n)
{
	n /= seeds_quick() ? 50 : SEEDS_PART;
	return n > 0 ? n : 1;
}

/* A table or a text whose every entry is tried: in `--quick`, and with TSan, each n-th is. */
static inline size_t seeds_stride(size_t n)
{
	return seeds_quick() || (SEEDS_PART == 20 && !seeds_full()) ? n : 1;
}

/* The seeds to run, of n from `first` on. */
static inline struct seeds seeds_of(uint64_t first, uint64_t n)
{
	const char *given = getenv("CAIRN_TEST_SEEDS");
	unsigned long long from, to;
	int fields;

	if (!given)
		return (struct seeds){ .from = first, .to = first + seeds_part(n) };
	fields = sscanf(given, "%llu-%llu", &from, &to);
	if (fields < 1 || (fields == 2 && to <= from))
		fail_msg("CAIRN_TEST_SEEDS=%s is neither n nor from-to", given);
	return (struct seeds){ .from = from, .to = fields == 2 ? to : from + 1, .given = true };
}

#endif
