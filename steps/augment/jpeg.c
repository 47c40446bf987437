/* steps/augment/jpeg.c — JPEG through libjpeg-turbo; decodes only the part that a window needs.
 *
 * A window is read with a margin that is dropped: at the edge of the decoded part, colours are
 * interpolated (fancy upsampling) without the neighbour that they have in the whole image. With the
 * margin the pixels equal those of the whole image, which a test checks. Where that isn't certain
 * (can_skip()), the rows are decoded from the top and from edge to edge, and the window is only a
 * view.
 *
 * libjpeg reports errors by a function that must not return. It jumps back here; between setjmp()
 * and the end only libjpeg allocates (jpeg_destroy frees that), and images and texts (their owner
 * frees those). Warnings that pixels are missing (`broken`) are errors at the end. A progressive
 * file with too many scans is an error at once (limit_scans()).
 *
 * codec_probe() checks sizes before jpeg_read() is called. Orientation is only read here; codec.c
 * turns the image. No state outlives a call; any thread.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <jerror.h>
#include <jpeglib.h>
#include "steps/augment/codec.h"

/* Pixels of the output: upsampling reads one colour sample to each side, which is two output
 * pixels. */
#define MARGIN    4
#define SCANS_MAX 200 /* of a progressive file; each costs as much as a whole image */
#define SIDE_MAX  65500

struct errors {
	struct jpeg_error_mgr base; /* first, since libjpeg passes a pointer to it back */
	jmp_buf jump;
	char msg[JMSG_LENGTH_MAX];
	bool broken; /* a warning that pixels are missing */
};

static void fail(j_common_ptr c)
{
	struct errors *e = (struct errors *)c->err;

	e->base.format_message(c, e->msg);
	longjmp(e->jump, 1); /* lint: longjmp because libjpeg offers no other way out */
}

static void note_warning(j_common_ptr c, int level)
{
	struct errors *e = (struct errors *)c->err;
	int code = e->base.msg_code;

	if (level >= 0 || (code != JWRN_JPEG_EOF && code != JWRN_HIT_MARKER) || e->broken)
		return;
	e->broken = true;
	e->base.format_message(c, e->msg);
}

static void say_nothing(j_common_ptr c)
{
}

static void limit_scans(j_common_ptr c)
{
	if (c->is_decompressor && ((j_decompress_ptr)c)->input_scan_number > SCANS_MAX)
		ERREXIT(c, JERR_BAD_PROGRESSION);
}

static struct jpeg_error_mgr *errors_init(struct errors *e)
{
	jpeg_std_error(&e->base);
	e->base.error_exit = fail;
	e->base.emit_message = note_warning;
	e->base.output_message = say_nothing;
	e->broken = false;
	return &e->base;
}

/* Reading. */

struct reader {
	struct jpeg_decompress_struct c;
	struct jpeg_progress_mgr progress;
	struct errors errors;
};

static void start(struct reader *r, const void *data, size_t n)
{
	jpeg_create_decompress(&r->c);
	r->progress.progress_monitor = limit_scans;
	r->c.progress = &r->progress;
	jpeg_mem_src(&r->c, data, n);
}

/* Without an end-of-image marker after the header the file was cut off. (A thumbnail's marker is in
 * the header.) */
static bool is_cut(const struct reader *r, const uint8_t *data, size_t n)
{
	size_t header = n - r->c.src->bytes_in_buffer;

	for (size_t i = n; i >= header + 2 && i >= 2; i--)
		if (data[i - 1] == 0xd9 && data[i - 2] == 0xff)
			return false;
	return true;
}

static unsigned find_orientation(const struct reader *r)
{
	for (jpeg_saved_marker_ptr m = r->c.marker_list; m; m = m->next)
		if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 &&
		    memcmp(m->data, "Exif\0\0", 6) == 0)
			return exif_orientation(m->data + 6, m->data_length - 6);
	return 1;
}

int jpeg_probe(const void *data, size_t n, struct image_info *ret, struct err *err)
{
	struct reader r;

	r.c.err = errors_init(&r.errors);
	if (setjmp(r.errors.jump)) { /* lint: setjmp because libjpeg reports errors by a call that
					must not return */
		jpeg_destroy_decompress(&r.c);
		return err_set(err, ERR_INVALID, "%s", r.errors.msg);
	}
	start(&r, data, n);
	jpeg_save_markers(&r.c, JPEG_APP0 + 1, 0xffff);
	jpeg_read_header(&r.c, TRUE);
	if (is_cut(&r, data, n)) {
		snprintf(r.errors.msg, sizeof(r.errors.msg),
			 "it is cut off: no end of the image in %zu bytes", n);
		r.errors.broken = true;
	}
	ret->format = IMAGE_JPEG;
	ret->w = r.c.image_width;
	ret->h = r.c.image_height;
	ret->orientation = find_orientation(&r);
	jpeg_destroy_decompress(&r.c);
	return r.errors.broken ? err_set(err, ERR_INVALID, "%s", r.errors.msg) : 0;
}

/* Adobe's CMYK is stored inverted. */
static void cmyk_to_rgb(uint8_t *p, size_t n, bool inverted)
{
	for (uint8_t *end = p + n * 4; p < end; p += 4)
		for (unsigned c = 0; c < 3; c++) {
			unsigned v = inverted ? p[c] : 255 - p[c], k = inverted ? p[3] : 255 - p[3];

			p[c] = (uint8_t)((v * k + 127) / 255);
		}
}

static J_COLOR_SPACE choose_colours(j_decompress_ptr c)
{
	switch (c->jpeg_color_space) {
	case JCS_GRAYSCALE:
		return JCS_GRAYSCALE;
	case JCS_CMYK:
	case JCS_YCCK:
		return JCS_CMYK;
	case JCS_YCbCr:
	case JCS_RGB:
		return JCS_EXT_RGBX;
	default:
		ERREXIT(c, JERR_CONVERSION_NOTIMPL);
		return JCS_UNKNOWN;
	}
}

/* Reads rows `from` up to `to` into rows 0.. of the image; skipped rows are overwritten by row
 * `from`. */
static void read_rows(j_decompress_ptr c, uint32_t from, uint32_t to, struct image *im)
{
	JSAMPROW rows[8];

	while (c->output_scanline < to) {
		uint32_t at = c->output_scanline;

		for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
			rows[i] = image_row(im, at + i < from ? 0 : MIN(at + i, to - 1) - from);
		jpeg_read_scanlines(c, rows, MIN((uint32_t)ARRAY_LEN(rows), to - at));
	}
}

/* Colours at full or half size in each direction, as in nearly all files. For others libjpeg-turbo
 * 2.1 decodes a window to other pixels. */
static bool can_skip(const struct jpeg_decompress_struct *c)
{
	for (int i = 0; i < c->num_components; i++) {
		const jpeg_component_info *k = &c->comp_info[i];

		if ((k->h_samp_factor != c->max_h_samp_factor &&
		     2 * k->h_samp_factor != c->max_h_samp_factor) ||
		    (k->v_samp_factor != c->max_v_samp_factor &&
		     2 * k->v_samp_factor != c->max_v_samp_factor))
			return false;
	}
	return true;
}

static void read_window(struct reader *r, const struct image_part *part, struct image *ret)
{
	j_decompress_ptr c = &r->c;
	uint32_t d = part->denom, x = part->x / d, y = part->y / d, right, bottom;

	c->out_color_space = choose_colours(c);
	c->scale_num = 1;
	c->scale_denom = d;
	c->dct_method = JDCT_ISLOW;
	/* In a progressive file that lacks scans, smoothing would use pixels outside the window. */
	c->do_block_smoothing = FALSE;
	jpeg_start_decompress(c);
	right = MIN((part->x + part->w + d - 1) / d, c->output_width);
	bottom = MIN((part->y + part->h + d - 1) / d, c->output_height);

	bool skip = can_skip(c);
	JDIMENSION left = x > MARGIN && skip ? x - MARGIN : 0,
		   width = MIN(right + MARGIN, c->output_width) - left;

	if (width < c->output_width && skip)
		jpeg_crop_scanline(c, &left, &width);
	if (y > MARGIN && skip)
		jpeg_skip_scanlines(c, y - MARGIN);
	image_make(ret, c->output_width, bottom - y, c->output_components == 1 ? 1 : 3);
	read_rows(c, y, bottom, ret);
	for (uint32_t i = 0; i < ret->h && c->out_color_space == JCS_CMYK; i++)
		cmyk_to_rgb(image_row(ret, i), ret->w, c->saw_Adobe_marker);
	image_view(ret, ret, x - left, 0, right - x, bottom - y);
}

int jpeg_read(const void *data, size_t n, const struct image_part *part, struct image *ret,
	      struct err *err)
{
	struct reader r;

	r.c.err = errors_init(&r.errors);
	if (setjmp(r.errors.jump)) { /* lint: setjmp because libjpeg reports errors by a call that
					must not return */
		jpeg_destroy_decompress(&r.c);
		return err_set(err, ERR_INVALID, "%s", r.errors.msg);
	}
	start(&r, data, n);
	jpeg_read_header(&r.c, TRUE);
	read_window(&r, part, ret);
	jpeg_destroy_decompress(&r.c);
	return r.errors.broken ? err_set(err, ERR_INVALID, "%s", r.errors.msg) : 0;
}

/* Writing. */

#define CHUNK (16 * KIB)

struct writer {
	struct jpeg_destination_mgr base; /* first */
	struct str *out;
};

static void writer_start(j_compress_ptr c)
{
	struct writer *w = (struct writer *)c->dest;

	str_reserve(w->out, CHUNK);
	w->base.next_output_byte = (JOCTET *)w->out->s + w->out->len;
	w->base.free_in_buffer = CHUNK;
}

static boolean writer_more(j_compress_ptr c)
{
	struct writer *w = (struct writer *)c->dest;

	/* All of it is full: libjpeg says that free_in_buffer can't be trusted here. */
	w->out->len += CHUNK;
	writer_start(c);
	return TRUE;
}

static void writer_end(j_compress_ptr c)
{
	struct writer *w = (struct writer *)c->dest;

	w->out->len += CHUNK - w->base.free_in_buffer;
	w->out->s[w->out->len] = 0;
}

static void write_image(j_compress_ptr c, const struct image *im, int quality)
{
	c->image_width = im->w;
	c->image_height = im->h;
	c->input_components = im->channels == 1 ? 1 : 4;
	c->in_color_space = im->channels == 1 ? JCS_GRAYSCALE : JCS_EXT_RGBX;
	jpeg_set_defaults(c);
	jpeg_set_quality(c, quality, TRUE);
	c->dct_method = JDCT_ISLOW;
	if (quality >= 95 && im->channels == 3)
		c->comp_info[0].h_samp_factor = c->comp_info[0].v_samp_factor = 1;
	jpeg_start_compress(c, TRUE);
	while (c->next_scanline < c->image_height) {
		JSAMPROW row = image_row(im, c->next_scanline);

		jpeg_write_scanlines(c, &row, 1);
	}
	jpeg_finish_compress(c);
}

int codec_write_jpeg(const struct image *im, int quality, struct str *out, struct err *err)
{
	struct writer w = { .base = { .init_destination = writer_start,
				      .empty_output_buffer = writer_more,
				      .term_destination = writer_end },
			    .out = out };
	struct jpeg_compress_struct c;
	struct errors errors;

	if (im->w > SIDE_MAX || im->h > SIDE_MAX)
		return err_set(err, ERR_TOO_LARGE, "%u x %u pixels: a JPEG has at most %d a side",
			       im->w, im->h, SIDE_MAX);
	c.err = errors_init(&errors);
	if (setjmp(errors.jump)) { /* lint: setjmp because libjpeg reports errors by a call that
				      must not return */
		jpeg_destroy_compress(&c);
		return err_set(err, ERR_INVALID, "%s", errors.msg);
	}
	jpeg_create_compress(&c);
	c.dest = &w.base;
	write_image(&c, im, quality);
	jpeg_destroy_compress(&c);
	return 0;
}
