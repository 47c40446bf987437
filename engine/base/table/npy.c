/* engine/base/table/npy.c — NumPy's .npy: the header, and single items of arrays.
 *
 * The header is a Python literal of one form: {'descr': '<f8', 'fortran_order': False, 'shape': (3,
 * 4), }. It is read as such, with keys in any order; nothing else is accepted (struct header is the
 * cursor). `h->at--` puts back a closing bracket that was only tested for.
 *
 * npy_read_header() accepts any type and any number of dimensions, and doesn't compare the shape
 * with the size: steps/normalise/npy.c and the image reader do that themselves. npy_open() is for
 * tables: types with values, one or two dimensions, and exactly as many bytes as the shape
 * requires. It keeps strides in items, so C and Fortran order are read by the same code.
 *
 * Data may lie at any address, so items are read by memcpy() (bits()). Everything is pure; any
 * thread. The caller checks the index of an item.
 */
#include "base/table/npy.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/macros.h"
#include "base/table/utf8.h"
#include "base/text/text.h"

/* NumPy writes 128 bytes. Records with very many fields have more, but they aren't supported. */
#define HEADER_MAX        (64 * KIB)
#define ITEM_MAX          (1 << 20)
#define EMPTY_COLUMNS_MAX 65536 /* of an array without rows; as for a CSV's first row */

struct header {
	const char *what, *at, *end;
	bool has_descr, has_order, has_shape;
	struct npy_header *is;
};

static int broken(const struct header *h, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s: the header of the .npy file can't be read", h->what);
}

static bool skip(struct header *h, const char *text)
{
	size_t n = strlen(text);

	while (h->at < h->end && (*h->at == ' ' || *h->at == '\n'))
		h->at++;
	if ((size_t)(h->end - h->at) < n || memcmp(h->at, text, n) != 0)
		return false;
	h->at += n;
	return true;
}

static int read_string(struct header *h, char *to, size_t max, struct err *err)
{
	char quote = skip(h, "'") ? '\'' : skip(h, "\"") ? '"' : '\0';
	const char *end = quote ? memchr(h->at, quote, (size_t)(h->end - h->at)) : NULL;

	if (!end || (size_t)(end - h->at) >= max)
		return broken(h, err);
	memcpy(to, h->at, (size_t)(end - h->at));
	to[end - h->at] = '\0';
	h->at = end + 1;
	return 0;
}

static int read_shape(struct header *h, struct err *err)
{
	if (!skip(h, "("))
		return broken(h, err);
	while (!skip(h, ")")) {
		uint64_t v = 0;
		const char *from = h->at;

		for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, (uint64_t)(*h->at - '0'), &v))
				return broken(h, err);
		if (h->at == from || h->is->dimensions == NPY_DIMENSIONS_MAX)
			return broken(h, err);
		h->is->shape[h->is->dimensions++] = v;
		if (!skip(h, ",") && !(skip(h, ")") && h->at--))
			return broken(h, err);
	}
	return 0;
}

static int read_member(struct header *h, struct err *err)
{
	char key[32];

	if (read_string(h, key, sizeof(key), err) < 0 || !skip(h, ":"))
		return broken(h, err);
	if (strcmp(key, "descr") == 0 && !h->has_descr) {
		h->has_descr = true;
		if (skip(h, "["))
			return err_set(
				err, ERR_UNSUPPORTED,
				"%s: an array of records; save its fields as arrays of their own",
				h->what);
		return read_string(h, h->is->descr, sizeof(h->is->descr), err);
	}
	if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
		h->has_order = true;
		h->is->fortran = skip(h, "True");
		return h->is->fortran || skip(h, "False") ? 0 : broken(h, err);
	}
	if (strcmp(key, "shape") == 0 && !h->has_shape) {
		h->has_shape = true;
		return read_shape(h, err);
	}
	return broken(h, err);
}

/* "<f8": byte order, kind, bytes (of U: characters). */
static int read_type(const struct header *h, struct err *err)
{
	struct npy_header *is = h->is;
	const char *d = is->descr;
	char size[16] = "";
	size_t digits = *d && d[1] ? strspn(d + 2, "0123456789") : 0;
	int64_t n;

	if (!*d || !strchr("<>|=", *d) || !d[1] || !digits || digits >= sizeof(size))
		return err_set(err, ERR_UNSUPPORTED, "%s: an array of type `%s`", h->what, d);
	memcpy(size, d + 2, digits);
	if (!text_parse_int(size, &n) || n > ITEM_MAX)
		return err_set(err, ERR_UNSUPPORTED, "%s: an array of type `%s`", h->what, d);
	is->order = *d;
	is->kind = d[1];
	is->unit = d + 2 + digits;
	is->item_bytes = (unsigned)n * (is->kind == 'U' ? 4 : 1);
	return 0;
}

int npy_read_header(const char *what, const void *bytes, size_t n, struct npy_header *ret,
		    struct err *err)
{
	const unsigned char *b = bytes;
	struct header h = { .what = what, .is = ret };
	size_t len, at;

	*ret = (struct npy_header){ 0 };
	if (n < 10 || memcmp(b, "\x93NUMPY", 6) != 0)
		return err_set(err, ERR_INVALID, "%s is not a .npy file", what);
	if (b[6] < 1 || b[6] > 3 || (b[6] > 1 && n < 12))
		return err_set(err, ERR_UNSUPPORTED, "%s: version %u of the .npy format", what,
			       b[6]);
	at = b[6] == 1 ? 10 : 12;
	len = b[8] | (size_t)b[9] << 8;
	if (b[6] > 1)
		len |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
	if (len > HEADER_MAX || len > n - at)
		return err_set(err, ERR_INVALID,
			       "%s: the header of the .npy file is cut off, or too long", what);
	h.at = (const char *)b + at;
	h.end = h.at + len;
	ret->data_at = at + len;
	if (!skip(&h, "{"))
		return broken(&h, err);
	while (!skip(&h, "}")) {
		if (read_member(&h, err) < 0)
			return -1;
		if (!skip(&h, ",") && !(skip(&h, "}") && h.at--))
			return broken(&h, err);
	}
	return h.has_descr && h.has_order && h.has_shape ? read_type(&h, err) : broken(&h, err);
}

/* The data starts at a multiple of 64 bytes. */
void npy_add_header(struct str *out, const char *descr, const uint64_t *shape, unsigned dimensions)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	assert(dimensions <= NPY_DIMENSIONS_MAX);
	str_addf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (unsigned i = 0; i < dimensions; i++)
		str_addf(&text, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
	str_add(&text, dimensions == 1 ? ",), }" : "), }");
	while ((10 + text.len + 1) % 64)
		str_addc(&text, ' ');
	str_addc(&text, '\n');
	str_addn(out, "\x93NUMPY\x01\x00", 8);
	str_addc(out, (char)(text.len & 0xff));
	str_addc(out, (char)(text.len >> 8));
	str_addn(out, text.s, text.len);
}

/* Tables: arrays of one or two dimensions. */

static int set_type(const char *what, const struct npy_header *h, struct npy *a, struct err *err)
{
	bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	unsigned size = h->item_bytes;

	if (!strchr("biufSU", h->kind) || *h->unit)
		return err_set(err, ERR_UNSUPPORTED,
			       "%s: an array of type `%s`; numbers, bool, S and U can be read",
			       what, h->descr);
	a->kind = h->kind;
	a->swap = h->order == (little ? '>' : '<');
	a->item_bytes = size;
	if ((a->kind == 'b' && size != 1) ||
	    (strchr("iu", a->kind) && size != 1 && size != 2 && size != 4 && size != 8) ||
	    (a->kind == 'f' && size != 2 && size != 4 && size != 8))
		return err_set(err, ERR_UNSUPPORTED, "%s: an array of type `%s`", what, h->descr);
	return 0;
}

static int set_shape(const char *what, const struct npy_header *h, struct npy *a, size_t have,
		     struct err *err)
{
	uint64_t rows = h->shape[0], columns = h->dimensions == 2 ? h->shape[1] : 1, items, bytes;

	if (h->dimensions < 1 || h->dimensions > 2)
		return err_set(err, ERR_UNSUPPORTED,
			       "%s: an array of %u dimensions; one or two can be read", what,
			       h->dimensions);
	if (__builtin_mul_overflow(rows, columns, &items) ||
	    __builtin_mul_overflow(items, (uint64_t)a->item_bytes, &bytes) || bytes != have)
		return err_set(
			err, ERR_INVALID,
			"%s: %zu bytes of data don't fit the shape (%llu, %llu) of %u bytes each",
			what, have, (unsigned long long)rows, (unsigned long long)columns,
			a->item_bytes);
	if (!a->item_bytes ||
	    !columns) { /* then the file's size doesn't limit the number of rows */
		if (rows)
			return err_set(err, ERR_UNSUPPORTED, "%s: an array without content", what);
		columns = MAX(columns, 1);
	}
	if (!rows && columns > EMPTY_COLUMNS_MAX) /* nor the number of columns */
		return err_set(err, ERR_UNSUPPORTED,
			       "%s: an array of no rows and %llu columns; at most %d can be read",
			       what, (unsigned long long)columns, EMPTY_COLUMNS_MAX);
	a->dimensions = h->dimensions;
	a->rows = rows;
	a->columns = columns;
	a->row_stride = h->fortran ? 1 : columns;
	a->column_stride = h->fortran ? rows : 1;
	return 0;
}

int npy_open(const char *what, const void *bytes, size_t n, struct npy *ret, struct err *err)
{
	struct npy_header h;
	struct npy a = { 0 };

	if (npy_read_header(what, bytes, n, &h, err) < 0)
		return -1;
	a.data = (const unsigned char *)bytes + h.data_at;
	if (set_type(what, &h, &a, err) < 0 || set_shape(what, &h, &a, n - h.data_at, err) < 0)
		return -1;
	*ret = a;
	return 0;
}

/* Items. */

static inline const unsigned char *item(const struct npy *a, size_t row, size_t column)
{
	return a->data + (row * a->row_stride + column * a->column_stride) * a->item_bytes;
}

static inline uint64_t bits(const unsigned char *p, unsigned n, bool swap)
{
	uint64_t v8;
	uint32_t v4;
	uint16_t v2;

	switch (n) {
	case 1:
		return *p;
	case 2:
		memcpy(&v2, p, 2);
		return swap ? __builtin_bswap16(v2) : v2;
	case 4:
		memcpy(&v4, p, 4);
		return swap ? __builtin_bswap32(v4) : v4;
	default:
		memcpy(&v8, p, 8);
		return swap ? __builtin_bswap64(v8) : v8;
	}
}

static double half(uint64_t b)
{
	unsigned e = b >> 10 & 31, m = b & 1023;
	double v = e == 31 ? (m ? NAN : INFINITY)
		   : e     ? ldexp(1024 + m, (int)e - 25)
			   : ldexp(m, -24);

	return b & 0x8000 ? -v : v;
}

static int64_t sign_extended(uint64_t v, unsigned bytes)
{
	unsigned shift = 64 - bytes * 8;

	return (int64_t)(v << shift) >> shift;
}

double npy_number(const struct npy *a, size_t row, size_t column)
{
	uint64_t v = bits(item(a, row, column), a->item_bytes, a->swap);
	uint32_t v4 = (uint32_t)v;
	double d;
	float f;

	switch (a->kind) {
	case 'b':
		return v != 0;
	case 'i':
		return (double)sign_extended(v, a->item_bytes);
	case 'u':
		return (double)v;
	default:
		if (a->item_bytes == 2)
			return half(v);
		if (a->item_bytes == 4) {
			memcpy(&f, &v4, 4);
			return (double)f;
		}
		memcpy(&d, &v, 8);
		return d;
	}
}

bool npy_integer(const struct npy *a, size_t row, size_t column, int64_t *ret)
{
	uint64_t v = bits(item(a, row, column), a->item_bytes, a->swap);

	if (a->kind == 'u' && v > INT64_MAX)
		return false;
	*ret = a->kind == 'i'   ? sign_extended(v, a->item_bytes)
	       : a->kind == 'b' ? v != 0
				: (int64_t)v;
	return true;
}

static bool add_characters(const unsigned char *p, unsigned bytes, bool swap, struct str *out)
{
	unsigned n = bytes / 4;

	while (n && bits(p + (n - 1) * 4, 4, false) == 0)
		n--;
	for (unsigned i = 0; i < n; i++) {
		uint32_t c = (uint32_t)bits(p + i * 4, 4, swap);

		if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
		utf8_add(out, c);
	}
	return true;
}

bool npy_text(const struct npy *a, size_t row, size_t column, struct str *out)
{
	const unsigned char *p = item(a, row, column);
	unsigned n = a->item_bytes;
	int64_t v;

	assert(row < a->rows && column < a->columns);
	if (a->kind == 'U')
		return add_characters(p, n, a->swap, out);
	if (a->kind == 'S') {
		while (n && !p[n - 1])
			n--;
		str_addn(out, p, n);
	} else if (a->kind == 'f') {
		text_add_double(out, npy_number(a, row, column));
	} else if (npy_integer(a, row, column, &v)) {
		str_addf(out, "%lld", (long long)v);
	} else {
		str_addf(out, "%llu", (unsigned long long)bits(p, n, a->swap));
	}
	return true;
}
