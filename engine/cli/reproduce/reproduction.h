/* engine/cli/reproduce/reproduction.h — shows a reproduction (run/reproduce/reproduce.h) as text,
 * JSON or one HTML page.
 *
 * The first divergence comes first, with what was different around it; then each task. Only equal
 * bytes are called "identical". An output that is equal after a normalisation is shown with the
 * normaliser, one within a tolerance with the tolerance.
 */
#ifndef CAIRN_CLI_REPRODUCE_REPRODUCTION_H
#define CAIRN_CLI_REPRODUCE_REPRODUCTION_H

#include "cli/cli.h"
#include "run/reproduce/reproduce.h"

void reproduction_print(struct cli *cli, const struct reproduction *r);
/* {original, was, is, mode, verdict, first, tasks: [{task, step, verdict, why, after_divergence,
 * was_duration_ns, duration_ns, outputs: [{name, was, is, verdict, normaliser, path, offset,
 * detail, files: {compared, normalised, different, missing, extra}}], metrics: [{name, was, is,
 * tolerance, verdict}]}], environment: [{what, was, is}]}. The outermost was and is are runs as
 * `cairn runs --json` prints them. */
json_t *reproduction_json(const struct reproduction *r);
/* The page has no external parts and no script, and suits light and dark. Written atomically. */
int reproduction_write_html(struct cli *cli, const struct reproduction *r, const char *path,
			    struct err *err);

/* Shared by the three forms. */

const char *reproduce_verdict_name(
	enum reproduce_verdict v); /* "reproduced", "diverged", "not comparable", "not selected" */
enum cli_style reproduce_verdict_style(enum reproduce_verdict v);
enum cli_style reproduced_verdict_style(enum compare_verdict v);
size_t reproduction_count(const struct reproduction *r, enum reproduce_verdict v); /* tasks */
/* One line: "identical", "identical after normalisation (gzip+tar): mtime of member a.txt",
 * "different: weights.npz at byte 17: npz: w.npy: …"; in cli->arena. */
const char *reproduced_output_text(struct cli *cli, const struct reproduced_output *o);
/* "0.91 → 0.92, within tolerance 0.02" */
const char *reproduced_metric_text(struct cli *cli, const struct reproduced_metric *m);
/* "every output is the same bytes", "train diverged first: 2 of 5 tasks gave something else" … */
const char *reproduction_summary(struct cli *cli, const struct reproduction *r);

#endif
