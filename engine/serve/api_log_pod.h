/* serve/api_log_pod.h — a pod's log for a stream that mustn't wait: a thread of its own asks the API server, and hands on through a socket what comes, no more than its
 * buffer holds. There are as many of these threads as there are streams (WEB_STREAMS_MAX). */
#ifndef CAIRN_SERVE_API_LOG_POD_H
#define CAIRN_SERVE_API_LOG_POD_H

#include <sys/types.h>
#include "model/config.h"

struct api_log_pod;
/* Begins it. `c` outlives it; runs(arg) is called on its thread: whether the attempt goes on. */
struct api_log_pod *api_log_pod_new(const struct config *c, uint64_t attempt_id, bool follow, bool (*runs)(void *arg), void *arg);
/* Ends it, and waits for its thread. NULL is fine. */
void api_log_pod_free(struct api_log_pod *p);
/* As struct web_stream's. */
ssize_t api_log_pod_read(struct api_log_pod *p, char *buf, size_t max);
/* After the end: nothing came, since there is no such pod. */
bool api_log_pod_was_missing(const struct api_log_pod *p);

#endif
