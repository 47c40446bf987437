/* steps/augment/resample.c — separable resampling in integers: the weights, and the two passes.
 *
 * weigh() makes, for each pixel of the result, the first input pixel, their number, and their
 * weights as integers (struct weights). Weights are rounded one by one, as Pillow does, so they
 * needn't add up exactly. An odd number of weights is followed by a 0, so that loops may read
 * pairs.
 *
 * resample() goes along rows first (along_rows(), only the rows that the other pass needs), then
 * along columns. A pass that would change nothing is left out. Both passes' weights lie in
 * ws->scratch, one after the other, so those of the columns are made twice.
 *
 * Gray rows are summed here; loops for colour rows and for columns are in resample_loops.c.
 * FILTER_NEAREST has no weights: nearest() picks pixels. Results go to ws->cur; memory is the
 * workspace's. Any thread.
 */
#include "steps/augment/resample.h"
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "steps/augment/resample_loops.h"

/* Weights. */

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
} filters[] = { [FILTER_BOX] = { filter_box, 0.5 },
		[FILTER_BILINEAR] = { filter_triangle, 1 },
		[FILTER_BICUBIC] = { filter_cubic, 2 },
		[FILTER_LANCZOS] = { filter_lanczos, 3 } };

static void weigh_one(const struct weights *ret, uint32_t i, enum filter filter, double center,
		      double widen, uint32_t in)
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
		double x = (sum != 0 ? v[k] / sum : v[k]) * (1 << RESAMPLE_PRECISION);

		w[k] = (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
	}
	ret->first[i] = first;
	ret->n[i] = n;
	if (v != real)
		free(v);
}

static struct weights weigh(struct workspace *ws, uint32_t in, double from, double length,
			    uint32_t out, enum filter filter)
{
	double scale = length / out, widen = MAX(scale, 1);
	uint32_t most = (uint32_t)ceil(filters[filter].support * widen) * 2 + 1;
	struct weights ret = { .stride = (most + 1) / 2 * 2 };
	size_t head = (size_t)out * 2 * sizeof(uint32_t),
	       body = (size_t)out * ret.stride * sizeof(int32_t);

	ret.first = workspace_scratch(ws, head + body);
	ret.n = ret.first + out;
	ret.w = (int32_t *)(ret.n + out);
	memset(ret.w, 0, body);
	for (uint32_t i = 0; i < out; i++)
		weigh_one(&ret, i, filter, from + (i + 0.5) * scale, widen, in);
	return ret;
}

static void row_of_gray(const uint8_t *from, uint8_t *to, uint32_t out, const struct weights *ws)
{
	for (uint32_t i = 0; i < out; i++) {
		const uint8_t *p = from + ws->first[i];
		const int32_t *w = ws->w + (size_t)i * ws->stride;
		int32_t sum = 1 << (RESAMPLE_PRECISION - 1);

		for (uint32_t k = 0; k < ws->n[i]; k++)
			sum += p[k] * w[k];
		sum >>= RESAMPLE_PRECISION;
		to[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
	}
}

/* Both passes. */

static const struct resample_loops *loops(void)
{
	const struct resample_loops *l = resample_avx2();

	return l ? l : &resample_plain;
}

static bool is_whole(double from, double length, uint32_t in, uint32_t out)
{
	return from == 0 && length == in && out == in;
}

/* `from` → `to` along rows, only for rows that the other pass needs. */
static void along_rows(struct workspace *ws, const struct box *box, uint32_t w, enum filter filter,
		       uint32_t top, uint32_t bottom)
{
	struct weights weights = weigh(ws, ws->cur.w, box->x, box->w, w, filter);

	image_make(&ws->mid, w, bottom - top, ws->cur.channels);
	for (uint32_t y = top; y < bottom && ws->cur.channels == 1; y++)
		row_of_gray(image_row(&ws->cur, y), image_row(&ws->mid, y - top), w, &weights);
	for (uint32_t y = top; y < bottom && ws->cur.channels == 3; y += RESAMPLE_ROWS) {
		const uint8_t *from[RESAMPLE_ROWS];
		uint8_t *to[RESAMPLE_ROWS];

		for (uint32_t i = 0; i < RESAMPLE_ROWS; i++) {
			from[i] = image_row(&ws->cur, MIN(y + i, bottom - 1));
			to[i] = image_row(&ws->mid, MIN(y + i, bottom - 1) - top);
		}
		loops()->rows(from, to, w, &weights);
	}
}

/* Rows of a view aren't padded, but at least IMAGE_ALIGN bytes after the last row of a lent image
 * may be read. */
static void along_columns(const struct image *from, uint32_t top, const struct weights *ws,
			  uint32_t h, struct image *to)
{
	image_make(to, from->w, h, from->channels);
	for (uint32_t y = 0; y < h; y++)
		loops()->column(image_row(from, ws->first[y] - top), from->stride,
				ws->w + (size_t)y * ws->stride, ws->n[y], image_row(to, y),
				to->stride);
}

/* Adds up step by step, as in Pillow: that decides which pixel is taken for a place between two. */
static void places(double from, double step, uint32_t n, uint32_t in, uint32_t *ret)
{
	double at = from + step * 0.5;

	for (uint32_t i = 0; i < n; i++, at += step)
		ret[i] = MIN((uint32_t)at, in - 1);
}

static void nearest(struct workspace *ws, const struct box *box, uint32_t w, uint32_t h)
{
	const struct image *from = &ws->cur;
	unsigned bytes = image_pixel_bytes(from);
	uint32_t *at = workspace_scratch(ws, ((size_t)w + h) * sizeof(*at)), *rows = at + w;

	places(box->x, box->w / w, w, from->w, at);
	places(box->y, box->h / h, h, from->h, rows);
	image_make(&ws->spare, w, h, from->channels);
	for (uint32_t y = 0; y < h; y++) {
		const uint8_t *s = image_row(from, rows[y]);
		uint8_t *t = image_row(&ws->spare, y);

		for (uint32_t x = 0; x < w; x++, t += bytes)
			memcpy(t, s + (size_t)at[x] * bytes, bytes);
	}
	workspace_swap(ws);
}

void resample(struct workspace *ws, const struct box *box, uint32_t w, uint32_t h,
	      enum filter filter)
{
	bool rows = !is_whole(box->x, box->w, ws->cur.w, w),
	     columns = !is_whole(box->y, box->h, ws->cur.h, h);
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
	if (columns) { /* again: the rows' weights were in the same memory */
		weights = weigh(ws, ws->cur.h, box->y, box->h, h, filter);
		along_columns(rows ? &ws->mid : &ws->cur, top, &weights, h, &ws->spare);
		workspace_swap(ws);
	} else if (rows) {
		image_swap(&ws->cur, &ws->mid);
	}
}
