/* JSON lines: one object is taken just when jansson takes it, but for what is documented (NaN,
 * depth, members, numbers beyond a double, a key that is twice in an inner object). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/mem.h"
#include "steps/table/frame.h"
#include "steps/table/jsonl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_jsonl: %s\n", what);
	abort();
}

static bool has(const uint8_t *data, size_t size, const char *text)
{
	return memmem(data, size, text, strlen(text)) != NULL;
}

static void check_member(const json_t *object, const struct jsonl_member *m)
{
	static const enum jsonl_kind kinds[] = {
		[JSON_OBJECT] = JSONL_OBJECT, [JSON_ARRAY] = JSONL_ARRAY,
		[JSON_STRING] = JSONL_STRING, [JSON_INTEGER] = JSONL_NUMBER,
		[JSON_REAL] = JSONL_NUMBER,   [JSON_TRUE] = JSONL_BOOL,
		[JSON_FALSE] = JSONL_BOOL,    [JSON_NULL] = JSONL_NULL
	};
	json_t *key = json_stringn(m->key, m->key_n),
	       *v = key ? json_object_get(object, json_string_value(key)) : NULL;
	double numbers[4];

	must(v != NULL, "a key that jansson doesn't see");
	must(kinds[json_typeof(v)] == m->kind, "a value of another kind");
	if (json_is_string(v))
		must(json_string_length(v) == m->n && memcmp(json_string_value(v), m->s, m->n) == 0,
		     "another string");
	if (json_is_array(v)) {
		int64_t n = jsonl_numbers(m, numbers, ARRAY_LEN(numbers));

		must(n < 0 || (size_t)n == json_array_size(v), "another number of numbers");
		for (int64_t i = 0; i < n && i < (int64_t)ARRAY_LEN(numbers); i++)
			must(json_number_value(json_array_get(v, (size_t)i)) == numbers[i],
			     "another number");
	}
	json_decref(key);
}

static void compare(const uint8_t *data, size_t size)
{
	struct jsonl *j = jsonl_new("fuzz", (const char *)data, size, 1);
	const struct jsonl_member *m;
	struct err err = { 0 };
	json_error_t je;
	json_t *other = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &je);
	size_t n = 0;
	int r = jsonl_next(j, &m, &n, &err);

	/* Below the outermost object, whose keys jsonl.c compares, a key may be there twice. */
	if (r > 0 && !other && json_error_code(&je) == json_error_duplicate_key) {
		other = json_loadb((const char *)data, size, 0, &je);
		must(!other || json_object_size(other) == n, "a key that is there twice");
	}
	if (r > 0 && !has(data, size, "NaN") && !has(data, size, "Infinity") &&
	    !(size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)) {
		enum json_error_code code = other ? json_error_unknown : json_error_code(&je);

		must(other || code == json_error_numeric_overflow, "jansson refuses it");
		must(!other || json_object_size(other) == n, "another number of members");
		for (size_t i = 0; i < n && other; i++)
			check_member(other, &m[i]);
	}
	if (r <= 0 && json_is_object(other) &&
	    !memchr(data, '\0', size)) /* which jansson passes over */
		must(strstr(err.msg, "too deeply") || strstr(err.msg, "1,024 members"),
		     "jansson takes it");
	json_decref(other);
	jsonl_free(j);
}

static void read_table(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "a", "b", "c" };
	struct column columns[3] = { { .kind = COLUMN_NUMBERS },
				     { .kind = COLUMN_CODES, .codes_max = 100 },
				     { .kind = COLUMN_TEXTS } };
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct err err = { 0 };
	char path[64];
	struct frame *t;

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no room for the file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (frame_open(path, 1, &t, &err) == 0) {
		for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
			columns[i].names = &names[i];
			columns[i].n_names = 1;
		}
		if (frame_format(t) == FRAME_JSONL)
			must(frame_read(t, columns, ARRAY_LEN(columns), size % 2, &err) == 0 ||
				     err.code,
			     "an error without a message");
		for (size_t i = 0; i < ARRAY_LEN(columns); i++)
			column_deinit(&columns[i]);
		frame_free(t);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && !memchr(data, '\n', size))
		compare(data, size);
	read_table(data, size);
	return 0;
}
