/* steps/augment/npy.c — NumPy's array files (numpy.lib.format, versions 1 to 3), as far as images need them. */
#include <stdio.h>
#include <string.h>
#include "steps/augment/codec.h"

struct npy {
	uint32_t h, w, depth; /* depth 0: two dimensions */
	const uint8_t *levels;
};

/* --- the header: a Python dictionary as text ------------------------------------------------------------------------------------- */

struct cursor {
	const char *s, *end;
};

static void skip_spaces(struct cursor *c)
{
	while (c->s < c->end && (*c->s == ' ' || *c->s == '\n' || *c->s == '\t'))
		c->s++;
}

static bool take(struct cursor *c, const char *text)
{
	size_t n = strlen(text);

	skip_spaces(c);
	if ((size_t)(c->end - c->s) < n || memcmp(c->s, text, n) != 0)
		return false;
	c->s += n;
	return true;
}

static bool take_quoted(struct cursor *c, char *ret, size_t size)
{
	char quote;
	size_t n = 0;

	skip_spaces(c);
	if (c->s == c->end || (*c->s != '\'' && *c->s != '"'))
		return false;
	for (quote = *c->s++; c->s < c->end && *c->s != quote && n + 1 < size; c->s++)
		ret[n++] = *c->s;
	ret[n] = 0;
	return c->s < c->end && *c->s++ == quote;
}

static bool take_shape(struct cursor *c, uint64_t *dims, size_t max, size_t *ret_n)
{
	size_t n = 0;

	if (!take(c, "("))
		return false;
	while (!take(c, ")")) {
		uint64_t v = 0;
		const char *first;

		skip_spaces(c);
		for (first = c->s; c->s < c->end && *c->s >= '0' && *c->s <= '9' && v < 1000000000; c->s++)
			v = v * 10 + (uint64_t)(*c->s - '0');
		if (c->s == first || n == max)
			return false;
		dims[n++] = v;
		if (!take(c, ",") && !(c->s < c->end && *c->s == ')'))
			return false;
	}
	*ret_n = n;
	return true;
}

static bool parse_header(struct cursor *c, char descr[16], bool *fortran, uint64_t dims[4], size_t *n)
{
	char key[32];
	unsigned seen = 0;

	if (!take(c, "{"))
		return false;
	while (!take(c, "}")) {
		if (!take_quoted(c, key, sizeof(key)) || !take(c, ":"))
			return false;
		if (strcmp(key, "descr") == 0 && take_quoted(c, descr, 16))
			seen |= 1;
		else if (strcmp(key, "fortran_order") == 0 && ((*fortran = take(c, "True")) || take(c, "False")))
			seen |= 2;
		else if (strcmp(key, "shape") == 0 && take_shape(c, dims, 4, n))
			seen |= 4;
		else
			return false;
		take(c, ",");
	}
	return seen == 7;
}

static int npy_parse(const uint8_t *b, size_t n, struct npy *ret, struct err *err)
{
	size_t size_at = 8, start = n >= 8 && b[6] == 1 ? 10 : 12, len, n_dims = 0;
	uint64_t dims[4] = { 0 };
	char descr[16] = "";
	bool fortran = false;
	struct cursor c;

	if (n < start || b[6] < 1 || b[6] > 3)
		return err_set(err, ERR_INVALID, "it is an NPY file of no known version");
	len = b[size_at] | (size_t)b[size_at + 1] << 8;
	if (start == 12)
		len |= (size_t)b[size_at + 2] << 16 | (size_t)b[size_at + 3] << 24;
	if (len > n - start)
		return err_set(err, ERR_INVALID, "it is cut off in the NPY header");
	c = (struct cursor){ (const char *)b + start, (const char *)b + start + len };
	if (!parse_header(&c, descr, &fortran, dims, &n_dims))
		return err_set(err, ERR_INVALID, "its NPY header makes no sense");
	if (strcmp(descr + strspn(descr, "|<>="), "u1") != 0)
		return err_set(err, ERR_INVALID, "its levels are `%s`, an image has unsigned 8-bit ones (`|u1`)", descr);
	if (n_dims < 2 || n_dims > 3 || fortran || (n_dims == 3 && dims[2] != 1 && dims[2] != 3 && dims[2] != 4))
		return err_set(err, ERR_INVALID, "its shape is none of an image: height x width, or x 1, 3, 4 channels, in C order");
	if (dims[0] > UINT32_MAX || dims[1] > UINT32_MAX || (dims[0] && dims[1] > (n - start - len) / dims[0] / (n_dims == 3 ? dims[2] : 1)))
		return err_set(err, ERR_INVALID, "it is cut off: %zu bytes for its shape", n - start - len);
	*ret = (struct npy){ (uint32_t)dims[0], (uint32_t)dims[1], n_dims == 3 ? (uint32_t)dims[2] : 0, b + start + len };
	return 0;
}

int npy_probe(const void *data, size_t n, struct image_info *ret, struct err *err)
{
	struct npy a;

	if (npy_parse(data, n, &a, err) < 0)
		return -1;
	ret->w = a.w;
	ret->h = a.h;
	return 0;
}

static void read_row(const struct npy *a, const uint8_t *from, uint8_t *to)
{
	if (a->depth <= 1 || a->depth == 4) {
		memcpy(to, from, (size_t)a->w * MAX(a->depth, 1));
		return;
	}
	for (uint32_t x = 0; x < a->w; x++, from += 3, to += 4) {
		memcpy(to, from, 3);
		to[3] = 255;
	}
}

int npy_read(const void *data, size_t n, const struct codec_options *o, struct image *ret, struct err *err)
{
	struct npy a;

	if (npy_parse(data, n, &a, err) < 0)
		return -1;
	image_make(ret, a.w, a.h, a.depth <= 1 ? 1 : 3);
	for (uint32_t y = 0; y < a.h; y++)
		read_row(&a, a.levels + (size_t)y * a.w * MAX(a.depth, 1), image_row(ret, y));
	if (a.depth == 4 && o->has_background)
		codec_compose(ret, o->background);
	return 0;
}

/* --- writing ------------------------------------------------------------------------------------------------------------------- */

/* Version 1.0; the data starts at a multiple of 64 bytes. */
static void add_header(struct str *out, const char *descr, const char *shape)
{
	char text[192];
	size_t n = (size_t)snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape), all = (10 + n + 1 + 63) / 64 * 64;

	str_addn(out, "\x93NUMPY\x01\x00", 8);
	str_addc(out, (char)((all - 10) & 0xff));
	str_addc(out, (char)((all - 10) >> 8));
	str_add(out, text);
	while (n++ < all - 11)
		str_addc(out, ' ');
	str_addc(out, '\n');
}

void codec_write_npy(const struct image *im, bool deep, struct str *out)
{
	char shape[64];

	snprintf(shape, sizeof(shape), deep || im->channels == 1 ? "%u, %u" : "%u, %u, 3", im->h, im->w);
	add_header(out, deep ? "<u2" : "|u1", shape);
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

void codec_write_npy_float(const struct image *im, const double mean[3], const double std[3], bool first, struct str *out)
{
	size_t plane = (size_t)im->w * im->h, at;
	unsigned n = im->channels;
	uint8_t levels[3][256][4], *to;
	char shape[64];

	for (unsigned c = 0; c < n; c++)
		for (unsigned v = 0; v < 256; v++)
			put_float(levels[c][v], (float)(((double)v / 255 - mean[c]) / std[c]));
	snprintf(shape, sizeof(shape), "%u, %u, %u", first ? n : im->h, first ? im->h : im->w, first ? im->w : n);
	add_header(out, "<f4", shape);
	str_reserve(out, plane * n * 4);
	to = (uint8_t *)out->s + out->len;
	for (uint32_t y = 0; y < im->h; y++)
		for (uint32_t x = 0; x < im->w; x++)
			for (unsigned c = 0; c < n; c++) {
				at = (size_t)y * im->w + x;
				memcpy(to + (first ? c * plane + at : at * n + c) * 4, levels[c][image_row(im, y)[x * (n == 1 ? 1 : 4) + c]], 4);
			}
	out->len += plane * n * 4;
	out->s[out->len] = 0;
}
