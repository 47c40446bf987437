/* steps/augment/resample.h — resizing images.
 *
 * Separable: first along rows, then along columns, 8 bits between, weights as integers in 1/2^22; a
 * filter is widened by the factor when it shrinks. That is the arithmetic of Pillow's Image.resize,
 * and the pixels are the same. Source of the filters: K. Turkowski, "Filters for Common Resampling
 * Tasks", Graphics Gems, 1990; bicubic with a = -1/2 (R. Keys 1981); Lanczos with three lobes.
 */
#ifndef CAIRN_STEPS_AUGMENT_RESAMPLE_H
#define CAIRN_STEPS_AUGMENT_RESAMPLE_H

#include "steps/augment/image.h"

enum filter {
	FILTER_NEAREST,
	FILTER_BOX,
	FILTER_BILINEAR,
	FILTER_BICUBIC,
	FILTER_LANCZOS
}; /* in the order of the spec's choices */

/* Part of an image, in pixels, which may be fractions. */
struct box {
	double x, y, w, h;
};

/* Resizes `box` of ws->cur (inside it) to the w x h pixels of the new ws->cur. */
void resample(struct workspace *ws, const struct box *box, uint32_t w, uint32_t h,
	      enum filter filter);

#endif
