/* A results table from a store: refused, or readable to its end. */
#include <assert.h>
#include "record/manifest/results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct results_cursor c;
	struct result_entry e;
	struct results *r;

	if (results_decode(data, size, &r, NULL) < 0)
		return 0;
	results_first(r, &c);
	while (results_next(&c, &e)) {
		struct content_id id;
		struct metric_value m;

		assert(e.step && e.task);
		for (size_t i = 0; i < e.n_outputs; i++) {
			results_output(&e, i, &id);
			assert(results_output_name(r, &e, i));
		}
		for (size_t i = 0; i < e.n_metrics && i < 10; i++)
			results_metric(&e, i, &m);
	}
	results_free(r);
	return 0;
}
