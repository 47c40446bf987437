/* A pod template and a patch of it, one JSON document each, a NUL between: merged, or refused with
 * words. What was merged can be merged again. */
#include <string.h>
#include "runners/kubernetes/job/merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const char *text = (const char *)bytes, *half = n ? memchr(text, 0, n) : NULL;
	_cleanup_(json_decrefp) json_t *template = NULL, *patch = NULL;
	struct err err = { 0 };

	if (!half || json_parse("template", text, (size_t)(half - text), &template, &err) < 0 ||
	    !json_is_object(template) ||
	    json_parse("patch", half + 1, n - 1 - (size_t)(half - text), &patch, &err) < 0)
		return 0;
	if (kube_merge_template(template, patch, &err) == 0 &&
	    kube_merge_template(template, patch, &err) < 0 && err.msg[0] == '\0')
		__builtin_trap();
	return 0;
}
