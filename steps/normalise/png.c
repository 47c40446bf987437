/* steps/normalise/png.c — PNG: pixels as 16-bit RGBA, whatever the file stores.
 *
 * libpng decodes each image row by row into a struct unpacked, and the two are compared as bytes.
 * An interlaced image is decoded in memory as a whole, so it has a lower limit (INTERLACED_MAX).
 * Chunks that decoding leaves out count too: add_chunks() collects them unchanged, and separately
 * those of text and time, which are only mentioned. Bytes after the end count as well.
 *
 * libpng reports errors by a jump, as in steps/augment/png.c. What must be freed after it lies in
 * struct decoding (row, rows), not in locals. Warnings of benign errors are errors here: an image
 * that libpng repairs isn't normalised.
 */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include "steps/normalise/normalise.h"

#define CHUNK_MAX      (8 * MIB)
#define SIDE_MAX       1000000
#define INTERLACED_MAX (16 * MIB) /* pixels: all are in memory at once */
#define PIXEL_BYTES    8

struct decoding {
	struct span all, from;
	struct str counts; /* chunks that count, and bytes after the end */
	struct str texts;  /* those of text and time, which don't */
	struct unpacked *to;
	uint8_t *row, **rows;
	uint32_t w, h;
	struct err *err;
	jmp_buf jump;
};

static void fail(png_structp png, png_const_charp msg)
{
	struct decoding *d = png_get_error_ptr(png);

	if (d->err->code == ERR_NONE)
		err_set(d->err, ERR_INVALID, "%s", msg);
	longjmp(d->jump, 1); /* lint: longjmp because libpng offers no other way out */
}

static void say_nothing(png_structp png, png_const_charp msg)
{
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
	struct decoding *d = png_get_io_ptr(png);

	if (n > d->from.n)
		png_error(png, "it is cut off");
	memcpy(to, d->from.p, n);
	d->from.p += n;
	d->from.n -= n;
}

static void read_rows(png_structp png, struct decoding *d)
{
	size_t stride = (size_t)d->w * PIXEL_BYTES;

	d->row = xmalloc(stride);
	for (uint32_t y = 0; y < d->h; y++) {
		png_read_row(png, d->row, NULL);
		if (unpacked_add(d->to, d->row, stride, d->err) < 0)
			png_error(png, "");
	}
}

static void read_interlaced(png_structp png, struct decoding *d)
{
	size_t stride = (size_t)d->w * PIXEL_BYTES;

	if ((uint64_t)d->w * d->h > INTERLACED_MAX)
		png_error(png, "an interlaced image that is too large");
	d->row = xmalloc(stride * d->h);
	d->rows = xreallocarray(NULL, d->h, sizeof(*d->rows));
	for (uint32_t y = 0; y < d->h; y++)
		d->rows[y] = d->row + y * stride;
	png_read_image(png, d->rows);
	if (unpacked_add(d->to, d->row, stride * d->h, d->err) < 0)
		png_error(png, "");
}

static void read_image(png_structp png, png_infop info, struct decoding *d)
{
	bool interlaced;

	png_set_read_fn(png, d, read_bytes);
	png_set_user_limits(png, SIDE_MAX, SIDE_MAX);
	png_set_chunk_malloc_max(png, CHUNK_MAX);
	png_set_chunk_cache_max(png, 64);
	/* Other chunks are compared unchanged. What libpng would only warn of (data after the
	 * pixels) is an error. */
	png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
	png_set_benign_errors(png, 0);
	png_read_info(png, info);
	png_set_expand_16(png);
	png_set_gray_to_rgb(png);
	png_set_add_alpha(png, 0xffff, PNG_FILLER_AFTER);
	interlaced = png_set_interlace_handling(png) > 1;
	png_read_update_info(png, info);
	d->w = png_get_image_width(png, info);
	d->h = png_get_image_height(png, info);
	if (png_get_rowbytes(png, info) != (size_t)d->w * PIXEL_BYTES)
		png_error(png, "its rows aren't as long as they should be");
	if (interlaced)
		read_interlaced(png, d);
	else
		read_rows(png, d);
	png_read_end(png, NULL);
}

/* Collects all chunks that decoding leaves out and that may change appearance or meaning,
 * unchanged; and the bytes after the image. The decoder has checked their lengths already. */
static void add_chunks(struct span s, struct str *counts, struct str *texts)
{
	static const char decoded[] = "IHDR PLTE tRNS IDAT IEND", text[] = "tEXt zTXt iTXt tIME";
	size_t at = 8;

	while (s.n - at >= 12) {
		uint32_t n = (uint32_t)s.p[at] << 24 | s.p[at + 1] << 16 | s.p[at + 2] << 8 |
			     s.p[at + 3];
		char type[5] = { 0 };

		if (n > s.n - at - 12)
			break;
		memcpy(type, s.p + at + 4, 4);
		if (strstr(text, type))
			str_addn(texts, s.p + at, n + 12);
		else if (!strstr(decoded, type))
			str_addn(counts, s.p + at, n + 12);
		at += n + 12;
		if (str_eq(type, "IEND"))
			break;
	}
	str_add_field(counts, s.p + at, s.n - at);
}

static int decode(struct decoding *d, struct err *err)
{
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, fail, say_nothing);
	png_infop info = png ? png_create_info_struct(png) : NULL;

	d->err = err;
	if (!info) {
		png_destroy_read_struct(&png, NULL, NULL);
		return err_set(err, ERR_INVALID, "libpng doesn't start");
	}
	if (setjmp(d->jump)) { /* lint: setjmp because libpng reports errors by a call that must not
				  return */
		png_destroy_read_struct(&png, &info, NULL);
		free(d->row);
		free(d->rows);
		return -1;
	}
	read_image(png, info, d);
	png_destroy_read_struct(&png, &info, NULL);
	free(d->row);
	free(d->rows);
	add_chunks(d->all, &d->counts, &d->texts);
	return unpacked_end(d->to, err);
}

static const char *colour(struct normalise_job *j, const uint8_t *p)
{
	bool wide = false;

	for (int i = 0; i < PIXEL_BYTES; i += 2)
		wide |= p[i] != p[i + 1];
	if (wide)
		return arena_printf(j->arena, "#%02x%02x%02x%02x%02x%02x%02x%02x", p[0], p[1], p[2],
				    p[3], p[4], p[5], p[6], p[7]);
	return p[6] == 0xff ? arena_printf(j->arena, "#%02x%02x%02x", p[0], p[2], p[4])
			    : arena_printf(j->arena, "#%02x%02x%02x%02x", p[0], p[2], p[4], p[6]);
}

static void judge(struct normalise_job *j, const struct decoding *a, const struct decoding *b,
		  struct normalised *ret)
{
	struct span sa = a->to->all, sb = b->to->all;
	size_t at, different = 0;

	*ret = (struct normalised){ .verdict = NORMALISED_DIFFERENT, .normaliser = "png" };
	if (!normalise_same_bytes(&a->counts, &b->counts)) {
		ret->detail = "chunks beside the pixels, or bytes behind the end, differ";
		return;
	}
	if (a->w != b->w || a->h != b->h) {
		ret->detail =
			arena_printf(j->arena, "%u × %u pixels → %u × %u", a->w, a->h, b->w, b->h);
		return;
	}
	at = normalise_differs_at(sa, sb) / PIXEL_BYTES;
	if (at * PIXEL_BYTES == sa.n) {
		ret->verdict = NORMALISED_SAME;
		ret->detail = !normalise_same_bytes(&a->texts, &b->texts)
				      ? "compression, filters, palette or depth; text or time"
				      : "compression, filters, palette or depth";
		return;
	}
	for (size_t i = 0; i < sa.n; i += PIXEL_BYTES)
		different += memcmp(sa.p + i, sb.p + i, PIXEL_BYTES) != 0;
	ret->detail = arena_printf(
		j->arena, "pixel at x %zu, y %zu: %s → %s; %zu of %llu pixels differ", at % a->w,
		at / a->w, colour(j, sa.p + at * PIXEL_BYTES), colour(j, sb.p + at * PIXEL_BYTES),
		different, (unsigned long long)a->w * a->h);
}

int normalise_png(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err)
{
	struct unpacked sa, sb;
	struct decoding da = { .all = a, .from = a, .to = &sa };
	struct decoding db = { .all = b, .from = b, .to = &sb };
	int r;

	unpacked_init(&sa, j);
	unpacked_init(&sb, j);
	r = decode(&da, err) < 0 || decode(&db, err) < 0 ? -1 : 0;
	if (r == 0)
		judge(j, &da, &db, ret);
	str_deinit(&da.counts);
	str_deinit(&db.counts);
	str_deinit(&da.texts);
	str_deinit(&db.texts);
	unpacked_deinit(&sa);
	unpacked_deinit(&sb);
	return r;
}
