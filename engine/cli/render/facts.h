/* engine/cli/render/facts.h — finds the run and the output that a user names. record/facts.h reads
 * the facts. */
#ifndef CAIRN_CLI_RENDER_FACTS_H
#define CAIRN_CLI_RENDER_FACTS_H

#include "cli/cli.h"
#include "record/facts.h"

/* The run that --run names, else the newest. */
int facts_find_run(struct cli *cli, struct db *db, const char *what, struct run_row *ret,
		   struct err *err);

/* The tasks of a run with their results (record/facts.h), in cli->arena. */
int facts_tasks(struct cli *cli, struct db *db, const struct run_row *run, struct facts_task **ret,
		size_t *ret_n, struct err *err);

/* Finds TASK/OUTPUT, STEP/OUTPUT, or TASK or STEP alone when it has one output. ERR_NOT_FOUND;
 * ERR_INVALID when several match. */
int facts_find_output(const struct facts_task *tasks, size_t n, const char *what,
		      const struct facts_task **ret_task, const struct named_content **ret,
		      struct err *err);
/* The output of each task of a step that STEP/OUTPUT means, or STEP alone when it has one output.
 * `ret` has room for n. Returns how many there are; *ret_of is how many tasks the step has. */
struct facts_output {
	const struct facts_task *task;
	const struct named_content *output;
};
size_t facts_find_outputs(const struct facts_task *tasks, size_t n, const char *what,
			  struct facts_output *ret, size_t *ret_of);

#endif
