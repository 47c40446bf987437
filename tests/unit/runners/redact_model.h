/* unit/runners/redact_model.h — the filter of runners/redact.h as one would write it for a text
 * that is there as a whole: each piece at each place, byte by byte. */
#ifndef CAIRN_TESTS_UNIT_RUNNERS_REDACT_MODEL_H
#define CAIRN_TESTS_UNIT_RUNNERS_REDACT_MODEL_H

#include <string.h>
#include "base/mem.h"
#include "runners/redact.h"

struct redact_model {
	const char *text;
	size_t n;
	bool *masked;
};

static inline void redact_model_mark(void *arg, const char *piece, size_t n)
{
	struct redact_model *m = arg;

	for (size_t at = 0; n <= m->n && at <= m->n - n; at++)
		if (m->text[at] == *piece && memcmp(m->text + at, piece, n) == 0)
			memset(m->masked + at, true, n);
}

/* What has to come out of the text, in *ret. */
static inline void redact_model(const char *const *values, size_t n_values, const char *text,
				size_t n, struct str *ret)
{
	struct redact_model m = { text, n, xcalloc(n + 1, sizeof(bool)) };

	str_reset(ret);
	str_add(ret, "");
	for (size_t i = 0; i < n_values; i++)
		redact_forms(values[i], strlen(values[i]), redact_model_mark, &m);
	for (size_t at = 0; at < n; at++)
		if (!m.masked[at])
			str_addc(ret, text[at]);
		else if (!at || !m.masked[at - 1])
			str_add(ret, REDACT_MASK);
	free(m.masked);
}

#endif
