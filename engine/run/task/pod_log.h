/* run/task/pod_log.h — the log of an attempt that runs in a pod, or in the pods of several nodes,
 * while it does. */
#ifndef CAIRN_RUN_TASK_POD_LOG_H
#define CAIRN_RUN_TASK_POD_LOG_H

#include "model/config.h"
#include "run/task/log_part.h"

/* A node that is followed takes a thread and a connection. Of a wider gang the first ones are, and
 * a line in the log says so. */
#define POD_LOG_NODES_MAX 64

enum pod_log_end {
	POD_LOG_WHOLE = 0, /* it has ended, or all so far was told */
	POD_LOG_NO_POD = 1 /* none has it: not yet, or not any more: then what was kept of it is in
			      the store */
};

struct pod_log_options {
	uint64_t attempt_id;
	struct log_wanted wanted; /* of several nodes that are followed: of each */
	bool follow; /* what it prints on, until it ends; and a pod that isn't there yet is waited
			for while runs() */
	int wake_fd; /* -1, or one that is readable once nobody wants more: ends that wait */
	bool (*runs)(void *arg); /* on the caller's thread */
	/* < 0 ends it. One call at a time, on any thread. Of several nodes that are followed whole
	 * lines come, in the order in which they do; else node by node, each under a line that says
	 * which. */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	void *arg;
};

struct pod_log;
/* The way to the cluster of the project with that configuration, which outlives it. */
int pod_log_open(const struct config *c, struct pod_log **ret, struct err *err);
void pod_log_close(struct pod_log *l);  /* NULL is fine */
void pod_log_cancel(struct pod_log *l); /* any thread: ERR_CANCELLED for who prints, now or later */
/* From its beginning. enum pod_log_end. Blocks; any thread, one at a time. */
int pod_log_print(struct pod_log *l, const struct pod_log_options *o, struct err *err);

#endif
