/* run/task/attempt.h — what a runner is told of a task: the same for a run, and for what shows what
 * a run would submit.
 *
 * Pure; what is in `ret` points into the step, the command and `arena`.
 */
#ifndef CAIRN_RUN_TASK_ATTEMPT_H
#define CAIRN_RUN_TASK_ATTEMPT_H

#include "plan/plan.h"
#include "runners/runner.h"

/* All that the step and the command say. `c`: NULL while what the task reads isn't made yet: then
 * its inputs have names and no content, argv and env are empty, and there is no image. The caller's
 * are: id, run_id, task, number, key, what it really gets of the resources (here: all that the step
 * asks for), and the values of secrets (here: none, as for a runner that has them where it runs).
 */
void attempt_of_step(const struct step *s, const struct task_command *c, struct arena *arena,
		     struct runner_attempt *ret);

#endif
