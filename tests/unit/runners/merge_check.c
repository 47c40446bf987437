/* merge_check: reads lines {"template": T, "patch": P} and writes T merged with P, a line each, or
 * {"error": why}. For tests/unit/runners/merge_kubectl. */
#include <stdio.h>
#include <string.h>
#include "runners/kubernetes/job/merge.h"

static int one(const char *line, size_t n)
{
	_cleanup_(json_decrefp) json_t *given = NULL;
	_cleanup_(str_deinit) struct str out = { 0 };
	struct err err = { 0 };

	if (json_parse("input", line, n, &given, &err) < 0)
		return fprintf(stderr, "%s\n", err.msg), 1;
	if (kube_merge_template(json_object_get(given, "template"), json_object_get(given, "patch"),
				&err) < 0) {
		_cleanup_(json_decrefp) json_t *said = json_pack("{s:s}", "error", err.msg);

		json_add_canonical(&out, said);
	} else {
		json_add_canonical(&out, json_object_get(given, "template"));
	}
	puts(out.s);
	return 0;
}

int main(void)
{
	_cleanup_(freep) char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, stdin)) > 0)
		if (one(line, (size_t)n) != 0)
			return 1;
	return 0;
}
