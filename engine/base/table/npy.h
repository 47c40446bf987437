/* engine/base/table/npy.h — one- and two-dimensional arrays in NumPy's .npy format, versions 1 to 3
 * (numpy.lib.format).
 *
 * Types: bool, signed and unsigned integers of 8 to 64 bits, floats of 16, 32 and 64 bits, S
 * (bytes) and U (text), either byte order, C or Fortran order. Everything else, above all pickled
 * objects and records, is ERR_UNSUPPORTED; a header with a wrong size is ERR_INVALID.
 */
#ifndef CAIRN_BASE_TABLE_NPY_H
#define CAIRN_BASE_TABLE_NPY_H

#include <stdbool.h>
#include "base/err.h"
#include "base/text/str.h"

struct npy {
	const unsigned char *data; /* lent by the bytes that npy_open was given */
	char kind;                 /* 'b' 'i' 'u' 'f' 'S' 'U' */
	bool swap;                 /* the other byte order */
	unsigned item_bytes, dimensions;
	size_t rows, columns;             /* columns: 1 for one dimension */
	size_t row_stride, column_stride; /* in items */
};

/* The header of an array of any number of dimensions. */
#define NPY_DIMENSIONS_MAX 32 /* NumPy's own limit */
struct npy_header {
	char descr[32];   /* "<f8" */
	char order;       /* '<' '>' '|' '=' */
	char kind;        /* 'b' 'i' 'u' 'f' 'c' 'S' 'U' 'm' 'M' 'V' 'O' … */
	const char *unit; /* for times: the text after the size, "[ns]"; else "" */
	unsigned item_bytes, dimensions;
	uint64_t shape[NPY_DIMENSIONS_MAX];
	bool fortran;
	size_t data_at; /* offset of the first item */
};
/* Doesn't compare the shape with the size. ERR_UNSUPPORTED: records, objects and other types
 * without a size, or an unknown version. */
int npy_read_header(const char *what, const void *bytes, size_t n, struct npy_header *ret,
		    struct err *err);

/* Appends the header, version 1.0, of an array in C order whose items follow. */
void npy_add_header(struct str *out, const char *descr, const uint64_t *shape, unsigned dimensions);

int npy_open(const char *what, const void *bytes, size_t n, struct npy *ret, struct err *err);
/* The value of a number (kind is neither S nor U); integers over 2^53 are rounded. */
double npy_number(const struct npy *a, size_t row, size_t column);
/* The value of an integer or bool; false for one over INT64_MAX. */
bool npy_integer(const struct npy *a, size_t row, size_t column, int64_t *ret);
/* Any kind as text: integers in decimal, S and U without their padding; false when U holds an
 * invalid character. */
bool npy_text(const struct npy *a, size_t row, size_t column, struct str *out);

#endif
