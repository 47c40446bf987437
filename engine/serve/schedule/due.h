/* engine/serve/schedule/due.h — a queue by time, earliest first: a binary heap whose members know
 * their place, so that any can be moved in O(log n). Members are embedded in other structs; the
 * heap only points to them. One thread. */
#ifndef CAIRN_SERVE_SCHEDULE_DUE_H
#define CAIRN_SERVE_SCHEDULE_DUE_H

#include <stdbool.h>
#include "base/mem.h"

struct due {
	int64_t at_ns;
	struct due_heap *heap; /* its heap, or its last one */
	size_t place;          /* 1 + index in the heap; 0: not in it, as in zeroed memory */
	void (*fn)(void *arg);
	void *arg;
};

struct due_heap {
	VEC(struct due *) items;
};

/* Adds or moves `d`, even from another heap. */
void due_set(struct due_heap *h, struct due *d, int64_t at_ns);
void due_clear(struct due *d);                   /* does nothing when it isn't in a heap */
struct due *due_first(const struct due_heap *h); /* NULL when empty */
static inline bool due_is_set(const struct due *d)
{
	return d->place != 0;
}
void due_heap_deinit(struct due_heap *h);

#endif
