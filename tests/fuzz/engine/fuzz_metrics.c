/* Lines that a training printed, from bytes: which are metrics, and that a series of them, as the
 * launcher writes it, is read back by plots. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "run/view/series.h"
#include "steps/train/gang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void collect(void *arg, const char *name, double v)
{
	assert(*name && strlen(name) <= 128);
	json_object_set_new(arg, name, isfinite(v) ? json_real(v) : json_null());
}

static void add_line(struct str *text, const char *line, size_t n)
{
	json_t *values = json_object();
	char *copy = xmalloc(n + (n == 0)); /* of its own size: nothing behind it may be read */

	memcpy(copy, line, n);
	if (gang_metrics_of_line(copy, n, collect, values)) {
		assert(json_object_size(values) > 0);
		json_object_set_new(values, "step", json_integer((json_int_t)n));
		json_add_canonical(text, values);
		str_addc(text, '\n');
	} else {
		assert(json_object_size(values) == 0); /* a line that isn't one tells nothing */
	}
	json_decref(values);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct arena *arena = arena_new();
	struct str text = { 0 };
	struct series s = { 0 };
	struct err err = { 0 };

	while (at < end) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t n = eol ? (size_t)(eol - at) : (size_t)(end - at);

		add_line(&text, at, n);
		at += n + (eol != NULL);
	}
	if (text.len)
		assert(series_parse(text.s, text.len, arena, &s, &err) == 0);
	series_parse((const char *)data, size, arena, &s, &err); /* as it is: any bytes */
	str_deinit(&text);
	arena_free(arena);
	return 0;
}
