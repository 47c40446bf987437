/* cli/logs_pod.h — the log of an attempt that runs in a pod, while it does. */
#ifndef CAIRN_CLI_LOGS_POD_H
#define CAIRN_CLI_LOGS_POD_H

#include "model/config.h"

/* What it has printed so far, and with `follow` what it prints on, until it ends. 0 it has ended, or all so far was told; 1 it has no pod: not yet, or not any more. */
int logs_of_pod(const struct config *c, uint64_t attempt_id, bool follow, void (*show)(void *arg, const char *bytes, size_t n), void *arg, struct err *err);

#endif
