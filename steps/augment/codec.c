/* steps/augment/codec.c — finds the format and the orientation; the parts that all formats
 * share. */
#include "steps/augment/codec.h"
#include <assert.h>
#include <string.h>

int codec_probe(const void *data, size_t n, const struct codec_options *o, struct image_info *ret,
		struct err *err)
{
	struct image_info info = { .orientation = 1 };
	int r;

	if (n >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
		r = jpeg_probe(data, n, &info, err);
	else if (n >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
		r = png_probe(data, n, &info, err);
	else if (n >= 6 && memcmp(data, "\x93NUMPY", 6) == 0)
		r = npy_probe(data, n, &info, err);
	else
		r = err_set(err, ERR_INVALID,
			    n ? "it is neither JPEG, PNG nor NPY" : "it is empty");
	if (r < 0)
		return -1;
	if (info.w == 0 || info.h == 0)
		return err_set(err, ERR_INVALID, "it has no pixels (%u x %u)", info.w, info.h);
	if ((uint64_t)info.w * info.h > o->max_pixels)
		return err_set(err, ERR_TOO_LARGE,
			       "it has %u x %u pixels, more than max_pixels (%llu)", info.w, info.h,
			       (unsigned long long)o->max_pixels);
	if (!o->upright || info.orientation > 8)
		info.orientation = 1;
	if (info.orientation >= 5) {
		uint32_t t = info.w;

		info.w = info.h;
		info.h = t;
	}
	*ret = info;
	return 0;
}

static unsigned tiff_u16(const uint8_t *p, bool big)
{
	return big ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
}

static size_t tiff_u32(const uint8_t *p, bool big)
{
	return big ? (size_t)tiff_u16(p, big) << 16 | tiff_u16(p + 2, big)
		   : (size_t)tiff_u16(p + 2, big) << 16 | tiff_u16(p, big);
}

/* EXIF 2.3, section 4.6.4: tag 0x0112 of the first directory, a SHORT. */
unsigned exif_orientation(const uint8_t *tiff, size_t n)
{
	bool big = n >= 8 && memcmp(tiff, "MM\0*", 4) == 0;
	size_t at, entries;

	if (n < 8 || (!big && memcmp(tiff, "II*\0", 4) != 0))
		return 1;
	at = tiff_u32(tiff + 4, big);
	if (at > n - 2)
		return 1;
	entries = tiff_u16(tiff + at, big);
	at += 2;
	for (size_t i = 0; i < entries && at + 12 <= n; i++, at += 12)
		if (tiff_u16(tiff + at, big) == 0x0112 && tiff_u16(tiff + at + 2, big) == 3) {
			unsigned v = tiff_u16(tiff + at + 8, big);

			return v >= 1 && v <= 8 ? v : 1;
		}
	return 1;
}

/* 2: mirrored; 3: turned by 180; 4: upside down; 5: transposed; 6: must be turned right; 7:
 * transposed the other way; 8: must be turned left. */
static void turn_upright(const struct image *from, unsigned orientation, struct image *to)
{
	bool swap = orientation >= 5,
	     mirror_x =
		     orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
	     mirror_y =
		     orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
	unsigned bytes = image_pixel_bytes(from);

	image_make(to, swap ? from->h : from->w, swap ? from->w : from->h, from->channels);
	for (uint32_t y = 0; y < to->h; y++)
		for (uint32_t x = 0; x < to->w; x++) {
			uint32_t sx = swap ? y : x, sy = swap ? x : y;
			const uint8_t *s = image_row(from, mirror_y ? from->h - 1 - sy : sy) +
					   (size_t)(mirror_x ? from->w - 1 - sx : sx) * bytes;

			memcpy(image_row(to, y) + (size_t)x * bytes, s, bytes);
		}
}

void codec_view(struct image *view, const struct image *of, const struct image_part *part)
{
	uint32_t d = part->denom, x = part->x / d, y = part->y / d,
		 right = MIN((part->x + part->w + d - 1) / d, of->w),
		 bottom = MIN((part->y + part->h + d - 1) / d, of->h);

	assert(x < right && y < bottom);
	image_view(view, of, x, y, right - x, bottom - y);
}

int codec_read(const void *data, size_t n, const struct codec_options *o,
	       const struct image_info *info, const struct image_part *part, struct image *ret,
	       struct image *other, struct err *err)
{
	struct image *to = info->orientation == 1 ? ret : other;
	struct image_part whole = { 0, 0, info->orientation >= 5 ? info->h : info->w,
				    info->orientation >= 5 ? info->w : info->h, part->denom };
	int r = info->format == IMAGE_JPEG  ? jpeg_read(data, n, to == ret ? part : &whole, to, err)
		: info->format == IMAGE_PNG ? png_read(data, n, o, to, err)
					    : npy_read(data, n, o, to, err);

	if (r < 0)
		return -1;
	if (to == other)
		turn_upright(other, info->orientation, ret);
	if (info->format != IMAGE_JPEG || to == other)
		codec_view(ret, ret, part);
	return 0;
}

void codec_compose(struct image *im, const uint8_t background[3])
{
	for (uint32_t y = 0; y < im->h; y++)
		for (uint8_t *p = image_row(im, y), *end = p + (size_t)im->w * 4; p < end; p += 4)
			for (unsigned c = 0; c < 3; c++)
				p[c] = (uint8_t)((p[c] * p[3] + background[c] * (255 - p[3]) +
						  127) /
						 255);
}
