/* engine/pod/gang.h — the pods of one distributed step find each other before their programs start.
 *
 * Each pod of an Indexed Job has the name `SERVICE-INDEX.SERVICE`, which DNS knows once the pod has
 * an address. A framework that asks too early gets an answer that is kept (negative caching), and
 * some give up on it. So the sidecar waits until DNS knows all pods: no program begins before each
 * pod has its place, and then each finds the others at once. How long a gang may take to get all
 * its places is the runner's to say: it deletes the Job then, and stopped() says so here.
 */
#ifndef CAIRN_POD_GANG_H
#define CAIRN_POD_GANG_H

#include "base/clock.h"
#include "base/mem.h"
#include "runners/runner.h"

#define POD_GANG_SERVICE "CAIRN_POD_SERVICE"    /* in the pod's environment */
#define POD_GANG_INDEX   "JOB_COMPLETION_INDEX" /* put there by Kubernetes */

/* The world, for tests; NULL where the real one is meant. */
struct pod_gang_world {
	struct clock *clock;
	void (*wait)(void *arg, int64_t ns);
	/* Addresses of `name` as text, a comma between, of one family; 0: how many, or -1 when
	 * there are none (yet). */
	int (*look_up)(void *arg, const char *name, struct str *ret);
	bool (*stopped)(void *arg); /* NULL: never */
	void *arg;
};

/* `service`, `index`: from the environment (NULL: absent). Blocks. *ret_env: what the program gets
 * for it, NULL-terminated, in `arena`: CAIRN_GANG_* of steps/train/gang.h; empty for an attempt on
 * one node. ERR_CANCELLED: stopped; ERR_INVALID: the environment isn't that of a gang's pod;
 * ERR_IO: DNS doesn't know the pods. */
int pod_gang_meet(const struct runner_attempt *a, const char *service, const char *index,
		  const struct pod_gang_world *world, struct arena *arena,
		  const char *const **ret_env, struct err *err);

#endif
