/* steps/normalise/npy.c — NPY: values bit by bit, in either byte order and either order of the
 * axes.
 *
 * Type, size of items and shape must be the same. Then find_differences() walks both arrays in C
 * order: each has strides, and next_index() counts up like an odometer, so that an array in Fortran
 * order is compared in place. Items of numbers, times and text are converted to this machine's byte
 * order first (item()). Values are compared as bytes, so a NaN equals itself and -0.0 isn't 0.0.
 *
 * Only unit_bytes() knows the types that can be compared, and the units whose bytes the other byte
 * order reverses. Unknown types aren't normalised, nor are records and objects (npy_read_header()):
 * the caller then compares the files as bytes.
 */
#include "base/table/npy.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/normalise/normalise.h"

/* Finds the value at `index` of the C order: each axis has its stride, in items. */
struct array {
	struct npy_header h;
	const uint8_t *data;
	uint64_t strides[NPY_DIMENSIONS_MAX];
	uint64_t items;
	unsigned swap_bytes; /* unit that the other byte order reverses; 1: nothing to reverse */
};

/* The number of bytes in a unit, which the other byte order reverses. Raw bytes (V) have units of
 * 1. 0: the type can't be compared. */
static unsigned unit_bytes(const struct npy_header *h)
{
	switch (h->kind) {
	case 'b':
	case 'S':
	case 'V':
		return 1;
	case 'U':
		return 4;
	case 'i':
	case 'u':
	case 'f':
	case 'm':
	case 'M':
		return h->item_bytes;
	case 'c': /* two floats */
		return h->item_bytes % 2 ? 0 : h->item_bytes / 2;
	default:
		return 0;
	}
}

static int open_array(struct span s, struct array *ret, struct err *err)
{
	struct npy_header *h = &ret->h;
	uint64_t bytes, run = 1;
	bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

	if (npy_read_header("npy", s.p, s.n, h, err) < 0)
		return -1;
	ret->data = s.p + h->data_at;
	ret->items = 1;
	for (unsigned i = 0; i < h->dimensions; i++)
		if (__builtin_mul_overflow(ret->items, h->shape[i], &ret->items))
			return err_set(err, ERR_INVALID, "its shape is too large");
	if (__builtin_mul_overflow(ret->items, (uint64_t)h->item_bytes, &bytes) ||
	    bytes != s.n - h->data_at || !h->item_bytes)
		return err_set(err, ERR_INVALID, "its shape doesn't fit its size");
	for (unsigned i = 0; i < h->dimensions; i++) {
		unsigned axis = h->fortran ? i : h->dimensions - 1 - i;

		ret->strides[axis] = run;
		run *= MAX(h->shape[axis], 1);
	}
	ret->swap_bytes = unit_bytes(h);
	if (!ret->swap_bytes || h->item_bytes % ret->swap_bytes)
		return err_set(err, ERR_UNSUPPORTED, "an array of type `%s`", h->descr);
	if (h->order != (little ? '>' : '<'))
		ret->swap_bytes = 1;
	return 0;
}

/* Copies the item's bytes in this machine's order to `to`, which must have room; returns them. */
static const uint8_t *item(const struct array *a, uint64_t at, uint8_t *to)
{
	const uint8_t *p = a->data + at * a->h.item_bytes;

	assert(at < a->items);
	if (a->swap_bytes == 1)
		return p;
	for (unsigned i = 0; i < a->h.item_bytes; i++)
		to[i] = p[i - i % a->swap_bytes + a->swap_bytes - 1 - i % a->swap_bytes];
	return to;
}

/* Counts up like an odometer, the last axis first, and updates both positions. */
static void next_index(const struct array *a, const struct array *b, uint64_t *index,
		       uint64_t *at_a, uint64_t *at_b)
{
	for (unsigned axis = a->h.dimensions; axis-- > 0;) {
		*at_a += a->strides[axis];
		*at_b += b->strides[axis];
		if (++index[axis] < a->h.shape[axis])
			return;
		*at_a -= a->strides[axis] * a->h.shape[axis];
		*at_b -= b->strides[axis] * a->h.shape[axis];
		index[axis] = 0;
	}
}

/* Values, for people. */

/* One part of an item, as an array of one element, in this machine's byte order. */
static bool add_part(struct str *out, const uint8_t *p, char kind, unsigned size)
{
	struct npy one = { .data = p,
			   .kind = kind,
			   .item_bytes = size,
			   .dimensions = 1,
			   .rows = 1,
			   .columns = 1,
			   .row_stride = 1 };
	bool known = strchr("SU", kind) || (kind == 'b' && size == 1) ||
		     (strchr("iuf", kind) && (size == 2 || size == 4 || size == 8)) ||
		     (strchr("iu", kind) && size == 1);

	return known && npy_text(&one, 0, 0, out);
}

static void add_value(struct normalise_job *j, struct str *out, const struct npy_header *h,
		      const uint8_t *p)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	char kind = h->kind == 'm' || h->kind == 'M' ? 'i' : h->kind;

	if (kind == 'c' && add_part(&text, p, 'f', h->item_bytes / 2)) {
		str_add(&text, " + i ");
		add_part(&text, p + h->item_bytes / 2, 'f', h->item_bytes / 2);
	} else if (kind == 'c' || !add_part(&text, p, kind, h->item_bytes)) {
		str_reset(&text);
		for (unsigned i = 0; i < MIN(h->item_bytes, 16); i++)
			str_addf(&text, "%02x", p[i]);
	}
	str_add(out, normalise_text(j, text.s ? text.s : "", text.len));
}

/* Comparing. */

struct differences {
	uint64_t n, first[NPY_DIMENSIONS_MAX];
	double largest;
	struct str was, is;
};

static void find_differences(struct normalise_job *j, const struct array *a, const struct array *b,
			     struct differences *d)
{
	unsigned bytes = a->h.item_bytes;
	bool floats = a->h.kind == 'f' && (bytes == 2 || bytes == 4 || bytes == 8);
	_cleanup_(freep) uint8_t *room_a = xmalloc(bytes), *room_b = xmalloc(bytes);
	uint64_t index[NPY_DIMENSIONS_MAX] = { 0 }, at_a = 0, at_b = 0;

	for (uint64_t i = 0; i < a->items; i++, next_index(a, b, index, &at_a, &at_b)) {
		struct npy one = { .kind = 'f', .item_bytes = bytes }, other = one;

		one.data = item(a, at_a, room_a);
		other.data = item(b, at_b, room_b);
		if (memcmp(one.data, other.data, bytes) == 0)
			continue;
		if (d->n++ == 0) {
			memcpy(d->first, index, sizeof(d->first));
			add_value(j, &d->was, &a->h, one.data);
			add_value(j, &d->is, &b->h, other.data);
		}
		if (floats)
			d->largest = fmax(d->largest,
					  fabs(npy_number(&one, 0, 0) - npy_number(&other, 0, 0)));
	}
}

static const char *shape_text(struct normalise_job *j, const struct npy_header *h)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_addc(&s, '(');
	for (unsigned i = 0; i < h->dimensions; i++)
		str_addf(&s, "%s%llu", i ? ", " : "", (unsigned long long)h->shape[i]);
	str_addc(&s, ')');
	return arena_strndup(j->arena, s.s, s.len);
}

static const char *describe(struct normalise_job *j, const struct array *a,
			    const struct differences *d)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_add(&s, "value at [");
	for (unsigned i = 0; i < a->h.dimensions; i++)
		str_addf(&s, "%s%llu", i ? ", " : "", (unsigned long long)d->first[i]);
	str_addf(&s, "]: %s → %s; %llu of %llu values differ", d->was.s ? d->was.s : "",
		 d->is.s ? d->is.s : "", (unsigned long long)d->n, (unsigned long long)a->items);
	if (d->largest > 0)
		str_addf(&s, ", by %.3g at most", d->largest);
	return arena_strndup(j->arena, s.s, s.len);
}

int normalise_npy(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err)
{
	struct differences d = { 0 };
	struct array aa, ab;

	if (open_array(a, &aa, err) < 0 || open_array(b, &ab, err) < 0)
		return -1;
	*ret = (struct normalised){ .verdict = NORMALISED_DIFFERENT, .normaliser = "npy" };
	if (aa.h.kind != ab.h.kind || aa.h.item_bytes != ab.h.item_bytes ||
	    !str_eq(aa.h.unit, ab.h.unit))
		ret->detail = arena_printf(j->arena, "type %s → %s",
					   normalise_text(j, aa.h.descr, strlen(aa.h.descr)),
					   normalise_text(j, ab.h.descr, strlen(ab.h.descr)));
	else if (aa.h.dimensions != ab.h.dimensions ||
		 memcmp(aa.h.shape, ab.h.shape, aa.h.dimensions * sizeof(*aa.h.shape)) != 0)
		ret->detail = arena_printf(j->arena, "shape %s → %s", shape_text(j, &aa.h),
					   shape_text(j, &ab.h));
	if (ret->detail)
		return 0;
	find_differences(j, &aa, &ab, &d);
	ret->verdict = d.n ? NORMALISED_DIFFERENT : NORMALISED_SAME;
	ret->detail = d.n ? describe(j, &aa, &d) : "header, byte order or order of the axes";
	str_deinit(&d.was);
	str_deinit(&d.is);
	return 0;
}
