/* steps/augment/npy.c — NumPy's array files, as far as images need them. */
#include "base/table/npy.h"
#include <string.h>
#include "steps/augment/codec.h"

/* The array in the file; depth 0: two dimensions. */
struct levels {
	uint32_t h, w, depth;
	const uint8_t *at;
};

static int npy_parse(const uint8_t *b, size_t n, struct levels *ret, struct err *err)
{
	struct npy_header h;
	uint64_t depth;

	if (npy_read_header("NPY", b, n, &h, err) < 0)
		return -1;
	depth = h.dimensions == 3 ? h.shape[2] : 1;
	if (h.kind != 'u' || h.item_bytes != 1 || *h.unit)
		return err_set(err, ERR_INVALID,
			       "its levels are `%s`, an image has unsigned 8-bit ones (`|u1`)",
			       h.descr);
	if (h.dimensions < 2 || h.dimensions > 3 || h.fortran ||
	    (depth != 1 && depth != 3 && depth != 4))
		return err_set(err, ERR_INVALID,
			       "its shape isn't an image's: height x width, or height x width x 1, "
			       "3 or 4 channels, in C order");
	if (h.shape[0] > UINT32_MAX || h.shape[1] > UINT32_MAX ||
	    (h.shape[0] && h.shape[1] > (n - h.data_at) / h.shape[0] / depth))
		return err_set(err, ERR_INVALID, "it is cut off: %zu bytes for its shape",
			       n - h.data_at);
	*ret = (struct levels){ (uint32_t)h.shape[0], (uint32_t)h.shape[1],
				h.dimensions == 3 ? (uint32_t)depth : 0, b + h.data_at };
	return 0;
}

int npy_probe(const void *data, size_t n, struct image_info *ret, struct err *err)
{
	struct levels a;

	if (npy_parse(data, n, &a, err) < 0)
		return -1;
	ret->format = IMAGE_NPY;
	ret->w = a.w;
	ret->h = a.h;
	return 0;
}

int npy_read(const void *data, size_t n, const struct codec_options *o, struct image *ret,
	     struct err *err)
{
	struct levels a;

	if (npy_parse(data, n, &a, err) < 0)
		return -1;
	image_make(ret, a.w, a.h, a.depth <= 1 ? 1 : 3);
	for (uint32_t y = 0; y < a.h; y++) {
		const uint8_t *from = a.at + (size_t)y * a.w * MAX(a.depth, 1);
		uint8_t *to = image_row(ret, y);

		if (a.depth != 3)
			memcpy(to, from, (size_t)a.w * MAX(a.depth, 1));
		for (uint32_t x = 0; x < a.w && a.depth == 3; x++, from += 3, to += 4) {
			memcpy(to, from, 3);
			to[3] = 255;
		}
	}
	if (a.depth == 4 && o->has_background)
		codec_compose(ret, o->background);
	return 0;
}

void codec_write_npy(const struct image *im, bool deep, struct str *out)
{
	npy_add_header(out, deep ? "<u2" : "|u1", (uint64_t[]){ im->h, im->w, 3 },
		       deep || im->channels == 1 ? 2 : 3);
	str_reserve(out, (size_t)im->w * im->h * (deep ? 2 : im->channels));
	for (uint32_t y = 0; y < im->h; y++) {
		const uint8_t *p = image_row(im, y);

		if (im->channels == 1)
			str_addn(out, p, im->w);
		for (uint32_t x = 0; x < im->w && im->channels == 3; x++)
			str_addn(out, p + (size_t)x * 4, deep ? 2 : 3);
	}
}

static void put_float(uint8_t *to, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, 4);
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(bits >> 8 * i);
}

void codec_write_npy_float(const struct image *im, const double mean[3], const double std[3],
			   bool first, struct str *out)
{
	size_t plane = (size_t)im->w * im->h, at;
	unsigned n = im->channels;
	uint8_t levels[3][256][4], *to;

	for (unsigned c = 0; c < n; c++)
		for (unsigned v = 0; v < 256; v++)
			put_float(levels[c][v], (float)(((double)v / 255 - mean[c]) / std[c]));
	npy_add_header(out, "<f4",
		       first ? (uint64_t[]){ n, im->h, im->w } : (uint64_t[]){ im->h, im->w, n },
		       3);
	str_reserve(out, plane * n * 4);
	to = (uint8_t *)out->s + out->len;
	for (uint32_t y = 0; y < im->h; y++)
		for (uint32_t x = 0; x < im->w; x++)
			for (unsigned c = 0; c < n; c++) {
				at = (size_t)y * im->w + x;
				memcpy(to + (first ? c * plane + at : at * n + c) * 4,
				       levels[c][image_row(im, y)[x * (n == 1 ? 1 : 4) + c]], 4);
			}
	out->len += plane * n * 4;
	out->s[out->len] = 0;
}
