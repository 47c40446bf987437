/* steps/augment/ops.h — the operations: read once from the settings, drawn for each image from its
 * random numbers, then applied.
 *
 * Drawing depends on the image's size only, never on its pixels, so that images of one sample are
 * changed in the same way, and so that a window is known before its image is decoded. The drawn
 * values are plain numbers: `record: true` writes them down, and tests feed them to other programs.
 */
#ifndef CAIRN_STEPS_AUGMENT_OPS_H
#define CAIRN_STEPS_AUGMENT_OPS_H

#include "base/text/json.h"
#include "steps/augment/random.h"
#include "steps/augment/resample.h"

#define DRAWN_MAX 32
#define OPS_MAX   64

struct drawn {
	bool on;
	unsigned n;
	double v[DRAWN_MAX];
};

/* The image before an op. */
struct op_target {
	uint32_t w, h;
	bool mask; /* a label map: nearest pixels, colours untouched */
};

struct range {
	double lo, hi;
};

struct op_window {
	uint32_t w, h; /* h 0: w is the shorter side (resize) */
	struct range scale, ratio;
	int padding[4], mode; /* left, top, right, bottom */
	bool pad_if_needed;
};
struct op_warp {
	struct range degrees, scale, shear_x, shear_y;
	double translate[2];
	bool expand;
};
struct op_jitter {
	struct range factor[4]; /* brightness, contrast, saturation, hue */
};

struct op_type;
struct op {
	const struct op_type *type;
	double p; /* probability; 1 for ops that always apply */
	enum filter filter;
	uint8_t fill[3];
	struct range sigma;
	int count, magnitude, bins; /* blur's kernel, cutout's holes, RandAugment's n */
	bool flag; /* flip: vertical; grayscale: one channel; normalize: channels first */
	double mean[3], std[3];
	union {
		struct op_window window;
		struct op_warp warp;
		struct op_jitter jitter;
	};
};

struct op_type {
	const char *name;
	int (*compile)(struct op *op, const json_t *with,
		       struct err *err); /* `fill`, `filter` and `p` were read before */
	int (*draw)(const struct op *op, struct random *r, const struct op_target *t,
		    struct drawn *ret, struct err *err); /* `on` and p were handled before */
	void (*apply)(const struct op *op, const struct drawn *d, struct workspace *ws, bool mask,
		      struct random *pixels);
	const char *names; /* of the drawn numbers, "x y width height"; NULL: `record` */
	void (*record)(const struct op *op, const struct drawn *d, json_t *to);
	bool colours; /* leaves masks alone */
	bool window;  /* drawn: x, y, width, height, and the size after resizing */
};

extern const struct op_type op_resize, op_center_crop, op_random_crop, op_random_resized_crop,
	op_flip, op_rotate, op_affine, op_color_jitter, op_grayscale, op_blur, op_noise, op_cutout,
	op_normalize, op_rand_augment;

/* Which stream of random numbers an op draws from. */
struct op_place {
	struct random_key key; /* of the sample */
	uint32_t copy, index;  /* index: of the op in the list */
};

/* Reads the complete form: {"flip": {"direction": ..., "p": ...}}. */
int op_compile(struct op *ret, const json_t *variant, struct err *err);
int op_draw(const struct op *op, const struct op_place *at, const struct op_target *t,
	    struct drawn *ret, struct err *err);
void op_apply(const struct op *op, const struct drawn *d, const struct op_place *at,
	      struct workspace *ws, bool mask);
json_t *op_record(const struct op *op, const struct drawn *d);

/* Settings. */
struct range op_range(const json_t *with, const char *name,
		      double around); /* [lo, hi], or x: around - x .. around + x */
void op_size(const json_t *with, const char *name, uint32_t *h, uint32_t *w); /* [side]: both */
/* The index of `word` among the n words; it must be one of them (asserted). */
size_t op_word(const char *const *words, size_t n, const char *word);
/* The numbers of a list; the last one is repeated up to n. */
void op_numbers(const json_t *with, const char *name, double *ret, unsigned n);

/* Windows: op_window.c. */

/* What an op with `window` drew. */
struct window {
	double x, y, w, h; /* in the image; x and y may be outside of it */
	double to_w, to_h; /* after resizing */
};
static inline struct window window_of(const struct drawn *d)
{
	return (struct window){ d->v[0], d->v[1], d->v[2], d->v[3], d->v[4], d->v[5] };
}

/* Whether all of the window is inside the image, so that nothing else must be decoded. */
bool window_is_inside(const struct drawn *d, const struct op_target *t);
/* Applies the window, which is `box` of the image; for images that were decoded only in part. */
void window_apply(const struct op *op, const struct drawn *d, const struct box *box,
		  struct workspace *ws, bool mask);

/* Warps: warp.c. */

/* Turned about a centre, clockwise; then sheared; scaled up by scale; moved by (tx, ty). Angles in
 * degrees.
 */
struct affine {
	double cx, cy, angle, tx, ty, scale, shear_x, shear_y;
};
void warp_affine(struct workspace *ws, const struct affine *a, bool bilinear,
		 const uint8_t fill[3]);
/* Counter-clockwise about the middle. */
void warp_rotate(struct workspace *ws, double degrees, bool expand, bool bilinear,
		 const uint8_t fill[3]);

/* Colours: colour.c. */

void colour_brightness(struct workspace *ws, double factor);
void colour_contrast(struct workspace *ws, double factor);
void colour_saturation(struct workspace *ws, double factor);
void colour_sharpness(struct workspace *ws, double factor);
void colour_posterize(struct workspace *ws, int bits);
void colour_solarize(struct workspace *ws, double threshold);
void colour_autocontrast(struct workspace *ws);
void colour_equalize(struct workspace *ws);

#endif
