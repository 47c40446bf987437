/* runners/checkpoint.h — directories that outlive attempts: state_dir/checkpoints/KEY/ with data/
 * (what the program sees), series.jsonl (what the launcher keeps of its metrics, steps/train) and
 * attempts (who had it).
 *
 * The program's path is a symlink to data/, so that what it wrote is there whatever killed it or
 * us. One attempt of a key at a time (the engine holds the key's lease). Worker threads may call
 * these.
 */
#ifndef CAIRN_RUNNERS_CHECKPOINT_H
#define CAIRN_RUNNERS_CHECKPOINT_H

#include "runners/runner.h"

/* Makes the directory of the attempt's key appear at its checkpoint_path below dir_fd, and notes
 * the attempt. *ret_continues: ids of the earlier attempts that left something ("12 15", the caller
 * frees), NULL when there is nothing. */
int checkpoint_attach(const char *state_dir, const struct runner_attempt *a, int dir_fd,
		      char **ret_continues, struct err *err);
/* What can't be removed stays; nothing relies on it. */
void checkpoint_drop(const char *state_dir, const struct digest *key);

#endif
