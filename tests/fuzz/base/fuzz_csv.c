/* CSV: rows that were read and written again, all fields quoted, are read as the same; and the
 * table on all its blocks has as many. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/mem.h"
#include "base/table/csv.h"
#include "steps/table/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_csv: %s\n", what);
	abort();
}

/* Rows as fields, each quoted; *ret_rows of them; false when the text is refused. */
static bool rewrite(const char *text, size_t n, char separator, struct str *out, size_t *ret_rows)
{
	const struct csv_field *f;
	struct csv *c;
	size_t k, rows = 0;
	int r;

	must(csv_open("fuzz", text, n, separator, &c, NULL) == 0, "a separator is refused");
	while ((r = csv_next(c, &f, &k, NULL)) > 0) {
		must(k > 0, "a row without fields");
		rows++;
		for (size_t i = 0; i < k; i++) {
			str_add(out, i ? ",\"" : "\"");
			for (size_t b = 0; b < f[i].n; b++) {
				str_add(out, f[i].s[b] == '"' ? "\"" : "");
				str_addc(out, f[i].s[b]);
			}
			str_addc(out, '"');
		}
		str_addc(out, '\n');
	}
	csv_free(c);
	*ret_rows = rows;
	return r == 0;
}

static void read_table(const uint8_t *data, size_t size, bool accepted, size_t rows)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct column columns[2] = { { .kind = COLUMN_NUMBERS },
				     { .kind = COLUMN_CODES, .codes_max = 1000 } };
	char path[64];
	const char *const *names;
	struct err err = { 0 };
	struct frame *t;
	size_t n;

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no room for the file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (frame_open(path, 1, &t, &err) == 0) {
		names = frame_names(t, &n);
		if (frame_format(t) == FRAME_CSV && accepted)
			must(frame_rows(t) + 1 == rows, "the table has another number of rows");
		for (size_t i = 0; i < ARRAY_LEN(columns) && n; i++) {
			columns[i].names = names + (n - 1) * i;
			columns[i].n_names = 1;
		}
		if (n)
			must(frame_read(t, columns, ARRAY_LEN(columns), true, &err) == 0 ||
				     err.code,
			     "an error without a message");
		column_deinit(&columns[0]);
		column_deinit(&columns[1]);
		frame_free(t);
	} else {
		must(err.code != ERR_NONE, "an error without a message");
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str once = { 0 }, twice = { 0 };
	size_t rows, again;
	bool ok = rewrite((const char *)data, size, ',', &once, &rows);

	if (ok && once.len) {
		must(rewrite(once.s, once.len, ',', &twice, &again) && rows == again,
		     "what was written is refused");
		must(once.len == twice.len && memcmp(once.s, twice.s, once.len) == 0,
		     "a field has changed");
	}
	read_table(data, size, ok, rows);
	str_deinit(&once);
	str_deinit(&twice);
	return 0;
}
