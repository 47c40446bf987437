/* serve/api/log_pod.h — a pod's log for a stream that mustn't wait: a thread of its own asks the
 * API server, and hands on through a socket what comes, no more than its buffer holds. There are as
 * many of these threads as there are streams (WEB_STREAMS_MAX), and for a gang one more a node
 * (POD_LOG_NODES_MAX). */
#ifndef CAIRN_SERVE_API_LOG_POD_H
#define CAIRN_SERVE_API_LOG_POD_H

#include <sys/types.h>
#include "run/task/pod_log.h"

struct api_log_pod;
struct api_log_pod_options {
	const struct config *config; /* outlives it */
	uint64_t attempt_id;
	struct log_wanted wanted;
	bool follow;
	bool (*runs)(void *arg); /* on its thread: whether the attempt goes on */
	void *arg;
};
/* Begins it. */
struct api_log_pod *api_log_pod_new(const struct api_log_pod_options *o);
/* Ends it, and waits for its thread. NULL is fine. */
void api_log_pod_free(struct api_log_pod *p);
/* As struct web_stream's. */
ssize_t api_log_pod_read(struct api_log_pod *p, char *buf, size_t max);
/* After it failed: why, or NULL. */
const char *api_log_pod_why(const struct api_log_pod *p);
/* After the end: nothing came, since there is no such pod. */
bool api_log_pod_was_missing(const struct api_log_pod *p);

#endif
