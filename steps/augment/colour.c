/* steps/augment/colour.c — operations on each pixel's levels. They give the same results as
 * Pillow's ImageEnhance and ImageOps, unless noted.
 *
 * Where a result depends on one level only, it comes from a table of 256 (look_up()); the rest is
 * computed in integers, with 16 fractional bits. So results don't depend on the processor.
 *
 * All work on ws->cur. Those that change pixels in place call workspace_own() first, because cur
 * may be a view of a decoded image that other copies need; the others make ws->spare and swap.
 *
 * The functions colour_*() are shared with op_rand_augment.c; the ops color_jitter and grayscale
 * are at the end of the file. None is applied to masks (op_type.colours), so a mask's 16-bit levels
 * never come here.
 */
#include <math.h>
#include <string.h>
#include "steps/augment/ops.h"
#include "steps/step.h"

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#define FACTOR_MAX 100 /* any brighter level is white anyway */

static inline uint8_t clip(int32_t v)
{
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* ITU-R BT.601 luma, in 1/65536. */
static inline uint8_t luma(const uint8_t *p)
{
	return (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
}

static int32_t fixed(double factor)
{
	return (int32_t)floor(MIN(MAX(factor, -FACTOR_MAX), FACTOR_MAX) * 65536 + 0.5);
}

/* Moves from `b` towards `v` and beyond; cuts (doesn't round) to a level. */
static inline uint8_t blend(int32_t b, int32_t v, int32_t factor)
{
	return clip(((b << 16) + (v - b) * factor) >> 16);
}

/* Tables. */

static void look_up(struct workspace *ws, const uint8_t table[3][256])
{
	struct image *im = &ws->cur;

	workspace_own(ws);
	for (uint32_t y = 0; y < im->h; y++) {
		uint8_t *p = image_row(im, y), *end = p + (size_t)im->w * image_pixel_bytes(im);

		if (im->channels == 1)
			for (; p < end; p++)
				*p = table[0][*p];
		else
			for (; p < end; p += 4) {
				p[0] = table[0][p[0]];
				p[1] = table[1][p[1]];
				p[2] = table[2][p[2]];
			}
	}
}

static void look_up_same(struct workspace *ws, uint8_t table[3][256])
{
	memcpy(table[1], table[0], 256);
	memcpy(table[2], table[0], 256);
	look_up(ws, table);
}

static void blend_with_level(struct workspace *ws, int32_t level, double factor)
{
	uint8_t table[3][256];

	for (int v = 0; v < 256; v++)
		table[0][v] = blend(level, v, fixed(factor));
	look_up_same(ws, table);
}

void colour_brightness(struct workspace *ws, double factor)
{
	blend_with_level(ws, 0, factor);
}

/* Relative to the mean of the gray levels, rounded. */
void colour_contrast(struct workspace *ws, double factor)
{
	const struct image *im = &ws->cur;
	uint64_t sum = 0, n = (uint64_t)im->w * im->h;

	for (uint32_t y = 0; y < im->h; y++) {
		const uint8_t *p = image_row(im, y);

		for (uint32_t x = 0; x < im->w; x++)
			sum += im->channels == 1 ? p[x] : luma(p + (size_t)x * 4);
	}
	blend_with_level(ws, (int32_t)((2 * sum + n) / (2 * n)), factor);
}

void colour_posterize(struct workspace *ws, int bits)
{
	uint8_t table[3][256];

	for (int v = 0; v < 256; v++)
		table[0][v] = (uint8_t)(v & ~((1 << (8 - bits)) - 1));
	look_up_same(ws, table);
}

void colour_solarize(struct workspace *ws, double threshold)
{
	uint8_t table[3][256];

	for (int v = 0; v < 256; v++)
		table[0][v] = (uint8_t)(v < threshold ? v : 255 - v);
	look_up_same(ws, table);
}

static void stretch_table(const uint64_t counts[256], uint8_t table[256])
{
	int lo = 0, hi = 255;

	while (lo < 255 && !counts[lo])
		lo++;
	while (hi > 0 && !counts[hi])
		hi--;
	for (int v = 0; v < 256; v++) {
		double scale = hi > lo ? 255.0 / (hi - lo) : 1,
		       x = v * scale - (hi > lo ? lo * scale : 0);

		table[v] = clip((int32_t)x);
	}
}

static void equal_table(const uint64_t counts[256], uint8_t table[256])
{
	uint64_t all = 0, last = 0, step, sum;
	int used = 0;

	for (int v = 0; v < 256; v++) {
		all += counts[v];
		used += counts[v] > 0;
		last = counts[v] ? counts[v] : last;
	}
	step = used > 1 ? (all - last) / 255 : 0;
	sum = step / 2;
	for (int v = 0; v < 256; sum += counts[v++])
		table[v] = (uint8_t)(step == 0 ? (uint64_t)v : MIN(sum / step, 255));
}

static void by_histogram(struct workspace *ws,
			 void (*make)(const uint64_t counts[256], uint8_t table[256]))
{
	const struct image *im = &ws->cur;
	unsigned bytes = image_pixel_bytes(im);
	uint64_t counts[3][256] = { 0 };
	uint8_t table[3][256];

	for (uint32_t y = 0; y < im->h; y++)
		for (const uint8_t *p = image_row(im, y), *end = p + (size_t)im->w * bytes; p < end;
		     p += bytes)
			for (unsigned c = 0; c < im->channels; c++)
				counts[c][p[c]]++;
	for (int c = 0; c < 3; c++)
		make(counts[c], table[c]);
	look_up(ws, table);
}

void colour_autocontrast(struct workspace *ws)
{
	by_histogram(ws, stretch_table);
}

void colour_equalize(struct workspace *ws)
{
	by_histogram(ws, equal_table);
}

/* Between channels. */

IMAGE_CLONES static void saturate_row(uint8_t *p, uint32_t w, int32_t factor)
{
	for (uint32_t x = 0; x < w; x++, p += 4) {
		int32_t gray = luma(p);

		p[0] = blend(gray, p[0], factor);
		p[1] = blend(gray, p[1], factor);
		p[2] = blend(gray, p[2], factor);
	}
}

void colour_saturation(struct workspace *ws, double factor)
{
	if (ws->cur.channels == 1)
		return;
	workspace_own(ws);
	for (uint32_t y = 0; y < ws->cur.h; y++)
		saturate_row(image_row(&ws->cur, y), ws->cur.w, fixed(factor));
}

/* A. R. Smith, "Color Gamut Transform Pairs", SIGGRAPH 1978: hue as a position on a hexagon, whose
 * six sides are 65536 long. Exact up to rounding, unlike Pillow's 8-bit HSV. */
static void turn_hue(uint8_t *p, int32_t turn)
{
	int32_t r = p[0], g = p[1], b = p[2], most = MAX(MAX(r, g), b), least = MIN(MIN(r, g), b),
		d = most - least, at, part, up, down;

	if (d == 0)
		return;
	at = most == r   ? (g - b) * 65536 / d
	     : most == g ? 2 * 65536 + (b - r) * 65536 / d
			 : 4 * 65536 + (r - g) * 65536 / d;
	at = (at + turn + 6 * 65536) % (6 * 65536);
	part = at & 0xffff;
	up = least + ((d * part + 0x8000) >> 16);
	down = most - ((d * part + 0x8000) >> 16);

	const int32_t sides[6][3] = { { most, up, least }, { down, most, least },
				      { least, most, up }, { least, down, most },
				      { up, least, most }, { most, least, down } };

	for (int c = 0; c < 3; c++)
		p[c] = (uint8_t)sides[at >> 16][c];
}

static void colour_hue(struct workspace *ws, double turns)
{
	int32_t turn = (int32_t)floor(turns * 6 * 65536 + 0.5);

	if (ws->cur.channels == 1 || turn == 0)
		return;
	turn = (turn % (6 * 65536) + 6 * 65536) % (6 * 65536);
	workspace_own(ws);
	for (uint32_t y = 0; y < ws->cur.h; y++)
		for (uint32_t x = 0; x < ws->cur.w; x++)
			turn_hue(image_row(&ws->cur, y) + (size_t)x * 4, turn);
}

/* Moves towards or away from a blur of 3 x 3 (1 1 1, 1 5 1, 1 1 1, over 13); the border doesn't
 * change. */
IMAGE_CLONES static void sharpen_row(const uint8_t *above, const uint8_t *p, const uint8_t *below,
				     uint8_t *to, size_t from, size_t end, size_t bytes,
				     int32_t factor)
{
	for (size_t i = from; i < end; i++) {
		int32_t sum = above[i - bytes] + above[i] + above[i + bytes] + p[i - bytes] +
			      5 * p[i] + p[i + bytes] + below[i - bytes] + below[i] +
			      below[i + bytes];

		to[i] = blend((2 * sum + 13) / 26, p[i], factor);
	}
}

void colour_sharpness(struct workspace *ws, double factor)
{
	const struct image *im = &ws->cur;
	size_t bytes = image_pixel_bytes(im);

	image_copy(&ws->spare, im);
	for (uint32_t y = 1; y + 1 < im->h && im->w > 2; y++)
		sharpen_row(image_row(im, y - 1), image_row(im, y), image_row(im, y + 1),
			    image_row(&ws->spare, y), bytes, (im->w - 1) * bytes, bytes,
			    fixed(factor));
	workspace_swap(ws);
}

/* The ops. */

static const char *const factors[] = { "brightness", "contrast", "saturation", "hue" };

static int jitter_compile(struct op *op, const json_t *with, struct err *err)
{
	for (int i = 0; i < 4; i++) {
		struct range *f = &op->jitter.factor[i];

		*f = op_range(with, factors[i], i < 3 ? 1 : 0);
		f->lo = i < 3 ? MAX(f->lo, 0) : f->lo;
		if (f->lo > f->hi || (i == 3 && (f->lo < -0.5 || f->hi > 0.5)))
			return err_set(err, ERR_INVALID,
				       "color_jitter: `%s` must be [least, most]%s", factors[i],
				       i == 3 ? ", within -0.5 and 0.5" : "");
	}
	return 0;
}

/* Four factors, and the order in which they are applied (Fisher and Yates). */
static int jitter_draw(const struct op *op, struct random *r, const struct op_target *t,
		       struct drawn *ret, struct err *err)
{
	for (int i = 0; i < 4; i++) {
		ret->v[i] = random_between(r, op->jitter.factor[i].lo, op->jitter.factor[i].hi);
		ret->v[4 + i] = i;
	}
	for (uint32_t i = 3; i > 0; i--) {
		uint32_t k = random_below(r, i + 1);
		double v = ret->v[4 + i];

		ret->v[4 + i] = ret->v[4 + k];
		ret->v[4 + k] = v;
	}
	ret->n = 8;
	return 0;
}

static void jitter_apply(const struct op *op, const struct drawn *d, struct workspace *ws,
			 bool mask, struct random *pixels)
{
	static void (*const fns[])(struct workspace *, double) = { colour_brightness,
								   colour_contrast,
								   colour_saturation, colour_hue };

	for (int i = 0; i < 4; i++) {
		int k = (int)d->v[4 + i];

		if (d->v[k] != (k < 3 ? 1 : 0))
			fns[k](ws, d->v[k]);
	}
}

static void jitter_record(const struct op *op, const struct drawn *d, json_t *to)
{
	json_t *order = json_array();

	for (int i = 0; i < 4; i++) {
		json_object_set_new(to, factors[i], json_real(d->v[i]));
		json_array_append_new(order, json_string(factors[(int)d->v[4 + i]]));
	}
	json_object_set_new(to, "order", order);
}

const struct op_type op_color_jitter = { .name = "color_jitter",
					 .compile = jitter_compile,
					 .draw = jitter_draw,
					 .apply = jitter_apply,
					 .record = jitter_record,
					 .colours = true };

static int gray_compile(struct op *op, const json_t *with, struct err *err)
{
	op->flag = strcmp(step_text(with, "channels"), "1") == 0;
	if (op->flag && op->p < 1)
		return err_set(
			err, ERR_INVALID,
			"grayscale: with `channels: 1` all images become gray; `p` must be 1");
	return 0;
}

static void gray_apply(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
		       struct random *pixels)
{
	const struct image *im = &ws->cur;

	if (im->channels == 1)
		return;
	image_make(&ws->spare, im->w, im->h, op->flag ? 1 : 3);
	for (uint32_t y = 0; y < im->h; y++) {
		const uint8_t *p = image_row(im, y);
		uint8_t *to = image_row(&ws->spare, y);

		for (uint32_t x = 0; x < im->w; x++, p += 4)
			if (op->flag) /* one channel */
				to[x] = luma(p);
			else
				memset(to + (size_t)x * 4, luma(p), 4);
	}
	workspace_swap(ws);
}

const struct op_type op_grayscale = {
	.name = "grayscale", .compile = gray_compile, .apply = gray_apply, .colours = true
};
