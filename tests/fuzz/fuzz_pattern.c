/* A regular expression, a newline, a text: the expression is refused with a message, or tells of
 * the text the same twice, with what it learnt and anew. */
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *eol = memchr(data, '\n', size);
	_cleanup_(freep) char *text = NULL;
	_cleanup_(pattern_freep) struct pattern *p = NULL, *again = NULL;
	struct err err = { 0 };
	const char *line;
	size_t n;
	bool found;

	if (!eol || size > 4096)
		return 0;
	text = xstrndup((const char *)data, (size_t)(eol - data));
	line = (const char *)eol + 1;
	n = size - (size_t)(eol + 1 - data);
	if (pattern_new(text, size % 2, &p, &err) < 0) {
		assert(err.code == ERR_INVALID && err.msg[0]);
		return 0;
	}
	found = pattern_matches(p, line, n);
	assert(pattern_matches(p, line, n) == found);
	assert(pattern_new(text, size % 2, &again, NULL) == 0);
	assert(pattern_matches(again, line, n) == found);
	return 0;
}
