/* TZif files from bytes: refused, or a zone whose segments follow one another and hold the moments
 * that were asked for; also the rule behind the table by itself. */
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "serve/schedule/zonefile.h"

static void walk(const struct zone *z, int64_t t)
{
	for (int i = 0; i < 50; i++) {
		struct zone_segment s = zone_segment_at(z, t);

		assert(s.start_s <= t && t < s.end_s);
		zone_shown_before(z, &s);
		if (s.end_s >= 10000000000)
			return;
		t = s.end_s;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zone_rule r;
	struct zone *z;

	if (size < 256) {
		_cleanup_(freep) char *text = xstrndup((const char *)data, size);
		struct zone_change c[ZONE_RULE_CHANGES];

		if (zone_rule_parse(text, &r, NULL) == 0)
			for (size_t n = zone_rule_changes(&r, 1767225600, c), i = 1; i < n; i++)
				assert(c[i - 1].at_s <= c[i].at_s);
	}
	if (zone_parse(data, size, &z, NULL) < 0)
		return 0;
	walk(z, -3000000000);
	walk(z, 0);
	walk(z, 4000000000);
	zone_free(z);
	return 0;
}
