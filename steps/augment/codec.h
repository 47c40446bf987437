/* steps/augment/codec.h — images from and to bytes: JPEG (libjpeg-turbo), PNG (libpng), NPY arrays
 * of unsigned 8-bit levels.
 *
 * The bytes are hostile. Every failure is ERR_INVALID or ERR_TOO_LARGE, says what is wrong with the
 * image, and leaves nothing behind; sizes are checked before memory is allocated. The first bytes
 * tell an image's format. Any thread.
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
	bool indices; /* keep a palette's indices instead of its colours */
	bool levels;  /* keep 16-bit gray levels; else they become 8-bit ones */
};

struct image_info {
	enum image_format format;
	uint32_t w, h;        /* upright */
	unsigned orientation; /* as in EXIF: 1 to 8; 1 when it is ignored */
	bool deep, colour;    /* PNG: 16 bits a channel; more than gray */
};

/* A window, in pixels of the upright image at full size, and the factor by which the image is made
 * smaller: 1; for JPEG also 2, 4, 8. */
struct image_part {
	uint32_t x, y, w, h;
	unsigned denom;
};

int codec_probe(const void *data, size_t n, const struct codec_options *o, struct image_info *ret,
		struct err *err);
/* Reads all pixels that the window touches: from floor(x / denom) up to ceil((x + w) / denom), the
 * same ones that a whole image would have there. `other` is memory for its own use. A 16-bit level
 * that is kept is the first two bytes of a colour pixel, the low one first: ops that move whole
 * pixels keep it.
 */
int codec_read(const void *data, size_t n, const struct codec_options *o,
	       const struct image_info *info, const struct image_part *part, struct image *ret,
	       struct image *other, struct err *err);

/* All append to *out. `deep`: the image holds 16-bit levels of codec_read(), to be written as
 * such. */
int codec_write_jpeg(const struct image *im, int quality, struct str *out, struct err *err);
int codec_write_png(const struct image *im, bool deep, int compression, struct str *out,
		    struct err *err);
void codec_write_npy(const struct image *im, bool deep, struct str *out);
/* Writes (level / 255 - mean) / std as little-endian float32; `first`: channels first. */
void codec_write_npy_float(const struct image *im, const double mean[3], const double std[3],
			   bool first, struct str *out);

/* One file for each format. */

int jpeg_probe(const void *data, size_t n, struct image_info *ret,
	       struct err *err); /* as stored; orientation as EXIF says */
int jpeg_read(const void *data, size_t n, const struct image_part *part, struct image *ret,
	      struct err *err); /* a window of the stored image */
int png_probe(const void *data, size_t n, struct image_info *ret, struct err *err);
int png_read(const void *data, size_t n, const struct codec_options *o, struct image *ret,
	     struct err *err);
int npy_probe(const void *data, size_t n, struct image_info *ret, struct err *err);
int npy_read(const void *data, size_t n, const struct codec_options *o, struct image *ret,
	     struct err *err);
/* Reads the orientation of a TIFF block as in EXIF ("II*\0..." or "MM\0*..."); 1 when it has none
 * or makes no sense. */
unsigned exif_orientation(const uint8_t *tiff, size_t n);
/* `view` shows the part of `of`, an image that was already made smaller by the part's `denom`. */
void codec_view(struct image *view, const struct image *of, const struct image_part *part);
/* Lays pixels of four bytes, of which the last is opacity, over a background. */
void codec_compose(struct image *im, const uint8_t background[3]);

#endif
