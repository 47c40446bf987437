/* engine/cli/named.h — the run, and the outputs of it, that a user names.
 *
 * Everything lives in cli->arena, or in the tasks that are passed. what.h understands all forms in
 * which content can be named, with these.
 */
#ifndef CAIRN_CLI_NAMED_H
#define CAIRN_CLI_NAMED_H

#include "cli/cli.h"
#include "record/facts.h"

/* The run of this name; NULL: the newest. */
int named_run(struct cli *cli, struct db *db, const char *what, struct run_row *ret,
	      struct err *err);

/* The tasks of a run with their results (record/facts.h). */
int named_run_tasks(struct cli *cli, struct db *db, const struct run_row *run,
		    struct facts_task **ret, size_t *ret_n, struct err *err);

/* Finds TASK/OUTPUT, STEP/OUTPUT, or TASK or STEP alone when it has one output. ERR_NOT_FOUND;
 * ERR_INVALID when several match. */
int named_find_output(const struct facts_task *tasks, size_t n, const char *what,
		      const struct facts_task **ret_task, const struct named_content **ret,
		      struct err *err);
/* The output of each task of a step that STEP/OUTPUT means, or STEP alone when it has one output.
 * `ret` has room for n. Returns how many there are; *ret_of is how many tasks the step has. */
struct named_output {
	const struct facts_task *task;
	const struct named_content *output;
};
size_t named_find_outputs(const struct facts_task *tasks, size_t n, const char *what,
			  struct named_output *ret, size_t *ret_of);

#endif
