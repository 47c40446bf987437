/* steps/augment/png.c — PNG through libpng: reads any kind; gives 8-bit gray or colour, or 16-bit
 * gray levels.
 *
 * read_image() lets libpng convert everything into one byte of gray or four bytes of colour a
 * pixel, with libpng's own transformations. Opacity is dropped, or codec_compose() lays the image
 * over a background. For a mask the indices of a palette stay (codec_options.indices), and so do
 * 16-bit levels (`levels`): read_levels() reads two bytes a pixel and spreads them to four, as
 * image.h requires for colour pixels.
 *
 * Errors jump, as in jpeg.c. What must be freed after a jump (`rows`) lies in struct png_job, not
 * in a local. Limits of sides and chunks are set before anything is read; codec_probe() checks the
 * number of pixels.
 *
 * The whole image is always decoded; codec.c shows a window of it. Any thread.
 */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "steps/augment/codec.h"

#define CHUNK_MAX (8 * MIB) /* unpacked size of text, profiles and other chunks */
#define SIDE_MAX  1000000

struct png_job {
	const uint8_t *data; /* the rest to read */
	size_t n;
	struct str *out;
	png_bytep *rows;
	char msg[256];
	jmp_buf jump;
};

static void fail(png_structp png, png_const_charp msg)
{
	struct png_job *j = png_get_error_ptr(png);

	snprintf(j->msg, sizeof(j->msg), "%s", msg);
	longjmp(j->jump, 1); /* lint: longjmp because libpng offers no other way out */
}

static void say_nothing(png_structp png, png_const_charp msg)
{
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
	struct png_job *j = png_get_io_ptr(png);

	if (n > j->n)
		png_error(png, "it is cut off");
	memcpy(to, j->data, n);
	j->data += n;
	j->n -= n;
}

static void add_bytes(png_structp png, png_bytep from, size_t n)
{
	struct png_job *j = png_get_io_ptr(png);

	str_addn(j->out, from, n);
}

static void flush_bytes(png_structp png)
{
}

/* Reading. */

static void start(png_structp png, png_infop info, struct png_job *j)
{
	png_set_read_fn(png, j, read_bytes);
	png_set_user_limits(png, SIDE_MAX, SIDE_MAX);
	png_set_chunk_malloc_max(png, CHUNK_MAX);
	png_set_chunk_cache_max(png, 64);
	png_read_info(png, info);
}

static unsigned find_orientation(png_structp png, png_infop info)
{
	png_bytep exif = NULL;
	png_uint_32 n = 0;

	return png_get_eXIf_1(png, info, &n, &exif) && exif ? exif_orientation(exif, n) : 1;
}

static bool is_deep_gray(png_structp png, png_infop info)
{
	return png_get_bit_depth(png, info) == 16 &&
	       !(png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR);
}

static void read_rows(png_structp png, png_infop info, struct png_job *j, struct image *ret)
{
	if (png_get_rowbytes(png, info) > ret->stride)
		png_error(png, "its rows are longer than they should be");
	j->rows = xreallocarray(NULL, ret->h, sizeof(*j->rows));
	for (uint32_t y = 0; y < ret->h; y++)
		j->rows[y] = image_row(ret, y);
	png_read_image(png, j->rows);
	png_read_end(png, NULL);
}

static void read_levels(png_structp png, png_infop info, struct png_job *j, struct image *ret)
{
	png_set_strip_alpha(png);
	png_set_swap(png);
	png_set_interlace_handling(png);
	png_read_update_info(png, info);
	image_make(ret, png_get_image_width(png, info), png_get_image_height(png, info), 3);
	read_rows(png, info, j, ret);
	/* Spreads pixels of two bytes to four, starting with the last one. */
	for (uint32_t y = 0; y < ret->h; y++) {
		uint8_t *row = image_row(ret, y);

		for (uint32_t x = ret->w; x-- > 0;) {
			const uint8_t low = row[(size_t)x * 2], high = row[(size_t)x * 2 + 1];

			memcpy(row + (size_t)x * 4, (const uint8_t[]){ low, high, 0, 255 }, 4);
		}
	}
}

static void read_image(png_structp png, png_infop info, struct png_job *j,
		       const struct codec_options *o, struct image *ret)
{
	bool indices = o->indices && png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE;
	bool colour = png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR && !indices;
	bool alpha = !indices && (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA ||
				  png_get_valid(png, info, PNG_INFO_tRNS));

	if (indices)
		png_set_packing(png);
	else
		png_set_expand(png);
	png_set_scale_16(png);
	if (alpha && !o->has_background)
		png_set_strip_alpha(png);
	if (alpha && o->has_background && !colour)
		png_set_gray_to_rgb(png);
	colour |= alpha && o->has_background;
	if (colour && !(alpha && o->has_background))
		png_set_filler(png, 255, PNG_FILLER_AFTER);
	png_set_interlace_handling(png);
	png_read_update_info(png, info);
	image_make(ret, png_get_image_width(png, info), png_get_image_height(png, info),
		   colour ? 3 : 1);
	read_rows(png, info, j, ret);
	if (alpha && o->has_background)
		codec_compose(ret, o->background);
}

/* ret NULL: reads only the header, into *probe. */
static int read_any(const void *data, size_t n, const struct codec_options *o, struct image *ret,
		    struct image_info *probe, struct err *err)
{
	struct png_job j = { .data = data, .n = n };
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, fail, say_nothing);
	png_infop info = png ? png_create_info_struct(png) : NULL;

	if (!info) {
		png_destroy_read_struct(&png, NULL, NULL);
		return err_set(err, ERR_INVALID, "libpng doesn't start");
	}
	if (setjmp(j.jump)) { /* lint: setjmp because libpng reports errors by a call that must not
				 return */
		png_destroy_read_struct(&png, &info, NULL);
		free(j.rows);
		return err_set(err, ERR_INVALID, "%s", j.msg);
	}
	start(png, info, &j);
	if (ret && o->levels && is_deep_gray(png, info))
		read_levels(png, info, &j, ret);
	else if (ret)
		read_image(png, info, &j, o, ret);
	else
		*probe = (struct image_info){ .format = IMAGE_PNG,
					      .w = png_get_image_width(png, info),
					      .h = png_get_image_height(png, info),
					      .orientation = find_orientation(png, info),
					      .deep = png_get_bit_depth(png, info) == 16,
					      .colour = png_get_color_type(png, info) &
							PNG_COLOR_MASK_COLOR };
	png_destroy_read_struct(&png, &info, NULL);
	free(j.rows);
	return 0;
}

int png_probe(const void *data, size_t n, struct image_info *ret, struct err *err)
{
	return read_any(data, n, NULL, NULL, ret, err);
}

int png_read(const void *data, size_t n, const struct codec_options *o, struct image *ret,
	     struct err *err)
{
	return read_any(data, n, o, ret, NULL, err);
}

/* Writing. */

static void write_levels(png_structp png, const struct image *im)
{
	uint8_t *row = png_malloc(png, (size_t)im->w * 2); /* a write into memory doesn't fail */

	for (uint32_t y = 0; y < im->h; y++) {
		for (uint32_t x = 0; x < im->w; x++) {
			row[(size_t)x * 2] = image_row(im, y)[(size_t)x * 4 + 1];
			row[(size_t)x * 2 + 1] = image_row(im, y)[(size_t)x * 4];
		}
		png_write_row(png, row);
	}
	png_free(png, row);
}

static void write_image(png_structp png, png_infop info, struct png_job *j, const struct image *im,
			bool deep, int compression)
{
	bool gray = deep || im->channels == 1;

	png_set_write_fn(png, j, add_bytes, flush_bytes);
	png_set_compression_level(png, compression);
	png_set_IHDR(png, info, im->w, im->h, deep ? 16 : 8,
		     gray ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
		     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, info);
	if (deep)
		write_levels(png, im);
	else if (im->channels == 3)
		png_set_filler(png, 0, PNG_FILLER_AFTER);
	for (uint32_t y = 0; y < im->h && !deep; y++)
		png_write_row(png, image_row(im, y));
	png_write_end(png, NULL);
}

int codec_write_png(const struct image *im, bool deep, int compression, struct str *out,
		    struct err *err)
{
	struct png_job j = { .out = out };
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, fail, say_nothing);
	png_infop info = png ? png_create_info_struct(png) : NULL;

	if (!info) {
		png_destroy_write_struct(&png, NULL);
		return err_set(err, ERR_INVALID, "libpng doesn't start");
	}
	if (setjmp(j.jump)) { /* lint: setjmp because libpng reports errors by a call that must not
				 return */
		png_destroy_write_struct(&png, &info);
		return err_set(err, ERR_INVALID, "%s", j.msg);
	}
	write_image(png, info, &j, im, deep, compression);
	png_destroy_write_struct(&png, &info);
	return 0;
}
