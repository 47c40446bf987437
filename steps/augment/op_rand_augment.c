/* steps/augment/op_rand_augment.c — E. Cubuk, B. Zoph, J. Shlens, Q. Le, "RandAugment: Practical
 * automated data augmentation with a reduced search space", CVPR Workshops 2020: n operations of
 * 14, chosen with equal probability, all of one magnitude. Their ranges are those of
 * torchvision.transforms.RandAugment.
 *
 * `choices` is the table of the 14: the meaning of the magnitude (amount()), whether the sign is
 * drawn, and the function. draw() writes pairs into struct drawn: the index in the table, and the
 * amount with its sign. The sign is always drawn, even if it has no meaning, so that the numbers
 * after it don't depend on the choice. The order of the table is part of the result.
 *
 * Amounts are computed from the image's size before the op; an operation in the list doesn't change
 * the size. colour.c and warp.c change the pixels. On a mask the operations on colours are left
 * out, and those that move pixels use the nearest.
 */
#include <math.h>
#include <string.h>
#include "steps/augment/ops.h"
#include "steps/step.h"

/* The meaning of magnitude m of 0..1 for an image. */
struct choice {
	const char *name;
	double (*amount)(double m, const struct op_target *t); /* NULL: no amount */
	bool either_way; /* the sign is negative half of the time */
	bool colours;
	void (*apply)(const struct op *op, double amount, struct workspace *ws, bool mask);
};

/* Amounts. */

static double shear(double m, const struct op_target *t)
{
	return 0.3 * m;
}
static double move_x(double m, const struct op_target *t)
{
	return 150.0 / 331.0 * t->w * m;
}
static double move_y(double m, const struct op_target *t)
{
	return 150.0 / 331.0 * t->h * m;
}
static double turn(double m, const struct op_target *t)
{
	return 30 * m;
}
static double enhance(double m, const struct op_target *t)
{
	return 0.9 * m;
}
static double bits(double m, const struct op_target *t)
{
	return 8 - rint(4 * m);
}
static double threshold(double m, const struct op_target *t)
{
	return 255 * (1 - m);
}

/* Operations. */

static void affine(const struct op *op, struct workspace *ws, bool mask, struct affine a)
{
	a.scale = 1;
	warp_affine(ws, &a, op->filter == FILTER_BILINEAR && !mask, op->fill);
}

/* About the corner, as in the paper's code. */
static void shear_x(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	affine(op, ws, mask, (struct affine){ .shear_x = atan(amount) * (180 / M_PI) });
}
static void shear_y(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	affine(op, ws, mask, (struct affine){ .shear_y = atan(amount) * (180 / M_PI) });
}
static void translate_x(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	affine(op, ws, mask,
	       (struct affine){ ws->cur.w / 2.0, ws->cur.h / 2.0, .tx = trunc(amount) });
}
static void translate_y(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	affine(op, ws, mask,
	       (struct affine){ ws->cur.w / 2.0, ws->cur.h / 2.0, .ty = trunc(amount) });
}
static void rotate(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	warp_rotate(ws, amount, false, op->filter == FILTER_BILINEAR && !mask, op->fill);
}
static void brightness(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_brightness(ws, 1 + amount);
}
static void color(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_saturation(ws, 1 + amount);
}
static void contrast(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_contrast(ws, 1 + amount);
}
static void sharpness(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_sharpness(ws, 1 + amount);
}
static void posterize(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_posterize(ws, (int)amount);
}
static void solarize(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_solarize(ws, amount);
}
static void autocontrast(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_autocontrast(ws);
}
static void equalize(const struct op *op, double amount, struct workspace *ws, bool mask)
{
	colour_equalize(ws);
}

static const struct choice choices[] = {
	{ "Identity", NULL, false, false, NULL },
	{ "ShearX", shear, true, false, shear_x },
	{ "ShearY", shear, true, false, shear_y },
	{ "TranslateX", move_x, true, false, translate_x },
	{ "TranslateY", move_y, true, false, translate_y },
	{ "Rotate", turn, true, false, rotate },
	{ "Brightness", enhance, true, true, brightness },
	{ "Color", enhance, true, true, color },
	{ "Contrast", enhance, true, true, contrast },
	{ "Sharpness", enhance, true, true, sharpness },
	{ "Posterize", bits, false, true, posterize },
	{ "Solarize", threshold, false, true, solarize },
	{ "AutoContrast", NULL, false, true, autocontrast },
	{ "Equalize", NULL, false, true, equalize },
};

/* The op. */

static int compile(struct op *op, const json_t *with, struct err *err)
{
	op->count = (int)step_int(with, "n");
	op->magnitude = (int)step_int(with, "magnitude");
	op->bins = (int)step_int(with, "bins");
	if (op->magnitude >= op->bins)
		return err_set(
			err, ERR_INVALID,
			"rand_augment: `magnitude` %d is more than the highest of %d bins, %d",
			op->magnitude, op->bins, op->bins - 1);
	return 0;
}

/* Draws pairs: which operation, what amount. */
static int draw(const struct op *op, struct random *r, const struct op_target *t, struct drawn *ret,
		struct err *err)
{
	double m = (double)op->magnitude / (op->bins - 1);

	for (int i = 0; i < op->count; i++) {
		uint32_t k = random_below(r, ARRAY_LEN(choices));
		bool other_way = random_below(r, 2) && choices[k].either_way;
		double amount = choices[k].amount ? choices[k].amount(m, t) : 0;

		ret->v[ret->n++] = k;
		ret->v[ret->n++] = other_way ? -amount : amount;
	}
	return 0;
}

static void apply(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
		  struct random *pixels)
{
	for (unsigned i = 0; i + 1 < d->n; i += 2) {
		const struct choice *c = &choices[(int)d->v[i]];

		if (c->apply && !(mask && c->colours))
			c->apply(op, d->v[i + 1], ws, mask);
	}
}

static void record(const struct op *op, const struct drawn *d, json_t *to)
{
	json_t *list = json_array();

	for (unsigned i = 0; i + 1 < d->n; i += 2)
		json_array_append_new(list, json_pack("{s:s,s:f}", "op", choices[(int)d->v[i]].name,
						      "amount", d->v[i + 1]));
	json_object_set_new(to, "ops", list);
}

const struct op_type op_rand_augment = {
	.name = "rand_augment", .compile = compile, .draw = draw, .apply = apply, .record = record
};
