/* Cron rules from bytes: refused with a message and a place inside of the text, or times that are
 * in order and match. */
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "base/time/civil.h"
#include "model/schedule/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = xstrndup((const char *)data, size);
	struct err err = { 0 };
	struct cron c;
	size_t offset = 0;
	int64_t t = 1767225600;

	if (size > 4096)
		return 0;
	if (cron_parse(text, &c, &offset, &err) < 0) {
		assert(err.msg[0] && offset <= strlen(text));
		return 0;
	}
	for (int i = 0; i < 20 && !c.every_s; i++) {
		int64_t next;

		if (cron_next(&c, t, 9214646400, &next) > 0)
			break;
		assert(next >= t && next % 60 == 0 && cron_matches_day(&c, next / CIVIL_DAY_S));
		t = next + 1;
	}
	return 0;
}
