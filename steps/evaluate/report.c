/* steps/evaluate/report.c */
#include "base/fs.h"
#include "steps/evaluate/results.h"

int report_write(const char *dir, const struct results *r, const json_t *full, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, "metrics.json");

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	return json_write_file(path, full, true, err);
}
