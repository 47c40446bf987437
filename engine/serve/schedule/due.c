#include "serve/schedule/due.h"

static void put(struct due_heap *h, size_t i, struct due *d)
{
	h->items.v[i] = d;
	d->place = i + 1;
}

static void sift_up(struct due_heap *h, size_t i, struct due *d)
{
	for (; i > 0 && h->items.v[(i - 1) / 2]->at_ns > d->at_ns; i = (i - 1) / 2)
		put(h, i, h->items.v[(i - 1) / 2]);
	put(h, i, d);
}

static void sift_down(struct due_heap *h, size_t i, struct due *d)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < h->items.n &&
		    h->items.v[child + 1]->at_ns < h->items.v[child]->at_ns)
			child++;
		if (child >= h->items.n || h->items.v[child]->at_ns >= d->at_ns)
			break;
		put(h, i, h->items.v[child]);
		i = child;
	}
	put(h, i, d);
}

void due_clear(struct due *d)
{
	struct due_heap *h = d->heap;
	size_t i = d->place - 1;
	struct due *last;

	if (!d->place)
		return;
	d->place = 0;
	last = h->items.v[--h->items.n];
	if (last == d)
		return;
	put(h, i, last);
	if (i > 0 && h->items.v[(i - 1) / 2]->at_ns > last->at_ns)
		sift_up(h, i, last);
	else
		sift_down(h, i, last);
}

void due_set(struct due_heap *h, struct due *d, int64_t at_ns)
{
	bool earlier;

	if (d->heap != h)
		due_clear(d);
	d->heap = h;
	earlier = !d->place || at_ns < d->at_ns;
	if (!d->place) {
		VEC_PUSH(&h->items, d);
		d->place = h->items.n;
	}
	d->at_ns = at_ns;
	if (earlier)
		sift_up(h, d->place - 1, d);
	else
		sift_down(h, d->place - 1, d);
}

struct due *due_first(const struct due_heap *h)
{
	return h->items.n ? h->items.v[0] : NULL;
}

void due_heap_deinit(struct due_heap *h)
{
	for (size_t i = 0; i < h->items.n; i++)
		h->items.v[i]->place = 0;
	VEC_FREE(&h->items);
}
