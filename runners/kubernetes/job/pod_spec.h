/* runners/kubernetes/job/pod_spec.h — a pod's specification and its result: the two messages
 * between the engine and `cairn pod` (engine/pod/pod.h).
 *
 * The specification is a blob in the shared store, whose id stands in the Job: all that the pod
 * needs of its attempts, as canonical JSON. No secret is in it. The result comes back as the
 * termination message of the sidecar: canonical JSON, or, when it is longer than POD_MESSAGE_MAX,
 * {"result": CONTENT} that names it in the store. It is the sidecar's word: what became of the
 * containers is the pod's status' (facts.h), and that wins.
 *
 * Both are hostile when read: bounded, every field checked. ERR_INVALID says which field.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_POD_SPEC_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_POD_SPEC_H

#include "base/mem.h"
#include "base/text/str.h"
#include "runners/runner.h"

/* k8s.io/kubelet: the end of a longer termination message is cut off. */
#define POD_MESSAGE_MAX 4096
#define POD_SPEC_MAX    (16 * MIB)
#define POD_RESULT_MAX  (16 * MIB) /* of one in the store */

/* Where things are in a pod. One emptyDir, seen by both containers. */
#define POD_ROOT "/cairn"
/* The sidecar puts the helper and the launcher of ranks there. */
#define POD_BIN    POD_ROOT "/bin"
#define POD_INIT   POD_BIN "/cairn-init"
#define POD_LAUNCH POD_BIN "/cairn-launch"
/* What the sidecar and the helper tell each other (runners/kubernetes/init/protocol.h). */
#define POD_RUN POD_ROOT "/run"
/* Of attempt i of the pod (0 unless it is packed): POD_ROOT/I/w is its workspace, POD_ROOT/I/tmp
 * its TMPDIR. Inputs are mounted over it, read-only. */
#define POD_WORKSPACE_FMT POD_ROOT "/%zu/w"
/* In a line of the sidecar's log, the newest numbers of a training: {this: attempt id, "loss": 0.2,
 * …}. */
#define POD_SERIES_KEY "cairn_series"
#define POD_STEPS      "/usr/bin/cairn-steps" /* the built-in steps, in Cairn's own image */
#define POD_CAIRN      "/usr/bin/cairn"

/* "blob:SIZE:HEX": a content id as text, as it stands in the specification, in CAIRN_POD_SPEC and
 * in KUBE_NOTE_SPEC. */
void pod_content_write(const struct content_id *id, struct str *out);
int pod_content_read(const char *text, struct content_id *ret, struct err *err);

/* Of an attempt goes in what the pod needs: not image, placement, resources, pack; of `secrets` the
 * names alone, and they come back as names. Several attempts of a pod run one after the other, in
 * this order. Paths of inputs, outputs … are relative to each one's workspace. n: 1 at least.
 * per_pod: so many of them, INIT_PROGRAMS_MAX at most, are each pod's of an array; 0: all are every
 * pod's. */
int pod_spec_write(const struct runner_attempt *const *attempts, size_t n, size_t per_pod,
		   struct str *out, struct err *err);
/* Those of the pod with that index in its Job. */
int pod_spec_read(const char *text, size_t len, unsigned index, struct arena *arena,
		  struct runner_attempt **ret, size_t *ret_n, struct err *err);

/* What became of one attempt, as the sidecar saw it. */
struct pod_result {
	uint64_t attempt_id; /* 0: of whichever the pod was for; the specification couldn't be read
			      */
	unsigned index;      /* of the gang's node; 0 */
	bool ran;            /* the program was started; the rest isn't known otherwise */
	bool main_died; /* the container ended and the helper didn't say how: the pod's status says
			 */
	bool stopped;   /* the pod was told to end (SIGTERM) before the program had */
	size_t n_outputs;       /* places in r.outputs; 0 when nothing was collected */
	struct runner_result r; /* all but node, workspace. In `arena` when read. failure: FAILED,
				   TIMEOUT, OOM, OUTPUT, STORE or NONE */
};
/* In the order of the specification; those that weren't reached are left out. The message is at
 * most POD_MESSAGE_MAX bytes: a long one goes through `put`. */
int pod_result_write(const struct pod_result *results, size_t n,
		     int (*put)(void *arg, const void *bytes, size_t n, struct content_id *ret,
				struct err *err),
		     void *arg, struct str *ret_message, struct err *err);
/* Whoever reads holds n_outputs of each against its attempt's (or 0). 1: it is in the store, and
 * *ret_where says where: get it (at most POD_RESULT_MAX) and call again with that. */
int kube_pod_result_read(const char *text, size_t len, struct arena *arena, struct pod_result **ret,
			 size_t *ret_n, struct content_id *ret_where, struct err *err);

#endif
