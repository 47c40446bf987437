/* runners/checkpoint.h — directories that outlive attempts. state_dir/checkpoints/KEY/ holds data/
 * (what the program sees), series.jsonl (the metrics that the launcher keeps, steps/train) and
 * attempts (the ids of the attempts that used it).
 *
 * The program's path is a symlink to data/, so its files survive whatever kills the program or the
 * engine. One attempt of a key uses the directory at a time (the engine holds the key's lease).
 * Worker threads may call these functions.
 */
#ifndef CAIRN_RUNNERS_CHECKPOINT_H
#define CAIRN_RUNNERS_CHECKPOINT_H

#include "runners/runner.h"

/* Makes the directory of the attempt's key appear at its checkpoint_path below dir_fd, and records
 * the attempt. *ret_continues: ids of the earlier attempts that left something ("12 15", the caller
 * frees), or NULL when the directory is empty. */
int checkpoint_attach(const char *state_dir, const struct runner_attempt *a, int dir_fd,
		      char **ret_continues, struct err *err);
/* Files that can't be removed stay; nothing relies on their removal. */
void checkpoint_drop(const char *state_dir, const struct digest *key);

#endif
