/* engine/run/task/pod_log.h — the log of an attempt while it runs in a pod, or in the pods of
 * several nodes. */
#ifndef CAIRN_RUN_TASK_POD_LOG_H
#define CAIRN_RUN_TASK_POD_LOG_H

#include "model/config/config.h"
#include "run/task/log_part.h"

/* Following a node takes a thread and a connection. Of a larger gang only the first nodes are
 * followed, and a line in the log says so. */
#define POD_LOG_NODES_MAX 64

enum pod_log_end {
	POD_LOG_WHOLE = 0, /* the log has ended, or all of it so far was printed */
	POD_LOG_NO_POD = 1 /* no pod has it yet, or any more: then the kept log is in the store */
};

struct pod_log_options {
	uint64_t attempt_id;
	struct log_wanted wanted; /* of each node, when several are followed */
	bool follow; /* prints until the attempt ends; waits for a missing pod while runs() */
	int wake_fd; /* -1, or an fd that becomes readable when the reader leaves: ends the wait */
	bool (*runs)(void *arg); /* on the caller's thread */
	/* < 0 ends it. One call at a time, on any thread. Several followed nodes give whole lines,
	 * as they come. Otherwise nodes come one after the other, each under a heading. */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	void *arg;
};

struct pod_log;
/* Connects to the cluster of the run with these options. `c` must outlive *ret. */
int pod_log_open(const struct config *c, const char *options_json, struct pod_log **ret,
		 struct err *err);
void pod_log_close(struct pod_log *l);  /* NULL is fine */
void pod_log_cancel(struct pod_log *l); /* any thread: a print now or later returns ERR_CANCELLED */
/* Prints from the log's beginning. Returns enum pod_log_end. Blocks; any thread, one at a time. */
int pod_log_print(struct pod_log *l, const struct pod_log_options *o, struct err *err);

#endif
