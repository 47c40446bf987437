/* steps/augment/codec.h — images from and to bytes: JPEG (libjpeg-turbo), PNG (libpng), NPY arrays
 * of unsigned 8-bit levels.
 *
 * The bytes are hostile. Every failure is ERR_INVALID or ERR_TOO_LARGE, says what is wrong with the
 * image, and leaves nothing behind; sizes are checked before memory is taken. What an image is, is
 * seen from its first bytes. Any thread.
 */
#ifndef CAIRN_STEPS_AUGMENT_CODEC_H
#define CAIRN_STEPS_AUGMENT_CODEC_H

#include "base/text/str.h"
#include "steps/augment/image.h"

enum image_format { IMAGE_NONE, IMAGE_JPEG, IMAGE_PNG, IMAGE_NPY };

struct codec_options {
	uint64_t max_pixels;
	bool upright; /* follow EXIF's orientation */
	bool has_background;
	uint8_t background[3];
	bool indices; /* a palette's indices are what counts, not its colours */
	bool levels;  /* 16-bit gray levels stay so; without it they become 8-bit ones */
};

struct image_info {
	enum image_format format;
	uint32_t w, h;        /* upright */
	unsigned orientation; /* as in EXIF: 1 to 8; 1 when it isn't followed */
	bool deep, colour;    /* PNG: 16 bits a channel; more than gray */
};

/* A window, in pixels of the upright image at full size; and by what the image is made smaller: 1;
 * for JPEG also 2, 4, 8. */
struct image_part {
	uint32_t x, y, w, h;
	unsigned denom;
};

int codec_probe(const void *data, size_t n, const struct codec_options *o, struct image_info *ret,
		struct err *err);
/* All pixels that the window touches: from floor(x / denom) up to ceil((x + w) / denom), the same
 * ones that a whole image would have there. `other` is for its own use. A 16-bit level that stays
 * is the first two bytes of a colour pixel, the low one first: ops that move whole pixels keep it.
 */
int codec_read(const void *data, size_t n, const struct codec_options *o,
	       const struct image_info *info, const struct image_part *part, struct image *ret,
	       struct image *other, struct err *err);

/* Appended to *out. `deep`: what codec_read() made of 16-bit levels, written as such. */
int codec_write_jpeg(const struct image *im, int quality, struct str *out, struct err *err);
int codec_write_png(const struct image *im, bool deep, int compression, struct str *out,
		    struct err *err);
void codec_write_npy(const struct image *im, bool deep, struct str *out);
/* (level / 255 - mean) / std as little-endian float32; `first`: channels first. */
void codec_write_npy_float(const struct image *im, const double mean[3], const double std[3],
			   bool first, struct str *out);

/* One file a format. */

int jpeg_probe(const void *data, size_t n, struct image_info *ret,
	       struct err *err); /* as stored; orientation as EXIF says */
int jpeg_read(const void *data, size_t n, const struct image_part *part, struct image *ret,
	      struct err *err); /* a window of what is stored */
int png_probe(const void *data, size_t n, struct image_info *ret, struct err *err);
int png_read(const void *data, size_t n, const struct codec_options *o, struct image *ret,
	     struct err *err);
int npy_probe(const void *data, size_t n, struct image_info *ret, struct err *err);
int npy_read(const void *data, size_t n, const struct codec_options *o, struct image *ret,
	     struct err *err);
/* Of a TIFF block as in EXIF ("II*\0..." or "MM\0*..."); 1 when it has none or makes no sense. */
unsigned exif_orientation(const uint8_t *tiff, size_t n);
/* `view` shows the part of `of`, an image as large as the part's `denom` makes it. */
void codec_view(struct image *view, const struct image *of, const struct image_part *part);
/* Four bytes a pixel whose last one is opacity, laid over a background. */
void codec_compose(struct image *im, const uint8_t background[3]);

#endif
