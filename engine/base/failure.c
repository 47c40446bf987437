#include "base/failure.h"
#include <string.h>
#include "base/macros.h"

static const char *const names[FAILURE_CLASSES] = {
	[FAILURE_NONE] = "none",           [FAILURE_FAILED] = "failed",
	[FAILURE_TIMEOUT] = "timeout",     [FAILURE_OOM] = "oom",
	[FAILURE_PREEMPTED] = "preempted", [FAILURE_LOST] = "lost",
	[FAILURE_IMAGE] = "image",         [FAILURE_UNSCHEDULABLE] = "unschedulable",
	[FAILURE_STORE] = "store",         [FAILURE_GATE] = "gate",
	[FAILURE_OUTPUT] = "output",       [FAILURE_CANCELLED] = "cancelled",
};

const char *failure_class_name(enum failure_class c)
{
	return c < FAILURE_CLASSES ? names[c] : "unknown";
}

enum failure_class failure_class_parse(const char *name)
{
	for (int c = 0; c < FAILURE_CLASSES; c++)
		if (strcmp(names[c], name) == 0)
			return c;
	return FAILURE_CLASSES;
}
