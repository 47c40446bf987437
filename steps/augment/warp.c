/* steps/augment/warp.c — rotation and affine maps: finds for each pixel of the result the place in
 * the image from which it comes.
 *
 * In integers: the matrix is rounded once (struct walk), then only added up. Nearest uses 16
 * fractional bits, like Pillow's fixed-point path, and gives the same pixels; bilinear uses 32, of
 * which 11 are weights. A pixel whose place is outside of the image is filled. A matrix that is out
 * of range is cut to ±2^61 (fixed()), and sums wrap around by unsigned arithmetic.
 *
 * The matrices come from cos() and sin(), in doubles. A rotation by quarter turns is exact instead:
 * quarter_turns() moves pixels.
 *
 * warp_affine() and warp_rotate() serve the ops rotate and affine, at the end of the file, and
 * op_rand_augment.c. All read ws->cur, make ws->spare and swap. For masks, their callers choose the
 * nearest pixel.
 */
#include <math.h>
#include <string.h>
#include "steps/augment/ops.h"
#include "steps/step.h"

static int64_t fixed(double v, int bits)
{
	v = ldexp(v, bits);
	if (!(fabs(v) < 0x1p61)) /* with a scale near 0 everything is outside */
		v = v < 0 ? -0x1p61 : 0x1p61;
	return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

struct walk {
	int64_t x, y;           /* place in the image for pixel (0, 0) */
	int64_t x_by_x, y_by_x; /* what a step to the right adds */
	int64_t x_by_y, y_by_y; /* what a step down adds */
};

/* Sums that leave the range wrap around, which is defined, and stay outside in practice. */
static int64_t along(int64_t from, int64_t by, uint32_t n)
{
	return (int64_t)((uint64_t)from + (uint64_t)by * n);
}

static void nearest_row(const struct image *from, uint8_t *to, uint32_t w, int64_t x, int64_t y,
			const struct walk *k, const uint8_t *fill)
{
	unsigned bytes = image_pixel_bytes(from);

	for (uint32_t i = 0; i < w;
	     i++, to += bytes, x = along(x, k->x_by_x, 1), y = along(y, k->y_by_x, 1)) {
		uint64_t sx = (uint64_t)(x >> 16), sy = (uint64_t)(y >> 16);
		const uint8_t *s = sx < from->w && sy < from->h
					   ? image_row(from, (uint32_t)sy) + sx * bytes
					   : fill;

		if (bytes == 1)
			*to = *s;
		else
			memcpy(to, s, 4);
	}
}

#define WEIGHT 11

/* Mixes the four surrounding pixels; at the border the outermost pixel is its own neighbour. */
static void mix(const struct image *from, int64_t x, int64_t y, uint8_t *to, unsigned bytes)
{
	int64_t left = (x - (1LL << 31)) >> 32, top = (y - (1LL << 31)) >> 32;
	uint32_t fx = (uint32_t)(x - (1LL << 31)) >> (32 - WEIGHT),
		 fy = (uint32_t)(y - (1LL << 31)) >> (32 - WEIGHT), one = 1 << WEIGHT;
	size_t x0 = (size_t)MAX(left, 0) * bytes,
	       x1 = (size_t)MIN(left + 1, (int64_t)from->w - 1) * bytes;
	const uint8_t *a = image_row(from, (uint32_t)MAX(top, 0)),
		      *b = image_row(from, (uint32_t)MIN(top + 1, (int64_t)from->h - 1));

	for (unsigned c = 0; c < bytes; c++) {
		uint32_t up = a[x0 + c] * (one - fx) + a[x1 + c] * fx,
			 down = b[x0 + c] * (one - fx) + b[x1 + c] * fx;

		to[c] = (uint8_t)((up * (one - fy) + down * fy + (1 << (2 * WEIGHT - 1))) >>
				  2 * WEIGHT);
	}
}

static void bilinear_row(const struct image *from, uint8_t *to, uint32_t w, int64_t x, int64_t y,
			 const struct walk *k, const uint8_t *fill)
{
	unsigned bytes = image_pixel_bytes(from);
	int64_t right = (int64_t)from->w << 32, bottom = (int64_t)from->h << 32;

	for (uint32_t i = 0; i < w;
	     i++, to += bytes, x = along(x, k->x_by_x, 1), y = along(y, k->y_by_x, 1)) {
		if (x >= 0 && y >= 0 && x < right && y < bottom)
			mix(from, x, y, to, bytes);
		else
			memcpy(to, fill, bytes);
	}
}

/* Maps a pixel of the result (x, y) to the place m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5] in
 * the image; pixel centres are at halves. */
static void image_warp(struct workspace *ws, const double m[6], uint32_t w, uint32_t h,
		       bool bilinear, const uint8_t fill[3])
{
	const uint8_t fill4[4] = { fill[0], fill[1], fill[2], 255 };
	int bits = bilinear ? 32 : 16;
	const struct walk k = { .x = fixed(m[2] + (m[0] + m[1]) / 2, bits),
				.y = fixed(m[5] + (m[3] + m[4]) / 2, bits),
				.x_by_x = fixed(m[0], bits),
				.y_by_x = fixed(m[3], bits),
				.x_by_y = fixed(m[1], bits),
				.y_by_y = fixed(m[4], bits) };

	image_make(&ws->spare, w, h, ws->cur.channels);
	for (uint32_t y = 0; y < h; y++) {
		int64_t sx = along(k.x, k.x_by_y, y), sy = along(k.y, k.y_by_y, y);

		(bilinear ? bilinear_row : nearest_row)(&ws->cur, image_row(&ws->spare, y), w, sx,
							sy, &k, fill4);
	}
	workspace_swap(ws);
}

/* The inverse of: move to the centre, shear, turn, scale, move back and by (tx, ty). */
void warp_affine(struct workspace *ws, const struct affine *in, bool bilinear,
		 const uint8_t fill[3])
{
	double turn = in->angle * (M_PI / 180), sx = in->shear_x * (M_PI / 180),
	       sy = in->shear_y * (M_PI / 180), m[6];
	double a = cos(turn - sy) / cos(sy), b = -cos(turn - sy) * tan(sx) / cos(sy) - sin(turn);
	double c = sin(turn - sy) / cos(sy), d = -sin(turn - sy) * tan(sx) / cos(sy) + cos(turn);

	m[0] = d / in->scale;
	m[1] = -b / in->scale;
	m[3] = -c / in->scale;
	m[4] = a / in->scale;
	m[2] = in->cx - m[0] * (in->cx + in->tx) - m[1] * (in->cy + in->ty);
	m[5] = in->cy - m[3] * (in->cx + in->tx) - m[4] * (in->cy + in->ty);
	image_warp(ws, m, ws->cur.w, ws->cur.h, bilinear, fill);
}

/* Rotation. */

static void quarter_turns(struct workspace *ws, int n)
{
	const struct image *from = &ws->cur;
	bool swap = n != 2;
	unsigned bytes = image_pixel_bytes(from);

	image_make(&ws->spare, swap ? from->h : from->w, swap ? from->w : from->h, from->channels);
	for (uint32_t y = 0; y < ws->spare.h; y++)
		for (uint32_t x = 0; x < ws->spare.w; x++) {
			uint32_t sx = n == 1   ? from->w - 1 - y
				      : n == 2 ? from->w - 1 - x
					       : y,
				 sy = n == 1   ? x
				      : n == 2 ? from->h - 1 - y
					       : from->h - 1 - x;

			memcpy(image_row(&ws->spare, y) + (size_t)x * bytes,
			       image_row(from, sy) + (size_t)sx * bytes, bytes);
		}
	workspace_swap(ws);
}

/* The smallest size that holds all corners; rounding errors in a corner don't make it larger. */
static void expanded(const double m[6], uint32_t *w, uint32_t *h)
{
	double x[] = { 0, *w, 0, *w }, y[] = { 0, 0, *h, *h }, lo[2] = { 1e18, 1e18 },
	       hi[2] = { -1e18, -1e18 };

	for (int i = 0; i < 4; i++) {
		double p[2] = { m[0] * x[i] + m[1] * y[i] + m[2],
				m[3] * x[i] + m[4] * y[i] + m[5] };

		for (int k = 0; k < 2; k++) {
			lo[k] = MIN(lo[k], p[k]);
			hi[k] = MAX(hi[k], p[k]);
		}
	}
	*w = (uint32_t)(ceil(hi[0] - 1e-9) - floor(lo[0] + 1e-9));
	*h = (uint32_t)(ceil(hi[1] - 1e-9) - floor(lo[1] + 1e-9));
}

void warp_rotate(struct workspace *ws, double degrees, bool expand, bool bilinear,
		 const uint8_t fill[3])
{
	uint32_t w = ws->cur.w, h = ws->cur.h, out_w = w, out_h = h;
	double turned = fmod(fmod(degrees, 360) + 360, 360), a = -degrees * (M_PI / 180),
	       c = cos(a), s = sin(a), m[6] = { c, s, 0, -s, c, 0 }, cx, cy;

	if (turned == 0)
		return;
	if (turned == 180 || ((turned == 90 || turned == 270) && (expand || w == h))) {
		quarter_turns(ws, (int)(turned / 90));
		return;
	}
	m[2] = w / 2.0 - (m[0] * w + m[1] * h) / 2;
	m[5] = h / 2.0 - (m[3] * w + m[4] * h) / 2;
	if (expand)
		expanded(m, &out_w, &out_h);
	cx = ((double)w - out_w) / 2;
	cy = ((double)h - out_h) / 2;
	m[2] += m[0] * cx + m[1] * cy;
	m[5] += m[3] * cx + m[4] * cy;
	image_warp(ws, m, out_w, out_h, bilinear, fill);
}

static int rotate_compile(struct op *op, const json_t *with, struct err *err)
{
	op->warp.degrees = op_range(with, "degrees", 0);
	op->warp.expand = step_bool(with, "expand");
	return 0;
}

static int rotate_draw(const struct op *op, struct random *r, const struct op_target *t,
		       struct drawn *ret, struct err *err)
{
	ret->v[ret->n++] = random_between(r, op->warp.degrees.lo, op->warp.degrees.hi);
	return 0;
}

static void rotate_apply(const struct op *op, const struct drawn *d, struct workspace *ws,
			 bool mask, struct random *pixels)
{
	warp_rotate(ws, d->v[0], op->warp.expand, op->filter == FILTER_BILINEAR && !mask, op->fill);
}

const struct op_type op_rotate = { .name = "rotate",
				   .compile = rotate_compile,
				   .draw = rotate_draw,
				   .apply = rotate_apply,
				   .names = "degrees" };

/* Affine. */

static int affine_compile(struct op *op, const json_t *with, struct err *err)
{
	size_t n = json_array_size(step_value(with, "shear"));
	double shear[4];

	op->warp.degrees = op_range(with, "degrees", 0);
	op->warp.scale = op_range(with, "scale", 1);
	op_numbers(with, "translate", op->warp.translate, 2);
	op_numbers(with, "shear", shear, 4);
	op->warp.shear_x = op_range(with, "shear", 0);
	if (n == 3)
		return err_set(err, ERR_INVALID, "affine: `shear` is one number, two or four");
	if (n == 4)
		op->warp.shear_y = (struct range){ shear[2], shear[3] };
	if (!(op->warp.scale.lo >= 0.001 && op->warp.scale.lo <= op->warp.scale.hi))
		return err_set(err, ERR_INVALID,
			       "affine: `scale` must be [least, most], at least 0.001");
	return 0;
}

/* In torchvision's order: the angle, the translation (whole pixels), the scale, the shears. */
static int affine_draw(const struct op *op, struct random *r, const struct op_target *t,
		       struct drawn *ret, struct err *err)
{
	double x = op->warp.translate[0] * t->w, y = op->warp.translate[1] * t->h;

	ret->v[0] = random_between(r, op->warp.degrees.lo, op->warp.degrees.hi);
	ret->v[1] = rint(random_between(r, -x, x));
	ret->v[2] = rint(random_between(r, -y, y));
	ret->v[3] = random_between(r, op->warp.scale.lo, op->warp.scale.hi);
	ret->v[4] = random_between(r, op->warp.shear_x.lo, op->warp.shear_x.hi);
	ret->v[5] = random_between(r, op->warp.shear_y.lo, op->warp.shear_y.hi);
	ret->n = 6;
	return 0;
}

static void affine_apply(const struct op *op, const struct drawn *d, struct workspace *ws,
			 bool mask, struct random *pixels)
{
	const struct affine a = { ws->cur.w / 2.0, ws->cur.h / 2.0, d->v[0], d->v[1],
				  d->v[2],         d->v[3],         d->v[4], d->v[5] };

	warp_affine(ws, &a, op->filter == FILTER_BILINEAR && !mask, op->fill);
}

const struct op_type op_affine = {
	.name = "affine",
	.compile = affine_compile,
	.draw = affine_draw,
	.apply = affine_apply,
	.names = "degrees translate_x translate_y scale shear_x shear_y"
};
