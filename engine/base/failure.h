/* engine/base/failure.h — how an attempt can fail. Each class has its own retry budget. The class
 * is decided from facts (exit status, container status, conditions), never by matching messages. */
#ifndef CAIRN_BASE_FAILURE_H
#define CAIRN_BASE_FAILURE_H

enum failure_class {
	FAILURE_NONE = 0,
	FAILURE_FAILED,        /* exit status != 0, or an unexplained signal */
	FAILURE_TIMEOUT,       /* the step's timeout passed */
	FAILURE_OOM,           /* killed for memory */
	FAILURE_PREEMPTED,     /* the machine was reclaimed */
	FAILURE_LOST,          /* node, pod or engine gone: its end is unknown */
	FAILURE_IMAGE,         /* the image can't be fetched */
	FAILURE_UNSCHEDULABLE, /* no node has the resources */
	FAILURE_STORE,         /* inputs couldn't be fetched or outputs stored */
	FAILURE_GATE,          /* a metric fails its gate */
	/* Exit 0, but a declared output or metrics file is missing or of the wrong kind. */
	FAILURE_OUTPUT,
	FAILURE_CANCELLED, /* stopped on request: never retried, never counted */
	FAILURE_CLASSES,
};

const char *failure_class_name(enum failure_class c); /* "none", "failed", "timeout", "oom", … */
enum failure_class failure_class_parse(const char *name); /* FAILURE_CLASSES when unknown */

#endif
