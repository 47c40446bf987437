/* engine/run/slots.h — what this machine can give to tasks at once: cpus, memory, gpus, and a
 * number of tasks. Pure bookkeeping. */
#ifndef CAIRN_RUN_SLOTS_H
#define CAIRN_RUN_SLOTS_H

#include "model/config/config.h"
#include "runners/runner.h"

struct slots {
	bool remote; /* tasks run elsewhere: only their number is limited here */
	uint32_t jobs, jobs_used;
	uint32_t taking_in; /* programs that have ended, whose outputs the runner takes in */
	uint32_t cpu_milli, cpu_used;
	uint64_t memory_bytes, memory_used;
	uint32_t gpus;
	bool gpu_used[64];
};

/* From flag, configuration and machine. */
void slots_init(struct slots *s, const struct config *c, unsigned jobs, bool remote);
/* What a step asks for, cut down to what this machine has: the same file runs on a laptop. gpus are
 * not cut: ERR_INVALID when there are too few. With `remote`: what it asks for of one node,
 * uncut. */
int slots_want(const struct slots *s, const struct resources_decl *r, uint32_t nodes,
	       double memory_factor, struct runner_resources *ret, struct err *err);
/* Takes the resources; false when they aren't free now. Fills gpu_ids. */
bool slots_take(struct slots *s, struct runner_resources *r);
void slots_give(struct slots *s, const struct runner_resources *r);

#endif
