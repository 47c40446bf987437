/* runners/kubernetes/job/pod_spec.h — a pod's specification and its result: the two messages
 * between the engine and `cairn pod` (engine/pod/pod.h).
 *
 * The specification is a blob in the shared store, and the Job holds its id. It is canonical JSON
 * with everything that the pod needs to know about its attempts, without secrets. The result comes
 * back as the termination message of the sidecar: canonical JSON, or {"result": CONTENT}, a blob in
 * the store, when it is longer than POD_MESSAGE_MAX. The result is the sidecar's view. The pod's
 * status (facts.h) tells how the containers ended, and it takes precedence.
 *
 * Both are hostile when read: bounded, every field checked. ERR_INVALID says which field.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_POD_SPEC_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_POD_SPEC_H

#include "base/mem.h"
#include "base/text/str.h"
#include "runners/runner.h"

/* k8s.io/kubelet: it cuts off the end of a longer termination message. */
#define POD_MESSAGE_MAX 4096
#define POD_SPEC_MAX    (16 * MIB)
#define POD_RESULT_MAX  (16 * MIB) /* of a result in the store */

/* One emptyDir that both containers see. */
#define POD_ROOT "/cairn"
/* The sidecar puts the helper and the launcher of ranks there. */
#define POD_BIN    POD_ROOT "/bin"
#define POD_INIT   POD_BIN "/cairn-init"
#define POD_LAUNCH POD_BIN "/cairn-launch"
/* The directory of the protocol between sidecar and helper (runners/kubernetes/init/protocol.h). */
#define POD_RUN POD_ROOT "/run"
/* For attempt i of the pod (0 unless it is packed), POD_ROOT/I/w is the workspace and
 * POD_ROOT/I/tmp the TMPDIR. Inputs are mounted over it, read-only. */
#define POD_WORKSPACE_FMT POD_ROOT "/%zu/w"
/* A line of the sidecar's log with the newest numbers of a training: {this: attempt id, "loss":
 * 0.2, …}. */
#define POD_SERIES_KEY "cairn_series"
#define POD_STEPS      "/usr/bin/cairn-steps" /* the built-in steps, in Cairn's own image */
#define POD_CAIRN      "/usr/bin/cairn"

/* "blob:SIZE:HEX": a content id as text, as in the specification, CAIRN_POD_SPEC and
 * KUBE_NOTE_SPEC. */
void pod_content_write(const struct content_id *id, struct str *out);
int pod_content_read(const char *text, struct content_id *ret, struct err *err);

/* Writes what the pod needs to know: not image, placement, resources, pack. Of `secrets` it writes
 * only the names, and reading gives names. Several attempts of a pod run one after the other, in
 * this order. Paths of inputs, outputs … are relative to each attempt's workspace. n: 1 at least.
 * per_pod: how many of them each pod of an array executes, INIT_PROGRAMS_MAX at most; 0: every pod
 * executes all. */
int pod_spec_write(const struct runner_attempt *const *attempts, size_t n, size_t per_pod,
		   struct str *out, struct err *err);
/* Reads the attempts of the pod with that index in its Job. */
int pod_spec_read(const char *text, size_t len, unsigned index, struct arena *arena,
		  struct runner_attempt **ret, size_t *ret_n, struct err *err);

/* The result of one attempt, as the sidecar saw it. */
struct pod_result {
	/* 0: stands for all of the pod's attempts: the specification was unreadable. */
	uint64_t attempt_id;
	unsigned index; /* of the gang's node; 0 */
	bool ran;       /* the program was started; else the rest is unknown */
	bool main_died; /* the container ended without the helper's report: see the pod's status */
	bool stopped;   /* the pod got SIGTERM before the program had ended */
	size_t n_outputs; /* length of r.outputs; 0 when nothing was collected */
	/* All but node, workspace. In `arena` when read. failure: FAILED, TIMEOUT, OOM, OUTPUT,
	 * STORE or NONE. */
	struct runner_result r;
};
/* Writes results in the order of the specification, without those that weren't reached. The message
 * has at most POD_MESSAGE_MAX bytes; `put` stores a longer one. */
int pod_result_write(const struct pod_result *results, size_t n,
		     int (*put)(void *arg, const void *bytes, size_t n, struct content_id *ret,
				struct err *err),
		     void *arg, struct str *ret_message, struct err *err);
/* The caller compares each n_outputs with its attempt's (or 0). 1: the result is in the store at
 * *ret_where: get it (at most POD_RESULT_MAX) and call again with that. */
int kube_pod_result_read(const char *text, size_t len, struct arena *arena, struct pod_result **ret,
			 size_t *ret_n, struct content_id *ret_where, struct err *err);

#endif
