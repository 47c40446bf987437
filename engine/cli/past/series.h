/* engine/cli/past/series.h — metrics over steps, as a step wrote them: its output
 * STEP_SERIES_OUTPUT (model/pipeline.h).
 *
 * run/view/series.h reads a step's series, tensorboard.c writes event files, metrics_series.c is
 * the command.
 */
#ifndef CAIRN_CLI_PAST_SERIES_H
#define CAIRN_CLI_PAST_SERIES_H

#include "cli/cli.h"
#include "record/facts.h"
#include "run/view/series.h"

/* TensorBoard. */

/* The bytes of an event file that holds the series as scalars. */
void tensorboard_add(struct str *out, const struct series *s);
/* Writes dir/RUN/TASK/events.out.tfevents.…, one for each series; replaces an earlier export of the
 * same series. */
int tensorboard_write(const char *dir, const struct series *v, size_t n, struct err *err);

/* `cairn metrics` with --plot, --svg or --tensorboard. */

struct metrics_source {
	const struct run_row *run;
	const struct facts_task *task;
};
bool metrics_wants_series(const struct cli_args *args);
/* Newest run first. --plot and --svg show only the newest run that has series, unless runs are
 * named or counted. */
int metrics_show_series(struct cli *cli, const struct cli_args *args,
			const struct metrics_source *v, size_t n, struct err *err);

#endif
