/* steps/augment/ops.c — the common part of all operations, and the small ones: flip, cutout,
 * normalise.
 *
 * An op has three stages. op_compile() reads its settings into a struct op, once for the step; then
 * the op never changes. op_draw() makes numbers for one image from a separate random stream (seed,
 * sample, copy, index of the op) and from the image's size. op_apply() changes ws->cur by these
 * numbers, and uses no other randomness, except noise, which has the stream RANDOM_PIXELS.
 *
 * `types` lists every op by its name in the settings. A draw that isn't applied (by its probability
 * `p`) has `on` false. Masks skip ops on colours. op_record() writes down the drawn values, by
 * op_type.names or its own record().
 *
 * normalize has no apply(): sample.c requires it to be the last op, and codec_write_npy_float()
 * does it. Limits of settings are the spec's (steps/spec/augment.c); compile functions check what a
 * table can't express. Any thread; all state is in the workspace.
 */
#include "steps/augment/ops.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "steps/step.h"

static const struct op_type *const types[] = {
	&op_resize, &op_center_crop, &op_random_crop,  &op_random_resized_crop, &op_flip,
	&op_rotate, &op_affine,      &op_color_jitter, &op_grayscale,           &op_blur,
	&op_noise,  &op_cutout,      &op_normalize,    &op_rand_augment
};

/* Settings. */

void op_numbers(const json_t *with, const char *name, double *ret, unsigned n)
{
	const json_t *list = step_value(with, name);
	size_t have = json_array_size(list);

	assert(have > 0 && n > 0);
	for (unsigned i = 0; i < n; i++)
		ret[i] = json_number_value(json_array_get(list, MIN(i, have - 1)));
}

struct range op_range(const json_t *with, const char *name, double around)
{
	const json_t *list = step_value(with, name);
	double v[2];

	op_numbers(with, name, v, 2);
	return json_array_size(list) == 1
		       ? (struct range){ around - fabs(v[0]), around + fabs(v[0]) }
		       : (struct range){ v[0], v[1] };
}

void op_size(const json_t *with, const char *name, uint32_t *h, uint32_t *w)
{
	double v[2];

	op_numbers(with, name, v, 2);
	*h = (uint32_t)v[0];
	*w = (uint32_t)v[1];
}

size_t op_word(const char *const *words, size_t n, const char *word)
{
	size_t i = 0;

	while (i < n && strcmp(words[i], word) != 0)
		i++;
	assert(i < n);
	return i;
}

int op_compile(struct op *ret, const json_t *variant, struct err *err)
{
	static const char *const filters[] = { "nearest", "box", "bilinear", "bicubic", "lanczos" };
	const char *name = json_object_iter_key(json_object_iter((json_t *)variant));
	const json_t *with = json_object_get(variant, name);
	double fill[3];

	*ret = (struct op){ .p = 1 };
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(types[i]->name, name) == 0)
			ret->type = types[i];
	assert(ret->type);
	if (step_value(with, "p"))
		ret->p = step_float(with, "p");
	if (step_value(with, "filter"))
		ret->filter = (enum filter)op_word(filters, ARRAY_LEN(filters),
						   step_text(with, "filter"));
	if (step_value(with, "fill")) {
		op_numbers(with, "fill", fill, 3);
		for (unsigned i = 0; i < 3; i++)
			ret->fill[i] = (uint8_t)fill[i];
	}
	return ret->type->compile ? ret->type->compile(ret, with, err) : 0;
}

/* Life cycle of an operation. */

int op_draw(const struct op *op, const struct op_place *at, const struct op_target *t,
	    struct drawn *ret, struct err *err)
{
	struct random r;

	random_start(&r, &at->key, at->copy, at->index, RANDOM_DRAW);
	ret->n = 0;
	ret->on = random_unit(&r) < op->p;
	if (!ret->on || !op->type->draw)
		return 0;
	return op->type->draw(op, &r, t, ret, err) < 0 ? err_wrap(err, "%s", op->type->name) : 0;
}

void op_apply(const struct op *op, const struct drawn *d, const struct op_place *at,
	      struct workspace *ws, bool mask)
{
	struct random pixels;

	if (!d->on || !op->type->apply || (mask && op->type->colours))
		return;
	random_start(&pixels, &at->key, at->copy, at->index, RANDOM_PIXELS);
	op->type->apply(op, d, ws, mask, &pixels);
}

json_t *op_record(const struct op *op, const struct drawn *d)
{
	json_t *ret = json_object();
	unsigned i = 0;

	json_object_set_new(ret, "op", json_string(op->type->name));
	if (!d->on) {
		json_object_set_new(ret, "applied", json_false());
		return ret;
	}
	if (op->type->record)
		op->type->record(op, d, ret);
	for (const char *s = op->type->names; s && *s && i < d->n; i++) {
		_cleanup_(freep) char *name = xstrndup(s, strcspn(s, " "));

		json_object_set_new(ret, name, step_number(d->v[i]));
		s += strcspn(s, " ");
		s += *s == ' ';
	}
	return ret;
}

/* Flip. */

static int flip_compile(struct op *op, const json_t *with, struct err *err)
{
	op->flag = strcmp(step_text(with, "direction"), "vertical") == 0;
	return 0;
}

static void mirror_row(uint8_t *p, uint32_t w, unsigned bytes)
{
	if (bytes == 1) {
		for (uint8_t *q = p + w - 1; p < q; p++, q--) {
			uint8_t t = *p;

			*p = *q;
			*q = t;
		}
		return;
	}
	for (uint8_t *q = p + ((size_t)w - 1) * 4; p < q; p += 4, q -= 4) {
		uint32_t a, b;

		memcpy(&a, p, 4);
		memcpy(&b, q, 4);
		memcpy(p, &b, 4);
		memcpy(q, &a, 4);
	}
}

static void flip_apply(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
		       struct random *pixels)
{
	const struct image *im = &ws->cur;

	if (op->flag) {
		image_make(&ws->spare, im->w, im->h, im->channels);
		for (uint32_t y = 0; y < im->h; y++)
			memcpy(image_row(&ws->spare, im->h - 1 - y), image_row(im, y),
			       (size_t)im->w * image_pixel_bytes(im));
		workspace_swap(ws);
		return;
	}
	workspace_own(ws);
	for (uint32_t y = 0; y < im->h; y++)
		mirror_row(image_row(im, y), im->w, image_pixel_bytes(im));
}

const struct op_type op_flip = { .name = "flip", .compile = flip_compile, .apply = flip_apply };

/* Cutout: T. DeVries, G. Taylor, "Improved Regularization of Convolutional Neural Networks with
 * Cutout", 2017. */

static int cutout_compile(struct op *op, const json_t *with, struct err *err)
{
	op_size(with, "size", &op->window.h, &op->window.w);
	op->count = (int)step_int(with, "holes");
	return 0;
}

/* The centre may be any pixel, so that the border is covered too: the paper says that this
 * matters. */
static int cutout_draw(const struct op *op, struct random *r, const struct op_target *t,
		       struct drawn *ret, struct err *err)
{
	for (int i = 0; i < op->count; i++) {
		ret->v[ret->n++] = random_below(r, t->w);
		ret->v[ret->n++] = random_below(r, t->h);
	}
	return 0;
}

static void fill_hole(const struct op *op, struct image *im, int64_t cx, int64_t cy)
{
	int64_t x = cx - op->window.w / 2, y = cy - op->window.h / 2;
	int64_t x0 = MAX(x, 0), y0 = MAX(y, 0), x1 = MIN(x + op->window.w, (int64_t)im->w),
		y1 = MIN(y + op->window.h, (int64_t)im->h);

	for (y = y0; y < y1; y++) {
		uint8_t *p = image_row(im, (uint32_t)y) + (size_t)x0 * image_pixel_bytes(im);

		if (im->channels == 1)
			memset(p, op->fill[0], (size_t)(x1 - x0));
		for (x = x0; x < x1 && im->channels == 3; x++, p += 4)
			memcpy(p, op->fill, 3);
	}
}

static void cutout_apply(const struct op *op, const struct drawn *d, struct workspace *ws,
			 bool mask, struct random *pixels)
{
	workspace_own(ws);
	for (unsigned i = 0; i + 1 < d->n; i += 2)
		fill_hole(op, &ws->cur, (int64_t)d->v[i], (int64_t)d->v[i + 1]);
}

static void cutout_record(const struct op *op, const struct drawn *d, json_t *to)
{
	json_t *holes = json_array();

	for (unsigned i = 0; i + 1 < d->n; i += 2)
		json_array_append_new(
			holes, json_pack("{s:i,s:i}", "x", (int)d->v[i], "y", (int)d->v[i + 1]));
	json_object_set_new(to, "centres", holes);
}

const struct op_type op_cutout = { .name = "cutout",
				   .compile = cutout_compile,
				   .draw = cutout_draw,
				   .apply = cutout_apply,
				   .record = cutout_record,
				   .colours = true };

/* Normalize: done where the result is written. */

static int normalize_compile(struct op *op, const json_t *with, struct err *err)
{
	op_numbers(with, "mean", op->mean, 3);
	op_numbers(with, "std", op->std, 3);
	op->flag = strcmp(step_text(with, "layout"), "chw") == 0;
	for (unsigned i = 0; i < 3; i++)
		if (!(op->std[i] > 0))
			return err_set(err, ERR_INVALID, "normalize: `std` must be greater than 0");
	return 0;
}

const struct op_type op_normalize = { .name = "normalize", .compile = normalize_compile };
