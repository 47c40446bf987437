/* engine/cli/past/get_run.h — a whole run as a directory: what `cairn get RUN` makes.
 *
 * 	manifest.json                 unchanged: its SHA-256 is the run hash
 * 	metrics.json                  {TASK: {NAME: VALUE}}
 * 	pipeline/                     the pipeline file and its step files
 * 	code/STEP/                    the code of each step
 * 	inputs/NAME                   only when asked for
 * 	outputs/TASK/OUTPUT, logs/TASK.log   of hits too
 *
 * In names of tasks a slash becomes %2F, and a % becomes %25.
 */
#ifndef CAIRN_CLI_PAST_GET_RUN_H
#define CAIRN_CLI_PAST_GET_RUN_H

#include "cli/what.h"

struct got_run {
	uint64_t contents, bytes; /* written: contents, and bytes of single files and listings */
	/* List of texts: content that is gone from the store, and its place in the directory. */
	json_t *missing;
};
/* Makes `dir`, which must not exist. When it fails, files that were written stay. ERR_INVALID when
 * the run has no hash; ERR_CORRUPT when its manifest was tampered with. The caller drops
 * ret->missing.
 */
int get_run(struct cli *cli, struct db *db, const struct run_row *run, const char *dir, bool inputs,
	    struct got_run *ret, struct err *err);

#endif
