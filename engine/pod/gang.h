/* engine/pod/gang.h — the pods of one distributed step find each other before their programs start.
 *
 * Each pod of an Indexed Job has the name `SERVICE-INDEX.SERVICE`, which DNS knows once the pod has
 * an address. Pods that an operator made have services of their own instead, `SERVICE-INDEX`. A
 * framework that asks too early gets an answer that is cached (negative caching), and some then
 * give up. So the sidecar waits until DNS knows all pods. No program begins before each pod has its
 * node, and then each finds the others at once. Of an elastic gang enough pods begin without the
 * others, which join them later (steps/train/elastic.c). The runner limits how long a gang may take
 * to get all its nodes: it deletes the Job then, and stopped() returns true here.
 */
#ifndef CAIRN_POD_GANG_H
#define CAIRN_POD_GANG_H

#include "base/mem.h"
#include "base/time/clock.h"
#include "runners/runner.h"

#define POD_GANG_SERVICE "CAIRN_POD_SERVICE" /* from the pod's environment */
#define POD_GANG_EACH    "-%u" /* at its end: the pods have a service each, NAME-INDEX */
#define POD_GANG_INDEX   "JOB_COMPLETION_INDEX" /* set by Kubernetes */

/* The world, for tests; NULL members mean the real one. */
struct pod_gang_world {
	struct clock *clock;
	void (*wait)(void *arg, int64_t ns);
	/* Adds the addresses of `name` as text, separated by commas, of one family. Returns their
	 * number, or -1 when there are none (yet). */
	int (*look_up)(void *arg, const char *name, struct str *ret);
	bool (*stopped)(void *arg); /* NULL: never */
	void *arg;
};

/* `service`, `index`: from the environment (NULL: absent). Blocks. *ret_env: the variables for the
 * program, NULL-terminated, in `arena`: CAIRN_GANG_* of steps/train/gang.h; empty for an attempt on
 * one node. ERR_CANCELLED: stopped; ERR_INVALID: the environment isn't a gang pod's; ERR_IO: DNS
 * doesn't know the pods. */
int pod_gang_meet(const struct runner_attempt *a, const char *service, const char *index,
		  const struct pod_gang_world *world, struct arena *arena,
		  const char *const **ret_env, struct err *err);

#endif
