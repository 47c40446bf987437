/* base/table/npy.h: what NumPy writes is read, and a header that isn't one is refused.
 * (tests/cli/steps/evaluate.t reads NumPy's own files.) */
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "base/table/npy.h"
#include "unit.h"

/* Version 1 with this header and data. */
static void make(struct str *out, const char *header, const void *data, size_t n)
{
	str_addn(out, "\x93NUMPY\1\0", 8);
	str_addc(out, (char)strlen(header));
	str_addc(out, (char)(strlen(header) >> 8));
	str_add(out, header);
	str_addn(out, data, n);
}

static void numbers(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	const double data[6] = { 0, 1, 2, 3, 4, -5.5 };
	struct err err = { 0 };
	struct npy a;

	make(&s, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", data, sizeof(data));
	assert_int_equal(npy_open("t", s.s, s.len, &a, &err), 0);
	assert_int_equal(a.rows * 10 + a.columns, 23);
	assert_true(npy_number(&a, 1, 0) == 3 && npy_number(&a, 1, 2) == -5.5);
	str_reset(&s);
	make(&s, "{'shape': (2, 3), 'fortran_order': True, 'descr': '<f8'}", data, sizeof(data));
	assert_int_equal(npy_open("t", s.s, s.len, &a, &err), 0);
	assert_true(npy_number(&a, 1, 0) == 1 && npy_number(&a, 0, 2) == 4);
}

static void halves(void **state)
{
	/* 1, the smallest subnormal, -2, infinity, the largest */
	static const unsigned char data[] = { 0x00, 0x3c, 0x01, 0x00, 0x00,
					      0xc0, 0x00, 0x7c, 0xff, 0x7b };
	static const double want[] = { 1, 0x1p-24, -2, INFINITY, 65504 };
	_cleanup_(str_deinit) struct str s = { 0 };
	struct npy a;

	make(&s, "{'descr': '<f2', 'fortran_order': False, 'shape': (5,)}", data, sizeof(data));
	assert_int_equal(npy_open("t", s.s, s.len, &a, NULL), 0);
	for (size_t i = 0; i < 5; i++)
		assert_true(npy_number(&a, i, 0) == want[i]);
}

static void integers(void **state)
{
	static const unsigned char data[] = {
		0xff, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
	};
	_cleanup_(str_deinit) struct str s = { 0 }, text = { 0 };
	struct npy a;
	int64_t v;

	make(&s, "{'descr': '>i2', 'fortran_order': False, 'shape': (1,)}", data, 2);
	assert_int_equal(npy_open("t", s.s, s.len, &a, NULL), 0);
	assert_true(npy_integer(&a, 0, 0, &v) && v == -2 && npy_number(&a, 0, 0) == -2);
	str_reset(&s);
	make(&s, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", data + 1, 8);
	assert_int_equal(npy_open("t", s.s, s.len, &a, NULL), 0);
	assert_false(npy_integer(&a, 0, 0, &v));
	assert_true(npy_text(&a, 0, 0, &text));
	assert_string_equal(text.s, "18446744073709551614");
}

static void texts(void **state)
{
	static const uint32_t data[] = { 'a', 0x20ac, 0, 0x1f600, 0xd800, 0 };
	_cleanup_(str_deinit) struct str s = { 0 }, text = { 0 };
	struct npy a;

	make(&s, "{'descr': '<U3', 'fortran_order': False, 'shape': (2,)}", data, sizeof(data));
	assert_int_equal(npy_open("t", s.s, s.len, &a, NULL), 0);
	assert_true(npy_text(&a, 0, 0, &text));
	assert_string_equal(text.s, "a\xe2\x82\xac");
	assert_false(npy_text(&a, 1, 0, &text)); /* half of a surrogate pair */
	str_reset(&s);
	str_reset(&text);
	make(&s, "{'descr': '|S3', 'fortran_order': False, 'shape': (1,)}", "ab\0", 3);
	assert_int_equal(npy_open("t", s.s, s.len, &a, NULL), 0);
	assert_true(npy_text(&a, 0, 0, &text));
	assert_string_equal(text.s, "ab");
}

static const struct {
	const char *header;
	size_t bytes;
	enum err_code code;
	const char *want;
} bad[] = {
	{ "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", 8, ERR_INVALID,
	  "t: 8 bytes of data" },
	{ "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 3)}", 8,
	  ERR_INVALID, "t: 8 bytes of data" },
	{ "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", 8,
	  ERR_INVALID, "t: the header" },
	{ "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1)}", 8, ERR_UNSUPPORTED,
	  "t: an array of 3 dimensions" },
	{ "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8, ERR_UNSUPPORTED,
	  "t: an array of 0 dimensions" },
	{ "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, ERR_UNSUPPORTED,
	  "t: an array of type `|O`" },
	{ "{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", 16, ERR_UNSUPPORTED,
	  "t: an array of type `<f16`" },
	{ "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}", 0, ERR_UNSUPPORTED,
	  "t: an array without content" },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 65537)}", 0, ERR_UNSUPPORTED,
	  "t: an array of no rows and 65537 columns" },
	{ "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", 8, ERR_UNSUPPORTED,
	  "t: an array of records" },
	{ "{'descr': '<f8', 'fortran_order': False}", 8, ERR_INVALID, "t: the header" },
	{ "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8, ERR_INVALID,
	  "t: the header" },
	{ "", 8, ERR_INVALID, "t: the header" },
};

static void refuses(void **state)
{
	static const char zeros[16];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		struct err err = { 0 };
		struct npy a;

		make(&s, bad[i].header, zeros, bad[i].bytes);
		assert_int_equal(npy_open("t", s.s, s.len, &a, &err), -1);
		assert_int_equal(err.code, bad[i].code);
		assert_memory_equal(err.msg, bad[i].want, strlen(bad[i].want));
		assert_int_equal(npy_open("t", s.s, 9, &a, NULL), -1);
	}
}

/* Byte for byte: shards are compared by their digests. */
static void header(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 }, one = { 0 };
	const uint64_t shape[] = { 28, 7, 3 };

	npy_add_header(&s, "|u1", shape, 3);
	assert_int_equal(s.len, 128);
	assert_memory_equal(
		s.s,
		"\x93NUMPY\1\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (28, "
		"7, 3), }",
		73);
	assert_int_equal(strspn(s.s + 73, " "), 54);
	assert_int_equal(s.s[127], '\n');
	npy_add_header(&one, "<f4", shape, 1);
	assert_int_equal(one.len, 128);
	assert_non_null(strstr(one.s + 10, "'shape': (28,), } "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),  cmocka_unit_test(header), cmocka_unit_test(halves),
		cmocka_unit_test(integers), cmocka_unit_test(texts),  cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
