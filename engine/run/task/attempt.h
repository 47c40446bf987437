/* engine/run/task/attempt.h — the description of a task that a runner gets. Used by runs, and by
 * commands that show what a run would submit.
 *
 * Pure; *ret points into the step, the command and `arena`.
 */
#ifndef CAIRN_RUN_TASK_ATTEMPT_H
#define CAIRN_RUN_TASK_ATTEMPT_H

#include "plan/plan.h"
#include "runners/runner.h"

/* Fills in everything that comes from step and command. `c`: NULL while the task's inputs don't
 * exist yet: then inputs have names but no content, argv and env are empty, and there is no image.
 * The caller sets: id, run_id, task, number, key; the resources that it really gets (here: all that
 * the step asks for); the values of secrets (here: none, as for a runner that has its own). */
void attempt_of_step(const struct step *s, const struct task_command *c, struct arena *arena,
		     struct runner_attempt *ret);

#endif
