/* serve/schedule/due.h — what has to happen when, earliest first: a binary heap whose members know
 * their place, so that any can be moved in O(log n). Members are embedded in what they belong to;
 * the heap only points. One thread. */
#ifndef CAIRN_SERVE_SCHEDULE_DUE_H
#define CAIRN_SERVE_SCHEDULE_DUE_H

#include <stdbool.h>
#include "base/mem.h"

struct due {
	int64_t at_ns;
	struct due_heap *heap; /* in which it is, or was last */
	size_t place; /* 1 + index in the heap; 0: not in it. Zeroed memory is a valid absent one */
	void (*fn)(void *arg);
	void *arg;
};

struct due_heap {
	VEC(struct due *) items;
};

/* Puts it in, or moves it, also out of another heap. */
void due_set(struct due_heap *h, struct due *d, int64_t at_ns);
void due_clear(struct due *d);                   /* one that isn't in it is fine */
struct due *due_first(const struct due_heap *h); /* NULL when empty */
static inline bool due_is_set(const struct due *d)
{
	return d->place != 0;
}
void due_heap_deinit(struct due_heap *h);

#endif
