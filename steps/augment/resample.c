/* steps/augment/resample.c — separable resampling in integers.
 *
 * Vectors are the compiler's own (gcc and clang: vector_size), so that the loops are the same on every processor; sums of integers have one result in
 * whatever order.
 */
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "steps/augment/resample.h"

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#define PRECISION 22 /* of a weight; 8 bits of level and a sum up to 2 go on top */
#define HALF (1 << (PRECISION - 1))

typedef int32_t ints8 __attribute__((vector_size(32)));
typedef uint8_t bytes8 __attribute__((vector_size(8)));

/* --- weights ------------------------------------------------------------------------------------------------------------------- */

/* Of each output pixel: `n` input pixels from `first` on; weights padded with zeros to an even number, `stride` from one to the next. */
struct weights {
	uint32_t *first, *n;
	int32_t *w;
	uint32_t stride;
};

static double filter_box(double x)
{
	return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static double filter_triangle(double x)
{
	return MAX(1 - fabs(x), 0);
}

static double filter_cubic(double x)
{
	const double a = -0.5;

	x = fabs(x);
	if (x < 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x)
{
	return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double filter_lanczos(double x)
{
	return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct {
	double (*at)(double x);
	double support;
} filters[] = { [FILTER_BOX] = { filter_box, 0.5 }, [FILTER_BILINEAR] = { filter_triangle, 1 }, [FILTER_BICUBIC] = { filter_cubic, 2 },
		[FILTER_LANCZOS] = { filter_lanczos, 3 } };

static void weigh_one(const struct weights *ret, uint32_t i, enum filter filter, double center, double widen, uint32_t in)
{
	double support = filters[filter].support * widen, sum = 0, real[64], *v = real;
	double from = MAX(center - support + 0.5, 0), to = MIN(center + support + 0.5, (double)in);
	uint32_t first = (uint32_t)from, n = (uint32_t)to - first;
	int32_t *w = ret->w + (size_t)i * ret->stride;

	if (n > ARRAY_LEN(real))
		v = xmalloc(n * sizeof(*v));
	for (uint32_t k = 0; k < n; k++)
		sum += v[k] = filters[filter].at((k + first - center + 0.5) / widen);
	for (uint32_t k = 0; k < n; k++) {
		double x = (sum != 0 ? v[k] / sum : v[k]) * (1 << PRECISION);

		w[k] = (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
	}
	ret->first[i] = first;
	ret->n[i] = n;
	if (v != real)
		free(v);
}

static struct weights weigh(struct workspace *ws, uint32_t in, double from, double length, uint32_t out, enum filter filter)
{
	double scale = length / out, widen = MAX(scale, 1);
	uint32_t most = (uint32_t)ceil(filters[filter].support * widen) * 2 + 1;
	struct weights ret = { .stride = (most + 1) / 2 * 2 };
	size_t head = (size_t)out * 2 * sizeof(uint32_t), body = (size_t)out * ret.stride * sizeof(int32_t);

	ret.first = workspace_scratch(ws, head + body);
	ret.n = ret.first + out;
	ret.w = (int32_t *)(ret.n + out);
	memset(ret.w, 0, body);
	for (uint32_t i = 0; i < out; i++)
		weigh_one(&ret, i, filter, from + (i + 0.5) * scale, widen, in);
	return ret;
}

/* --- the loops ----------------------------------------------------------------------------------------------------------------- */

/* Vectors go by address: how they are passed depends on the processor. */
static inline __attribute__((always_inline)) void add8(ints8 *sum, const uint8_t *p, const ints8 *w)
{
	bytes8 b;

	memcpy(&b, p, 8);
	*sum += __builtin_convertvector(b, ints8) * *w;
}

static inline __attribute__((always_inline)) void store8(uint8_t *p, const ints8 *sum)
{
	ints8 v = *sum >> PRECISION;
	bytes8 b;

	v &= ~(v >> 31);
	v |= (255 - v) >> 31; /* over 255: all ones, of which the lowest byte is kept */
	b = __builtin_convertvector(v, bytes8);
	memcpy(p, &b, 8);
}

static inline uint8_t clip(int32_t v)
{
	v >>= PRECISION;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Two pixels of four bytes at a time; what is behind the last one has weight 0. */
IMAGE_CLONES static void row_of_colour(const uint8_t *from, uint8_t *to, uint32_t out, const struct weights *ws)
{
	for (uint32_t i = 0; i < out; i++) {
		const uint8_t *p = from + (size_t)ws->first[i] * 4;
		const int32_t *w = ws->w + (size_t)i * ws->stride;
		ints8 sum = { HALF, HALF, HALF, HALF };

		for (uint32_t k = 0; k < ws->n[i]; k += 2, p += 8) {
			ints8 a = { w[k], w[k], w[k], w[k], w[k + 1], w[k + 1], w[k + 1], w[k + 1] };

			add8(&sum, p, &a);
		}
		for (int c = 0; c < 4; c++)
			to[i * 4 + c] = clip(sum[c] + sum[c + 4]);
	}
}

IMAGE_CLONES static void row_of_gray(const uint8_t *from, uint8_t *to, uint32_t out, const struct weights *ws)
{
	for (uint32_t i = 0; i < out; i++) {
		const uint8_t *p = from + ws->first[i];
		const int32_t *w = ws->w + (size_t)i * ws->stride;
		int32_t sum = HALF;

		for (uint32_t k = 0; k < ws->n[i]; k++)
			sum += p[k] * w[k];
		to[i] = clip(sum);
	}
}

/* One row out of n rows, `bytes` long (a multiple of 32; rows are padded). */
IMAGE_CLONES static void column_sums(const uint8_t *from, size_t stride, const int32_t *w, uint32_t n, uint8_t *to, size_t bytes)
{
	const ints8 half = { HALF, HALF, HALF, HALF, HALF, HALF, HALF, HALF };

	for (size_t x = 0; x < bytes; x += 32) {
		ints8 a = half, b = half, c = half, d = half;
		const uint8_t *p = from + x;

		for (uint32_t k = 0; k < n; k++, p += stride) {
			ints8 v = { w[k], w[k], w[k], w[k], w[k], w[k], w[k], w[k] };

			add8(&a, p, &v);
			add8(&b, p + 8, &v);
			add8(&c, p + 16, &v);
			add8(&d, p + 24, &v);
		}
		store8(to + x, &a);
		store8(to + x + 8, &b);
		store8(to + x + 16, &c);
		store8(to + x + 24, &d);
	}
}

/* --- both passes --------------------------------------------------------------------------------------------------------------- */

static bool is_whole(double from, double length, uint32_t in, uint32_t out)
{
	return from == 0 && length == in && out == in;
}

/* `from` → `to` along rows, only those rows that the other pass needs. */
static void along_rows(struct workspace *ws, const struct box *box, uint32_t w, enum filter filter, uint32_t top, uint32_t bottom)
{
	struct weights weights = weigh(ws, ws->cur.w, box->x, box->w, w, filter);

	image_make(&ws->mid, w, bottom - top, ws->cur.channels);
	for (uint32_t y = top; y < bottom; y++)
		(ws->cur.channels == 1 ? row_of_gray : row_of_colour)(image_row(&ws->cur, y), image_row(&ws->mid, y - top), w, &weights);
}

/* Rows of a view aren't padded: behind the last one of a lent image there are at least IMAGE_ALIGN bytes that may be read. */
static void along_columns(const struct image *from, uint32_t top, const struct weights *ws, uint32_t h, struct image *to)
{
	image_make(to, from->w, h, from->channels);
	for (uint32_t y = 0; y < h; y++)
		column_sums(image_row(from, ws->first[y] - top), from->stride, ws->w + (size_t)y * ws->stride, ws->n[y], image_row(to, y), to->stride);
}

static void nearest(struct workspace *ws, const struct box *box, uint32_t w, uint32_t h)
{
	const struct image *from = &ws->cur;
	unsigned bytes = image_pixel_bytes(from);
	uint32_t *at = workspace_scratch(ws, w * sizeof(*at));

	for (uint32_t x = 0; x < w; x++)
		at[x] = MIN((uint32_t)(box->x + (x + 0.5) * (box->w / w)), from->w - 1);
	image_make(&ws->spare, w, h, from->channels);
	for (uint32_t y = 0; y < h; y++) {
		const uint8_t *s = image_row(from, MIN((uint32_t)(box->y + (y + 0.5) * (box->h / h)), from->h - 1));
		uint8_t *t = image_row(&ws->spare, y);

		for (uint32_t x = 0; x < w; x++, t += bytes)
			memcpy(t, s + (size_t)at[x] * bytes, bytes);
	}
	workspace_swap(ws);
}

void resample(struct workspace *ws, const struct box *box, uint32_t w, uint32_t h, enum filter filter)
{
	bool rows = !is_whole(box->x, box->w, ws->cur.w, w), columns = !is_whole(box->y, box->h, ws->cur.h, h);
	uint32_t top = 0, bottom = ws->cur.h;
	struct weights weights;

	if (filter == FILTER_NEAREST) {
		if (rows || columns)
			nearest(ws, box, w, h);
		return;
	}
	if (columns) {
		weights = weigh(ws, ws->cur.h, box->y, box->h, h, filter);
		top = weights.first[0];
		bottom = weights.first[h - 1] + weights.n[h - 1];
	}
	if (rows)
		along_rows(ws, box, w, filter, top, bottom);
	else
		top = 0;
	if (columns) { /* again: the rows' weights were in the same place */
		weights = weigh(ws, ws->cur.h, box->y, box->h, h, filter);
		along_columns(rows ? &ws->mid : &ws->cur, top, &weights, h, &ws->spare);
		workspace_swap(ws);
	} else if (rows) {
		image_swap(&ws->cur, &ws->mid);
	}
}
