/* steps/augment/op_window.c — resizing and cropping: each takes a window of the image and resizes
 * it.
 *
 * Drawn: x, y, width, height of the window in the image (x and y may be outside, then the rest is
 * padding), and the width and height after resizing. If both sizes are equal it is only a crop.
 * Only random_crop and center_crop reach outside; they never resize, so crop_padded() only copies
 * pixels.
 *
 * Drawing needs only the image's size. So sample.c draws the first op before it decodes, and
 * decodes just the window when window_is_inside(). It then calls window_apply() with the window's
 * place in the decoded part; apply() does the same for later ops, with a view of ws->cur.
 *
 * Ties in rounding follow torchvision and Python's round() (half(), rint()); results of exp() are
 * rounded to 24 bits (steady()). resample.c has weights and filters.
 */
#include <math.h>
#include <string.h>
#include "steps/augment/ops.h"
#include "steps/step.h"

enum { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC };

/* In the order of WINDOW_NAMES and window_of(). */
static int set_window(struct drawn *d, const struct window *win)
{
	const double v[] = { win->x, win->y, win->w, win->h, win->to_w, win->to_h };

	memcpy(d->v, v, sizeof(v));
	d->n = ARRAY_LEN(v);
	return 0;
}

bool window_is_inside(const struct drawn *d, const struct op_target *t)
{
	const struct window win = window_of(d);

	return win.x >= 0 && win.y >= 0 && win.x + win.w <= t->w && win.y + win.h <= t->h;
}

/* Padding: a crop that reaches over the border. */

/* The source of column or row i; -1: none. */
static int64_t padded_from(int64_t i, int64_t n, int mode)
{
	int64_t period = mode == PAD_REFLECT ? 2 * (n - 1) : 2 * n;

	if (i >= 0 && i < n)
		return i;
	if (mode == PAD_CONSTANT)
		return -1;
	if (mode == PAD_EDGE || n == 1)
		return i < 0 ? 0 : n - 1;
	i = (i % period + period) % period;
	if (i < n)
		return i;
	return mode == PAD_REFLECT ? period - i : period - 1 - i;
}

static void crop_padded(const struct op *op, struct workspace *ws, int64_t x0, int64_t y0,
			uint32_t w, uint32_t h)
{
	const struct image *from = &ws->cur;
	unsigned bytes = image_pixel_bytes(from);

	image_make(&ws->spare, w, h, from->channels);
	for (uint32_t y = 0; y < h; y++) {
		int64_t sy = padded_from(y0 + y, from->h, op->window.mode);
		uint8_t *to = image_row(&ws->spare, y);

		for (uint32_t x = 0; x < w; x++, to += bytes) {
			int64_t sx = sy < 0 ? -1 : padded_from(x0 + x, from->w, op->window.mode);

			if (sx >= 0)
				memcpy(to, image_row(from, (uint32_t)sy) + (size_t)sx * bytes,
				       bytes);
			else
				memcpy(to, op->fill, MIN(bytes, 3));
		}
	}
	workspace_swap(ws);
}

void window_apply(const struct op *op, const struct drawn *d, const struct box *box,
		  struct workspace *ws, bool mask)
{
	const struct window win = window_of(d);

	resample(ws, box, (uint32_t)win.to_w, (uint32_t)win.to_h,
		 mask ? FILTER_NEAREST : op->filter);
}

static void apply(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
		  struct random *pixels)
{
	const struct op_target t = { ws->cur.w, ws->cur.h, mask };
	const struct window win = window_of(d);
	const struct box box = { 0, 0, win.w, win.h };

	if (!window_is_inside(d, &t)) {
		crop_padded(op, ws, (int64_t)win.x, (int64_t)win.y, (uint32_t)win.w,
			    (uint32_t)win.h);
		return;
	}
	image_view(&ws->cur, &ws->cur, (uint32_t)win.x, (uint32_t)win.y, (uint32_t)win.w,
		   (uint32_t)win.h);
	window_apply(op, d, &box, ws, mask);
}

/* Resize. */

static int resize_compile(struct op *op, const json_t *with, struct err *err)
{
	if (json_array_size(step_value(with, "size")) == 1)
		op->window.w =
			(uint32_t)json_integer_value(json_array_get(step_value(with, "size"), 0));
	else
		op_size(with, "size", &op->window.h, &op->window.w);
	return 0;
}

static int resize_draw(const struct op *op, struct random *r, const struct op_target *t,
		       struct drawn *ret, struct err *err)
{
	uint64_t side = op->window.w, w = op->window.w, h = op->window.h;

	if (h == 0) { /* the longer side is cut to a whole number, as in torchvision */
		w = t->w <= t->h ? side : side * t->w / t->h;
		h = t->w <= t->h ? side * t->h / t->w : side;
	}
	if (w > INT32_MAX || h > INT32_MAX || w * h > 1000000000)
		return err_set(err, ERR_TOO_LARGE, "%u x %u pixels would become %llu x %llu", t->w,
			       t->h, (unsigned long long)w, (unsigned long long)h);
	return set_window(
		ret,
		&(struct window){ .w = t->w, .h = t->h, .to_w = (double)w, .to_h = (double)h });
}

#define WINDOW_NAMES "x y width height to_width to_height"

const struct op_type op_resize = { .name = "resize",
				   .compile = resize_compile,
				   .draw = resize_draw,
				   .apply = apply,
				   .names = WINDOW_NAMES,
				   .window = true };

/* Crops. */

static int crop_compile(struct op *op, const json_t *with, struct err *err)
{
	op_size(with, "size", &op->window.h, &op->window.w);
	return 0;
}

/* Half of a whole number, rounded to even in the middle: Python's round(), which torchvision
 * uses. */
static double half(double v)
{
	double lower = floor(v / 2);

	return v / 2 == lower || fmod(lower, 2) == 0 ? lower : lower + 1;
}

static int center_crop_draw(const struct op *op, struct random *r, const struct op_target *t,
			    struct drawn *ret, struct err *err)
{
	double w = op->window.w, h = op->window.h, x, y;

	/* A smaller image is padded first; of an odd number, the larger part goes right and
	 * below. */
	x = w > t->w ? -floor((w - t->w) / 2) : half(t->w - w);
	y = h > t->h ? -floor((h - t->h) / 2) : half(t->h - h);
	return set_window(ret, &(struct window){ x, y, w, h, .to_w = w, .to_h = h });
}

const struct op_type op_center_crop = { .name = "center_crop",
					.compile = crop_compile,
					.draw = center_crop_draw,
					.apply = apply,
					.names = WINDOW_NAMES,
					.window = true };

static int random_crop_compile(struct op *op, const json_t *with, struct err *err)
{
	static const char *const modes[] = { "constant", "edge", "reflect", "symmetric" };
	size_t n = json_array_size(step_value(with, "padding"));
	double p[4];

	crop_compile(op, with, err);
	op_numbers(with, "padding", p, 4);
	if (n == 3)
		return err_set(err, ERR_INVALID,
			       "random_crop: `padding` is one number, two or four");
	for (int i = 0; i < 4; i++)
		op->window.padding[i] = (int)p[n == 2 ? i % 2 : i];
	op->window.mode = (int)op_word(modes, ARRAY_LEN(modes), step_text(with, "mode"));
	op->window.pad_if_needed = step_bool(with, "pad_if_needed");
	return 0;
}

static int random_crop_draw(const struct op *op, struct random *r, const struct op_target *t,
			    struct drawn *ret, struct err *err)
{
	const struct op_window *c = &op->window;
	int64_t left = c->padding[0], top = c->padding[1], w = t->w + left + c->padding[2],
		h = t->h + top + c->padding[3], x, y;

	if (c->pad_if_needed && w < c->w) {
		left += c->w - w;
		w += 2 * (c->w - w);
	}
	if (c->pad_if_needed && h < c->h) {
		top += c->h - h;
		h += 2 * (c->h - h);
	}
	if (w < c->w || h < c->h)
		return err_set(
			err, ERR_INVALID,
			"the image has %u x %u pixels, too small for %u x %u (see `pad_if_needed`)",
			t->w, t->h, c->w, c->h);
	x = random_below(r, (uint32_t)(w - c->w + 1)) - left;
	y = random_below(r, (uint32_t)(h - c->h + 1)) - top;
	return set_window(ret, &(struct window){ (double)x, (double)y, c->w, c->h, .to_w = c->w,
						 .to_h = c->h });
}

const struct op_type op_random_crop = { .name = "random_crop",
					.compile = random_crop_compile,
					.draw = random_crop_draw,
					.apply = apply,
					.names = WINDOW_NAMES,
					.window = true };

/* Random resized crop: C. Szegedy et al., "Going Deeper with Convolutions", 2014, as torchvision
 * draws it. */

static int resized_crop_compile(struct op *op, const json_t *with, struct err *err)
{
	crop_compile(op, with, err);
	op->window.scale = op_range(with, "scale", 0);
	op->window.ratio = op_range(with, "ratio", 0);
	if (op->window.scale.lo > op->window.scale.hi ||
	    op->window.ratio.lo > op->window.ratio.hi || op->window.ratio.lo <= 0)
		return err_set(err, ERR_INVALID,
			       "random_resized_crop: `scale` and `ratio` must be [least, most], "
			       "with ratios greater than 0");
	return 0;
}

/* exp() and log() may differ in their last bit between C libraries; in practice, rounding to 24
 * bits gives the same pixels. */
static double steady(double v)
{
	return floor(v * 0x1p24 + 0.5) * 0x1p-24;
}

/* Ten tries; then the largest window in the middle with an allowed shape. */
static int resized_crop_draw(const struct op *op, struct random *r, const struct op_target *t,
			     struct drawn *ret, struct err *err)
{
	const struct op_window *c = &op->window;
	double area = (double)t->w * t->h, w, h, shape = (double)t->w / t->h;

	for (int i = 0; i < 10; i++) {
		double part = area * random_between(r, c->scale.lo, c->scale.hi);
		double ratio = steady(exp(random_between(r, log(c->ratio.lo), log(c->ratio.hi))));
		uint32_t x, y;

		w = rint(sqrt(part * ratio));
		h = rint(sqrt(part / ratio));
		if (w < 1 || h < 1 || w > t->w || h > t->h)
			continue;
		y = random_below(r, t->h - (uint32_t)h + 1);
		x = random_below(r, t->w - (uint32_t)w + 1);
		return set_window(ret, &(struct window){ x, y, w, h, .to_w = c->w, .to_h = c->h });
	}
	w = shape > c->ratio.hi ? MAX(rint(t->h * c->ratio.hi), 1) : t->w;
	h = shape < c->ratio.lo ? MAX(rint(t->w / c->ratio.lo), 1) : t->h;
	return set_window(ret, &(struct window){ floor((t->w - w) / 2), floor((t->h - h) / 2), w, h,
						 .to_w = c->w, .to_h = c->h });
}

const struct op_type op_random_resized_crop = { .name = "random_resized_crop",
						.compile = resized_crop_compile,
						.draw = resized_crop_draw,
						.apply = apply,
						.names = WINDOW_NAMES,
						.window = true };
