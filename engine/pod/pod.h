/* engine/pod/pod.h — the sidecar, `cairn pod`, which runs beside the program in a pod.
 *
 * It fetches and verifies the code and inputs of its attempts (runners/kubernetes/job/pod_spec.h)
 * and the checkpoint of their key. It lays them out under POD_ROOT, puts the static helper there,
 * tells it that the program may start, and waits for the helper's reports
 * (runners/kubernetes/init/protocol.h). Then it collects outputs, metrics and series, puts them,
 * the log and the checkpoint into the store, writes the result to the termination log, and lets the
 * helper end. On SIGTERM while the program has not ended (the container died; the pod must go) it
 * saves log and checkpoint. While the program runs, it saves a changed checkpoint every few
 * minutes, so that a lost node costs minutes.
 *
 * The sidecar treats the program as hostile. The program may have replaced any path below POD_ROOT
 * by a link, so the sidecar follows none: nothing from outside of the workspace can become an
 * output, a log or a checkpoint.
 *
 * Environment (written by run/project/cluster.c and runners/kubernetes/job/pod.c, read by
 * engine/cli/run/cmd_pod.c): CAIRN_POD_SPEC (content id), CAIRN_STORE, CAIRN_STORE_ENDPOINT,
 * CAIRN_STORE_REGION, CAIRN_STORE_STYLE, CAIRN_STORE_CA, CAIRN_STORE_ANONYMOUS; credentials as the
 * store's chain finds them.
 */
#ifndef CAIRN_POD_POD_H
#define CAIRN_POD_POD_H

#include "storage/store.h"

struct pod_options {
	const char *root;         /* NULL: POD_ROOT; for tests */
	const char *message_path; /* NULL: /dev/termination-log */
	/* The static programs for POD_BIN; NULL: /usr/lib/cairn/cairn-init, cairn-launch. */
	const char *init_program, *launch_program;
	const char *state_dir; /* private to the sidecar, outlives its container; NULL: /tmp */
	unsigned index;        /* of the pod in its Job */
	/* The node's cache, which other pods of the node use at the same time: an absolute
	 * directory of it, for this store alone; NULL: none. Inputs are fetched into it by the
	 * store that open_cache() opens on that directory. Without access to it, the pod goes on
	 * without it. */
	const char *cache_dir;
	int (*open_cache)(const char *dir, struct store **ret, struct err *err);
	/* The directory of this pod alone, on the cache's file system, from which main mounts large
	 * inputs (runner_input.view); NULL: none is mounted. */
	const char *views_dir;
	void (*say)(const char *text); /* prints a line to the log; any thread; NULL: no output */
	int64_t checkpoint_every_ns;   /* 0: 5 min */
	int64_t series_every_ns; /* how often a training's newest numbers are printed; 0: 10 s */
	/* How long an unreachable store is retried after the program has ended; 0: 12 h. A store
	 * that refuses us is retried for at most as long as the program ran. The helper waits as
	 * long, and the container's readiness shows it (pod_is_well()). */
	int64_t save_within_ns;
};
/* `spec`: as in CAIRN_POD_SPEC, pod_content_write()'s text or "sha256:HEX". Runs until the end of
 * the pod, which SIGTERM announces; it takes that signal over in all threads. After a kill and a
 * restart, it continues where it was. Returns 0 when the result is written, also when the result is
 * a failure; an error when nothing can be written. */
int pod_serve(struct store *store, const char *spec, const struct pod_options *o, struct err *err);
/* For a store that can't be opened: reports why, makes the helper end, and ends with it. */
int pod_refuse(const struct pod_options *o, const struct err *why, struct err *err);
/* The sidecar's postStart hook (`cairn pod --ready`): waits until main may be created: `placed` or
 * `failed` (protocol.h), at most 20 s. Returns 0 for both, because the helper reports a failure; -1
 * after that time. The time is short, because the kubelet doesn't interrupt a hook, not even to
 * delete the pod. A startup probe would cost every step 1 to 2 s (measured: a probe starts at its
 * next period only). */
int pod_wait_ready(const char *root, struct err *err);

/* The sidecar's readiness probe (`cairn pod --well`). It returns -1, with a message, when a step is
 * over and the store doesn't accept its outputs: so the pod's status shows that. */
int pod_is_well(const char *state_dir, struct err *err);

#endif
