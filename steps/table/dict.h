/* steps/table/dict.h — texts as small numbers: the n-th new text has code n.
 *
 * The dictionary keeps its own copies. Hashing is seeded per process, as texts come from outside.
 * One thread at a time.
 */
#ifndef CAIRN_STEPS_TABLE_DICT_H
#define CAIRN_STEPS_TABLE_DICT_H

#include <stdbool.h>
#include "base/mem.h"

struct dict_text {
	const char *s; /* NUL-terminated, though it may hold NULs */
	uint32_t n;
	uint32_t hash;
};

struct dict {
	VEC(struct dict_text) texts; /* by code */
	uint32_t *slots;             /* code + 1, 0 free; a power of two of them */
	size_t n_slots;
	struct arena *arena;
};

/* `struct dict d = {0}` is empty. n at most UINT32_MAX. */
uint32_t dict_code(struct dict *d, const char *s, size_t n);
/* -1 when it is missing. */
int64_t dict_find(const struct dict *d, const char *s, size_t n);
void dict_deinit(struct dict *d);

#endif
