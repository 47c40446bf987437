/* cli/facts.h — facts about runs as several commands print them: JSON shapes, and what a person names by RUN and TASK/OUTPUT. */
#ifndef CAIRN_CLI_FACTS_H
#define CAIRN_CLI_FACTS_H

#include "cli/cli.h"
#include "record/results.h"

json_t *facts_time(int64_t wall_ns); /* ISO 8601 with milliseconds; null for 0 */
json_t *facts_run(const struct run_row *r); /* as `cairn runs --json` documents */
json_t *facts_text(const char *s);	     /* null for NULL; any bytes */

/* A run that says it is running, but whose engine is gone. */
bool facts_engine_died(const struct run_row *r);
/* "running", "succeeded", …, or "died" for the above. */
const char *facts_state(const struct run_row *r);

/* The run of --run, else the newest. */
int facts_find_run(struct cli *cli, struct db *db, const char *what, struct run_row *ret, struct err *err);

/* One task of a run with what it gave. */
struct facts_task {
	const char *task, *step;
	enum result_state state;
	struct digest key;
	int64_t duration_ns;
	struct named_content *outputs;
	size_t n_outputs;
	struct metric_value *metrics;
	size_t n_metrics;
};
/* From the results table; for a run that has none yet, from its attempts that ended well. In cli->arena. */
int facts_tasks(struct cli *cli, struct db *db, const struct run_row *run, struct facts_task **ret, size_t *ret_n, struct err *err);

/* TASK/OUTPUT, STEP/OUTPUT, or TASK or STEP alone when it has one output. ERR_NOT_FOUND; ERR_INVALID when several match. */
int facts_find_output(struct cli *cli, const struct facts_task *tasks, size_t n, const char *what, const struct facts_task **ret_task,
		      const struct named_content **ret, struct err *err);

#endif
