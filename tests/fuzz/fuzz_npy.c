/* NPY: what is opened has as many bytes as its shape says, and each item can be read as all that it may be. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "steps/table/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_npy: %s\n", what);
	abort();
}

static void read_item(const struct npy *a, size_t row, size_t column)
{
	struct str text = { 0 };
	int64_t v;

	if (npy_text(a, row, column, &text) && a->kind != 'S' && text.len)
		must(text.s[text.len] == '\0', "text without an end");
	if (a->kind == 'i' || a->kind == 'u' || a->kind == 'b') {
		if (npy_integer(a, row, column, &v))
			must((double)v == npy_number(a, row, column), "two different numbers");
	} else if (a->kind == 'f') {
		(void)npy_number(a, row, column);
	}
	str_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct npy a;

	if (npy_open("fuzz", data, size, &a, &err) < 0) {
		must(err.code != ERR_NONE, "an error without a message");
		return 0;
	}
	must(a.columns > 0 && (const uint8_t *)a.data + a.rows * a.columns * a.item_bytes == data + size, "the shape doesn't fit the data");
	for (size_t row = 0; row < a.rows && row < 200; row++)
		for (size_t column = 0; column < a.columns && column < 20; column++)
			read_item(&a, row, column);
	if (a.rows)
		read_item(&a, a.rows - 1, a.columns - 1);
	return 0;
}
