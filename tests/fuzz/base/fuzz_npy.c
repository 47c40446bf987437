/* NPY: what is opened has as many bytes as its shape says, each item can be read as all that it may
 * be, and the array is read as columns of every kind, one behind the other. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/table/npy.h"
#include "steps/table/frame.h"

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

/* Each kind of column stands behind each other one, as a row's place must not depend on the column
 * before. */
static void read_table(const uint8_t *data, size_t size, bool skip)
{
	static const enum column_kind kinds[] = { COLUMN_NUMBERS, COLUMN_CODES,   COLUMN_TEXTS,
						  COLUMN_CODES,   COLUMN_NUMBERS, COLUMN_NUMBERS,
						  COLUMN_TEXTS,   COLUMN_TEXTS };
	const char *name = "x";
	struct column columns[ARRAY_LEN(kinds)];
	struct err err = { 0 };
	struct frame *t;
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no room for the file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must(frame_open(path, 1, &t, &err) == 0, "an array that was read isn't a table");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		columns[i] = (struct column){
			.names = &name, .n_names = 1, .kind = kinds[i], .codes_max = 1000
		};
	if (frame_read(t, columns, ARRAY_LEN(kinds), skip, &err) < 0)
		must(err.code != ERR_NONE, "an error without a message");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		column_deinit(&columns[i]);
	frame_free(t);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct npy a;

	if (npy_open("fuzz", data, size, &a, &err) < 0) {
		must(err.code != ERR_NONE, "an error without a message");
		return 0;
	}
	must(a.columns > 0 &&
		     (const uint8_t *)a.data + a.rows * a.columns * a.item_bytes == data + size,
	     "the shape doesn't fit the data");
	for (size_t row = 0; row < a.rows && row < 200; row++)
		for (size_t column = 0; column < a.columns && column < 20; column++)
			read_item(&a, row, column);
	if (a.rows)
		read_item(&a, a.rows - 1, a.columns - 1);
	if (a.rows < 100000) {
		read_table(data, size, false);
		read_table(data, size, true);
	}
	return 0;
}
