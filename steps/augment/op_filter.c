/* steps/augment/op_filter.c — blur and noise.
 *
 * Blur is separable: blur_row() goes along rows into 16-bit sums with 8 fractional bits,
 * blur_column() along columns. Weights are integers that add up to 65536, so an even area keeps its
 * level exactly. The border is mirrored without itself (reflect()).
 *
 * Noise adds to each channel of each pixel a normal number from the op's stream RANDOM_PIXELS, row
 * by row in a fixed order. So it depends on seed, sample, copy, op and place only.
 *
 * Both use integers, except for the weights and the sigma, which are rounded once. They don't
 * change masks (op_type.colours). Loops are compiled for AVX2 as well (IMAGE_CLONES).
 */
#include <math.h>
#include <string.h>
#include "steps/augment/ops.h"
#include "steps/step.h"

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

/* Gaussian blur: along rows, then columns; weights in 1/65536, 8 fractional bits between. */

#define RADIUS_MAX 127
#define SIGMA_MAX  42 /* three of them reach the end of the widest kernel */

static int blur_compile(struct op *op, const json_t *with, struct err *err)
{
	double v[2];

	op_numbers(with, "sigma", v, 2);
	op->sigma = (struct range){ v[0], v[1] };
	op->count = (int)step_int(with, "kernel");
	if (op->sigma.lo > op->sigma.hi || op->sigma.hi > SIGMA_MAX)
		return err_set(err, ERR_INVALID, "blur: `sigma` must be [least, most], at most %d",
			       SIGMA_MAX);
	if (op->count && op->count % 2 == 0)
		return err_set(err, ERR_INVALID,
			       "blur: `kernel` must be an odd number: as many pixels on the left "
			       "as on the right");
	return 0;
}

static int sigma_draw(const struct op *op, struct random *r, const struct op_target *t,
		      struct drawn *ret, struct err *err)
{
	ret->v[ret->n++] = random_between(r, op->sigma.lo, op->sigma.hi);
	return 0;
}

/* They add up to 65536: the middle weight takes the rounding error. */
static void blur_weights(double sigma, int radius, uint32_t *w)
{
	double real[2 * RADIUS_MAX + 1], sum = 0;
	uint32_t left = 65536;

	for (int i = 0; i <= 2 * radius; i++)
		sum += real[i] = exp(-0.5 * (i - radius) * (i - radius) / (sigma * sigma));
	for (int i = 0; i <= 2 * radius; i++) {
		w[i] = (uint32_t)floor(real[i] / sum * 65536 + 0.5);
		left -= w[i];
	}
	w[radius] += left;
}

/* Mirrors an index at the borders, without repeating the border, as often as needed. */
static uint32_t reflect(int64_t i, int64_t n)
{
	int64_t period = 2 * (n - 1);

	if (n == 1)
		return 0;
	i = (i % period + period) % period;
	return (uint32_t)(i < n ? i : period - i);
}

IMAGE_CLONES static void blur_row(const uint8_t *from, uint16_t *to, size_t n, size_t bytes,
				  const uint32_t *w, int taps)
{
	for (size_t at = 0; at < n; at += 64) {
		size_t m = MIN(n - at, 64);
		uint32_t sum[64];

		for (size_t i = 0; i < 64; i++)
			sum[i] = 128;
		for (int k = 0; k < taps; k++) {
			const uint8_t *p = from + at + (size_t)k * bytes;

			for (size_t i = 0; i < m; i++)
				sum[i] += p[i] * w[k];
		}
		for (size_t i = 0; i < m; i++)
			to[at + i] = (uint16_t)(sum[i] >> 8);
	}
}

IMAGE_CLONES static void blur_column(uint16_t *const *rows, uint8_t *to, size_t n,
				     const uint32_t *w, int taps)
{
	for (size_t at = 0; at < n; at += 64) {
		size_t m = MIN(n - at, 64);
		uint32_t sum[64];

		for (size_t i = 0; i < 64; i++)
			sum[i] = 1 << 23;
		for (int k = 0; k < taps; k++) {
			const uint16_t *p = rows[k] + at;

			for (size_t i = 0; i < m; i++)
				sum[i] += p[i] * w[k];
		}
		for (size_t i = 0; i < m; i++)
			to[at + i] = (uint8_t)(sum[i] >> 24);
	}
}

/* A row with its mirror images on both sides. */
static void pad_row(const struct image *im, uint32_t y, int radius, uint8_t *to)
{
	unsigned bytes = image_pixel_bytes(im);
	const uint8_t *p = image_row(im, y);

	memcpy(to + (size_t)radius * bytes, p, (size_t)im->w * bytes);
	for (int i = 0; i < radius; i++) {
		memcpy(to + (size_t)i * bytes, p + (size_t)reflect(i - radius, im->w) * bytes,
		       bytes);
		memcpy(to + ((size_t)radius + im->w + (size_t)i) * bytes,
		       p + (size_t)reflect((int64_t)im->w + i, im->w) * bytes, bytes);
	}
}

static void blur(struct workspace *ws, const uint32_t *w, int radius)
{
	struct image *im = &ws->cur;
	size_t n = (size_t)im->w * image_pixel_bytes(im),
	       padded = (n + (size_t)radius * 2 * 4 + 63) / 64 * 64;
	uint16_t *rows = workspace_scratch(ws, padded + n * 2 * im->h), *at[2 * RADIUS_MAX + 1];
	uint8_t *pad = (uint8_t *)(rows + n * im->h);

	image_make(&ws->spare, im->w, im->h, im->channels);
	for (uint32_t y = 0; y < im->h; y++) {
		pad_row(im, y, radius, pad);
		blur_row(pad, rows + n * y, n, image_pixel_bytes(im), w, 2 * radius + 1);
	}
	for (uint32_t y = 0; y < im->h; y++) {
		for (int k = 0; k <= 2 * radius; k++)
			at[k] = rows + n * reflect((int64_t)y + k - radius, im->h);
		blur_column(at, image_row(&ws->spare, y), n, w, 2 * radius + 1);
	}
	workspace_swap(ws);
}

static void blur_apply(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
		       struct random *pixels)
{
	int radius = op->count ? op->count / 2 : MIN((int)ceil(3 * d->v[0]), RADIUS_MAX);
	uint32_t w[2 * RADIUS_MAX + 1];

	if (d->v[0] < 0.01 || radius == 0) /* the next pixel would have no weight */
		return;
	blur_weights(d->v[0], radius, w);
	blur(ws, w, radius);
}

const struct op_type op_blur = { .name = "blur",
				 .compile = blur_compile,
				 .draw = sigma_draw,
				 .apply = blur_apply,
				 .names = "sigma",
				 .colours = true };

/* Noise. */

static int noise_compile(struct op *op, const json_t *with, struct err *err)
{
	double v[2];

	op_numbers(with, "sigma", v, 2);
	op->sigma = (struct range){ v[0], v[1] };
	return v[0] > v[1] ? err_set(err, ERR_INVALID, "noise: `sigma` must be [least, most]") : 0;
}

/* `sigma` in levels, 1/65536. */
static uint8_t noisy(uint8_t level, int32_t normal, int64_t sigma)
{
	int64_t v = level + ((normal * sigma + (1LL << 31)) >> 32);

	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void noise_apply(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
			struct random *pixels)
{
	int64_t sigma = (int64_t)floor(d->v[0] * 255 * 65536 + 0.5);
	unsigned bytes = image_pixel_bytes(&ws->cur);
	size_t n = (size_t)ws->cur.w * ws->cur.channels;
	uint32_t *bits = workspace_scratch(ws, n * (sizeof(*bits) + sizeof(int32_t)));
	int32_t *normal = (int32_t *)(bits + n);

	workspace_own(ws);
	for (uint32_t y = 0; y < ws->cur.h; y++) {
		const int32_t *v = normal;

		random_fill(pixels, bits, n);
		random_to_normal(bits, normal, n);
		for (uint8_t *p = image_row(&ws->cur, y), *end = p + (size_t)ws->cur.w * bytes;
		     p < end; p += bytes)
			for (unsigned c = 0; c < ws->cur.channels; c++)
				p[c] = noisy(p[c], *v++, sigma);
	}
}

const struct op_type op_noise = { .name = "noise",
				  .compile = noise_compile,
				  .draw = sigma_draw,
				  .apply = noise_apply,
				  .names = "sigma",
				  .colours = true };
