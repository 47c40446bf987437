/* engine/pod/pod.h — what runs beside the program in a pod: the sidecar, `cairn pod`.
 *
 * It fetches and verifies code and inputs of its attempts (runners/kubernetes/job/pod_spec.h) and
 * the checkpoint of their key, lays them out under POD_ROOT, puts the static helper there, says
 * that the program may start, and waits for what the helper says
 * (runners/kubernetes/init/protocol.h). Then it collects outputs, metrics and series, puts them,
 * the log and the checkpoint into the store, writes the result to the termination log, and lets the
 * helper end. On SIGTERM without an end of the program (the container died; the pod must go) it
 * saves log and checkpoint. While the program runs, the checkpoint is saved every few minutes when
 * it has changed, so that a lost node costs minutes.
 *
 * The program is hostile to it: it may have replaced any path below POD_ROOT by a link, and none is
 * followed: nothing from outside of the workspace can become an output, a log or a checkpoint.
 *
 * Surroundings, from the environment (the engine writes them, run/cluster.c and
 * runners/kubernetes/job/pod.c; engine/cli/run/cmd_pod.c reads them): CAIRN_POD_SPEC (content id),
 * CAIRN_STORE, CAIRN_STORE_ENDPOINT, CAIRN_STORE_REGION, CAIRN_STORE_STYLE, CAIRN_STORE_CA,
 * CAIRN_STORE_ANONYMOUS; credentials as the store's chain finds them.
 */
#ifndef CAIRN_POD_POD_H
#define CAIRN_POD_POD_H

#include "storage/store.h"

struct pod_options {
	const char *root;         /* NULL: POD_ROOT; for tests */
	const char *message_path; /* NULL: /dev/termination-log */
	const char *init_program,
		*launch_program; /* the static programs that are put into POD_BIN; NULL:
				    /usr/lib/cairn/cairn-init, cairn-launch */
	const char *state_dir;   /* of the sidecar alone, outlives its container: NULL: /tmp */
	unsigned index;          /* of the pod in its Job */
	void (*say)(const char *text); /* a line for whoever reads the sidecar's log; any thread;
					  NULL: nobody */
	int64_t checkpoint_every_ns;   /* 0: 5 min */
	int64_t series_every_ns;       /* that the newest numbers of a training are said; 0: 10 s */
	/* When the program has ended: for how long a store that can't be reached is tried again; 0:
	 * 12 h. One that refuses us, for as long as the program ran at most. The helper waits as
	 * long, and the container's readiness tells (pod_is_well()). */
	int64_t save_within_ns;
};
/* `spec`: as in CAIRN_POD_SPEC, pod_content_write()'s text or "sha256:HEX". To the end of the pod,
 * which is told by SIGTERM: that signal is taken, in all threads. Killed and started again, it goes
 * on where it was. 0 when the result is told, also when it is a failure; an error when nothing can
 * be told. */
int pod_serve(struct store *store, const char *spec, const struct pod_options *o, struct err *err);
/* Where even the store can't be opened: tells why, has the helper end, and ends with it. */
int pod_refuse(const struct pod_options *o, const struct err *why, struct err *err);
/* The sidecar's postStart hook (`cairn pod --ready`): waits until main may be made: `placed` or
 * `failed` (protocol.h), at most 20 s. 0 for both, since the helper tells why; -1 after that time.
 * Short, as the kubelet doesn't interrupt it, not even to delete the pod; a startup probe would
 * cost every step 1 to 2 s (measured: a probe starts at its next period only). */
int pod_wait_ready(const char *root, struct err *err);

/* The sidecar's readiness probe (`cairn pod --well`), by which the pod's status shows that a step
 * is over and the store doesn't take its outputs: -1 then, with words. */
int pod_is_well(const char *state_dir, struct err *err);

#endif
