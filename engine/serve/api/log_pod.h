/* engine/serve/api/log_pod.h — a pod's log for a stream that must not wait. A thread of its own
 * reads from the API server and passes the bytes on through a socket, no more than its buffer
 * holds. Each stream has such a thread (WEB_STREAMS_MAX), and for a gang one more for each node
 * (POD_LOG_NODES_MAX). */
#ifndef CAIRN_SERVE_API_LOG_POD_H
#define CAIRN_SERVE_API_LOG_POD_H

#include <sys/types.h>
#include "run/task/pod_log.h"

struct api_log_pod;
struct api_log_pod_options {
	const struct config *config; /* must outlive the log */
	const char *run_options;     /* of its run, as they are on record; copied */
	uint64_t attempt_id;
	struct log_wanted wanted;
	bool follow;
	bool (*runs)(void *arg); /* on its thread: whether the attempt still runs */
	void *arg;
};
struct api_log_pod *api_log_pod_new(const struct api_log_pod_options *o);
/* Stops the thread and waits for it. NULL is fine. */
void api_log_pod_free(struct api_log_pod *p);
/* Like struct web_stream's read. */
ssize_t api_log_pod_read(struct api_log_pod *p, char *buf, size_t max);
/* After a failure: the reason, or NULL. */
const char *api_log_pod_why(const struct api_log_pod *p);
/* After the end: there were no bytes, because there is no such pod. */
bool api_log_pod_was_missing(const struct api_log_pod *p);

#endif
